//! Errors that the pooler sends to clients, and the end of a client's connection.

use crate::base::close_reason::CloseReason;
use crate::base::consequence::Consequence;
use crate::base::errors::{Fate, Trouble};
use crate::base::failure::Failure;
use crate::base::ids::ClientId;
use crate::base::message::unknown_packet;
use crate::base::pin_reason::Cleanup;
use crate::base::request::{LogLevel, Request};
use crate::base::time::Time;
use crate::client::ClientPhase;
use crate::pooler::Pooler;
use crate::server::Server;

impl Pooler {
    /// `log_pooler_errors`: an error that the pooler sends to a client, or why it closes the client's connection.
    pub(crate) fn log_pooler_error(&mut self, id: ClientId, message: &str) {
        if self.shared.settings.log_pooler_errors
            && let Some(client) = self.clients.get(id.0)
        {
            let text = format!("{} pooler error: {message}", client.label(id, &self.pools));
            self.log(LogLevel::Warning, text);
        }
    }

    /// Sends a client an error, and closes the client if the table of errors says so. A client for which auth_query runs
    /// is told nothing: it is treated like a user who does not exist.
    pub(crate) fn fail_client(&mut self, now: Time, id: ClientId, failure: Failure<'_>) {
        match self.awaits_auth_query(id) {
            true => self.give_up_lookup(now, id, failure.message),
            false => self.fail_in_any_state(now, id, failure),
        }
    }

    /// The same for errors that clients get whether or not auth_query runs for them.
    pub(crate) fn fail_in_any_state(&mut self, now: Time, id: ClientId, failure: Failure<'_>) {
        let message = failure.message;
        self.fail_and_log(now, id, failure, message);
    }

    /// The same, with another reason in the log than the client gets.
    pub(crate) fn fail_and_log(&mut self, now: Time, id: ClientId, failure: Failure<'_>, reason: &str) {
        self.log_pooler_error(id, reason);
        // Inside a message of its server, an error would become a part of that.
        if self.is_inside_message(id) || self.has_heard_its_last(id) {
            return self.close_client(now, id, reason);
        }
        self.send(id, |w| w.error(&failure.text()));
        if failure.trouble.row().client == Fate::Closed {
            self.close_client(now, id, reason);
        }
    }

    /// `disable_pqexec`: a client has sent a Query.
    pub(crate) fn refuse_pqexec(&mut self, now: Time, id: ClientId) {
        if let Some(client) = self.clients.get(id.0) {
            let text = format!("{} client used \"Query\" packet type", client.label(id, &self.pools));
            self.log(LogLevel::Error, text);
        }
        let hint = "The setting disable_pqexec allows the extended query protocol only.";
        let failure = Failure::new(Trouble::ProtocolViolation, "PQexec disallowed").with_hint(hint);
        self.fail_client(now, id, failure);
    }

    /// A client has sent a message of no known type, or one that has no place in a session.
    pub(crate) fn refuse_packet(&mut self, now: Time, id: ClientId, tag: u8) {
        if let Some(client) = self.clients.get(id.0) {
            let label = client.label(id, &self.pools);
            self.log(
                LogLevel::Error,
                format!("{label} unknown pkt from client: {tag}/0x{tag:x}"),
            );
        }
        let message = unknown_packet(tag);
        self.fail_client(now, id, Failure::new(Trouble::ProtocolViolation, &message));
    }

    /// Whether a client has been sent only a part of a message of its server.
    pub(crate) fn is_inside_message(&self, id: ClientId) -> bool {
        let server = self.clients.get(id.0).and_then(|c| self.servers.get(c.link?.0));
        server.is_some_and(Server::is_inside_message)
    }

    /// Whether a client has been sent its server's FATAL message: PostgreSQL sends nothing behind such a message.
    pub(crate) fn has_heard_its_last(&self, id: ClientId) -> bool {
        let server = self.clients.get(id.0).and_then(|c| self.servers.get(c.link?.0));
        server.is_some_and(|server| server.conversation.fatal().is_some())
    }

    /// Closes a client after the bytes written for it, and cleans up its server.
    pub(crate) fn close_client(&mut self, now: Time, id: ClientId, reason: &str) {
        if self.clients.get(id.0).is_some() {
            self.shared.requests.push_back(Request::Close(id.into()));
            self.log_disconnect(now, id, reason, false);
            self.remove_client(now, id);
        }
    }

    /// A client has closed its connection, or the connection broke.
    pub(crate) fn client_vanished(&mut self, now: Time, id: ClientId) {
        self.log_disconnect(now, id, "client unexpected eof", true);
        self.remove_client(now, id);
    }

    /// Removes a client whose connection is closed or closing.
    fn remove_client(&mut self, now: Time, id: ClientId) {
        if self.clients.get(id.0).is_none() {
            return;
        }
        self.stop_waiting(id);
        let server = self.clients.get(id.0).and_then(|client| client.link);
        let cleanup = server.map(|server_id| {
            self.charge(now, server_id);
            let mut exchange = self.between(now, id, server_id);
            exchange.note_temporary_schema();
            exchange.cleanup_after()
        });
        self.listen(now, |listening| listening.forget_channels(id));
        if let Some(server_id) = server {
            self.unlink(id, server_id);
        }
        let client = self.clients.remove(id.0).expect("looked up above");
        self.process_ids.take(client.process_id, id.0.index);
        if client.is_arriving() {
            self.arrivals.has_arrived();
        }
        if let ClientPhase::Cancelling { has_place } = client.phase {
            self.arrivals.cancel_goes(has_place);
            self.peers.forget(id);
        }
        self.admin.client_gone(id);
        self.forget_held_cancels(id);
        if client.counted {
            self.client_count -= 1;
        }
        if let Some(pool) = client.pool.and_then(|id| self.pools[id as usize].as_mut()) {
            if client.counted {
                self.databases.client_out(pool, client.login_user.as_deref());
            }
            pool.is_used(now);
        }
        if let Some(server_id) = server {
            let server = self.server_mut(server_id);
            server.session.needs(cleanup.unwrap_or(Cleanup::Close));
            if server.session.cleanup() == Cleanup::Close {
                server.close_reason.get_or_insert(CloseReason::TracesLeft);
            }
            let passing = client.passing;
            self.consequences.push_back(Consequence::ClientLeft {
                server: server_id,
                passing,
            });
        }
        self.shutdown_progress();
    }

    /// `vanished`: the pooler did not close the connection.
    fn log_disconnect(&mut self, now: Time, id: ClientId, reason: &str, vanished: bool) {
        let Some(client) = self.clients.get(id.0) else { return };
        // It is not logged when a connection is closed that sent no startup packet, or a CancelRequest.
        let is_news = match client.phase {
            ClientPhase::Startup(_) | ClientPhase::Cancelling { .. } => !vanished,
            _ => true,
        };
        if self.shared.settings.log_disconnections && is_news {
            let age = (now - client.connect_time).as_secs();
            let text = format!(
                "{} closing because: {reason} (age={age}s)",
                client.label(id, &self.pools)
            );
            self.log(LogLevel::Log, text);
        }
    }
}
