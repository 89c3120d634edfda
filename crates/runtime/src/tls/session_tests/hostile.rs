//! Whoever stands between the other side and the pooler, and has the other side's keys: messages get other bounds, and if
//! that is not enough, anything else happens to them.

use super::parties::Setup;
use super::records::{self, ALERT, APPLICATION_DATA, CHANGE_CIPHER_SPEC, HANDSHAKE, HEADER_BYTES, Keys, Secrets};
use std::sync::Arc;

/// Random choices that can be made again.
#[derive(Debug)]
pub(super) struct Choices(pub(super) u64);

impl Choices {
    /// SplitMix64.
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `end`, which is not 0.
    pub(super) fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    /// True once in `n` times.
    pub(super) fn once_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    pub(super) fn bytes(&mut self, count: usize) -> Vec<u8> {
        (0..count).map(|_| self.next() as u8).collect()
    }

    /// Mostly small, at times around the most that a record may have.
    pub(super) fn length(&mut self) -> usize {
        match self.below(8) {
            0 => 0,
            1..=4 => self.below(40),
            5 => self.below(3000),
            6 => (1 << 14) - 20 + self.below(300),
            _ => self.below(20_000),
        }
    }
}

/// Whether the messages are one KeyUpdate.
fn is_key_update(content: &[u8]) -> bool {
    matches!(content, [24, 0, 0, 1, _])
}

/// The way from the other side to the pooler.
pub(super) struct Way {
    suite: usize,
    side: &'static str,
    is_new: bool,
    secrets: Arc<Secrets>,
    /// Only what must not matter is done.
    pub(super) is_fair: bool,
    /// The keys that the other side uses, and those for the pooler, as far as known.
    from: Option<Keys>,
    to: Option<Keys>,
    is_behind_handshake: bool,
    /// Records can no longer be opened.
    is_blind: bool,
    /// Messages of the handshake that are not on their way yet.
    held: Vec<u8>,
    /// Bytes that are on their way.
    pub(super) bytes: Vec<u8>,
}

impl Way {
    pub(super) fn new(setup: &Setup, secrets: Arc<Secrets>, is_fair: bool) -> Way {
        Way {
            suite: setup.suite,
            side: if setup.accepts { "CLIENT" } else { "SERVER" },
            is_new: setup.version.version == rustls::ProtocolVersion::TLSv1_3,
            secrets,
            is_fair,
            from: None,
            to: None,
            is_behind_handshake: false,
            is_blind: false,
            held: Vec::new(),
            bytes: Vec::new(),
        }
    }

    /// The other side has written these records.
    pub(super) fn pass(&mut self, mut records: &[u8], choices: &mut Choices) {
        while records.len() >= HEADER_BYTES {
            let length = HEADER_BYTES + usize::from(u16::from_be_bytes([records[3], records[4]]));
            let (record, rest) = records.split_at(length);
            self.pass_record(record, choices);
            records = rest;
        }
        self.release(choices);
    }

    fn pass_record(&mut self, record: &[u8], choices: &mut Choices) {
        match record[0] {
            HANDSHAKE if !self.is_blind && self.from.is_none() => self.held.extend_from_slice(&record[HEADER_BYTES..]),
            APPLICATION_DATA if self.is_new && !self.is_blind => match self.open(record, choices) {
                Some((HANDSHAKE, content)) => {
                    self.held.extend_from_slice(&content);
                    if is_key_update(&content) && self.is_behind_handshake {
                        self.release(choices);
                        self.from = self.from.as_ref().map(Keys::next);
                        self.to = self.to.as_ref().map(Keys::next);
                    }
                }
                Some((kind, content)) => {
                    self.release(choices);
                    self.emit_pieces(kind, content, choices);
                }
                None => {
                    self.is_blind = true;
                    self.emit(record.to_vec(), choices);
                }
            },
            kind => {
                self.release(choices);
                // In TLS 1.2 all that is behind it is encrypted.
                self.is_blind |= kind == CHANGE_CIPHER_SPEC && !self.is_new;
                self.emit(record.to_vec(), choices);
            }
        }
    }

    fn open(&mut self, record: &[u8], choices: &mut Choices) -> Option<(u8, Vec<u8>)> {
        if let Some(opened) = self.from.as_mut().and_then(|keys| keys.open(record)) {
            return Some(opened);
        }
        if self.is_behind_handshake {
            return None;
        }
        self.release(choices);
        self.is_behind_handshake = self.from.is_some();
        let label = match self.from {
            None => "HANDSHAKE_TRAFFIC_SECRET",
            Some(_) => "TRAFFIC_SECRET_0",
        };
        self.from = Some(Keys::find(self.suite, &self.secrets, self.side, label)?);
        self.to = Keys::find(self.suite, &self.secrets, self.side, label);
        self.from.as_mut()?.open(record)
    }

