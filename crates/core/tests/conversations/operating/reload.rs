//! RELOAD and SET: what a new configuration changes, and when.

use super::orders::{commit, done, in_transaction, logged, order, reload, signal};
use crate::rig::{Rig, configuration, configuration_with_users};
use crate::taking_over::take_over;
use pgweir_config::{Place, Problem};
use pgweir_core::{Command, LogLevel, ReloadOutcome, ServerId, Verification, Verified};
use pgweir_wire::TransactionStatus::Idle;
use std::sync::Arc;

fn new(databases: &str, settings: &str) -> ReloadOutcome {
    ReloadOutcome::New(Arc::new(configuration(databases, settings)), Vec::new())
}

#[test]
fn a_bad_configuration_changes_nothing_and_every_problem_is_told() {
    let mut rig = Rig::new("");
    let boss = rig.console();
    assert!(order(&mut rig, boss, "reload").is_empty());
    assert!(!rig.pooler.may_read(boss.into()), "the console waits for the files");
    let place = Place::file("a.ini");
    let errors = ["no such thing", "nor that"].map(|text| Problem::error(&place, text));
    let warning = Problem::warning(&place, "odd").hint("look");
    let problems = errors.iter().chain([&warning]).cloned().collect();
    reload(&mut rig, ReloadOutcome::Bad(problems));
    let heard = rig.hears(boss);
    let text = String::from_utf8_lossy(&heard[0].1).into_owned();
    assert!(
        text.contains("F0000")
            && text.contains("RELOAD failed, see logs for additional details")
            && errors.iter().all(|p| text.contains(&p.line())),
        "{text}"
    );
    assert_eq!(heard[1].0, b'Z');
    for problem in &errors {
        assert!(rig.log.contains(&(LogLevel::Error, problem.line())));
    }
    assert!(rig.log.contains(&(LogLevel::Warning, "a.ini: odd (HINT: look)".into())));
    rig.client();
}

/// Guards against locking out all users, administrators included, when the password file cannot be read for a moment.
#[test]
fn a_reload_that_has_lost_its_users_is_refused() {
    let mut rig = Rig::new("");
    let boss = rig.console();
    let mut config = configuration("db = host=127.0.0.2 user=u", "");
    let unread = Problem::warning(&Place::file("a.ini"), "could not read auth_file \"u\": gone");
    config.unread_files.push(unread);
    order(&mut rig, boss, "reload");
    reload(&mut rig, ReloadOutcome::New(Arc::new(config), Vec::new()));
    assert!(rig.told(boss)[0].starts_with("Error F0000 RELOAD failed"));
    assert!(logged(&rig, "could not read auth_file"), "{:?}", rig.log);
    assert!(!logged(&rig, "RELOAD: changed"), "{:?}", rig.log);
}

#[test]
fn a_changed_database_gets_new_servers_as_the_old_ones_are_released() {
    let mut rig = Rig::new("");
    let (client, server) = in_transaction(&mut rig);
    let boss = rig.console();
    order(&mut rig, boss, "reload");
    reload(&mut rig, new("db = host=127.0.0.2 user=u", ""));
    assert_eq!(rig.told(boss), done("RELOAD"));
    assert!(
        logged(&rig, "RELOAD: changed database db (servers are replaced)"),
        "{:?}",
        rig.log
    );
    assert!(!rig.is_closed(server), "the transaction goes on");
    commit(&mut rig, client);
    assert!(rig.is_closed(server) && logged(&rig, "closing because: close_needed"));
    rig.says(client, |w| w.query(b"select 1"));
    assert_eq!(rig.servers_log_in().len(), 1);
    assert!(rig.server_of(client).is_some());
}

#[test]
fn sizes_count_at_once_and_servers_stay() {
    let mut rig = Rig::with("db = host=127.0.0.1 user=u pool_size=1", "");
    let (client, server) = in_transaction(&mut rig);
    let waiting = rig.client();
    rig.says(waiting, |w| w.query(b"select 1"));
    assert!(rig.connects.is_empty());
    signal(&mut rig, Command::Reload);
    assert!(logged(&rig, "got SIGHUP, re-reading config"));
    reload(&mut rig, new("db = host=127.0.0.1 user=u pool_size=2", ""));
    assert_eq!(rig.servers_log_in().len(), 1, "who waits need not wait for the timer");
    commit(&mut rig, client);
    assert!(!rig.is_closed(server));
}

