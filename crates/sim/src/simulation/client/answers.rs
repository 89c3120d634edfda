//! What comes to a client: every message is checked.

use super::refusals::{allowed_refusal, is_refused_early};
use super::{Client, Phase, Wish};
use crate::simulation::oracle::Verdict;
use crate::simulation::topology::Topology;
use crate::transcript::backend_to_text;
use pgweir_wire::{CancelKey, ErrorFields, Header};

impl Client {
    /// Bytes from the pooler. The error is a violation.
    pub fn receive(&mut self, topology: &Topology, bytes: &[u8]) -> Result<Wish, String> {
        if self.phase == Phase::Gone {
            return Ok(Wish::Nothing);
        }
        self.received.extend_from_slice(bytes);
        let mut wish = Wish::Nothing;
        loop {
            let length = match Header::read(&self.received) {
                Ok(Some(header)) if header.message_bytes as usize <= self.received.len() => {
                    header.message_bytes as usize
                }
                Ok(_) => return Ok(wish),
                Err(e) => return Err(format!("{}: {e}", self.label())),
            };
            let message: Vec<u8> = self.received.drain(..length).collect();
            match self.message(topology, &message)? {
                Wish::Nothing => {}
                Wish::Leave => return Ok(Wish::Leave),
                other => wish = other,
            }
        }
    }

    fn message(&mut self, topology: &Topology, message: &[u8]) -> Result<Wish, String> {
        self.check_tokens(message)?;
        let body = &message[5..];
        if message[0] == b'N'
            && (self.is_queue_notice(body) || topology.listeners_may_die() && self.is_gap_notice(body))
        {
            return Ok(Wish::Nothing);
        }
        match self.phase {
            Phase::LoggingIn => match message[0] {
                b'R' | b'S' | b'N' => Ok(Wish::Nothing),
                b'K' => {
                    self.key = CancelKey::read(body).ok();
                    if let (Some(key), Some(oracle)) = (&self.key, &mut self.oracle) {
                        oracle.has_process_id(key.process_id);
                    }
                    Ok(Wish::Nothing)
                }
                b'Z' => {
                    self.phase = Phase::Idle;
                    Ok(Wish::Think)
                }
                b'E' => self.refused(topology, body),
                _ => Err(format!("{}: at login came {}", self.label(), backend_to_text(message))),
            },
            _ if self.rubbish => Ok(Wish::Nothing),
            Phase::Refused | Phase::Gone | Phase::Offline => Err(format!(
                "{}: after its end came {}",
                self.label(),
                backend_to_text(message)
            )),
            Phase::Idle | Phase::Busy => self.answer(topology, message),
        }
    }

    fn answer(&mut self, topology: &Topology, message: &[u8]) -> Result<Wish, String> {
        let label = self.label();
        let Some(oracle) = &mut self.oracle else {
            return Err(format!("{label}: has no oracle"));
        };
        let fields = ErrorFields::read(&message[5..]).unwrap_or_default();
        if message[0] == b'E' && fields.is_fatal() {
            // A private server would send this only to a client that breaks the protocol.
            if oracle.compare(message) == Verdict::Right {
                self.phase = Phase::Refused;
                return Ok(Wish::Nothing);
            }
            return self.refused(topology, &message[5..]);
        }
        let verdict = match is_refused_early(message) && topology.queue_target_ms > 0 {
            // The private server has run it.
            true if self.flight.certain => Verdict::CannotDescribe,
            true => oracle.refused(),
            false => oracle.compare(message),
        };
        if let Some(wish) = self.accept(verdict, message)? {
            return Ok(wish);
        }
        if message[0] == b'Z' {
            if self.goes_on {
                return Err(format!("{label}: pg_terminate_backend() returned true, and it goes on"));
            }
            self.ready_seen += 1;
            self.answered += 1;
        }
        if self.phase != Phase::Busy {
            return match message[0] {
                // It seemed to be lost.
                b'A' => Ok(Wish::Nothing),
                _ => Err(format!("{label}: while idle came {}", backend_to_text(message))),
            };
        }
        self.progress(topology)
    }

