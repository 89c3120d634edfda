//! The answers of a private server.

mod comparison;
mod messages;

use super::topology::Topology;
use crate::model::audit::{Ran, tokens_in};
use crate::model::{Pace, Session, Shared, Snapshot, drops_unnamed};
use crate::transcript::split_messages;
use pgweir_wire::frontend::BindNames;
use pgweir_wire::{CancelKey, TransactionStatus};
use std::collections::{HashMap, HashSet, VecDeque};

/// Bytes of one segment: those that one ReadyForQuery answers.
#[derive(Debug)]
struct Segment {
    /// Bytes that the client has sent and the private server has not been given.
    unfed: Vec<u8>,
    /// Bytes the client has still to send.
    to_come: usize,
    /// Something that the private server was given of it may begin a transaction block.
    fed_begin: bool,
    /// The rest of it is not run.
    dropped: bool,
    /// Its ReadyForQuery has come. What is left of it has no answer (the data of a COPY that failed).
    answered: bool,
}

/// A client's private server. Where a cancel may change the answers, it is fed only as far as the real answers have
/// come.
#[derive(Debug)]
pub struct Oracle {
    session: Session,
    shared: Shared,
    segments: VecDeque<Segment>,
    expected: VecDeque<Vec<u8>>,
    /// Errors that came before the client had sent the whole message that they answer.
    early: VecDeque<Vec<u8>>,
    /// Notifications of a server that waits for the next message of a segment in which a block has ended. It sends them
    /// at once if it has to wait, and otherwise with ReadyForQuery.
    heard_early: Vec<Vec<u8>>,
    /// The last message has ended a block.
    has_ended_block: bool,
    /// Notifications may be lost, with the listener that would have delivered them.
    loses_notifications: bool,
    /// Notifications that seem to be lost.
    lost: Vec<Vec<u8>>,
    /// The session may have set something.
    has_set: bool,
    /// The private server has failed after a Query in the midst of a segment, as PostgreSQL 18 does, and was repaired.
    fell_into_step: bool,
    /// The last ReadyForQuery said that the transaction has failed.
    transaction_failed: bool,
    /// The segment that was refused last may have begun a transaction block.
    may_have_begun: bool,
    /// A cancel may have hit the present flight.
    pub cancelled: bool,
    /// This flight is a call of pg_cancel_backend() or pg_terminate_backend().
    pub signals: bool,
    /// The call has returned true.
    pub signalled: bool,
    /// The settings under which each statement of this flight has run, by token.
    ran: HashMap<String, Vec<Snapshot>>,
    /// Tokens of segments that the pooler has refused: no server may run them, not even after the flight.
    refused: HashSet<String>,
}

/// The result of comparing a message.
#[derive(Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is right.
    Right,
    /// The pooler dropped a segment that waited for a server, because its client cancelled it.
    CancelledWhileWaiting,
    /// The one allowed difference: a statement that its server does not hold and cannot prepare, in a failed
    /// transaction or because its table is gone (docs/differences.md). The following messages are not compared.
    CannotDescribe,
    /// This was expected instead.
    Wrong(Option<Vec<u8>>),
}

impl Oracle {
    /// A private server behind a login with these parameters.
    pub fn new(topology: &Topology, startup: &[u8]) -> Self {
        let key = CancelKey {
            process_id: 1,
            secret: vec![0; 4].into(),
        };
        let mut oracle = Oracle {
            session: Session::new(topology.version, key)
                .at_pace(Pace::StepByStep)
                .with_defaults(topology.role_defaults.as_slice().into())
                .of_common_user(topology.signals),
            shared: Shared::new(),
            segments: VecDeque::new(),
            expected: VecDeque::new(),
            early: VecDeque::new(),
            heard_early: Vec::new(),
            has_ended_block: false,
            loses_notifications: topology.servers_may_die(),
            lost: Vec::new(),
            has_set: false,
            transaction_failed: false,
            may_have_begun: false,
            cancelled: false,
            signals: false,
            signalled: false,
            fell_into_step: false,
            ran: HashMap::new(),
            refused: HashSet::new(),
        };
        oracle.session.receive(&mut oracle.shared, 0, startup);
        oracle.session.take_sent();
        oracle
    }

