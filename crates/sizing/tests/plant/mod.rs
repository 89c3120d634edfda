//! A closed loop of clients, a queue, and servers whose speed follows a curve: what the controller is tested on.
//!
//! All requests of a kind that are at work progress at the same speed, which depends on how many they are. So each kind
//! has a clock of its own that runs at that speed, and a request ends when its kind's clock has passed its demand.

pub mod auto;
pub mod catalogue;
pub mod curve;
pub mod goal;
pub mod judge;
pub mod random;
pub mod run;

use curve::Curve;

/// What limits the servers at work: the controller, or one of those it is compared with.
pub trait Limiter {
    /// A request has been completed; `waited`: another one stands in the queue.
    fn completed(&mut self, now_us: u64, class: u32, service_us: u64, waited: bool);
    /// Called when the time that the last call returned has come; `connected` servers are connected, `working` work.
    fn tick(&mut self, now_us: u64, connected: u32, working: u32) -> u64;
    /// Servers that may work now.
    fn limit(&self) -> u32;
    /// The server was restarted.
    fn restarted(&mut self, now_us: u64);
}

/// A class of requests.
#[derive(Debug, Clone, Copy)]
pub struct Class {
    /// Index of its kind of work.
    pub kind: usize,
    /// How much of its kind's work one request is, on average.
    pub demand: f64,
    /// What one completion counts.
    pub worth: f64,
}

/// What clients ask for from a moment on.
#[derive(Debug, Clone)]
pub struct Phase {
    /// Second at which it begins.
    pub from: f64,
    /// Clients in the loop.
    pub clients: u32,
    /// The kinds of work.
    pub kinds: Vec<Curve>,
    /// How often each class is asked for.
    pub mix: Vec<f64>,
}

/// What disturbs the servers.
#[derive(Debug, Clone, Copy)]
pub struct Trouble {
    /// Relative deviation of one request's demand.
    pub noise: f64,
    /// Relative deviation of the speed of all servers together, and how long it lasts in seconds.
    pub weather: (f64, f64),
    /// Mean seconds between moments at which all servers stop for 0.2 to 2 seconds; 0 is never.
    pub stalls: f64,
    /// Second at which the server restarts; 0 is never.
    pub restart: f64,
}

/// One plant: a workload on a server.
#[derive(Debug, Clone)]
pub struct Plant {
    /// Its name in tables.
    pub name: &'static str,
    /// The greatest limit allowed.
    pub max: u32,
    /// Seconds to run.
    pub seconds: f64,
    /// Classes of requests.
    pub classes: Vec<Class>,
    /// One after the other, by their beginning.
    pub phases: Vec<Phase>,
    /// What disturbs it.
    pub trouble: Trouble,
    /// The phases after the first begin up to so many seconds later, as the seed has it.
    pub late: f64,
    /// Whether a phase is judged; a phase without a queue is not.
    pub judged: fn(&Phase) -> bool,
    /// The phases are judged together: the best limit is the same in all.
    pub together: bool,
}

impl Plant {
    /// Worth of what is completed in a second with `limit`, without noise.
    pub fn rate(&self, phase: &Phase, limit: u32) -> f64 {
        let servers = f64::from(limit.min(phase.clients).min(self.max));
        let total: f64 = phase.mix.iter().sum();
        let (mut demand, mut worth) = (vec![0.0; phase.kinds.len()], 0.0);
        for (class, part) in self.classes.iter().zip(&phase.mix) {
            demand[class.kind] += class.demand * part / total;
            worth += class.worth * part / total;
        }
        let busy: Vec<usize> = (0..demand.len()).filter(|&k| demand[k] > 0.0).collect();
        if let [kind] = busy[..] {
            return phase.kinds[kind].rate(servers) / demand[kind] * worth;
        }
        // Several kinds: how many servers each has at work follows from chance, so the rate is measured.
        run::fixed_rate(self, phase, servers as u32)
    }

    /// The rate by limit, from 0 to the greatest.
    pub fn rates(&self, phase: &Phase) -> Vec<f64> {
        let clients = phase.clients.min(self.max);
        let mut rates: Vec<f64> = Vec::new();
        // Measured rates have errors of their own, and the greatest of many would be too great: some are measured for long,
        // the others lie between them.
        let spacing = |limit: u32| if phase.kinds.len() > 1 { 1 + limit / 6 } else { 1 };
        let (mut limit, mut rate) = (0, 0.0);
        while limit < clients {
            let next = (limit + spacing(limit)).min(clients);
            let there = self.rate(phase, next);
            let part = |at: u32| f64::from(at - limit) / f64::from(next - limit);
            rates.extend((limit..next).map(|at| rate + (there - rate) * part(at)));
            (limit, rate) = (next, there);
        }
        rates.push(rate);
        rates.resize(self.max as usize + 1, rates[clients as usize]);
        rates
    }

    /// The best rate of all limits, and the smallest limit that gives 99 % of it.
    pub fn best(&self, phase: &Phase) -> (f64, u32) {
        best(&self.rates(phase))
    }
}

/// The best of the rates by limit, and the smallest limit that gives 99 % of it.
fn best(rates: &[f64]) -> (f64, u32) {
    let best = rates.iter().copied().fold(0.0, f64::max);
    let enough = rates.iter().position(|&rate| rate >= 0.99 * best);
    (best, enough.map_or(1, |at| at.max(1) as u32))
}
