//! A logged-in server's messages, on their way to a client.
//!
//! This is half of the forwarding path (the other half is [`crate::flow::client_messages`]). Each reply is matched with
//! the front of the reply queue, which says who gets it. A server goes back to its pool only at a ReadyForQuery that
//! reports idle, leaves the queue empty and is not followed by any byte of a further message.
//!
//! A [`Reply`](crate::reply::Reply) handles the messages one after the other until one concerns other connections. The
//! pooler handles that one here.

use crate::base::consequence::Consequence;
use crate::base::deeds::{Deed, Question};
use crate::base::errors::Trouble;
use crate::base::failure::Failure;
use crate::base::ids::{ClientId, ServerId};
use crate::base::reasons::Passed;
use crate::base::request::{LogLevel, Request};
use crate::base::time::Time;
use crate::client::Client;
use crate::flow::piece::Piece;
use crate::pooler::Pooler;
use crate::server;
use crate::upstream::flights::Flights;
use crate::upstream::phase::ServerPhase;
use std::ops::Range;

/// A server's message that concerns further connections, and the result of handling it.
struct Met {
    passed: Passed,
    piece: Piece,
    /// The deeds to be carried out first.
    deeds: Vec<Deed>,
}

/// How far a server's bytes have been handled.
struct Walk<'a> {
    input: &'a [u8],
    at: usize,
    /// The bytes for the client that are not yet in the outbox.
    run: Range<usize>,
}

impl Pooler {
    pub(crate) fn reply_bytes(&mut self, now: Time, id: ServerId, input: &[u8]) -> usize {
        let is_usual = self.has_no_orders();
        let Some(mut reply) = self.replying(now, id) else {
            return input.len();
        };
        if reply.server.flies() {
            return self.replies_in_flight(now, id, input);
        }
        let mut at = 0;
        let Some((passed, piece)) = reply.pass(input, &mut at) else {
            return at;
        };
        if passed == Passed::ForwardAndRelease
            && is_usual
            && at == input.len()
            && reply.deeds.is_empty()
            && reply.lies_idle()
        {
            return at;
        }
        let (run, deeds) = (reply.run, reply.deeds);
        let met = Some(Met { passed, piece, deeds });
        self.walk(now, id, Walk { input, at, run }, met)
    }

    /// The replies of a server that works on flights.
    #[inline(never)]
    fn replies_in_flight(&mut self, now: Time, id: ServerId, input: &[u8]) -> usize {
        let mut walk = Walk {
            input,
            at: 0,
            run: 0..0,
        };
        let before = self.flights_of(id).map_or(0, Flights::input_begins);
        let pool_id = self.server_mut(id).pool;
        if !self.exposed_reply_passes(now, id, input) {
            return 0;
        }
        let met = self.walk_on(now, id, &mut walk);
        let consumed = self.walk(now, id, walk, met);
        if let Some(flights) = self.flights_of(id) {
            flights.input_ends(before);
        }
        self.charge_together(pool_id);
        consumed
    }

    /// Goes on after a message that concerns other connections.
    fn walk(&mut self, now: Time, id: ServerId, mut walk: Walk<'_>, mut met: Option<Met>) -> usize {
        while let Some(message) = met {
            match self.means(now, id, message, &mut walk) {
                Passed::Closed => return walk.input.len(),
                Passed::ForwardAndRelease | Passed::SkipAndRelease | Passed::ForwardAndTurn
                    if walk.at == walk.input.len() =>
                {
                    break;
                }
                Passed::ForwardAndTurn if !self.exposed_reply_passes(now, id, &walk.input[walk.at..]) => break,
                _ => met = self.walk_on(now, id, &mut walk),
            }
        }
        walk.at
    }

    /// Carries out what a message means for other connections. Returns what became of the message.
    fn means(&mut self, now: Time, id: ServerId, met: Met, walk: &mut Walk<'_>) -> Passed {
        if !met.deeds.is_empty() {
            self.carry_out(now, id, met.deeds);
            self.settle(now);
        }
        let passed = match met.passed {
            Passed::Asks(question) => self.after_question(now, id, question, &met.piece, walk),
            passed => passed,
        };
        match passed {
            Passed::ForwardAndRelease => self.release(now, id),
            Passed::SkipAndRelease => self.server_finished(now, id),
            Passed::ForwardAndTurn => self.turn(now, id),
            _ => {}
        }
        self.settle(now);
        passed
    }

