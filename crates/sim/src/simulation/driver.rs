//! The runtime's part: it follows the contract of `pgweir_core::pooler` exactly.

use super::canary::{Canary, with_bad_question, with_bad_setting, without_a_setting, without_cleanup};
use super::network::Peer;
use super::shutdown::Ending;
use super::world::{Event, World};
use pgweir_core::{ConnectionId, InternalWork, Request, ServerId, Verification, Verified};

impl World {
    /// Gives bytes to the core and writes its output; returns how many bytes it consumed.
    pub(super) fn pass_to_core(&mut self, id: ConnectionId, input: &[u8]) -> usize {
        self.trace.bytes(self.now_us, id.token(), input);
        let consumed = match id {
            ConnectionId::Client(client) => self.pooler.handle_client_bytes(self.now(), client, input),
            ConnectionId::Server(server) => self.pooler.handle_server_bytes(self.now(), server, input),
        };
        if consumed > input.len() {
            self.fail(format!("{id:?}: {consumed} bytes of {} consumed", input.len()));
            return input.len();
        }
        self.check_links(Some((id, input, consumed)));
        self.write_outbox(input);
        consumed
    }

    /// The peer has closed the connection.
    pub(super) fn closed(&mut self, key: u64) {
        let Some(connection) = self.connections.remove(&key) else {
            return;
        };
        let id = connection.id;
        self.by_id.remove(&id);
        if let Peer::Server(process_id) = connection.peer {
            self.postgres.remove(process_id);
        }
        self.trace.number(id.token());
        self.trace
            .line(self.now_us, || format!("{id:?} was closed by its peer"));
        match id {
            ConnectionId::Client(client) => self.pooler.handle_client_closed(self.now(), client),
            ConnectionId::Server(server) => self.pooler.handle_server_closed(self.now(), server),
        }
        self.settle();
    }

    pub(super) fn settle(&mut self) {
        self.check_links(None);
        self.write_outbox(&[]);
        self.do_requests();
    }

    pub(super) fn write_outbox(&mut self, input: &[u8]) {
        let outbox = self.pooler.outbox();
        let mut parts: Vec<(ConnectionId, Vec<u8>)> = outbox
            .parts()
            .iter()
            .map(|part| (part.to, outbox.bytes(part, input).to_vec()))
            .collect();
        outbox.clear();
        if self.canary == Some(Canary::SwapParts)
            && let Some(at) = (1..parts.len()).find(|&at| parts[at - 1].0 == parts[at].0)
            && self.sings(Canary::SwapParts)
        {
            parts.swap(at - 1, at);
        }
        for (to, bytes) in parts {
            let to = self.misroute(to, &bytes);
            let Some(bytes) = self.falsify(to, bytes) else {
                continue;
            };
            let bytes = self.refuse(to, bytes);
            let Some(&key) = self.by_id.get(&to) else {
                self.fail(format!("bytes for {to:?}, which is no connection"));
                continue;
            };
            if self.trace.prints() {
                self.trace_bytes("core ->", to, &bytes);
            }
            if let Some(connection) = self.connections.get_mut(&key) {
                connection.pending.extend(&bytes);
                if !connection.from_pooler {
                    connection.from_pooler = true;
                    self.soon(Event::FromPooler(key));
                }
            }
        }
    }

    pub(super) fn misroute(&mut self, to: ConnectionId, bytes: &[u8]) -> ConnectionId {
        let to_client = matches!(to, ConnectionId::Client(_));
        if self.canary != Some(Canary::Misroute) || !to_client || bytes.is_empty() {
            return to;
        }
        let other = self
            .connections
            .values()
            .find(|c| c.id != to && !c.closing && matches!(c.peer, Peer::Client(_)))
            .map(|c| c.id);
        match other {
            Some(other) if self.sings(Canary::Misroute) => other,
            _ => to,
        }
    }

    /// A server that refuses internal requests: it is sent other bytes instead.
    fn refuse(&mut self, to: ConnectionId, bytes: Vec<u8>) -> Vec<u8> {
        let ConnectionId::Server(server) = to else { return bytes };
        if self.now_us >= self.topology.calm_at_us || !self.random.percent(self.topology.refusal_percent) {
            return bytes;
        }
        let refused = match self.pooler.internal_work(server) {
            Some(InternalWork::Restoration) => with_bad_setting(&bytes),
            Some(InternalWork::Probe) => with_bad_question(&bytes),
            None => None,
        };
        refused.unwrap_or(bytes)
    }

    /// What canaries do to a single part; `None` if it is swallowed.
    pub(super) fn falsify(&mut self, to: ConnectionId, bytes: Vec<u8>) -> Option<Vec<u8>> {
        let to_client = matches!(to, ConnectionId::Client(_));
        if to_client && self.sings(Canary::SwallowPart) {
            return None;
        }
        if !to_client {
            let forged = match self.canary {
                Some(Canary::ForgetSetting) => without_a_setting(&bytes),
                Some(Canary::SkipCleanup) => without_cleanup(&bytes),
                _ => None,
            };
            if let (Some(forged), Some(canary)) = (forged, self.canary)
                && self.sings(canary)
            {
                return Some(forged);
            }
        }
        Some(bytes)
    }

