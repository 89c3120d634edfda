//! Plans that may be too old: what happens before a shared statement is used.
//!
//! PostgreSQL refuses a plan whose rows DDL has changed since its Parse: 0A000, "cached plan must not change result
//! type". On a direct connection this Parse was the client's. Here a server's copy of the statement may be older than
//! the client's Parse; a client that prepared the statement after the DDL must not get this error. The copy may also be
//! newer; a client that has been told the columns of its rows must not get rows with other columns.
//!
//! PostgreSQL does not notice if a new object hides the one that a statement names (see [`Server::moves_names`]). So a
//! copy from before such a change is prepared again for a client that prepared the statement after the change.
//!
//! So each use compares moments of a logical clock (see [`crate::statements::held`]). Usually the plan is good. If the
//! copy may be too old, the client's message waits and the server is asked to describe the statement, in a separate
//! segment. If the server refuses, the statement is closed and prepared again, and then the message is sent. Where such
//! a segment cannot be sent, because a transaction is open that an error would fail, or because something has been
//! executed since the last Sync, the statement is closed and prepared again without asking.

use crate::base::message::{Message, Step};
use crate::base::secret_names::could_be_internal;
use crate::base::weakness::Weakness;
use crate::exchange::Exchange;
use crate::preparing::use_refusal::UseRefusal;
use crate::reply::Reply;
use crate::server::Server;
use crate::server_side::ServerSide;
use crate::statements::held::Moment;
use crate::statements::meaning::Meaning;
use crate::statements::parameter_types::Types;
use crate::statements::prepared::Statement;
use crate::statements::rows::Rows;
use crate::statements::unnamed::Unnamed;
use crate::upstream::entry::{Entry, Expect, To};
use crate::upstream::job::Job;
use crate::upstream::phase::Intake;
use crate::upstream::replacement::Instead;
use pgweir_wire::{TransactionStatus, Writer};
use std::sync::Arc;

/// What becomes of a message that uses a prepared statement.
#[derive(Debug)]
pub(crate) enum Use {
    /// The server holds the statement.
    GoesOn,
    /// The server holds the statement that the client's name means from now on.
    Becomes(Arc<Statement>),
    /// The server must answer first; then the message is handled again.
    Waits,
    /// The use must be refused.
    Refused(UseRefusal),
}

/// What must be done before a use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Need {
    Nothing,
    /// The server does not hold the statement.
    Parse,
    /// The plan may be too old.
    Check,
    /// The plan is too old, or it is not known whether the parameters have the client's types.
    Replan,
    /// The parameters have other types than the client's.
    Retype,
    /// The server must parse the statement for this client and tell the types of its parameters.
    Types,
    /// The server must answer first.
    Answer,
    /// The message must be refused, because the rows have changed.
    Refusal,
}

impl ServerSide<'_> {
    /// Whether an internal segment can be sent now whose failure harms nobody.
    fn may_check(&self) -> bool {
        let server = &*self.server;
        server.conversation.status() == TransactionStatus::Idle
            && server.conversation.intake() == Intake::Requests
            && server.conversation.queue().is_quiet()
    }

    /// Asks, in an internal segment, whether a plan can still be used.
    fn check_plan(&mut self, statement: &Arc<Statement>) {
        self.shared.state_stats.plan_checks += 1;
        self.describe_internally(statement, statement.server_name(), To::Job(Job::CheckPlan));
        self.asks(To::Skip, |r| r.sync());
        self.server.conversation.queue_mut().segment_goes_on();
    }

    /// `name` is the one by which the server knows the statement.
    pub(crate) fn describe_internally(&mut self, statement: &Statement, name: &[u8], to: To) {
        let asked = self.shared.statements.now();
        self.server.held.is_asked(statement.id);
        let entry = Entry::skip(Expect::Describe).using(statement.id).asked_at(asked);
        let entry = entry.answered_to(to);
        self.asks(to, |r| r.special(entry).describe(b'S', name));
    }

    /// The server has refused the internal Describe: the statement is prepared again before its next use, without
    /// another question.
    pub(crate) fn check_failed(&mut self, sqlstate: &[u8]) {
        self.shared.state_stats.retries += u64::from(sqlstate == b"0A000");
        let server = &mut *self.server;
        for entry in server.conversation.queue_mut().take_to_sync() {
            server.held.is_not_asked(entry.uses());
            server.held.outdate(entry.uses());
        }
    }

    /// The server has refused the use of a statement that the queue's first entry names. The statement is prepared
    /// again before its next use.
    pub(crate) fn note_refusal(&mut self, sqlstate: &[u8]) {
        let server = &mut *self.server;
        let Some(front) = server.conversation.queue().front() else {
            return;
        };
        let (uses, replaced) = (front.uses(), front.replacement().is_some());
        match sqlstate {
            // DDL has removed an object that PostgreSQL does not watch for its plans: usually a type.
            b"0A000" | b"XX000" | b"42704" if !server.held.stays(uses) => server.held.outdate(uses),
            // A function has deallocated the statement, and the pooler could not see that.
            b"26000" if !replaced => {
                server.held.outdate(uses);
                server.held.outdate_all();
            }
            _ => {}
        }
    }

    /// A client's temporary objects are gone, but their schema stays in the server's search path until the server ends.
    /// At the next use of older statements PostgreSQL analyses them again, under the settings of the client that uses
    /// them (recording E12). So they are prepared again under the settings that they were first parsed under, once for
    /// each server.
    pub(crate) fn temporary_schema_stays(&mut self) {
        let server = &mut *self.server;
        if server.session.gains_temporary_schema() {
            server.held.outdate_all();
            server.held.unnamed_becomes(Unnamed::Foreign);
        }
    }

    /// A text that is about to run may end prepared statements, internal ones too, and prepare others under their
    /// names.
    pub(crate) fn doubt_statements(&mut self) {
        if self.shared.is_weak(Weakness::TrustsNames) {
            return;
        }
        let now = self.shared.statements.tick();
        self.server.held.doubt(now);
    }

    /// A client's name is about to come to a server. If it could be an internal name, the server's statements are
    /// doubted.
    #[inline]
    pub(crate) fn client_name_comes(&mut self, name: &[u8]) {
        if could_be_internal(name) {
            self.doubt_statements();
        }
    }
}

