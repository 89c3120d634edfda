//! Percentiles from pgbench's log of single transactions (PostgreSQL manual, pgbench, "Per-Transaction Logging").

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::Path;

/// Latencies of single transactions, or of a sample of them.
#[derive(Debug, Clone, Default)]
pub struct Latencies {
    /// Microseconds, sorted.
    sorted_us: Vec<u64>,
}

impl Latencies {
    /// Reads the logs in a folder.
    pub(super) fn read(folder: &Path) -> io::Result<Self> {
        let mut latencies = Vec::new();
        for entry in std::fs::read_dir(folder)? {
            let lines = BufReader::new(File::open(entry?.path())?).lines();
            for line in lines {
                latencies.extend(latency_us_of(&line?));
            }
        }
        Ok(Latencies::from_us(latencies))
    }

    /// Latencies from these values, in microseconds.
    pub fn from_us(mut latencies: Vec<u64>) -> Self {
        latencies.sort_unstable();
        Latencies { sorted_us: latencies }
    }

    /// The latency that this share (0 to 1) of the transactions did not exceed, milliseconds: the nearest rank.
    pub fn percentile_ms(&self, share: f64) -> Option<f64> {
        let last = self.sorted_us.len().checked_sub(1)?;
        #[expect(clippy::cast_precision_loss, reason = "a sample has fewer than 2^52 members")]
        let rank = (share * self.sorted_us.len() as f64).ceil();
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "between 0 and the length"
        )]
        let at = (rank as usize).saturating_sub(1).min(last);
        #[expect(clippy::cast_precision_loss, reason = "no latency lasts 2^52 microseconds")]
        let ms = self.sorted_us[at] as f64 / 1000.0;
        Some(ms)
    }

    /// The number of latencies.
    pub fn len(&self) -> usize {
        self.sorted_us.len()
    }

    /// Whether there are no latencies.
    pub fn is_empty(&self) -> bool {
        self.sorted_us.is_empty()
    }
}

/// `client_id transaction_no time_us script_no ...`; the time is `failed` or `skipped` for transactions that did not
/// complete.
fn latency_us_of(line: &str) -> Option<u64> {
    line.split(' ').nth(2)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_log() {
        assert_eq!(latency_us_of("0 199 2241 0 1175850568 995598"), Some(2241));
        assert_eq!(latency_us_of("3 0 failed 1 1499414498 84905"), None);
        assert_eq!(latency_us_of(""), None);
    }

    #[test]
    fn percentiles_are_of_the_nearest_rank() {
        let latencies = Latencies::from_us((1..=100).rev().map(|n| n * 1000).collect());
        for (share, ms) in [(0.5, 50.0), (0.95, 95.0), (0.99, 99.0), (1.0, 100.0), (0.0, 1.0)] {
            assert_eq!(latencies.percentile_ms(share), Some(ms));
        }
        assert_eq!(Latencies::default().percentile_ms(0.5), None);
    }
}
