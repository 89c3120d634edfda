//! Messages that are kept until enough of them has come: how much is kept at most, and how often it is looked at.

use crate::rig::Rig;
use pgweir_core::ClientId;
use pgweir_wire::TransactionStatus::{Idle, InTransaction};
use pgweir_wire::{HEADER_BYTES, Writer};

const NO_TYPES: &[u8] = &[0, 0];

/// The longest statement that is kept, with its name and the header.
const KEPT_BYTES_MAX: usize = 1024 * 1024 + 4096;

/// What a client has sent before.
#[derive(Debug, Clone, Copy)]
enum Before {
    Nothing,
    Block,
    Definition,
    Prepared(&'static str),
    Bound(&'static str),
    Listens,
}

fn client_after(rig: &mut Rig, before: Before) -> ClientId {
    let client = rig.client();
    rig.query(client, "select 1");
    let server = rig.server_of(client).expect("linked");
    rig.completes(server, "SELECT 1");
    rig.told(server);
    let status = match before {
        Before::Block | Before::Definition => InTransaction,
        _ => Idle,
    };
    match before {
        Before::Nothing => return client,
        Before::Block => rig.query(client, "begin; select 1"),
        Before::Definition => rig.query(
            client,
            "begin; create function f() returns int language sql as 'select 1'",
        ),
        Before::Prepared(text) => rig.says(client, |w| {
            w.parse(b"s", text.as_bytes(), NO_TYPES);
            w.sync();
        }),
        Before::Bound(text) => rig.says(client, |w| {
            w.parse(b"", text.as_bytes(), NO_TYPES);
            w.bind_text(b"", &[]);
        }),
        Before::Listens => rig.query(client, "listen c"),
    }
    let told = rig.told(server);
    rig.says(server, |w| {
        for line in &told {
            match line.split(' ').next().unwrap_or_default() {
                "Parse" => w.empty(b'1'),
                "Bind" => w.empty(b'2'),
                "Describe" => {
                    w.message(b't', |to| to.extend_from_slice(NO_TYPES));
                    w.empty(b'n');
                }
                "Query" => {
                    w.command_complete("OK");
                    w.ready_for_query(status);
                }
                "Sync" => w.ready_for_query(status),
                other => panic!("{other} is not expected here"),
            }
        }
    });
    assert!(!rig.is_closed(client), "{before:?}: {:?}", rig.told(client));
    client
}

/// A message of three megabytes.
fn long_message(tag: u8) -> Vec<u8> {
    const BODY_BYTES: usize = 3_000_000;
    let mut bytes = Vec::new();
    Writer::new(&mut bytes).message(tag, |to| {
        match tag {
            b'B' => to.extend_from_slice(b"\0s\0\0\0\0\x01\0\x2d\0\0"),
            b'D' | b'C' => to.extend_from_slice(b"Ss"),
            b'P' => to.extend_from_slice(b"s\0select 1"),
            b'Q' => to.extend_from_slice(b"select pg_cancel_backend(1)"),
            _ => {}
        }
        to.resize(to.len() + BODY_BYTES, b' ');
    });
    bytes
}

/// Guards against a client that has the pooler keep as many bytes as it likes.
#[test]
fn no_message_is_kept_without_a_limit() {
    let befores = [
        Before::Nothing,
        Before::Block,
        Before::Definition,
        Before::Prepared("select pg_terminate_backend($1)"),
        Before::Prepared("select set_config('app.user', $1, false)"),
        Before::Bound("discard all"),
        Before::Bound("reset all"),
        Before::Bound("deallocate all"),
        Before::Listens,
    ];
    for settings in [
        "",
        "session_state = pgbouncer",
        "max_prepared_statements = 0",
        "pool_mode = session",
    ] {
        for before in befores {
            for tag in *b"QPBDECFSHdcf" {
                let mut rig = Rig::new(settings);
                let client = client_after(&mut rig, before);
                for piece in long_message(tag).chunks(300_000).take(8) {
                    if rig.is_closed(client) || !rig.pooler.may_read(client.into()) {
                        break;
                    }
                    rig.comes(client, piece);
                    let kept = rig.kept_bytes(client);
                    let tag = char::from(tag);
                    assert!(
                        kept <= KEPT_BYTES_MAX,
                        "{settings} {before:?} {tag}: {kept} bytes are kept"
                    );
                }
            }
        }
    }
}

/// Guards against work that grows with the square of a Bind that comes byte by byte.
#[test]
fn a_bind_is_looked_at_seldom() {
    let value = "x".repeat(50_000);
    let mut bind = Vec::new();
    Writer::new(&mut bind).bind_text(b"s", &[Some(value.as_bytes())]);
    let mut named = Vec::new();
    Writer::new(&mut named).bind_text(value.as_bytes(), &[]);
    let mut rig = Rig::new("");
    let client = client_after(&mut rig, Before::Prepared("select set_config($1, 'x', false)"));
    rig.comes(client, &bind[..1000]);
    assert_eq!(rig.pooler.needs_bytes(client.into()), bind.len(), "its values are read");
    let mut rig = Rig::new("");
    let client = client_after(&mut rig, Before::Prepared("select 1"));
    rig.comes(client, &named[..HEADER_BYTES + 1000]);
    let needed = 2 * (HEADER_BYTES + 1000);
    assert_eq!(
        rig.pooler.needs_bytes(client.into()),
        needed,
        "its names have no end yet"
    );
}
