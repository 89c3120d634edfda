//! The one place that computes the sizes that pgweir recommends, from stated inputs. Every command asks it, so that no two
//! reports say different numbers of one server.
//!
//! | size | follows from |
//! |---|---|
//! | `default_pool_size` | a measurement; otherwise cores x 2 + spindles |
//! | `min_pool_size` | `default_pool_size` |
//! | `max_db_connections` | processors, what PostgreSQL allows |
//! | `max_connections` | pools, other applications, replicas, administrators, reserved connections, the measured peak |
//!
//! The sizes of memory are in `memory`.

/// Connections that `max_connections` leaves to psql, monitoring and backups.
pub const ADMINISTRATORS: u32 = 10;

/// PostgreSQL's default. Fewer save nothing that matters, and refuse applications that nobody has thought of; unless the
/// memory is enough for less than half of them.
const MAX_CONNECTIONS_DEFAULT: u32 = 100;

/// More servers at work for each processor than this only wait for one another.
const SERVERS_PER_CORE: u32 = 4;

/// Servers that a pool keeps through a quiet time, if it may have so many.
const KEPT_SERVERS: u32 = 5;

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

/// min_pool_size: servers that are there already when a load comes back.
pub fn min_pool_size(pool_size: u32) -> u32 {
    pool_size.min(KEPT_SERVERS)
}

/// Servers that all pools together may have at work, whatever the processors are waiting for.
pub fn most_at_work(cores: u32, spindles: u32) -> u32 {
    SERVERS_PER_CORE.saturating_mul(cores).saturating_add(spindles)
}

/// What the limit on all pools together follows from.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TogetherInputs {
    /// Processors of the database server, where they are known.
    pub cores: Option<u32>,
    /// Disks that work side by side.
    pub spindles: u32,
    /// Servers of one pool. All together may have as many at least.
    pub pool_size: u32,
    /// Connections that PostgreSQL allows to ordinary roles.
    pub allowed: u32,
    /// Servers that the pools may have together; None where it is not known how many pools there will be.
    pub wanted: Option<u32>,
}

/// max_db_connections; None where nothing is to be bounded.
pub fn all_pools(inputs: &TogetherInputs) -> Option<Sized> {
    // A tenth stays free for applications that do not come through the pooler.
    let allowed = (inputs.allowed.saturating_mul(9) / 10).max(1);
    let most = inputs.cores.map_or(u32::MAX, |cores| {
        most_at_work(cores, inputs.spindles).max(inputs.pool_size)
    });
    let value = most.min(allowed);
    let wanted = match inputs.wanted {
        Some(wanted) => format!("all pools together may have {wanted} servers"),
        None => "each user of a database has a pool of its own".to_owned(),
    };
    let because = match most <= allowed {
        true if most == inputs.pool_size => format!("{wanted}, and more than {most} were measured to be of no use"),
        true => format!(
            "{wanted}, and beyond about {most}, {SERVERS_PER_CORE} for each processor, they only wait for one another (it \
             holds for each database)"
        ),
        false => format!("{wanted}, and PostgreSQL has room for {allowed} beside others"),
    };
    inputs
        .wanted
        .is_none_or(|wanted| wanted > value)
        .then_some(Sized { value, because })
}

/// What max_connections follows from.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ConnectionInputs {
    /// Pools: pairs of a database and a user.
    pub pools: u32,
    /// Servers of each.
    pub pool_size: u32,
    /// Servers that the pools may have together, where a pooler is set up already; otherwise `pools` times `pool_size`.
    pub servers: Option<u32>,
    /// Connections of applications that do not come through a pooler; None where no pooler is known, and all of them are
    /// supposed to come through it.
    pub other_applications: Option<u32>,
    /// Replicas; 0 from PostgreSQL 12 on, where they do not count in max_connections.
    pub replicas: u32,
    /// superuser_reserved_connections and, from PostgreSQL 16, reserved_connections, together.
    pub reserved: u32,
    /// Clients at the measured peak of throughput, direct.
    pub peak: Option<u32>,
    /// For how many connections the memory is enough in the worst case, with PostgreSQL's defaults for each.
    pub fits: Option<u32>,
}

