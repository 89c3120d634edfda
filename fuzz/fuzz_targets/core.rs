//! Guards against sequences of events that the pooler's core cannot handle: a panic or failed assertion, an internal
//! message in the middle of a forwarded one, bytes for a wrong or closed connection, a request for a closed one, more
//! servers than a pool may have, a link with one end, a message that is never answered, and endless output.
//!
//! The input is a story that can be read and written as text: see `pgweir_fuzz::moves`.
#![no_main]

use pgweir_fuzz::moves;

libfuzzer_sys::fuzz_target!(init: moves::prove_reach(), |story: &[u8]| {
    moves::tell(story);
});
