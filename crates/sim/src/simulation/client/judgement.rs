//! Whether servers ran a client's statements under its settings, and not more often than it has asked for.

use super::{Client, Phase};
use crate::model::audit::Ran;
use crate::simulation::oracle::Oracle;
use crate::simulation::topology::Topology;
use std::collections::BTreeMap;

/// How often servers have run each statement of a flight, by token. A run that a cancel has ended does not count.
#[derive(Debug, Default)]
pub(super) struct Runs(BTreeMap<String, i64>);

impl Runs {
    fn count(&mut self, token: &str, runs: i64) {
        *self.0.entry(token.to_string()).or_default() += runs;
    }

    /// The error, if a statement ran more often than on the private server.
    fn judge(&self, oracle: &Oracle) -> Option<String> {
        self.0.iter().find_map(|(token, &runs)| {
            let wanted = oracle.runs(token)?;
            (runs > wanted).then(|| format!("{token} ran {runs} times, and its client has asked for {wanted}"))
        })
    }
}

/// What is kept of a client that has left in the midst of a flight.
#[derive(Debug)]
pub struct Retired {
    oracle: Oracle,
    reported: bool,
    runs: Runs,
}

impl Retired {
    /// The error, if a server ran this statement of the client's under wrong settings, or once too often.
    pub fn judge(&mut self, ran: &Ran) -> Option<String> {
        self.runs.count(&ran.token, 1);
        let wrong = self.oracle.judge(ran, self.reported);
        wrong.or_else(|| self.runs.judge(&self.oracle))
    }

    /// A cancel has ended a statement of the client's.
    pub fn is_undone(&mut self, token: &str) {
        self.runs.count(token, -1);
    }
}

impl Client {
    /// A server has run a statement of this session.
    pub fn has_run(&mut self, ran: Ran) {
        self.runs.count(&ran.token, 1);
        self.ran.push(ran);
    }

    /// A cancel has ended a statement of this session.
    pub fn is_undone(&mut self, token: &str) {
        self.runs.count(token, -1);
    }

    /// Nothing has been run of the present flight.
    pub(super) fn forget_runs(&mut self) {
        self.ran.clear();
        self.runs = Runs::default();
    }

    /// Whether a statement of the flight changes a setting and takes long.
    pub fn sets_and_sleeps(&self) -> bool {
        let bytes = self.flight.stages.concat();
        let contains = |words: &[u8]| bytes.windows(words.len()).any(|bytes| bytes == words);
        contains(b"set ") && contains(b"'; select pg_sleep(")
    }

    /// Checks everything that servers have run of a flight that is over.
    pub(super) fn judge_flight(&mut self, topology: &Topology) -> Result<(), String> {
        let ran = std::mem::take(&mut self.ran);
        let Some(oracle) = self.oracle.as_ref().filter(|_| !self.rubbish) else {
            return Ok(());
        };
        let wrong = ran.iter().find_map(|ran| oracle.judge(ran, !topology.keeps_sessions));
        match wrong.or_else(|| self.runs.judge(oracle)) {
            Some(wrong) => Err(format!(
                "{}: {wrong}\n    flight: {}",
                self.label(),
                self.describe_flight()
            )),
            None => Ok(()),
        }
    }

    /// The segments of the present flight that the client has not sent completely, if the last `lost` bytes that it has
    /// sent do not arrive.
    pub fn incomplete(&self, lost: usize) -> Option<Vec<u8>> {
        if self.rubbish || self.hostile || self.flight.certain {
            return None;
        }
        let begun: usize = self.flight.stages[..self.stage].iter().map(Vec::len).sum();
        let arrives = begun.checked_sub(self.unsent_bytes + lost)?;
        let mut complete = 0;
        for segment in &self.flight.segments {
            if complete + segment > arrives {
                break;
            }
            complete += segment;
        }
        Some(self.flight.stages.concat().split_off(complete))
    }

    /// The client leaves. What its servers have run is checked. Returns what is needed to check the rest of its flight,
    /// if the settings for that are certain.
    pub fn retire(&mut self, topology: &Topology) -> Result<Option<Retired>, String> {
        // With queue_target any of its requests may have been refused; those behind it run without it, as behind any
        // error. Whether a server refuses a reserved name depends on what it has loaded.
        let tells_sets = topology.queue_target_ms == 0 && !topology.reserved_names && self.sets_and_sleeps();
        let tells_settings = self.leaves_settings || self.begins_idle && tells_sets;
        let is_certain = tells_settings && !self.rubbish && self.phase == Phase::Busy;
        let Some(mut oracle) = self.oracle.take().filter(|oracle| is_certain && !oracle.cancelled) else {
            self.forget_runs();
            return Ok(None);
        };
        oracle.feed_all();
        self.oracle = Some(oracle);
        self.judge_flight(topology)?;
        Ok(self.oracle.take().map(|oracle| Retired {
            oracle,
            reported: !topology.keeps_sessions,
            runs: std::mem::take(&mut self.runs),
        }))
    }
}
