//! The sizes of memory that pgweir recommends, from stated inputs: see `sizing` for the others.
//!
//! | size | follows from |
//! |---|---|
//! | `shared_buffers` | a share of the machine's memory to start from, and the most that it should take |
//! | `work_mem`, `maintenance_work_mem`, `temp_buffers` | what the worst case leaves for each connection |

use super::budget::{Budget, MemorySettings};
use std::cmp::Reverse;

/// Where shared_buffers starts, as a share of the machine's memory (the manual, "Resource Consumption"), and the most that
/// it should take: what is above is missed by the page cache, which absorbs writes and puts them in order.
const START_SHARE: f64 = 0.25;
const MOST_SHARE: f64 = 0.4;

/// Both on a managed service whose storage has no page cache below.
const SHARE_WITHOUT_PAGE_CACHE: f64 = 0.75;

/// shared_buffers to start from, bytes.
pub fn shared_buffers_start(ram_bytes: u64, without_page_cache: bool) -> u64 {
    share_of(ram_bytes, without_page_cache, START_SHARE)
}

/// The most that shared_buffers should take, bytes.
pub fn shared_buffers_most(ram_bytes: u64, without_page_cache: bool) -> u64 {
    share_of(ram_bytes, without_page_cache, MOST_SHARE)
}

fn share_of(ram_bytes: u64, without_page_cache: bool, share: f64) -> u64 {
    let share = match without_page_cache {
        true => SHARE_WITHOUT_PAGE_CACHE,
        false => share,
    };
    round_up_bytes((ram_bytes as f64 * share) as u64)
}

/// To a multiple of 128 MB below 1 GB, of 256 MB below 8 GB, of 1 GB above.
pub fn round_up_bytes(bytes: u64) -> u64 {
    const GIB: u64 = 1 << 30;
    let step = match bytes {
        b if b < GIB => GIB / 8,
        b if b < 8 * GIB => GIB / 4,
        _ => GIB,
    };
    bytes.div_ceil(step) * step
}

/// What each connection may take, by one setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionMemory {
    /// work_mem: sorts and hashes.
    Work,
    /// maintenance_work_mem: VACUUM, CREATE INDEX.
    Maintenance,
    /// temp_buffers: temporary tables.
    Temporary,
}

impl SessionMemory {
    /// All of them.
    pub const ALL: [SessionMemory; 3] = [
        SessionMemory::Work,
        SessionMemory::Maintenance,
        SessionMemory::Temporary,
    ];

    /// The setting's name.
    pub fn name(self) -> &'static str {
        match self {
            SessionMemory::Work => "work_mem",
            SessionMemory::Maintenance => "maintenance_work_mem",
            SessionMemory::Temporary => "temp_buffers",
        }
    }

    /// PostgreSQL's default, and the least that is recommended.
    pub fn default_bytes(self) -> u64 {
        match self {
            SessionMemory::Work => 4 << 20,
            SessionMemory::Maintenance => 64 << 20,
            SessionMemory::Temporary => 8 << 20,
        }
    }

    /// Its value.
    pub fn of(self, settings: &MemorySettings) -> u64 {
        match self {
            SessionMemory::Work => settings.work_mem_bytes,
            SessionMemory::Maintenance => settings.maintenance_work_mem_bytes,
            SessionMemory::Temporary => settings.temp_buffers_bytes,
        }
    }

    /// The settings with another value of it.
    #[must_use]
    pub fn set(self, settings: MemorySettings, bytes: u64) -> MemorySettings {
        let mut settings = settings;
        *match self {
            SessionMemory::Work => &mut settings.work_mem_bytes,
            SessionMemory::Maintenance => &mut settings.maintenance_work_mem_bytes,
            SessionMemory::Temporary => &mut settings.temp_buffers_bytes,
        } = bytes;
        settings
    }

    fn above_default(self, settings: &MemorySettings) -> u64 {
        self.of(settings).saturating_sub(self.default_bytes())
    }
}

/// Whether each connection may take no more than with PostgreSQL's defaults.
pub fn has_default_session_memory(settings: &MemorySettings) -> bool {
    SessionMemory::ALL
        .iter()
        .all(|memory| memory.above_default(settings) == 0)
}

