//! What goes wrong with flights: their clients leave or cancel, cancels of other clients hit them, their server is
//! lost.

use crate::base::ids::{ClientId, ServerId};
use crate::base::reasons::{Waited, Waiting};
use crate::base::time::Time;
use crate::base::weakness::Weakness;
use crate::pooler::Pooler;
use crate::server::Server;
use crate::upstream::flight::{Again, Form};
use crate::upstream::phase::ServerPhase;
use pgweir_wire::{ErrorFields, HEADER_BYTES, Header};

/// The longest reply that is held back because a cancel may have hit it, bytes. If a reply is longer, the client gets
/// its beginning.
const HELD_BYTES_MAX: usize = 256 * 1024;

/// SQLSTATE of a request that a cancel has hit: query_canceled.
const QUERY_CANCELED: &[u8] = b"57014";

/// The reply of a flight that a cancel may have hit.
enum Hit {
    /// Its end has not come.
    NotKnown,
    Yes,
    No,
}

/// Whether a cancel has hit the request whose reply this begins with.
fn is_hit(mut reply: &[u8]) -> Hit {
    let mut canceled = false;
    while let Ok(Some(header)) = Header::read(reply) {
        let Some((message, rest)) = reply.split_at_checked(header.message_bytes as usize) else {
            break;
        };
        match header.tag {
            b'E' => {
                let error = ErrorFields::read_prefix(&message[HEADER_BYTES..]);
                if error.is_fatal() {
                    // No ReadyForQuery follows.
                    return Hit::No;
                }
                canceled = error.sqlstate == QUERY_CANCELED;
            }
            b'Z' if canceled => return Hit::Yes,
            b'Z' => return Hit::No,
            _ => {}
        }
        reply = rest;
    }
    Hit::NotKnown
}

impl Pooler {
    /// Whether the bytes that a server has sent are handled now. The reply to a flight that another client's cancel may
    /// have hit is held back until it is complete. If the cancel has hit the flight, the flight is run again and its
    /// client does not notice.
    #[cold]
    pub(crate) fn exposed_reply_passes(&mut self, now: Time, id: ServerId, input: &[u8]) -> bool {
        let tells = self.is_weak(Weakness::TellsWhatOthersCancel);
        let Some(flights) = self.flights_of(id) else {
            return true;
        };
        if !flights.front_may_run_again() || tells {
            return true;
        }
        match is_hit(input) {
            Hit::NotKnown => return input.len() > HELD_BYTES_MAX,
            Hit::No => flights.front_is_not_hit(),
            Hit::Yes => self.runs_again(now, id),
        }
        true
    }

    /// A cancel that was not meant for the flight at the front has hit it: its reply goes to no client, and its client
    /// waits for a server again, in front of all others.
    fn runs_again(&mut self, now: Time, id: ServerId) {
        let server = self.server_mut(id);
        let Some(client) = server.link.take() else { return };
        server.phase = ServerPhase::Draining;
        server.since = now;
        let again = server
            .flights
            .as_mut()
            .and_then(|flights| flights.front_runs_again(now));
        let Some(again) = again else { return };
        let parses = matches!(again.flight.form(), Form::Parse(_));
        let holder = self.client_mut(client);
        holder.link = None;
        if parses {
            // A Parse that a cancel hits has dropped the unnamed statement.
            holder.statements.replace_unnamed(None);
        }
        self.wait_again(client, again);
    }

    /// A client waits for a server again, with a flight that has not been answered. It keeps its place, but while a
    /// server worked on the flight it has not waited.
    fn wait_again(&mut self, id: ClientId, again: Again) {
        let Some(client) = self.clients.get_mut(id.0) else {
            return;
        };
        let Some(pool_id) = client.pool else { return };
        client.flight = Some(again.flight);
        let Waited { since, notified } = again.waited;
        let ticket = self.pool_mut(pool_id).waiting_mut().push_front(id, since);
        self.client_mut(id).waiting = Waiting::ForServer {
            ticket,
            since: since + again.in_front,
            notified,
        };
        self.shared.state_stats.flights_run_again += 1;
    }

