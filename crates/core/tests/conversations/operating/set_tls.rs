//! SET of a setting of TLS: the files are read before it counts.

use super::orders::{done, logged, order};
use crate::rig::Rig;
use pgweir_config::{Place, Problem, SslMode};
use pgweir_core::{ClientId, TriedTls};

/// The driver has tried the oldest change.
fn tried(rig: &mut Rig, outcome: Result<(), Problem>) -> TriedTls {
    let change = rig.tls_changes.pop_front().expect("files are to be read");
    let tried = rig.pooler.handle_tls_tried(rig.now, *change, outcome);
    rig.settle(&[]);
    tried
}

fn no_file() -> Problem {
    Problem::error(&Place::file("a.ini"), "TLS setup failed: no such file")
}

/// The setting's value in SHOW CONFIG.
fn shown(rig: &mut Rig, id: ClientId, name: &str) -> String {
    rig.says(id, |w| w.query(b"show config"));
    let heard = rig.hears(id);
    let rows = heard.iter().filter(|(tag, _)| *tag == b'D');
    let mut rows = rows.map(|(_, body)| pgweir_wire::backend::data_row(body).unwrap());
    let row = rows.find(|row| row[0] == Some(name.as_bytes())).unwrap();
    String::from_utf8(row[1].unwrap().to_vec()).unwrap()
}

#[test]
fn the_console_waits_for_the_files_and_hears_why_they_cannot_be_used() {
    let mut rig = Rig::new("");
    let boss = rig.console();
    let command = "SET server_tls_sslmode = require";
    assert!(order(&mut rig, boss, command).is_empty());
    assert!(!rig.pooler.may_read(boss.into()), "the console waits for the files");
    assert_eq!(tried(&mut rig, Err(no_file())), TriedTls::Dropped);
    assert_eq!(
        rig.told(boss),
        [
            "Error 22023 SET failed: TLS setup failed: no such file",
            "ReadyForQuery I"
        ]
    );
    assert_eq!(shown(&mut rig, boss, "server_tls_sslmode"), "disable");
    assert!(rig.configured.is_none() && !logged(&rig, "command issued"));

    order(&mut rig, boss, command);
    assert_eq!(rig.tls_changes[0].config().global.server_tls_sslmode, SslMode::Require);
    assert_eq!(tried(&mut rig, Ok(())), TriedTls::Used);
    assert_eq!(rig.told(boss), done("SET server_tls_sslmode=require"));
    assert_eq!(shown(&mut rig, boss, "server_tls_sslmode"), "require");
    assert!(logged(&rig, "SET server_tls_sslmode=require command issued"));
}

/// Guards against files that belong to a configuration which another SET has replaced.
#[test]
fn a_change_meanwhile_makes_the_driver_read_again() {
    let mut rig = Rig::new("");
    let (one, other) = (rig.console(), rig.console());
    order(&mut rig, one, "SET server_tls_sslmode = require");
    order(&mut rig, other, "SET pool_mode = session");
    assert_eq!(tried(&mut rig, Ok(())), TriedTls::Dropped);
    assert!(rig.told(one).is_empty());
    assert_eq!(tried(&mut rig, Ok(())), TriedTls::Used);
    assert_eq!(rig.told(one), done("SET server_tls_sslmode=require"));
    assert_eq!(shown(&mut rig, one, "pool_mode"), "session");
}

#[test]
fn other_settings_read_no_file() {
    let mut rig = Rig::new("");
    let boss = rig.console();
    order(&mut rig, boss, "SET pool_mode = session");
    order(&mut rig, boss, "SET server_tls_sslmode = disable");
    assert!(rig.tls_changes.is_empty(), "the second changes nothing");
}

#[test]
fn a_change_that_comes_back_after_its_console_left_is_for_nobody() {
    let mut rig = Rig::new("");
    let boss = rig.console();
    order(&mut rig, boss, "SET server_tls_sslmode = require");
    rig.client_leaves(boss);
    let next = rig.console();
    assert_eq!(next.0.index, boss.0.index);
    assert_eq!(tried(&mut rig, Ok(())), TriedTls::Used);
    assert!(rig.told(next).is_empty());
}

/// Guards against an answer that goes by the kind of the command that a client waits for.
#[test]
fn a_cancelled_set_does_not_answer_the_next_one() {
    let mut rig = Rig::new("");
    let (boss, key) = rig.console_with_key();
    order(&mut rig, boss, "SET server_tls_sslmode = require");
    rig.cancel_request(&key);
    let ended = "Error 57014 SET was ended by a cancel request";
    assert_eq!(rig.told(boss), [ended, "ReadyForQuery I"]);
    order(&mut rig, boss, "SET server_tls_sslmode = prefer");
    assert_eq!(tried(&mut rig, Err(no_file())), TriedTls::Dropped);
    assert!(rig.told(boss).is_empty(), "that was the first one");
    assert_eq!(tried(&mut rig, Ok(())), TriedTls::Used);
    assert_eq!(rig.told(boss), done("SET server_tls_sslmode=prefer"));
}
