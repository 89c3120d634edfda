//! Random sessions: nothing panics, and what must not matter does not matter.

use super::hostile::{Choices, Way};
use super::parties::{Parties, Setup};
use super::records::Secrets;
use super::*;
use crate::reading::READ_BYTES;
use rustls::version::{TLS12, TLS13};
use std::hash::{BuildHasher, RandomState};
use std::io::Write;

/// Sessions in one run.
const SESSIONS: usize = 60;

/// Steps of one session.
const STEPS: usize = 120;

/// The most bytes that one read may bring forth: a flight of the handshake, or answers to KeyUpdate.
const ANSWER_BYTES_MAX: usize = 32 * 1024;

fn setup(choices: &mut Choices, is_fair: bool) -> Setup {
    let is_new = !choices.once_in(3);
    let asks = choices.once_in(2);
    let mut setup = Setup {
        suite: choices.below(3) + if is_new { 0 } else { 3 },
        asks,
        must: asks && choices.once_in(2),
        has_certificate: choices.once_in(2),
        verifies: choices.once_in(2),
        distrusts: choices.once_in(6),
        direct: choices.once_in(3),
        alpn: [None, Some("postgresql"), Some("h2")][choices.below(3)],
        tickets: choices.once_in(2),
        // At the limit new keys begin, or the connection ends (TLS 1.2).
        records_max: (!is_fair && choices.once_in(3)).then(|| 2 + choices.below(20) as u64),
        ..Setup::usual(choices.once_in(2), if is_new { &TLS13 } else { &TLS12 })
    };
    if is_fair {
        setup.has_certificate |= setup.must;
        setup.distrusts = false;
        setup.alpn = Some("postgresql");
    }
    setup
}

struct Trial {
    parties: Parties,
    way: Way,
    choices: Choices,
    /// Plain bytes of the other side, and those that the pooler has read.
    said: Vec<u8>,
    heard: Vec<u8>,
    /// Those of the pooler, and those that the other side has read.
    answered: Vec<u8>,
    understood: Vec<u8>,
    is_over: bool,
    /// The other side has ended its side. rustls's debug assertions do not let it find a mistake after that.
    has_left: bool,
    drips: bool,
}

impl Trial {
    fn new(seed: u64) -> Trial {
        let mut choices = Choices(seed);
        let is_fair = choices.once_in(3);
        let setup = setup(&mut choices, is_fair);
        if told() {
            println!("fair: {is_fair}, {setup:?}");
        }
        let secrets = Arc::new(Secrets::default());
        Trial {
            parties: Parties::new(&setup, secrets.clone(), None),
            way: Way::new(&setup, secrets, is_fair),
            drips: !is_fair && choices.once_in(20),
            choices,
            said: Vec::new(),
            heard: Vec::new(),
            answered: Vec::new(),
            understood: Vec::new(),
            is_over: false,
            has_left: false,
        }
    }

    fn run(&mut self) {
        for _ in 0..STEPS {
            self.step();
        }
        if self.drips {
            self.drip();
        }
        if self.way.is_fair {
            self.finish();
        }
        // The other side leaves.
        self.parties.socket = None;
        for _ in 0..1000 {
            if self.is_over {
                return;
            }
            self.receive();
        }
        panic!("the session does not end");
    }

    fn step(&mut self) {
        match self.choices.below(16) {
            0..5 => self.receive(),
            5..9 => self.others_turn(),
            9..12 => self.send(),
            12 => {
                let length = self.choices.length();
                self.seal(length);
            }
            13 => self.say(),
            14 if self.choices.once_in(4) && !self.parties.other.is_handshaking() => {
                let _ = self.parties.other.refresh_traffic_keys();
            }
            15 if !self.way.is_fair => match self.choices.below(60) {
                0 => {
                    let mut out = Vec::new();
                    self.parties.session.close(&mut out);
                    self.deliver(&out);
                }
                1 => {
                    self.parties.other.send_close_notify();
                    self.has_left = true;
                }
                2..14 => self.way.inject(&mut self.choices),
                _ => {}
            },
            _ => {}
        }
    }

