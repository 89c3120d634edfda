//! Counters of what keeping sessions costs: SHOW STATE_STATS.

use crate::base::pin_reason::PinReason;

/// Counts since the start of the process.
#[derive(Debug, Clone, Default, pgweir_freeze::Freeze)]
pub(crate) struct StateStats {
    /// Links to servers whose last client was another one.
    pub(crate) server_changes: u64,
    /// Segments of restored settings.
    pub(crate) restorations: u64,
    /// Settings sent in them.
    pub(crate) settings_sent: u64,
    /// Restorations that a server refused.
    pub(crate) refused: u64,
    /// Probes.
    pub(crate) probes: u64,
    /// Clients unpinned by a probe.
    pub(crate) unpinned: u64,
    /// Internal Parse messages for clients' statements.
    pub(crate) parses_injected: u64,
    /// Plans of clients' statements that were checked before a use, because they could have been too old.
    pub(crate) plan_checks: u64,
    /// Statements that a server had to prepare again, because its plan was too old or could have been.
    pub(crate) re_prepares: u64,
    /// Uses that waited for a check and got a new plan; the old one would have been refused.
    pub(crate) retries: u64,
    /// Settings that were set to a client's startup values again behind a RESET.
    pub(crate) returns_to_startup: u64,
    /// Servers cleaned with DISCARD ALL after a pinned client had left.
    pub(crate) discards: u64,
    /// Servers cleaned with RESET ALL after they had run code that is not read.
    pub(crate) resets: u64,
    /// DISCARD PLANS on servers whose functions may have kept plans that were made under other settings.
    pub(crate) plans_discarded: u64,
    /// Servers replaced by new ones, because a client would have noticed the schema that other clients' temporary
    /// objects left.
    pub(crate) servers_replaced: u64,
    /// How often a client's channels have moved to a listener connection.
    pub(crate) listens_moved: u64,
    /// Notifications from listener connections, counted once for each client that got them.
    pub(crate) notifications: u64,
    /// Readings of catalogs.
    pub(crate) catalog_reads: u64,
    /// Definitions that waited because earlier ones had cost other clients too much.
    pub(crate) definitions_delayed: u64,
    /// Statements that mentioned a name known from a catalog.
    pub(crate) mentions: u64,
    /// Flights sent to a server behind those of other clients.
    pub(crate) flights_shared: u64,
    /// Flights that were run again: their server was lost before they began, or a cancel of another client's hit them.
    pub(crate) flights_run_again: u64,
    /// Flights that took long although their class was known to be short, with others behind them.
    pub(crate) flights_late: u64,
    /// Clients that waited and were refused because of queue_target.
    pub(crate) refused_early: u64,
    /// Pins by reason, in the order of [`PinReason::ALL`].
    pub(crate) pins: [u64; PinReason::ALL.len()],
}

impl StateStats {
    pub(crate) fn pinned(&mut self, reason: PinReason) {
        self.pins[reason as usize] += 1;
    }

    /// Names and values, in the order of SHOW STATE_STATS.
    pub(crate) fn rows(&self) -> Vec<(String, u64)> {
        let mut rows: Vec<(String, u64)> = [
            ("server_changes", self.server_changes),
            ("restorations", self.restorations),
            ("settings_sent", self.settings_sent),
            ("restorations_refused", self.refused),
            ("probes", self.probes),
            ("unpinned", self.unpinned),
            ("parses_injected", self.parses_injected),
            ("plan_checks", self.plan_checks),
            ("re_prepares", self.re_prepares),
            ("retries", self.retries),
            ("returns_to_startup", self.returns_to_startup),
            ("discards", self.discards),
            ("resets", self.resets),
            ("plans_discarded", self.plans_discarded),
            ("servers_replaced", self.servers_replaced),
            ("listens_moved", self.listens_moved),
            ("notifications", self.notifications),
            ("catalog_reads", self.catalog_reads),
            ("definitions_delayed", self.definitions_delayed),
            ("mentions", self.mentions),
            ("flights_shared", self.flights_shared),
            ("flights_run_again", self.flights_run_again),
            ("flights_late", self.flights_late),
            ("refused_early", self.refused_early),
        ]
        .map(|(name, count)| (name.to_string(), count))
        .into();
        let pins = PinReason::ALL.into_iter().zip(self.pins);
        rows.extend(pins.map(|(reason, count)| (format!("pins: {}", reason.words()), count)));
        rows
    }
}
