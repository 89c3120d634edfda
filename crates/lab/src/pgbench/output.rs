//! pgbench's output: its progress lines and its summary (PostgreSQL manual, pgbench, "--progress" and the sample
//! output).

use crate::{Error, Result};

/// A progress line.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Live {
    /// Seconds since the start.
    pub seconds: f64,
    /// Transactions per second since the previous line.
    pub tps: f64,
    /// Mean latency since the previous line; `None` if there was no transaction.
    pub latency_ms: Option<f64>,
}

/// The figures of the summary.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Summary {
    /// The transactions that count.
    pub transactions: u64,
    /// Transactions that failed by serialization errors and deadlocks, after retries; 0 before version 15.
    pub failed: u64,
    /// Transactions per second: without the time of the first connections, and with the connecting of `-C`.
    pub tps: f64,
    /// Mean latency.
    pub latency_mean_ms: f64,
    /// Time until all clients were connected; 0 with `-C`.
    pub initial_connection_ms: f64,
    /// With `-C`: mean time of a connection.
    pub connection_ms: Option<f64>,
}

/// `progress: 1.0 s, 12345.6 tps, lat 0.645 ms stddev 0.213, 0 failed`; `lat -nan ms` or `NaN` if there was no
/// transaction.
pub(super) fn progress_of(line: &str) -> Option<Live> {
    let mut fields = line.strip_prefix("progress: ")?.split(", ");
    let seconds = fields.next()?.strip_suffix(" s")?.parse().ok()?;
    let tps = fields.next()?.strip_suffix(" tps")?.parse().ok()?;
    let latency = fields
        .next()
        .and_then(|field| field.strip_prefix("lat ")?.split(' ').next()?.parse::<f64>().ok());
    let latency_ms = latency.filter(|ms| ms.is_finite());
    Some(Live {
        seconds,
        tps,
        latency_ms,
    })
}

/// Reads the summary.
pub(super) fn summary_of(text: &str) -> Result<Summary> {
    let mut summary = Summary::default();
    let mut seen = (false, false);
    for line in text.lines() {
        let number = |prefix: &str| -> Option<f64> {
            let rest = line.strip_prefix(prefix)?;
            rest.split([' ', '/']).next()?.parse().ok()
        };
        if let Some(n) = number("number of transactions actually processed: ") {
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "a count that pgbench prints as one"
            )]
            let n = n as u64;
            summary.transactions = n;
            seen.0 = true;
        } else if let Some(n) = number("number of failed transactions: ") {
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "a count that pgbench prints as one"
            )]
            let n = n as u64;
            summary.failed = n;
        } else if let Some(n) = number("latency average = ") {
            summary.latency_mean_ms = n;
        } else if let Some(n) = number("initial connection time = ") {
            summary.initial_connection_ms = n;
        } else if let Some(n) = number("average connection time = ") {
            summary.connection_ms = Some(n);
        } else if let Some(n) = number("tps = ") {
            // Before version 14 there are two such lines; the second one excludes connecting.
            summary.tps = n;
            seen.1 = true;
        }
    }
    // If no transaction has ended, pgbench prints no more than that.
    if seen == (true, true) || (seen.0 && summary.transactions == 0) {
        Ok(summary)
    } else {
        Err(Error::new(format!(
            "could not read the summary of pgbench: \"{}\"",
            text.trim()
        )))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_lines() {
        let live = progress_of("progress: 2.0 s, 20123.4 tps, lat 0.795 ms stddev 0.213, 0 failed").unwrap();
        assert_eq!((live.seconds, live.tps, live.latency_ms), (2.0, 20123.4, Some(0.795)));
        for nothing in [
            "progress: 1.0 s, 0.0 tps, lat -nan ms stddev -nan",
            "progress: 1.0 s, 0.0 tps, lat NaN ms stddev NaN, 0 failed",
        ] {
            assert_eq!(progress_of(nothing).unwrap().latency_ms, None);
        }
        assert_eq!(progress_of("pgbench: error: x"), None);
    }

    #[test]
    fn the_summary_of_version_15() {
        let text = "pgbench (15.18 (Debian 15.18-1))\ntransaction type: <builtin: TPC-B (sort of)>\nscaling factor: 10\n\
            query mode: prepared\nnumber of clients: 8\nnumber of threads: 2\nmaximum number of tries: 1\nduration: 5 s\n\
            number of transactions actually processed: 12034\nnumber of failed transactions: 3 (0.025%)\n\
            latency average = 3.321 ms\nlatency stddev = 1.2 ms\ninitial connection time = 11.345 ms\n\
            tps = 2408.5 (without initial connection time)\n";
        let summary = summary_of(text).unwrap();
        assert_eq!((summary.transactions, summary.failed), (12034, 3));
        assert_eq!(
            (summary.tps, summary.latency_mean_ms, summary.initial_connection_ms),
            (2408.5, 3.321, 11.345)
        );
        let each = text.replace("initial connection time = 11.345", "average connection time = 2.5");
        assert_eq!(summary_of(&each).unwrap().connection_ms, Some(2.5));
    }

    /// Guards against a complaint about pgbench if all its time was used for connecting.
    #[test]
    fn a_run_without_transactions_has_a_short_summary() {
        let text = "pgbench (15.18)\nduration: 13 s\nnumber of transactions actually processed: 0\n\
            number of failed transactions: 0 (NaN%)\n";
        let summary = summary_of(text).unwrap();
        assert_eq!((summary.transactions, summary.failed, summary.tps), (0, 0, 0.0));
    }

    #[test]
    fn an_aborted_run_has_no_summary() {
        assert!(
            summary_of("pgbench (15.18)\n")
                .unwrap_err()
                .to_string()
                .contains("could not read the summary")
        );
    }
}