/// The rows that a client expects of the portal of a Bind; `None` if the next message asks for them.
#[inline]
pub(crate) fn expected_rows(meaning: &Meaning, message: &Message<'_>, portal: &[u8]) -> Option<Rows> {
    // Describe tells the client whatever the rows are.
    meaning
        .told()
        .filter(|_| !meaning.is_told_by_portal() || message.describes_next(portal) != Some(true))
}

/// What must come before a client's use of one of its statements; `told` is the rows that the client expects. If it is
/// nothing, this is the use.
#[inline]
pub(crate) fn need_of(meaning: &Meaning, server: &mut Server, told: Option<Rows>, now: Moment) -> Need {
    let doubted = server.held.doubted();
    let awaited = server.held.take_awaited(meaning.statement().id);
    let Some(copy) = server.held.using(meaning.statement().id) else {
        return if meaning.is_unparsed() {
            Need::Types
        } else {
            Need::Parse
        };
    };
    let has_other_types = |types: &Types| copy.has_types(types) != Some(true) && !copy.stays();
    let need = if server.conversation.is_surely_failed() {
        Need::Nothing
    } else if copy.is_asked() {
        Need::Answer
    } else if meaning.is_unparsed() {
        Need::Types
    } else if !awaited && copy.is_outdated(doubted, meaning.names_moved()) {
        Need::Replan
    } else if let Some(types) = meaning.told_types().filter(|types| has_other_types(types)) {
        match copy.has_types(types) {
            Some(_) => Need::Retype,
            None => Need::Replan,
        }
    } else if !meaning.statement().may_return_rows {
        Need::Nothing
    } else {
        match (told, copy.rows()) {
            (Some(told), Some(rows)) if told == rows => Need::Nothing,
            (Some(_), Some(_)) if copy.is_good_since(meaning.since()) => Need::Refusal,
            (None, _) if copy.is_good_since(meaning.since()) => Need::Nothing,
            // No answer would change what follows.
            _ if copy.stays() => Need::Nothing,
            _ => Need::Check,
        }
    };
    match need {
        Need::Nothing => copy.is_used(now),
        Need::Answer if awaited => server.held.awaits(meaning.statement().id),
        _ => {}
    }
    need
}

