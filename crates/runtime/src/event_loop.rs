//! The data plane: one thread that waits for events and carries bytes between sockets and the core.
//!
//! One turn of the loop: wait for events; read the clock once; handle every event; read the connections that are ready
//! although no event will come for them; run the timers that are due; read again connections that were held back until
//! output drained; go on with some TLS handshakes. Each step ends in [`EventLoop::settle`], which writes the core's
//! outbox and carries out its requests.
//!
//! Registration is edge-triggered, so each event comes once. It is kept as [`Facts`] until a read returns fewer bytes
//! than there was room for. A connection that may not be read now (the core paused it, or the connection that it is
//! linked to has too much output waiting) keeps the fact. It is looked at again at [`Request::Resume`] or at the end of
//! a turn.
//!
//! [`Request::Resume`]: pgweir_core::Request::Resume

mod exit;

use crate::accept::Accepting;
use crate::cancel::Cancel;
use crate::closing::Closing;
use crate::connect::Connecting;
use crate::connection::Facts;
use crate::connections::Connections;
use crate::control::ControlSender;
use crate::dns::Resolver;
use crate::inbox::Message;
use crate::log::Log;
use crate::peers::Unresolved;
use crate::reading::{READ_BYTES, try_receive};
use crate::service_manager::ServiceManager;
use crate::settings::Settings;
use crate::slab::Slab;
use crate::takeover::{Relay, Succession};
use crate::timers::{Timer, Timers};
use crate::tls::TlsContexts;
use crate::token::Subject;
use crate::verifier::{QuestionId, Verifier};
use mio::event::Event;
use mio::{Events, Poll};
use pgweir_config::IoUringChoice;
use pgweir_core::{Command, ConnectionId, LogLevel, Pooler, ServerId, Time};
use std::collections::HashMap;
use std::io;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

/// The most events taken in one turn.
const EVENTS_MAX: usize = 1024;

/// Everything the data plane owns.
pub(crate) struct EventLoop {
    pub(crate) poll: Poll,
    pub(crate) pooler: Pooler,
    pub(crate) connections: Connections,
    pub(crate) connecting: HashMap<ServerId, Connecting>,
    pub(crate) cancels: Slab<Cancel>,
    /// Cancel requests for peers whose names are being looked up.
    pub(crate) unresolved: Vec<Unresolved>,
    pub(crate) closing: Slab<Closing>,
    pub(crate) accepting: Accepting,
    pub(crate) succession: Succession,
    /// TLS connections of clients and servers that another process serves.
    pub(crate) relays: Slab<Relay>,
    /// Connections from the earlier process that are not watched yet.
    pub(crate) unwatched: Vec<ConnectionId>,
    /// RELOADs whose files are being read.
    pub(crate) reloads_under_way: u32,
    pub(crate) resolver: Resolver,
    pub(crate) verifier: Verifier,
    pub(crate) timers: Timers,
    pub(crate) inbox: Receiver<Message>,
    pub(crate) control: ControlSender,
    pub(crate) service_manager: ServiceManager,
    pub(crate) settings: Settings,
    pub(crate) tls: TlsContexts,
    /// The TLS settings that a RELOAD has read, until the core accepts the configuration.
    pub(crate) read_tls: Option<TlsContexts>,
    pub(crate) log: Log,
    /// The time of this turn.
    pub(crate) now: Time,
    started: Instant,
    /// Room for records of TLS; empty until there is a TLS connection.
    pub(crate) records: Vec<u8>,
    /// Connections that have input but are not read until another connection's output has drained.
    pub(crate) held_back: Vec<ConnectionId>,
    /// A function further up the stack is carrying out requests.
    does_requests: bool,
    /// Set when the core asked for the end of the process: the latest time until which output is waited for.
    exit_at: Option<Time>,
}

