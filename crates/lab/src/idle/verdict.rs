//! What the figures mean, in words. Pure: figures in, sentences out.

use super::workload::Row;
use crate::report::Unit;
use pgweir_maths::number_words;
use pgweir_maths::{Ratio, Spread, Told, paired};

/// Memory of the machine that idle connections may take without being blamed for it, as a share.
const MEMORY_SHARE_SMALL: f64 = 0.02;

/// Throughput of one load, alone and beside idle connections, one value for each round.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Pair {
    pub(super) row: Row,
    pub(super) alone: Vec<f64>,
    pub(super) with_idle: Vec<f64>,
}

impl Pair {
    /// Throughput beside idle connections as a multiple of that alone.
    pub(super) fn change(&self) -> Option<Ratio> {
        paired(&self.alone, &self.with_idle)
    }

    /// `scan 0.55, between 0.53 and 0.56 times (379 to 206 TPS)`
    fn words(&self, change: &Ratio) -> String {
        let tps = |values: &[f64]| Spread::of(values).map_or_else(String::new, |s| Unit::Number.show(s.middle));
        format!(
            "{} {} ({} to {} TPS)",
            self.row.word(),
            change.times(" times"),
            tps(&self.alone),
            tps(&self.with_idle)
        )
    }
}

/// The largest loss that is beyond the noise.
pub(super) fn worst(pairs: &[Pair]) -> Option<(&Pair, Ratio)> {
    let changes = pairs.iter().filter_map(|pair| Some((pair, pair.change()?)));
    let losses = changes.filter(|(_, change)| change.differs() && change.ratio < 1.0);
    losses.min_by(|a, b| a.1.ratio.total_cmp(&b.1.ratio))
}

/// What idle connections did to the throughput, in a sentence for each thing that can be told. `who`: `direct clients`,
/// `clients of pgweir`.
pub(super) fn throughput(idle: usize, who: &str, pairs: &[Pair]) -> String {
    let idle = number_words(idle as f64);
    let of = |told: Told| {
        let changes = pairs.iter().filter_map(|pair| Some((pair, pair.change()?)));
        let words = changes
            .filter(move |(_, c)| c.told() == told)
            .map(|(pair, c)| pair.words(&c));
        words.collect::<Vec<_>>().join("; ")
    };
    let parts = [
        (
            of(Told::Differs),
            format!("Beside {idle} idle connections the throughput of {who} changed"),
        ),
        (
            of(Told::Alike),
            format!("{idle} idle connections made no difference beyond the noise for {who}"),
        ),
        (
            of(Told::TooFewRounds),
            format!("The rounds are too few to tell what {idle} idle connections change for {who}"),
        ),
    ];
    let told = parts.into_iter().filter(|(words, _)| !words.is_empty());
    let sentences: Vec<String> = told.map(|(words, what)| format!("{what}: {words}.")).collect();
    sentences.join(" ")
}

/// What is known of memory for the sentence about it.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct MemoryFigures {
    pub(super) idle: usize,
    /// Of a backend, page tables included, and how many of them.
    pub(super) backend_bytes: f64,
    pub(super) backends: usize,
    /// Taken by the pooler for the idle clients.
    pub(super) pooler_bytes: Option<f64>,
}

impl MemoryFigures {
    pub(super) fn total_bytes(&self) -> f64 {
        self.backend_bytes * self.backends as f64 + self.pooler_bytes.unwrap_or(0.0)
    }
}

/// What the idle connections took, direct and through pgweir.
pub(super) fn memory(direct: Option<&MemoryFigures>, pooled: Option<&MemoryFigures>) -> Option<String> {
    let bytes = |value: f64| Unit::Bytes.show(value);
    let direct = direct.map(|m| {
        format!(
            "Each idle connection held a server process of {}: {} of them {}.",
            bytes(m.backend_bytes),
            number_words(m.backends as f64),
            bytes(m.total_bytes())
        )
    });
    let pooled = pooled.map(|m| {
        let pooler = m.pooler_bytes.map(|b| {
            let each = b / m.idle.max(1) as f64;
            format!(", and {} in pgweir itself, {} for each client", bytes(b), bytes(each))
        });
        format!(
            "Through pgweir the same {} clients had {} server processes, {}{}.",
            number_words(m.idle as f64),
            number_words(m.backends as f64),
            bytes(m.backend_bytes * m.backends as f64),
            pooler.unwrap_or_default()
        )
    });
    let sentences: Vec<String> = direct.into_iter().chain(pooled).collect();
    (!sentences.is_empty()).then(|| sentences.join(" "))
}

