//! What clients send that break the protocol.

use super::Client;
use crate::model::code;
use crate::simulation::postgres::Internal;
use crate::simulation::topology::{Hostility, Topology};

/// How long a client stays that breaks the protocol, or has stopped in the midst of a message, microseconds.
pub const STAYS_US_MAX: u64 = 100_000;

/// Some clients may stall one after another, and a login that waits for them has 60 s.
const STALLS_US_MAX: u64 = 20_000_000;

impl Client {
    /// Bytes that are not the protocol at all.
    pub fn some_rubbish(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut flights = 0;
        for _ in 0..self.random.between(1, 5) {
            match self.random.below(4) {
                0 => bytes.extend((0..self.random.between(1, 40)).map(|_| self.random.next() as u8)),
                1 => {
                    // A known tag, a right length, a malformed body.
                    let body: Vec<u8> = (0..self.random.below(20)).map(|_| self.random.next() as u8).collect();
                    let tag = *self.random.pick(b"QPBEDCSHFdcfXp");
                    pgweir_wire::Writer::new(&mut bytes).message(tag, |b| b.extend_from_slice(&body));
                }
                2 => {
                    // A message that is never finished.
                    bytes.push(*self.random.pick(b"QPBd"));
                    bytes.extend((self.random.below(1 << 20) as u32).to_be_bytes());
                }
                _ => self.write_flight(&mut bytes, &mut flights),
            }
        }
        bytes
    }

    /// A flight behind so many others, before anything is answered.
    fn write_flight(&mut self, bytes: &mut Vec<u8>, flights: &mut u64) {
        if let Some(author) = &mut self.author
            && (*flights == 0 || author.may_pipeline_flights())
        {
            *flights += 1;
            bytes.extend(author.flight().stages.concat());
        }
    }

    /// Messages of the protocol that no driver sends, and how long the client stays afterwards at most, microseconds.
    /// `internal`: what a client could read in pg_prepared_statements.
    pub fn some_hostility(&mut self, topology: &Topology, internal: &[Internal]) -> (Vec<u8>, u64) {
        let mut bytes = Vec::new();
        let stalls_percent = match topology.hostility {
            Hostility::Code => return self.some_code(topology.calls_by_view),
            Hostility::Names => {
                self.use_names(&mut bytes, internal);
                0
            }
            Hostility::Stalls => 100,
            Hostility::Anything => {
                let mut flights = 0;
                for _ in 0..self.random.between(1, 3) {
                    match self.random.below(3) {
                        0 => self.flood(&mut bytes),
                        1 => self.use_names(&mut bytes, internal),
                        _ => self.write_flight(&mut bytes, &mut flights),
                    }
                }
                60
            }
        };
        if self.has_stalled || !self.random.percent(stalls_percent) {
            return (bytes, STAYS_US_MAX);
        }
        self.stall(&mut bytes);
        (bytes, STALLS_US_MAX)
    }

    /// It stops in the midst of a message, at a point where other clients may have to wait for it.
    fn stall(&mut self, bytes: &mut Vec<u8>) {
        self.has_stalled = true;
        let mut w = pgweir_wire::Writer::new(bytes);
        let mut tag = *self.random.pick(b"QPBDE");
        match self.random.below(4) {
            0 => w.query(b"begin"),
            1 => {
                w.query(b"copy kv from stdin");
                // Another message would wait for replies that the COPY delays (seeds-that-failed.txt).
                tag = b'd';
            }
            2 => w.parse(b"", b"select 1", &[0, 0]),
            _ => {}
        }
        let mut message = Vec::new();
        pgweir_wire::Writer::new(&mut message).message(tag, |b| b.resize(200, b' '));
        let sent = self.random.below(message.len() as u64) as usize;
        bytes.extend_from_slice(&message[..sent]);
    }

