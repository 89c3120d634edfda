//! Bytes through real sockets, against a throwaway PostgreSQL: cut into pieces, floods, slow readers, cancels.
#![allow(clippy::disallowed_methods)]

mod common;

use common::{Client, TryIt, error_text, eventually, lives, messages, startup};
use pgweir_wire::{CancelKey, StartupPacket};
use rustix::process::Signal;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

/// The pooler may grow by this much while a client does not read: buffers of one link, both directions, and slack.
const GROWTH_BYTES_MAX: usize = 8 * 1024 * 1024;

#[test]
fn a_throwaway_pooler_leaves_nothing_behind() {
    let mut it = TryIt::start(&[]);
    assert_eq!(it.client().value("select 6 * 7"), "42");
    assert!(lives(&it.folder));
    it.process.signal(Signal::INT);
    assert_eq!(it.process.wait().code(), Some(0));
    assert!(!lives(&it.folder));

    let mut it = TryIt::start(&["--pool-size", "3"]);
    it.client();
    it.process.0.kill().unwrap();
    it.process.wait();
    eventually("the folder is removed after SIGKILL", || !lives(&it.folder));
}

#[test]
fn a_throwaway_pooler_ends_with_its_server() {
    let mut it = TryIt::start(&[]);
    let pid_file = it.folder.join("data/postmaster.pid");
    let text = std::fs::read_to_string(pid_file).unwrap();
    let pid = rustix::process::Pid::from_raw(text.lines().next().unwrap().parse().unwrap()).unwrap();
    rustix::process::kill_process(pid, Signal::QUIT).unwrap();
    assert_eq!(it.process.wait().code(), Some(1));
    assert!(!lives(&it.folder));
}

#[test]
fn bytes_pass_in_any_pieces() {
    let it = TryIt::start(&["--pool-size", "2"]);
    let mut client = Client::new(TcpStream::connect(("127.0.0.1", it.port)).unwrap());
    let query = messages(|w| {
        w.parse(b"", b"select $1::text || $1::text", &[0, 0]);
        w.bind_text(b"", &[Some(b"weir")]);
        w.execute();
        w.sync();
        w.query(b"select 'the end'");
    });
    for byte in startup("postgres") {
        client.send(&[byte]);
        thread::sleep(Duration::from_millis(1));
    }
    client.finish_log_in();
    for byte in query {
        client.send(&[byte]);
        thread::sleep(Duration::from_millis(1));
    }
    let row = client.until_ready().into_iter().find(|m| m.tag == b'D').unwrap();
    assert!(row.body.ends_with(b"weirweir"));
    let row = client.until_ready().into_iter().find(|m| m.tag == b'D').unwrap();
    assert!(row.body.ends_with(b"the end"));
}

#[test]
fn a_client_that_does_not_read_costs_little_and_hurts_nobody() {
    const ROWS: usize = 100_000;
    let it = TryIt::start(&["--pool-size", "2"]);
    let mut other = it.client();
    let mut slow = it.client();
    assert_eq!(slow.value("select 1"), "1");
    let before = it.process.memory();
    slow.send(&messages(|w| {
        w.query(format!("select repeat('x', 1000) from generate_series(1, {ROWS})").as_bytes())
    }));
    let started = Instant::now();
    while started.elapsed() < Duration::from_secs(2) {
        assert_eq!(other.value("select 'still here'"), "still here");
        let growth = it.process.memory().saturating_sub(before);
        assert!(growth < GROWTH_BYTES_MAX, "grew by {growth} bytes");
    }
    let answer = slow.until_ready();
    assert_eq!(
        answer.iter().filter(|m| m.tag == b'D' && m.body.len() == 1006).count(),
        ROWS
    );
    assert_eq!(slow.value("select 2"), "2");
}

