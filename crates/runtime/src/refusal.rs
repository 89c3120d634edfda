//! Refusing a client because there is no file descriptor for it.
//!
//! This is the only code outside the core that sends a message to a client: without a descriptor, the client cannot be
//! one of the core's. Its startup packet must be read first, because closing a socket with unread input loses the
//! answer.

use crate::closing::DISCARDED_BYTES_MAX;
use crate::transport::{Received, Sent, Transport};
use pgweir_wire::StartupPacket;
use pgweir_wire::startup::STARTUP_BYTES_MAX;
use pgweir_wire::write::{ErrorText, Writer};

const ERROR: ErrorText<'static> = ErrorText {
    severity: "FATAL",
    sqlstate: "53300",
    message: "sorry, too many clients already",
    detail: "The pooler has run out of file descriptors.",
    hint: "Raise its limit on open files (LimitNOFILE= or ulimit -n), or lower max_client_conn.",
};

/// A client that is being refused.
#[derive(Debug)]
pub(crate) struct Refusal {
    transport: Transport,
    received: Vec<u8>,
    is_told: bool,
    /// Input after the startup packet, which is thrown away.
    discarded_bytes: usize,
}

/// Whether the refusal continues.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Waits,
    Over,
}

impl Refusal {
    pub(crate) fn new(transport: Transport) -> Self {
        Refusal {
            transport,
            received: Vec::new(),
            is_told: false,
            discarded_bytes: 0,
        }
    }

    /// Reads the client's input and answers it.
    pub(crate) fn step(&mut self) -> Outcome {
        let mut bytes = [0; 1024];
        loop {
            match self.transport.receive(&mut bytes) {
                Received::Bytes(count) if !self.is_told => self.received.extend_from_slice(&bytes[..count]),
                Received::Bytes(count) => {
                    self.discarded_bytes += count;
                    if self.discarded_bytes > DISCARDED_BYTES_MAX {
                        return Outcome::Over;
                    }
                }
                Received::WouldBlock => return Outcome::Waits,
                Received::Closed => return Outcome::Over,
            }
            if !self.is_told && self.answer() == Outcome::Over {
                return Outcome::Over;
            }
        }
    }

    fn answer(&mut self) -> Outcome {
        if self.received.len() > STARTUP_BYTES_MAX as usize {
            return Outcome::Over;
        }
        let whole = match StartupPacket::packet_bytes(&self.received) {
            Ok(Some(length)) if length <= self.received.len() => &self.received[..length],
            Ok(_) => return Outcome::Waits,
            Err(_) => return Outcome::Over,
        };
        let answer = match StartupPacket::read(whole) {
            Ok(StartupPacket::SslRequest | StartupPacket::GssEncRequest) => b"N".to_vec(),
            Ok(StartupPacket::Cancel(_)) => return Outcome::Over,
            Ok(StartupPacket::Startup { .. }) | Err(_) => {
                self.is_told = true;
                let mut message = Vec::new();
                Writer::new(&mut message).error(&ERROR);
                message
            }
        };
        self.received.drain(..whole.len());
        let sent = self.transport.send(&answer);
        if self.is_told {
            self.transport.finish_sending();
        }
        match sent {
            Sent::Bytes(_) => Outcome::Waits,
            Sent::Failed => Outcome::Over,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pgweir_wire::{ErrorFields, ProtocolVersion};
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;

    #[test]
    fn a_client_that_asks_for_tls_first_is_told_too() {
        let (mut client, ours) = UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        let mut refusal = Refusal::new(Transport::new(ours.into()));
        assert_eq!(refusal.step(), Outcome::Waits);
        let mut packet = Vec::new();
        StartupPacket::write_ssl_request(&mut packet);
        client.write_all(&packet).unwrap();
        assert_eq!(refusal.step(), Outcome::Waits);
        let mut answer = [0];
        client.read_exact(&mut answer).unwrap();
        assert_eq!(&answer, b"N");
        let mut packet = Vec::new();
        StartupPacket::write_startup(&mut packet, ProtocolVersion::V3_0, [(&b"user"[..], &b"u"[..])]);
        client.write_all(&packet[..5]).unwrap();
        assert_eq!(refusal.step(), Outcome::Waits);
        client.write_all(&packet[5..]).unwrap();
        assert_eq!(refusal.step(), Outcome::Waits);
        let mut message = Vec::new();
        client.read_to_end(&mut message).unwrap();
        let fields = ErrorFields::read(&message[5..]).unwrap();
        assert_eq!(
            (message[0], fields.sqlstate, fields.is_fatal()),
            (b'E', &b"53300"[..], true)
        );
        drop(client);
        assert_eq!(refusal.step(), Outcome::Over);
    }

    #[test]
    fn who_speaks_another_protocol_is_dropped() {
        let (mut client, ours) = UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        let mut refusal = Refusal::new(Transport::new(ours.into()));
        client.write_all(b"GET / HTTP/1.1\r\n").unwrap();
        assert_eq!(refusal.step(), Outcome::Over);
    }
}
