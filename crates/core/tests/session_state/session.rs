//! Servers that answer questions about the session of their last client.

use crate::rig::{Rig, error};
use pgweir_core::{ClientId, ServerId};
use pgweir_wire::TransactionStatus;
use pgweir_wire::TransactionStatus::Idle;

/// The answer of a server to a probe.
#[derive(Clone, Copy, Default)]
pub struct Session {
    pub temporary: bool,
    /// There is a schema for temporary objects, as on every server that has had some.
    pub schema: bool,
    pub locks: bool,
    pub settings: &'static [(&'static str, &'static str)],
}

pub const NOTHING: Session = Session {
    temporary: false,
    schema: false,
    locks: false,
    settings: &[],
};

pub const LOCKED: Session = Session { locks: true, ..NOTHING };

pub const TEMPORARY: Session = Session {
    temporary: true,
    schema: true,
    ..NOTHING
};

/// The last temporary object has been dropped.
pub const EMPTIED: Session = Session {
    schema: true,
    ..NOTHING
};

pub fn full(more: &str) -> Rig {
    Rig::new(&format!("session_state = full\ndefault_pool_size = 1\n{more}"))
}

/// The server answers a Query; returns what it was sent before.
pub fn answers_to_query(rig: &mut Rig, server: ServerId, fails: bool, status: TransactionStatus) -> Vec<String> {
    let told = rig.told(server);
    rig.says(server, |w| {
        if fails {
            w.error(&error("22012", "division by zero"));
        } else {
            w.command_complete("DONE");
        }
        w.ready_for_query(status);
    });
    told
}

/// The server answers everything that it was sent; returns that.
pub fn answers(rig: &mut Rig, server: ServerId, session: Session) -> Vec<String> {
    let told = rig.told(server);
    let mut bound = "";
    for line in &told {
        match line.split_once(' ').unwrap_or((line, "")) {
            ("Parse", _) => rig.says(server, |w| w.empty(b'1')),
            ("Bind", statement) => {
                bound = statement;
                rig.says(server, |w| w.empty(b'2'));
            }
            ("Close", _) => rig.says(server, |w| w.empty(b'3')),
            ("Execute", _) => rig.says(server, |w| {
                if bound.ends_with("pgweir_6") {
                    let bit = |held: bool| Some(if held { &b"t"[..] } else { b"f" });
                    let row = [
                        bit(session.temporary),
                        bit(session.locks),
                        bit(false),
                        bit(false),
                        bit(false),
                        bit(session.schema),
                    ];
                    w.data_row(row.len(), row);
                } else if bound.ends_with("pgweir_7") {
                    for (name, value) in session.settings {
                        w.data_row(2, [Some(name.as_bytes()), Some(value.as_bytes())]);
                    }
                } else if bound.contains("pgweir_") {
                    w.data_row(1, [Some(&b""[..])]);
                }
                w.command_complete("SELECT 1");
            }),
            ("Sync", _) => rig.says(server, |w| w.ready_for_query(Idle)),
            ("Query", _) => rig.completes(server, "DONE"),
            ("Terminate", _) => {}
            (other, _) => panic!("nobody answers {other}"),
        }
    }
    told
}

/// The server answers until it is sent nothing more.
pub fn answers_all(rig: &mut Rig, server: ServerId, session: Session) -> Vec<String> {
    let mut all = Vec::new();
    loop {
        let told = answers(rig, server, session);
        if told.is_empty() {
            return all;
        }
        all.extend(told);
    }
}

/// A client sends a Query, and its server answers it.
pub fn does(rig: &mut Rig, client: ClientId, text: &str) -> ServerId {
    rig.says(client, |w| w.query(text.as_bytes()));
    let server = rig.server_of(client).expect("linked");
    assert_eq!(rig.told(server).last(), Some(&format!("Query {text}")));
    rig.completes(server, "DONE");
    server
}

/// A server is cleaned after its client has left.
pub fn is_discarded(rig: &mut Rig, server: ServerId) {
    assert_eq!(rig.told(server), ["Query DISCARD ALL", QUESTION]);
    rig.completes(server, "DISCARD ALL");
    rig.says(server, |w| {
        w.data_row(1, [Some(&b"t"[..])]);
        w.command_complete("SELECT 1");
        w.ready_for_query(Idle);
    });
}

/// The question after DISCARD ALL.
pub const QUESTION: &str = "Query SELECT pg_catalog.pg_my_temp_schema() OPERATOR(pg_catalog.<>) 0";

/// Whether these messages contain a probe of pins.
pub fn probes(told: &[String]) -> bool {
    told.iter()
        .any(|line| line.starts_with("Bind") && line.ends_with("pgweir_6"))
}

/// A server refuses a probe, whose statements are prepared again.
pub fn probe_fails(rig: &mut Rig, server: ServerId) {
    let told = rig.told(server);
    let prepares = |line: &String| line.starts_with("Parse pgweir_6") || line.starts_with("Parse pgweir_7");
    assert!(told.iter().any(prepares), "{told:?}");
    rig.says(server, |w| {
        w.error(&error("XX000", "out of order"));
        w.ready_for_query(Idle);
    });
}

pub fn client_begins_with_work_mem(rig: &mut Rig) -> ClientId {
    rig.client_begins(&[("user", "u"), ("database", "db"), ("work_mem", "8MB")])
}

pub fn client_with_startup_value(rig: &mut Rig) -> ClientId {
    let client = client_begins_with_work_mem(rig);
    let server = rig.connects.pop_front().expect("a server for the login");
    rig.server_logs_in(server);
    answers_all(rig, server, NOTHING);
    rig.told(client);
    client
}
