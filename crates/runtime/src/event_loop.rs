//! The data plane: one thread that waits for events and carries bytes between sockets and the core.
//!
//! One turn of the loop: wait; note the time once; handle every event; read the connections that are ready although no
//! event will tell; run what is due; let those read again whose reader has caught up. Whatever is handled ends in
//! [`EventLoop::settle`], which writes the core's outbox and does what it requests.
//!
//! Registration is edge-triggered, so an event is told once. What it told is kept as [`Facts`] until a read comes up
//! short; a connection that may not be read now (the core paused it, or the other end of its link is behind) keeps
//! the fact, and is looked at again at [`Request::Resume`] or at the end of a turn.
//!
//! [`Request::Resume`]: pgweir_core::Request::Resume

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
use crate::settings::Settings;
use crate::slab::Slab;
use crate::timers::{Timer, Timers};
use crate::token::Subject;
use crate::transport::Received;
use mio::event::Event;
use mio::{Events, Poll};
use pgweir_core::{ConnectionId, Pooler, ReloadOutcome, ServerId, Time};
use std::collections::HashMap;
use std::io;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

/// Events taken per turn.
const EVENTS_MAX: usize = 1024;

/// Bytes read at once. The buffer belongs to the loop, not to a connection, so it can be large, yet stay in the cache.
const READ_BYTES: usize = 64 * 1024;

/// Full reads from one connection before the others get their turn.
const READS_PER_TURN_MAX: usize = 4;

/// A connection is not read while more than this many bytes wait for the other end of its link.
const PENDING_BYTES_MAX: usize = 256 * 1024;

/// Time for output to go out when the process ends.
const EXIT_WAIT: Duration = Duration::from_secs(1);

/// Whether to go on reading a connection.
#[derive(Debug, PartialEq, Eq)]
enum AfterRead {
    /// There may be more.
    More,
    /// All was read, it may not be read now, or it is gone.
    Enough,
}

/// Everything the data plane owns.
pub(crate) struct EventLoop {
    pub(crate) poll: Poll,
    pub(crate) pooler: Pooler,
    pub(crate) connections: Connections,
    pub(crate) connecting: HashMap<ServerId, Connecting>,
    pub(crate) cancels: Slab<Cancel>,
    pub(crate) closing: Slab<Closing>,
    pub(crate) accepting: Accepting,
    pub(crate) resolver: Resolver,
    pub(crate) timers: Timers,
    pub(crate) inbox: Receiver<Message>,
    pub(crate) control: ControlSender,
    pub(crate) settings: Settings,
    pub(crate) log: Log,
    /// Time of this turn.
    pub(crate) now: Time,
    started: Instant,
    scratch: Vec<u8>,
    /// Connections with something to read whose reading waits for output of another to drain.
    held_back: Vec<ConnectionId>,
    /// Requests are being done further up the stack.
    does_requests: bool,
    /// Set when the core asked for the end: wait for output until then at most.
    exit_at: Option<Time>,
}

