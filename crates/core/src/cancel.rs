//! Cancel requests: from clients to the server that works for them, and to nothing else.
//!
//! A request names its client by the process id and secret we gave it at login. It is passed on only while that client's
//! server owes it an answer, and a server with a cancel on its way is not handed out before that has arrived: PostgreSQL
//! delivers the signal before it closes the cancel connection, and ignores it while idle.

use crate::client::{Dropping, Waiting, cancel_process_id};
use crate::errors::Trouble;
use crate::ids::{ClientId, ServerId};
use crate::pooler::Pooler;
use crate::request::Request;
use crate::server::ServerPhase;
use crate::time::Time;
use hmac::{Hmac, KeyInit, Mac};
use pgweir_wire::CancelKey;
use sha2::Sha256;
use subtle::ConstantTimeEq;

/// Bytes of the secret under protocol 3.0, which knows no others.
pub(crate) const SECRET_BYTES_V3_0: u8 = 4;

/// Bytes of the secret under protocol 3.2.
pub(crate) const SECRET_BYTES_V3_2: u8 = 32;

impl Pooler {
    /// The key a client is told at login. It is computed, not stored: idle clients cost nothing for it.
    pub(crate) fn cancel_key_of(&self, id: ClientId, bytes: u8) -> CancelKey {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.cancel_key).expect("any length of key will do");
        mac.update(&id.0.index.to_be_bytes());
        mac.update(&id.0.generation.to_be_bytes());
        let secret = mac.finalize().into_bytes();
        CancelKey {
            process_id: cancel_process_id(id),
            secret: secret[..usize::from(bytes)].into(),
        }
    }

    /// A CancelRequest came.
    pub(crate) fn cancel_request(&mut self, now: Time, key: &CancelKey) {
        let Some(index) = key.process_id.checked_sub(1) else {
            return;
        };
        let Some((slot, client)) = self.clients.at_index(index) else {
            return;
        };
        let id = ClientId(slot);
        let expected = self.cancel_key_of(id, client.cancel_key_bytes);
        if !bool::from(expected.secret.ct_eq(&key.secret)) {
            return;
        }
        if !client.is_session() {
            return self.cancel_console(id);
        }
        match (client.link, client.waiting) {
            (Some(server_id), Waiting::No | Waiting::ForReplies)
                if self.servers.get(server_id.0).is_some_and(|s| !s.queue.is_empty()) =>
            {
                self.send_cancel(server_id);
            }
            (None, Waiting::ForServer { .. }) if client.deferred_begin.is_none() => self.cancel_waiting(now, id),
            _ => {}
        }
    }

    /// Ends the wait of a client: the request at the front of what it has sent fails, up to its ReadyForQuery.
    fn cancel_waiting(&mut self, now: Time, id: ClientId) {
        self.stop_waiting(id);
        self.client_mut(id).dropping = Dropping::Request;
        self.client_mut(id).request_time = now;
        self.requests.push_back(Request::Resume(id.into()));
        let message = "canceling statement due to user request";
        self.send(id, |w| {
            w.error(&Trouble::CancelledWhileWaiting.text(message, "it was waiting for a server", ""))
        });
    }

    /// Passes a cancel on, unless one is already on its way: the second would find nothing else than the first.
    pub(crate) fn send_cancel(&mut self, server_id: ServerId) {
        let server = self.server_mut(server_id);
        if server.cancels_in_flight > 0 {
            return;
        }
        if let Some(key) = server.cancel_key.clone() {
            server.cancels_in_flight += 1;
            self.requests.push_back(Request::Cancel { server: server_id, key });
        }
    }

    pub(crate) fn cancel_finished(&mut self, now: Time, server_id: ServerId) {
        let Some(server) = self.servers.get_mut(server_id.0) else {
            return;
        };
        server.cancels_in_flight = server.cancels_in_flight.saturating_sub(1);
        if server.cancels_in_flight == 0 && matches!(server.phase, ServerPhase::CancelPending) {
            self.server_is_free(now, server_id);
        }
    }
}
