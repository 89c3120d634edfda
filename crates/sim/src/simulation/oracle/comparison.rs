//! Whether a message is the expected one, or one that may come in its place.

use super::messages::{
    DEALLOCATED, HINT_TO_END, RESERVED_NAME, ROW_FALSE, ROW_TRUE, ends_block, is_bind_of_changed_rows, is_cancel_error,
    is_failed_transaction_error, is_missing_portal_error, is_missing_statement_error, is_missing_table_error,
    is_missing_unnamed_error, is_no_block_warning, is_no_process_warning, is_not_drawn_error, is_of_the_pooler,
    is_out_of_step, is_removal, is_reserved_name_error, is_same_but_for_a_name, is_same_notification,
    is_taken_name_error,
};
use super::{Oracle, Verdict};
use pgweir_wire::TransactionStatus;

/// Whether the message is an error of an internal Parse: the statement's transaction has failed, or its table is gone.
fn fails_preparing(message: &[u8]) -> bool {
    is_failed_transaction_error(message) || is_missing_table_error(message)
}

impl Oracle {
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
                Verdict::Wrong(None) if fails_preparing(&message) && self.is_inside_message() => {
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
        // A listener that takes the place of a lost one may still hear what seemed to be lost.
        if let Some(at) = self.lost.iter().position(|lost| is_same_notification(lost, message)) {
            self.lost.remove(at);
            return Verdict::Right;
        }
        if let Some(verdict) = self.await_expected(message) {
            return verdict;
        }
        if let Some(verdict) = self.compare_out_of_order(message) {
            return verdict;
        }
        if message.first() == Some(&b'Z')
            && std::mem::take(&mut self.may_have_begun)
            && message.last() == Some(&b'E')
            && self.session.status() == TransactionStatus::Idle
        {
            self.beginning_has_failed();
        }
        let Some(expected) = self.expected.pop_front() else {
            return self.compare_next(message);
        };
        let is_known = is_failed_transaction_error(message) || is_missing_statement_error(message);
        // An EXECUTE whose statement could not be prepared on the server has made no portal (docs/differences.md).
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
        if is_no_process_warning(&expected) && message == ROW_TRUE {
            // The private server does not know the client that the pooler has signalled.
            self.signalled = true;
            return self.compare_next(message);
        }
        if self.signalled && expected == ROW_FALSE && message == ROW_TRUE {
            return Verdict::Right;
        }
        match self.cannot_describe(&expected, message) {
            true => Verdict::CannotDescribe,
            false => Verdict::Wrong(Some(expected)),
        }
    }

