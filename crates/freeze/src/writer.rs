//! Writing.

use foldhash::fast::RandomState;
use std::collections::HashMap;

/// Bytes that are being written, and the shared values that they contain.
#[derive(Debug, Default)]
pub struct Writer {
    bytes: Vec<u8>,
    /// Address of a shared value -> its number, counted from 1.
    shared: HashMap<usize, u64, RandomState>,
}

impl Writer {
    /// Everything that was written.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// Writes a number, small ones in few bytes.
    pub fn number(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.bytes.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.bytes.push(number as u8);
    }

    /// Writes bytes whose number the reader knows.
    pub fn raw(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Writes bytes and their number.
    pub fn bytes(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as u64);
        self.raw(bytes);
    }

    /// Writes which shared value is at this address; 0 for a value that has not been written before. Returns
    /// whether it has.
    pub fn reference(&mut self, address: usize) -> bool {
        let number = self.shared.get(&address).copied().unwrap_or(0);
        self.number(number);
        number > 0
    }

    /// Notes that the shared value at this address has been written.
    pub(crate) fn share(&mut self, address: usize) {
        let number = self.shared.len() as u64 + 1;
        self.shared.insert(address, number);
    }
}