/// Setting of postgresql.conf: room for everybody, rounded up to tens, and PostgreSQL's default at least.
pub fn max_connections(inputs: &ConnectionInputs) -> Sized {
    let pools = inputs
        .servers
        .unwrap_or(inputs.pools.max(1).saturating_mul(inputs.pool_size));
    let room = [
        inputs.other_applications.unwrap_or(0),
        inputs.replicas,
        ADMINISTRATORS,
        inputs.reserved,
    ];
    let sum = room.into_iter().fold(pools, u32::saturating_add);
    let wanted = sum.max(inputs.peak.unwrap_or(0));
    let fits = inputs.fits.filter(|fits| *fits < MAX_CONNECTIONS_DEFAULT / 2);
    let least = fits.map_or(MAX_CONNECTIONS_DEFAULT, |fits| fits / 10 * 10);
    let value = wanted.div_ceil(10).saturating_mul(10).max(least);
    let mut because = room_words(inputs, pools, sum);
    match inputs.peak {
        Some(peak) if peak > sum => because += &format!("; throughput was measured to be greatest with {peak}"),
        _ => {}
    }
    if value == least && wanted < value {
        because += &match fits {
            Some(_) => format!("; the memory is enough for {value} in the worst case"),
            None => format!("; below {value}, PostgreSQL's default, nothing is gained"),
        };
    }
    Sized { value, because }
}

/// For whom there is room.
fn room_words(inputs: &ConnectionInputs, servers: u32, sum: u32) -> String {
    let replicas = match inputs.replicas {
        0 => "replicas, which have places of their own (max_wal_senders)".to_owned(),
        replicas => format!("{replicas} for replicas"),
    };
    let pools = match (inputs.pools, inputs.servers) {
        (0 | 1, _) => format!("a pool of {servers}"),
        (pools, None) => format!("{pools} pools of {}", inputs.pool_size),
        (pools, Some(_)) => format!("{pools} pools with {servers} servers together"),
    };
    let (others, supposed) = match inputs.other_applications {
        Some(others) => (
            format!("{others} connections of other applications, {ADMINISTRATORS}"),
            "",
        ),
        None => (
            format!("{ADMINISTRATORS} connections"),
            " if all applications connect through the pooler",
        ),
    };
    format!(
        "it has room for {pools}, {others} of administrators, monitoring and backups, {} that PostgreSQL \
         reserves, and {replicas}: {sum}{supposed}",
        inputs.reserved
    )
}

#[cfg(test)]
mod tests {
    use super::*;

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
            other_applications: Some(30),
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
    fn pools_that_are_set_up_count_as_they_are() {
        let sized = max_connections(&ConnectionInputs {
            pools: 3,
            pool_size: 17,
            servers: Some(150),
            other_applications: Some(20),
            reserved: 3,
            ..ConnectionInputs::default()
        });
        assert_eq!(sized.value, 190);
        assert!(
            sized
                .because
                .starts_with("it has room for 3 pools with 150 servers together, 20 connections of"),
            "{sized:?}"
        );
    }

    /// Nobody has said that all applications will come through a pooler, so the report must.
    #[test]
    fn where_no_pooler_is_known_the_supposition_is_said() {
        let sized = max_connections(&ConnectionInputs {
            pools: 1,
            pool_size: 200,
            ..ConnectionInputs::default()
        });
        assert!(
            sized
                .because
                .ends_with("210 if all applications connect through the pooler"),
            "{sized:?}"
        );
        assert!(!sized.because.contains("other applications"), "{sized:?}");
    }

    #[test]
    fn all_pools_together_are_bounded_by_processors_and_by_postgresql() {
        let inputs = TogetherInputs {
            cores: Some(2),
            spindles: 1,
            pool_size: 5,
            allowed: 97,
            wanted: Some(60),
        };
        let value = |inputs: TogetherInputs| all_pools(&inputs).map(|sized| sized.value);
        assert_eq!(value(inputs), Some(9));
        assert_eq!(
            value(TogetherInputs {
                wanted: Some(9),
                ..inputs
            }),
            None
        );
        assert_eq!(value(TogetherInputs { wanted: None, ..inputs }), Some(9));
        assert_eq!(
            value(TogetherInputs {
                cores: None,
                wanted: Some(200),
                ..inputs
            }),
            Some(87)
        );
        // A measured pool is not cut by a rule of thumb.
        assert_eq!(
            value(TogetherInputs {
                pool_size: 40,
                wanted: None,
                ..inputs
            }),
            Some(40)
        );
        assert_eq!((min_pool_size(3), min_pool_size(17)), (3, 5));
    }
}
