//! The fuzzer's bytes as a sequence of choices.

use arbitrary::Unstructured;

/// Choices, read from the front of the fuzzer's input.
///
/// Every byte has a meaning, so no mutation is lost. Digits mean their value, and letters are the names of moves, so a
/// seed can be written and read as text.
pub struct Story<'a> {
    bytes: Unstructured<'a>,
}

impl<'a> Story<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Story {
            bytes: Unstructured::new(bytes),
        }
    }

    /// The next byte, or `None` at the end.
    pub fn byte(&mut self) -> Option<u8> {
        if self.bytes.is_empty() {
            return None;
        }
        self.bytes.arbitrary().ok()
    }

    /// One of `count` alternatives; the first one at the end of the story.
    pub fn pick(&mut self, count: usize) -> usize {
        usize::from(self.byte().unwrap_or(b'0').wrapping_sub(b'0')) % count.max(1)
    }

    /// One of these.
    pub fn one_of<T: Copy>(&mut self, things: &[T]) -> T {
        things[self.pick(things.len())]
    }

    /// Raw bytes: their number is the next byte, at most `most`.
    pub fn raw(&mut self, most: usize) -> Vec<u8> {
        let count = self.pick(most + 1).min(self.bytes.len());
        self.bytes.bytes(count).map(<[u8]>::to_vec).unwrap_or_default()
    }
}
