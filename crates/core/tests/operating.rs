//! An operator's orders, from the console and by signals: conversations in virtual time.

mod rig;

use pgweir_config::{Place, Problem};
use pgweir_core::{ClientId, Command, ConnectionId, LogLevel, ReloadOutcome, ServerId};
use pgweir_wire::TransactionStatus::{Idle, InTransaction};
use rig::{Rig, configuration, configuration_with_users};
use std::sync::Arc;
use std::time::Duration;

const GONE: &str = "Error 57P01 server shutting down";
const KILLED: &str = "Error 57P01 database removed";

fn console(rig: &mut Rig) -> ClientId {
    let id = rig.client_begins(&[("user", "boss"), ("database", "pgbouncer")]);
    assert_eq!(rig.told(id).last().map(String::as_str), Some("ReadyForQuery I"));
    id
}

fn order(rig: &mut Rig, id: ClientId, text: &str) -> Vec<String> {
    rig.says(id, |w| w.query(text.as_bytes()));
    rig.told(id)
}

fn done(tag: &str) -> Vec<String> {
    vec![format!("CommandComplete {tag}"), "ReadyForQuery I".into()]
}

fn signal(rig: &mut Rig, command: Command) {
    rig.pooler.handle_command(rig.now, command);
    rig.settle(&[]);
}

fn logged(rig: &Rig, text: &str) -> bool {
    rig.log.iter().any(|(_, line)| line.contains(text))
}

fn is_closed(rig: &Rig, id: impl Into<ConnectionId>) -> bool {
    rig.closed.contains(&id.into())
}

/// A client with an open transaction, and its server.
fn in_transaction(rig: &mut Rig) -> (ClientId, ServerId) {
    let client = rig.client();
    rig.says(client, |w| w.query(b"begin; select 1"));
    let server = rig.server_of(client).expect("linked");
    rig.says(server, |w| {
        w.command_complete("SELECT 1");
        w.ready_for_query(InTransaction);
    });
    rig.told(client);
    (client, server)
}

fn commit(rig: &mut Rig, client: ClientId) {
    rig.says(client, |w| w.query(b"commit"));
    let server = rig.server_of(client).expect("still linked");
    rig.completes(server, "COMMIT");
}

#[test]
fn pause_waits_for_transactions_and_closes_servers_and_resume_serves_who_waits() {
    let mut rig = Rig::new("");
    let (client, server) = in_transaction(&mut rig);
    let (boss, other) = (console(&mut rig), console(&mut rig));
    assert!(order(&mut rig, boss, "pause").is_empty(), "a transaction is open");
    assert!(!rig.pooler.may_read(boss.into()), "the console waits");
    assert_eq!(order(&mut rig, other, "pause")[0], "Error 55000 already paused");
    let waiting = rig.client();
    rig.says(waiting, |w| w.query(b"select 2"));
    commit(&mut rig, client);
    assert!(is_closed(&rig, server) && logged(&rig, "closing because: pause mode"));
    assert_eq!(rig.told(boss), done("PAUSE"));
    assert!(rig.connects.is_empty() && rig.told(waiting).is_empty());
    rig.wait(Duration::from_secs(3));
    assert!(rig.connects.is_empty(), "nothing is opened under PAUSE");
    assert_eq!(order(&mut rig, other, "resume"), done("RESUME"));
    assert_eq!(rig.servers_log_in().len(), 1);
    assert_eq!(
        rig.server_of(waiting).map(|s| rig.told(s)),
        Some(vec!["Query select 2".into()])
    );
}

#[test]
fn commands_behind_a_waiting_one_are_answered_in_their_turn() {
    let mut rig = Rig::new("");
    let (client, _) = in_transaction(&mut rig);
    let boss = console(&mut rig);
    rig.says(boss, |w| {
        w.query(b"pause db");
        w.query(b"resume db");
    });
    assert!(rig.told(boss).is_empty());
    commit(&mut rig, client);
    assert_eq!(rig.told(boss), [done("PAUSE"), done("RESUME")].concat());
}

