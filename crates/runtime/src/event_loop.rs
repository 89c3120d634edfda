//! The data plane: one thread that waits for events and carries bytes between sockets and the core.
//!
//! One turn of the loop: wait for events; read the clock once; handle every event; read the connections that are ready
//! although no event will come for them; run the timers that are due; read again connections whose peer has taken its
//! output. Each step ends in [`EventLoop::settle`], which writes the core's outbox and carries out its requests.
//!
//! Registration is edge-triggered, so each event comes once. It is kept as [`Facts`] until a read returns fewer bytes
//! than there was room for. A connection that may not be read now (the core paused it, or the other end of its link has
//! too much output waiting) keeps the fact. It is looked at again at [`Request::Resume`] or at the end of a turn.
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
use crate::peers::Unresolved;
use crate::service_manager::ServiceManager;
use crate::settings::Settings;
use crate::slab::Slab;
use crate::takeover::{Relay, Succession};
use crate::timers::{Timer, Timers};
use crate::tls::TlsContexts;
use crate::token::Subject;
use crate::transport::Received;
use crate::verifier::Verifier;
use mio::event::Event;
use mio::{Events, Poll};
use pgweir_core::{ClientId, ConnectionId, Pooler, ServerId, Time};
use std::collections::HashMap;
use std::io;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

/// The most events taken in one turn.
const EVENTS_MAX: usize = 1024;

/// The most bytes of one read. The buffer belongs to the loop, not to a connection, so it can be large and still fit
/// into the processor's cache.
pub(crate) const READ_BYTES: usize = 64 * 1024;

/// Full reads from one connection before other connections get their turn.
const READS_PER_TURN_MAX: usize = 4;

/// A connection is not read while more than this many bytes wait for the other end of its link.
const PENDING_BYTES_MAX: usize = 256 * 1024;

/// The time that output has to be sent when the process ends.
const EXIT_WAIT: Duration = Duration::from_secs(1);

