//! Connections to servers that are unreachable or answer late.
#![allow(clippy::disallowed_methods)]

mod common;

use common::{Client, PATIENCE, Place, eventually, startup};
use std::io::{self, Read};
use std::net::{TcpListener, TcpStream};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::thread;
use std::time::{Duration, Instant};

/// A client that has sent its startup packet and needs a server.
fn client_of(place: &Place, database: &str) -> Client {
    let mut client = Client::new(TcpStream::connect(("127.0.0.1", place.port)).unwrap());
    client.send(&startup(database));
    client
}

/// The first bytes that a pooler sends to a server.
fn first_bytes(mut stream: impl Read) -> Vec<u8> {
    let mut bytes = [0; 1024];
    let count = stream.read(&mut bytes).unwrap();
    bytes[..count].to_vec()
}

#[test]
fn a_server_is_found_by_name() {
    let server = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = server.local_addr().unwrap().port();
    let place = Place::new(&format!(
        "[databases]\nnamed = host=localhost port={port} user=postgres"
    ));
    let _pooler = place.start();
    let _client = client_of(&place, "named");
    // If localhost is also ::1, no server listens there, and the next address is tried.
    let (stream, _) = server.accept().unwrap();
    assert!(!first_bytes(stream).is_empty());
}

#[test]
fn a_server_that_refuses_is_named_in_the_log() {
    let closed = TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap();
    let place = Place::new(&format!(
        "[databases]\nclosed = host=127.0.0.1 port={} user=postgres",
        closed.port()
    ));
    let _pooler = place.start();
    let _client = client_of(&place, "closed");
    eventually("the failure is logged", || {
        place
            .log()
            .contains(&format!("WARNING connect to {closed} failed: Connection refused"))
            && place.log().contains("closing because: connect failed")
    });
}

#[test]
fn a_full_queue_of_a_unix_socket_is_waited_for() {
    let place = Place::new("");
    let dir = place.file("");
    place.configure(&format!(
        "[databases]\nfull = host={} port=9 user=postgres",
        dir.display()
    ));
    let path = place.file(".s.PGSQL.9");
    let server = UnixListener::bind(&path).unwrap();
    place.give(&path);
    rustix::net::listen(&server, 0).unwrap();
    let fillers = fill(&path);
    let _pooler = place.start();
    let _client = client_of(&place, "full");
    thread::sleep(Duration::from_millis(200));
    assert!(!place.log().contains("connect failed"), "{}", place.log());
    for _ in &fillers {
        server.accept().unwrap();
    }
    server.set_nonblocking(true).unwrap();
    let started = Instant::now();
    let stream = loop {
        match server.accept() {
            Ok((stream, _)) => break stream,
            Err(e) if e.kind() == io::ErrorKind::WouldBlock && started.elapsed() < PATIENCE => {
                thread::sleep(Duration::from_millis(10));
            }
            Err(e) => panic!("the pooler did not come back: {e}"),
        }
    };
    stream.set_nonblocking(false).unwrap();
    assert!(!first_bytes(stream).is_empty());
}

/// Opens connections until the socket's queue is full.
fn fill(path: &std::path::Path) -> Vec<std::os::fd::OwnedFd> {
    use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
    let address = SocketAddrUnix::new(path).unwrap();
    let mut connected = Vec::new();
    loop {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None).unwrap();
        match rustix::net::connect(&socket, &address) {
            Ok(()) => connected.push(socket),
            Err(rustix::io::Errno::AGAIN) => return connected,
            Err(e) => panic!("{e}"),
        }
    }
}

#[test]
fn an_abstract_socket_is_listened_on_and_connected_to() {
    let name = format!("pgweir-test-{}", std::process::id());
    let place = Place::new(&format!("unix_socket_dir = @{name}"));
    let _pooler = place.start();
    let address = SocketAddr::from_abstract_name(format!("{name}/.s.PGSQL.{}", place.port));
    assert!(UnixStream::connect_addr(&address.unwrap()).is_ok());
}
