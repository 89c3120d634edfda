//! Which parts of an outbox are written together, and when.

use super::*;
use crate::transport::Transport;
use pgweir_config::IoUringChoice;
use pgweir_core::ids::Slot;
use pgweir_core::{ClientId, ServerId, Source};
use std::io::Read;
use std::os::unix::net::UnixStream;

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

/// Connections whose output waits for the end of the turn, with the other sides of their sockets; `None` where the kernel
/// has no io_uring.
fn collecting(count: u32) -> Option<(Connections, Vec<UnixStream>)> {
    let poll = mio::Poll::new().unwrap();
    let mut connections = Connections::new(poll.registry().try_clone().unwrap());
    connections.sends.open(IoUringChoice::On).ok()?;
    let others = (0..count).map(|index| {
        let (here, there) = UnixStream::pair().unwrap();
        here.set_nonblocking(true).unwrap();
        there.set_nonblocking(true).unwrap();
        let connection = Connection::new(Transport::new(here.into()), 0);
        connections.insert(client(index), connection);
        there
    });
    let others = others.collect();
    Some((connections, others))
}

fn client(index: u32) -> ConnectionId {
    ClientId(Slot { index, generation: 0 }).into()
}

fn read(socket: &mut UnixStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    let _ = socket.read_to_end(&mut bytes);
    bytes
}

#[test]
fn output_waits_for_the_end_of_the_turn() {
    let Some((mut connections, mut others)) = collecting(2) else {
        return;
    };
    connections.write_bytes(client(0), b"zero");
    connections.write_bytes(client(1), b"one");
    assert_eq!(read(&mut others[0]), b"");
    connections.send_queued();
    assert_eq!(read(&mut others[0]), b"zero");
    assert_eq!(read(&mut others[1]), b"one");
    // A single send, and output that is too long to wait.
    connections.write_bytes(client(0), b"again");
    connections.send_queued();
    assert_eq!(read(&mut others[0]), b"again");
    connections.write_bytes(client(1), &[7; 5000]);
    assert_eq!(read(&mut others[1]), [7; 5000]);
}

/// Guards against output that overtakes what was written to the same connection before it.
#[test]
fn output_of_one_connection_keeps_its_order() {
    let long = [b'x'; 5000];
    type Write = fn(&mut Connections, ConnectionId);
    let ways: [(Write, &[u8]); 5] = [
        (|c, id| c.write_bytes(id, b"second"), b"firstsecond"),
        (
            |c, id| c.write_slices(id, &[IoSlice::new(b"sec"), IoSlice::new(b"ond")]),
            b"firstsecond",
        ),
        (|c, id| c.write_to_socket(id, b"second"), b"firstsecond"),
        (|c, id| c.write_records(id, b"second"), b"firstsecond"),
        (
            |c, id| c.write_bytes(id, &[b'x'; 5000]),
            &[b"first", &long[..]].concat(),
        ),
    ];
    for (write, expected) in ways {
        let Some((mut connections, mut others)) = collecting(2) else {
            return;
        };
        connections.write_bytes(client(1), b"other");
        connections.write_bytes(client(0), b"first");
        write(&mut connections, client(0));
        connections.send_queued();
        assert_eq!(read(&mut others[0]), expected);
        assert_eq!(read(&mut others[1]), b"other");
    }
}

/// Guards against a last message that is lost with its connection, or sent to the next one with the same descriptor.
#[test]
fn output_of_a_connection_that_is_removed_is_sent() {
    let Some((mut connections, mut others)) = collecting(2) else {
        return;
    };
    connections.write_bytes(client(1), b"other");
    connections.write_bytes(client(0), b"goodbye");
    drop(connections.remove(client(0)));
    assert_eq!(read(&mut others[0]), b"goodbye");
    connections.send_queued();
    assert_eq!(read(&mut others[1]), b"other");
}

/// Guards against output that is lost or sent twice where a socket takes only a part of it.
#[test]
fn what_a_socket_does_not_take_waits_for_room() {
    let Some((mut connections, mut others)) = collecting(2) else {
        return;
    };
    let mut expected = Vec::new();
    for piece in 0..2000u32 {
        let bytes = piece.to_be_bytes().repeat(100);
        connections.write_bytes(client(1), b".");
        connections.write_bytes(client(0), &bytes);
        connections.send_queued();
        assert_eq!(read(&mut others[1]), b".");
        expected.extend_from_slice(&bytes);
    }
    assert!(connections.are_congested() && connections.pending_bytes(client(0)) > 0);
    let mut got = Vec::new();
    while connections.are_congested() {
        got.extend(read(&mut others[0]));
        connections.flush(client(0));
    }
    got.extend(read(&mut others[0]));
    assert!(got == expected, "{} bytes of {}", got.len(), expected.len());
}

/// A broken connection is found out at the end of the turn, and what is written to it afterwards is dropped.
#[test]
fn a_broken_connection_fails_alone() {
    let Some((mut connections, mut others)) = collecting(2) else {
        return;
    };
    drop(others.remove(0));
    for _ in 0..2 {
        connections.write_bytes(client(0), b"lost");
        connections.write_bytes(client(1), b"kept");
        connections.send_queued();
    }
    assert!(connections.get(client(0)).unwrap().facts.has(Facts::WRITE_FAILED));
    assert_eq!(connections.ready, [client(0)]);
    assert_eq!(read(&mut others[0]), b"keptkept");
}
