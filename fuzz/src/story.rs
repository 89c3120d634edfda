//! The fuzzer's bytes as a sequence of choices.

use arbitrary::Unstructured;

/// Choices, read off the front of the fuzzer's input.
///
/// Every byte means something, so that no mutation is lost; digits mean themselves and letters are the names of moves,
/// so that a seed can be written and read as text.
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

    /// One of `count` things; the first of them at the end of the story.
    pub fn pick(&mut self, count: usize) -> usize {
        usize::from(self.byte().unwrap_or(b'0').wrapping_sub(b'0')) % count.max(1)
    }

    /// One of these.
    pub fn one_of<T: Copy>(&mut self, things: &[T]) -> T {
        things[self.pick(things.len())]
    }

    /// Raw bytes: as many as the next byte says, at most `most`.
    pub fn raw(&mut self, most: usize) -> Vec<u8> {
        let count = self.pick(most + 1).min(self.bytes.len());
        self.bytes.bytes(count).map(<[u8]>::to_vec).unwrap_or_default()
    }
}
