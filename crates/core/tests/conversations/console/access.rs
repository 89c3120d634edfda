//! Who may use the console.

use super::tables::{console, query, value};
use crate::rig::Rig;
use pgweir_core::{Accepted, Address};
use pgweir_wire::{ProtocolVersion, StartupPacket};

#[test]
fn a_user_of_stats_users_may_look_and_nothing_else() {
    let mut rig = Rig::with_users(
        "\"watcher\" \"\"\n\"boss\" \"\"\n\"bob\" \"\"\n",
        "stats_users = watcher\nadmin_users = boss",
    );
    let watcher = rig.client_begins(&[("user", "watcher"), ("database", "pgbouncer")]);
    assert!(rig.told(watcher).contains(&"ParameterStatus is_superuser off".into()));
    for refused in ["pause", "show fds", "set verbose = 1", "reload", "shutdown"] {
        rig.says(watcher, |w| w.query(refused.as_bytes()));
        assert_eq!(
            rig.told(watcher),
            ["Error 42501 admin access needed", "ReadyForQuery I"]
        );
    }
    assert_eq!(query(&mut rig, watcher, "show stats").1.len(), 1);
    let boss = rig.client_begins(&[("user", "boss"), ("database", "pgbouncer")]);
    rig.told(boss);
    assert_eq!(query(&mut rig, boss, "show fds").1.len(), 0);
    let bob = rig.client_begins(&[("user", "bob"), ("database", "pgbouncer")]);
    assert_eq!(rig.told(bob), ["Error 28000 not allowed"]);
    assert!(rig.closed.contains(&bob.into()));
}

/// The options of LDAP contain the password with which users are searched for.
#[test]
fn only_administrators_see_passwords_in_settings_and_the_log_has_none() {
    const OPTIONS: &str = "ldapserver=a ldapbasedn=b ldapbinddn=c ldapbindpasswd=hidden";
    let mut rig = Rig::with_users(
        "\"watcher\" \"\"\n\"boss\" \"\"\n",
        &format!("stats_users = watcher\nadmin_users = boss\nauth_ldap_options = {OPTIONS}"),
    );
    let [watcher, boss] = ["watcher", "boss"].map(|user| {
        let id = rig.client_begins(&[("user", user), ("database", "pgbouncer")]);
        rig.told(id);
        id
    });
    rig.says(boss, |w| {
        w.query(format!("set auth_ldap_options = '{OPTIONS} ldaptls=1'").as_bytes())
    });
    rig.says(boss, |w| {
        w.query(b"set auth_query = 'select dblink(''password=hidden'')'")
    });
    rig.told(boss);
    let [seen, all] = [watcher, boss].map(|id| format!("{:?}", query(&mut rig, id, "show config")));
    assert!(!seen.contains("hidden") && seen.contains("auth_ldap_options"), "{seen}");
    assert_eq!(all.matches("=hidden").count(), 2);
    assert!(rig.log.iter().any(|(_, line)| line.contains("SET auth_ldap_options=")));
    assert!(
        rig.log.iter().all(|(_, line)| !line.contains("hidden")),
        "{:?}",
        rig.log
    );
}

#[test]
fn the_owner_of_the_process_is_an_administrator_on_the_unix_socket() {
    for uid in [0, 1] {
        let mut rig = Rig::with_users("\"bob\" \"\"\n", "auth_type = scram-sha-256");
        let peer = Address::Unix { port: 6432, pid: None };
        let accepted = Accepted {
            peer,
            local: peer,
            peer_uid: Some(uid),
        };
        let id = rig.pooler.handle_accept(rig.now, accepted);
        let mut packet = Vec::new();
        let parameters = [(&b"user"[..], &b"pgbouncer"[..]), (b"database", b"pgbouncer")];
        StartupPacket::write_startup(&mut packet, ProtocolVersion::V3_0, parameters);
        rig.comes(id, &packet);
        let heard = rig.told(id);
        let in_at_once = heard.last().map(String::as_str) == Some("ReadyForQuery I");
        assert_eq!(in_at_once, uid == 0, "{heard:?}");
    }
}

#[test]
fn the_console_is_there_when_every_client_place_is_taken() {
    let mut rig = Rig::new("max_client_conn = 1");
    let client = rig.client();
    let refused = rig.client_begins(&[("user", "u"), ("database", "db")]);
    assert!(rig.told(refused)[0].contains("max_client_conn"));
    let id = console(&mut rig);
    rig.client_leaves(client);
    rig.client();
    assert_eq!(value(&mut rig, id, "show lists", 6, "items"), "2");
    assert_eq!(rig.pooler.linked(id.into()), None);
    rig.says(id, |w| w.terminate());
    assert!(rig.closed.contains(&id.into()));
}
