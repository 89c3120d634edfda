//! The page's charts: what the connections do, and where the memory would go.

use super::facts::Facts;
use super::memory;
use crate::report::{Axis, StackedBars, Unit};

/// What each of the connections allowed is doing.
pub(super) fn connections(facts: &Facts) -> StackedBars {
    let sessions = &facts.sessions;
    let known = sessions.idle + sessions.idle_in_transaction + sessions.hidden;
    let allowed = facts.settings.memory.max_connections;
    let layer = |count: u32| [f64::from(count)];
    StackedBars::new(
        "Connections",
        Axis::linear("connections", Unit::Number),
        [format!("max_connections = {allowed}")],
    )
    .layer("at work", layer(sessions.total.saturating_sub(known)))
    .layer("idle in transaction", layer(sessions.idle_in_transaction))
    .layer("idle", layer(sessions.idle))
    .layer("not to be seen", layer(sessions.hidden))
    .layer("free", layer(allowed.saturating_sub(sessions.total)))
}

/// The worst case that the settings allow beside what the machine has; none where that is not known.
pub(super) fn memory(facts: &Facts) -> Option<StackedBars> {
    let (budget, ram_bytes) = memory::budget_of(facts)?;
    let chart = StackedBars::new(
        "Memory",
        Axis::linear("memory", Unit::Bytes),
        ["worst case of the settings", "the machine"],
    );
    let chart = [
        ("connections", budget.connections_bytes),
        ("shared memory", budget.shared_bytes),
        ("the rest of the machine", budget.rest_bytes),
    ]
    .into_iter()
    .fold(chart, |chart, (name, bytes)| chart.layer(name, [bytes as f64, 0.0]));
    Some(chart.layer("there is", [0.0, ram_bytes as f64]))
}
