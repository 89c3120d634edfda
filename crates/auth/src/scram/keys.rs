//! The keys that are derived from a password, and a cache for them, because the derivation is slow.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use subtle::ConstantTimeEq;
use zeroize::{Zeroize, Zeroizing};

use super::{KEY_BYTES, Key, ScramVerifier, hmac};
use crate::saslprep::saslprep;
use crate::secret::Password;

/// The keys of a password under one salt and iteration count. With them one can log in to every server that has the
/// verifier of this password, salt and count, and to no other. They do not reveal the password.
#[derive(Clone, pgweir_freeze::Freeze)]
pub struct ScramKeys {
    /// The verifier's salt, raw.
    pub salt: Vec<u8>,
    /// The verifier's iteration count.
    pub iterations: u32,
    /// ClientKey: with it one can log in.
    pub client_key: [u8; KEY_BYTES],
    /// ServerKey: with it one can check whether the server knows the secret.
    pub server_key: [u8; KEY_BYTES],
}

impl ScramKeys {
    /// The slow step: `iterations` times two SHA-256 blocks, about a quarter of a microsecond each.
    pub fn derive(password: &[u8], salt: &[u8], iterations: u32) -> Self {
        let mut salted = Zeroizing::new([0; KEY_BYTES]);
        let prepared = Zeroizing::new(saslprep(password).into_owned());
        pbkdf2::pbkdf2_hmac::<Sha256>(&prepared, salt, iterations, salted.as_mut());
        Self {
            salt: salt.to_vec(),
            iterations,
            client_key: hmac(salted.as_ref(), &[b"Client Key"]),
            server_key: hmac(salted.as_ref(), &[b"Server Key"]),
        }
    }

    /// Whether these keys were made for this salt and iteration count.
    pub fn belong_to(&self, salt: &[u8], iterations: u32) -> bool {
        self.iterations == iterations && self.salt == salt
    }
}

impl PartialEq for ScramKeys {
    fn eq(&self, other: &Self) -> bool {
        let same = self.client_key.ct_eq(&other.client_key) & self.server_key.ct_eq(&other.server_key);
        self.belong_to(&other.salt, other.iterations) && bool::from(same)
    }
}

impl Eq for ScramKeys {}

impl Drop for ScramKeys {
    fn drop(&mut self) {
        self.client_key.zeroize();
        self.server_key.zeroize();
    }
}

impl fmt::Debug for ScramKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScramKeys")
            .field("iterations", &self.iterations)
            .finish_non_exhaustive()
    }
}

/// Keys that the caller derives on another thread, because the derivation is slow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Derivation {
    /// The password: of the pooler's settings, or sent by a client in clear text.
    pub password: Password,
    /// The verifier's salt, raw.
    pub salt: Vec<u8>,
    /// The verifier's iteration count, [`ITERATIONS_MAX`](crate::ITERATIONS_MAX) at most.
    pub iterations: u32,
}

impl Derivation {
    /// The slow step: see [`ScramKeys::derive`].
    pub fn derive(&self) -> ScramKeys {
        ScramKeys::derive(self.password.as_bytes(), &self.salt, self.iterations)
    }
}

/// Keys that were derived, by password, salt and iteration count. When the cache is full, the oldest entry is removed.
///
/// A pool that opens many connections needs the same keys each time, and so does a user with a plain-text secret who
/// logs in often. Only passwords from the pooler's own settings are kept, and those that have proved right.
#[derive(pgweir_freeze::Freeze)]
pub struct ScramKeyCache {
    entries_max: usize,
    /// Keyed by a hash of password, salt and iterations. Invariant: the same keys as in `by_age`, each once.
    entries: BTreeMap<Key, ScramKeys>,
    /// The oldest first.
    by_age: VecDeque<Key>,
}

impl ScramKeyCache {
    /// An empty cache of at most `entries_max` entries of some 200 bytes.
    pub fn new(entries_max: usize) -> Self {
        Self {
            entries_max,
            entries: BTreeMap::new(),
            by_age: VecDeque::new(),
        }
    }

    /// Sets the number of entries that are kept. Entries that are too many stay until new ones come.
    pub fn keep_at_most(&mut self, entries_max: usize) {
        self.entries_max = entries_max;
    }

