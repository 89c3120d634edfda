//! Messages between the two processes: a kind, a length, bytes, and descriptors with them.

use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
};
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// Bytes before each message: its kind and its length.
const HEADER_BYTES: usize = 9;

/// The longest message, bytes.
const MESSAGE_BYTES_MAX: u64 = 16 << 30;

/// The most bytes for which room is made before they arrive.
const ROOM_BYTES: u64 = 1 << 20;

/// A message is sent in parts of this many bytes, so that the limit of time for everything is noticed.
const PART_BYTES: usize = 64 << 10;

/// The most descriptors with one message.
pub(super) const DESCRIPTORS_MAX: usize = 253;

/// Kinds of messages. They never change: a process may be of any version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// The old process hands nothing over; the text says why.
    Refused = b'N' as isize,
    /// Listening sockets, a line of text for each.
    Listeners = b'L' as isize,
    /// The present time.
    Clock = b'T' as isize,
    /// The frozen core.
    State = b'S' as isize,
    /// Connections.
    Connections = b'C' as isize,
    /// The end of the list, with a socket that has a byte to read as soon as the old process has gone on.
    End = b'E' as isize,
    /// The new process can take over everything.
    Ready = b'R' as isize,
    /// The new process can take over only the listening sockets.
    ReadyToListen = b'r' as isize,
    /// The old process has stopped.
    Go = b'G' as isize,
}

const KINDS: [Kind; 9] = [
    Kind::Refused,
    Kind::Listeners,
    Kind::Clock,
    Kind::State,
    Kind::Connections,
    Kind::End,
    Kind::Ready,
    Kind::ReadyToListen,
    Kind::Go,
];

/// A message.
#[derive(Debug)]
pub(super) struct Message {
    pub(super) kind: Kind,
    pub(super) bytes: Vec<u8>,
    pub(super) descriptors: Vec<OwnedFd>,
}

/// One end of the channel. Its calls block up to a time limit: to receive a whole message, and to send each part of
/// one.
#[derive(Debug)]
pub(super) struct Channel {
    stream: UnixStream,
    wait_max: Duration,
    /// From then on nothing is sent.
    ends: Option<Instant>,
}

/// A stream that is read until a moment.
struct Until<'s>(&'s UnixStream, Instant);

impl Until<'_> {
    /// The next call that reads from the stream ends in time.
    fn limit(&self) -> io::Result<()> {
        let left = self.1.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.0.set_read_timeout(Some(left))
    }
}

impl Read for Until<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.limit()?;
        self.0.read(bytes)
    }
}

impl Channel {
    pub(super) fn new(stream: UnixStream, wait_max: Duration) -> io::Result<Self> {
        stream.set_nonblocking(false)?;
        stream.set_read_timeout(Some(wait_max))?;
        stream.set_write_timeout(Some(wait_max))?;
        Ok(Channel {
            stream,
            wait_max,
            ends: None,
        })
    }

    /// Tells a process that it does not take over, and why.
    pub(super) fn refuse(stream: UnixStream, wait_max: Duration, why: &str) {
        if let Ok(mut channel) = Channel::new(stream, wait_max) {
            let _ = channel.send(Kind::Refused, why.as_bytes(), &[]);
        }
    }

    /// The same channel, with a limit for everything that is sent.
    pub(super) fn within(mut self, time: Duration) -> Self {
        self.ends = Some(Instant::now() + time);
        self
    }

    /// Nothing more may be sent if the time is over.
    fn check_time(&self) -> io::Result<()> {
        match self.ends {
            Some(ends) if Instant::now() >= ends => {
                let text = "handing over the state has taken too long, and no client is served meanwhile";
                Err(io::Error::new(io::ErrorKind::TimedOut, text))
            }
            _ => Ok(()),
        }
    }

    /// The stream itself, for the bytes before the first message.
    pub(super) fn stream(&mut self) -> &mut UnixStream {
        &mut self.stream
    }

    pub(super) fn send(&mut self, kind: Kind, bytes: &[u8], descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
        self.check_time()?;
        let mut header = [kind as u8; HEADER_BYTES];
        header[1..].copy_from_slice(&(bytes.len() as u64).to_le_bytes());
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !descriptors.is_empty() && !control.push(SendAncillaryMessage::ScmRights(descriptors)) {
            return Err(io::Error::other("too many descriptors in one message"));
        }
        let sent = rustix::net::sendmsg(
            &self.stream,
            &[IoSlice::new(&header)],
            &mut control,
            SendFlags::NOSIGNAL,
        )?;
        // The descriptors were sent with the first byte.
        self.stream.write_all(&header[sent..])?;
        for part in bytes.chunks(PART_BYTES) {
            self.check_time()?;
            self.stream.write_all(part)?;
        }
        Ok(())
    }

