//! Collections.

use crate::{Damaged, Freeze, Reader, Writer, layout, mix};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::hash::{BuildHasher, Hash};

/// The most elements for which room is made before they are read.
const ROOM_MAX: usize = 1024;

/// Writes the number of elements, and the elements.
pub(crate) fn freeze_all<'a, T: Freeze + 'a>(elements: impl ExactSizeIterator<Item = &'a T>, out: &mut Writer) {
    out.number(elements.len() as u64);
    elements.for_each(|element| element.freeze(out));
}

/// Reads as many elements as were written. Each takes at least one byte.
fn thaw_all<T: Freeze, C: Default>(from: &mut Reader<'_>, add: impl Fn(&mut C, T)) -> Result<C, Damaged> {
    let count = from.count()?;
    if count > from.remaining() {
        return Err(Damaged);
    }
    let mut all = C::default();
    for _ in 0..count {
        add(&mut all, T::thaw(from)?);
    }
    Ok(all)
}

impl<T: Freeze> Freeze for Vec<T> {
    const LAYOUT: u64 = mix(layout("Vec"), T::LAYOUT);

    fn freeze(&self, out: &mut Writer) {
        freeze_all(self.iter(), out);
    }

    fn thaw(from: &mut Reader<'_>) -> Result<Self, Damaged> {
        let count = from.count()?;
        if count > from.remaining() {
            return Err(Damaged);
        }
        let mut all = Vec::with_capacity(count.min(ROOM_MAX));
        for _ in 0..count {
            all.push(T::thaw(from)?);
        }
        Ok(all)
    }
}

impl<T: Freeze> Freeze for Box<[T]> {
    const LAYOUT: u64 = mix(layout("Box[]"), T::LAYOUT);

    fn freeze(&self, out: &mut Writer) {
        freeze_all(self.iter(), out);
    }

    fn thaw(from: &mut Reader<'_>) -> Result<Self, Damaged> {
        Ok(Vec::thaw(from)?.into())
    }
}

impl<T: Freeze> Freeze for VecDeque<T> {
    const LAYOUT: u64 = mix(layout("VecDeque"), T::LAYOUT);

    fn freeze(&self, out: &mut Writer) {
        freeze_all(self.iter(), out);
    }

    fn thaw(from: &mut Reader<'_>) -> Result<Self, Damaged> {
        Ok(Vec::thaw(from)?.into())
    }
}

/// Implements [`Freeze`] for maps.
macro_rules! maps {
    ($($map:ident: [$($generics:tt)*] $type:ty;)+) => {$(
        impl<$($generics)*> Freeze for $type {
            const LAYOUT: u64 = mix(mix(layout(stringify!($map)), K::LAYOUT), V::LAYOUT);

            fn freeze(&self, out: &mut Writer) {
                out.number(self.len() as u64);
                for (key, value) in self {
                    key.freeze(out);
                    value.freeze(out);
                }
            }

            fn thaw(from: &mut Reader<'_>) -> Result<Self, Damaged> {
                thaw_all(from, |map: &mut Self, (key, value)| {
                    map.insert(key, value);
                })
            }
        }
    )+};
}

/// Implements [`Freeze`] for sets.
macro_rules! sets {
    ($($set:ident: [$($generics:tt)*] $type:ty;)+) => {$(
        impl<$($generics)*> Freeze for $type {
            const LAYOUT: u64 = mix(layout(stringify!($set)), T::LAYOUT);

            fn freeze(&self, out: &mut Writer) {
                freeze_all(self.iter(), out);
            }

            fn thaw(from: &mut Reader<'_>) -> Result<Self, Damaged> {
                thaw_all(from, |set: &mut Self, element| {
                    set.insert(element);
                })
            }
        }
    )+};
}

maps! {
    HashMap: [K: Freeze + Eq + Hash, V: Freeze, S: BuildHasher + Default] HashMap<K, V, S>;
    BTreeMap: [K: Freeze + Ord, V: Freeze] BTreeMap<K, V>;
}

sets! {
    HashSet: [T: Freeze + Eq + Hash, S: BuildHasher + Default] HashSet<T, S>;
    HashSet: [T: Freeze + Eq + Hash, S: BuildHasher + Default] hashbrown::HashSet<T, S>;
    BTreeSet: [T: Freeze + Ord] BTreeSet<T>;
}