    pub(super) fn do_requests(&mut self) {
        if self.doing_requests {
            return;
        }
        self.doing_requests = true;
        while let Some(request) = self.pooler.poll_request() {
            self.do_request(request);
        }
        self.doing_requests = false;
    }

    pub(super) fn do_request(&mut self, request: Request) {
        match request {
            // The simulation's configurations have no TLS.
            Request::SecureClient { .. } | Request::SecureServer { .. } => {}
            Request::PassOn { .. } => unreachable!("the simulation's configurations have no peers"),
            Request::Connect { server, endpoint } => {
                self.trace.line(self.now_us, || format!("connect {server}"));
                self.connecting.insert(server, self.changes);
                self.hosts.is_asked(server, &endpoint);
                self.soon(Event::ConnectEnds(server));
            }
            Request::Cancel { server, key } => {
                let linked = match self.pooler.linked(server.into()) {
                    Some(ConnectionId::Client(client)) => Some(client),
                    _ => None,
                };
                self.trace
                    .line(self.now_us, || format!("cancel {server} for {linked:?}"));
                self.cancels.entry(server).or_default().push(linked);
                let key = (key.process_id, key.secret.to_vec());
                let told = self.sings(Canary::EarlyCancelEnd);
                // Its time may be over before PostgreSQL carries it out.
                let is_late = self.topology.late_cancels && self.random.percent(20);
                if told || is_late {
                    self.soon(Event::CancelTold(server, !is_late));
                    let late = self.now_us + 50 * self.topology.latency_us_max;
                    self.schedule(late, Event::CancelArrives(server, key, linked, true));
                } else if self.random.percent(75) {
                    self.soon(Event::CancelArrives(server, key, linked, false));
                } else {
                    // PostgreSQL starts a process for it, which may have to wait for a processor.
                    let late = self.now_us + self.random.below(30 * self.topology.latency_us_max);
                    self.schedule(late, Event::CancelArrives(server, key, linked, false));
                }
            }
            Request::ReadBeforeCancel { client, by } => self.read_before_cancel(client, by),
            Request::Close(id) => self.close(id),
            Request::Abort(id) => self.abort(id),
            Request::Resume(id) => {
                if !self.sings(Canary::ForgetResume) {
                    self.resume(id);
                }
            }
            Request::Log { level, text } => {
                self.trace.line(self.now_us, || format!("{level:?} {text}"));
                // An internal statement has another text than the model's.
                if text.contains("the model does not know") {
                    self.fail(text);
                } else if is_hurried(&text) && !self.topology.limits_may_end_restorations() {
                    self.fail(format!("a time limit of a client ended a restoration: {text}"));
                }
            }
            Request::Status(_) => {}
            Request::Verify { asker, question } => match *question {
                Verification::Keys(derivation) => {
                    let answer = Verified::Keys(derivation.derive());
                    self.pooler.handle_verified(self.now(), asker, answer);
                    self.write_outbox(&[]);
                }
                _ => self.fail("a question nobody gave reason for".into()),
            },
            Request::StopListening if self.ending == Ending::Ordered => {}
            Request::Exit if self.ending == Ending::Ordered => self.ending = Ending::Over,
            Request::Configure(config) => self.successors.config = config,
            Request::Reload { .. } | Request::TryTls(_) | Request::StopListening | Request::Exit => {
                self.fail("a request nobody gave reason for".into());
            }
        }
    }

    pub(super) fn close(&mut self, id: ConnectionId) {
        self.trace.line(self.now_us, || format!("close {id:?}"));
        if let ConnectionId::Server(server) = id
            && self.connecting.remove(&server).is_some()
        {
            return;
        }
        let Some(key) = self.by_id.remove(&id) else {
            self.fail(format!("{id:?} is closed, but is no connection"));
            return;
        };
        if matches!(id, ConnectionId::Server(_)) && self.sings(Canary::LeaveOpen) {
            if let Some(connection) = self.connections.get_mut(&key) {
                connection.pending.clear();
                connection.held_back = false;
                connection.closing = true;
                connection.from_pooler = true;
            }
            return;
        }
        if let Some(connection) = self.connections.get_mut(&key) {
            connection.closing = true;
            if !connection.from_pooler {
                connection.from_pooler = true;
                self.soon(Event::FromPooler(key));
            }
        }
    }

    /// The server reads nothing of what is still on its way. The reset arrives before a cancel request that is sent at
    /// the same time, which needs a connection first.
    fn abort(&mut self, id: ServerId) {
        let key = self.by_id.get(&id.into()).copied();
        if let Some(connection) = key.and_then(|key| self.connections.get_mut(&key)) {
            connection.pending.clear();
        }
        self.close(id.into());
        if let Some(key) = key {
            self.schedule(self.now_us, Event::FromPooler(key));
        }
    }

    pub(super) fn resume(&mut self, id: ConnectionId) {
        let Some(&key) = self.by_id.get(&id) else { return };
        let Some(connection) = self.connections.get_mut(&key) else {
            return;
        };
        let mut input = std::mem::take(&mut connection.kept);
        let consumed = self.pass_to_core(id, &input);
        input.drain(..consumed);
        if let Some(connection) = self.connections.get_mut(&key) {
            connection.kept = input;
        }
        self.read_later(key);
    }
}

/// Whether the pooler logs that a time limit ended a restoration.
fn is_hurried(text: &str) -> bool {
    text.contains("refused restored settings") && text.ends_with("timeout")
}