#[test]
fn a_removed_database_closes_its_clients_and_servers() {
    let both = "db = host=127.0.0.1 user=u\nother = host=127.0.0.1 user=u";
    let mut rig = Rig::with(both, "");
    let (client, server) = in_transaction(&mut rig);
    signal(&mut rig, Command::Reload);
    reload(&mut rig, new("other = host=127.0.0.1 user=u", ""));
    assert_eq!(rig.told(client), ["Error 57P01 database removed"]);
    assert!(rig.is_closed(client) && rig.is_closed(server));
    let late = rig.client_begins(&[("user", "u"), ("database", "db")]);
    assert_eq!(rig.told(late), ["Error 3D000 no such database: db"]);
    signal(&mut rig, Command::Reload);
    reload(&mut rig, new(both, ""));
    rig.client();
}

#[test]
fn another_forced_user_sends_clients_away() {
    for changed in ["db = host=127.0.0.1 user=w", "db = host=127.0.0.1"] {
        let users = "\"u\" \"\"\n\"v\" \"\"\n";
        let mut rig = Rig::with_users(users, "");
        let client = rig.client_begins(&[("user", "v"), ("database", "db")]);
        rig.servers_log_in();
        rig.told(client);
        rig.says(client, |w| w.query(b"select 1"));
        let server = rig.server_of(client).unwrap();
        signal(&mut rig, Command::Reload);
        let config = configuration_with_users(changed, "auth_type = trust", users);
        reload(&mut rig, ReloadOutcome::New(Arc::new(config), Vec::new()));
        assert_eq!(
            rig.told(client),
            ["Error 57P01 database configuration changed"],
            "{changed}"
        );
        assert!(
            rig.is_closed(server),
            "nobody stays on servers of a user who is not theirs"
        );
    }
}

/// The next server asks for a password in clear text. Returns the password that it gets; then it is up.
fn password_given(rig: &mut Rig) -> Option<(ServerId, String)> {
    let server = rig.connects.pop_front().expect("a server is wanted");
    rig.server_connects(server);
    rig.says(server, |w| w.authentication(&3u32.to_be_bytes()));
    let heard = rig.hears(server);
    let (_, password) = heard.iter().find(|(tag, _)| *tag == b'p')?;
    rig.says(server, |w| {
        w.authentication(&0u32.to_be_bytes());
        w.ready_for_query(Idle);
    });
    let password = String::from_utf8_lossy(password);
    Some((server, password.trim_end_matches('\0').to_string()))
}

/// A RELOAD, or a take-over by a process with this configuration.
fn is_configured(rig: &mut Rig, config: pgweir_config::Config, by_take_over: bool) {
    if by_take_over {
        return take_over(rig, config, |_| true);
    }
    signal(rig, Command::Reload);
    reload(rig, ReloadOutcome::New(Arc::new(config), Vec::new()));
}

#[test]
fn a_password_learnt_from_a_client_survives_a_change_of_something_else_only() {
    const HASHED: &str = "\"u\" \"md58241e4933645394efc44fff1313f3ba4\"\n";
    // Verifiers of the passwords `old` and `new`.
    const VERIFIED: &str = "\"u\" \"SCRAM-SHA-256$4096:c2FsdHNhbHRzYWx0c2FsdA==$\
        U30C8DPuVmrrwGT1LoJ1cwlaRnzMRDIhDl69xKH9V5k=:f4hy5w+nt6ZxNxdtto+RTCdsihNHVLd3frzEvgyB5X4=\"\n";
    const OTHER: &str = "\"u\" \"SCRAM-SHA-256$4096:c2FsdHNhbHRzYWx0c2FsdA==$\
        l+nbIpNJgMDLaZoy5u7PwgvHp9CteBSWmcqdJsQUL5A=:sB5bQMzHGsrHXSZZTRSg7J52tvIc001pxfokqodFFEM=\"\n";
    let database = "db = host=127.0.0.1 user=u";
    let more_servers = "db = host=127.0.0.1 user=u pool_size=7";
    let cases = [
        (HASHED, more_servers, HASHED, Some("old")),
        (HASHED, "db = host=127.0.0.1 user=u password=two", HASHED, Some("two")),
        (HASHED, database, "\"u\" \"new\"\n", Some("new")),
        (HASHED, database, "\"u\" \"\"\n", None),
        (VERIFIED, more_servers, VERIFIED, Some("old")),
        (VERIFIED, database, OTHER, None),
    ];
    for ((users, new_database, new_users, expected), by_take_over) in
        cases.into_iter().flat_map(|case| [(case, false), (case, true)])
    {
        let mut rig = Rig::with_users(users, "auth_type = plain");
        let client = rig.client_begins(&[("user", "u"), ("database", "db")]);
        rig.says(client, |w| w.password(b"old\0"));
        if let Some((asker, Verification::Keys(derivation))) = rig.questions.pop_front() {
            rig.verified(asker, Verified::Keys(derivation.derive()));
        }
        let (server, password) = password_given(&mut rig).unwrap();
        assert_eq!(password, "old", "the file has the hash only");
        rig.answers_questions_at_login(server);
        rig.server_dies(server);
        let config = configuration_with_users(new_database, "auth_type = plain", new_users);
        is_configured(&mut rig, config, by_take_over);
        rig.says(client, |w| w.query(b"select 1"));
        let password = password_given(&mut rig).map(|(_, password)| password);
        assert_eq!(
            password.as_deref(),
            expected,
            "{users} {new_database} {new_users} {by_take_over}"
        );
    }
}