#[test]
fn a_waiting_pause_ends_with_resume_or_with_its_console() {
    let mut rig = Rig::new("");
    let (client, server) = in_transaction(&mut rig);
    let (boss, other) = (console(&mut rig), console(&mut rig));
    order(&mut rig, boss, "pause db");
    assert_eq!(order(&mut rig, other, "resume db"), done("RESUME"));
    assert_eq!(
        rig.told(boss),
        ["Error 57014 PAUSE was ended by RESUME", "ReadyForQuery I"]
    );
    order(&mut rig, boss, "pause");
    rig.client_leaves(boss);
    commit(&mut rig, client);
    assert!(is_closed(&rig, server), "the order stands without who gave it");
    assert_eq!(order(&mut rig, other, "resume"), done("RESUME"));
}

#[test]
fn a_cancel_request_ends_the_wait_and_not_the_pause() {
    let mut rig = Rig::new("");
    let (client, server) = in_transaction(&mut rig);
    let boss = rig.client_begins(&[("user", "boss"), ("database", "pgbouncer")]);
    let key = rig.key_told(boss);
    rig.told(boss);
    rig.cancel_request(&key);
    assert!(rig.told(boss).is_empty(), "there is nothing to cancel");
    order(&mut rig, boss, "pause");
    rig.cancel_request(&key);
    assert_eq!(
        rig.told(boss),
        ["Error 57014 PAUSE was ended by a cancel request", "ReadyForQuery I"]
    );
    commit(&mut rig, client);
    assert!(is_closed(&rig, server), "the order itself stands");
    assert_eq!(order(&mut rig, boss, "resume"), done("RESUME"));
}

#[test]
fn pause_of_one_database_leaves_the_others_alone() {
    let mut rig = Rig::with("db = host=127.0.0.1 user=u\nother = host=127.0.0.1 user=u", "");
    let client = rig.client();
    let boss = console(&mut rig);
    assert_eq!(order(&mut rig, boss, "pause other"), done("PAUSE"));
    rig.says(client, |w| w.query(b"select 1"));
    assert!(rig.server_of(client).is_some());
    let other = rig.client_begins(&[("user", "u"), ("database", "other")]);
    assert!(rig.connects.is_empty() && rig.told(other).is_empty());
    assert_eq!(order(&mut rig, boss, "resume other"), done("RESUME"));
    rig.servers_log_in();
    assert_eq!(rig.told(other).last().map(String::as_str), Some("ReadyForQuery I"));
}

#[test]
fn session_pooling_pauses_when_clients_have_left() {
    let mut rig = Rig::with("db = host=127.0.0.1 user=u pool_mode=session", "server_reset_query =");
    let client = rig.client();
    rig.says(client, |w| w.query(b"select 1"));
    let server = rig.server_of(client).unwrap();
    rig.completes(server, "SELECT 1");
    let boss = console(&mut rig);
    assert!(order(&mut rig, boss, "pause").is_empty());
    rig.client_leaves(client);
    assert_eq!(rig.told(boss), done("PAUSE"));
    assert!(is_closed(&rig, server));
}

#[test]
fn signals_pause_and_resume() {
    let mut rig = Rig::new("");
    let client = rig.client();
    signal(&mut rig, Command::Resume);
    assert!(logged(&rig, "got SIGUSR2, but not paused"));
    signal(&mut rig, Command::Pause);
    signal(&mut rig, Command::Pause);
    assert!(logged(&rig, "got SIGUSR1, pausing all activity") && logged(&rig, "got SIGUSR1, but already paused"));
    rig.says(client, |w| w.query(b"select 1"));
    assert!(rig.server_of(client).is_none());
    signal(&mut rig, Command::Resume);
    assert!(logged(&rig, "got SIGUSR2, continuing from PAUSE"));
    rig.servers_log_in();
    assert!(rig.server_of(client).is_some());
}

