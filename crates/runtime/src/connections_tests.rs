//! Which parts of an outbox are written together.

use super::*;
use pgweir_core::ids::Slot;
use pgweir_core::{ClientId, ServerId, Source};

#[test]
fn parts_of_one_destination_stand_together_in_their_order() {
    let slot = Slot {
        index: 7,
        generation: 3,
    };
    let sides = [ClientId(slot).into(), ServerId(slot).into()];
    let parts: Vec<Part> = (0..1000)
        .map(|at| Part {
            to: sides[at as usize % 2],
            source: Source::Input,
            start: at,
            end: at + 1,
        })
        .collect();
    let sorted = by_destination(&parts);
    let chunks: Vec<_> = sorted.chunk_by(|a, b| a.to == b.to).collect();
    assert_eq!(chunks.len(), 2, "one write for each");
    assert!(chunks.iter().all(|parts| parts.is_sorted_by_key(|part| part.start)));
}
