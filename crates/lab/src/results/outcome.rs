//! The shape of `result.json`, the same for every measurement.

use crate::machine::Machine;
use pgweir_maths::Spread;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Version of the shape; grows when something that programs read changes its meaning.
pub const SCHEMA: u32 = 1;

/// What a run measured, under which circumstances.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// [`SCHEMA`] of the program that wrote it.
    pub schema: u32,
    /// The measurement, such as `connections`.
    pub command: String,
    /// The command line after the program's name, without passwords.
    pub arguments: Vec<String>,
    /// `pgweir 0.1.0`
    pub program: String,
    /// Local time with its offset from UTC, as RFC 3339 has it.
    pub started: String,
    /// How long it took.
    pub seconds: f64,
    /// Where the lab ran.
    pub machine: Machine,
    /// What was measured.
    pub server: ServerTold,
    /// `pgbench (PostgreSQL) 15.18`; empty where no load was made.
    pub pgbench: String,
    /// The load in words.
    pub workload: String,
    /// How often each case was measured.
    pub rounds: u32,
    /// Seconds of each run.
    pub seconds_per_run: u32,
    /// The figures.
    pub cases: Vec<Case>,
    /// What they mean, a sentence each, the most important first.
    pub conclusions: Vec<String>,
    /// Settings to be pasted.
    pub paste: Vec<Paste>,
    /// What was left out, with the reason.
    pub left_out: Vec<String>,
    /// What only this measurement has, by names of its own.
    pub details: BTreeMap<String, serde_json::Value>,
}

/// What the server told about itself.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ServerTold {
    /// As it writes it, such as `15.18 (Debian 15.18-1)`.
    pub version: String,
    /// Where it was reached.
    pub place: String,
    /// Whether it was made for this run.
    pub throwaway: bool,
    /// Whether it is on the machine that the lab ran on.
    pub local: bool,
    /// Settings, as `SHOW` writes them.
    pub settings: BTreeMap<String, String>,
}

/// One thing measured, in all its rounds.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Case {
    /// Names it among the cases of every run of this measurement, such as `direct, 8 clients`.
    pub name: String,
    /// `direct` or `pgweir`.
    pub path: String,
    /// Concurrent clients; 0 where that does not apply.
    pub clients: u32,
    /// Servers of the pool, through pgweir.
    pub pool_size: Option<u32>,
    /// What was run, for a shell; empty where the lab itself measured.
    pub command: String,
    /// Figures by name, the unit last in it (`latency_p95_ms`), one value for each round, in order. `tps`: transactions
    /// per second.
    pub metrics: BTreeMap<String, Vec<f64>>,
    /// Why there are no figures, or fewer than rounds.
    pub failure: Option<String>,
}

/// Lines for a configuration file.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Paste {
    /// Such as `postgresql.conf`.
    pub file: String,
    /// The lines.
    pub text: String,
}

impl Case {
    /// A case without figures yet.
    pub fn new(name: impl Into<String>, path: &str, clients: u32, pool_size: Option<u32>) -> Self {
        Case {
            name: name.into(),
            path: path.to_owned(),
            clients,
            pool_size,
            ..Case::default()
        }
    }

    /// Adds the value of a round.
    pub fn add(&mut self, metric: &str, value: f64) {
        self.metrics.entry(metric.to_owned()).or_default().push(value);
    }

    /// The values of a metric, one for each round; empty where it was not measured.
    pub fn values(&self, metric: &str) -> &[f64] {
        self.metrics.get(metric).map_or(&[], Vec::as_slice)
    }

    /// Median and spread of a metric; `None` where it was not measured.
    pub fn spread(&self, metric: &str) -> Option<Spread> {
        Spread::of(self.values(metric))
    }
}
