//! RECONNECT, KILL, KILL_CLIENT and DISABLE.

use super::orders::{KILLED, commit, done, in_transaction, logged, order};
use crate::rig::Rig;
use pgweir_core::ClientId;

#[test]
fn reconnect_replaces_servers_when_they_are_released_and_wait_close_waits_for_it() {
    let mut rig = Rig::new("");
    let (client, server) = in_transaction(&mut rig);
    let idle = rig.client();
    let boss = rig.console();
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
    assert!(rig.is_closed(server) && logged(&rig, "closing because: close_needed"));
    assert_eq!(rig.told(boss), done("WAIT_CLOSE"));
    assert!(!rig.is_closed(new[0]));
}

#[test]
fn kill_drops_clients_and_servers_and_holds_new_ones_until_resume() {
    for (kill, resume) in [("kill db", "resume db"), ("kill", "resume db"), ("kill", "resume")] {
        let mut rig = Rig::new("");
        let (client, server) = in_transaction(&mut rig);
        let boss = rig.console();
        assert_eq!(order(&mut rig, boss, kill), done("KILL"));
        assert_eq!(rig.told(client), [KILLED]);
        assert!(rig.is_closed(client) && rig.is_closed(server));
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
    let boss = rig.console();
    let number = client_number(&mut rig, boss, 0);
    assert_eq!(
        order(&mut rig, boss, &format!("kill_client {number}")),
        done("KILL_CLIENT")
    );
    assert_eq!(rig.told(client), ["Error 57P01 admin forced disconnect"]);
    assert!(rig.is_closed(server));
    let new = rig.client_begins(&[("user", "u"), ("database", "db")]);
    assert_eq!(new.0.index, client.0.index, "in the same place");
    assert_eq!(
        order(&mut rig, boss, &format!("kill_client {number}"))[0],
        "Error 42704 client not found"
    );
    assert!(!rig.is_closed(new));
    rig.servers_log_in();
    assert!(rig.server_of(waiting).is_some(), "who waited gets another server");
}

#[test]
fn disable_refuses_new_clients_only() {
    let mut rig = Rig::new("");
    let client = rig.client();
    let boss = rig.console();
    assert_eq!(order(&mut rig, boss, "disable db"), done("DISABLE"));
    let refused = rig.client_begins(&[("user", "u"), ("database", "db")]);
    assert_eq!(rig.told(refused), ["Error 57P03 database \"db\" is disabled"]);
    rig.says(client, |w| w.query(b"select 1"));
    assert!(rig.server_of(client).is_some());
    assert_eq!(order(&mut rig, boss, "enable db"), done("ENABLE"));
    rig.client();
}
