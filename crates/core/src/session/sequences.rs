//! What a session has drawn from sequences: currval() and lastval().
//!
//! The server process keeps these values; no other server can be given them. The rules, in pools whose clients name
//! sequence functions:
//!
//! - A client gets the server that it had last, if no other client has used that server since. Other clients get a
//!   different server if there is one.
//! - A client that calls currval() or lastval() is pinned to its server
//!   ([`crate::base::pin_reason::PinReason::Sequences`]).
//! - A text that runs an object which calls one of the two (a default, a view, a trigger) counts as one that calls it.
//!   A function of the database that also inserts or calls nextval() usually asks for the value that it has drawn
//!   itself. It does not pin its client; the other rules apply.
//! - If another client has used the server, or the client has used another server, the server discards its values
//!   first. PostgreSQL then says that nextval() has not been called (55000). No client sees values of another client,
//!   nor older values of its own.
//! - The first time in a pool, the server discards its values before the first text that names one of these functions
//!   or nextval(). Whether an INSERT calls nextval() is not known.
//! - The server must confirm that it has discarded its values, before any message of the client's is sent.

use crate::base::errors::TRANSACTION_FAILED;
use crate::base::message::{Message, Step};
use crate::base::reasons::Dropping;
use crate::base::weakness::Weakness;
use crate::exchange::Exchange;
use crate::reply::Reply;
use crate::server_side::ServerSide;
use crate::state::sequences::Sequences;
use crate::statements::unnamed::Unnamed;
use crate::upstream::entry::To;
use crate::upstream::phase::Intake;
use pgweir_sql::Effects;
use pgweir_wire::write::ErrorText;
use pgweir_wire::{FrontendTag, TransactionStatus};

/// Effects of a text that asks for the last value of a sequence.
pub(super) const ASKS_LAST: Effects = Effects::SEQUENCE.union(Effects::DRAWN);

/// Effects of a text that may read other clients' values.
const ASKS: Effects = ASKS_LAST.union(Effects::CODE);

/// Effects of a text before which the server must discard other clients' values. After a nextval() the client may call
/// currval().
const NEEDS_OWN: Effects = ASKS.union(Effects::DRAWS);

/// What a server must discard before a client's text runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Discard {
    /// Values of sequences.
    Sequences,
    /// Plans of functions: see [`crate::session::function_plans`].
    Plans,
}

impl ServerSide<'_> {
    /// What a text may do with sequences. `effects` include those of names looked up in the catalog. While the catalog
    /// is not up to date, every text counts as code that is not read, and an internal statement would go in front of
    /// it. In the midst of a transaction or a segment, the server would refuse some texts behind an internal statement.
    /// So there a text counts as code only if it runs code itself, or calls a routine, which may do anything.
    pub(crate) fn sequence_effects(&mut self, of_text: Effects, effects: Effects) -> Effects {
        if self.catalog_holds() {
            effects
        } else if of_text.intersects(Effects::ROUTINES) {
            effects | Effects::CODE
        } else if of_text.intersects(Effects::CODE) || self.server.is_clean() {
            effects
        } else {
            effects.without(Effects::CODE)
        }
    }

    /// A client was just linked to a server: discards the values of other clients if the client may meet them. What is
    /// sent begins a restoration's segment, which the caller ends.
    pub(crate) fn sequences_on_link(&mut self) {
        let server = &mut *self.server;
        let pool = &*self.pool;
        let asked = pool.sequences() == Sequences::Asked;
        // With `link = adversarial`, only clients that name a sequence claim a server.
        server
            .session
            .claim_on_link(asked && !self.shared.settings.link_adversarial);
        if asked && server.session.is_stranger() && !self.shared.is_weak(Weakness::TellsOthersValues) {
            self.begin_restoring();
            self.discard_sequences();
        }
    }

    fn run_discard(&mut self, what: Discard) {
        match what {
            Discard::Sequences => self.discard_sequences(),
            Discard::Plans => self.run_discard_plans(),
        }
    }

    fn discard_sequences(&mut self) {
        let statement = self.shared.internal.discard_sequences.clone();
        self.server.session.forgets_sequences();
        // The unnamed portal may be the client's, which may execute it again.
        self.run_in_internal_portal(&statement, &[]);
    }
}

