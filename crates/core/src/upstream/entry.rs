//! One request that a server has not answered: which reply ends it, who gets the reply, and what the request changes.

use crate::statements::client_names::StatementName;
use crate::statements::ends::PortalBefore;
use crate::statements::followed::FollowedBefore;
use crate::statements::held::Moment;
use crate::statements::meaning::Meaning;
use crate::statements::prepared::Statement;
use crate::statements::rows::Rows;
use crate::upstream::job::Job;
use crate::upstream::replacement::{Instead, Replacement};
use std::collections::VecDeque;
use std::sync::Arc;

/// The request behind an entry; it says which reply ends it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, pgweir_freeze::Freeze)]
pub(crate) enum Expect {
    /// Ends with ReadyForQuery.
    #[default]
    Query,
    /// Ends with ReadyForQuery.
    FunctionCall,
    /// Ends with ReadyForQuery.
    Sync,
    /// Ends with ParseComplete; a named statement.
    Parse,
    /// Ends with ParseComplete; the unnamed statement.
    ParseUnnamed,
    /// Ends with BindComplete.
    Bind,
    /// Ends with RowDescription or NoData.
    Describe,
    /// Ends with CommandComplete, EmptyQueryResponse or PortalSuspended.
    Execute,
    /// Ends with CloseComplete.
    Close,
    /// A Flush that has a body: ends with an error. In a copy-in it is ignored, as any Flush.
    MalformedFlush,
    /// CopyDone or CopyFail: no reply ends it. It marks where the server stops swallowing the Syncs of a copy-in. A
    /// Query may contain several copies: each copy removes one of these entries when it begins, and the server ignores
    /// the other ends.
    CopyEnd,
    /// No request: when it comes to the front, everything before it has been answered, and a client that has waited for
    /// that goes on. Always [`To::Fake`].
    Pause,
}

impl Expect {
    /// Whether the request is a single message.
    #[inline]
    pub(crate) fn is_whole_request(self) -> bool {
        matches!(self, Expect::Query | Expect::FunctionCall)
    }

    /// Whether a ReadyForQuery ends it.
    #[inline]
    pub(crate) fn ends_with_ready(self) -> bool {
        self.is_whole_request() || self == Expect::Sync
    }

    /// The tag of the message without a body that ends it, if the pooler can answer it ([`To::Fake`]).
    pub(crate) fn fake_tag(self) -> Option<u8> {
        match self {
            Expect::Parse => Some(b'1'),
            Expect::Close => Some(b'3'),
            _ => None,
        }
    }
}

/// Who gets the reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, pgweir_freeze::Freeze)]
pub(crate) enum To {
    /// The client of its segment: the one whose flight it is ([`crate::upstream::flights`]), or the linked one. At the
    /// front of the queue the two are the same, because the link moves on with each flight.
    #[default]
    Forward,
    /// No client.
    Skip,
    /// The pooler, which has asked the server something.
    Job(Job),
    /// No client; the request is meant to fail.
    Swallow,
    /// The client of its segment; the pooler answers it without the server (see [`Expect::fake_tag`]).
    Fake,
    /// The client of its segment, except for one error, whose text would speak of an internal statement: see
    /// [`Entry::replacement`].
    Replace,
}

/// What a request changes if it succeeds. It is recorded when the request is sent, so that later messages see it before
/// the reply comes. It is undone if the server refuses or ignores the request.
#[derive(Debug, Clone, Default, pgweir_freeze::Freeze)]
pub(crate) struct Effect {
    /// The server holds this statement from this request on.
    pub(crate) server_gains: Option<Arc<Statement>>,
    /// The server held this statement until this request.
    pub(crate) server_loses: Option<Arc<Statement>>,
    /// All statements that the server held until this request (DEALLOCATE ALL, DISCARD ALL).
    pub(crate) server_lost_all: Option<Vec<Arc<Statement>>>,
    /// It sets the server's unnamed statement.
    pub(crate) server_unnamed: bool,
    /// Only the reply shows whether its text ends statements: DEALLOCATE among other statements of a Query.
    pub(crate) may_end_statements: bool,
    /// The names that it deallocates one by one, in the order of their command tags.
    pub(crate) deallocates: VecDeque<StatementName>,
    /// The channels of its UNLISTENs, in the order of their command tags; `None`: all.
    pub(crate) unlistens: VecDeque<Option<Box<[u8]>>>,
    /// If the last of its statements is a DEALLOCATE: how many in front of it have not been answered. The server answers
    /// the last one only when it has committed, and what it has ended is gone even if the commit fails.
    pub(crate) before_deallocate: Option<u32>,
    /// It is a PREPARE of a name that the client already uses, so the server must refuse it.
    pub(crate) must_be_refused: bool,
    /// One of the client's names, and its meaning before this request.
    pub(crate) name: Option<(StatementName, Option<Meaning>)>,
    /// The same for a name that is followed, where statements are not tracked.
    pub(crate) followed: Option<FollowedBefore>,
    /// All of the client's names, and their meanings before this request.
    pub(crate) names_lost_all: Option<Vec<(StatementName, Meaning)>>,
    /// The client's name of the statement whose rows are described, and the rows that it was told before.
    pub(crate) describes: Option<(StatementName, Option<Rows>)>,
    /// The portal of a Bind before it.
    pub(crate) portal: Option<PortalBefore>,
    /// The client's unnamed statement before this request.
    pub(crate) unnamed: Option<Option<Arc<Statement>>>,
}