    pub(super) fn receive(&mut self) -> io::Result<Message> {
        let mut stream = Until(&self.stream, Instant::now() + self.wait_max);
        let mut header = [0; HEADER_BYTES];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        // A signal interrupts a call that has a time limit, although its handler asks for a restart (signal(7)).
        let received = loop {
            stream.limit()?;
            let mut header = [IoSliceMut::new(&mut header)];
            match rustix::net::recvmsg(&self.stream, &mut header, &mut control, RecvFlags::CMSG_CLOEXEC) {
                Err(Errno::INTR) => {}
                other => break other?.bytes,
            }
        };
        let mut descriptors = Vec::new();
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(rights) = message {
                descriptors.extend(rights);
            }
        }
        if received == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        stream.read_exact(&mut header[received..])?;
        let [kind, length @ ..] = header;
        let kind = KINDS.into_iter().find(|known| *known as u8 == kind);
        let length = u64::from_le_bytes(length);
        let Some(kind) = kind.filter(|_| length <= MESSAGE_BYTES_MAX) else {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "an unknown message"));
        };
        let mut bytes = Vec::with_capacity(length.min(ROOM_BYTES) as usize);
        stream.take(length).read_to_end(&mut bytes)?;
        if bytes.len() as u64 != length {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(Message {
            kind,
            bytes,
            descriptors,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    fn channels() -> (Channel, Channel) {
        let (a, b) = UnixStream::pair().unwrap();
        let wait_max = Duration::from_secs(5);
        (Channel::new(a, wait_max).unwrap(), Channel::new(b, wait_max).unwrap())
    }

    #[test]
    fn descriptors_come_with_their_own_message() {
        let (mut a, mut b) = channels();
        let (one, two) = UnixStream::pair().unwrap();
        a.send(Kind::State, b"before", &[]).unwrap();
        a.send(Kind::Connections, b"with", &[one.as_fd(), two.as_fd()]).unwrap();
        a.send(Kind::End, b"", &[]).unwrap();
        let counts: Vec<_> = (0..3).map(|_| b.receive().unwrap()).collect();
        assert_eq!(counts[0].bytes, b"before");
        assert_eq!(
            counts.iter().map(|m| m.descriptors.len()).collect::<Vec<_>>(),
            [0, 2, 0]
        );
        let mut passed = UnixStream::from(counts.into_iter().nth(1).unwrap().descriptors.remove(0));
        passed.write_all(b"x").unwrap();
        let mut byte = [0];
        (&two).read_exact(&mut byte).unwrap();
        assert_eq!(byte, *b"x");
    }

    /// The other side goes on reading, so that no single call waits for long.
    #[test]
    fn everything_together_must_be_sent_in_time() {
        let (a, mut b) = channels();
        let mut a = a.within(Duration::from_millis(200));
        let reads = std::thread::spawn(move || {
            let mut part = [0; PART_BYTES];
            while let Ok(1..) = b.stream.read(&mut part) {
                std::thread::park_timeout(Duration::from_millis(5));
            }
        });
        let begun = Instant::now();
        let too_long = a.send(Kind::State, &vec![0; 1 << 30], &[]).unwrap_err();
        assert_eq!(too_long.kind(), io::ErrorKind::TimedOut);
        assert!(begun.elapsed() < Duration::from_secs(4), "{:?}", begun.elapsed());
        assert!(a.send(Kind::End, &[], &[]).is_err());
        drop(a);
        reads.join().unwrap();
    }

    #[test]
    fn rubbish_and_the_end_are_errors() {
        let (a, mut b) = channels();
        (&a.stream).write_all(b"GET / HTTP/1.1\r\n").unwrap();
        assert_eq!(b.receive().unwrap_err().kind(), io::ErrorKind::InvalidData);
        let (mut a, mut b) = channels();
        a.send(Kind::State, b"123", &[]).unwrap();
        drop(a);
        assert!(b.receive().is_ok() && b.receive().is_err());
        let (a, mut b) = channels();
        (&a.stream).write_all(&[b'S', 200, 0, 0, 0, 0, 0, 0, 0, 1]).unwrap();
        drop(a);
        assert_eq!(b.receive().unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }
}
