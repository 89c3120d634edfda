//! The answers of a private server.

use super::topology::Topology;
use crate::model::audit::Ran;
use crate::model::{Pace, Session, Shared, Snapshot};
use crate::transcript::split_messages;
use pgweir_wire::{CancelKey, ErrorFields, TransactionStatus};
use std::collections::{HashMap, VecDeque};

/// Bytes of one segment: those that one ReadyForQuery answers.
#[derive(Debug)]
struct Segment {
    /// Bytes that the client has sent and the private server has not been given.
    unfed: Vec<u8>,
    /// Bytes the client has still to send.
    to_come: usize,
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
    /// The private server has failed after a Query in the midst of a segment, as PostgreSQL 18 does, and was repaired.
    fell_into_step: bool,
    /// The last ReadyForQuery said that the transaction has failed.
    transaction_failed: bool,
    /// A cancel may have hit the present flight.
    pub cancelled: bool,
    /// The settings under which each statement of this flight has run, by token.
    ran: HashMap<String, Vec<Snapshot>>,
}

/// CommandComplete of a DEALLOCATE.
const DEALLOCATED: [u8; 16] = *b"C\0\0\0\x0fDEALLOCATE\0";

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
                .with_defaults(topology.role_defaults.as_slice().into()),
            shared: Shared::new(),
            segments: VecDeque::new(),
            expected: VecDeque::new(),
            early: VecDeque::new(),
            heard_early: Vec::new(),
            has_ended_block: false,
            loses_notifications: topology.servers_may_die(),
            transaction_failed: false,
            cancelled: false,
            fell_into_step: false,
            ran: HashMap::new(),
        };
        oracle.session.receive(&mut oracle.shared, 0, startup);
        oracle.session.take_sent();
        oracle
    }

    /// Poolers close a server that PostgreSQL 18 leaves in this state, so their clients, unlike a private server's,
    /// notice nothing.
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
    /// statement that the private server has not run is not checked. `reported` as in [`Snapshot::difference`].
    pub fn judge(&self, ran: &Ran, reported: bool) -> Option<String> {
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

    /// A flight is over: none of its statements runs any more.
    pub fn forget_flight(&mut self) {
        self.ran.clear();
    }

    /// Compares a message that the client got with the expected one.
    pub fn compare(&mut self, message: &[u8]) -> Verdict {
        self.early.push_back(message.to_vec());
        self.compare_early()
    }

    /// The first message that came before the message that it answers was sent completely.
    pub fn next_early(&self) -> Option<Vec<u8>> {
        self.early.front().cloned()
    }

    /// Compares the messages that came before the messages that they answer were sent completely.
    pub fn compare_early(&mut self) -> Verdict {
        while let Some(message) = self.early.pop_front() {
            match self.compare_next(&message) {
                // An internal Parse before a Bind may fail while the rest of the Bind is still to come.
                Verdict::Wrong(None) if is_failed_transaction_error(&message) && self.is_inside_message() => {
                    self.early.push_front(message);
                    return Verdict::Right;
                }
                Verdict::Right => {
                    let is_notification = message.first() == Some(&b'A');
                    self.has_ended_block = ends_block(&message) || is_notification && self.has_ended_block;
                }
                other => return other,
            }
        }
        Verdict::Right
    }

    /// Whether the client has sent a part of a message.
    fn is_inside_message(&self) -> bool {
        !self.session.unread().is_empty()
    }

    fn compare_next(&mut self, message: &[u8]) -> Verdict {
        if (self.fell_into_step || self.cancelled) && is_out_of_step(message) {
            // The client keeps its server, so it gets the error that a private server would have sent. A cancel may
            // have hit it unnoticed.
            return Verdict::CannotDescribe;
        }
        let is_cancel = is_cancel_error(message);
        // docs/differences.md: code of some client has loaded PL/pgSQL on that server. But a client that has such a
        // setting must not get such a server.
        if is_reserved_name_error(message) && self.expected.is_empty() {
            if self
                .session
                .setting(RESERVED_NAME)
                .is_some_and(|value| !value.is_empty())
            {
                return Verdict::Wrong(None);
            }
            self.session.load_plpgsql_unseen();
        }
        while self.expected.is_empty() {
            if self.session.busy_until().is_some() {
                if is_cancel && self.cancelled {
                    self.session.cancel(&mut self.shared, 0);
                } else {
                    self.session.advance(&mut self.shared, u64::MAX);
                }
                self.collect();
                continue;
            }
            if is_cancel && self.cancelled && is_of_the_pooler(message) {
                self.drop_front_segment();
                return Verdict::CancelledWhileWaiting;
            }
            if !self.feed() {
                // The cancel has hit an internal message before a message of which the client has sent only a part.
                let is_half_sent = self.segments.iter().any(|s| s.to_come > 0);
                return match is_cancel && self.cancelled && is_half_sent {
                    true => Verdict::CannotDescribe,
                    false => Verdict::Wrong(None),
                };
            }
        }
        if self.has_ended_block && message.first() == Some(&b'A') && !is_same_notification(&self.expected[0], message) {
            self.heard_early.push(message.to_vec());
            return Verdict::Right;
        }
        let heard = |e: &Vec<u8>| self.heard_early.iter().position(|m| is_same_notification(e, m));
        if let Some(at) = self.expected.front().and_then(heard) {
            self.heard_early.remove(at);
            self.expected.pop_front();
            return self.compare_next(message);
        }
        if message.first() == Some(&b'Z') && !self.heard_early.is_empty() {
            return Verdict::Wrong(self.heard_early.pop());
        }
        // PostgreSQL promises no order among settings that it reports together; notifications come from another server.
        let together = self
            .expected
            .iter()
            .take_while(|m| matches!(m.first(), Some(b'S' | b'A')));
        if let Some(at) = together.into_iter().position(|m| m == message) {
            self.expected.remove(at);
            return Verdict::Right;
        }
        // When PL/pgSQL is loaded on a shared server, settings of other clients may be removed; on the private server,
        // settings that were not set on the shared one.
        if is_removal(message) && self.expected.front().is_none_or(|e| e != message) {
            return Verdict::Right;
        }
        if self.expected.front().is_some_and(|e| is_removal(e) && e != message) {
            self.expected.pop_front();
            return self.compare_next(message);
        }
        if self.loses_notifications && message.first() != Some(&b'A') {
            while self.expected.front().is_some_and(|m| m.first() == Some(&b'A')) {
                self.expected.pop_front();
            }
        }
        let Some(expected) = self.expected.pop_front() else {
            return self.compare_next(message);
        };
        let is_known = is_failed_transaction_error(message) || is_missing_statement_error(message);
        // An EXECUTE that failed before its own Query has made no portal (docs/differences.md).
        let no_portal = is_missing_portal_error(message) && is_failed_transaction_error(&expected);
        let other_error = self.session.status() == TransactionStatus::Failed && (is_known || no_portal);
        if expected == message
            || is_same_but_for_a_name(&expected, message)
            || is_bind_of_changed_rows(&expected, message)
            || is_same_notification(&expected, message)
            || other_error && expected.first() == Some(&b'E')
        {
            if message.first() == Some(&b'Z') {
                self.transaction_failed = message.last() == Some(&b'E');
                if let Some(segment) = self.segments.iter_mut().find(|s| !s.answered) {
                    segment.answered = true;
                }
            }
            return Verdict::Right;
        }
        if is_no_block_warning(&expected) && matches!(message.first(), Some(b'C' | b'E')) {
            // A statement that was prepared again within the segment has made it a pipeline (docs/differences.md).
            return self.compare_next(message);
        }
        if is_reserved_name_error(message) || is_reserved_name_error(&expected) {
            // docs/differences.md: as above, and the private server has gone on; or its own code has not run on this
            // server.
            return Verdict::CannotDescribe;
        }
        // A statement that must be prepared again fails before the error of its Bind, or before the DEALLOCATE that
        // ends it (docs/differences.md).
        if (matches!(expected.first(), Some(b't' | b'E')) || expected[..] == DEALLOCATED[..])
            && is_missing_table_error(message)
        {
            return Verdict::CannotDescribe;
        }
        if self.transaction_failed && expected.first() == Some(&b't') && is_failed_transaction_error(message) {
            return Verdict::CannotDescribe;
        }
        if message.windows(HINT_TO_END.len()).any(|w| w == HINT_TO_END) {
            // A failed transaction refuses DISCARD SEQUENCES (docs/differences.md).
            return Verdict::CannotDescribe;
        }
        if is_cancel && self.cancelled && matches!(expected.first(), Some(b'Z' | b'S')) {
            // The cancel has hit the values that are set again behind a RESET, and the segment has failed with them:
            // neither ReadyForQuery nor the reports before it come as expected.
            return Verdict::CannotDescribe;
        }
        if self.transaction_failed && is_failed_transaction_error(&expected) && message.first() == Some(&b'n') {
            // The unnamed portal is an older one, because an EXECUTE that failed before its own Query has made none.
            return Verdict::CannotDescribe;
        }
        if self.transaction_failed && is_taken_name_error(&expected) {
            // One Query ends a failed transaction and prepares under a name that Parse has given (docs/differences.md).
            return Verdict::CannotDescribe;
        }
        if self.transaction_failed && is_missing_statement_error(message) {
            // One Query ends a failed transaction and uses a statement that could not be prepared again before.
            return Verdict::CannotDescribe;
        }
        let in_doubt = self.cancelled || self.session.met_undefined();
        if in_doubt && self.transaction_failed && is_missing_portal_error(message) {
            // A Query that was cancelled, or failed before its own statement, has replaced the unnamed portal, or has
            // not got that far.
            return Verdict::CannotDescribe;
        }
        Verdict::Wrong(Some(expected))
    }

    /// The first segment is not run further: its answer is the error that has come, and ReadyForQuery.
    /// The pooler has refused the segment that waited for a server. It may do so only outside a transaction, with nothing of
    /// the segment run.
    pub fn refused(&mut self) -> Verdict {
        let is_at_rest = self.expected.is_empty() && self.session.busy_until().is_none();
        if !is_at_rest || self.session.status() != TransactionStatus::Idle {
            return Verdict::Wrong(self.expected.pop_front());
        }
        self.drop_front_segment();
        Verdict::CancelledWhileWaiting
    }

    fn drop_front_segment(&mut self) {
        if let Some(segment) = self.segments.iter_mut().find(|s| !s.answered) {
            segment.unfed.clear();
            segment.dropped = true;
        }
        if self.session.status() == TransactionStatus::InTransaction {
            // A cancel in a transaction fails it.
            let mut failing = Vec::new();
            pgweir_wire::Writer::new(&mut failing).query(b"this is no statement");
            self.run_through(&failing);
        }
        let mut ready = Vec::new();
        pgweir_wire::Writer::new(&mut ready).ready_for_query(self.session.status());
        self.expected.push_back(ready);
    }
}

