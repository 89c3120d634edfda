//! SHOW STATS, SHOW TOTALS and similar tables.

use crate::base::stats::Stats;
use crate::console::rows::{Rows, Value};
use crate::operator::view::View;

/// The names in SHOW TOTALS after their prefix, in the order of [`Stats::values`]. They differ from those of
/// SHOW STATS.
const TOTALS: [&str; Stats::FIELDS] = [
    "server_assignment_count",
    "xact_count",
    "query_count",
    "client_bytes",
    "server_bytes",
    "xact_time",
    "query_time",
    "wait_time",
    "ps_client_parse_count",
    "ps_server_parse_count",
    "ps_bind_count",
    "client_login_count",
];

impl View<'_> {
    pub(super) fn show_stats(&self, rows: &mut Rows<'_>) {
        for (database, total) in self.stats_by_database() {
            let average = self.average_of(&database, &total);
            let numbers = total.values().into_iter().chain(average.values());
            push_numbers(rows, &database, numbers);
        }
    }

    pub(super) fn show_stats_totals(&self, rows: &mut Rows<'_>) {
        for (database, total) in self.stats_by_database() {
            push_numbers(rows, &database, total.values());
        }
    }

    pub(super) fn show_stats_averages(&self, rows: &mut Rows<'_>) {
        for (database, total) in self.stats_by_database() {
            let average = self.average_of(&database, &total);
            push_numbers(rows, &database, average.values());
        }
    }

    pub(super) fn show_totals(&self, rows: &mut Rows<'_>) {
        let total = self.stats_of_all();
        let averages = self.average_of_all();
        for (prefix, stats) in [("total", total), ("avg", averages)] {
            for (name, value) in TOTALS.iter().zip(stats.values()) {
                rows.push(&[format!("{prefix}_{name}").into(), value.into()]);
            }
        }
    }
}

fn push_numbers(rows: &mut Rows<'_>, database: &str, numbers: impl IntoIterator<Item = u64>) {
    let row: Vec<Value<'_>> = [database.into()]
        .into_iter()
        .chain(numbers.into_iter().map(Value::from))
        .collect();
    rows.push(&row);
}