impl Exchange<'_> {
    /// Makes sure, before a use, that the server holds a client's named statement, and that its plan is not older than
    /// the client's name. `described` is whether the client describes the portal that is bound.
    pub(crate) fn prepare_named(&mut self, name: &[u8], by: Expect, described: bool) -> Use {
        let now = self.shared.statements.now();
        let Some(meaning) = self.client.statements.named(name) else {
            return Use::GoesOn;
        };
        // A Describe tells the client the rows, whatever they are.
        let binds_by = |_: &Rows| by == Expect::Bind && !(described && meaning.is_told_by_portal());
        let told = meaning.told().filter(binds_by);
        let server = &mut *self.server;
        let need = need_of(meaning, server, told, now);
        if let Need::Nothing = need {
            return Use::GoesOn;
        }
        server.held.is_used(meaning.statement().id, now);
        let (statement, types) = (meaning.statement().clone(), meaning.told_types().cloned());
        if statement.has_constants && self.will_know_what_is_set() {
            return self.use_waits();
        }
        let failed = self.server.conversation.is_surely_failed();
        if matches!(need, Need::Parse | Need::Replan | Need::Check | Need::Types)
            && self.to().would_go_apart_too_early(&statement)
        {
            return self.use_waits();
        }
        match need {
            Need::Nothing => Use::GoesOn,
            Need::Refusal => Use::Refused(UseRefusal::OtherRows),
            Need::Parse if failed && self.to().would_be_read_otherwise(&statement) => {
                Use::Refused(UseRefusal::in_failed_transaction(&statement))
            }
            Need::Answer => self.use_waits(),
            // PostgreSQL does not plan such a statement again, and describing a FETCH without its cursor would end the
            // server.
            Need::Check if pgweir_sql::belongs_to_session(&statement.query) => Use::GoesOn,
            Need::Check if self.to().may_check() => {
                self.to().check_plan(&statement);
                self.use_waits()
            }
            Need::Parse | Need::Check | Need::Replan
                if types.is_some() && !failed && statement.may_refuse_told_types() =>
            {
                self.prepare_as_inferred(&statement)
            }
            Need::Parse => {
                self.to().prepare_with_types(&statement, types.as_ref());
                self.compare_rows(&statement, told.filter(|_| !failed))
            }
            Need::Check | Need::Replan => {
                self.shared.state_stats.re_prepares += 1;
                self.to().prepare_again_with_types(&statement, types.as_ref());
                self.compare_rows(&statement, told)
            }
            Need::Types => {
                self.infer_types(name, &statement);
                Use::GoesOn
            }
            Need::Retype => self.retype(name, by, described),
        }
    }

    /// The client's Parse was answered without a server, and left types open: this server parses the statement now, and
    /// is asked for the types.
    #[cold]
    fn infer_types(&mut self, name: &[u8], statement: &Arc<Statement>) {
        let mut server = self.to();
        server.prepare_again(statement);
        server.ask_for_types_of(name, statement);
    }

    /// PostgreSQL may refuse the types that the client was told: the server infers them again, and tells them before the
    /// use.
    #[cold]
    fn prepare_as_inferred(&mut self, statement: &Arc<Statement>) -> Use {
        match self.server.held.touch(statement.id) {
            true => self.to().prepare_again(statement),
            false => self.to().prepare(statement),
        }
        self.waits_for_description(statement)
    }

    /// The server describes a statement that was just prepared. Then the message that uses it is looked at again.
    fn waits_for_description(&mut self, statement: &Arc<Statement>) -> Use {
        self.to()
            .describe_internally(statement, statement.server_name(), To::Skip);
        self.server.held.awaits(statement.id);
        self.waits_for_answer();
        Use::Waits
    }

    /// Another client's Parse of the same text got other types, so this client gets a statement with the types that it
    /// was told.
    #[cold]
    fn retype(&mut self, name: &[u8], by: Expect, described: bool) -> Use {
        let meaning = self.client.statements.named_mut(name).expect("looked up by the caller");
        let statement = self
            .shared
            .statements
            .intern_with_types(meaning.statement(), meaning.types());
        meaning.becomes(statement.clone());
        match self.prepare_named(name, by, described) {
            Use::GoesOn => Use::Becomes(statement),
            other => other,
        }
    }

    /// The message is looked at again when the server has answered what it was asked last.
    pub(crate) fn waits_for_answer(&mut self) -> Step {
        self.to().asks(To::Skip, |r| r.flush());
        self.waits_for_replies()
    }

    fn use_waits(&mut self) -> Use {
        self.waits_for_replies();
        Use::Waits
    }

    /// If the client has been told a statement's rows, the rows of a new plan must be known before it is used.
    fn compare_rows(&mut self, statement: &Arc<Statement>, told: Option<Rows>) -> Use {
        // Describing a FETCH without its cursor would end the server.
        if told.is_none() || pgweir_sql::belongs_to_session(&statement.query) {
            return Use::GoesOn;
        }
        self.waits_for_description(statement)
    }

    /// Refuses a Bind or Describe. It must fail on the server too.
    pub(crate) fn refuse_use(&mut self, message: &Message<'_>, why: UseRefusal) -> Step {
        let mut reply = Vec::new();
        why.write(&mut Writer::new(&mut reply));
        let entry = Entry::forward(Expect::Bind).replacing(*b"26000", Instead::Error(reply));
        let nowhere = self.shared.internal.names.nowhere.clone();
        self.asks_instead(message, |r| r.special(entry).bind(b"", &nowhere, &[]))
    }
}

impl Reply<'_> {
    /// The server has described a statement.
    pub(crate) fn described(&mut self, mut entry: Entry, rows: Rows) {
        let asked = entry.asked();
        self.server.held.described(entry.uses(), asked, rows);
        match entry.to() {
            To::Forward => {
                let name = entry.take_effect().and_then(|e| e.describes).map(|(name, _)| name);
                if let Some(meaning) = name.and_then(|name| self.meaning_described(&name, entry.uses(), asked)) {
                    meaning.tells(rows, asked);
                }
            }
            To::Skip => self.replies_came(),
            // The Sync behind it has its own entry.
            _ => {}
        }
    }
}