/// What an event loop is made of.
pub(crate) struct Parts {
    pub(crate) poll: Poll,
    pub(crate) pooler: Pooler,
    pub(crate) connections: Connections,
    pub(crate) accepting: Accepting,
    pub(crate) resolver: Resolver,
    pub(crate) inbox: Receiver<Message>,
    pub(crate) control: ControlSender,
    pub(crate) settings: Settings,
    pub(crate) log: Log,
    /// The instant that is [`Time`] zero.
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
            closing: Slab::default(),
            accepting: parts.accepting,
            resolver: parts.resolver,
            timers: Timers::default(),
            inbox: parts.inbox,
            control: parts.control,
            settings: parts.settings,
            log: parts.log,
            now: Time(0),
            started: parts.started,
            scratch: vec![0; READ_BYTES],
            held_back: Vec::new(),
            does_requests: false,
            exit_at: None,
        }
    }

    /// Runs until the core asks for the end.
    pub(crate) fn run(&mut self) -> io::Result<()> {
        let mut events = Events::with_capacity(EVENTS_MAX);
        self.look_at_clock();
        self.pooler.handle_timeout(self.now);
        self.settle();
        while !self.is_over() {
            match self.poll.poll(&mut events, self.sleep_max()) {
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                other => other?,
            }
            self.look_at_clock();
            // Servers first: what one says at its end is heard before a client is given that server.
            let of_server =
                |event: &&Event| matches!(Subject::of(event.token()), Subject::Connection(ConnectionId::Server(_)));
            events
                .iter()
                .filter(of_server)
                .for_each(|event| self.handle_event(event));
            let of_others = |event: &&Event| !of_server(event);
            events
                .iter()
                .filter(of_others)
                .for_each(|event| self.handle_event(event));
            self.read_ready();
            self.accept_ready();
            self.run_timers();
            self.release_held_back();
        }
        Ok(())
    }

    fn look_at_clock(&mut self) {
        self.now = Time(self.started.elapsed().as_micros() as u64);
    }

    /// How long the loop may sleep; `None` is for ever.
    fn sleep_max(&self) -> Option<Duration> {
        if !self.connections.ready.is_empty() || self.accepting.is_ready() {
            return Some(Duration::ZERO);
        }
        let next = [self.pooler.poll_timeout(), self.timers.next(), self.exit_at];
        next.into_iter().flatten().min().map(|at| at.since(self.now))
    }

    fn handle_event(&mut self, event: &Event) {
        match Subject::of(event.token()) {
            Subject::Connection(id) => self.handle_connection_event(id, event),
            Subject::Inbox => self.read_inbox(),
            Subject::Listener(index) => self.accept(index),
            Subject::Refusal => self.handle_refusal_event(),
            Subject::Closing(slot) => self.handle_closing_event(slot),
            Subject::Cancel(slot) => self.handle_cancel_event(slot),
        }
    }

    #[inline]
    fn handle_connection_event(&mut self, id: ConnectionId, event: &Event) {
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
        }
        if reads {
            self.read(id);
        }
    }

    /// Reads what a connection has, within the bounds of fairness.
    fn read(&mut self, id: ConnectionId) {
        let mut scratch = std::mem::take(&mut self.scratch);
        let mut reads = 0;
        while self.read_once(id, &mut scratch) == AfterRead::More {
            reads += 1;
            if reads == READS_PER_TURN_MAX {
                self.connections.make_ready(id);
                break;
            }
        }
        if scratch.len() > READ_BYTES {
            scratch.truncate(READ_BYTES);
            scratch.shrink_to_fit();
        }
        self.scratch = scratch;
    }

    /// One read, and everything that follows from it.
    fn read_once(&mut self, id: ConnectionId, scratch: &mut Vec<u8>) -> AfterRead {
        if !self.connections.get(id).is_some_and(|c| c.facts.has(Facts::READABLE)) {
            return AfterRead::Enough;
        }
        if !self.pooler.may_read(id) {
            return self.look_for_end(id);
        }
        if self.is_held_back(id) {
            if let Some(connection) = self.connections.get(id)
                && !connection.facts.has(Facts::IN_HELD_BACK)
            {
                connection.facts.set(Facts::IN_HELD_BACK);
                self.held_back.push(id);
            }
            return self.look_for_end(id);
        }
        let Some(connection) = self.connections.get(id) else {
            return AfterRead::Enough;
        };
        let kept_bytes = connection.kept.len();
        if kept_bytes > 0 {
            let needed = self.pooler.needs_bytes(id);
            if needed > kept_bytes {
                return self.read_more(id, scratch, needed);
            }
            if scratch.len() < kept_bytes + READ_BYTES / 2 {
                scratch.resize(kept_bytes + READ_BYTES, 0);
            }
            scratch[..kept_bytes].copy_from_slice(&connection.kept);
        }
        let room = scratch.len() - kept_bytes;
        let count = match connection.transport.receive(&mut scratch[kept_bytes..]) {
            Received::Bytes(count) => count,
            Received::WouldBlock => {
                connection.facts.clear(Facts::READABLE);
                return AfterRead::Enough;
            }
            Received::Closed => {
                self.closed(id);
                return AfterRead::Enough;
            }
        };
        connection.facts.clear(Facts::SPOKE_LAST);
        // A short read has drained the socket (epoll(7), question 9), unless an end-of-file stands behind it.
        let more = count == room || connection.facts.has(Facts::READ_CLOSED);
        if !more {
            connection.facts.clear(Facts::READABLE);
        }
        let input = &scratch[..kept_bytes + count];
        let consumed = self.pass_to_core(id, input);
        self.connections.write(self.pooler.outbox(), input);
        self.pooler.outbox().clear();
        if let Some(connection) = self.connections.get(id) {
            connection.keep(&input[consumed..]);
        }
        self.do_requests();
        if more { AfterRead::More } else { AfterRead::Enough }
    }

    /// One read behind the beginning of a message that must be whole: what comes is added to what is kept, and the core sees
    /// it when all is there. A message that comes in small pieces is copied once, not once for each piece.
    #[cold]
    fn read_more(&mut self, id: ConnectionId, scratch: &mut [u8], needed: usize) -> AfterRead {
        let Some(connection) = self.connections.get(id) else {
            return AfterRead::Enough;
        };
        let count = match connection.transport.receive(&mut scratch[..READ_BYTES]) {
            Received::Bytes(count) => count,
            Received::WouldBlock => {
                connection.facts.clear(Facts::READABLE);
                return AfterRead::Enough;
            }
            Received::Closed => {
                self.closed(id);
                return AfterRead::Enough;
            }
        };
        connection.facts.clear(Facts::SPOKE_LAST);
        let more = count == READ_BYTES || connection.facts.has(Facts::READ_CLOSED);
        if !more {
            connection.facts.clear(Facts::READABLE);
        }
        connection.kept.extend_from_slice(&scratch[..count]);
        if connection.kept.len() >= needed {
            self.resume(id);
            self.do_requests();
        }
        if more { AfterRead::More } else { AfterRead::Enough }
    }

    #[inline]
    fn pass_to_core(&mut self, id: ConnectionId, input: &[u8]) -> usize {
        match id {
            ConnectionId::Client(client) => self.pooler.handle_client_bytes(self.now, client, input),
            ConnectionId::Server(server) => self.pooler.handle_server_bytes(self.now, server, input),
        }
    }

    /// The core lets a connection go on: it gets what was kept for it, and is read again if it has something.
    pub(crate) fn resume(&mut self, id: ConnectionId) {
        let Some(connection) = self.connections.get(id) else {
            return;
        };
        let kept = std::mem::take(&mut connection.kept);
        let consumed = self.pass_to_core(id, &kept);
        self.connections.write(self.pooler.outbox(), &kept);
        self.pooler.outbox().clear();
        if let Some(connection) = self.connections.get(id) {
            connection.kept = kept;
            connection.consume_kept(consumed);
            if connection.facts.has(Facts::READABLE) {
                self.connections.make_ready(id);
            }
        }
    }

    /// Back-pressure: whether the other end of the link, or a connection without a link itself, is too far behind.
    #[inline]
    fn is_held_back(&mut self, id: ConnectionId) -> bool {
        let behind = self.pooler.linked(id).unwrap_or(id);
        self.connections.pending_bytes(behind) > PENDING_BYTES_MAX
    }

    /// A connection that may not be read can still be found gone: a client that waits for a server and leaves must not
    /// get one.
    fn look_for_end(&mut self, id: ConnectionId) -> AfterRead {
        let Some(connection) = self.connections.get(id) else {
            return AfterRead::Enough;
        };
        let facts = connection.facts;
        let is_gone = match id {
            ConnectionId::Client(_) if facts.has(Facts::READ_CLOSED) => {
                facts.has(Facts::HUNG_UP) || facts.has(Facts::WRITE_FAILED) || connection.transport.is_at_end()
            }
            ConnectionId::Client(_) => false,
            ConnectionId::Server(_) => facts.has(Facts::WRITE_FAILED),
        };
        if is_gone {
            self.closed(id);
        }
        AfterRead::Enough
    }

    /// A connection is gone.
    pub(crate) fn closed(&mut self, id: ConnectionId) {
        self.connections.remove(id);
        match id {
            ConnectionId::Client(client) => self.pooler.handle_client_closed(self.now, client),
            ConnectionId::Server(server) => self.pooler.handle_server_closed(self.now, server),
        }
        self.settle();
    }

    /// What follows every `handle_*` call that had no input: writes the outbox, then does what is requested.
    pub(crate) fn settle(&mut self) {
        self.write_outbox();
        self.do_requests();
    }

    /// Writes an outbox that refers to no input.
    pub(crate) fn write_outbox(&mut self) {
        self.connections.write(self.pooler.outbox(), &[]);
        self.pooler.outbox().clear();
    }

    /// Does what the core requests. What is done may call the core again; the requests of that are done by the same
    /// loop, in their order, not by one inside it.
    fn do_requests(&mut self) {
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
            self.pooler.handle_client_behind(self.now, client);
            self.write_outbox();
        }
        self.does_requests = false;
    }

    fn read_ready(&mut self) {
        let mut ready = std::mem::take(&mut self.connections.ready);
        for id in ready.drain(..) {
            if let Some(connection) = self.connections.get(id) {
                connection.facts.clear(Facts::IN_READY);
                self.read(id);
            }
        }
        // Those made ready meanwhile go on in the other vector, and get their turn after the next events.
        if self.connections.ready.is_empty() {
            self.connections.ready = ready;
        }
    }

    /// Lets connections read again whose reader has caught up, has gone, or is no longer linked to them. Links change in
    /// any step of the core, so all of them are looked at.
    fn release_held_back(&mut self) {
        let mut i = 0;
        while i < self.held_back.len() {
            let id = self.held_back[i];
            if self.connections.get(id).is_some() && self.is_held_back(id) {
                i += 1;
                continue;
            }
            self.held_back.swap_remove(i);
            if let Some(connection) = self.connections.get(id) {
                connection.facts.clear(Facts::IN_HELD_BACK);
                self.connections.make_ready(id);
            }
        }
    }

    fn run_timers(&mut self) {
        while let Some(timer) = self.timers.pop(self.now) {
            match timer {
                Timer::Closing(slot) => drop(self.closing.remove(slot)),
                Timer::Cancel(slot) => self.finish_cancel(slot),
                Timer::ConnectAgain(server) => self.connect_again(server),
                Timer::Refusal => self.finish_refusal(),
                Timer::AcceptAgain => self.accepting.try_again(),
            }
        }
        if self.pooler.poll_timeout().is_some_and(|at| at <= self.now) {
            self.pooler.handle_timeout(self.now);
            self.settle();
        }
    }

    fn read_inbox(&mut self) {
        while let Ok(message) = self.inbox.try_recv() {
            match message {
                Message::Command(command) => self.pooler.handle_command(self.now, command),
                Message::Reloaded { by, outcome } => {
                    if let ReloadOutcome::New(config, _) = &outcome {
                        self.use_settings(Settings::of(config));
                    }
                    self.pooler.handle_reload(self.now, by, outcome);
                }
                Message::Resolved { host, addresses } => {
                    self.handle_resolved(&host, addresses);
                    continue;
                }
            }
            self.settle();
        }
    }

    /// Settings that can change while running.
    pub(crate) fn use_settings(&mut self, settings: Settings) {
        self.log.configure(&settings.log);
        self.accepting.use_tcp_settings(&settings.tcp);
        self.resolver.use_settings(&settings.dns);
        self.settings.take_changeable(settings);
    }

    /// The core asks for the end of the process.
    pub(crate) fn exit(&mut self) {
        self.connections.flush_all();
        self.exit_at.get_or_insert(self.now + EXIT_WAIT);
    }

    fn is_over(&self) -> bool {
        self.exit_at
            .is_some_and(|at| at <= self.now || !self.has_output_on_its_way())
    }
}
