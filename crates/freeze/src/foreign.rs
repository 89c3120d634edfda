//! Types of other crates.

use crate::{Damaged, Freeze, Reader, Writer, layout, mix};
use lru::LruCache;
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::SeedableRng;
use std::hash::{BuildHasher, Hash};
use zeroize::{Zeroize, Zeroizing};

impl<T: Freeze + Zeroize> Freeze for Zeroizing<T> {
    const LAYOUT: u64 = T::LAYOUT;

    fn freeze(&self, out: &mut Writer) {
        T::freeze(self, out);
    }

    fn thaw(from: &mut Reader<'_>) -> Result<Self, Damaged> {
        Ok(Zeroizing::new(T::thaw(from)?))
    }
}

/// The thawed generator draws the same numbers.
impl Freeze for ChaCha20Rng {
    const LAYOUT: u64 = layout("ChaCha20Rng");

    fn freeze(&self, out: &mut Writer) {
        (self.get_seed(), self.get_stream(), self.get_word_pos()).freeze(out);
    }

    fn thaw(from: &mut Reader<'_>) -> Result<Self, Damaged> {
        let (seed, stream, position) = <([u8; 32], u64, u128)>::thaw(from)?;
        let mut random = ChaCha20Rng::from_seed(seed);
        random.set_stream(stream);
        random.set_word_pos(position);
        Ok(random)
    }
}

/// The thawed cache has no limit. Its order is the same.
impl<K: Freeze + Eq + Hash, V: Freeze, S: BuildHasher + Default> Freeze for LruCache<K, V, S> {
    const LAYOUT: u64 = mix(mix(layout("LruCache"), K::LAYOUT), V::LAYOUT);

    fn freeze(&self, out: &mut Writer) {
        out.number(self.len() as u64);
        for (key, value) in self.iter().rev() {
            key.freeze(out);
            value.freeze(out);
        }
    }

    fn thaw(from: &mut Reader<'_>) -> Result<Self, Damaged> {
        let mut cache = LruCache::unbounded_with_hasher(S::default());
        for (key, value) in Vec::<(K, V)>::thaw(from)? {
            cache.put(key, value);
        }
        Ok(cache)
    }
}
