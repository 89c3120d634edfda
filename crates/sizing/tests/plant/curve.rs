//! Throughput as a function of the servers at work.

/// Completions per second of a kind of work, by the number of servers that do it.
#[derive(Debug, Clone, Copy)]
pub enum Curve {
    /// The Universal Scalability Law: throughput of one server, contention, coherency.
    Usl {
        /// Completions per second of one server alone.
        alone: f64,
        /// Share of the work that queues.
        contention: f64,
        /// Cost of each pair of servers.
        coherency: f64,
    },
    /// Measured points (servers, completions per second), between them straight in the logarithm of the servers.
    Table(&'static [(f64, f64)]),
    /// Each request takes the same time, however many there are.
    Wait {
        /// Seconds of one request.
        seconds: f64,
    },
}

impl Curve {
    /// CPU-bound work of `each` seconds on a machine with `cores`: the peak lies at half as many servers again.
    pub fn cores(cores: f64, each: f64) -> Curve {
        let peak = if cores <= 2.0 { 2.0 } else { 1.5 * cores };
        let contention = 0.02;
        Curve::Usl {
            alone: 1.0 / each,
            contention,
            coherency: (1.0 - contention) / (peak * peak),
        }
    }

    /// Completions per second with `servers` at work.
    pub fn rate(&self, servers: f64) -> f64 {
        if servers <= 0.0 {
            return 0.0;
        }
        match self {
            Curve::Usl {
                alone,
                contention,
                coherency,
            } => alone * servers / (1.0 + contention * (servers - 1.0) + coherency * servers * (servers - 1.0)),
            Curve::Wait { seconds } => servers / seconds,
            Curve::Table(points) => table(points, servers),
        }
    }
}

fn table(points: &[(f64, f64)], servers: f64) -> f64 {
    let (first, last) = (points[0], points[points.len() - 1]);
    if servers <= first.0 {
        return first.1 * servers / first.0;
    }
    if servers >= last.0 {
        return last.1;
    }
    let at = points.iter().position(|p| p.0 >= servers).unwrap_or(points.len() - 1);
    let (a, b) = (points[at - 1], points[at]);
    let part = (servers / a.0).ln() / (b.0 / a.0).ln();
    a.1 + (b.1 - a.1) * part
}
