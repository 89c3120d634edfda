//! Bytes on their way to the client.

use pgweir_wire::Writer;

/// The size of PostgreSQL's send buffer (`PQ_SEND_BUFFER_SIZE`). It is sent when it is full, without a flush.
const SEND_BUFFER_BYTES: usize = 8192;

/// Bytes that were written and not sent, and bytes that were sent and not taken.
#[derive(Debug, Default)]
pub(super) struct Output {
    pending: Vec<u8>,
    sent: Vec<u8>,
}

impl Output {
    /// Writes messages; they stay here until a flush, or until the buffer is full.
    pub(super) fn write(&mut self, write: impl FnOnce(&mut Writer<'_>)) {
        write(&mut Writer::new(&mut self.pending));
        let full = self.pending.len() / SEND_BUFFER_BYTES * SEND_BUFFER_BYTES;
        if full > 0 {
            self.sent.extend(self.pending.drain(..full));
        }
    }

    /// The one-byte answer to SSLRequest and GSSENCRequest, which is no message.
    pub(super) fn write_byte(&mut self, byte: u8) {
        self.pending.push(byte);
    }

    pub(super) fn flush(&mut self) {
        self.sent.append(&mut self.pending);
    }

    /// Everything written, sent or not.
    pub(super) fn take_written(&mut self) -> Vec<u8> {
        self.flush();
        self.take_sent()
    }

    pub(super) fn take_sent(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.sent)
    }
}
