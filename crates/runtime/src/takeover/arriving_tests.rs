use super::*;
use std::os::unix::net::UnixListener;

const SOON: Duration = Duration::from_millis(50);

/// The path of a socket of this test.
struct Place(String);

impl Place {
    fn new(name: &str) -> Place {
        let path = std::env::temp_dir().join(format!("pgweir-{}-{name}", std::process::id()));
        Place(path.to_str().unwrap().into())
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[test]
fn only_the_same_user_and_root_are_trusted() {
    let [root, one, two] = [0, 1000, 1001].map(Uid::from_raw);
    assert!(is_trusted(one, one) && is_trusted(root, one));
    assert!(!is_trusted(two, one) && !is_trusted(one, root));
}

#[test]
fn a_process_of_another_user_is_neither_asked_nor_believed() {
    let place = Place::new("stranger");
    let gate = UnixListener::bind(&place.0).unwrap();
    let own = Uid::from_raw(geteuid().as_raw() + 1);
    match Predecessor::of_user(&place.0, own, SOON) {
        // Everybody trusts root.
        Ok(Some(_)) => assert!(geteuid().is_root()),
        Err(StartError::ForeignPredecessor { user, .. }) => {
            assert_eq!(user, geteuid().as_raw());
            let (mut stream, _) = gate.accept().unwrap();
            let said = io::Read::read(&mut stream, &mut [0; 8]).unwrap();
            assert_eq!(said, 0, "nothing is said to it");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn there_may_be_nobody() {
    let place = Place::new("nobody");
    assert!(matches!(Predecessor::at(&place.0), Ok(None)));
    drop(UnixListener::bind(&place.0).unwrap());
    assert!(matches!(Predecessor::at(&place.0), Ok(None)));
}

/// It neither accepts connections nor sends anything.
#[test]
fn a_silent_process_is_given_up() {
    let place = Place::new("silent");
    let gate = UnixListener::bind(&place.0).unwrap();
    let mut predecessor = Predecessor::of_user(&place.0, geteuid(), SOON).unwrap().unwrap();
    assert!(predecessor.inherit().is_err());
    rustix::net::listen(&gate, 0).unwrap();
    let mut waiting = Vec::new();
    let refused = loop {
        match Predecessor::of_user(&place.0, geteuid(), SOON) {
            Ok(predecessor) => waiting.push(predecessor),
            Err(refused) => break refused,
        }
        assert!(waiting.len() < 10, "the queue is full");
    };
    assert!(refused.to_string().contains("does not answer"), "{refused}");
}

/// Byte by byte, each in time, and never a whole message.
#[test]
fn a_message_must_be_complete_in_time() {
    let (one, two) = UnixStream::pair().unwrap();
    let mut channel = Channel::new(one, Duration::from_millis(200)).unwrap();
    let drip = std::thread::spawn(move || {
        let message = [b'S', 200, 0, 0, 0, 0, 0, 0, 0];
        let mut stream = two;
        for byte in message.into_iter().chain([0; 60]) {
            if stream.write_all(&[byte]).is_err() {
                return true;
            }
            std::thread::park_timeout(Duration::from_millis(50));
        }
        false
    });
    assert!(channel.receive().is_err());
    drop(channel);
    assert!(drip.join().unwrap(), "it was given up before the end");
}

#[test]
fn what_is_called_a_listening_socket_must_be_one() {
    let mut inherited = Inherited::default();
    let (one, _other) = UnixStream::pair().unwrap();
    let not_one = inherited.take_listeners(b"tcp 127.0.0.1:1", vec![one.into()]);
    assert!(not_one.is_err());
    let blocking = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let kept = blocking.try_clone().unwrap();
    inherited
        .take_listeners(b"tcp 127.0.0.1:1", vec![blocking.into()])
        .unwrap();
    assert_eq!(kept.accept().unwrap_err().kind(), io::ErrorKind::WouldBlock);
}

/// A predecessor that has died after it had handed over everything, and the socket by which it could say that it went
/// on.
fn dead_predecessor() -> (Predecessor, UnixStream) {
    let mut child = std::process::Command::new("true").spawn().unwrap();
    let pid = Pid::from_child(&child);
    child.wait().unwrap();
    let (goes_on, ours) = UnixStream::pair().unwrap();
    let predecessor = Predecessor {
        channel: Channel::new(UnixStream::pair().unwrap().0, SOON).unwrap(),
        pid: Some(pid),
        goes_on: Some(ours),
    };
    (predecessor, goes_on)
}

/// Its state is out of date: its clients may have begun transactions since.
#[test]
fn a_process_that_went_on_and_died_leaves_no_connections() {
    let (mut predecessor, mut goes_on) = dead_predecessor();
    goes_on.write_all(&[1]).unwrap();
    drop(goes_on);
    assert!(predecessor.take_place(true).is_err());
    // Listening sockets have no state.
    assert!(predecessor.take_place(false).is_ok());
    let (mut predecessor, _goes_on) = dead_predecessor();
    predecessor.goes_on = None;
    assert!(predecessor.take_place(true).is_err(), "nothing is known of it");
}

#[test]
fn the_connections_of_a_process_that_died_waiting_are_taken_over() {
    let (mut predecessor, goes_on) = dead_predecessor();
    drop(goes_on);
    assert!(predecessor.take_place(true).is_ok());
}
