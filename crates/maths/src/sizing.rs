//! The one place that computes the sizes that pgweir recommends, from stated inputs. Every command asks it, so that no two
//! reports say different numbers of one server.
//!
//! | size | follows from |
//! |---|---|
//! | `default_pool_size` | a measurement; otherwise cores x 2 + spindles |
//! | `max_connections` | pools, other applications, replicas, administrators, reserved connections, the measured peak |
//! | `shared_buffers` | a share of the machine's memory to start from, and the most that it should take |
//! | `work_mem` | what the worst case leaves for each connection |

use super::budget::{Budget, MemorySettings};

/// Connections that `max_connections` leaves to psql, monitoring and backups.
pub const ADMINISTRATORS: u32 = 10;

/// PostgreSQL's default. Fewer save nothing that matters, and refuse applications that nobody has thought of; unless the
/// memory is enough for less than half of them.
const MAX_CONNECTIONS_DEFAULT: u32 = 100;

/// Where shared_buffers starts, as a share of the machine's memory (the manual, "Resource Consumption"), and the most that
/// it should take: what is above is missed by the page cache, which absorbs writes and puts them in order.
const START_SHARE: f64 = 0.25;
const MOST_SHARE: f64 = 0.4;

/// Both on a managed service whose storage has no page cache below.
const SHARE_WITHOUT_PAGE_CACHE: f64 = 0.75;

/// PostgreSQL's default of work_mem, and the least that is recommended.
const WORK_MEM_LEAST_BYTES: u64 = 4 << 20;

/// A number with the inputs that it follows from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sized {
    /// The number.
    pub value: u32,
    /// One sentence without its full stop.
    pub because: String,
}

/// What the size of a pool follows from.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PoolInputs {
    /// Processors of the database server, where they are known.
    pub cores: Option<u32>,
    /// Disks that work side by side; 1 for an SSD or unknown storage, 0 when all data is in memory.
    pub spindles: u32,
    /// The smallest pool that was measured to be enough.
    pub measured: Option<u32>,
}

/// Servers of a pool; None where neither a measurement nor the processors are known.
pub fn pool_size(inputs: &PoolInputs) -> Option<Sized> {
    let rule = inputs.cores.map(|cores| {
        let value = cores.saturating_mul(2).saturating_add(inputs.spindles);
        let words = format!(
            "the rule of thumb, cores x 2 + spindles = {cores} x 2 + {}",
            inputs.spindles
        );
        (value.max(1), words)
    });
    match (inputs.measured, rule) {
        (Some(value), Some((thumb, words))) if thumb != value => Some(Sized {
            value,
            because: format!("it was measured; {words}, would have said {thumb}"),
        }),
        (Some(value), _) => Some(Sized {
            value,
            because: "it was measured".to_owned(),
        }),
        (None, Some((value, words))) => Some(Sized {
            value,
            because: format!("{words}, as nothing has been measured"),
        }),
        (None, None) => None,
    }
}

/// What max_connections follows from.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ConnectionInputs {
    /// Pools: pairs of a database and a user.
    pub pools: u32,
    /// Servers of each.
    pub pool_size: u32,
    /// Connections of applications that do not come through a pooler.
    pub other_applications: u32,
    /// Replicas; 0 from PostgreSQL 12 on, where they do not count in max_connections.
    pub replicas: u32,
    /// superuser_reserved_connections and, from PostgreSQL 16, reserved_connections, together.
    pub reserved: u32,
    /// Clients at the measured peak of throughput, direct.
    pub peak: Option<u32>,
    /// For how many connections the memory is enough in the worst case, with work_mem at PostgreSQL's default.
    pub fits: Option<u32>,
}

/// Setting of postgresql.conf: room for everybody, rounded up to tens, and PostgreSQL's default at least.
pub fn max_connections(inputs: &ConnectionInputs) -> Sized {
    let pools = inputs.pools.max(1).saturating_mul(inputs.pool_size);
    let room = [
        inputs.other_applications,
        inputs.replicas,
        ADMINISTRATORS,
        inputs.reserved,
    ];
    let sum = room.into_iter().fold(pools, u32::saturating_add);
    let wanted = sum.max(inputs.peak.unwrap_or(0));
    let least = match inputs.fits {
        Some(fits) if fits < MAX_CONNECTIONS_DEFAULT / 2 => fits / 10 * 10,
        _ => MAX_CONNECTIONS_DEFAULT,
    };
    let value = wanted.div_ceil(10).saturating_mul(10).max(least);
    let replicas = match inputs.replicas {
        0 => "replicas, which have places of their own (max_wal_senders)".to_owned(),
        replicas => format!("{replicas} for replicas"),
    };
    let pool_words = match inputs.pools {
        0 | 1 => format!("a pool of {}", inputs.pool_size),
        pools => format!("{pools} pools of {}", inputs.pool_size),
    };
    let mut because = format!(
        "it has room for {pool_words}, {} connections of other applications, {ADMINISTRATORS} of administrators, monitoring \
         and backups, {} that PostgreSQL reserves, and {replicas}: {sum}",
        inputs.other_applications, inputs.reserved
    );
    match inputs.peak {
        Some(peak) if peak > sum => because += &format!("; throughput was measured to be greatest with {peak}"),
        _ => {}
    }
    if value == MAX_CONNECTIONS_DEFAULT && wanted < value {
        because += &format!("; below {value}, PostgreSQL's default, nothing is gained");
    } else if value == least {
        because += &format!("; the memory is enough for {value} in the worst case");
    }
    Sized { value, because }
}