    fn receive(&mut self) {
        let step = self.parties.receive();
        self.check();
        assert!(step.out.len() <= ANSWER_BYTES_MAX, "{} bytes", step.out.len());
        self.heard.extend_from_slice(&step.plain);
        self.is_over |= step.progress.end.is_some();
        if self.way.is_fair {
            assert!(self.parties.socket.is_none() || !self.is_over, "{:?}", step.progress);
        }
        self.deliver(&step.out);
    }

    fn check(&self) {
        let session = &self.parties.session;
        assert!(!session.library.is_gone());
        assert!(session.unread.capacity() <= READ_BYTES);
    }

    fn deliver(&mut self, records: &[u8]) {
        if self.has_left {
            return;
        }
        let (plain, outcome) = self.parties.others_input(records);
        assert!(outcome.is_ok() || !self.way.is_fair, "{outcome:?}");
        self.understood.extend_from_slice(&plain);
    }

    fn others_turn(&mut self) {
        let output = self.parties.others_output();
        self.way.pass(&output, &mut self.choices);
    }

    /// A part of what is on its way arrives.
    fn send(&mut self) {
        let on_way = self.way.bytes.len();
        if on_way > 0 {
            let count = match self.choices.below(3) {
                0 => on_way,
                1 => 1 + self.choices.below(on_way),
                _ => 1 + self.choices.below(on_way.min(10)),
            };
            let sent = self.parties.send(&self.way.bytes[..count]);
            self.way.bytes.drain(..sent);
        }
    }

    fn seal(&mut self, length: usize) {
        let plain = self.choices.bytes(length);
        let mut out = Vec::new();
        let is_sealed = self.parties.session.seal(&plain, &mut out).is_ok();
        self.check();
        assert!(out.len() <= plain.len() + 1000);
        if is_sealed {
            self.answered.extend_from_slice(&plain);
        }
        self.deliver(&out);
    }

    fn say(&mut self) {
        let length = self.choices.length();
        if !self.parties.other.is_handshaking() {
            let plain = self.choices.bytes(length);
            let is_said = self.parties.other.writer().write_all(&plain).is_ok();
            assert!(is_said || !self.way.is_fair);
            self.said.extend_from_slice(&plain);
        }
    }

    fn drip(&mut self) {
        for at in 0..20_000 {
            self.way.drip(at > 0, &mut self.choices);
            if at % 100 == 0 {
                while !self.way.bytes.is_empty() && !self.is_over {
                    self.send();
                    self.receive();
                }
            }
            if self.is_over {
                return;
            }
        }
        panic!("the message has no end");
    }

    /// All arrives, and both sides have understood each other.
    fn finish(&mut self) {
        for _ in 0..400 {
            self.others_turn();
            self.send();
            self.receive();
        }
        assert!(self.parties.session.is_secured());
        self.seal(1000);
        assert!(self.heard == self.said && self.answered == self.understood);
    }
}

fn told() -> bool {
    std::env::var_os("PGWEIR_TLS_SEED").is_some()
}

/// In this session keys are to be changed while half a message of the handshake is there.
const FAILED_ONCE: u64 = 115_348_829_825_421;

/// With `PGWEIR_TLS_SEED`, one session again; with `PGWEIR_TLS_SESSIONS`, more than usually.
#[test]
fn random_sessions_do_not_panic() {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().unwrap());
    if let Some(seed) = number("PGWEIR_TLS_SEED") {
        return Trial::new(seed).run();
    }
    let first = RandomState::new().hash_one(0) >> 16;
    let count = number("PGWEIR_TLS_SESSIONS").map_or(SESSIONS, |n| n as usize);
    for seed in std::iter::once(FAILED_ONCE).chain((first..).take(count)) {
        println!("again: PGWEIR_TLS_SEED={seed} cargo test -p pgweir-runtime random_sessions");
        Trial::new(seed).run();
    }
}
