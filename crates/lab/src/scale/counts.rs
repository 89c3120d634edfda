//! Which numbers of clients can be measured: open files bound them through pgweir, the server's connections direct.

use super::{Arguments, SPARE_CONNECTIONS};
use crate::machine::{self, meminfo_bytes};
use crate::session::Target;
use crate::{Error, Result};
use pgweir_maths::number_words;

/// Most clients direct on a throwaway server where the user does not say: enough to see what many connections do, and
/// few enough to be opened within seconds.
const DIRECT_MAX_ON_THROWAWAY: u32 = 2048;

/// For a throwaway server, whose max_connections the laboratory chooses: the memory that a working server process is
/// assumed to take, and the share of the available memory that all of them may take.
const BACKEND_BYTES_SUPPOSED: u64 = 5 << 20;
const MEMORY_SHARE_MAX: f64 = 0.5;

/// Open files of the pooler beside clients and pool: as `pooler` has it, and the one client's.
const SPARE_FILES: u64 = 80;

/// The numbers of clients.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    /// Through pgweir, ascending.
    pub(super) pooled: Vec<u32>,
    /// Direct, ascending; some of those.
    pub(super) direct: Vec<u32>,
    /// What is left out, and why.
    pub(super) left_out: Vec<String>,
}

impl Counts {
    /// The numbers of clients that the arguments ask for, less those that cannot be measured here.
    pub(super) fn of(arguments: &Arguments, target: &Target) -> Result<Self> {
        let free = target.facts.connections_free().saturating_sub(SPARE_CONNECTIONS);
        if free < arguments.pool() {
            return Err(Error::new(format!(
                "a pool of {} is more than the server has room for: of {} connections {} are in use",
                arguments.pool(),
                target.facts.connections_max,
                target.facts.connections_used
            ))
            .hint("ask for a smaller one with --pool-size, or raise max_connections for the measurement"));
        }
        let (direct_max, why) = match arguments.direct_max {
            Some(most) if most <= free => (most, "--direct-max says so".to_owned()),
            _ if target.is_throwaway() => (
                free,
                "more than this throwaway server was made for (--direct-max)".to_owned(),
            ),
            _ => (
                free,
                format!(
                    "the server allows {} connections, {} of which are in use",
                    target.facts.connections_max, target.facts.connections_used
                ),
            ),
        };
        let pool = arguments.pool();
        let files = |clients: u32| machine::raise_open_files(u64::from(clients + pool) + SPARE_FILES);
        let counts = Counts::choose(&arguments.clients, files, (direct_max, &why));
        match counts.pooled.is_empty() {
            true => Err(Error::new(format!(
                "nothing can be measured: {}",
                counts.left_out.join("; ")
            ))),
            false => Ok(counts),
        }
    }

    /// `files` fails where so many clients need too many; `direct_max` comes with its reason.
    fn choose(wished: &[u32], files: impl Fn(u32) -> Result<()>, (direct_max, why): (u32, &str)) -> Self {
        let mut wished = wished.to_vec();
        wished.sort_unstable();
        wished.dedup();
        let mut counts = Counts::default();
        let mut not_direct = Vec::new();
        for clients in wished {
            let words = number_words(f64::from(clients));
            match files(clients) {
                Ok(()) => counts.pooled.push(clients),
                Err(Error::Failed { message, hints }) => {
                    let hint = hints.first().map(|hint| format!(" ({hint})")).unwrap_or_default();
                    counts.left_out.push(format!("{words} clients: {message}{hint}"));
                    continue;
                }
                Err(Error::Interrupted { .. }) => continue,
            }
            if clients <= direct_max {
                counts.direct.push(clients);
            } else {
                not_direct.push(words);
            }
        }
        if !not_direct.is_empty() {
            counts
                .left_out
                .push(format!("direct with {} clients: {why}", not_direct.join(" and ")));
        }
        counts
    }
}

/// Most clients direct, where the server is made for the measurement.
pub(super) fn direct_on_throwaway(arguments: &Arguments) -> u32 {
    let most = arguments.direct_max.unwrap_or(DIRECT_MAX_ON_THROWAWAY);
    let memory = meminfo_bytes("MemAvailable").filter(|_| arguments.direct_max.is_none());
    let fits = memory.map_or(u32::MAX, |bytes| {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_precision_loss,
            clippy::cast_sign_loss,
            reason = "a number of processes"
        )]
        let fits = (bytes as f64 * MEMORY_SHARE_MAX / BACKEND_BYTES_SUPPOSED as f64) as u32;
        fits
    });
    let wished = arguments
        .clients
        .iter()
        .copied()
        .filter(|clients| *clients <= most.min(fits));
    wished.max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_out_is_told_with_its_reason() {
        let files = |clients: u32| match clients {
            0..=8192 => Ok(()),
            _ => {
                Err(Error::new("20000 open files are needed, and the limit of this process is 10000").hint("raise it"))
            }
        };
        let counts = Counts::choose(&[19_900, 64, 512, 8192, 64], files, (100, "the server allows 110"));
        assert_eq!(
            (&counts.pooled[..], &counts.direct[..]),
            (&[64, 512, 8192][..], &[64][..])
        );
        assert_eq!(
            counts.left_out,
            [
                "19,900 clients: 20000 open files are needed, and the limit of this process is 10000 (raise it)",
                "direct with 512 and 8,192 clients: the server allows 110"
            ]
        );
    }

    #[test]
    fn nothing_is_left_out_where_all_fits() {
        let counts = Counts::choose(&[1, 2], |_| Ok(()), (2, ""));
        assert_eq!(
            counts,
            Counts {
                pooled: vec![1, 2],
                direct: vec![1, 2],
                left_out: vec![]
            }
        );
    }
}