#[test]
fn both_directions_full_at_once_is_no_deadlock() {
    const QUERIES: usize = 20_000;
    let it = TryIt::start(&["--pool-size", "2"]);
    let before = it.process.memory();
    let mut client = it.client();
    let argument = vec![b'y'; 1000];
    let one = messages(|w| {
        w.parse(b"", b"select $1::text", &[0, 0]);
        w.bind_text(b"", &[Some(&argument)]);
        w.execute();
        w.sync();
    });
    let mut writing = client.stream.try_clone().unwrap();
    let writer = thread::spawn(move || (0..QUERIES).for_each(|_| writing.write_all(&one).unwrap()));
    // All buffers on the way to PostgreSQL fill up, in both directions.
    thread::sleep(Duration::from_secs(2));
    let growth = it.process.memory().saturating_sub(before);
    assert!(growth < GROWTH_BYTES_MAX, "grew by {growth} bytes");
    let mut rows = 0;
    for _ in 0..QUERIES {
        rows += client.until_ready().iter().filter(|m| m.tag == b'D').count();
    }
    writer.join().unwrap();
    assert_eq!(rows, QUERIES);
    assert_eq!(client.value("select 3"), "3");
}

#[test]
fn a_flood_of_copy_data_arrives_whole() {
    let it = TryIt::start(&["--pool-size", "2"]);
    let mut client = it.client();
    client.send(&messages(|w| {
        w.query(b"create temp table t (a text); copy t from stdin")
    }));
    loop {
        let message = client.next().unwrap().unwrap();
        assert_ne!(message.tag, b'E', "{}", error_text(&message));
        if message.tag == b'G' {
            break;
        }
    }
    let line = [vec![b'z'; 9_999], b"\n".to_vec()].concat();
    let data = messages(|w| (0..100).for_each(|_| w.message(b'd', |b| b.extend_from_slice(&line))));
    for _ in 0..50 {
        client.send(&data);
    }
    client.send(&messages(|w| w.empty(b'c')));
    let answer = client.until_ready();
    assert!(
        answer.iter().any(|m| m.tag == b'C' && m.body == b"COPY 5000\0"),
        "{answer:?}"
    );
}

#[test]
fn a_cancel_request_reaches_its_query() {
    let it = TryIt::start(&["--pool-size", "2"]);
    let mut client = it.client();
    let started = Instant::now();
    client.send(&messages(|w| w.query(b"select pg_sleep(50)")));
    thread::sleep(Duration::from_millis(300));
    let mut packet = Vec::new();
    StartupPacket::write_cancel(&mut packet, &CancelKey::read(&client.key).unwrap());
    let mut messenger = TcpStream::connect(("127.0.0.1", it.port)).unwrap();
    messenger.write_all(&packet).unwrap();
    assert_eq!(messenger.read_to_end(&mut Vec::new()).unwrap(), 0);
    let answer = client.until_ready();
    let error = answer.iter().find(|m| m.tag == b'E').unwrap();
    assert_eq!(error_text(error), "57014 canceling statement due to user request");
    assert!(started.elapsed() < Duration::from_secs(20));
    assert_eq!(client.value("select 4"), "4");
}

#[test]
fn a_client_that_leaves_the_queue_gets_no_server() {
    let it = TryIt::start(&["--pool-size", "1"]);
    let mut holder = it.client();
    holder.query("create table visits (who text)");
    holder.query("begin; select 1");
    let mut leaver = it.client();
    leaver.send(&messages(|w| w.query(b"insert into visits values ('leaver')")));
    thread::sleep(Duration::from_millis(200));
    drop(leaver);
    let mut waiter = it.client();
    waiter.send(&messages(|w| w.query(b"select count(*) from visits")));
    thread::sleep(Duration::from_millis(200));
    holder.query("commit");
    let answer = waiter.until_ready();
    let row = answer.iter().find(|m| m.tag == b'D').unwrap();
    assert!(row.body.ends_with(b"0"), "{answer:?}");
}

#[test]
fn last_words_reach_a_client_that_is_still_talking() {
    let it = TryIt::start(&["--pool-size", "1"]);
    for _ in 0..20 {
        let mut client = Client::new(TcpStream::connect(("127.0.0.1", it.port)).unwrap());
        let mut bytes = startup("no such database, anywhere");
        // More than one read takes: when a connection with unread input is closed, the kernel resets it.
        bytes.resize(300_000, b'x');
        client.send(&bytes);
        let mut last = None;
        while let Some(message) = client.next().expect("no reset") {
            last = Some(message);
        }
        assert_eq!(last.expect("a message").tag, b'E');
    }
}