/// One request. There is one for every message of every client, so the facts that few requests have are in a box.
#[derive(Debug, Clone, Default, pgweir_freeze::Freeze)]
pub(crate) struct Entry {
    pub(super) expect: Expect,
    pub(super) to: To,
    pub(super) ready: Ready,
    /// CopyData was sent behind it, before the next request.
    pub(super) data_behind: bool,
    /// It changes prepared statements; set when it is pushed.
    pub(super) changes: bool,
    /// It is a Query that executes a statement that may be prepared in front of it, and fails if that fails.
    pub(super) executes: bool,
    /// The number of texts in it that made the client's session suspect.
    pub(super) suspected: u8,
    /// Id of the prepared statement it uses; 0 is none.
    pub(super) uses: u64,
    pub(super) rare: Option<Box<Rare>>,
}

const _: () = assert!(size_of::<Entry>() <= 24, "an entry is as small as it was");

/// The facts that few requests have.
#[derive(Debug, Clone, Default, pgweir_freeze::Freeze)]
pub(super) struct Rare {
    effect: Option<Effect>,
    pub(super) replacement: Option<Replacement>,
    /// When the statement was described.
    asked: Moment,
}

/// What becomes of the ReadyForQuery that ends a request of the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, pgweir_freeze::Freeze)]
pub(crate) enum Ready {
    /// It goes to the receiver of the reply.
    #[default]
    Passes,
    /// If the request succeeded, it goes to no client, because restored settings of the client follow. Otherwise the
    /// client first gets the reported settings that differ from what it knows.
    Decides,
    /// It goes to no client even if the request failed, because restored settings of the client follow.
    Makes,
    /// It replaces an earlier ReadyForQuery that went to no client. The client first gets the reported settings that
    /// differ from what it knows.
    Told,
}

/// See [`Entry::is_internal`].
#[inline]
pub(super) fn is_internal(to: To, ready: Ready) -> bool {
    match to {
        // The requests of a plan check precede a message of the client, and only their Sync counts as internal.
        To::Job(Job::CheckPlan) => false,
        To::Skip | To::Job(_) => true,
        _ => ready == Ready::Told,
    }
}

/// See [`Entry::may_copy`].
#[inline]
pub(super) fn may_copy(expect: Expect, to: To) -> bool {
    matches!(expect, Expect::Query | Expect::Execute) && matches!(to, To::Forward | To::Replace)
}

impl Entry {
    /// The request; it says which reply ends it.
    #[inline]
    pub(crate) fn expect(&self) -> Expect {
        self.expect
    }

    /// Who gets the reply.
    #[inline]
    pub(crate) fn to(&self) -> To {
        self.to
    }

    /// What becomes of the ReadyForQuery that ends it.
    #[inline]
    pub(crate) fn ready(&self) -> Ready {
        self.ready
    }

    /// Id of the prepared statement that it uses; 0 is none.
    #[inline]
    pub(crate) fn uses(&self) -> u64 {
        self.uses
    }

    /// Whether it is an internal request.
    pub(super) fn is_internal(&self) -> bool {
        is_internal(self.to, self.ready)
    }

    /// Whether a copy can be a part of its reply: no internal statement copies.
    pub(crate) fn may_copy(&self) -> bool {
        may_copy(self.expect, self.to)
    }

    #[inline]
    pub(super) fn new(expect: Expect, to: To) -> Self {
        Entry {
            expect,
            to,
            ready: Ready::Passes,
            data_behind: false,
            changes: false,
            executes: false,
            suspected: 0,
            uses: 0,
            rare: None,
        }
    }

    #[inline]
    pub(crate) fn forward(expect: Expect) -> Self {
        Entry::new(expect, To::Forward)
    }