    /// Goes to the next message that concerns other connections.
    #[inline(never)]
    fn walk_on(&mut self, now: Time, id: ServerId, walk: &mut Walk<'_>) -> Option<Met> {
        let Some(mut reply) = self.replying(now, id) else {
            walk.at = walk.input.len();
            return None;
        };
        reply.run = walk.run.clone();
        let (passed, piece) = reply.pass(walk.input, &mut walk.at)?;
        walk.run = reply.run;
        let deeds = reply.deeds;
        Some(Met { passed, piece, deeds })
    }

    /// Answers a question about a message, and carries out what becomes of the message then.
    #[cold]
    fn after_question(
        &mut self,
        now: Time,
        id: ServerId,
        question: Question,
        piece: &Piece,
        walk: &mut Walk<'_>,
    ) -> Passed {
        let bytes = &walk.input[piece.at..piece.end];
        let passed = self.answer(now, id, question, bytes);
        self.settle(now);
        let Some(mut reply) = self.replying(now, id) else {
            return Passed::Closed;
        };
        reply.run = walk.run.clone();
        let passed = reply.settle(passed, piece);
        walk.run = reply.run.clone();
        let deeds = std::mem::take(&mut reply.deeds);
        self.carry_out(now, id, deeds);
        passed
    }

    fn answer(&mut self, now: Time, id: ServerId, question: Question, bytes: &[u8]) -> Passed {
        match question {
            Question::ListenerHears => self.listen(now, |listening| listening.listener_hears(id, bytes)),
            Question::ListenerAnswered => self.listen(now, |listening| listening.listener_answered(id)),
            Question::OwnNotification => {
                if self.listen(now, |listening| listening.own_server_notifies(id, bytes)) {
                    return Passed::Forward;
                }
            }
            Question::CopyInterrupted => {
                self.copy_interrupted(now, id);
                return Passed::Closed;
            }
            Question::Restored => {
                self.restored(now, id);
                // Another client may have the server now.
                self.settle(now);
                let server = self.servers.get(id.0);
                if server.is_some_and(|s| s.link.is_none() && s.is_clean()) {
                    return Passed::SkipAndRelease;
                }
            }
            Question::Probed => return self.after_probe(now, id),
            Question::MoveAnswered => {
                self.listen(now, |listening| listening.move_answered(id));
                return self.after_probe(now, id);
            }
            Question::NeverBegan { of_client } => return self.transaction_never_began(now, id, of_client),
            Question::BlockInStatementMode => {
                let message = "transaction blocks not allowed in statement pooling mode";
                let hint = "Use pool_mode = transaction.";
                if let Some(client) = self.server_link(id) {
                    let failure = Failure::new(Trouble::TransactionInStatementMode, message).with_hint(hint);
                    self.fail_client(now, client, failure);
                }
            }
            Question::TransactionEnded => {
                let held = self
                    .server_link(id)
                    .is_some_and(|client| self.listen(now, |listening| listening.transaction_ended(client, id)));
                if !held {
                    return self.request_ended(now, id);
                }
            }
        }
        match self.servers.get(id.0) {
            Some(_) => Passed::Skip,
            None => Passed::Closed,
        }
    }

    /// Carries out the deeds of a server's messages, in order.
    pub(super) fn carry_out(&mut self, now: Time, id: ServerId, deeds: Vec<Deed>) {
        for deed in deeds {
            match deed {
                Deed::Misbehaves(what) => self.server_misbehaves(now, id, &what),
                Deed::TooLong(bytes) => {
                    if let Some(client) = self.server_link(id) {
                        self.message_is_too_long(now, client, "bad pkt header", bytes);
                    }
                }
                Deed::Close(why) => {
                    self.shared.requests.push_back(Request::Close(id.into()));
                    self.server_ended(now, id, &why);
                }
                Deed::InternalQueryFailed { severity, message } => {
                    self.internal_query_failed(now, id, &severity, &message);
                }
                Deed::DoubtCatalog => {
                    if let Some(pool_id) = self.servers.get(id.0).map(|s| s.pool) {
                        self.catalogs().doubt(now, pool_id);
                    }
                }
                Deed::MoveNames => {
                    if let Some(pool_id) = self.servers.get(id.0).map(|s| s.pool) {
                        self.names_have_moved(pool_id);
                    }
                }
                Deed::ReplaceServers { of, is_sure } => self.sessions_outdated(now, id, &of, is_sure),
                Deed::TryLoginsAgain(admits) => self.try_logins_again(now, id, admits),
                Deed::Unlisten => {
                    if let Some(client) = self.server_link(id) {
                        self.listen(now, |listening| listening.apply_unlistened(client));
                    }
                }
                Deed::EndCancelling => self.end_cancelling(now, id),
                Deed::ChannelsMayHaveChanged => {
                    if let Some(client) = self.server_link(id) {
                        self.listen(now, |listening| listening.channels_may_have_changed(client));
                    }
                }
                Deed::MoveOn => self.listen(now, |listening| listening.move_on(id)),
            }
        }
    }