    /// The keys, from the cache or derived now.
    pub fn keys(&mut self, password: &[u8], salt: &[u8], iterations: u32) -> ScramKeys {
        let name = entry_name(password, salt, iterations);
        if let Some(keys) = self.entries.get(&name) {
            return keys.clone();
        }
        let keys = ScramKeys::derive(password, salt, iterations);
        self.remember(name, keys.clone());
        keys
    }

    /// The keys of a password and a verifier, if they have been derived before.
    pub(crate) fn known(&self, password: &[u8], verifier: &ScramVerifier) -> Option<&ScramKeys> {
        self.find(password, &verifier.salt, verifier.iterations)
    }

    /// The keys, if they have been derived before.
    pub(crate) fn find(&self, password: &[u8], salt: &[u8], iterations: u32) -> Option<&ScramKeys> {
        self.entries.get(&entry_name(password, salt, iterations))
    }

    /// Keeps the keys of a password that has proved right. Guesses must not remove other entries.
    pub(crate) fn keep(&mut self, password: &[u8], keys: ScramKeys) {
        let name = entry_name(password, &keys.salt, keys.iterations);
        if !self.entries.contains_key(&name) {
            self.remember(name, keys);
        }
    }

    /// The number of entries.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether the cache is empty.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    fn remember(&mut self, name: Key, keys: ScramKeys) {
        if self.entries_max == 0 {
            return;
        }
        while self.entries.len() >= self.entries_max
            && let Some(oldest) = self.by_age.pop_front()
        {
            self.entries.remove(&oldest);
        }
        self.entries.insert(name, keys);
        self.by_age.push_back(name);
    }
}

impl fmt::Debug for ScramKeyCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScramKeyCache")
            .field("len", &self.len())
            .finish_non_exhaustive()
    }
}

/// The hash is keyed by the salt. The length of the salt is hashed, too, because HMAC fills up a short key with zeros.
fn entry_name(password: &[u8], salt: &[u8], iterations: u32) -> Key {
    let mut mac = Hmac::<Sha256>::new_from_slice(salt).expect("HMAC takes keys of any length");
    mac.update(&(salt.len() as u64).to_be_bytes());
    mac.update(&iterations.to_be_bytes());
    mac.update(password);
    mac.finalize().into_bytes().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cache_gives_what_derive_gives() {
        let mut cache = ScramKeyCache::new(8);
        let inputs: [(&[u8], &[u8], u32); 4] = [
            (b"a", b"salt", 1),
            (b"b", b"salt", 1),
            (b"a", b"tlas", 1),
            (b"a", b"salt", 2),
        ];
        for _ in 0..2 {
            for (password, salt, iterations) in inputs {
                assert_eq!(
                    cache.keys(password, salt, iterations),
                    ScramKeys::derive(password, salt, iterations)
                );
            }
        }
        assert_eq!(cache.len(), inputs.len(), "the second round came from the cache");
    }

    #[test]
    fn the_cache_is_bounded_and_forgets_the_oldest() {
        let mut cache = ScramKeyCache::new(2);
        for password in [b"1", b"2", b"3"] {
            cache.keys(password, b"salt", 1);
            assert_eq!(cache.entries.len(), cache.by_age.len());
        }
        assert_eq!(cache.len(), 2);
        assert!(!cache.entries.contains_key(&entry_name(b"1", b"salt", 1)));
        assert!(cache.entries.contains_key(&entry_name(b"3", b"salt", 1)));

        cache.keep_at_most(3);
        cache.keys(b"4", b"salt", 1);
        assert_eq!((cache.len(), cache.by_age.len()), (3, 3));
        cache.keep_at_most(1);
        cache.keys(b"5", b"salt", 1);
        assert_eq!((cache.len(), cache.by_age.len()), (1, 1));

        let mut none = ScramKeyCache::new(0);
        assert_eq!(none.keys(b"1", b"salt", 1), ScramKeys::derive(b"1", b"salt", 1));
        assert!(none.is_empty());
    }

    #[test]
    fn passwords_are_prepared_before_they_are_hashed() {
        assert_eq!(
            ScramKeys::derive("\u{2168}".as_bytes(), b"salt", 1),
            ScramKeys::derive(b"IX", b"salt", 1)
        );
        assert_ne!(
            ScramKeys::derive(b"ix", b"salt", 1),
            ScramKeys::derive(b"IX", b"salt", 1)
        );
    }
}