/// For how many connections the memory is enough in the worst case, if each may take no more than with PostgreSQL's defaults.
pub fn connections_that_fit(settings: &MemorySettings, ram_bytes: u64) -> u32 {
    let modest = SessionMemory::ALL.iter().fold(*settings, |settings, memory| {
        memory.set(settings, memory.of(&settings).min(memory.default_bytes()))
    });
    u32::try_from(Budget::of(&modest).connections_that_fit(ram_bytes)).unwrap_or(u32::MAX)
}

/// What each connection may take so that the worst case fits into the memory: the settings to lower, to whole megabytes and
/// to PostgreSQL's default at least. The one that is farthest above its default comes first, because it is the cause.
pub fn session_memory_that_fits(settings: &MemorySettings, ram_bytes: u64) -> Vec<(SessionMemory, u64)> {
    let mut settings = *settings;
    let mut by_cause = SessionMemory::ALL;
    by_cause.sort_by_key(|memory| Reverse(memory.above_default(&settings)));
    let mut lowered = Vec::new();
    for memory in by_cause {
        let without = Budget::of(&memory.set(settings, 0)).total_bytes;
        let left = ram_bytes.saturating_sub(without) / u64::from(settings.max_connections.max(1));
        let fits = (left >> 20 << 20).max(memory.default_bytes());
        if fits < memory.of(&settings) {
            settings = memory.set(settings, fits);
            lowered.push((memory, fits));
        }
    }
    lowered
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::budget::tests::DEFAULTS;

    const MIB: u64 = 1 << 20;
    const GIB: u64 = 1 << 30;

    #[test]
    fn shared_buffers_as_the_manual_says() {
        assert_eq!(
            (
                shared_buffers_start(32 * GIB, false),
                shared_buffers_most(32 * GIB, false)
            ),
            (8 * GIB, 13 * GIB)
        );
        assert_eq!(
            (
                shared_buffers_start(32 * GIB, true),
                shared_buffers_most(32 * GIB, true)
            ),
            (24 * GIB, 24 * GIB)
        );
    }

    /// Guards against advice on max_connections where another setting is the cause.
    #[test]
    fn the_setting_that_is_the_cause_is_lowered_first() {
        let lowered = |settings: MemorySettings| session_memory_that_fits(&settings, 24 * GIB);
        assert_eq!(lowered(DEFAULTS), []);
        for memory in SessionMemory::ALL {
            let changes = lowered(memory.set(DEFAULTS, 2 * GIB));
            assert_eq!((changes.len(), changes[0].0), (1, memory), "{changes:?}");
            let after = memory.set(DEFAULTS, changes[0].1);
            let share = Budget::of(&after).share_of(24 * GIB);
            assert!(share <= 1.0 && share > 0.99, "{memory:?}: {share}");
        }
        // Where one alone is not enough it goes to its default, and the next one gives the rest.
        let both = MemorySettings {
            work_mem_bytes: 300 * MIB,
            maintenance_work_mem_bytes: 2 * GIB,
            ..DEFAULTS
        };
        let changes = lowered(both);
        assert_eq!(changes[0], (SessionMemory::Maintenance, 64 * MIB));
        assert!(
            changes[1].0 == SessionMemory::Work && changes[1].1 < 170 * MIB,
            "{changes:?}"
        );
        // What nothing makes fit stays at the defaults.
        assert_eq!(
            session_memory_that_fits(&both, GIB).last(),
            Some(&(SessionMemory::Work, 4 * MIB))
        );
    }

    #[test]
    fn connections_that_fit_do_not_depend_on_what_can_be_lowered() {
        let fits = |settings: MemorySettings| connections_that_fit(&settings, 24 * GIB);
        assert_eq!(fits(SessionMemory::Maintenance.set(DEFAULTS, 2 * GIB)), fits(DEFAULTS));
        assert!(fits(DEFAULTS) > 300);
        assert!(has_default_session_memory(&DEFAULTS));
        assert!(!has_default_session_memory(
            &SessionMemory::Temporary.set(DEFAULTS, GIB)
        ));
    }
}
