//! Iteration counts for users without a verifier.

use crate::secret::Secret;

/// How many different counts are told apart. Users of further ones do not count.
const COUNTS_MAX: usize = 8;

/// How many users have verifiers with which iteration count. A stranger who is told a count that no user has, or is never
/// told one that many have, would know who exists.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, pgweir_freeze::Freeze)]
pub struct IterationCounts {
    /// The counts; 0 from the first place that is not used.
    counts: [u32; COUNTS_MAX],
    /// The users of each.
    users: [u64; COUNTS_MAX],
    /// Users with a plain-text secret: their count is the setting's.
    plain: u64,
}

impl IterationCounts {
    /// Those of users with these stored secrets.
    pub fn of<'s>(secrets: impl IntoIterator<Item = &'s [u8]>) -> Self {
        let mut counts = IterationCounts::default();
        for secret in secrets.into_iter().filter_map(|text| Secret::parse(text).ok()) {
            counts.add(&secret);
        }
        counts
    }

    /// Adds the user of a secret.
    pub fn add(&mut self, secret: &Secret) {
        match secret {
            Secret::Plain(password) => self.plain += u64::from(!password.as_bytes().is_empty()),
            Secret::Md5(_) => {}
            Secret::Scram(verifier) => self.add_users(verifier.iterations, 1),
        }
    }

    /// These users, and others.
    pub(crate) fn and(mut self, others: &IterationCounts) -> Self {
        let more = others.counts.into_iter().zip(others.users);
        for (count, users) in more.filter(|(_, users)| *users > 0) {
            self.add_users(count, users);
        }
        self.plain += others.plain;
        self
    }

    fn add_users(&mut self, count: u32, users: u64) {
        let place = self.counts.iter().position(|c| [0, count].contains(c));
        if let Some(place) = place {
            self.counts[place] = count;
            self.users[place] += users;
        }
    }

    /// The count that `lot` draws. Each is drawn as often as users have it, and a few users more or less change what few lots
    /// draw: a name whose count changes is one that does not exist. `of_plain`: the count of users with a plain-text
    /// secret, if they seem to have a verifier. `otherwise`: the one to take if no user has a verifier.
    pub(crate) fn draw(&self, lot: u64, of_plain: Option<u32>, otherwise: u32) -> u32 {
        let mut shares = [(0, 0); COUNTS_MAX + 1];
        let plain = of_plain.map(|count| (count, self.plain));
        let known = self.counts.into_iter().zip(self.users).chain(plain);
        for (share, known) in shares.iter_mut().zip(known) {
            *share = known;
        }
        shares.sort_unstable();
        let all: u64 = shares.iter().map(|(_, users)| users).sum();
        let mut rest = ((u128::from(lot) * u128::from(all)) >> 64) as u64;
        for (count, users) in shares {
            if rest < users {
                return count;
            }
            rest -= users;
        }
        otherwise
    }
}
