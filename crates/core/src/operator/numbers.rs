//! The column `id` of the console's tables: the numbers that KILL_CLIENT and SHOW SESSION take.

use crate::base::ids::{ClientId, Slot};
use crate::base::slab::Slab;
use crate::client::Client;

/// Bits of a slot's place in the column `id`. The lowest bit is 1 for servers, the others are the generation.
///
/// ```text
/// 30 ......... 21 | 20 ....... 1 | 0
///  generation     | place + 1    | is a server
/// ```
const PLACE_BITS: u32 = 20;

/// Bits of the generation in the column `id`, which must fit a positive int4.
const GENERATION_BITS: u32 = 31 - PLACE_BITS - 1;

/// The column `id`. Up to a million open connections, no two have the same id. When a place is used again its id
/// changes, so that KILL_CLIENT does not hit the new client.
pub(super) fn number(slot: Slot, is_server: bool) -> u32 {
    let place = (slot.index + 1) & ((1 << PLACE_BITS) - 1);
    let generation = slot.generation & ((1 << GENERATION_BITS) - 1);
    generation << (PLACE_BITS + 1) | place << 1 | u32::from(is_server)
}

pub(super) fn client_by_number(clients: &Slab<Client>, wanted: u32) -> Option<ClientId> {
    let place = (wanted >> 1) & ((1 << PLACE_BITS) - 1);
    let (slot, _) = clients.at_index(place.checked_sub(1)?)?;
    (number(slot, false) == wanted).then_some(ClientId(slot))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_fit_int4_and_tell_lives_and_kinds_apart() {
        let slot = |index, generation| Slot { index, generation };
        let all = [
            number(slot(0, 0), false),
            number(slot(0, 0), true),
            number(slot(0, 1), false),
            number(slot(1, 0), false),
            number(slot(999_999, 1023), true),
        ];
        for (at, id) in all.iter().enumerate() {
            assert!((1..=i32::MAX as u32).contains(id));
            assert!(!all[..at].contains(id));
        }
    }
}