    /// The client was told this process id.
    pub fn has_process_id(&mut self, process_id: u32) {
        self.session.has_process_id(process_id);
    }

    /// The next flight may set something.
    pub fn may_set(&mut self, sets: bool) {
        self.has_set |= sets;
    }

    /// Repairs the private server after a Query in the midst of a segment, if PostgreSQL 18 would fail its next
    /// command. A pooler closes such a server, so its clients notice nothing.
    pub fn fall_into_step(&mut self) {
        if self.session.is_out_of_step() {
            self.fell_into_step = true;
            let mut query = Vec::new();
            pgweir_wire::Writer::new(&mut query).query(b"");
            self.run_through(&query);
        }
    }

    /// connect_query has run before the client was linked.
    pub fn connect_query(&mut self, text: &str) {
        let mut query = Vec::new();
        pgweir_wire::Writer::new(&mut query).query(text.as_bytes());
        self.run_through(&query);
    }

    /// Runs a message that the client has not sent.
    fn run_through(&mut self, message: &[u8]) {
        self.session.receive(&mut self.shared, 0, message);
        while self.session.busy_until().is_some() {
            self.session.advance(&mut self.shared, u64::MAX);
        }
        self.session.take_written();
    }

    /// A flight begins; these are the lengths of its segments.
    pub fn begin(&mut self, segments: &[usize]) {
        self.segments.extend(segments.iter().map(|&to_come| Segment {
            unfed: Vec::new(),
            to_come,
            fed_begin: false,
            dropped: false,
            answered: false,
        }));
    }

    /// The client has sent these bytes of the flight.
    pub fn sent(&mut self, mut bytes: &[u8]) {
        for segment in &mut self.segments {
            let count = bytes.len().min(segment.to_come);
            if !segment.dropped {
                segment.unfed.extend_from_slice(&bytes[..count]);
            }
            segment.to_come -= count;
            bytes = &bytes[count..];
        }
        assert!(bytes.is_empty(), "a flight is what its segments are");
    }

    /// Whether everything that was sent has been answered completely.
    pub fn is_settled(&self) -> bool {
        self.expected.is_empty()
            && self.early.is_empty()
            && self.segments.iter().all(|s| s.unfed.is_empty())
            && self.session.busy_until().is_none()
    }

    /// Feeds everything that was sent: the answers are certain, or a cancel cannot change them.
    pub fn feed_all(&mut self) {
        while self.session.busy_until().is_some() || self.segments.iter().any(|s| !s.unfed.is_empty()) {
            if self.session.busy_until().is_some() {
                self.session.advance(&mut self.shared, u64::MAX);
                self.collect();
            } else if !self.feed() {
                break;
            }
        }
    }

    /// Feeds the next message.
    fn feed(&mut self) -> bool {
        while self
            .segments
            .front()
            .is_some_and(|s| s.unfed.is_empty() && s.to_come == 0)
        {
            self.segments.pop_front();
        }
        let Some(segment) = self.segments.front_mut() else {
            return false;
        };
        let Some(&message) = split_messages(&segment.unfed).first() else {
            return false;
        };
        let bytes: Vec<u8> = segment.unfed.drain(..message.len()).collect();
        segment.fed_begin |= may_begin_block(&self.session, &bytes);
        self.session.receive(&mut self.shared, 0, &bytes);
        self.collect();
        true
    }

    fn collect(&mut self) {
        for Ran { token, settings } in self.session.take_ran() {
            self.ran.entry(token).or_default().push(settings);
        }
        let written = self.session.take_written();
        self.expected
            .extend(split_messages(&written).into_iter().map(<[u8]>::to_vec));
    }

    /// Whether no transaction is open.
    pub fn is_idle(&self) -> bool {
        self.session.is_idle()
    }

    /// The error, if a statement has run on the client's server under other settings than on the private server. A
    /// statement that the private server has not run is not checked further. `reported` as in [`Snapshot::difference`].
    pub fn judge(&self, ran: &Ran, reported: bool) -> Option<String> {
        if self.refused.contains(&ran.token) {
            return Some(format!("{} ran, and its client was told that it did not", ran.token));
        }
        let all = self.ran.get(&ran.token)?;
        let mut wrong = None;
        for expected in all {
            let (name, is, was) = ran.settings.difference(expected, reported)?;
            wrong.get_or_insert((name, is, was));
        }
        let (name, is, was) = wrong?;
        Some(format!(
            "{} ran with {name} = '{is}', and its client's is '{was}'",
            ran.token
        ))
    }

