//! Texts whose encoding the pooler does not know, or cannot read.

use crate::base::message::Step;
use crate::exchange::Exchange;
use crate::statements::prepared::UNREAD;

impl Exchange<'_> {
    /// Whether a text contains bytes that look like ASCII and may be halves of characters: the client has an encoding
    /// with such characters, or an unanswered statement in front of the text may choose one.
    pub(crate) fn may_be_misread(&self, text: &[u8]) -> bool {
        (self.encoding_in_doubt() || self.client.session.shape().hides_ascii()) && pgweir_sql::may_hide_ascii(text)
    }

    /// Whether an unanswered statement may choose another encoding.
    pub(super) fn encoding_in_doubt(&self) -> bool {
        let session = &self.server.session;
        let in_flight = !self.server.conversation.queue().is_empty();
        in_flight && (session.parses_in_doubt())
    }

    /// Pins a client that parses a text which may be misread in this way, because the pooler does not know what the
    /// statement does when it is bound, on this server or another one.
    pub(crate) fn minds_misread(&mut self, text: &[u8]) -> Option<Step> {
        if !self.keeps_session() || !self.may_be_misread(text) {
            return None;
        }
        if self.will_know_encoding() {
            return Some(self.waits_for_replies());
        }
        self.suspect_unread(UNREAD, "(a statement that is not read)", Vec::new());
        None
    }

    /// Whether the answers to earlier segments will show the encoding of a text that may be misread. Such a text waits
    /// for them: for a text that is not read no names are lent, and internal statements are not hidden from it.
    pub(super) fn will_know_encoding(&self) -> bool {
        self.encoding_in_doubt() && self.server.conversation.queue().client_segment_outstanding()
    }
}
