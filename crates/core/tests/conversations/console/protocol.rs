//! The simple and the extended protocol, as drivers use them.

use super::tables::{INT4, TEXT, columns, console, query, value};
use crate::rig::Rig;
use pgweir_core::LogLevel;
use pgweir_wire::{Writer, backend};

#[test]
fn the_login_tells_drivers_what_they_must_know() {
    let mut rig = Rig::new("");
    let id = rig.client_begins(&[("user", "x"), ("database", "pgbouncer")]);
    let told = rig.told(id);
    assert_eq!(told[0], "Authentication");
    for parameter in [
        "client_encoding UTF8",
        "DateStyle ISO",
        "standard_conforming_strings on",
        "is_superuser on",
    ] {
        assert!(told.contains(&format!("ParameterStatus {parameter}")), "{told:?}");
    }
    assert!(
        told.iter().any(|t| t.starts_with("ParameterStatus server_version 0.")),
        "{told:?}"
    );
    assert_eq!(told[told.len() - 2..], ["BackendKeyData", "ReadyForQuery I"]);
}

#[test]
fn errors_leave_the_console_usable_and_have_states_and_hints() {
    let mut rig = Rig::new("");
    let id = console(&mut rig);
    let mut refused = |text: &str| {
        rig.says(id, |w| w.query(text.as_bytes()));
        let told = rig.told(id);
        assert_eq!(told.last().map(String::as_str), Some("ReadyForQuery I"), "{text}");
        assert_eq!(told.len(), 2, "{text}: {told:?}");
        told[0].clone()
    };
    assert_eq!(
        refused("show foo"),
        "Error 42601 invalid command 'show foo', use SHOW HELP;"
    );
    assert_eq!(
        refused("select 1"),
        "Error 42601 invalid command 'select 1', use SHOW HELP;"
    );
    assert_eq!(refused("pause nosuch"), "Error 3D000 no such database: nosuch");
    assert_eq!(refused("kill pgbouncer"), "Error 42809 cannot kill admin db: pgbouncer");
    assert_eq!(refused("resume"), "Error 55000 pooler is not paused");
    assert_eq!(refused("resume db"), "Error 55000 database db is not paused");
    assert_eq!(refused("disable"), "Error 42601 a database is required");
    assert_eq!(refused("kill_client x"), "Error 22023 invalid client pointer supplied");
    assert_eq!(refused("kill_client 99"), "Error 42704 client not found");
    assert!(refused("set listen_port = 1").contains("cannot be changed without a restart"));
    assert!(refused("set pool_mod = session").starts_with("Error 22023 SET failed: unknown setting"));
    assert!(refused("set verbose = abc").starts_with("Error 22023 SET failed:"));
    assert_eq!(query(&mut rig, id, "show version").1.len(), 1);
    let logged = |(level, text): &(LogLevel, String)| *level == LogLevel::Warning && text.contains("pooler error: ");
    assert_eq!(rig.log.iter().filter(|l| logged(l)).count(), 12);
}

#[test]
fn what_drivers_send_by_themselves_is_acknowledged() {
    let mut rig = Rig::new("");
    let id = console(&mut rig);
    let mut answers = |text: &str| {
        rig.says(id, |w| w.query(text.as_bytes()));
        rig.told(id).join(", ")
    };
    assert_eq!(answers("BEGIN"), "CommandComplete BEGIN, ReadyForQuery T");
    assert_eq!(answers("COMMIT"), "CommandComplete COMMIT, ReadyForQuery I");
    assert_eq!(answers("start transaction"), "CommandComplete BEGIN, ReadyForQuery T");
    assert_eq!(answers("rollback"), "CommandComplete ROLLBACK, ReadyForQuery I");
    assert_eq!(
        answers("SET extra_float_digits = 3"),
        "Notice 00000 SET ignored, CommandComplete SET, ReadyForQuery I"
    );
    assert_eq!(
        answers("SET application_name = 'new'"),
        "CommandComplete SET, ReadyForQuery I"
    );
    assert_eq!(answers("DISCARD ALL"), "CommandComplete DISCARD ALL, ReadyForQuery I");
    assert_eq!(answers("-- ping"), "I?, ReadyForQuery I");
    assert_eq!(
        answers("show help"),
        "Notice 00000 Console usage, CommandComplete SHOW, ReadyForQuery I"
    );
    assert_eq!(value(&mut rig, id, "show clients", 0, "application_name"), "new");
}

fn bind(w: &mut Writer<'_>, portal: &str, statement: &str, formats: &[i16]) {
    w.message(b'B', |b| {
        for name in [portal, statement] {
            b.extend_from_slice(name.as_bytes());
            b.push(0);
        }
        b.extend([0; 4]);
        b.extend((formats.len() as i16).to_be_bytes());
        formats.iter().for_each(|f| b.extend(f.to_be_bytes()));
    });
}

fn execute(w: &mut Writer<'_>, portal: &str, rows: i32) {
    w.message(b'E', |b| {
        b.extend_from_slice(portal.as_bytes());
        b.push(0);
        b.extend(rows.to_be_bytes());
    });
}

