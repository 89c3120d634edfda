//! Statements that mention an object which runs code: they never share a server.

use super::crowd::{SHARED, login, parse_and_run};
use crate::rig::{LOCKED, NOTHING, Rig};
use pgweir_core::{ClientId, ServerId};
use pgweir_wire::TransactionStatus::Idle;
use pgweir_wire::Writer;

/// Views over functions: one that changes a setting, one that does nothing, one that takes a lock, one that traps a
/// cancel.
const OBJECTS: [[&str; 4]; 8] = [
    ["r", "16400", "remember", "0"],
    ["v", "16500", "tricky", "16400"],
    ["r", "16401", "harmless", "0"],
    ["v", "16501", "tame", "16401"],
    ["r", "16402", "locks", "0"],
    ["v", "16502", "locked", "16402"],
    ["r", "16403", "traps", "0"],
    ["v", "16503", "trapped", "16403"],
];

const SOURCES: [[&str; 3]; 4] = [
    ["16400", "s", "select set_config('search_path', 'evil', false)"],
    ["16401", "s", "select 1"],
    ["16402", "s", "select pg_advisory_lock(1)"],
    [
        "16403",
        "p",
        "begin return 1; exception when query_canceled then return 2; end",
    ],
];

/// Two servers, and every class of statements counts as short.
pub const TWO_SERVERS: &str = "default_pool_size = 2\npipeline_depth = 8\nlink = adversarial";

const TRICKY: &str = "select x from public.tricky";

/// A client whose query runs on a server that has read the catalog.
fn first_runs(rig: &mut Rig) -> ServerId {
    rig.catalogs_are_empty = false;
    let first = login(rig);
    let server = rig.servers_log_in()[0];
    rig.tells_catalog(server, &OBJECTS, &SOURCES);
    rig.query(first, "select 'first'");
    assert_eq!(rig.told(server), ["Query select 'first'"]);
    server
}

pub fn client(rig: &mut Rig) -> ClientId {
    let id = login(rig);
    rig.told(id);
    id
}

/// Whether a server is asked what became of its session.
pub fn is_probe(told: &[String]) -> bool {
    told.iter().any(|m| m == "Bind  pgweir_6" || m == "Bind  pgweir_7")
}

