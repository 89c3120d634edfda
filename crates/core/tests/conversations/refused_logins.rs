//! Logins that PostgreSQL has refused are tried again once a statement may have made them possible.

use crate::rig::{Rig, fatal};
use pgweir_core::{ClientId, LogLevel};
use std::time::Duration;

/// A client of this database; the server refuses its login.
fn is_refused(rig: &mut Rig, database: &str, sqlstate: &'static str) -> ClientId {
    let client = rig.client_begins(&[("user", "u"), ("database", database)]);
    let Some(server) = rig.connects.pop_front() else {
        panic!("{database} is not tried: {:?}", rig.told(client));
    };
    rig.server_connects(server);
    rig.says(server, |w| w.error(&fatal(sqlstate, "no")));
    rig.server_dies(server);
    client
}

#[test]
fn a_login_is_tried_at_once_after_a_statement_that_may_admit_it() {
    let databases = "* = host=127.0.0.1 user=u\nelsewhere = host=127.0.0.9 user=u";
    for (tag, sqlstate, is_tried) in [
        ("CREATE DATABASE", "3D000", true),
        ("ALTER DATABASE", "3D000", true),
        ("ALTER DATABASE", "55000", true),
        ("CREATE ROLE", "28P01", true),
        ("ALTER ROLE", "28000", true),
        ("GRANT ROLE", "42501", true),
        ("GRANT", "42501", true),
        ("GRANT", "3D000", false),
        ("GRANT", "28P01", false),
        ("GRANT ROLE", "3D000", false),
        ("CREATE DATABASE", "28P01", false),
        ("ALTER ROLE", "3D000", false),
        ("ALTER TABLE", "3D000", false),
        ("CREATE TABLE", "42501", false),
    ] {
        let mut rig = Rig::with(databases, "");
        let owner = rig.client_begins(&[("user", "u"), ("database", "db")]);
        rig.servers_log_in();
        for database in ["made", "elsewhere"] {
            let client = is_refused(&mut rig, database, sqlstate);
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
        assert_eq!(rig.connects.len(), usize::from(is_tried), "{tag} after {sqlstate}");
        let other = rig.client_begins(&[("user", "u"), ("database", "elsewhere")]);
        assert!(rig.is_closed(other), "another PostgreSQL has made nothing");
    }
}

/// Guards against a login to the server for each GRANT, which every user may say of the own tables.
#[test]
fn statements_cause_one_login_a_second() {
    let mut rig = Rig::with("* = host=127.0.0.1 user=u", "");
    let owner = rig.client_begins(&[("user", "u"), ("database", "db")]);
    rig.servers_log_in();
    is_refused(&mut rig, "made", "42501");
    let grants = |rig: &mut Rig| {
        rig.query(owner, "select 'this grants it'");
        let server = rig.server_of(owner).expect("it is served");
        rig.completes(server, "GRANT");
    };
    grants(&mut rig);
    let again = is_refused(&mut rig, "made", "42501");
    assert!(rig.is_closed(again));
    grants(&mut rig);
    let later = rig.client_begins(&[("user", "u"), ("database", "made")]);
    assert!(rig.connects.is_empty() && !rig.is_closed(later), "it waits");
    rig.wait(Duration::from_millis(900));
    assert!(rig.connects.is_empty());
    rig.wait(Duration::from_millis(500));
    assert_eq!(rig.connects.len(), 1, "a second later");
}

/// Guards against clients that wait for seconds because somebody has tried to drop their database, whether or not the
/// server has allowed it.
#[test]
fn a_client_gets_a_server_of_a_database_that_was_kept_clear() {
    let databases = "shop = host=127.0.0.1 user=u min_pool_size=1\nother = host=127.0.0.1 user=u";
    let mut rig = Rig::with(databases, "");
    rig.wait(Duration::from_secs(1));
    let warm = rig.servers_log_in();
    assert_eq!(warm.len(), 1);
    let attacker = rig.client_begins(&[("user", "u"), ("database", "other")]);
    rig.servers_log_in();
    rig.query(attacker, "drop database shop");
    assert!(rig.is_closed(warm[0]), "it would be in the way");
    rig.wait(Duration::from_secs(3));
    let opened = rig.connects.iter().filter(|id| rig.endpoints.contains_key(id)).count();
    assert_eq!(opened, 0, "no other one is opened in advance: {:?}", rig.connects);
    let client = rig.client_begins(&[("user", "u"), ("database", "shop")]);
    rig.query(client, "select 1");
    assert_eq!(rig.connects.len(), 1, "the client needs it");
    rig.servers_log_in();
    assert!(rig.server_of(client).is_some());
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