/// PostgreSQL 18's error for the command after a Query in the midst of an extended segment.
fn is_out_of_step(message: &[u8]) -> bool {
    let text = b"StartTransactionCommand: unexpected state STARTED";
    message.first() == Some(&b'E') && message.windows(text.len()).any(|w| w == text)
}

/// Errors 08P01 of Bind contain the statement's name on the server: the one exception from equal bytes.
fn is_same_but_for_a_name(expected: &[u8], message: &[u8]) -> bool {
    let text = |m: &[u8]| {
        let text = String::from_utf8_lossy(m.get(5..)?).into_owned();
        let parts: Vec<String> = text.split('"').map(str::to_string).collect();
        (text.contains("C08P01") && parts.len() == 3).then_some(parts)
    };
    match (text(expected), text(message)) {
        (Some(a), Some(b)) => a[0] == b[0] && a[2] == b[2],
        _ => false,
    }
}

/// docs/differences.md: a Bind with too many or too few values, of a statement whose rows have changed.
fn is_bind_of_changed_rows(expected: &[u8], message: &[u8]) -> bool {
    let fields = |m: &[u8]| Some(ErrorFields::read(m.get(5..)?).ok()?.sqlstate.to_vec());
    let text = b"bind message supplies";
    fields(expected).as_deref() == Some(b"08P01")
        && expected.windows(text.len()).any(|w| w == text)
        && fields(message).as_deref() == Some(b"0A000")
}