    /// The ReadyForQuery of a client that listens is no longer held back.
    fn request_ended(&mut self, now: Time, id: ServerId) -> Passed {
        let Some(mut reply) = self.replying(now, id) else {
            return Passed::Closed;
        };
        let passed = reply.request_ended();
        let deeds = std::mem::take(&mut reply.deeds);
        self.carry_out(now, id, deeds);
        passed
    }

    /// The result of a probe is known: if nothing pins the client to the server, the server goes back.
    fn after_probe(&mut self, now: Time, id: ServerId) -> Passed {
        let Some(server) = self.servers.get(id.0) else {
            return Passed::Closed;
        };
        if server.link.is_none() {
            return Passed::skip_and_release_if(server.conversation.queue().is_empty());
        }
        let client = server.link;
        self.release_if_clean(now, id);
        if let Some(server) = self.servers.get(id.0) {
            // The client keeps the server, but the server has other settings than the client wants.
            if let (true, true, Some(client)) = (server.link == client, server.is_clean(), client) {
                self.restore(now, client, id);
            }
            Passed::Skip
        } else {
            Passed::Closed
        }
    }

    /// The server has answered all internal requests.
    fn server_finished(&mut self, now: Time, id: ServerId) {
        let Some(server) = self.servers.get(id.0) else { return };
        match server.phase {
            ServerPhase::Draining => self.drained(now, id),
            ServerPhase::Resetting => self.reset_done(now, id),
            ServerPhase::LiftingLimit => self.idle_limit_lifted(now, id),
            // server_check_query may be any text.
            ServerPhase::Testing if !server.is_clean() => {
                self.close_server(now, id, "test query left a transaction open");
            }
            ServerPhase::Testing => self.server_is_free(id),
            ServerPhase::Reading => self.catalog_read(now, id),
            ServerPhase::ConnectQuery => self.introduce(now, id),
            ServerPhase::Linked => {
                if let Some(client) = server
                    .link
                    .filter(|client| self.clients.get(client.0).is_some_and(Client::is_login))
                {
                    self.auth_query_done(now, client, id);
                }
            }
            _ => {}
        }
    }

    /// A request was sent between a COPY and the end of its data, and the server takes it for a part of the copy. It is
    /// no longer known which reply answers which request.
    #[cold]
    fn copy_interrupted(&mut self, now: Time, id: ServerId) {
        if let Some(client) = self.server_link(id) {
            let detail = "expected CopyData, CopyDone or CopyFail, got a request";
            let message = "unexpected message during COPY from stdin";
            let failure = Failure::new(Trouble::ProtocolViolation, message).with_detail(detail);
            self.fail_client(now, client, failure);
        }
        let reason = "request inside COPY data";
        self.consequences.push_back(Consequence::CloseServer(id, reason));
    }

    /// The server has sent bytes that no PostgreSQL sends: nothing on this connection can be trusted any more.
    pub(crate) fn server_misbehaves(&mut self, now: Time, id: ServerId, what: &str) {
        let label = server::label(&self.servers, &self.pools, id);
        self.log(
            LogLevel::Error,
            format!("{label} {what}: protocol violation by the server"),
        );
        self.shared.requests.push_back(Request::Close(id.into()));
        self.server_ended(now, id, violation(what));
    }

    /// The client of a server.
    pub(crate) fn server_link(&self, id: ServerId) -> Option<ClientId> {
        self.servers.get(id.0).and_then(|s| s.link)
    }
}

/// Why a server is closed that has sent this: PgBouncer's words, where it has its own for the case.
fn violation(what: &str) -> &'static str {
    let own = [
        "unknown pkt from server",
        "unknown pkt",
        "bad pkt header",
        "broken ParameterStatus packet",
    ];
    let words = what.split_once(": ").map_or(what, |(words, _)| words);
    own.into_iter()
        .find(|own| *own == words)
        .unwrap_or("bad packet from server")
}
