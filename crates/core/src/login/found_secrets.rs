//! The kinds of the secrets that auth_query finds, which users who do not exist seem to have, too.
//!
//! What such users are told must not change all the time: a name for which it changes does not exist. Nor may somebody
//! who cannot log in, or only as one user, decide when it changes: he could try out who exists. So a user counts once,
//! when he is let in for the first time, and what is told changes when twice as many users are known.

use foldhash::fast::RandomState;
use pgweir_auth::{IterationCounts, MockKey, Secret};
use std::collections::HashSet;

/// The most users that count: a power of two. They show well enough how frequent each kind is.
const USERS_MAX: usize = 1024;

/// How many users have secrets of which kind.
#[derive(Debug, Default, Clone, Copy, pgweir_freeze::Freeze)]
pub(crate) struct FoundKinds {
    all: u64,
    scram: u64,
    counts: IterationCounts,
}

impl FoundKinds {
    pub(crate) fn all(&self) -> u64 {
        self.all
    }

    /// Users with a SCRAM verifier.
    pub(crate) fn scram(&self) -> u64 {
        self.scram
    }

    /// The iteration counts of their verifiers.
    pub(crate) fn counts(&self) -> &IterationCounts {
        &self.counts
    }

    fn add(&mut self, secret: &Secret) {
        self.all += 1;
        self.scram += u64::from(matches!(secret, Secret::Scram(_)));
        self.counts.add(secret);
    }
}

/// The users whom auth_query has found and who were let in.
#[derive(Debug, Default, pgweir_freeze::Freeze)]
pub(crate) struct FoundSecrets {
    /// Keyed hashes of their names.
    users: HashSet<u64, RandomState>,
    known: FoundKinds,
    told: FoundKinds,
}

impl FoundSecrets {
    /// A user was let in.
    pub(crate) fn note(&mut self, key: &MockKey, user: &str, secret: &Secret) {
        if self.users.len() >= USERS_MAX || !self.users.insert(key.lot(user.as_bytes())) {
            return;
        }
        self.known.add(secret);
        if self.users.len().is_power_of_two() {
            self.told = self.known;
        }
    }

    /// What users who do not exist seem to have.
    pub(crate) fn told(&self) -> &FoundKinds {
        &self.told
    }
}