    /// Hundreds of messages together.
    fn flood(&mut self, bytes: &mut Vec<u8>) {
        let mut w = pgweir_wire::Writer::new(bytes);
        w.parse(b"", b"select 1", &[0, 0]);
        let kind = self.random.below(4);
        for _ in 0..self.random.between(100, 300) {
            match kind {
                0 => w.sync(),
                1 => w.flush(),
                2 => w.bind_text(b"", &[]),
                _ => {
                    w.bind_text(b"", &[]);
                    w.execute();
                    w.sync();
                }
            }
        }
        w.sync();
    }

    /// Internal statements, and names that the pooler might use for them.
    fn use_names(&mut self, bytes: &mut Vec<u8>, internal: &[Internal]) {
        let mut w = pgweir_wire::Writer::new(bytes);
        for _ in 0..self.random.between(3, 30) {
            let number = self.random.below(48);
            let guess = |name: String| Internal {
                name,
                is_of_pooler: true,
            };
            let Internal { name, is_of_pooler } = match self.random.below(6) {
                3.. if !internal.is_empty() => self.random.pick(internal).clone(),
                0 => guess(format!("pgweir_{number}")),
                1 => guess(format!("pgweir_{number:x}")),
                _ => guess(format!("pgweir_{number:x}_")),
            };
            let forged = format!("prepare \"{name}\" as select set_config('app.user', 'evil', false)");
            match self.random.below(16) {
                0..=1 => w.close(b'S', name.as_bytes()),
                2 => w.query(format!("deallocate \"{name}\"").as_bytes()),
                3..=7 => w.query(format!("do $$begin execute 'deallocate \"{name}\"'; end$$").as_bytes()),
                8 => w.parse(
                    name.as_bytes(),
                    b"select set_config('work_mem', '64kB', false)",
                    &[0, 0],
                ),
                9 => w.query(forged.as_bytes()),
                10..=13 => w.query(format!("deallocate \"{name}\"; {forged}").as_bytes()),
                // The client would run another client's statement in its session, and the checkers would not see the
                // cause.
                _ if !is_of_pooler => w.close(b'S', name.as_bytes()),
                14 => w.query(format!("execute \"{name}\"").as_bytes()),
                _ => {
                    w.bind_text(name.as_bytes(), &[]);
                    w.execute();
                }
            }
            w.sync();
        }
    }

    /// A function that others call meanwhile is replaced, in one of several ways; and how long the client stays
    /// afterwards at most, microseconds.
    ///
    /// `by_view`: calls are such that only the catalog shows them.
    fn some_code(&mut self, by_view: bool) -> (Vec<u8>, u64) {
        let mut bytes = Vec::new();
        let mut w = pgweir_wire::Writer::new(&mut bytes);
        let (definitions, [call, call_by_view, call_later]) = (code::definitions(), code::calls());
        let harmless = definitions[0].clone();
        let call = if by_view { call_by_view } else { call };
        let calls_percent = match by_view {
            // While the catalog is not known, all that runs counts as code.
            true => *self.random.pick(&[80, 90, 100, 100]),
            false => *self.random.pick(&[50, 80, 90, 100, 100]),
        };
        for _ in 0..self.random.between(1, 12) {
            // Only calls of harmless code share servers.
            let is_harmless = by_view && self.random.percent(50);
            let definition = if is_harmless {
                &harmless
            } else {
                self.random.pick(&definitions)
            };
            let definition = definition.as_bytes();
            let is_call = self.random.percent(calls_percent);
            let text = if is_call { call.as_bytes() } else { definition };
            match self.random.below(6) {
                0 => {
                    w.query(b"begin");
                    w.query(text);
                    let end = *self.random.pick(&["commit", "commit", "rollback"]);
                    w.query(end.as_bytes());
                }
                1 => {
                    w.parse(b"", text, &[0, 0]);
                    w.bind_text(b"", &[]);
                    w.execute();
                    w.sync();
                }
                2..=4 if is_call && !by_view => w.query(call_later.as_bytes()),
                2 => {
                    w.parse(b"code", text, &[0, 0]);
                    w.sync();
                    w.bind_text(b"code", &[]);
                    w.execute();
                    w.sync();
                    w.close(b'S', b"code");
                    w.sync();
                }
                _ => w.query(text),
            }
        }
        (bytes, 2 * STAYS_US_MAX)
    }
}