/// In a failed transaction an internal Parse fails where the client's message would have failed with another error. To
/// the client both mean that the transaction is aborted.
fn is_failed_transaction_error(message: &[u8]) -> bool {
    message.first() == Some(&b'E') && ErrorFields::read(&message[5..]).is_ok_and(|f| f.sqlstate == b"25P02")
}

/// In a failed transaction nothing can be prepared again (docs/differences.md).
fn is_missing_statement_error(message: &[u8]) -> bool {
    message.first() == Some(&b'E') && ErrorFields::read(&message[5..]).is_ok_and(|f| f.sqlstate == b"26000")
}

fn is_taken_name_error(message: &[u8]) -> bool {
    message.first() == Some(&b'E') && ErrorFields::read(&message[5..]).is_ok_and(|f| f.sqlstate == b"42P05")
}

/// The pooler's hint if several statements would end a failed transaction and then call currval().
const HINT_TO_END: &[u8] = b"End the transaction by a Query of its own.";

/// A name under the prefix of PL/pgSQL that clients set.
const RESERVED_NAME: &str = "plpgsql.no_such";

/// The error for a name under a prefix that a library has reserved.
fn is_reserved_name_error(message: &[u8]) -> bool {
    message.first() == Some(&b'E') && ErrorFields::read(&message[5..]).is_ok_and(|f| f.sqlstate == b"42602")
}

