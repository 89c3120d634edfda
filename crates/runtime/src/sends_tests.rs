//! Sends to real sockets. Where the kernel has no io_uring, a test that needs it ends when it has found that out.

use super::*;
use pgweir_core::ClientId;
use pgweir_core::ids::Slot;
use std::io::Read;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;

fn id(index: u32) -> ConnectionId {
    ClientId(Slot { index, generation: 0 }).into()
}

fn sends() -> Option<Sends> {
    let mut sends = Sends::default();
    sends.open(IoUringChoice::On).ok().map(|_| sends)
}

fn pair() -> (UnixStream, UnixStream) {
    let (here, there) = UnixStream::pair().unwrap();
    here.set_nonblocking(true).unwrap();
    (here, there)
}

fn outcomes(sends: &Sends) -> Vec<Option<Sent>> {
    (0..sends.len()).map(|index| sends.outcome(index)).collect()
}

#[test]
fn each_connection_gets_its_bytes() {
    let Some(mut sends) = sends() else { return };
    let mut pairs: Vec<_> = (0..SENDS_MAX).map(|_| pair()).collect();
    for turn in 0..3u8 {
        for (index, (here, _)) in pairs.iter().enumerate() {
            let has_room = sends.push(id(index as u32), here.as_raw_fd(), &[turn, index as u8]);
            assert_eq!(has_room, index + 1 < SENDS_MAX);
        }
        sends.carry_out();
        assert!(outcomes(&sends).iter().all(|sent| *sent == Some(Sent::Bytes(2))));
        assert_eq!(sends.get(5), (id(5), &[turn, 5][..]));
        sends.clear();
        assert_eq!(sends.len(), 0);
        for (index, (_, there)) in pairs.iter_mut().enumerate() {
            let mut got = [0; 2];
            there.read_exact(&mut got).unwrap();
            assert_eq!(got, [turn, index as u8]);
        }
    }
}

/// Guards against a send that waits in the kernel until its socket has room: the bytes would no longer be there.
#[test]
fn a_socket_without_room_and_one_that_is_closed_hold_nobody_up() {
    let Some(mut sends) = sends() else { return };
    let (full, _unread) = pair();
    while rustix::net::send(&full, &[1; 4096], rustix::net::SendFlags::DONTWAIT).is_ok() {}
    let (broken, gone) = pair();
    drop(gone);
    let (good, mut reads) = pair();
    for (index, socket) in [&full, &broken, &good].into_iter().enumerate() {
        sends.push(id(index as u32), socket.as_raw_fd(), b"hello");
    }
    sends.carry_out();
    let expected = [Sent::Bytes(0), Sent::Failed, Sent::Bytes(5)].map(Some);
    assert_eq!(outcomes(&sends), expected);
    let mut got = [0; 5];
    reads.read_exact(&mut got).unwrap();
    assert_eq!(&got, b"hello");
}

/// Without io_uring, and after it has been given up, what waits is still there to be sent.
#[test]
fn what_the_kernel_was_not_given_has_yet_to_be_sent() {
    let (here, _there) = pair();
    let mut sends = Sends::default();
    assert!(!sends.takes(1));
    sends.push(id(1), here.as_raw_fd(), b"one");
    sends.carry_out();
    assert_eq!(outcomes(&sends), [None]);
    let Some(mut sends) = self::sends() else { return };
    sends.push(id(1), here.as_raw_fd(), b"one");
    sends.push(id(2), here.as_raw_fd(), b"two");
    sends.outcomes = vec![Outcome::NotGiven; 2];
    let ring = sends.ring.as_mut().unwrap();
    assert_eq!(enqueue(ring, &sends.waiting, &sends.bytes), 2);
    sends.give_up(2, io::Error::from_raw_os_error(libc::ENOMEM));
    assert_eq!(outcomes(&sends), [None, None]);
    assert!(!sends.takes(1) && sends.take_failure().is_some() && sends.take_failure().is_none());
}

/// Guards against bytes that are sent twice: the kernel was given the first send and did not say what it did.
#[test]
fn what_the_kernel_may_have_sent_is_not_sent_again() {
    let Some(mut sends) = sends() else { return };
    let (here, _there) = pair();
    sends.push(id(1), here.as_raw_fd(), b"one");
    sends.push(id(2), here.as_raw_fd(), b"two");
    sends.outcomes = vec![Outcome::NotGiven; 2];
    let ring = sends.ring.as_mut().unwrap();
    assert_eq!(enqueue(ring, &sends.waiting[..1], &sends.bytes), 1);
    ring.submit().unwrap();
    sends.give_up(1, io::Error::from_raw_os_error(libc::ENOMEM));
    assert_eq!(outcomes(&sends), [Some(Sent::Failed), None]);
    assert_eq!(sends.get(1), (id(2), &b"two"[..]));
}
