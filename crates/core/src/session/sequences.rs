//! What a session has drawn from sequences: currval() and lastval().
//!
//! The server process keeps these values; no other server can be given them. The rules, in pools whose clients draw from
//! sequences by name or call these functions:
//!
//! - A client gets the server that it had last, if no other client has used that server since. Other clients leave the server
//!   to it as long as there is another.
//! - A client that calls one of these functions keeps its server from then on
//!   ([`crate::base::pin_reason::PinReason::Sequences`]).
//! - If another client has used the server, or the client has used another server, the server discards its values first.
//!   PostgreSQL then says that nothing has been drawn yet (55000). No client sees the values of another client, nor older
//!   values of its own.
//! - The first time in a pool, the server discards its values before the first text that calls one of these functions or draws
//!   by name. Whether an INSERT draws is not known.
//! - The server must confirm that it has discarded its values. No message of the client's is sent before.

use crate::base::errors::TRANSACTION_FAILED;
use crate::base::message::{Message, Step};
use crate::base::reasons::Dropping;
use crate::exchange::Exchange;
use crate::reply::Reply;
use crate::server_side::ServerSide;
use crate::state::sequences::{Remembered, Sequences};
use crate::statements::unnamed::Unnamed;
use crate::upstream::entry::To;
use crate::upstream::phase::Intake;
use pgweir_sql::Effects;
use pgweir_wire::write::ErrorText;
use pgweir_wire::{FrontendTag, TransactionStatus};

/// What may tell what others have drawn.
const ASKS: Effects = Effects::SEQUENCE.union(Effects::CODE);

/// Before what a server must remember its own client's values only: behind what draws, the client may ask.
const NEEDS_OWN: Effects = ASKS.union(Effects::DRAWS);

impl ServerSide<'_> {
    /// What a text may do to sequences, or ask of them, where its names have been looked up in the catalog (`effects`) as
    /// well. While a catalog is being read, everything counts as code; only what the text itself runs is meant then, and
    /// routines, which may do anything.
    pub(crate) fn sequence_effects(&mut self, of_text: Effects, effects: Effects) -> Effects {
        if self.catalog_holds() {
            effects
        } else if of_text.intersects(Effects::ROUTINES) {
            effects | Effects::CODE
        } else if of_text.intersects(Effects::CODE) {
            effects
        } else {
            effects.without(Effects::CODE)
        }
    }

    /// A client was just linked to a server: may it meet values that others have drawn? What is sent begins a segment of
    /// restored settings, which the caller ends.
    pub(crate) fn sequences_on_link(&mut self) {
        let server = &mut *self.server;
        let pool = &*self.pool;
        let asked = pool.sequences == Sequences::Asked;
        // Adversarial linking gives way to none but those who name a sequence.
        server.session.claimed =
            asked && !self.shared.settings.link_adversarial || server.session.claimed && !server.session.is_stranger();
        if asked && server.session.is_stranger() {
            self.discard_sequences();
        }
    }

    fn discard_sequences(&mut self) {
        self.begin_restoring();
        self.run_discard();
    }

    fn run_discard(&mut self) {
        let statement = self.shared.own_statements.discard_sequences.clone();
        self.server.session.remembered = Remembered::Forgetting;
        // The unnamed portal may be the client's, to be executed once more.
        self.run_in_own_portal(&statement, &[]);
    }
}

impl Exchange<'_> {
    /// Whether another server may remember what this client has drawn, and it may go there: see
    /// [`crate::flow::own_server`].
    pub(crate) fn wants_own_server(&self) -> bool {
        let (client, server) = (&*self.client, &*self.server);
        !self.granted.own_server
            && server.session.is_stranger()
            && server.session.visited_anew
            && server.is_clean()
            && client.session.pins.is_empty()
            && client.session.suspicion.is_none()
            && client.session.deferred_begin.is_none()
            && !self.shared.settings.link_adversarial
    }

    /// A text of the client's may draw from sequences, ask what was drawn, or do what nobody knows. Where its server may
    /// remember what others have drawn, that is forgotten first: the step then says that the message comes again.
    pub(crate) fn uses_sequences(&mut self, effects: Effects, message: &Message<'_>) -> Option<Step> {
        let server = &mut *self.server;
        let pool = &mut *self.pool;
        let asks = effects.intersects(Effects::SEQUENCE);
        if asks || effects.intersects(Effects::DRAWS) {
            server.session.claimed = true;
            pool.sequences = pool
                .sequences
                .max(if asks { Sequences::Asked } else { Sequences::Drawn });
        }
        // In a pool that has been asked before, this was done when the link was made.
        if !server.session.is_stranger() || !effects.intersects(NEEDS_OWN) {
            return None;
        }
        self.forget_before(effects, message)
    }

    /// The client's next request may ask for what others have drawn, or draws what the client may ask for: the server
    /// forgets the others' values first, and confirms it before anything of the request is sent. What the client itself has
    /// drawn by an INSERT in this transaction is forgotten, too, and its question gets 55000: once in the life of a pool.
    #[cold]
    fn forget_before(&mut self, effects: Effects, message: &Message<'_>) -> Option<Step> {
        let server = &mut *self.server;
        if server.conversation.intake == Intake::CopyIn {
            return None;
        }
        // What is still unanswered may fail the transaction, in which nothing can be forgotten.
        if server.session.remembered == Remembered::Forgetting || server.conversation.queue.client_segment_outstanding()
        {
            return Some(self.waits_for_replies());
        }
        if server.is_clean() {
            let shape = server.session.shape.clone();
            self.to().discard_sequences();
            self.confirm_first(&[], shape);
            return Some(Step::Wait);
        }
        let in_segment = server.conversation.queue.segment_open();
        if server.conversation.status == TransactionStatus::Failed
            && server.conversation.queue.is_empty()
            && !in_segment
        {
            // Nothing can be forgotten in a failed transaction, and only a Query of several statements can both end it and
            // ask. One that does not end it would get the same error from the server.
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
            // A Query destroys the unnamed statement, whatever becomes of it.
            self.server.held.unnamed = Unnamed::Foreign;
            let client = &mut *self.client;
            client.statements.unnamed = None;
            client.dropping = Dropping::Request;
            let (step, ends) = client.drop_answered(message);
            if ends {
                let status = self.server.conversation.status;
                self.tell(|w| w.ready_for_query(status));
                self.pool.stats.query_count += 1;
            }
            return Some(step);
        }
        // A deferred BEGIN has been sent without its Sync.
        let of_begin = server.conversation.only_begins();
        // A Sync would commit what a Query in a pipeline has left open.
        let is_open = in_segment || server.conversation.queried_in_pipeline;
        self.to().run_discard();
        if is_open && !of_begin {
            self.ask(|w| w.flush());
        } else {
            self.to().asks(To::Skip, |r| r.sync());
        }
        Some(self.waits_for_replies())
    }
}

impl Reply<'_> {
    /// The server has forgotten what was drawn from sequences, by its own word.
    pub(crate) fn forgot_sequences(&mut self) {
        let before = std::mem::replace(&mut self.server.session.remembered, Remembered::OfClient);
        // Otherwise the end of the segment is waited for.
        if before == Remembered::Forgetting && self.server.conversation.queue.segment_open() {
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
