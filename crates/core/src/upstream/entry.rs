//! One request of those that a server has not answered: which reply ends it, who gets that, and what it changes.

use crate::statements::client_names::{Meaning, StatementName};
use crate::statements::held::Moment;
use crate::statements::prepared::Statement;
use crate::statements::rows::Rows;
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
    /// A Flush that has a body: ends with an error. A copy-in passes over it as over any Flush.
    MalformedFlush,
    /// CopyDone or CopyFail: nothing answers it; it marks where the Syncs of a copy-in stop being swallowed.
    CopyEnd,
}

impl Expect {
    /// A request of one message.
    #[inline]
    pub(crate) fn is_whole_request(self) -> bool {
        matches!(self, Expect::Query | Expect::FunctionCall)
    }

    /// Whether a ReadyForQuery ends it.
    #[inline]
    pub(crate) fn ends_with_ready(self) -> bool {
        self.is_whole_request() || self == Expect::Sync
    }

    /// The tag of the message without a body that ends it, where it is one that the pooler gives itself ([`To::Fake`]).
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
    /// The linked client.
    #[default]
    Forward,
    /// Nobody.
    Skip,
    /// Nobody; its rows answer a probe (see [`crate::session::probe`]).
    Probe,
    /// Nobody; it says whether the plan of a statement can still be used (see [`crate::preparing::replanning`]).
    Check,
    /// Nobody; that it fails is what it is for.
    Swallow,
    /// The linked client; the server was not asked (see [`Expect::fake_tag`]).
    Fake,
    /// The linked client gets the reply, but for one error, whose words would be about something of ours: see
    /// [`Entry::replacement`].
    Replace,
}

/// An error that does not go to the client as it is, and what goes instead.
#[derive(Debug, Clone, PartialEq, Eq, pgweir_freeze::Freeze)]
pub(crate) struct Replacement {
    pub(crate) sqlstate: [u8; 5],
    pub(crate) instead: Instead,
}

/// What a client gets instead of an error that is about something of ours.
#[derive(Debug, Clone, PartialEq, Eq, pgweir_freeze::Freeze)]
pub(crate) enum Instead {
    /// These bytes.
    Error(Vec<u8>),
    /// The error, with `theirs`, the client's own name, instead of the name on the server.
    Named { ours: Box<[u8]>, theirs: Box<[u8]> },
}

/// What a request changes if it succeeds: recorded when it is sent, so that later messages of the same flight see it,
/// and taken back if the server refuses or ignores it.
#[derive(Debug, Clone, Default, pgweir_freeze::Freeze)]
pub(crate) struct Effect {
    /// The server holds this statement from here on.
    pub(crate) server_gains: Option<Arc<Statement>>,
    /// The server held this statement up to here.
    pub(crate) server_loses: Option<Arc<Statement>>,
    /// The server's whole set of statements up to here (DEALLOCATE ALL, DISCARD ALL).
    pub(crate) server_lost_all: Option<Vec<Arc<Statement>>>,
    /// What the server's unnamed statement is.
    pub(crate) server_unnamed: bool,
    /// Its text may end statements in a way that only the reply tells: DEALLOCATE among other statements of a Query.
    pub(crate) may_end_statements: bool,
    /// The names it deallocates one by one, in the order of their command tags.
    pub(crate) deallocates: VecDeque<StatementName>,
    /// A name of the client's, and what it meant up to here.
    pub(crate) name: Option<(StatementName, Option<Meaning>)>,
    /// All names of the client's, and what they meant up to here.
    pub(crate) names_lost_all: Option<Vec<(StatementName, Meaning)>>,
    /// The client's name for the statement whose rows it is told, and what it had been told before.
    pub(crate) describes: Option<(StatementName, Option<Rows>)>,
    /// What the client's unnamed statement was up to here.
    pub(crate) unnamed: Option<Option<Arc<Statement>>>,
}

/// One request. There is one for every message of every client: what few of them have stands in a box.
#[derive(Debug, Clone, Default, pgweir_freeze::Freeze)]
pub(crate) struct Entry {
    pub(crate) expect: Expect,
    pub(crate) to: To,
    pub(crate) ready: Ready,
    /// CopyData was sent behind it, before the next request.
    pub(crate) data_behind: bool,
    /// It changes prepared statements; set when it is pushed.
    pub(super) changes: bool,
    /// Id of the prepared statement it uses; 0 is none.
    pub(crate) uses: u64,
    pub(super) rare: Option<Box<Rare>>,
}

const _: () = assert!(size_of::<Entry>() <= 24, "an entry is as small as it was");

/// What few requests have.
#[derive(Debug, Clone, Default, pgweir_freeze::Freeze)]
pub(super) struct Rare {
    effect: Option<Effect>,
    pub(super) replacement: Option<Replacement>,
    /// When a statement was described.
    asked: Moment,
}

/// What becomes of the ReadyForQuery that ends a request of the client's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, pgweir_freeze::Freeze)]
pub(crate) enum Ready {
    /// It goes where the reply goes.
    #[default]
    Passes,
    /// If its request was successful it is swallowed, as settings of the client's follow; otherwise what the server reports
    /// otherwise than the client was told is told before it.
    Decides,
    /// It is swallowed whatever became of its request, as settings of the client's follow.
    Makes,
    /// It stands for an earlier one; what the server reports otherwise than the client was told is told before it.
    Told,
}

impl Entry {
    /// Whether it answers something of the pooler's.
    pub(super) fn is_own(&self) -> bool {
        matches!(self.to, To::Skip | To::Probe) || self.ready == Ready::Told
    }

    /// Whether a copy can be part of its reply: no statement of the pooler's copies.
    pub(crate) fn may_copy(&self) -> bool {
        matches!(self.expect, Expect::Query | Expect::Execute) && matches!(self.to, To::Forward | To::Replace)
    }

    #[inline]
    pub(super) fn new(expect: Expect, to: To) -> Self {
        Entry {
            expect,
            to,
            ready: Ready::Passes,
            data_behind: false,
            changes: false,
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
        debug_assert!(expect.fake_tag().is_some());
        Entry::new(expect, To::Fake)
    }

    /// The same, with its reply to someone else.
    pub(crate) fn answered_to(mut self, to: To) -> Self {
        self.to = to;
        self
    }

    pub(crate) fn using(mut self, statement: u64) -> Self {
        self.uses = statement;
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
        self.rare.get_or_insert_default().replacement = Some(Replacement { sqlstate, instead });
    }

    /// A statement is described, as it is now.
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

    pub(crate) fn effect_mut(&mut self) -> Option<&mut Effect> {
        self.rare.as_mut()?.effect.as_mut()
    }

    pub(crate) fn take_effect(&mut self) -> Option<Effect> {
        self.rare.as_mut()?.effect.take()
    }

    /// The error that is replaced, and by what; for [`To::Replace`].
    pub(crate) fn replacement(&self) -> Option<&Replacement> {
        self.rare.as_ref()?.replacement.as_ref()
    }
}
