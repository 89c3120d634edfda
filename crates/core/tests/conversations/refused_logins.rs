//! Logins that PostgreSQL has refused are tried again once a statement may have made them possible.

use crate::rig::{Rig, fatal};
use pgweir_core::{ClientId, LogLevel};

/// A client of this database; the server answers its login that the database does not exist.
fn finds_nothing(rig: &mut Rig, database: &str) -> ClientId {
    let client = rig.client_begins(&[("user", "u"), ("database", database)]);
    let Some(server) = rig.connects.pop_front() else {
        panic!("{database} is not tried: {:?}", rig.told(client));
    };
    rig.server_connects(server);
    rig.says(server, |w| w.error(&fatal("3D000", "database does not exist")));
    rig.server_dies(server);
    client
}

#[test]
fn a_database_that_was_made_is_found_at_once() {
    let databases = "* = host=127.0.0.1 user=u\nelsewhere = host=127.0.0.9 user=u";
    for (tag, is_tried) in [
        ("CREATE DATABASE", true),
        ("ALTER DATABASE", true),
        ("ALTER ROLE", true),
        ("GRANT ROLE", true),
        ("ALTER TABLE", false),
        ("CREATE TABLE", false),
    ] {
        let mut rig = Rig::with(databases, "");
        let owner = rig.client_begins(&[("user", "u"), ("database", "db")]);
        rig.servers_log_in();
        for database in ["made", "elsewhere"] {
            let client = finds_nothing(&mut rig, database);
            assert!(rig.is_closed(client));
        }
        let early = rig.client_begins(&[("user", "u"), ("database", "made")]);
        assert!(
            rig.is_closed(early) && rig.connects.is_empty(),
            "the refusal is remembered"
        );

        rig.query(owner, "select 'this makes it'");
        let server = rig.server_of(owner).expect("it is served");
        rig.completes(server, tag);
        rig.client_begins(&[("user", "u"), ("database", "made")]);
        assert_eq!(rig.connects.len(), usize::from(is_tried), "{tag}");
        let other = rig.client_begins(&[("user", "u"), ("database", "elsewhere")]);
        assert!(rig.is_closed(other), "another PostgreSQL has made nothing");
    }
}

/// Log parsers look for PgBouncer's words: one line for each refusal, another one where the pool has had a server.
#[test]
fn the_log_has_pgbouncers_lines() {
    let mut rig = Rig::with("db = host=127.0.0.1 user=u", "default_pool_size = 2");
    let logged =
        |rig: &Rig, level: LogLevel, text: &str| rig.log.iter().any(|(l, line)| *l == level && line.contains(text));
    let client = rig.client();
    rig.query(client, "select 1");
    let other = rig.client_begins(&[("user", "u"), ("database", "db")]);
    rig.query(other, "select 1");
    let server = rig.connects.pop_front().expect("a second server");
    rig.server_connects(server);
    rig.says(server, |w| w.error(&fatal("53300", "too many connections")));
    for (level, line) in [
        (LogLevel::Warning, "server login failed: FATAL too many connections"),
        (LogLevel::Error, "S: login failed: FATAL: too many connections"),
        (LogLevel::Log, "closing because: too many connections (age=0s)"),
    ] {
        assert!(logged(&rig, level, line), "{line}: {:?}", rig.log);
    }
}
