//! What a server still owes, in order.
//!
//! Every request that reaches a server leaves an [`Entry`]; replies are matched from the front. `Forward` replies go to
//! the linked client, `Skip` replies were asked for by the pooler and are swallowed, `Fake` replies the server will never
//! send: the pooler answers itself when the entry comes to the front. This one queue serves injected Parse, restored
//! settings, deferred BEGIN, pipelining and recovery from errors; nothing is repaired in the byte stream afterwards.
//!
//! Rules: the PostgreSQL manual, "Message Flow", sections "Extended Query", "Pipelining" and "COPY Operations"; recordings
//! E3 (everything up to Sync is ignored after an error, a Query included) and E7 (Sync during copy-in has no reply).

use crate::statements::held::{Moment, Rows};
use crate::statements::prepared::{Meaning, OWN_ID_MAX, Statement, StatementName};
use crate::upstream::fifo::Fifo;
use std::collections::{HashSet, VecDeque};
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
    changes: bool,
    /// Id of the prepared statement it uses; 0 is none.
    pub(crate) uses: u64,
    rare: Option<Box<Rare>>,
}

const _: () = assert!(size_of::<Entry>() <= 24, "an entry is as small as it was");

/// What few requests have.
#[derive(Debug, Clone, Default, pgweir_freeze::Freeze)]
struct Rare {
    effect: Option<Effect>,
    replacement: Option<Replacement>,
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

/// How much of a copy-in had been sent when the server began it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CopyBegun {
    /// Its end, too.
    pub(crate) ended: bool,
    /// A Sync behind some of its data: swallowed, but not if the copy failed on that data.
    pub(crate) sync_among_data: bool,
    /// A request stands among its data: the server takes it for a breach of protocol, and passes over it.
    pub(crate) interrupted: bool,
}

impl Entry {
    /// Whether it answers something of the pooler's.
    fn is_own(&self) -> bool {
        matches!(self.to, To::Skip | To::Probe) || self.ready == Ready::Told
    }

    /// Whether a copy can be part of its reply: no statement of the pooler's copies.
    pub(crate) fn may_copy(&self) -> bool {
        matches!(self.expect, Expect::Query | Expect::Execute) && matches!(self.to, To::Forward | To::Replace)
    }

