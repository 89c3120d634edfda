//! Access to files. This crate opens none; the caller gives it their contents.

use std::io;

/// Returns the bytes of a file, by the name that the configuration uses for it.
///
/// Names are passed as written: relative ones are relative to the working directory of the process, as in PgBouncer.
/// Any closure `Fn(&str) -> io::Result<Vec<u8>>` is a `FileSource`.
pub trait FileSource {
    /// The whole content of `name`.
    fn read(&self, name: &str) -> io::Result<Vec<u8>>;
}

impl<F> FileSource for F
where
    F: Fn(&str) -> io::Result<Vec<u8>>,
{
    fn read(&self, name: &str) -> io::Result<Vec<u8>> {
        self(name)
    }
}