    /// How often a statement of this flight has run on the private server; `None`: it has not.
    pub fn runs(&self, token: &str) -> Option<i64> {
        self.ran.get(token).map(|runs| runs.len() as i64)
    }

    /// A flight is over: none of its statements runs any more.
    pub fn forget_flight(&mut self) {
        self.ran.clear();
    }

    /// The pooler has refused the segment that waited for a server. It may do so only outside a transaction, with
    /// nothing of the segment run.
    pub fn refused(&mut self) -> Verdict {
        let is_at_rest = self.expected.is_empty() && self.session.busy_until().is_none();
        if !is_at_rest || self.session.status() != TransactionStatus::Idle {
            return Verdict::Wrong(self.expected.pop_front());
        }
        self.drop_front_segment();
        Verdict::CancelledWhileWaiting
    }

    /// The first segment is not run further: its answer is the error that has come, and ReadyForQuery.
    fn drop_front_segment(&mut self) {
        let mut instead = Vec::new();
        let mut w = pgweir_wire::Writer::new(&mut instead);
        if let Some(segment) = self.segments.iter_mut().find(|s| !s.answered) {
            if begins_without_unnamed(&segment.unfed) {
                w.close(b'S', b"");
            }
            let is_idle = self.session.status() == TransactionStatus::Idle;
            let begins = segment.fed_begin || segment.to_come > 0 || may_begin_block(&self.session, &segment.unfed);
            self.may_have_begun = is_idle && begins;
            self.refused.extend(tokens_in(&segment.unfed));
            segment.unfed.clear();
            segment.dropped = true;
        }
        if self.session.status() == TransactionStatus::InTransaction {
            // A cancel in a transaction fails it.
            w.execute_portal(b"there is no such portal");
        }
        w.sync();
        self.run_through(&instead);
        let mut ready = Vec::new();
        pgweir_wire::Writer::new(&mut ready).ready_for_query(self.session.status());
        self.expected.push_back(ready);
    }

    /// The pooler says that the transaction has failed whose beginning it has refused. It cannot always tell, because
    /// only a part of the request may have come.
    fn beginning_has_failed(&mut self) {
        let mut instead = Vec::new();
        let mut w = pgweir_wire::Writer::new(&mut instead);
        w.query(b"begin");
        w.execute_portal(b"there is no such portal");
        w.sync();
        self.run_through(&instead);
        self.expected.clear();
        let mut ready = Vec::new();
        pgweir_wire::Writer::new(&mut ready).ready_for_query(self.session.status());
        self.expected.push_back(ready);
    }
}

/// Whether messages may begin a transaction block.
fn may_begin_block(session: &Session, messages: &[u8]) -> bool {
    let text = messages.to_ascii_lowercase();
    let verbs = [&b"begin"[..], b"start"];
    let spells = |verb: &&[u8]| text.windows(verb.len()).any(|part| part == *verb);
    verbs.iter().any(spells)
        || split_messages(messages)
            .into_iter()
            .any(|message| binds_begin(session, message))
}

/// Whether a message binds a prepared statement that begins a transaction block.
fn binds_begin(session: &Session, message: &[u8]) -> bool {
    let Some((b'B', rest)) = message.split_first() else {
        return false;
    };
    let names = rest.get(4..).map(BindNames::read);
    names.is_some_and(|names| names.is_ok_and(|names| session.statement_begins_block(names.statement)))
}

/// Whether the first message that is not ignored drops the unnamed statement, whatever becomes of it.
fn begins_without_unnamed(messages: &[u8]) -> bool {
    // What a COPY that has failed left behind.
    let is_ignored = |message: &&[u8]| matches!(message.first(), Some(b'c' | b'd' | b'f' | b'H'));
    let first = split_messages(messages)
        .into_iter()
        .find(|message| !is_ignored(message));
    first.is_some_and(drops_unnamed)
}
