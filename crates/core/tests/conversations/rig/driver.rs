//! What a driver does for the core: it passes bytes and reports, carries out requests, and lets time pass.

use super::Rig;
use pgweir_config::Config;
use pgweir_core::{CancelEnd, ClientId, ConnectionId, ReloadOutcome, Request, ServerId, Source, Verified};
use pgweir_wire::Writer;
use std::sync::Arc;
use std::time::Duration;

impl Rig {
    /// Writes out the outbox and carries out the requests, as a driver must after every `handle_*` call, and ends the turn.
    pub fn settle(&mut self, input: &[u8]) {
        self.settle_call(input);
        while self.pooler.awaits_turn_end() {
            self.pooler.handle_turn_end(self.now);
            self.settle_call(&[]);
        }
    }

    fn settle_call(&mut self, input: &[u8]) {
        let mut input = input.to_vec();
        loop {
            self.write_outbox(&input);
            match self.pooler.poll_request() {
                None => return,
                Some(Request::Connect { server, endpoint }) => {
                    self.connects.push_back(server);
                    self.endpoints.insert(server, endpoint);
                }
                Some(Request::Cancel { server, key }) => self.cancels.push_back((server, key)),
                Some(Request::ReadBeforeCancel { client, by }) => {
                    input = self.read(client.into());
                    self.write_outbox(&input);
                    self.pooler.handle_read_before_cancel(self.now, by, true);
                }
                Some(Request::PassOn { peer, by, key, .. }) => self.passed_on.push_back((peer, by, key)),
                Some(Request::SecureClient { client, direct }) => self.handshakes.push_back((client.into(), direct)),
                Some(Request::SecureServer { server, direct, .. }) => {
                    self.handshakes.push_back((server.into(), direct))
                }
                Some(Request::Close(id)) => drop(self.closed.insert(id)),
                Some(Request::Abort(id)) => {
                    self.aborted.push(id);
                    self.closed.insert(id.into());
                }
                Some(Request::Log { level, text }) => self.log.push((level, text)),
                Some(Request::Resume(id)) if !self.closed.contains(&id) => {
                    input = self.kept.remove(&id).unwrap_or_default();
                    self.pass(id, &input);
                }
                Some(Request::Verify { asker, question }) => match asker {
                    ConnectionId::Client(client) => self.questions.push_back((client, *question)),
                    ConnectionId::Server(server) => self.derivations.push_back((server, *question)),
                },
                Some(Request::Status(text)) => self.status = Some(text),
                Some(Request::Exit) => self.exited = true,
                Some(Request::StopListening) => self.stopped_listening = true,
                Some(Request::Reload { by }) => self.reloads.push_back(by),
                Some(Request::Configure(config)) => self.configured = Some(config),
                Some(Request::TryTls(change)) => self.tls_changes.push_back(change),
                Some(Request::Resume(_)) => {}
            }
        }
    }

    fn write_outbox(&mut self, input: &[u8]) {
        let outbox = self.pooler.outbox();
        for part in outbox.parts() {
            let bytes = match part.source {
                Source::Input => &input[part.range()],
                Source::Arena => &outbox.arena()[part.range()],
            };
            assert!(!self.closed.contains(&part.to), "bytes for a closed connection");
            self.written.entry(part.to).or_default().extend_from_slice(bytes);
        }
        outbox.clear();
    }

    fn pass(&mut self, id: ConnectionId, input: &[u8]) {
        let consumed = match id {
            ConnectionId::Client(client) => self.pooler.handle_client_bytes(self.now, client, input),
            ConnectionId::Server(server) => self.pooler.handle_server_bytes(self.now, server, input),
        };
        assert!(consumed <= input.len());
        if consumed < input.len() {
            self.kept.insert(id, input[consumed..].to_vec());
        }
    }

    /// Messages arrive from a connection, and the driver does not read them yet.
    pub fn arrives(&mut self, id: impl Into<ConnectionId>, write: impl FnOnce(&mut Writer<'_>)) {
        write(&mut Writer::new(self.unread.entry(id.into()).or_default()));
    }

    /// The driver reads what has arrived, if it may.
    fn read(&mut self, id: ConnectionId) -> Vec<u8> {
        let mut input = Vec::new();
        if self.pooler.may_read(id)
            && let Some(unread) = self.unread.remove(&id)
        {
            input = self.kept.remove(&id).unwrap_or_default();
            input.extend_from_slice(&unread);
            self.pass(id, &input);
        }
        input
    }

    /// A connection sends bytes.
    pub fn comes(&mut self, id: impl Into<ConnectionId>, bytes: &[u8]) {
        let id = id.into();
        let mut input = self.kept.remove(&id).unwrap_or_default();
        input.extend_from_slice(bytes);
        self.pass(id, &input);
        self.settle(&input);
    }

    /// A connection sends messages.
    pub fn says(&mut self, id: impl Into<ConnectionId>, write: impl FnOnce(&mut Writer<'_>)) {
        let mut bytes = Vec::new();
        write(&mut Writer::new(&mut bytes));
        self.comes(id, &bytes);
    }

    /// How many bytes of a connection the core has not handled.
    pub fn kept_bytes(&self, id: impl Into<ConnectionId>) -> usize {
        self.kept.get(&id.into()).map_or(0, Vec::len)
    }

    /// Whether a connection has ended.
    pub fn is_closed(&self, id: impl Into<ConnectionId>) -> bool {
        self.closed.contains(&id.into())
    }

    /// Time passes.
    pub fn wait(&mut self, time: Duration) {
        let end = self.now + time;
        while self.now < end {
            let soonest = self.now + Duration::from_millis(1);
            self.now = self.pooler.poll_timeout().unwrap_or(end).max(soonest).min(end);
            self.pooler.handle_timeout(self.now);
            self.settle(&[]);
        }
    }

    /// The driver reports that a cancel request has been passed on to a peer.
    pub fn passed_on_ends(&mut self, peer: u32, by: ClientId) {
        self.pooler.handle_passed_on(self.now, peer, by, CancelEnd::Over);
        self.settle(&[]);
    }

    /// The configuration is read again; this is the new one.
    pub fn reloads(&mut self, config: Config) {
        let outcome = ReloadOutcome::New(Arc::new(config), Vec::new());
        self.pooler.handle_reload(self.now, None, outcome);
        self.settle(&[]);
    }

    pub fn cancel_arrives(&mut self, server: ServerId) {
        self.cancel_ends(server, CancelEnd::Over);
    }

    pub fn cancel_ends(&mut self, server: ServerId, end: CancelEnd) {
        self.pooler.handle_cancel_finished(self.now, server, end);
        self.settle(&[]);
    }

    /// The driver answers a question about a client.
    pub fn verified(&mut self, client: ClientId, answer: Verified) {
        self.pooler.handle_verified(self.now, client.into(), answer);
        self.settle(&[]);
    }

    /// The driver has derived the keys for a login to a server, or could not.
    pub fn derived(&mut self, server: ServerId, answer: Verified) {
        self.pooler.handle_verified(self.now, server.into(), answer);
        self.settle(&[]);
    }
}