/// The parts of an event loop.
pub(crate) struct Parts {
    pub(crate) poll: Poll,
    pub(crate) pooler: Pooler,
    pub(crate) connections: Connections,
    pub(crate) accepting: Accepting,
    pub(crate) succession: Succession,
    pub(crate) resolver: Resolver,
    pub(crate) verifier: Verifier,
    pub(crate) inbox: Receiver<Message>,
    pub(crate) control: ControlSender,
    pub(crate) service_manager: ServiceManager,
    pub(crate) settings: Settings,
    pub(crate) tls: TlsContexts,
    pub(crate) log: Log,
    /// The instant of [`Time`] zero.
    pub(crate) started: Instant,
}

impl EventLoop {
    pub(crate) fn new(parts: Parts) -> Self {
        EventLoop {
            poll: parts.poll,
            pooler: parts.pooler,
            connections: parts.connections,
            connecting: HashMap::new(),
            cancels: Slab::default(),
            unresolved: Vec::new(),
            closing: Slab::default(),
            accepting: parts.accepting,
            succession: parts.succession,
            relays: Slab::default(),
            unwatched: Vec::new(),
            reloads_under_way: 0,
            resolver: parts.resolver,
            verifier: parts.verifier,
            timers: Timers::default(),
            inbox: parts.inbox,
            control: parts.control,
            service_manager: parts.service_manager,
            settings: parts.settings,
            tls: parts.tls,
            read_tls: None,
            log: parts.log,
            now: Time(0),
            started: parts.started,
            records: Vec::new(),
            held_back: Vec::new(),
            does_requests: false,
            exit_at: None,
        }
    }

    /// Runs until the core asks for the end.
    pub(crate) fn run(&mut self) -> io::Result<()> {
        let mut events = Events::with_capacity(EVENTS_MAX);
        let mut scratch = vec![0; READ_BYTES];
        self.open_sends();
        self.look_at_clock();
        self.pooler.handle_timeout(self.now);
        self.settle();
        self.check_zones();
        while !self.is_over() {
            if self.succession.is_over {
                return self.run_relays();
            }
            match self.poll.poll(&mut events, self.sleep_max()) {
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                other => other?,
            }
            self.look_at_clock();
            // Servers come first: a server's last message is handled before a client can get that server.
            for event in &events {
                if let Subject::Connection(ConnectionId::Server(server)) = Subject::of(event.token()) {
                    self.handle_connection_event(ConnectionId::Server(server), event, &mut scratch);
                }
            }
            for event in &events {
                match Subject::of(event.token()) {
                    Subject::Connection(ConnectionId::Server(_)) => {}
                    Subject::Connection(ConnectionId::Client(client)) => {
                        self.handle_connection_event(ConnectionId::Client(client), event, &mut scratch);
                    }
                    other => self.handle_other_event(other),
                }
            }
            self.read_ready(&mut scratch);
            self.accept_ready();
            self.run_timers();
            self.service_manager.turn(self.now);
            self.release_held_back();
            self.end_turn();
            self.send_output();
            self.shake_hands(&mut scratch);
            self.attend_to_successor();
            if !self.unwatched.is_empty() {
                self.watch_some();
            }
            self.send_output();
        }
        Ok(())
    }

    fn open_sends(&mut self) {
        let (level, text) = match self.connections.sends.open(self.settings.io_uring) {
            Ok(text) => (LogLevel::Log, text.to_owned()),
            Err(text) if self.settings.io_uring == IoUringChoice::On => (LogLevel::Warning, text),
            Err(text) => (LogLevel::Log, text),
        };
        self.log.write(level, &text);
    }

    /// Sends the output of this turn that has not been sent at once.
    #[inline]
    fn send_output(&mut self) {
        self.connections.send_queued();
        if let Some(error) = self.connections.sends.take_failure() {
            let text = format!("io_uring is no longer used: {error}");
            self.log.write(LogLevel::Warning, &text);
        }
    }

    /// Microseconds since the clock was read.
    pub(crate) fn since_look_at_clock_us(&self) -> u64 {
        (self.started.elapsed().as_micros() as u64).saturating_sub(self.now.0)
    }

    pub(crate) fn look_at_clock(&mut self) {
        self.now = Time(self.started.elapsed().as_micros() as u64);
    }

