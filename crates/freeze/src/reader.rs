//! Reading.

use crate::Damaged;
use foldhash::fast::RandomState;
use std::any::Any;
use std::collections::HashMap;
use std::sync::Arc;

/// Bytes that are being read, and the shared values that were in them.
pub struct Reader<'b> {
    bytes: &'b [u8],
    shared: Vec<Shared>,
    words: HashMap<String, &'static str, RandomState>,
}

/// A shared value: an `Arc` in a box, and the address of its value.
struct Shared {
    arc: Box<dyn Any>,
    address: usize,
}

impl<'b> Reader<'b> {
    /// Reads from the beginning of `bytes`.
    pub fn new(bytes: &'b [u8]) -> Self {
        Reader {
            bytes,
            shared: Vec::new(),
            words: HashMap::default(),
        }
    }

    /// Whether everything has been read.
    pub fn is_at_end(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Bytes that have not been read.
    pub fn remaining(&self) -> usize {
        self.bytes.len()
    }

    /// A number that [`crate::Writer::number`] has written.
    pub fn number(&mut self) -> Result<u64, Damaged> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let [byte] = self.array()?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
        Err(Damaged)
    }

    /// The number of elements that follow. It is at most the number of bytes, because each element takes
    /// at least one.
    pub fn count(&mut self) -> Result<usize, Damaged> {
        usize::try_from(self.number()?).map_err(|_| Damaged)
    }

    /// Bytes whose number is known.
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], Damaged> {
        let (array, rest) = self.bytes.split_first_chunk().ok_or(Damaged)?;
        self.bytes = rest;
        Ok(*array)
    }

    /// Bytes that [`crate::Writer::bytes`] has written.
    pub fn bytes(&mut self) -> Result<&'b [u8], Damaged> {
        let count = self.count()?;
        self.raw(count)
    }

    /// Bytes whose number is known only now.
    pub(crate) fn raw(&mut self, count: usize) -> Result<&'b [u8], Damaged> {
        let (bytes, rest) = self.bytes.split_at_checked(count).ok_or(Damaged)?;
        self.bytes = rest;
        Ok(bytes)
    }

    /// One of few words, which stay in memory until the process ends.
    pub(crate) fn word(&mut self) -> Result<&'static str, Damaged> {
        let word = std::str::from_utf8(self.bytes()?).map_err(|_| Damaged)?;
        if let Some(known) = self.words.get(word) {
            return Ok(known);
        }
        let leaked: &'static str = String::from(word).leak();
        self.words.insert(word.into(), leaked);
        Ok(leaked)
    }

    /// The address of the shared value that [`crate::Writer::reference`] has named; 0 if it named none.
    pub fn reference(&mut self) -> Result<usize, Damaged> {
        match self.count()? {
            0 => Ok(0),
            number => Ok(self.shared.get(number - 1).ok_or(Damaged)?.address),
        }
    }

    /// The shared value that was written here. If it has been read before, it is that one; otherwise
    /// `make` reads it.
    pub(crate) fn shared<T: ?Sized + 'static>(
        &mut self,
        make: impl FnOnce(&mut Self) -> Result<Arc<T>, Damaged>,
    ) -> Result<Arc<T>, Damaged> {
        match self.count()? {
            0 => {
                let arc = make(self)?;
                let address = Arc::as_ptr(&arc).cast::<()>() as usize;
                self.shared.push(Shared {
                    arc: Box::new(Arc::clone(&arc)),
                    address,
                });
                Ok(arc)
            }
            number => {
                let shared = self.shared.get(number - 1).ok_or(Damaged)?;
                shared.arc.downcast_ref::<Arc<T>>().cloned().ok_or(Damaged)
            }
        }
    }
}
