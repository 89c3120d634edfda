//! Guards against sequences of events that the pooler's core does not survive: a panic or failed assertion, words of
//! its own in the middle of a message, bytes for the wrong or a dead connection, a request for one that is gone, more
//! servers than a pool may have, a link with one end, a message that nobody will ever answer, and talk without end.
//!
//! The input is a story that can be read and written as text: see `pgweir_fuzz::moves`.
#![no_main]

libfuzzer_sys::fuzz_target!(|story: &[u8]| pgweir_fuzz::moves::tell(story));