/// A library that was loaded has removed a setting.
fn is_removal(message: &[u8]) -> bool {
    message.first() == Some(&b'N') && ErrorFields::read(&message[5..]).is_ok_and(|f| f.sqlstate == b"42602")
}

fn is_missing_portal_error(message: &[u8]) -> bool {
    message.first() == Some(&b'E') && ErrorFields::read(&message[5..]).is_ok_and(|f| f.sqlstate == b"34000")
}

/// "SET LOCAL can only be used in transaction blocks".
fn is_no_block_warning(message: &[u8]) -> bool {
    message.first() == Some(&b'N') && ErrorFields::read(&message[5..]).is_ok_and(|f| f.sqlstate == b"25P01")
}

/// Equal except for the process id, which is a server's.
fn is_same_notification(expected: &[u8], message: &[u8]) -> bool {
    let content = |m: &[u8]| (m.first() == Some(&b'A')).then(|| m[9..].to_vec());
    content(expected).is_some_and(|e| content(message) == Some(e))
}

/// Whether this is the command tag of a statement that may have ended a transaction block.
fn ends_block(message: &[u8]) -> bool {
    [&b"COMMIT"[..], b"ROLLBACK"]
        .iter()
        .any(|tag| message.first() == Some(&b'C') && message[5..].starts_with(tag))
}

fn is_missing_table_error(message: &[u8]) -> bool {
    message.first() == Some(&b'E') && ErrorFields::read(&message[5..]).is_ok_and(|f| f.sqlstate == b"42P01")
}

fn is_cancel_error(message: &[u8]) -> bool {
    message.first() == Some(&b'E') && ErrorFields::read(&message[5..]).is_ok_and(|f| f.sqlstate == b"57014")
}

/// The pooler's DETAIL says so.
fn is_of_the_pooler(message: &[u8]) -> bool {
    const DETAIL: &[u8] = b"Dit was waiting for a server";
    message.windows(DETAIL.len()).any(|w| w == DETAIL)
}