    /// Runs the private server until it has sent something. The verdict, if it sends nothing.
    fn await_expected(&mut self, message: &[u8]) -> Option<Verdict> {
        let is_cancel = is_cancel_error(message);
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
                return Some(Verdict::CancelledWhileWaiting);
            }
            if !self.feed() {
                // The cancel has hit an internal message before a message of which the client has sent only a part.
                let is_half_sent = self.segments.iter().any(|s| s.to_come > 0);
                return Some(match is_cancel && self.cancelled && is_half_sent {
                    true => Verdict::CannotDescribe,
                    false => Verdict::Wrong(None),
                });
            }
        }
        None
    }

    /// The verdict on a message that may come before or after the expected one.
    fn compare_out_of_order(&mut self, message: &[u8]) -> Option<Verdict> {
        if self.has_ended_block && message.first() == Some(&b'A') && !is_same_notification(&self.expected[0], message) {
            self.heard_early.push(message.to_vec());
            return Some(Verdict::Right);
        }
        let heard = |e: &Vec<u8>| self.heard_early.iter().position(|m| is_same_notification(e, m));
        if let Some(at) = self.expected.front().and_then(heard) {
            self.heard_early.remove(at);
            self.expected.pop_front();
            return Some(self.compare_next(message));
        }
        if message.first() == Some(&b'Z') && !self.heard_early.is_empty() {
            return Some(Verdict::Wrong(self.heard_early.pop()));
        }
        // PostgreSQL promises no order among settings that it reports together; notifications come from another server.
        let together = self
            .expected
            .iter()
            .take_while(|m| matches!(m.first(), Some(b'S' | b'A')));
        if let Some(at) = together.into_iter().position(|m| m == message) {
            self.expected.remove(at);
            return Some(Verdict::Right);
        }
        // When PL/pgSQL is loaded on a shared server, settings of other clients may be removed; on the private server,
        // settings that were not set on the shared one.
        if is_removal(message) && self.expected.front().is_none_or(|e| e != message) {
            return Some(Verdict::Right);
        }
        if self.expected.front().is_some_and(|e| is_removal(e) && e != message) {
            self.expected.pop_front();
            return Some(self.compare_next(message));
        }
        if self.loses_notifications && message.first() != Some(&b'A') {
            while self.expected.front().is_some_and(|m| m.first() == Some(&b'A')) {
                self.lost.extend(self.expected.pop_front());
            }
        }
        None
    }

    /// Whether the private server cannot tell what comes in place of the expected message.
    fn cannot_describe(&self, expected: &[u8], message: &[u8]) -> bool {
        if is_reserved_name_error(message) || is_reserved_name_error(expected) {
            // docs/differences.md: as above, and the private server has gone on; or its own code has not run on this
            // server.
            return true;
        }
        if expected.first() == Some(&b'D') && is_not_drawn_error(message) {
            // The value was drawn on another server (docs/differences.md).
            return true;
        }
        // A statement that must be prepared again fails before the error of its Bind, or before the DEALLOCATE that
        // ends it (docs/differences.md).
        if (matches!(expected.first(), Some(b't' | b'E')) || expected[..] == DEALLOCATED[..])
            && is_missing_table_error(message)
        {
            return true;
        }
        if is_out_of_step(expected) && self.signals {
            // The error has answered the pooler's question whether the client may call the function.
            return true;
        }
        if is_no_process_warning(message) && is_cancel_error(expected) {
            // A client with another role than its own, or whose statements are not tracked, cannot cancel itself
            // (docs/differences.md).
            return true;
        }
        if self.has_set && matches!(expected.first(), Some(b'2' | b't' | b'E')) && is_missing_unnamed_error(message) {
            // The unnamed statement was parsed behind a SET, on another server (docs/differences.md).
            return true;
        }
        if self.has_set && expected.first() == Some(&b'2') && is_missing_table_error(message) {
            // A text in an encoding that is not known may be an EXECUTE of any statement, which must be prepared again.
            return true;
        }
        if self.transaction_failed && expected.first() == Some(&b't') && is_failed_transaction_error(message) {
            return true;
        }
        if message.windows(HINT_TO_END.len()).any(|w| w == HINT_TO_END) {
            // A failed transaction refuses DISCARD SEQUENCES (docs/differences.md).
            return true;
        }
        if is_cancel_error(message) && self.cancelled && matches!(expected.first(), Some(b'Z' | b'S')) {
            // The cancel has hit the values that are set again behind a RESET, and the segment has failed with them:
            // neither ReadyForQuery nor the reports before it come as expected.
            return true;
        }
        if self.transaction_failed && is_failed_transaction_error(expected) && message.first() == Some(&b'n') {
            // The unnamed portal is an older one, because an EXECUTE whose statement could not be prepared has made
            // none.
            return true;
        }
        if self.transaction_failed && is_taken_name_error(expected) {
            // One Query ends a failed transaction and prepares under a name that Parse has given (docs/differences.md).
            return true;
        }
        if self.transaction_failed && is_missing_statement_error(message) {
            // One Query ends a failed transaction and uses a statement that could not be prepared again before.
            return true;
        }
        let in_doubt = self.cancelled || self.session.met_undefined();
        if in_doubt && self.transaction_failed && is_missing_portal_error(message) {
            // A Query that was cancelled, or whose statement could not be prepared, may or may not have replaced the
            // unnamed portal.
            return true;
        }
        false
    }
}