#[test]
fn settings_that_need_a_restart_stay_with_a_warning() {
    let mut rig = Rig::new("listen_port = 7000");
    let boss = rig.console();
    order(&mut rig, boss, "reload");
    reload(
        &mut rig,
        new("db = host=127.0.0.1 user=u", "listen_port = 7001\nmax_client_conn = 7"),
    );
    assert_eq!(rig.told(boss), done("RELOAD"));
    let warned = |(level, text): &(LogLevel, String)| *level == LogLevel::Warning && text.contains("listen_port");
    assert!(rig.log.iter().any(warned), "{:?}", rig.log);
    rig.says(boss, |w| w.query(b"show config"));
    let heard = rig.hears(boss);
    let value = |name: &str| {
        let rows = heard.iter().filter(|(tag, _)| *tag == b'D');
        let mut rows = rows.map(|(_, body)| pgweir_wire::backend::data_row(body).unwrap());
        let row = rows.find(|row| row[0] == Some(name.as_bytes())).unwrap();
        String::from_utf8(row[1].unwrap().to_vec()).unwrap()
    };
    assert_eq!(
        (value("listen_port"), value("max_client_conn")),
        ("7000".into(), "7".into())
    );
}

#[test]
fn set_counts_at_once_until_the_next_reload() {
    let mut rig = Rig::with("db = host=127.0.0.1 user=u", "default_pool_size = 1");
    let (_, _) = in_transaction(&mut rig);
    let waiting = rig.client();
    rig.says(waiting, |w| w.query(b"select 1"));
    let boss = rig.console();
    assert_eq!(
        order(&mut rig, boss, "SET default_pool_size = 2"),
        done("SET default_pool_size=2")
    );
    assert_eq!(rig.servers_log_in().len(), 1);
    let configured = rig.configured.take().expect("the driver hears of it, too");
    assert_eq!(configured.global.default_pool_size, pgweir_config::PoolSize::Fixed(2));
    order(&mut rig, boss, "reload");
    reload(&mut rig, new("db = host=127.0.0.1 user=u", "default_pool_size = 1"));
    assert!(logged(&rig, "RELOAD: changed default_pool_size"), "{:?}", rig.log);
}

#[test]
fn a_reload_that_comes_back_after_its_console_left_is_for_nobody() {
    let mut rig = Rig::new("");
    let boss = rig.console();
    order(&mut rig, boss, "reload");
    rig.client_leaves(boss);
    let next = rig.console();
    assert_eq!(next.0.index, boss.0.index);
    reload(&mut rig, new("db = host=127.0.0.1 user=u", ""));
    assert!(rig.told(next).is_empty());
}

/// Guards against an answer that goes by the kind of the command that a client waits for.
#[test]
fn a_cancelled_reload_does_not_answer_the_next_one() {
    let mut rig = Rig::new("");
    let (boss, key) = rig.console_with_key();
    order(&mut rig, boss, "RELOAD");
    rig.cancel_request(&key);
    let ended = "Error 57014 RELOAD was ended by a cancel request";
    assert_eq!(rig.told(boss), [ended, "ReadyForQuery I"]);
    order(&mut rig, boss, "RELOAD");
    reload(
        &mut rig,
        ReloadOutcome::Bad(vec![Problem::error(&Place::file("a.ini"), "no such file")]),
    );
    assert!(rig.told(boss).is_empty(), "that was the first one");
    reload(&mut rig, new("db = host=127.0.0.1 user=u", ""));
    assert_eq!(rig.told(boss), done("RELOAD"));
}