    /// The longest time that the loop may sleep; `None` is no limit.
    fn sleep_max(&self) -> Option<Duration> {
        if self.pooler.awaits_turn_end()
            || !self.connections.ready.is_empty()
            || !self.connections.handshakes.is_empty()
            || self.accepting.is_ready()
            || !self.unwatched.is_empty()
        {
            return Some(Duration::ZERO);
        }
        let of_manager = self.service_manager.next(self.now);
        let of_successor = self.succession.next(self.now);
        let next = [
            self.pooler.poll_timeout(),
            self.timers.next(),
            self.exit_at,
            of_manager,
            of_successor,
        ];
        next.into_iter().flatten().min().map(|at| at.since(self.now))
    }

    /// An event of something that is no connection of the core.
    #[inline(never)]
    fn handle_other_event(&mut self, subject: Subject) {
        match subject {
            Subject::Inbox => self.read_inbox(),
            Subject::Listener(index) => self.accept(index),
            Subject::Refusal => self.handle_refusal_event(),
            Subject::Closing(slot) => self.handle_closing_event(slot),
            Subject::Cancel(slot) => self.handle_cancel_event(slot),
            Subject::Gate => self.handle_gate_event(),
            // Looked at in every turn.
            Subject::Successor => {}
            Subject::Relay(_) | Subject::Connection(_) => {}
        }
    }

    #[inline(always)]
    fn handle_connection_event(&mut self, id: ConnectionId, event: &Event, scratch: &mut Vec<u8>) {
        let are_congested = self.connections.are_congested();
        let Some(connection) = self.connections.get(id) else {
            if let ConnectionId::Server(server) = id {
                self.handle_connecting_event(server, event);
            }
            return;
        };
        if event.is_readable() {
            connection.facts.set(Facts::READABLE);
        }
        if event.is_read_closed() || event.is_error() {
            connection.facts.set(Facts::READABLE);
            connection.facts.set(Facts::READ_CLOSED);
        }
        if event.is_write_closed() || event.is_error() {
            connection.facts.set(Facts::HUNG_UP);
        }
        let reads = connection.facts.has(Facts::READABLE);
        if event.is_writable() && !connection.pending.is_empty() {
            self.connections.flush(id);
            if reads {
                self.read_again(id, scratch);
            }
        } else if reads {
            let attempt = try_receive(&self.pooler, are_congested, connection, id, scratch);
            let after = self.after_attempt(id, attempt, scratch);
            self.read_on(id, after, scratch);
        }
    }

    /// A connection is gone.
    #[cold]
    pub(crate) fn closed(&mut self, id: ConnectionId) {
        self.connections.remove(id);
        match id {
            ConnectionId::Client(client) => self.pooler.handle_client_closed(self.now, client),
            ConnectionId::Server(server) => self.pooler.handle_server_closed(self.now, server),
        }
        self.settle();
    }

    /// Follows every `handle_*` call without input: writes the outbox, then carries out the requests.
    pub(crate) fn settle(&mut self) {
        self.write_outbox();
        self.do_requests();
    }

    /// Writes an outbox that does not refer to input.
    pub(crate) fn write_outbox(&mut self) {
        self.write_output(&[]);
    }

    /// Writes the outbox, which may refer to this input.
    pub(crate) fn write_output(&mut self, input: &[u8]) {
        self.write_usual_output(input);
    }

    /// Like [`EventLoop::write_output`], but inlined into its caller.
    #[inline(always)]
    pub(crate) fn write_usual_output(&mut self, input: &[u8]) {
        self.connections.write(self.pooler.outbox(), input);
        self.pooler.outbox().clear();
    }

    /// Carries out the core's requests. This may call the core again. The requests of such a call are carried out in
    /// order by the same loop, not by a nested one.
    #[inline]
    pub(crate) fn do_requests(&mut self) {
        if self.pooler.has_requests() || !self.connections.behind.is_empty() {
            self.do_all_requests();
        }
    }