    /// A server is lost. After a FATAL message it has begun none of the flights behind the front: they run elsewhere.
    /// Otherwise replies may have been lost with the connection, and a flight that ran twice could write twice, by a
    /// function that a view calls: the clients of these flights get the same error as the client at the front.
    pub(crate) fn flights_lost(&mut self, now: Time, server: &mut Server, reason: &str) {
        let forgets = self.is_weak(Weakness::ForgetsRiders);
        let begun = server.conversation.fatal().is_none() && !self.is_weak(Weakness::RunsBegunAgain);
        let Some(flights) = &mut server.flights else { return };
        let pool = self.pools[server.pool as usize]
            .as_mut()
            .expect("a server's pool lives");
        flights.front_is_at_work(now, pool, &mut self.shared.state_stats);
        let mut aboard = flights.take_all();
        self.shared.catalogs.publications_mut().flight_has_ended();
        aboard.pop_front();
        for aboard in aboard.into_iter().rev() {
            match aboard.client().filter(|_| !forgets) {
                Some(client) if begun => self.tell_server_lost(now, client, reason),
                Some(client) if aboard.is_cancelled() => self.cancel_waiting(now, client),
                Some(client) => self.wait_again(client, aboard.into_again()),
                None => {}
            }
        }
    }

    /// A client whose flight stands behind others leaves.
    pub(crate) fn rider_leaves(&mut self, id: ClientId, server_id: ServerId) {
        if let Some(flights) = self.flights_of(server_id) {
            flights.client_leaves(id);
        }
    }

    /// A client cancels its flight, which stands behind others. The server has the flight and runs it in any case. So
    /// the cancel is sent when the server begins the flight, and the client gets the server's reply.
    pub(crate) fn rider_cancels(&mut self, id: ClientId, server_id: ServerId) {
        if let Some(flights) = self.flights_of(server_id) {
            flights.rider_is_cancelled(id);
        }
    }

    /// The linked client cancels its flight: if the cancel hits the flight, the client gets the error.
    pub(crate) fn note_own_cancel(&mut self, id: ServerId) {
        if let Some(flights) = self.flights_of(id) {
            flights.front_is_cancelled();
        }
    }

    /// The linked client is gone. If other flights stand behind its flight, the flight is not cancelled at once,
    /// because it is usually short, and nobody gets the reply. `false`: none stand behind it.
    pub(crate) fn flies_on_alone(&mut self, now: Time, id: ServerId) -> bool {
        let server = self.server_mut(id);
        let Some(flights) = &mut server.flights else {
            return false;
        };
        flights.front_leaves();
        if !flights.has_riders() {
            return false;
        }
        server.link = None;
        server.cancels.wait_for_none();
        server.phase = ServerPhase::Draining;
        server.since = now;
        self.end_cancelling(now, id);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pgweir_wire::write::ErrorText;
    use pgweir_wire::{TransactionStatus, Writer};

    #[test]
    fn a_fatal_message_is_the_end_of_a_reply() {
        let mut last_words = Vec::new();
        Writer::new(&mut last_words).error(&ErrorText {
            severity: "FATAL",
            sqlstate: "57P01",
            message: "terminating connection due to administrator command",
            detail: "",
            hint: "",
        });
        assert!(matches!(is_hit(&last_words), Hit::No));
    }

    #[test]
    fn a_hit_is_known_at_ready_for_query() {
        let mut hit = Vec::new();
        let mut w = Writer::new(&mut hit);
        w.empty(b'2');
        w.error(&ErrorText {
            severity: "ERROR",
            sqlstate: "57014",
            message: "canceling statement due to user request",
            detail: "",
            hint: "",
        });
        w.ready_for_query(TransactionStatus::Idle);
        for end in 0..hit.len() {
            assert!(matches!(is_hit(&hit[..end]), Hit::NotKnown));
        }
        assert!(matches!(is_hit(&hit), Hit::Yes));
        let mut whole = Vec::new();
        let mut w = Writer::new(&mut whole);
        w.command_complete("SELECT 0");
        w.ready_for_query(TransactionStatus::Idle);
        // The next flight is hit.
        whole.extend_from_slice(&hit);
        assert!(matches!(is_hit(&whole), Hit::No));
    }
}