/// Whether to go on reading a connection.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum AfterRead {
    /// There may be more.
    More,
    /// All bytes were read, or the connection may not be read now, or it is gone.
    Enough,
}

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
    /// Connections of the process before that are not watched yet.
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
    /// What a RELOAD has read, until the core takes its configuration.
    pub(crate) read_tls: Option<TlsContexts>,
    pub(crate) log: Log,
    /// The time of this turn.
    pub(crate) now: Time,
    started: Instant,
    /// Room for records of TLS; empty until there is a TLS connection.
    pub(crate) records: Vec<u8>,
    /// Connections that have input but are not read until another connection's output has drained.
    held_back: Vec<ConnectionId>,
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
                if Subject::is_server(event.token()) {
                    self.handle_event(event, &mut scratch);
                }
            }
            for event in &events {
                if !Subject::is_server(event.token()) {
                    self.handle_event(event, &mut scratch);
                }
            }
            self.read_ready(&mut scratch);
            self.accept_ready();
            self.run_timers();
            self.service_manager.turn(self.now);
            self.release_held_back();
            self.attend_to_successor();
            if !self.unwatched.is_empty() {
                self.watch_some();
            }
        }
        Ok(())
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
        if !self.connections.ready.is_empty() || self.accepting.is_ready() || !self.unwatched.is_empty() {
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

    #[inline(always)]
    fn handle_event(&mut self, event: &Event, scratch: &mut Vec<u8>) {
        match Subject::of(event.token()) {
            Subject::Connection(id) => self.handle_connection_event(id, event, scratch),
            Subject::Inbox => self.read_inbox(),
            Subject::Listener(index) => self.accept(index),
            Subject::Refusal => self.handle_refusal_event(),
            Subject::Closing(slot) => self.handle_closing_event(slot),
            Subject::Cancel(slot) => self.handle_cancel_event(slot),
            Subject::Gate => self.handle_gate_event(),
            // Looked at in every turn.
            Subject::Successor => {}
            Subject::Relay(_) => {}
        }
    }

    #[inline(always)]
    fn handle_connection_event(&mut self, id: ConnectionId, event: &Event, scratch: &mut Vec<u8>) {
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
            self.read(id, scratch);
        }
    }

    /// Reads a connection's input, but not so much that other connections starve.
    fn read(&mut self, id: ConnectionId, scratch: &mut Vec<u8>) {
        let mut reads = 0;
        while self.read_once(id, scratch) == AfterRead::More {
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
    }

    /// One read, and its consequences.
    #[inline(always)]
    fn read_once(&mut self, id: ConnectionId, scratch: &mut Vec<u8>) -> AfterRead {
        let are_congested = self.connections.are_congested();
        let Some(connection) = self.connections.get(id).filter(|c| c.facts.has(Facts::READABLE)) else {
            return AfterRead::Enough;
        };
        if !self.pooler.may_read(id) {
            return self.look_for_end(id);
        }
        if are_congested || connection.facts.has(Facts::TLS) || !connection.kept.is_empty() {
            return self.read_with_care(id, scratch);
        }
        let count = match connection.transport.receive(scratch) {
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
        // A short read has drained the socket (epoll(7), question 9), unless an end-of-file follows.
        let more = count == scratch.len() || connection.facts.has(Facts::READ_CLOSED);
        if !more {
            connection.facts.clear(Facts::READABLE);
        }
        let input = &scratch[..count];
        let consumed = self.pass_to_core(id, input);
        self.write_output(input);
        if consumed < count
            && let Some(connection) = self.connections.get(id)
        {
            connection.keep(&input[consumed..]);
        }
        self.do_requests();
        if more { AfterRead::More } else { AfterRead::Enough }
    }

    /// The same where bytes are kept, records come, or output waits for a socket.
    #[inline(never)]
    fn read_with_care(&mut self, id: ConnectionId, scratch: &mut Vec<u8>) -> AfterRead {
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
        if connection.facts.has(Facts::TLS) {
            return self.read_secured(id, scratch, kept_bytes);
        }
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
        let more = count == room || connection.facts.has(Facts::READ_CLOSED);
        if !more {
            connection.facts.clear(Facts::READABLE);
        }
        self.take_input(id, &scratch[..kept_bytes + count]);
        if more { AfterRead::More } else { AfterRead::Enough }
    }

    /// Passes kept and received bytes to the core, and keeps what it does not consume.
    pub(crate) fn take_input(&mut self, id: ConnectionId, input: &[u8]) {
        let consumed = self.pass_to_core(id, input);
        self.write_output(input);
        if let Some(connection) = self.connections.get(id) {
            connection.keep(&input[consumed..]);
        }
        self.do_requests();
    }

    /// Reads more of a message that must be complete before the core sees it. The new bytes are added to the kept ones,
    /// and the core gets the message when all of it is there. So a message that comes in small pieces is copied once,
    /// not once for each piece.
    #[cold]
    fn read_more(&mut self, id: ConnectionId, scratch: &mut [u8], needed: usize) -> AfterRead {
        let Some(connection) = self.connections.get(id) else {
            return AfterRead::Enough;
        };
        if connection.facts.has(Facts::TLS) {
            return self.read_more_secured(id, scratch, needed);
        }
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
        self.keep_more(id, &scratch[..count], needed);
        if more { AfterRead::More } else { AfterRead::Enough }
    }

    /// Adds received bytes to the kept ones, and passes them on when all that the core needs is there.
    pub(crate) fn keep_more(&mut self, id: ConnectionId, received: &[u8], needed: usize) {
        let Some(connection) = self.connections.get(id) else {
            return;
        };
        connection.kept.extend_from_slice(received);
        if connection.kept.len() >= needed {
            self.resume(id);
            self.do_requests();
        }
    }

    #[inline(always)]
    fn pass_to_core(&mut self, id: ConnectionId, input: &[u8]) -> usize {
        match id {
            ConnectionId::Client(client) => self.pooler.handle_client_bytes(self.now, client, input),
            ConnectionId::Server(server) => self.pooler.handle_server_bytes(self.now, server, input),
        }
    }

    /// The core lets a connection continue: it gets the kept bytes, and is read again if it has input.
    pub(crate) fn resume(&mut self, id: ConnectionId) {
        let Some(connection) = self.connections.get(id) else {
            return;
        };
        let kept = std::mem::take(&mut connection.kept);
        let consumed = self.pass_to_core(id, &kept);
        self.write_output(&kept);
        if let Some(connection) = self.connections.get(id) {
            connection.kept = kept;
            connection.consume_kept(consumed);
            if connection.facts.has(Facts::READABLE) {
                self.connections.make_ready(id);
            }
        }
    }

    /// Back-pressure: whether too much output waits for the other end of the link, or for the connection itself if it
    /// has no link.
    #[inline]
    fn is_held_back(&mut self, id: ConnectionId) -> bool {
        let behind = self.pooler.linked(id).unwrap_or(id);
        self.connections.pending_bytes(behind) > PENDING_BYTES_MAX
    }

    /// Finds out whether a connection that may not be read is gone: a client that waits for a server and leaves must
    /// not get one.
    #[inline(never)]
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
    #[inline]
    fn write_output(&mut self, input: &[u8]) {
        self.connections.write(self.pooler.outbox(), input);
        self.pooler.outbox().clear();
    }

    /// Carries out the core's requests. This may call the core again. The requests of such a call are carried out in
    /// order by the same loop, not by a nested one.
    #[inline]
    fn do_requests(&mut self) {
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
            self.pooler.handle_client_behind(self.now, client);
            self.write_outbox();
        }
        self.does_requests = false;
    }

    fn read_ready(&mut self, scratch: &mut Vec<u8>) {
        let mut ready = std::mem::take(&mut self.connections.ready);
        for id in ready.drain(..) {
            if let Some(connection) = self.connections.get(id) {
                connection.facts.clear(Facts::IN_READY);
                self.read(id, scratch);
            }
        }
        // Connections that became ready in the meantime are in the other vector, and get their turn after the next
        // events.
        if self.connections.ready.is_empty() {
            self.connections.ready = ready;
        }
    }

    /// Reads connections again if the peer has taken its output, is gone, or is no longer linked to them. Links may
    /// change in any step of the core, so all of these connections are looked at.
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
                Timer::Cancel(slot) => self.cancel_timed_out(slot),
                Timer::ConnectAgain(server) => self.connect_again(server),
                Timer::Refusal => self.finish_refusal(),
                Timer::AcceptAgain => self.accepting.try_again(),
                Timer::Zones => self.check_zones(),
            }
        }
        if self.pooler.poll_timeout().is_some_and(|at| at <= self.now) {
            self.pooler.handle_timeout(self.now);
            self.settle();
        }
    }

    pub(crate) fn read_inbox(&mut self) {
        while let Ok(message) = self.inbox.try_recv() {
            match message {
                Message::Command(command) => self.pooler.handle_command(self.now, command),
                Message::Reloaded { by, outcome, tls } => {
                    self.read_tls = tls;
                    self.reloads_under_way = self.reloads_under_way.saturating_sub(1);
                    self.pooler.handle_reload(self.now, by, outcome);
                    self.settle();
                    // The core may have refused the configuration.
                    self.read_tls = None;
                    self.service_manager.ready();
                }
                Message::Verified { client, lane, answer } => {
                    let connections = &mut self.connections;
                    let waits = |client: ClientId| connections.get(client.into()).is_some();
                    self.verifier.answered(lane, waits);
                    self.pooler.handle_verified(self.now, client, answer);
                }
                Message::Resolved { host, addresses } => {
                    self.handle_resolved(&host, addresses);
                    continue;
                }
                Message::ZoneSerial { zone, serial } => {
                    self.handle_serial(&zone, serial);
                    continue;
                }
            }
            self.settle();
        }
    }

    /// Uses new values of the settings that can change while running.
    pub(crate) fn use_settings(&mut self, settings: Settings) {
        self.log.configure(&settings.log);
        self.accepting.use_tcp_settings(&settings.tcp);
        self.resolver.use_settings(&settings.dns);
        self.settings.take_changeable(settings);
    }

    /// The core asks for the end of the process.
    pub(crate) fn exit(&mut self) {
        self.connections.flush_all();
        self.service_manager.stopping();
        self.exit_at.get_or_insert(self.now + EXIT_WAIT);
    }

    /// Whether the core has asked for the end of the process.
    pub(crate) fn is_exiting(&self) -> bool {
        self.exit_at.is_some()
    }

    /// Ends the time of closed connections, where there is no pooler any more.
    pub(crate) fn run_closing_timers(&mut self) {
        while let Some(timer) = self.timers.pop(self.now) {
            if let Timer::Closing(slot) = timer {
                self.closing.remove(slot);
            }
        }
    }

    fn is_over(&self) -> bool {
        self.exit_at
            .is_some_and(|at| at <= self.now || !self.has_output_on_its_way())
    }
}
