//! What the figures mean, in words. Pure: figures in, sentences out.

use super::workload::Row;
use crate::maths::{Difference, compare, mean};
use crate::progress::number_words;
use crate::report::Unit;

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
    pub(super) fn change(&self) -> Option<Difference> {
        compare(&self.alone, &self.with_idle)
    }

    /// `scan -45.5 % (379 to 206 TPS)`
    fn words(&self, change: &Difference) -> String {
        let tps = |values: &[f64]| Unit::Number.show(mean(values).unwrap_or(f64::NAN));
        format!(
            "{} {:+.1} % ({} to {} TPS)",
            self.row.word(),
            change.percent(),
            tps(&self.alone),
            tps(&self.with_idle)
        )
    }
}

/// The largest loss that is beyond the noise.
pub(super) fn worst(pairs: &[Pair]) -> Option<(&Pair, f64)> {
    let losses = pairs.iter().filter_map(|pair| {
        let change = pair.change()?;
        (change.is_real() && change.percent() < 0.0).then(|| (pair, change.percent()))
    });
    losses.min_by(|a, b| a.1.total_cmp(&b.1))
}

/// What idle connections did to the throughput, in one or two sentences. `who`: `direct clients`, `clients of pgweir`.
pub(super) fn throughput(idle: usize, who: &str, pairs: &[Pair]) -> String {
    let idle = number_words(idle as f64);
    let (mut changed, mut same, mut unknown) = (Vec::new(), Vec::new(), Vec::new());
    for pair in pairs {
        match pair.change() {
            Some(change @ Difference::Real { .. }) => changed.push(pair.words(&change)),
            Some(Difference::WithinNoise { .. }) => same.push(pair.row.word()),
            Some(change @ Difference::Unknown { .. }) => unknown.push(pair.words(&change)),
            None => {}
        }
    }
    let mut sentences = Vec::new();
    if !changed.is_empty() {
        sentences.push(format!(
            "{idle} idle connections changed the throughput of {who}: {}.",
            changed.join(", ")
        ));
    }
    if !same.is_empty() {
        let which = if changed.is_empty() {
            format!("{idle} idle connections made no")
        } else {
            "No".to_owned()
        };
        let (of, rows) = if changed.is_empty() {
            (format!(" for {who}"), "")
        } else {
            (String::new(), " rows")
        };
        let rows = if same.len() == pairs.len() {
            String::new()
        } else {
            format!(", {}{rows}", same.join(" and "))
        };
        sentences.push(format!("{which} difference beyond the noise{of}{rows}."));
    }
    if !unknown.is_empty() {
        sentences.push(format!(
            "Beside {idle} idle connections the throughput of {who} went from one to the other: {}; with one round nothing \
             is known of the noise.",
            unknown.join(", ")
        ));
    }
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
        let rounds = |tps: f64| vec![tps * 0.995, tps, tps * 1.005];
        Pair {
            row,
            alone: rounds(alone),
            with_idle: rounds(with_idle),
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
            "1,000 idle connections changed the throughput of direct clients: standard -8.7 % (1,249 to 1,140 TPS), \
             select -18.2 % (1,969 to 1,610 TPS), scan -45.5 % (379 to 206 TPS)."
        );
        let pooled = [pair(Row::Scan, 377.9, 377.5)];
        assert_eq!(
            throughput(1000, "clients of pgweir", &pooled),
            "1,000 idle connections made no difference beyond the noise for clients of pgweir."
        );
        let (row, percent) = worst(&direct).unwrap();
        assert_eq!((row.row, percent.round()), (Row::Scan, -45.0));
        assert_eq!(worst(&pooled), None);
        let advice = advice(&direct, &pooled, Some(0.6)).unwrap();
        assert!(
            advice.starts_with("Idle connections cost this server throughput and memory; "),
            "{advice}"
        );
    }

    #[test]
    fn rows_that_changed_and_rows_that_did_not() {
        let text = throughput(
            100,
            "direct clients",
            &[pair(Row::Standard, 100.0, 100.1), pair(Row::Scan, 100.0, 50.0)],
        );
        assert_eq!(
            text,
            "100 idle connections changed the throughput of direct clients: scan -50.0 % (100 to 50 TPS). \
             No difference beyond the noise, standard rows."
        );
    }

    #[test]
    fn one_round_proves_nothing() {
        let once = Pair {
            row: Row::Scan,
            alone: vec![100.0],
            with_idle: vec![50.0],
        };
        let text = throughput(10, "direct clients", std::slice::from_ref(&once));
        assert!(
            text.ends_with("scan -50.0 % (100 to 50 TPS); with one round nothing is known of the noise."),
            "{text}"
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