#[test]
fn reconnect_replaces_servers_when_they_are_released_and_wait_close_waits_for_it() {
    let mut rig = Rig::new("");
    let (client, server) = in_transaction(&mut rig);
    let idle = rig.client();
    let boss = console(&mut rig);
    assert_eq!(
        order(&mut rig, boss, "wait_close"),
        done("WAIT_CLOSE"),
        "nothing to wait for"
    );
    assert_eq!(order(&mut rig, boss, "reconnect db"), done("RECONNECT"));
    assert!(order(&mut rig, boss, "wait_close db").is_empty());
    rig.says(idle, |w| w.query(b"select 1"));
    let new = rig.servers_log_in();
    assert_eq!(new.len(), 1, "a new server is opened meanwhile");
    commit(&mut rig, client);
    assert!(is_closed(&rig, server) && logged(&rig, "closing because: close_needed"));
    assert_eq!(rig.told(boss), done("WAIT_CLOSE"));
    assert!(!is_closed(&rig, new[0]));
}

#[test]
fn kill_drops_clients_and_servers_and_holds_new_ones_until_resume() {
    for (kill, resume) in [("kill db", "resume db"), ("kill", "resume db"), ("kill", "resume")] {
        let mut rig = Rig::new("");
        let (client, server) = in_transaction(&mut rig);
        let boss = console(&mut rig);
        assert_eq!(order(&mut rig, boss, kill), done("KILL"));
        assert_eq!(rig.told(client), [KILLED]);
        assert!(is_closed(&rig, client) && is_closed(&rig, server));
        let new = rig.client();
        rig.says(new, |w| w.query(b"select 1"));
        assert!(rig.connects.is_empty() && rig.server_of(new).is_none(), "{kill}");
        assert_eq!(order(&mut rig, boss, resume), done("RESUME"));
        rig.servers_log_in();
        assert!(rig.server_of(new).is_some(), "{kill}, {resume}");
    }
}

/// The column `id` of a row of SHOW CLIENTS.
fn client_number(rig: &mut Rig, boss: ClientId, row: usize) -> String {
    rig.says(boss, |w| w.query(b"show clients"));
    let heard = rig.hears(boss);
    let fields = pgweir_wire::backend::data_row(&heard[1 + row].1).unwrap();
    String::from_utf8(fields.last().unwrap().unwrap().to_vec()).unwrap()
}

#[test]
fn kill_client_drops_one_client_and_its_server_and_nobody_who_came_later() {
    let mut rig = Rig::with("db = host=127.0.0.1 user=u pool_size=1", "");
    let (client, server) = in_transaction(&mut rig);
    let waiting = rig.client();
    rig.says(waiting, |w| w.query(b"select 2"));
    let boss = console(&mut rig);
    let number = client_number(&mut rig, boss, 0);
    assert_eq!(
        order(&mut rig, boss, &format!("kill_client {number}")),
        done("KILL_CLIENT")
    );
    assert_eq!(rig.told(client), ["Error 57P01 admin forced disconnect"]);
    assert!(is_closed(&rig, server));
    let new = rig.client_begins(&[("user", "u"), ("database", "db")]);
    assert_eq!(new.0.index, client.0.index, "in the same place");
    assert_eq!(
        order(&mut rig, boss, &format!("kill_client {number}"))[0],
        "Error 42704 client not found"
    );
    assert!(!is_closed(&rig, new));
    rig.servers_log_in();
    assert!(rig.server_of(waiting).is_some(), "who waited gets another server");
}

#[test]
fn disable_refuses_new_clients_only() {
    let mut rig = Rig::new("");
    let client = rig.client();
    let boss = console(&mut rig);
    assert_eq!(order(&mut rig, boss, "disable db"), done("DISABLE"));
    let refused = rig.client_begins(&[("user", "u"), ("database", "db")]);
    assert_eq!(rig.told(refused), ["Error 57P03 database \"db\" is disabled"]);
    rig.says(client, |w| w.query(b"select 1"));
    assert!(rig.server_of(client).is_some());
    assert_eq!(order(&mut rig, boss, "enable db"), done("ENABLE"));
    rig.client();
}