    #[inline]
    fn new(expect: Expect, to: To) -> Self {
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

    pub(crate) fn probe(expect: Expect) -> Self {
        Entry::new(expect, To::Probe)
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

    fn replace(&mut self, sqlstate: [u8; 5], instead: Instead) {
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

/// What a ReadyForQuery has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ended {
    pub(crate) expect: Expect,
    pub(crate) to: To,
    pub(crate) ready: Ready,
}

/// See [`ReplyQueue::all_ended_in_front`].
#[derive(Debug, Default)]
pub(crate) struct GainedLater {
    pub(crate) statements: HashSet<u64>,
    pub(crate) names: HashSet<Box<[u8]>>,
}

/// Entries in the order of their requests.
#[derive(Debug, Default, pgweir_freeze::Freeze)]
pub(crate) struct ReplyQueue {
    entries: Fifo<Entry>,
    /// Entries that a ReadyForQuery ends.
    ready_owed: u32,
    /// Entries of kind [`To::Fake`].
    fakes: u32,
    /// The last request was one of the extended protocol: a Sync must follow before the server is between segments.
    segment_open: bool,
    /// Something of the segment that is open has been sent to the server.
    segment_sent: bool,
    /// Entries that a ReadyForQuery ended, since the server logged in.
    segments_answered: u64,
    /// Entries that change prepared statements, in segments that have been ended by a Sync or Query.
    changes_in_ended: u32,
    /// The same in the segment that is open.
    changes_in_open: u32,
    /// The front has ended all statements; how many entries there were then. 0 if it has not.
    ended_by_front: u32,
}

impl ReplyQueue {
    /// A part of the client's segment, with nothing rare about it: no Parse, no end of a copy, nothing that a ReadyForQuery
    /// ends.
    #[inline(always)]
    pub(crate) fn push_part(&mut self, expect: Expect, uses: u64) {
        debug_assert!(matches!(expect, Expect::Bind | Expect::Describe | Expect::Execute));
        (self.segment_open, self.segment_sent) = (true, true);
        self.entries.push_back(Entry {
            uses,
            ..Entry::forward(expect)
        });
    }

    /// A Query or Sync of the client's, with nothing rare about it.
    #[inline(always)]
    pub(crate) fn push_end(&mut self, expect: Expect) {
        debug_assert!(expect.ends_with_ready());
        self.changes_in_ended += std::mem::take(&mut self.changes_in_open);
        self.ready_owed += 1;
        (self.segment_open, self.segment_sent) = (false, false);
        self.entries.push_back(Entry::forward(expect));
    }

    #[inline]
    pub(crate) fn push(&mut self, mut entry: Entry) {
        if entry.expect == Expect::ParseUnnamed || entry.rare.is_some() {
            entry.changes = changes_statements(&entry);
            self.changes_in_open += u32::from(entry.changes);
        }
        if entry.expect.ends_with_ready() {
            self.changes_in_ended += std::mem::take(&mut self.changes_in_open);
            self.ready_owed += 1;
            (self.segment_open, self.segment_sent) = (false, false);
        } else if matches!(entry.to, To::Fake) {
            self.fakes += 1;
            self.segment_open = true;
        } else if entry.expect != Expect::CopyEnd {
            (self.segment_open, self.segment_sent) = (true, true);
        }
        self.entries.push_back(entry);
    }

    /// Whether the message with this tag, one that the server sends often, is part of the reply that is due, goes to the
    /// client as it is, and says nothing that anybody else must know. What is due is taken out where the message ends it.
    ///
    /// `false` means nothing.
    #[inline(always)]
    pub(crate) fn passes_plainly(&mut self, tag: u8) -> bool {
        let Some(front) = self.entries.front() else {
            return false;
        };
        if !matches!(front.to, To::Forward) {
            return false;
        }
        match (tag, front.expect) {
            (b'D' | b'd', _) | (b'T', Expect::Query) => return true,
            (b'1', Expect::Parse | Expect::ParseUnnamed) | (b'2', Expect::Bind) | (b'3', Expect::Close) => {}
            (b'T' | b'n', Expect::Describe) if front.uses == 0 => {}
            _ => return false,
        }
        self.drop_front();
        true
    }

    /// The same of CommandComplete.
    #[inline(always)]
    pub(crate) fn completes_command(&mut self) -> bool {
        match self.entries.front() {
            Some(Entry {
                to: To::Forward,
                expect,
                changes,
                ..
            }) => match expect {
                Expect::Execute if !*changes => self.drop_front(),
                Expect::Query => {}
                _ => return false,
            },
            _ => return false,
        }
        true
    }

    #[inline]
    pub(crate) fn front(&self) -> Option<&Entry> {
        self.entries.front()
    }

    /// A name for the statement with this id that a request still unanswered takes away.
    pub(crate) fn name_given_up(&self, id: u64) -> Option<(&[u8], &Arc<Statement>)> {
        let names = self.entries.iter().filter_map(|e| e.effect()?.name.as_ref());
        names
            .filter_map(|(name, before)| Some((&**name, &before.as_ref()?.statement)))
            .find(|(_, s)| s.id == id)
    }

    pub(crate) fn back(&self) -> Option<&Entry> {
        self.entries.last()
    }

    pub(crate) fn back_mut(&mut self) -> Option<&mut Entry> {
        self.entries.last_mut()
    }

    /// The latest Close and Parse of the pooler's own are part of a probe.
    pub(crate) fn preparing_is_probing(&mut self) {
        let ours = |e: &&mut Entry| e.to == To::Skip && matches!(e.expect, Expect::Parse | Expect::Close);
        for entry in self.entries.iter_mut().rev().take(2).take_while(ours) {
            entry.to = To::Probe;
        }
    }

    pub(crate) fn front_mut(&mut self) -> Option<&mut Entry> {
        self.entries.front_mut()
    }

    /// The front has ended all statements, which was not known when later requests were sent. What those give the server
    /// and name for the client; what was before all that is no longer to be brought back if they fail. `None` if that has
    /// been found out before: a Query may end all statements thousands of times.
    pub(crate) fn all_ended_in_front(&mut self) -> Option<GainedLater> {
        let entries = self.entries.len() as u32;
        if std::mem::replace(&mut self.ended_by_front, entries) == entries {
            return None;
        }
        let mut later = GainedLater::default();
        for effect in self.entries.iter_mut().skip(1).filter_map(Entry::effect_mut) {
            effect.server_loses.take_if(|s| !later.statements.contains(&s.id));
            if let Some(lost) = &mut effect.server_lost_all {
                lost.retain(|s| later.statements.contains(&s.id));
            }
            if let Some(lost) = &mut effect.names_lost_all {
                lost.retain(|(name, _)| later.names.contains(&**name));
            }
            if let Some((name, before)) = &mut effect.name
                && later.names.insert(name.clone())
            {
                *before = None;
            }
            later.statements.extend(effect.server_gains.as_ref().map(|s| s.id));
        }
        Some(later)
    }

    /// The server has not lost these statements after all: a Parse of one of them fails, whatever the reason, and takes
    /// nothing from the server.
    pub(crate) fn gains_nothing_of(&mut self, statements: &HashSet<u64>) {
        if statements.is_empty() {
            return;
        }
        for effect in self.entries.iter_mut().filter_map(Entry::effect_mut) {
            let is_held = |gained: &Arc<Statement>| statements.contains(&gained.id);
            if effect.server_gains.as_ref().is_some_and(is_held) {
                effect.server_gains = None;
            }
        }
    }

    /// Takes out the front, and what nothing answers behind it.
    pub(crate) fn pop(&mut self) -> Option<Entry> {
        let entry = self.entries.pop_front()?;
        self.count_out(entry.expect, entry.to, entry.changes);
        self.drop_copy_end();
        Some(entry)
    }

    /// Takes out the front, if a ReadyForQuery ends it.
    #[inline(always)]
    pub(crate) fn take_end(&mut self) -> Option<Ended> {
        let front = self.entries.front().filter(|e| e.expect.ends_with_ready())?;
        let ended = Ended {
            expect: front.expect,
            to: front.to,
            ready: front.ready,
        };
        self.drop_front();
        Some(ended)
    }

    /// The same of a front of which no more is needed.
    #[inline(always)]
    pub(crate) fn drop_front(&mut self) {
        let Some(&Entry {
            expect, to, changes, ..
        }) = self.entries.front()
        else {
            return;
        };
        self.entries.drop_front();
        self.count_out(expect, to, changes);
        self.drop_copy_end();
    }

    #[inline]
    fn count_out(&mut self, expect: Expect, to: To, changes: bool) {
        self.ended_by_front = 0;
        if changes {
            // Ended segments stand in front of the one that is open.
            match self.ready_owed {
                0 => self.changes_in_open -= 1,
                _ => self.changes_in_ended -= 1,
            }
        }
        if expect.ends_with_ready() {
            self.ready_owed -= 1;
            self.segments_answered += 1;
        }
        self.fakes -= u32::from(to == To::Fake);
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Whether a segment of the extended protocol has been begun and its Sync has not been sent.
    #[inline]
    pub(crate) fn segment_open(&self) -> bool {
        self.segment_open
    }

    /// Whether a Query that comes now stands behind messages of the client's own segment. Those of the pooler's in front of
    /// it, as a deferred BEGIN, are no such thing.
    pub(crate) fn in_pipeline(&self) -> bool {
        self.segment_open && self.back().is_none_or(|e| e.to != To::Skip)
    }

    /// Whether the server has answered everything, and nothing of the present segment has been sent to it.
    pub(crate) fn is_quiet(&self) -> bool {
        self.ready_owed == 0 && !self.segment_sent && self.entries.len() == self.fakes as usize
    }

    /// A segment of our own has been put in front of the client's, which has begun.
    pub(crate) fn segment_goes_on(&mut self) {
        self.segment_open = true;
        self.segment_sent = false;
    }

    /// The number of segments answered so far: the number of the one that the server works on.
    pub(crate) fn segments_answered(&self) -> u64 {
        self.segments_answered
    }

    /// The number of the segment that is sent next, where none is open.
    pub(crate) fn segments_sent(&self) -> u64 {
        self.segments_answered + u64::from(self.ready_owed)
    }

    /// The number of the first segment outstanding that is a client's, and not the pooler's own.
    pub(crate) fn next_of_client(&self) -> Option<u64> {
        let mut number = self.segments_answered;
        for entry in self.entries.iter() {
            if !entry.expect.ends_with_ready() {
                continue;
            }
            if !entry.is_own() {
                return Some(number);
            }
            number += 1;
        }
        // A segment that the client has not ended yet.
        self.segment_open.then_some(number)
    }

    /// Whether one segment was sent, to its end, and nothing behind it.
    pub(crate) fn is_one_whole_segment(&self) -> bool {
        self.ready_owed == 1 && !self.segment_open
    }

    /// Whether the server works on something of a client's.
    pub(crate) fn works_for_client(&self) -> bool {
        self.next_of_client() == Some(self.segments_answered)
    }

    /// Whether the front is a Fake, which must be answered before any further reply of the server's.
    #[inline]
    pub(crate) fn fake_in_front(&self) -> bool {
        self.fakes > 0 && matches!(self.entries.front(), Some(Entry { to: To::Fake, .. }))
    }

    /// Whether nothing that is owed could fail a transaction or end it: statements are being prepared at most, and a deferred
    /// BEGIN is on its way.
    pub(crate) fn only_prepares(&self) -> bool {
        let prepares =
            |e: &Entry| e.to == To::Skip || matches!(e.expect, Expect::Parse | Expect::ParseUnnamed | Expect::Describe);
        self.entries.iter().all(prepares)
    }

    /// Whether a copy can be part of what is owed.
    pub(crate) fn may_copy(&self) -> bool {
        self.entries.iter().any(Entry::may_copy)
    }

    /// Whether everything that is owed was asked for by the pooler.
    pub(crate) fn all_ours(&self) -> bool {
        self.entries.iter().all(|e| e.to == To::Skip)
    }

    /// Whether a statement of the pooler's own is among what is owed.
    pub(crate) fn executes_ours(&self) -> bool {
        let ours = |e: &Entry| e.to == To::Skip && e.expect == Expect::Execute;
        self.entries.iter().any(ours)
    }

    /// Whether what is due is the end of a segment of the pooler's own.
    pub(crate) fn own_sync_in_front(&self) -> bool {
        self.front()
            .is_some_and(|e| e.expect == Expect::Sync && e.to == To::Skip)
    }

    /// Whether the reply that is due answers a probe.
    pub(crate) fn probe_in_front(&self) -> bool {
        self.entries.front().is_some_and(|e| matches!(e.to, To::Probe))
    }

    /// Whether a segment that is still unanswered changes prepared statements: what they mean to a message of a later
    /// segment is not known before it has succeeded or failed.
    #[inline]
    pub(crate) fn statements_in_doubt(&self) -> bool {
        self.changes_in_ended > 0
    }

    /// Compares what is counted with what there is.
    #[cfg(any(test, feature = "weaknesses"))]
    pub(crate) fn check(&self) -> Result<(), String> {
        let ends = |e: &&Entry| e.expect.ends_with_ready();
        let of_ended = self.entries.iter().rposition(|e| e.expect.ends_with_ready());
        let ended = of_ended.map_or(0, |at| at + 1);
        let changes = |entries: std::ops::Range<usize>| self.entries[entries].iter().filter(|e| e.changes).count();
        let counts = [
            (self.ready_owed, self.entries.iter().filter(ends).count()),
            (self.fakes, self.entries.iter().filter(|e| e.to == To::Fake).count()),
            (self.changes_in_ended, changes(0..ended)),
            (self.changes_in_open, changes(ended..self.entries.len())),
        ];
        match counts.iter().find(|(counted, there)| *counted as usize != *there) {
            Some(_) => Err(format!("reply queue: counted and there: {counts:?}")),
            None => Ok(()),
        }
    }

    /// Whether an earlier segment is still unanswered: its outcome may fail the transaction that a later request meets.
    pub(crate) fn segment_outstanding(&self) -> bool {
        self.ready_owed > 0
    }

    /// The same of a segment of the client's: what the pooler asks may be asked again whenever a message is looked at.
    pub(crate) fn client_segment_outstanding(&self) -> bool {
        let mut ended = self.entries.iter().filter(|e| e.expect.ends_with_ready());
        ended.any(|e| !e.is_own())
    }

    /// CopyData was sent to a server that has not said that it reads it.
    pub(crate) fn copy_data_sent(&mut self) {
        if let Some(last) = self.entries.last_mut() {
            last.data_behind = true;
        }
    }

    /// The server swallowed the Syncs it met in copy-in mode (E7). Called when CopyInResponse comes for the front entry:
    /// drops the Syncs behind it up to the end of the copy.
    pub(crate) fn enter_copy_in(&mut self) -> CopyBegun {
        let mut begun = CopyBegun {
            ended: false,
            sync_among_data: false,
            interrupted: false,
        };
        let mut data = self.entries.front().is_some_and(|e| e.data_behind);
        let end = self.entries.iter().skip(1).position(|e| e.expect == Expect::CopyEnd);
        begun.ended = end.is_some();
        let mut behind = self.entries.split_off(end.map_or(self.entries.len(), |at| at + 1));
        let before = self.entries.len();
        let is_request = |e: &Entry| {
            let is_none = matches!(e.expect, Expect::Sync | Expect::MalformedFlush | Expect::CopyEnd);
            !is_none && e.to != To::Fake
        };
        begun.interrupted = self.entries.iter().skip(1).any(is_request);
        self.entries.retain(|e| {
            let swallowed = matches!(e.expect, Expect::Sync | Expect::MalformedFlush);
            begun.sync_among_data |= swallowed && data;
            data |= swallowed && e.data_behind;
            self.segments_answered += u64::from(swallowed && e.expect.ends_with_ready());
            !swallowed
        });
        let swallowed = self.entries.len() < before;
        self.entries.append(&mut behind);
        if swallowed {
            // The copy's end, and a Sync behind it, may have been sent long ago.
            let last = self.entries.iter().rfind(|e| e.expect != Expect::CopyEnd);
            self.segment_open = last.is_some_and(|e| !e.expect.ends_with_ready());
            self.segment_sent = self.segment_open;
            self.count_again();
        }
        begun
    }

    /// Counts entries after some were taken out of the midst.
    fn count_again(&mut self) {
        let is_end = |e: &Entry| e.expect.ends_with_ready();
        let ended = self.entries.iter().rposition(is_end).map_or(0, |last| last + 1);
        let changes = |e: &&Entry| e.changes;
        self.ready_owed = self.entries.iter().filter(|e| is_end(e)).count() as u32;
        self.changes_in_ended = self.entries.iter().take(ended).filter(changes).count() as u32;
        self.changes_in_open = self.entries.iter().skip(ended).filter(changes).count() as u32;
    }

    /// After an error in an extended-query segment: takes out everything up to the next Sync, which stays, or everything
    /// where no Sync has been sent yet. The first taken is the request that failed.
    pub(crate) fn take_to_sync(&mut self) -> Vec<Entry> {
        let end = self
            .entries
            .iter()
            .position(|e| e.expect == Expect::Sync)
            .unwrap_or(self.entries.len());
        let taken: Vec<Entry> = self.entries.take_front(end);
        for entry in &taken {
            self.count_out(entry.expect, entry.to, entry.changes);
        }
        taken
    }

    /// The segment that was ours alone has failed: the message behind its Sync gets this error where it finds the statement
    /// missing, or the transaction failed that it is `in_block` of. `false` if the front is not the end of such a segment.
    pub(crate) fn replace_behind_own_parse(&mut self, in_block: bool, error: impl FnOnce() -> Vec<u8>) -> bool {
        let ours = |e: &Entry| e.expect == Expect::Sync && matches!(e.to, To::Skip) && e.uses > 0;
        if !self.front().is_some_and(ours) {
            return false;
        }
        // Several such segments may stand one behind the other.
        let skipped = self.entries.iter().take_while(|e| e.to == To::Skip);
        let behind = skipped.enumerate().filter(|(_, e)| e.expect == Expect::Sync).last();
        let last = behind.map_or(0, |(sync, _)| sync);
        // Behind it, Close messages of the pooler's own may stand in front of the client's message.
        let of_client = |e: &&mut Entry| e.to != To::Skip;
        if let Some(next) = self.entries.iter_mut().skip(last + 1).find(of_client) {
            // Bind looks for its statement before it looks at the transaction.
            let failed = in_block && next.expect == Expect::Query;
            let sqlstate = if failed { *b"25P02" } else { *b"26000" };
            next.replace(sqlstate, Instead::Error(error()));
        }
        true
    }

    /// Where a segment of ours that has failed is about to end: what the client gets instead of the error of its own message.
    pub(crate) fn error_behind_own_segment(&mut self) -> Option<&mut Vec<u8>> {
        if !self.own_sync_in_front() {
            return None;
        }
        let entry = self.entries.iter_mut().find(|e| e.to != To::Skip)?;
        match &mut entry.rare.as_mut()?.replacement.as_mut()?.instead {
            Instead::Error(error) => Some(error),
            Instead::Named { .. } => None,
        }
    }

    /// Drops markers at the front that nothing answers.
    #[inline]
    fn drop_copy_end(&mut self) {
        while self.entries.front().is_some_and(|e| e.expect == Expect::CopyEnd) {
            self.entries.pop_front();
        }
    }
}

/// Whether a request changes what statements mean; those of the pooler's own concern no client.
#[inline]
fn changes_statements(entry: &Entry) -> bool {
    let own = |s: &Option<Arc<Statement>>| s.as_ref().is_some_and(|s| s.id <= OWN_ID_MAX);
    let of_clients = |e: &Effect| !own(&e.server_gains) && !own(&e.server_loses);
    entry.expect == Expect::ParseUnnamed || entry.effect().is_some_and(of_clients)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Guards against work for each message that grows with what is outstanding.
    #[test]
    fn what_is_counted_is_what_there_is() {
        let mut q = ReplyQueue::default();
        let mut random = 1u64;
        for step in 0..4000 {
            random = random
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            match (random >> 33) % 12 {
                0..=2 => q.push(Entry::forward(Expect::Bind)),
                3 => q.push(Entry::forward(Expect::ParseUnnamed)),
                4 => q.push(Entry::forward(Expect::Parse).with(Effect::default())),
                5 => q.push(Entry::forward(Expect::Sync)),
                6 => q.push(Entry::forward(Expect::CopyEnd)),
                7 => drop(q.enter_copy_in()),
                8 if step % 5 == 0 => drop(q.take_to_sync()),
                _ => drop(q.pop()),
            }
            let (ended, open) = (q.changes_in_ended, q.changes_in_open);
            let owed = q.ready_owed;
            q.count_again();
            assert_eq!(
                (ended, open, owed),
                (q.changes_in_ended, q.changes_in_open, q.ready_owed),
                "{step}"
            );
        }
    }

    fn queue(of: &[Expect]) -> ReplyQueue {
        let mut q = ReplyQueue::default();
        of.iter().for_each(|&e| q.push(Entry::forward(e)));
        q
    }

    fn rest(q: &ReplyQueue) -> Vec<Expect> {
        q.entries.iter().map(|e| e.expect).collect()
    }

    #[test]
    fn an_error_takes_everything_up_to_the_next_sync_a_query_included() {
        let mut q = queue(&[
            Expect::Bind,
            Expect::Query,
            Expect::Execute,
            Expect::Sync,
            Expect::Query,
        ]);
        assert_eq!(q.take_to_sync().len(), 3);
        assert_eq!(rest(&q), [Expect::Sync, Expect::Query]);
        assert_eq!(q.ready_owed, 2);
        let mut q = queue(&[Expect::Parse, Expect::Query]);
        assert_eq!(q.take_to_sync().len(), 2);
        assert!(q.is_empty() && !q.segment_outstanding());
    }

    #[test]
    fn copy_in_swallows_the_syncs_before_its_end_only() {
        let mut q = queue(&[
            Expect::Execute,
            Expect::Sync,
            Expect::Sync,
            Expect::CopyEnd,
            Expect::Sync,
        ]);
        assert!(q.enter_copy_in().ended);
        assert_eq!(rest(&q), [Expect::Execute, Expect::CopyEnd, Expect::Sync]);
        let mut q = queue(&[Expect::Execute, Expect::Sync]);
        assert!(!q.enter_copy_in().ended);
        assert_eq!(rest(&q), [Expect::Execute]);
        assert!(!q.segment_outstanding() && q.segment_open());
    }

    /// Guards against a question of the pooler's in the midst of a client's segment, whose Sync commits what the client has
    /// not committed.
    #[test]
    fn a_swallowed_sync_does_not_make_the_queue_quiet() {
        let mut q = queue(&[Expect::Execute, Expect::Sync]);
        q.enter_copy_in();
        q.pop();
        assert!(q.is_empty() && !q.is_quiet());
    }

    #[test]
    fn whether_a_sync_among_copy_data_counts_is_open() {
        let copy = |order: &[u8]| {
            let mut q = queue(&[Expect::Execute]);
            for of in order {
                match of {
                    b'd' => q.copy_data_sent(),
                    _ => q.push(Entry::forward(Expect::Sync)),
                }
            }
            q.enter_copy_in().sync_among_data
        };
        assert!(!copy(b"Sd") && !copy(b"SSd"));
        assert!(copy(b"dS") && copy(b"SdS"));
    }

    #[test]
    fn statements_are_in_doubt_only_behind_a_segment_that_changes_them() {
        let mut q = queue(&[Expect::ParseUnnamed, Expect::Bind]);
        assert!(
            !q.statements_in_doubt(),
            "within its own segment a message sees what came before it"
        );
        q.push(Entry::forward(Expect::Sync));
        assert!(q.statements_in_doubt());
        assert!(!queue(&[Expect::Bind, Expect::Execute, Expect::Sync]).statements_in_doubt());
    }

    /// Guards against a reply of the pooler's own, or one that tells it something, going to the client unseen.
    #[test]
    fn only_what_nobody_else_must_know_passes_plainly() {
        let passes = |entry: Entry, tag| {
            let mut q = ReplyQueue::default();
            q.push(entry);
            (q.passes_plainly(tag), q.is_empty())
        };
        assert_eq!(passes(Entry::forward(Expect::Bind), b'2'), (true, true));
        assert_eq!(passes(Entry::forward(Expect::Execute), b'D'), (true, false));
        assert_eq!(passes(Entry::forward(Expect::Query), b'T'), (true, false));
        assert_eq!(passes(Entry::forward(Expect::Describe), b'T'), (true, true));
        let not = (false, false);
        assert_eq!(passes(Entry::forward(Expect::Describe).using(20), b'T'), not);
        assert_eq!(passes(Entry::forward(Expect::Bind), b'1'), not);
        assert_eq!(passes(Entry::skip(Expect::Bind), b'2'), not);
        assert_eq!(passes(Entry::probe(Expect::Query), b'D'), not);
        assert_eq!(passes(Entry::fake(Expect::Parse), b'1'), not);
        let replaced = Entry::forward(Expect::Parse).replacing(*b"42P05", Instead::Error(Vec::new()));
        assert_eq!(passes(replaced, b'1'), not);
        assert!(!ReplyQueue::default().passes_plainly(b'D'));
    }

    #[test]
    fn fakes_are_counted_in_and_out() {
        let mut q = queue(&[Expect::Bind]);
        q.push(Entry::fake(Expect::Parse));
        assert!(!q.fake_in_front());
        q.pop();
        assert!(q.fake_in_front());
        q.pop();
        assert!(!q.fake_in_front() && q.is_empty() && q.fakes == 0);
    }

    /// Guards against a statement that was prepared behind the end of all, then closed in a segment that failed, being
    /// taken for lost: its next Parse would be refused as a duplicate.
    #[test]
    fn what_was_prepared_behind_the_end_of_all_is_brought_back_when_its_close_fails() {
        let statement =
            crate::statements::prepared::OwnStatements::new(&mut crate::base::secret_names::SecretNames::new([0; 32]))
                .set_config
                .clone();
        let lost = || Some(statement.clone());
        let close = |server_loses| {
            Entry::forward(Expect::Close).with(Effect {
                server_loses,
                ..Effect::default()
            })
        };
        let mut q = queue(&[Expect::Query]);
        q.push(close(lost()));
        q.push(Entry::forward(Expect::Parse).with(Effect {
            server_gains: lost(),
            ..Effect::default()
        }));
        q.push(close(lost()));
        let later = q.all_ended_in_front().unwrap();
        assert!(later.statements.contains(&statement.id));
        assert!(q.all_ended_in_front().is_none(), "it is found out once");
        let brought_back = |e: &Entry| e.effect().is_some_and(|e| e.server_loses.is_some());
        assert_eq!(
            q.entries.iter().map(brought_back).collect::<Vec<_>>(),
            [false, false, false, true]
        );
    }
}
