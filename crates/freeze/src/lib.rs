//! State as bytes, and back: for a process that takes over the connections of another one.
//!
//! A value that several places share ([`std::sync::Arc`]) is written once, and the same places share it afterwards:
//! places that compare pointers find the same equalities as before.
//!
//! There is no version number that could be forgotten. [`Freeze::LAYOUT`] is a hash of everything that decides how a
//! type is written: names of fields and variants, their order, and the layouts of their types. Both processes must have
//! the same layout. The bytes are trusted to come from such a process; nevertheless, no bytes make thawing panic, or
//! allocate more than a small multiple of their number.
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate self as pgweir_freeze;

mod collections;
mod foreign;
mod plain;
mod reader;
mod shared;
mod writer;

pub use pgweir_freeze_derive::Freeze;
pub use reader::Reader;
pub use writer::Writer;

/// The bytes cannot have been written by the same layout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Damaged;

/// A type whose values can be written as bytes and read again.
pub trait Freeze: Sized {
    /// A hash of how the type is written.
    const LAYOUT: u64;

    /// Writes the value.
    fn freeze(&self, out: &mut Writer);

    /// Reads a value that [`Freeze::freeze`] has written.
    fn thaw(from: &mut Reader<'_>) -> Result<Self, Damaged>;

    /// Writes values one after the other. Bytes are written at once.
    fn freeze_slice(values: &[Self], out: &mut Writer) {
        values.iter().for_each(|value| value.freeze(out));
    }

    /// Reads as many values as [`Freeze::freeze_slice`] has written. Each takes at least one byte.
    fn thaw_vec(from: &mut Reader<'_>, count: usize) -> Result<Vec<Self>, Damaged> {
        if count > from.remaining() {
            return Err(Damaged);
        }
        let mut all = Vec::with_capacity(count.min(ROOM_MAX));
        for _ in 0..count {
            all.push(Self::thaw(from)?);
        }
        Ok(all)
    }
}

/// The most elements for which room is made before they are read.
const ROOM_MAX: usize = 1024;

/// The prime number of FNV-1a with 64 bits.
const PRIME: u64 = 0x100_0000_01b3;

/// The layout of a type that consists of no other types.
pub const fn layout(text: &str) -> u64 {
    let bytes = text.as_bytes();
    let mut hash = 0xcbf2_9ce4_8422_2325;
    let mut at = 0;
    while at < bytes.len() {
        hash = (hash ^ bytes[at] as u64).wrapping_mul(PRIME);
        at += 1;
    }
    hash
}

/// The layout of a type that consists of others, which are mixed in one after the other.
pub const fn mix(layout: u64, part: u64) -> u64 {
    (layout.rotate_left(7) ^ part).wrapping_mul(PRIME)
}

/// The value as bytes.
pub fn to_bytes<T: Freeze>(value: &T) -> Vec<u8> {
    let mut out = Writer::default();
    value.freeze(&mut out);
    out.into_bytes()
}

/// The value that [`to_bytes`] has written. Bytes after it are an error.
pub fn from_bytes<T: Freeze>(bytes: &[u8]) -> Result<T, Damaged> {
    let mut from = Reader::new(bytes);
    let value = T::thaw(&mut from)?;
    if from.is_at_end() { Ok(value) } else { Err(Damaged) }
}

#[cfg(test)]
mod tests;
