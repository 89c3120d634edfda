//! The keys by which clients cancel their queries.
//!
//! The keys of a process with a `peer_id` tell its peers where to pass a cancel request on. The format is PgBouncer's,
//! so that both can be peers. A key has eight bytes, first the process id and then the secret:
//!
//! ```text
//!   0      1      2      3      4      5      6      7
//! 0....... peer   peer   ...... ...... ...... ...... ......hh
//!          low    high                                     hops left
//! ```
//!
//! The other bits identify the key: 15 of the process id and 30 of the secret.

use pgweir_wire::CancelKey;

/// Bytes of the secret under protocol 3.0, which allows no other length.
pub(crate) const SECRET_BYTES_V3_0: usize = 4;

/// Bytes of the secret under protocol 3.2.
pub(crate) const SECRET_BYTES_V3_2: usize = 32;

/// The bits of a secret's last byte that say how often a cancel request may still be passed on. A client's key has all
/// of them set.
const HOPS_MASK: u8 = 0x03;

/// The format of a client's key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, pgweir_freeze::Freeze)]
pub(crate) enum KeyForm {
    /// Protocol 3.0.
    Short,
    /// Protocol 3.2.
    Long,
    /// The key names this process to its peers. Under protocol 3.2 it is short, too, because PgBouncer accepts no
    /// other.
    Peered,
}

impl KeyForm {
    /// The secret for a client. `bytes` are its random bytes.
    pub(crate) fn secret(self, bytes: &[u8; SECRET_BYTES_V3_2]) -> Box<[u8]> {
        let mut secret = match self {
            KeyForm::Long => bytes.to_vec(),
            KeyForm::Short | KeyForm::Peered => bytes[..SECRET_BYTES_V3_0].to_vec(),
        };
        if self == KeyForm::Peered {
            with_all_hops(&mut secret);
        }
        secret.into()
    }

    /// The secret of a cancel request as its client was told it. The processes that have passed the request on have
    /// changed the hops in it.
    pub(crate) fn as_told(self, secret: &[u8]) -> Box<[u8]> {
        let mut secret = secret.to_vec();
        if self == KeyForm::Peered {
            with_all_hops(&mut secret);
        }
        secret.into()
    }
}

fn with_all_hops(secret: &mut [u8]) {
    if let Some(last) = secret.last_mut() {
        *last |= HOPS_MASK;
    }
}

/// A process id that names a peer. `own` is the client's number; only its last bits are used.
pub(crate) fn peered_process_id(peer_id: u32, own: u32) -> u32 {
    let own = own % PEERED_IDS;
    // The first byte is never 0: every id is above those of PostgreSQL on Linux.
    let (first, last) = (1 + own / 256, own % 256);
    first << 24 | (peer_id & 0xff) << 16 | (peer_id >> 8 & 0xff) << 8 | last
}

/// The number of process ids for one peer.
pub(crate) const PEERED_IDS: u32 = 127 * 256;

/// What becomes of a cancel request whose key belongs to no client of this process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Route {
    /// The request is dropped: the key names this process or nobody.
    Nowhere,
    /// The request has been passed on too often.
    Exhausted,
    /// The request is passed on to this peer, with this key.
    Peer(u32, CancelKey),
}

impl Route {
    /// Where the request goes. `own` is the `peer_id` of this process, or 0.
    pub(crate) fn of(key: &CancelKey, own: u32) -> Route {
        let peer = (key.process_id >> 16 & 0xff) | (key.process_id >> 8 & 0xff) << 8;
        if own == 0 || peer == own || key.secret.len() != SECRET_BYTES_V3_0 {
            return Route::Nowhere;
        }
        let mut key = key.clone();
        match key.secret.last_mut() {
            Some(last) if *last & HOPS_MASK > 0 => *last -= 1,
            _ => return Route::Exhausted,
        }
        Route::Peer(peer, key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(bytes: [u8; 8]) -> CancelKey {
        CancelKey::read(&bytes).unwrap()
    }

    /// PgBouncer's bytes: the peer in the second and third, the hops in the last bits of the last one.
    #[test]
    fn a_key_names_its_process_as_pgbouncer_does() {
        let process_id = peered_process_id(0x1234, 700);
        assert_eq!(process_id.to_be_bytes(), [3, 0x34, 0x12, 188]);
        assert_eq!(*KeyForm::Peered.secret(&[0xf0; 32]), [0xf0, 0xf0, 0xf0, 0xf3]);
        assert_eq!(*KeyForm::Short.secret(&[0xf0; 32]), [0xf0; 4]);
        assert_eq!(*KeyForm::Long.secret(&[0xf0; 32]), [0xf0; 32]);
    }

    #[test]
    fn process_ids_are_positive_and_above_those_of_postgresql() {
        let ids = (0..PEERED_IDS).map(|own| peered_process_id(16_383, own));
        let ids: std::collections::BTreeSet<u32> = ids.collect();
        assert_eq!(ids.len(), PEERED_IDS as usize);
        assert!(*ids.first().unwrap() >= 1 << 24 && *ids.last().unwrap() <= i32::MAX as u32);
    }

    /// Guards against loops: two peers that each take the key for the other's pass the request on three times, and no
    /// more.
    #[test]
    fn a_request_is_passed_on_three_times() {
        let mut request = key([5, 0x34, 0x12, 6, 1, 2, 3, 0xff]);
        for last in [0xfe, 0xfd, 0xfc] {
            let Route::Peer(peer, next) = Route::of(&request, 9) else {
                panic!("{request:?} goes nowhere");
            };
            assert_eq!((peer, &*next.secret), (0x1234, &[1, 2, 3, last][..]));
            assert_eq!(*KeyForm::Peered.as_told(&next.secret), [1, 2, 3, 0xff]);
            request = next;
        }
        assert_eq!(Route::of(&request, 9), Route::Exhausted);
    }

    #[test]
    fn what_is_ours_or_names_nobody_is_not_passed_on() {
        let request = key([5, 0x34, 0x12, 6, 1, 2, 3, 0xff]);
        assert_eq!(Route::of(&request, 0x1234), Route::Nowhere);
        assert_eq!(
            Route::of(&request, 0),
            Route::Nowhere,
            "there are no peers without a peer_id"
        );
        let long = CancelKey {
            process_id: request.process_id,
            secret: [7; 32].into(),
        };
        assert_eq!(Route::of(&long, 9), Route::Nowhere, "peers tell short keys only");
    }
}