impl Exchange<'_> {
    /// Whether another server may remember this client's values, and the client may go there: see
    /// [`crate::flow::own_server`].
    pub(crate) fn wants_own_server(&self) -> bool {
        let (client, server) = (&*self.client, &*self.server);
        !self.granted.own_server
            && server.session.is_stranger()
            && server.session.visited_anew()
            && server.is_clean()
            && client.session.pins().is_empty()
            && client.session.suspicion().is_none()
            && client.session.deferred_begin().is_none()
            && !self.shared.settings.link_adversarial
    }

    /// A text of the client's may call nextval() or currval(), or do something unknown. If its server may remember
    /// other clients' values, they are discarded first: the returned step then means that the message is handled again.
    pub(crate) fn uses_sequences(&mut self, effects: Effects, message: &Message<'_>) -> Option<Step> {
        let server = &mut *self.server;
        let pool = &mut *self.pool;
        let asks = effects.intersects(ASKS_LAST);
        if asks || effects.intersects(Effects::DRAWS) {
            server.session.claim();
            pool.uses_sequences(if asks { Sequences::Asked } else { Sequences::Drawn });
        }
        // In a pool whose clients have called currval() before, this was done at the link.
        let tells = self.shared.is_weak(Weakness::TellsOthersValues);
        if !server.session.is_stranger() || !effects.intersects(NEEDS_OWN) || tells {
            return None;
        }
        self.discards_before(Discard::Sequences, effects, message)
    }

    /// The server discards something, and confirms that before the client's next request is sent.
    ///
    /// Sequences: the request may read other clients' values, or call nextval(), after which the client may call
    /// currval(). This also discards values that an INSERT of the client got in this transaction; a currval() then gets
    /// 55000. It happens once in the life of a pool.
    #[cold]
    pub(crate) fn discards_before(&mut self, what: Discard, effects: Effects, message: &Message<'_>) -> Option<Step> {
        let server = &mut *self.server;
        if server.conversation.intake() == Intake::CopyIn {
            return None;
        }
        // An unanswered message may fail the transaction, and a failed one refuses DISCARD. A deferred BEGIN that has failed
        // is sent with a Sync, and its answer tells that the transaction has failed.
        let queue = server.conversation.queue();
        let is_told_soon = !queue.is_empty() && !queue.segment_open();
        if server.session.is_forgetting() || queue.client_segment_outstanding() || is_told_soon {
            return Some(self.waits_for_replies());
        }
        if server.is_clean() {
            let shape = server.session.shape().clone();
            self.to().begin_restoring();
            self.to().run_discard(what);
            self.confirm_first(Vec::new(), shape);
            return Some(Step::Wait);
        }
        let in_segment = server.conversation.queue().segment_open();
        if server.conversation.status() == TransactionStatus::Failed
            && server.conversation.queue().is_empty()
            && !in_segment
        {
            return match what {
                Discard::Sequences => self.asks_in_failed_transaction(effects, message),
                Discard::Plans => {
                    server.session.plans_are_overdue();
                    None
                }
            };
        }
        // A deferred BEGIN has been sent without a Sync.
        let of_begin = server.conversation.only_begins();
        let is_request = matches!(message.tag, FrontendTag::Query | FrontendTag::FunctionCall);
        let in_block = server.conversation.status() != TransactionStatus::Idle;
        if is_request && !of_begin && !in_block && server.conversation.queue().segment_executes_nothing() {
            return self.ends_segment_first();
        }
        // A Sync would commit the transaction that a Query in a pipeline has left open.
        let is_open = in_segment || server.conversation.is_queried_in_pipeline();
        self.to().run_discard(what);
        if is_open && !of_begin && what == Discard::Plans {
            self.asks_for_replies();
        } else if is_open && !of_begin {
            self.to().asks(To::Skip, |r| r.flush());
        } else {
            self.to().asks(To::Skip, |r| r.sync());
        }
        Some(self.waits_for_replies())
    }
}

impl Exchange<'_> {
    /// A failed transaction refuses DISCARD SEQUENCES. Only a Query of several statements can both end the transaction
    /// and call currval(): it is refused. A Query that does not end it would get the same error from the server.
    fn asks_in_failed_transaction(&mut self, effects: Effects, message: &Message<'_>) -> Option<Step> {
        if !effects.intersects(ASKS) || !may_be_several(message) {
            return None;
        }
        let hint = "End the transaction by a Query of its own.";
        self.tell(|w| {
            w.error(&ErrorText {
                hint,
                ..TRANSACTION_FAILED
            })
        });
        // A Query destroys the unnamed statement, even if it fails.
        self.server.held.unnamed_becomes(Unnamed::Foreign);
        let client = &mut *self.client;
        client.dropping = Dropping::Request;
        let dropped = client.drop_answered(message);
        if dropped.ends {
            let status = self.server.conversation.status();
            self.tell(|w| w.ready_for_query(status));
            self.pool.stats_mut().query_count += 1;
        }
        Some(dropped.step)
    }

    /// A Query or FunctionCall comes in the midst of a segment that has executed nothing. Behind an internal Execute it
    /// would be a part of a pipeline: PostgreSQL 18 commits it only at the Sync, and reports an open transaction. So
    /// the segment is ended first, once the server has answered all of it. If something of it has failed, the server
    /// ignores the request, too.
    fn ends_segment_first(&mut self) -> Option<Step> {
        if self.server.conversation.intake() == Intake::ToSync {
            return None;
        }
        // The server has nothing to answer in front of these.
        self.to().give_fakes();
        if self.server.conversation.queue().is_empty() {
            self.to().asks(To::Skip, |r| r.sync());
        } else {
            self.asks_for_replies();
        }
        Some(self.waits_for_replies())
    }
}

impl Reply<'_> {
    /// The server has confirmed DISCARD SEQUENCES.
    pub(crate) fn forgot_sequences(&mut self) {
        let was_ours = self.server.session.has_forgotten();
        // Otherwise the client waits for the end of the segment.
        if was_ours && self.server.conversation.queue().segment_open() {
            self.replies_came();
        }
    }
}

/// Whether a message may hold several statements.
fn may_be_several(message: &Message<'_>) -> bool {
    let text = message.body().strip_suffix(&[0]).filter(|_| message.is_whole());
    let single = text.and_then(pgweir_sql::statements).is_some_and(|s| s.len() == 1);
    message.tag == FrontendTag::Query && !single
}
