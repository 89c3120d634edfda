//! Iteration counts for users without a verifier.

use crate::secret::Secret;

/// How many different counts are told apart. Users of further ones do not count.
const COUNTS_MAX: usize = 8;

/// How many users have verifiers with which iteration count. A stranger who is told a count that no user has, or is never
/// told one that many have, would know who exists.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, pgweir_freeze::Freeze)]
pub(crate) struct IterationCounts {
    /// The counts; 0 from the first place that is not used.
    counts: [u32; COUNTS_MAX],
    /// The users of each.
    users: [u64; COUNTS_MAX],
    /// Users with a plain-text secret: their count is the setting's.
    plain: u64,
}

impl IterationCounts {
    /// Adds the user of a secret.
    pub(crate) fn add(&mut self, secret: &Secret) {
        match secret {
            Secret::Plain(password) => self.plain += u64::from(!password.as_bytes().is_empty()),
            Secret::Md5(_) => {}
            Secret::Scram(verifier) => {
                let place = self.counts.iter().position(|c| [0, verifier.iterations].contains(c));
                if let Some(place) = place {
                    self.counts[place] = verifier.iterations;
                    self.users[place] += 1;
                }
            }
        }
    }

    /// The count that `lot` draws. Each is drawn as often as users have it. `of_plain`: the count of users with a plain-text
    /// secret, if they seem to have a verifier. `otherwise`: the one to take if no user has a verifier.
    pub(crate) fn draw(&self, lot: u64, of_plain: Option<u32>, otherwise: u32) -> u32 {
        let plain = of_plain.map(|count| (count, self.plain));
        let shares = self.counts.into_iter().zip(self.users).chain(plain);
        let all: u64 = shares.clone().map(|(_, users)| users).sum();
        let mut rest = lot.checked_rem(all).unwrap_or(0);
        for (count, users) in shares {
            if rest < users {
                return count;
            }
            rest -= users;
        }
        otherwise
    }
}
