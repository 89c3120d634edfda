//! SHUTDOWN and the signals that end the process.

use super::orders::{GONE, done, in_transaction, logged, order, signal};
use crate::rig::{NOTHING, Rig};
use pgweir_core::Command;

#[test]
fn shutdown_now_takes_leave_of_everyone() {
    for by_signal in [true, false] {
        let mut rig = Rig::new("");
        let (busy, server) = in_transaction(&mut rig);
        let idle = rig.client();
        let boss = rig.console();
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
        assert!([busy, idle, boss].iter().all(|id| rig.is_closed(*id)) && rig.is_closed(server));
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
    let boss = rig.console();
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

/// Guards against somebody who begins to log in to the console by the Unix socket, which stays open, and so puts off the end.
#[test]
fn logins_to_the_console_are_not_waited_for() {
    let mut rig = Rig::new("auth_type = plain\nadmin_users = boss");
    let client = rig.client_begins(&[("user", "u"), ("database", "db")]);
    let boss = rig.client_begins(&[("user", "boss"), ("database", "pgbouncer")]);
    assert!(rig.told(boss)[0].starts_with("Authentication"));
    signal(&mut rig, Command::ShutdownWaitForClients);
    assert!(!rig.exited, "the other one may log in");
    rig.client_leaves(client);
    assert!(rig.exited);
    assert_eq!(rig.told(boss), [GONE]);
}

/// Guards against a shutdown that waits for clients which wait for a RESUME that is refused.
#[test]
fn clients_of_a_paused_database_do_not_hold_up_the_shutdown() {
    let mut rig = Rig::new("query_wait_timeout = 0");
    let (waits, comes_later) = (rig.client(), rig.client());
    let boss = rig.console();
    assert_eq!(order(&mut rig, boss, "pause db"), done("PAUSE"));
    rig.query(waits, "select 1");
    signal(&mut rig, Command::ShutdownWaitForClients);
    assert_eq!(rig.told(waits), [GONE]);
    assert!(!rig.exited && !rig.is_closed(comes_later));
    rig.query(comes_later, "select 1");
    assert_eq!(rig.told(comes_later), [GONE]);
    assert!(rig.exited);
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
    assert!(rig.is_closed(server));

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
    let boss = rig.console();
    let mut told = done("SHUTDOWN");
    told.push(GONE.into());
    assert_eq!(order(&mut rig, boss, "shutdown wait_for_servers"), told);
    assert!(rig.exited);
}

/// Guards against a panic: the server that is released may be the last one that SHUTDOWN waits for, and its client is
/// being welcomed.
#[test]
fn the_server_that_tries_a_startup_parameter_may_be_the_last_one_in_use() {
    let mut rig = Rig::new("");
    rig.client();
    let client = rig.client_begins(&[("user", "u"), ("database", "db"), ("work_mem", "1MB")]);
    rig.servers_log_in();
    let server = rig.server_of(client).expect("it tries the value");
    signal(&mut rig, Command::ShutdownWaitForServers);
    rig.answers_about(server, NOTHING);
    assert!(rig.exited);
    assert_eq!(rig.told(client).last().map(String::as_str), Some(GONE));
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