#[test]
fn suspend_reads_nobody_but_the_console() {
    let mut rig = Rig::new("query_timeout = 1");
    let client = rig.client();
    rig.says(client, |w| w.query(b"select 1"));
    let server = rig.server_of(client).unwrap();
    let boss = console(&mut rig);
    assert_eq!(order(&mut rig, boss, "suspend"), done("SUSPEND"));
    assert!(!rig.pooler.may_read(client.into()) && !rig.pooler.may_read(server.into()));
    assert!(rig.pooler.may_read(boss.into()));
    assert_eq!(order(&mut rig, boss, "suspend")[0], "Error 55000 already paused");
    rig.wait(Duration::from_secs(5));
    assert!(!is_closed(&rig, client), "no time runs out meanwhile");
    assert_eq!(order(&mut rig, boss, "resume"), done("RESUME"));
    assert!(rig.pooler.may_read(client.into()) && rig.pooler.may_read(server.into()));
}

#[test]
fn shutdown_now_takes_leave_of_everyone() {
    for by_signal in [true, false] {
        let mut rig = Rig::new("");
        let (busy, server) = in_transaction(&mut rig);
        let idle = rig.client();
        let boss = console(&mut rig);
        if by_signal {
            signal(&mut rig, Command::ShutdownImmediate);
            assert!(logged(&rig, "got SIGQUIT, fast exit"));
            assert_eq!(rig.told(boss), [GONE]);
        } else {
            let mut told = done("SHUTDOWN");
            told.push(GONE.into());
            assert_eq!(order(&mut rig, boss, "shutdown"), told);
        }
        assert!(rig.exited && rig.stopped_listening);
        assert_eq!((rig.told(busy), rig.told(idle)), (vec![GONE.into()], vec![GONE.into()]));
        assert!([busy, idle, boss].iter().all(|id| is_closed(&rig, *id)) && is_closed(&rig, server));
        assert!(rig.connects.is_empty());
    }
}

#[test]
fn idle_servers_are_told_goodbye() {
    let mut rig = Rig::new("");
    let client = rig.client();
    rig.says(client, |w| w.query(b"select 1"));
    let server = rig.server_of(client).unwrap();
    rig.completes(server, "SELECT 1");
    rig.told(server);
    signal(&mut rig, Command::ShutdownImmediate);
    assert_eq!(rig.told(server), ["Terminate"]);
}

#[test]
fn the_first_term_waits_for_clients_and_the_second_does_not() {
    let mut rig = Rig::new("");
    let (one, two) = (rig.client(), rig.client());
    let boss = console(&mut rig);
    signal(&mut rig, Command::ShutdownWaitForClients);
    assert!(rig.stopped_listening && !rig.exited);
    let late = rig.client_begins(&[("user", "u"), ("database", "db")]);
    assert!(rig.told(late)[0].starts_with("Error 57P01 "));
    rig.says(one, |w| w.query(b"select 1"));
    let server = rig.server_of(one).expect("clients work on");
    rig.completes(server, "SELECT 1");
    signal(&mut rig, Command::Resume);
    assert!(logged(&rig, "got SIGUSR2 while shutting down, ignoring"));
    assert_eq!(
        order(&mut rig, boss, "resume")[0],
        "Error 55000 pooler is shutting down"
    );
    rig.client_leaves(one);
    assert!(!rig.exited);
    rig.client_leaves(two);
    assert!(rig.exited && logged(&rig, "client connections dropped, exiting"));
    assert_eq!(rig.told(boss), [GONE], "consoles are not waited for");

    let mut rig = Rig::new("");
    let client = rig.client();
    signal(&mut rig, Command::ShutdownWaitForClients);
    signal(&mut rig, Command::ShutdownWaitForClients);
    assert!(rig.exited && logged(&rig, "got SIGTERM while shutting down, fast exit"));
    assert_eq!(rig.told(client), [GONE]);
}