    #[inline(never)]
    fn do_all_requests(&mut self) {
        if self.does_requests {
            return;
        }
        self.does_requests = true;
        loop {
            while let Some(request) = self.pooler.poll_request() {
                self.do_request(request);
            }
            let Some(client) = self.connections.behind.pop() else {
                break;
            };
            let bytes = self.connections.pending_bytes(client.into());
            self.pooler.handle_client_behind(self.now, client, bytes);
            self.write_outbox();
        }
        self.does_requests = false;
    }

    /// Tells the core that all input of this turn has been read, if the core waits for that.
    fn end_turn(&mut self) {
        while self.pooler.awaits_turn_end() {
            self.pooler.handle_turn_end(self.now);
            self.settle();
        }
    }

    fn run_timers(&mut self) {
        while let Some(timer) = self.timers.pop(self.now) {
            match timer {
                Timer::Closing(slot) => drop(self.closing.remove(slot)),
                Timer::Cancel(slot) => self.cancel_timed_out(slot),
                Timer::ConnectAgain(server) => self.connect_again(server),
                Timer::ConnectBeside(server) => self.connect_beside(server),
                Timer::Refusal => self.finish_refusal(),
                Timer::AcceptAgain => self.accepting.try_again(),
                Timer::Zones => self.check_zones(),
                Timer::Question(question) => self.question_is_overdue(question),
            }
        }
        if self.pooler.poll_timeout().is_some_and(|at| at <= self.now) {
            self.pooler.handle_timeout(self.now);
            self.settle();
        }
    }

    /// Sets the timer of a question that is being asked.
    pub(crate) fn watch_question(&mut self, question: Option<QuestionId>) {
        if let Some(question) = question {
            let timer = Timer::Question(question);
            let wait = self.settings.login_wait.unwrap_or(timer.duration());
            self.timers.set_in(self.now, wait, timer);
        }
    }

    fn question_is_overdue(&mut self, question: QuestionId) {
        let connections = &mut self.connections;
        let overdue = self
            .verifier
            .is_overdue(question, |asker| connections.get(asker).is_some());
        if let Some((text, next)) = overdue {
            self.log.write(LogLevel::Warning, &text);
            self.watch_question(next);
        }
    }

    pub(crate) fn read_inbox(&mut self) {
        while let Ok(message) = self.inbox.try_recv() {
            match message {
                Message::Command(command) => {
                    if command == Command::ShutdownWaitForClients {
                        self.accept_everyone();
                    }
                    if let Command::ShutdownWaitForClients | Command::ShutdownWaitForServers = command {
                        self.service_manager.stopping();
                    }
                    self.pooler.handle_command(self.now, command);
                }
                Message::Reloaded { by, outcome, tls } => {
                    self.read_tls = tls;
                    self.reloads_under_way = self.reloads_under_way.saturating_sub(1);
                    self.pooler.handle_reload(self.now, by, outcome);
                    self.settle();
                    // The core may have refused the configuration.
                    self.read_tls = None;
                    self.service_manager.ready();
                }
                Message::Verified {
                    asker,
                    question,
                    answer,
                } => {
                    let connections = &mut self.connections;
                    let next = self
                        .verifier
                        .answered(question, |asker| connections.get(asker).is_some());
                    self.watch_question(next);
                    self.pooler.handle_verified(self.now, asker, answer);
                }
                Message::Resolved { host, addresses } => {
                    self.handle_resolved(&host, addresses);
                    continue;
                }
                Message::ZoneSerial { zone, serial } => {
                    self.handle_serial(&zone, serial);
                    continue;
                }
                Message::TlsPanic(text) => {
                    self.log.write(LogLevel::Error, &text);
                    continue;
                }
            }
            self.settle();
        }
    }

    /// Uses new values of the settings that can change while running.
    pub(crate) fn use_settings(&mut self, settings: Settings) {
        self.log.configure(&settings.log);
        self.accepting.ask_for_machine_again();
        self.accepting.use_tcp_settings(&settings.tcp, &mut self.log);
        self.resolver.use_settings(&settings.dns);
        self.settings.take_changeable(settings);
    }
}