type Writes = fn(&mut Writer<'_>);

/// What a client sends to run [`TRICKY`], in each form that flights have.
fn forms() -> [(&'static str, Writes); 3] {
    [
        ("Query", |w| w.query(TRICKY.as_bytes())),
        ("Parse", |w| parse_and_run(w, TRICKY)),
        ("Bind", |w| {
            w.bind_portal(b"", b"s", &[]);
            w.execute_portal(b"");
            w.sync();
        }),
    ]
}

/// The client prepares [`TRICKY`] and runs it once, so that its rows are known.
fn prepares(rig: &mut Rig, id: ClientId) {
    rig.says(id, |w| {
        w.parse(b"s", TRICKY.as_bytes(), &[0, 0]);
        w.describe(b'S', b"s");
        w.sync();
    });
    let server = rig.server_of(id).expect("the only server");
    rig.told(server);
    rig.says(server, |w| {
        w.empty(b'1');
        w.message(b't', |body| body.extend_from_slice(&[0, 0]));
        w.row_description(&[]);
        w.ready_for_query(Idle);
    });
    while !rig.answers_about(server, NOTHING).is_empty() {}
    rig.told(id);
}

fn says_end(rig: &mut Rig, server: ServerId, form: &str) {
    rig.says(server, |w| {
        if form == "Parse" {
            w.empty(b'1');
        }
        if form != "Query" {
            w.empty(b'2');
        }
        w.command_complete("SELECT 1");
        w.ready_for_query(Idle);
    });
}

/// Guards against a search_path that other clients got: the first waiting client's query was sent to the free server
/// as a flight, whatever its view ran.
#[test]
fn code_that_waits_first_in_the_queue_is_followed_by_a_probe() {
    for (form, write) in forms() {
        let mut rig = Rig::new(SHARED);
        rig.catalogs_are_empty = false;
        let a = login(&mut rig);
        let server = rig.servers_log_in()[0];
        rig.tells_catalog(server, &OBJECTS, &SOURCES);
        prepares(&mut rig, a);
        let first = client(&mut rig);
        rig.query(first, "select 'first'");
        rig.told(server);
        let b = client(&mut rig);
        rig.says(a, write);
        rig.query(b, "select 'b'");
        rig.completes(server, "SELECT 1");
        let sent = rig.told(server);
        assert!(sent.iter().any(|m| m.starts_with(form)), "{form}: {sent:?}");
        assert!(!sent.iter().any(|m| m.contains("'b'")), "{form}: {sent:?}");
        says_end(&mut rig, server, form);
        let probe = rig.told(server);
        assert!(is_probe(&probe), "{form}: {probe:?}");
        rig.replies_about(server, &probe, NOTHING.with(&[("search_path", "evil")]));
        let restored = rig.told(server);
        assert!(
            restored.iter().any(|m| m.contains("set_config")),
            "{form}: {restored:?}"
        );
        assert!(!restored.contains(&"Query select 'b'".into()), "{form}: {restored:?}");
    }
}

/// Guards against a result that another client's late cancel changed, where no error showed it.
#[test]
fn code_that_traps_a_cancel_is_alone_on_its_server() {
    let mut rig = Rig::new(SHARED);
    let server = first_runs(&mut rig);
    let texts = ["select 'a'", "select x from trapped", "select 'c'"];
    let clients = texts.map(|_| client(&mut rig));
    for (id, text) in clients.iter().zip(texts) {
        rig.query(*id, text);
    }
    for (id, text) in clients.iter().zip(texts) {
        rig.completes(server, "SELECT 1");
        assert_eq!(rig.told(server), [format!("Query {text}")], "and no probe");
        assert!(rig.told(*id).is_empty());
    }
}

/// The same for a lock that the client's session holds afterwards.
#[test]
fn a_client_that_waited_first_and_holds_a_lock_is_pinned() {
    let mut rig = Rig::new(SHARED);
    let server = first_runs(&mut rig);
    let (a, b) = (client(&mut rig), client(&mut rig));
    rig.query(a, "select * from locked");
    rig.query(b, "select 'b'");
    rig.completes(server, "SELECT 1");
    assert_eq!(rig.told(server), ["Query select * from locked"]);
    rig.completes(server, "SELECT 1");
    let probe = rig.told(server);
    rig.replies_about(server, &probe, LOCKED);
    assert_eq!(rig.server_of(a), Some(server), "it holds a lock");
    assert!(rig.told(server).is_empty());
}

/// A view whose functions are harmless shares a server.
#[test]
fn a_harmless_view_flies() {
    let mut rig = Rig::new(SHARED);
    let server = first_runs(&mut rig);
    let (a, b) = (client(&mut rig), client(&mut rig));
    rig.query(a, "select x from tame");
    rig.query(b, "select 'b'");
    rig.completes(server, "SELECT 1");
    assert_eq!(rig.told(server), ["Query select x from tame", "Query select 'b'"]);
}

/// A server with flights of these texts, and a second one whose client is about to replace a function. The client's
/// welcome has not been looked at.
pub fn maker_and_flights(rig: &mut Rig, behind: &[&str]) -> (ClientId, ServerId, Vec<ClientId>) {
    rig.catalogs_are_empty = false;
    let first = login(rig);
    let server = rig.servers_log_in()[0];
    rig.tells_catalog(server, &OBJECTS, &SOURCES);
    rig.told(first);
    let maker = login(rig);
    rig.query(first, "select 'first'");
    rig.query(maker, "begin; create table made ()");
    rig.servers_log_in();
    let makers = rig.server_of(maker).expect("a server of its own");
    assert_ne!(makers, server);
    let crowd: Vec<ClientId> = behind
        .iter()
        .map(|text| {
            let id = client(rig);
            rig.query(id, text);
            id
        })
        .collect();
    rig.completes(server, "SELECT 1");
    rig.told(server);
    rig.says(makers, |w| {
        w.command_complete("BEGIN");
        w.command_complete("CREATE TABLE");
        w.ready_for_query(pgweir_wire::TransactionStatus::InTransaction);
    });
    rig.told(makers);
    (maker, server, crowd)
}

/// What the client on the second server sends then.
pub const REPLACES: &str = "create or replace function harmless() returns int language sql as 'select 2'; commit";

#[test]
fn a_flight_whose_code_may_change_is_followed_by_a_probe() {
    let mut rig = Rig::new(TWO_SERVERS);
    let (maker, server, crowd) = maker_and_flights(&mut rig, &["select x from tame"]);
    rig.query(maker, REPLACES);
    rig.completes(server, "SELECT 1");
    assert_eq!(rig.told(crowd[0]), ["CommandComplete SELECT 1", "ReadyForQuery I"]);
    let probe = rig.told(server);
    assert!(is_probe(&probe), "{probe:?}");
}