#[test]
fn term_without_clients_exits_at_once() {
    let mut rig = Rig::new("");
    signal(&mut rig, Command::ShutdownWaitForClients);
    assert!(rig.exited && rig.stopped_listening);
}

#[test]
fn the_first_int_waits_for_servers_and_the_second_does_not() {
    let mut rig = Rig::with("db = host=127.0.0.1 user=u pool_size=1", "");
    let (busy, server) = in_transaction(&mut rig);
    let (waiting, idle) = (rig.client(), rig.client());
    rig.says(waiting, |w| w.query(b"select 2"));
    signal(&mut rig, Command::ShutdownWaitForServers);
    assert!(rig.stopped_listening && !rig.exited);
    assert_eq!(rig.told(waiting), [GONE], "who waits for a server waits in vain");
    rig.says(idle, |w| w.query(b"select 3"));
    assert_eq!(rig.told(idle), [GONE], "and so would who comes now");
    rig.says(busy, |w| w.query(b"select 4"));
    assert_eq!(rig.server_of(busy), Some(server), "a transaction goes on to its end");
    rig.completes(server, "COMMIT");
    assert!(rig.exited && logged(&rig, "server connections dropped, exiting"));
    assert_eq!(rig.told(busy), ["CommandComplete COMMIT", "ReadyForQuery I", GONE]);
    assert!(is_closed(&rig, server));

    let mut rig = Rig::new("");
    let (client, _) = in_transaction(&mut rig);
    signal(&mut rig, Command::ShutdownWaitForServers);
    assert!(!rig.exited);
    signal(&mut rig, Command::ShutdownWaitForServers);
    assert!(rig.exited && logged(&rig, "got SIGINT while shutting down, fast exit"));
    assert_eq!(rig.told(client), [GONE]);
}

#[test]
fn shutdown_orders_of_the_console_are_answered_before_the_end() {
    let mut rig = Rig::new("");
    let boss = console(&mut rig);
    let mut told = done("SHUTDOWN");
    told.push(GONE.into());
    assert_eq!(order(&mut rig, boss, "shutdown wait_for_servers"), told);
    assert!(rig.exited);
}

fn reload(rig: &mut Rig, outcome: ReloadOutcome) {
    let by = rig.reloads.pop_front().expect("a reload was asked for");
    rig.pooler.handle_reload(rig.now, by, outcome);
    rig.settle(&[]);
}

fn new(databases: &str, settings: &str) -> ReloadOutcome {
    ReloadOutcome::New(Arc::new(configuration(databases, settings)), Vec::new())
}

#[test]
fn a_bad_configuration_changes_nothing_and_every_problem_is_told() {
    let mut rig = Rig::new("");
    let boss = console(&mut rig);
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
    let boss = console(&mut rig);
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
    let boss = console(&mut rig);
    order(&mut rig, boss, "reload");
    reload(&mut rig, new("db = host=127.0.0.2 user=u", ""));
    assert_eq!(rig.told(boss), done("RELOAD"));
    assert!(
        logged(&rig, "RELOAD: changed database db (servers are replaced)"),
        "{:?}",
        rig.log
    );
    assert!(!is_closed(&rig, server), "the transaction goes on");
    commit(&mut rig, client);
    assert!(is_closed(&rig, server) && logged(&rig, "closing because: database configuration changed"));
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
    assert!(!is_closed(&rig, server));
}