/// shared_buffers to start from, bytes.
pub fn shared_buffers_start(ram_bytes: u64, without_page_cache: bool) -> u64 {
    let share = if without_page_cache {
        SHARE_WITHOUT_PAGE_CACHE
    } else {
        START_SHARE
    };
    round_up_bytes((ram_bytes as f64 * share) as u64)
}

/// The most that shared_buffers should take, bytes.
pub fn shared_buffers_most(ram_bytes: u64, without_page_cache: bool) -> u64 {
    let share = if without_page_cache {
        SHARE_WITHOUT_PAGE_CACHE
    } else {
        MOST_SHARE
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

/// The largest work_mem, in whole megabytes, with which the worst case of these settings fits into the memory; None where
/// even PostgreSQL's default does not.
pub fn work_mem_that_fits(settings: &MemorySettings, ram_bytes: u64) -> Option<u64> {
    let without = Budget::of(&MemorySettings {
        work_mem_bytes: 0,
        ..*settings
    });
    let left = ram_bytes.checked_sub(without.total_bytes)?;
    let each = (left / u64::from(settings.max_connections.max(1))) >> 20 << 20;
    (each >= WORK_MEM_LEAST_BYTES).then_some(each)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    #[test]
    fn a_measurement_wins_and_says_what_the_rule_would_have_said() {
        let inputs = |cores, measured| PoolInputs {
            cores,
            spindles: 1,
            measured,
        };
        let rule = pool_size(&inputs(Some(2), None)).unwrap();
        assert_eq!(rule.value, 5);
        assert!(
            rule.because.contains("2 x 2 + 1, as nothing has been measured"),
            "{rule:?}"
        );
        let measured = pool_size(&inputs(Some(2), Some(9))).unwrap();
        assert_eq!(measured.value, 9);
        assert!(measured.because.ends_with("would have said 5"), "{measured:?}");
        assert_eq!(pool_size(&inputs(Some(2), Some(5))).unwrap().because, "it was measured");
        assert_eq!(pool_size(&inputs(None, None)), None);
        assert_eq!(pool_size(&inputs(Some(u32::MAX), None)).unwrap().value, u32::MAX);
    }

    #[test]
    fn max_connections_has_room_for_everybody_and_says_for_whom() {
        let inputs = ConnectionInputs {
            pools: 12,
            pool_size: 17,
            other_applications: 30,
            replicas: 0,
            reserved: 3,
            ..ConnectionInputs::default()
        };
        let sized = max_connections(&inputs);
        assert_eq!(sized.value, 250);
        assert_eq!(
            sized.because,
            "it has room for 12 pools of 17, 30 connections of other applications, 10 of administrators, monitoring and \
             backups, 3 that PostgreSQL reserves, and replicas, which have places of their own (max_wal_senders): 247"
        );
        let old = max_connections(&ConnectionInputs { replicas: 10, ..inputs });
        assert!(
            old.value == 260 && old.because.contains("and 10 for replicas: 257"),
            "{old:?}"
        );
        let small = max_connections(&ConnectionInputs {
            pools: 1,
            pool_size: 5,
            peak: Some(10),
            ..ConnectionInputs::default()
        });
        assert!(
            small.value == 100 && small.because.ends_with("nothing is gained"),
            "{small:?}"
        );
        let tight = max_connections(&ConnectionInputs {
            pool_size: 5,
            fits: Some(46),
            ..ConnectionInputs::default()
        });
        assert!(
            tight.value == 40 && tight.because.ends_with("enough for 40 in the worst case"),
            "{tight:?}"
        );
        let peak = max_connections(&ConnectionInputs {
            peak: Some(400),
            ..ConnectionInputs::default()
        });
        assert!(
            peak.value == 400 && peak.because.ends_with("greatest with 400"),
            "{peak:?}"
        );
    }

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

    #[test]
    fn work_mem_that_fits_is_what_the_rest_leaves() {
        let settings = MemorySettings {
            work_mem_bytes: GIB,
            max_connections: 100,
            shared_buffers_bytes: 2 * GIB,
            rest_bytes: GIB,
            ..MemorySettings::default()
        };
        let fits = work_mem_that_fits(&settings, 8 * GIB).unwrap();
        assert_eq!(fits, 51 << 20);
        let with = Budget::of(&MemorySettings {
            work_mem_bytes: fits,
            ..settings
        });
        assert!(with.total_bytes <= 8 * GIB);
        assert_eq!(work_mem_that_fits(&settings, 3 * GIB), None);
        assert_eq!(work_mem_that_fits(&settings, 2 * GIB), None);
    }
}