    #[inline]
    pub(crate) fn skip(expect: Expect) -> Self {
        Entry::new(expect, To::Skip)
    }

    pub(crate) fn fake(expect: Expect) -> Self {
        debug_assert!(expect.fake_tag().is_some() || expect == Expect::Pause);
        Entry::new(expect, To::Fake)
    }

    /// The same entry, with another receiver of its reply.
    pub(crate) fn answered_to(mut self, to: To) -> Self {
        self.to = to;
        self
    }

    /// Sets what becomes of the ReadyForQuery that ends the entry.
    pub(crate) fn with_ready(mut self, ready: Ready) -> Self {
        self.ready = ready;
        self
    }

    /// Restored settings of the client follow: the ReadyForQuery goes to no client even if the request failed.
    pub(crate) fn swallow_ready(&mut self) {
        self.ready = Ready::Makes;
    }

    /// It belongs to this job, which does not look at its reply.
    pub(crate) fn belongs_to(&mut self, job: Job) {
        self.to = To::Job(job.without_rows());
    }

    pub(crate) fn using(mut self, statement: u64) -> Self {
        self.uses = statement;
        self
    }

    /// It is a Query that fails if a prepared statement that it names is missing.
    pub(crate) fn executing(mut self) -> Self {
        self.executes = true;
        self
    }

    pub(crate) fn with(mut self, effect: Effect) -> Self {
        self.rare.get_or_insert_default().effect = Some(effect);
        self
    }

    /// The client gets the reply, but an error with this SQLSTATE is replaced.
    pub(crate) fn replacing(mut self, sqlstate: [u8; 5], instead: Instead) -> Self {
        self.replace(sqlstate, instead);
        self
    }

    pub(super) fn replace(&mut self, sqlstate: [u8; 5], instead: Instead) {
        self.to = To::Replace;
        self.replace_error(sqlstate, instead);
    }

    /// Only the error is replaced: other replies go where they would have gone.
    pub(super) fn replace_error(&mut self, sqlstate: [u8; 5], instead: Instead) {
        self.rare.get_or_insert_default().replacement = Some(Replacement {
            sqlstate,
            or_failed: false,
            instead,
            unprepared: Vec::new(),
        });
    }

    /// These statements could not be prepared for a Query. If it then fails because one of them is missing, the client
    /// gets this error, and if another one is missing, that of the server.
    pub(super) fn lacks(&mut self, names: &[Box<[u8]>], error: Vec<u8>) {
        let rare = self.rare.get_or_insert_default();
        let before = rare.replacement.take();
        let mut unprepared = before.map_or_else(Vec::new, |before| before.unprepared);
        let instead = Instead::Error(error);
        unprepared.extend(names.iter().map(|name| (name.clone(), instead.clone())));
        rare.replacement = Some(Replacement {
            sqlstate: *b"26000",
            or_failed: false,
            instead,
            unprepared,
        });
        self.to = To::Replace;
    }

    /// Whether the pooler executes an internal statement.
    pub(crate) fn executes_ours(&self) -> bool {
        self.to == To::Skip && self.expect == Expect::Execute
    }

    /// 25P02 is replaced by the same error, because that error fails the transaction.
    pub(super) fn replaces_failed(&mut self) {
        if let Some(replacement) = self.rare.as_mut().and_then(|rare| rare.replacement.as_mut()) {
            replacement.or_failed = true;
        }
    }

    /// The request describes a statement as it is now.
    pub(crate) fn asked_at(mut self, now: Moment) -> Self {
        self.rare.get_or_insert_default().asked = now;
        self
    }

    pub(crate) fn asked(&self) -> Moment {
        self.rare.as_ref().map_or_else(Moment::default, |rare| rare.asked)
    }

    pub(crate) fn effect(&self) -> Option<&Effect> {
        self.rare.as_ref()?.effect.as_ref()
    }

    pub(super) fn effect_mut(&mut self) -> Option<&mut Effect> {
        self.rare.as_mut()?.effect.as_mut()
    }

    pub(crate) fn take_effect(&mut self) -> Option<Effect> {
        self.rare.as_mut()?.effect.take()
    }

    /// Whether another error, which came before, goes to the client instead of the one of this request.
    pub(super) fn has_other_error(&self) -> bool {
        matches!(self.replacement().map(|r| &r.instead), Some(Instead::Error(_)))
    }

    /// The error that is replaced, and by what; for [`To::Replace`].
    pub(crate) fn replacement(&self) -> Option<&Replacement> {
        self.rare.as_ref()?.replacement.as_ref()
    }
}