#[test]
fn a_removed_database_closes_its_clients_and_servers() {
    let both = "db = host=127.0.0.1 user=u\nother = host=127.0.0.1 user=u";
    let mut rig = Rig::with(both, "");
    let (client, server) = in_transaction(&mut rig);
    signal(&mut rig, Command::Reload);
    reload(&mut rig, new("other = host=127.0.0.1 user=u", ""));
    assert_eq!(rig.told(client), ["Error 57P01 database removed"]);
    assert!(is_closed(&rig, client) && is_closed(&rig, server));
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
            is_closed(&rig, server),
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

#[test]
fn a_password_learnt_from_a_client_survives_a_reload_of_something_else_only() {
    let (database, hashed) = (
        "db = host=127.0.0.1 user=u",
        "\"u\" \"md58241e4933645394efc44fff1313f3ba4\"\n",
    );
    for (new_database, new_users, expected) in [
        ("db = host=127.0.0.1 user=u pool_size=7", hashed, Some("old")),
        ("db = host=127.0.0.1 user=u password=two", hashed, Some("two")),
        (database, "\"u\" \"new\"\n", Some("new")),
        (database, "\"u\" \"\"\n", None),
    ] {
        let mut rig = Rig::with_users(hashed, "auth_type = plain");
        let client = rig.client_begins(&[("user", "u"), ("database", "db")]);
        rig.says(client, |w| w.password(b"old\0"));
        let (server, password) = password_given(&mut rig).unwrap();
        assert_eq!(password, "old", "the file has the hash only");
        rig.server_dies(server);
        signal(&mut rig, Command::Reload);
        let config = configuration_with_users(new_database, "auth_type = plain", new_users);
        reload(&mut rig, ReloadOutcome::New(Arc::new(config), Vec::new()));
        rig.says(client, |w| w.query(b"select 1"));
        let password = password_given(&mut rig).map(|(_, password)| password);
        assert_eq!(password.as_deref(), expected);
    }
}

#[test]
fn settings_that_need_a_restart_stay_with_a_warning() {
    let mut rig = Rig::new("listen_port = 7000");
    let boss = console(&mut rig);
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
    let boss = console(&mut rig);
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
    let boss = console(&mut rig);
    order(&mut rig, boss, "reload");
    rig.client_leaves(boss);
    let next = console(&mut rig);
    assert_eq!(next.0.index, boss.0.index);
    reload(&mut rig, new("db = host=127.0.0.1 user=u", ""));
    assert!(rig.told(next).is_empty());
}

#[test]
fn waiting_commands_work_by_the_extended_protocol_too() {
    let mut rig = Rig::new("");
    let boss = console(&mut rig);
    rig.says(boss, |w| {
        w.parse(b"", b"reload", &[0, 0]);
        w.bind_text(b"", &[]);
        w.describe(b'P', b"");
        w.execute();
        w.sync();
    });
    assert_eq!(rig.told(boss), ["ParseComplete", "BindComplete", "NoData"]);
    reload(
        &mut rig,
        ReloadOutcome::Bad(vec![Problem::error(&Place::file("a.ini"), "x")]),
    );
    let told = rig.told(boss);
    assert_eq!(told.len(), 2);
    assert!(told[0].starts_with("Error F0000 ") && told[1] == "ReadyForQuery I");
}

/// Guards against a panic: the end of the last connection may end the process while a lost server still seems linked to
/// its client.
#[test]
fn the_last_cancel_of_a_lost_server_may_end_the_process() {
    for by in [Command::ShutdownWaitForClients, Command::ShutdownWaitForServers] {
        let mut rig = Rig::new("");
        let busy = rig.client_begins(&[("user", "u"), ("database", "db")]);
        rig.servers_log_in();
        let key = rig.key_told(busy);
        rig.told(busy);
        rig.says(busy, |w| w.query(b"select pg_sleep(10)"));
        let server = rig.server_of(busy).unwrap();
        rig.cancel_request(&key);
        signal(&mut rig, by);
        rig.server_dies(server);
        assert!(
            rig.told(busy)
                .iter()
                .any(|l| l.contains("08006") || l.contains("57P01"))
        );
    }
}