    /// Handles the verdict on a message; a right one has no consequences.
    fn accept(&mut self, verdict: Verdict, message: &[u8]) -> Result<Option<Wish>, String> {
        match verdict {
            Verdict::Right | Verdict::CancelledWhileWaiting => Ok(None),
            Verdict::CannotDescribe => {
                self.rubbish = true;
                Ok(Some(Wish::Leave))
            }
            Verdict::Wrong(expected) => {
                let expected = expected.map_or("nothing".into(), |e| backend_to_text(&e));
                Err(format!(
                    "{}: expected {expected}\n    got {}\n    flight: {}",
                    self.label(),
                    backend_to_text(message),
                    self.describe_flight()
                ))
            }
        }
    }

    /// What follows after something has been received or sent. The error is a violation.
    pub fn progress(&mut self, topology: &Topology) -> Result<Wish, String> {
        let Some(oracle) = &mut self.oracle else {
            return Ok(Wish::Nothing);
        };
        if self.phase != Phase::Busy || self.unsent_bytes > 0 {
            return Ok(Wish::Nothing);
        }
        if let Some(early) = oracle.next_early() {
            let verdict = oracle.compare_early();
            if let Some(wish) = self.accept(verdict, &early)? {
                return Ok(wish);
            }
        }
        let wish = self.wish_when_sent();
        if wish == Wish::Think {
            self.judge_flight(topology)?;
        }
        Ok(wish)
    }

    fn wish_when_sent(&mut self) -> Wish {
        let Some(oracle) = &self.oracle else {
            return Wish::Nothing;
        };
        let all_sent = self.stage == self.flight.stages.len();
        let answered = if self.flight.certain {
            oracle.is_settled()
        } else {
            self.ready_seen == self.flight.segments.len()
        };
        match (answered, all_sent) {
            (true, true) => {
                self.phase = Phase::Idle;
                Wish::Think
            }
            (true, false) => Wish::NextStage,
            (false, _) => Wish::Nothing,
        }
    }

    fn refused(&mut self, topology: &Topology, body: &[u8]) -> Result<Wish, String> {
        let fields = ErrorFields::read(body).unwrap_or_default();
        let is_ended = self.may_be_ended && fields.sqlstate == b"57P01";
        if !self.rubbish && !is_ended && !allowed_refusal(topology, self, &fields, body) {
            return Err(format!(
                "{}: refused without a reason: {} {}\n    flight: {}",
                self.label(),
                String::from_utf8_lossy(fields.sqlstate),
                String::from_utf8_lossy(fields.message),
                self.describe_flight()
            ));
        }
        self.phase = Phase::Refused;
        Ok(Wish::Nothing)
    }

    /// The notice after the loss of a listener may come at any point, too.
    fn is_gap_notice(&self, body: &[u8]) -> bool {
        ErrorFields::read(body).is_ok_and(|f| f.message == b"notifications may have been lost")
    }

    /// The notice of query_wait_notify may come at any point.
    fn is_queue_notice(&self, body: &[u8]) -> bool {
        ErrorFields::read(body).is_ok_and(|f| f.message.starts_with(b"No server connection available"))
    }

    /// The pooler has closed the connection. The error is a violation.
    pub fn closed(&mut self, topology: &Topology) -> Result<(), String> {
        let phase = std::mem::replace(&mut self.phase, Phase::Offline);
        self.connection = None;
        let is_late = topology.client_limits_s > 0 && self.waited_us > topology.client_limits_s * 1_000_000;
        match phase {
            Phase::Refused | Phase::Gone => Ok(()),
            // In the midst of a message nobody can be told why.
            _ if self.rubbish || self.may_be_ended || topology.servers_may_die() => Ok(()),
            _ if is_late && !self.received.is_empty() => Ok(()),
            phase => Err(format!(
                "{}: closed without a word while {phase:?}\n    flight: {}",
                self.label(),
                self.describe_flight()
            )),
        }
    }
}