#[test]
fn the_extended_protocol_describes_binds_and_sends_binary() {
    let mut rig = Rig::new("");
    let id = console(&mut rig);
    rig.says(id, |w| {
        w.parse(b"s", b"SHOW LISTS", &[0, 0]);
        w.describe(b'S', b"s");
        w.sync();
    });
    let heard = rig.hears(id);
    let tags: Vec<u8> = heard.iter().map(|(tag, _)| *tag).collect();
    assert_eq!(tags, b"1tTZ");
    assert_eq!(heard[1].1, [0, 0], "no parameters");
    assert_eq!(columns(&heard[2].1), [("list".into(), TEXT), ("items".into(), INT4)]);
    rig.says(id, |w| {
        bind(w, "", "s", &[0, 1]);
        w.describe(b'P', b"");
        execute(w, "", 0);
        w.sync();
    });
    let heard = rig.hears(id);
    assert_eq!((heard[0].0, heard[1].0), (b'2', b'T'));
    assert_eq!(heard[1].1[heard[1].1.len() - 2..], [0, 1], "items are binary");
    let first = backend::data_row(&heard[2].1).unwrap();
    assert_eq!(first, [Some(&b"databases"[..]), Some(&[0, 0, 0, 2][..])]);
    assert_eq!(heard[heard.len() - 2], (b'C', b"SHOW\0".to_vec()));
}

#[test]
fn a_portal_gives_its_rows_by_and_by() {
    let mut rig = Rig::new("");
    let id = console(&mut rig);
    rig.says(id, |w| {
        w.query(b"begin");
        w.parse(b"", b"show state", &[0, 0]);
        bind(w, "p", "", &[]);
        execute(w, "p", 2);
        execute(w, "p", 2);
        execute(w, "p", 2);
        w.close(b'P', b"p");
        w.close(b'S', b"");
        w.sync();
    });
    let tags: Vec<u8> = rig.hears(id).iter().map(|(tag, _)| *tag).collect();
    assert_eq!(tags, b"CZ12DDsDCC33Z");
}

#[test]
fn an_error_of_the_extended_protocol_drops_everything_up_to_sync() {
    let mut rig = Rig::new("");
    let id = console(&mut rig);
    rig.says(id, |w| {
        w.parse(b"", b"show nonsense", &[0, 0]);
        bind(w, "", "", &[]);
        execute(w, "", 0);
        w.query(b"show version");
        w.sync();
        bind(w, "", "nosuch", &[]);
        w.sync();
        execute(w, "nosuch", 0);
        w.sync();
        w.parse(b"s", b"show version", &[0, 0]);
        w.parse(b"s", b"show version", &[0, 0]);
        w.sync();
        bind(w, "", "s", &[1, 1]);
        w.sync();
    });
    assert_eq!(
        rig.told(id),
        [
            "Error 42601 invalid command 'show nonsense', use SHOW HELP;",
            "ReadyForQuery I",
            "Error 26000 prepared statement \"nosuch\" does not exist",
            "ReadyForQuery I",
            "Error 34000 portal \"nosuch\" does not exist",
            "ReadyForQuery I",
            "ParseComplete",
            "Error 42P05 prepared statement \"s\" already exists",
            "ReadyForQuery I",
            "Error 08P01 result formats do not fit 1 columns",
            "ReadyForQuery I",
        ]
    );
}

#[test]
fn every_split_of_a_conversation_gives_the_same_answers() {
    let mut bytes = Vec::new();
    let mut w = Writer::new(&mut bytes);
    w.query(b"show version");
    w.parse(b"", b"show help", &[0, 0]);
    bind(&mut w, "", "", &[]);
    execute(&mut w, "", 0);
    w.sync();
    let mut answers = Vec::new();
    for cut in 0..bytes.len() {
        let mut rig = Rig::new("");
        let id = console(&mut rig);
        rig.comes(id, &bytes[..cut]);
        rig.comes(id, &bytes[cut..]);
        answers.push(rig.hears(id));
    }
    answers.dedup();
    assert_eq!(answers.len(), 1);
}

#[test]
fn bytes_that_are_no_messages_end_the_connection() {
    for bytes in [&b"?\0\0\0\x04"[..], b"Q\0\x01\xff\xff", b"Q\0\0\0\x03", b"p\0\0\0\x04"] {
        let mut rig = Rig::new("");
        let id = console(&mut rig);
        rig.comes(id, bytes);
        assert!(rig.closed.contains(&id.into()), "{bytes:?}");
        assert!(rig.told(id)[0].starts_with("Error 08P01 "));
    }
    // A message of the right kind with a malformed body gets an ERROR.
    for (tag, body) in [
        (b'Q', &b"show version"[..]),
        (b'P', b"x"),
        (b'B', b"\0\0\xff\xff"),
        (b'E', b""),
    ] {
        let mut rig = Rig::new("");
        let id = console(&mut rig);
        rig.says(id, |w| w.message(tag, |b| b.extend_from_slice(body)));
        assert!(rig.told(id)[0].starts_with("Error 08P01 "), "{tag}");
        assert!(!rig.closed.contains(&id.into()));
    }
}

/// Guards against 60 kB of commands that ask for gigabytes, and keep all other connections waiting meanwhile.
#[test]
fn commands_that_ask_for_too_much_at_once_close_their_console() {
    let databases: String = (0..200).map(|n| format!("db{n} = host=127.0.0.1 user=u\n")).collect();
    let mut rig = Rig::with(&databases, "");
    let id = console(&mut rig);
    let ask = |rig: &mut Rig, times: usize| {
        let mut commands = Vec::new();
        (0..times).for_each(|_| Writer::new(&mut commands).query(b"show databases"));
        rig.comes(id, &commands);
        rig.bytes_written(id)
    };
    let one = ask(&mut rig, 1);
    rig.hears(id);
    let many = ask(&mut rig, 100);
    assert!(many == 100 * one && !rig.is_closed(id), "{many}");
    rig.hears(id);
    let too_many = ask(&mut rig, 2900);
    assert!(rig.is_closed(id) && too_many < 40 * 1024 * 1024, "{too_many}");
    let told = rig.told(id).pop();
    let expected = "Error 08P01 too many tables of the console are asked for at once";
    assert_eq!(told.as_deref(), Some(expected));
}