/// What the machine had left.
pub(super) fn available(before_bytes: f64, open_bytes: f64, total_bytes: f64, cache_change_bytes: f64) -> String {
    let bytes = |value: f64| Unit::Bytes.show(value);
    let available = format!(
        "The memory available on this machine went from {} to {} when they were opened",
        bytes(before_bytes),
        bytes(open_bytes)
    );
    match cache_change_bytes < -total_bytes * MEMORY_SHARE_SMALL {
        true => format!(
            "{available}, and the page cache lost {}: what it held has to be read from disk again.",
            bytes(-cache_change_bytes)
        ),
        false => format!("{available}; the page cache lost nothing by it."),
    }
}

/// What to do.
pub(super) fn advice(direct: &[Pair], pooled: &[Pair], share_of_memory: Option<f64>) -> Option<String> {
    let costs_throughput = worst(direct).is_some();
    let costs_memory = share_of_memory.is_some_and(|share| share > MEMORY_SHARE_SMALL);
    if pooled.is_empty() || worst(pooled).is_some() || !(costs_throughput || costs_memory) {
        return None;
    }
    let what = match (costs_throughput, costs_memory) {
        (true, true) => "throughput and memory",
        (true, false) => "throughput",
        _ => "memory",
    };
    Some(format!(
        "Idle connections cost this server {what}; have applications keep theirs at a pooler in transaction mode, where an \
         idle client holds no server."
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(row: Row, alone: f64, with_idle: f64) -> Pair {
        // A noise of half a percent that the two do not share.
        Pair {
            row,
            alone: [0.997, 1.0, 1.003].map(|round| alone * round).to_vec(),
            with_idle: [1.0, 0.997, 1.003].map(|round| with_idle * round).to_vec(),
        }
    }

    /// The figures of the article that the measurement reproduces: 1,000 idle connections on two processors.
    #[test]
    fn the_articles_figures() {
        let direct = [
            pair(Row::Standard, 1249.0, 1140.0),
            pair(Row::Select, 1969.0, 1610.0),
            pair(Row::Scan, 378.6, 206.4),
        ];
        assert_eq!(
            throughput(1000, "direct clients", &direct),
            "Beside 1,000 idle connections the throughput of direct clients changed: standard 0.91 times, between 0.91 and 0.92 \
             (1,249 to 1,140 TPS); select 0.82 times, between 0.81 and 0.82 (1,969 to 1,610 TPS); scan 0.55 times, between \
             0.54 and 0.55 (379 to 206 TPS)."
        );
        let pooled = [pair(Row::Scan, 377.9, 377.5)];
        assert_eq!(
            throughput(1000, "clients of pgweir", &pooled),
            "1,000 idle connections made no difference beyond the noise for clients of pgweir: scan 1.00 times, between 0.99 and \
             1.01 (378 to 377 TPS)."
        );
        let (row, ratio) = worst(&direct).unwrap();
        assert_eq!((row.row, (ratio.ratio * 100.0).round()), (Row::Scan, 55.0));
        assert_eq!(worst(&pooled), None);
        let advice = advice(&direct, &pooled, Some(0.6)).unwrap();
        assert!(
            advice.starts_with("Idle connections cost this server throughput and memory; "),
            "{advice}"
        );
    }

    #[test]
    fn one_round_proves_nothing() {
        let once = Pair {
            row: Row::Scan,
            alone: vec![100.0],
            with_idle: vec![50.0],
        };
        assert_eq!(
            throughput(10, "direct clients", std::slice::from_ref(&once)),
            "The rounds are too few to tell what 10 idle connections change for direct clients: scan 0.50 times (100 to 50 \
             TPS)."
        );
        assert_eq!(advice(&[once], &[pair(Row::Scan, 1.0, 1.0)], None), None);
    }

    #[test]
    fn where_pooling_costs_too_it_is_not_advised() {
        let loses = [pair(Row::Scan, 100.0, 50.0)];
        assert_eq!(advice(&loses, &loses, Some(0.5)), None);
        assert_eq!(advice(&loses, &[], Some(0.5)), None);
    }

    #[test]
    fn memory_in_words() {
        let mb = 1024.0 * 1024.0;
        let direct = MemoryFigures {
            idle: 1000,
            backend_bytes: 4.8 * mb,
            backends: 1000,
            pooler_bytes: None,
        };
        let pooled = MemoryFigures {
            backends: 20,
            pooler_bytes: Some(3.0 * mb),
            ..direct
        };
        assert_eq!(
            memory(Some(&direct), Some(&pooled)).unwrap(),
            "Each idle connection held a server process of 4.80 MB: 1,000 of them 4.69 GB. Through pgweir the same 1,000 \
             clients had 20 server processes, 96 MB, and 3 MB in pgweir itself, 3.07 kB for each client."
        );
        assert_eq!(memory(None, None), None);
        assert!(available(4.88e9, 90e6, 8e9, -3e9).contains("the page cache lost 2.79 GB"));
        assert!(available(4.88e9, 4.0e9, 8e9, 1e6).ends_with("; the page cache lost nothing by it."));
    }
}