    /// The messages that are held go on their way.
    fn release(&mut self, choices: &mut Choices) {
        if !self.held.is_empty() {
            let held = std::mem::take(&mut self.held);
            self.emit_pieces(HANDSHAKE, held, choices);
        }
    }

    fn record(&mut self, kind: u8, content: &[u8], zeros: usize) -> Vec<u8> {
        match &mut self.to {
            Some(keys) => keys.seal(kind, content, zeros),
            None => records::plain(kind, content),
        }
    }

    fn emit_pieces(&mut self, kind: u8, mut content: Vec<u8>, choices: &mut Choices) {
        if !self.is_fair && choices.once_in(12) {
            spoil(&mut content, choices);
        }
        let is_cut = choices.once_in(2);
        let mut rest = &content[..];
        loop {
            let most = rest.len().min(1 << 14);
            let piece = choices.below(400) + 1;
            let taken = match (is_cut, kind) {
                (true, HANDSHAKE | APPLICATION_DATA) if most > 0 => 1 + choices.below(most.min(piece)),
                _ => most,
            };
            // With them a record must not be longer than without.
            let zeros = choices.below(30).min((1 << 14) - taken) * usize::from(choices.once_in(6));
            let record = self.record(kind, &rest[..taken], zeros);
            self.emit(record, choices);
            rest = &rest[taken..];
            if !self.is_fair && choices.once_in(25) {
                self.inject(choices);
            }
            if rest.is_empty() {
                return;
            }
        }
    }

    fn emit(&mut self, mut record: Vec<u8>, choices: &mut Choices) {
        if !self.is_fair && choices.once_in(40) {
            match choices.below(4) {
                0 => return,
                1 => self.bytes.extend_from_slice(&record),
                _ => spoil(&mut record, choices),
            }
        }
        self.bytes.extend_from_slice(&record);
    }

    /// Sends what the other side has not sent.
    pub(super) fn inject(&mut self, choices: &mut Choices) {
        let header = |kind: u8, length: usize| vec![kind, (length >> 16) as u8, (length >> 8) as u8, length as u8];
        let (kind, content) = match choices.below(12) {
            // KeyUpdate, which may ask for an answer, once and often, in one record or in several, or half of it.
            0 => (HANDSHAKE, vec![24, 0, 0, 1, 0]),
            1 => (HANDSHAKE, vec![24, 0, 0, 1, 1]),
            2 => (HANDSHAKE, [24, 0, 0, 1, 1].repeat(1 + choices.below(30))),
            3 => (HANDSHAKE, vec![24, 0, 0, 1, 1][..choices.below(5)].to_vec()),
            // Empty messages, and the beginning of a long one.
            4 => (
                HANDSHAKE,
                header(choices.below(26) as u8, 0).repeat(1 + choices.below(4)),
            ),
            5 => (HANDSHAKE, header(choices.below(26) as u8, 1 << choices.below(24))),
            6 => {
                let length = choices.length();
                let body = choices.bytes(length);
                (HANDSHAKE, [header(choices.below(26) as u8, length), body].concat())
            }
            7 => (ALERT, vec![1 + choices.below(2) as u8, choices.below(120) as u8]),
            8 => (ALERT, vec![1, 0]),
            9 => (CHANGE_CIPHER_SPEC, vec![1]),
            10 => (APPLICATION_DATA, Vec::new()),
            _ => {
                let length = choices.length();
                (choices.below(26) as u8, choices.bytes(length))
            }
        };
        let updates = matches!(&content[..], [24, 0, 0, 1, 0 | 1]);
        let record = match choices.below(6) {
            0 => records::plain(kind, &content),
            _ => self.record(kind, &content, 0),
        };
        if updates && self.is_behind_handshake && choices.once_in(2) {
            self.to = self.to.as_ref().map(Keys::next);
        }
        self.bytes.extend_from_slice(&record);
    }

    /// A message of the handshake that never ends, in records of a few bytes.
    pub(super) fn drip(&mut self, is_begun: bool, choices: &mut Choices) {
        let count = 1 + choices.below(3);
        let content = match is_begun {
            false => vec![1, 0, 0xff, 0xf0],
            true => choices.bytes(count),
        };
        let record = self.record(HANDSHAKE, &content, 0);
        self.bytes.extend_from_slice(&record);
    }
}

/// Bytes are turned over, doubled, or missing.
fn spoil(bytes: &mut Vec<u8>, choices: &mut Choices) {
    if bytes.is_empty() {
        return;
    }
    let at = choices.below(bytes.len());
    match choices.below(4) {
        0 => bytes.truncate(at),
        1 => {
            let again = bytes[at..].to_vec();
            bytes.extend_from_slice(&again);
        }
        2 => drop(bytes.remove(at)),
        _ => bytes[at] ^= 1 << choices.below(8),
    }
}
