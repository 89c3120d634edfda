//! Collections.

use crate::{Damaged, Freeze, Reader, Writer, layout, mix};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::hash::{BuildHasher, Hash};

/// Writes the number of elements, and the elements.
fn freeze_all<'a, T: Freeze + 'a>(elements: impl ExactSizeIterator<Item = &'a T>, out: &mut Writer) {
    out.number(elements.len() as u64);
    elements.for_each(|element| element.freeze(out));
}

/// The same, of elements that lie side by side.
pub(crate) fn freeze_slice<T: Freeze>(elements: &[T], out: &mut Writer) {
    out.number(elements.len() as u64);
    T::freeze_slice(elements, out);
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
        freeze_slice(self, out);
    }

    fn thaw(from: &mut Reader<'_>) -> Result<Self, Damaged> {
        let count = from.count()?;
        T::thaw_vec(from, count)
    }
}

impl<T: Freeze> Freeze for Box<[T]> {
    const LAYOUT: u64 = mix(layout("Box[]"), T::LAYOUT);

    fn freeze(&self, out: &mut Writer) {
        freeze_slice(self, out);
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
