//! Settings of the startup packet: when a server is judged by them, and who gives up its role.

use super::session::{client_begins_with_work_mem, does, probe_fails};
use crate::rig::{NOTHING, Rig, Session, error};
use pgweir_core::{ClientId, ServerId};
use pgweir_wire::TransactionStatus::Idle;

/// Guards against startup settings that were tried, and remembered for all clients, under the role of the server's last
/// client.
#[test]
fn startup_settings_are_judged_on_a_server_as_it_is_after_its_login() {
    let mut rig = Rig::one_server("");
    let a = rig.client();
    let server = does(&mut rig, a, "set role bob");
    rig.answers_all_about(
        server,
        Session {
            settings: &[("role", "bob")],
            ..NOTHING
        },
    );
    let binds = |told: &[String]| told.iter().filter(|line| *line == "Bind  pgweir_1").count();
    let refused = rig.client_begins(&[("user", "u"), ("database", "db"), ("work_mem", "much")]);
    assert_eq!(binds(&rig.answers_about(server, NOTHING)), 1, "RESET ROLE");
    assert_eq!(
        binds(&rig.told(server)),
        1,
        "and what is judged, when the server has reported what that came to"
    );
    rig.says(server, |w| {
        w.empty(b'2');
        w.error(&error("22023", "invalid value for parameter \"work_mem\": \"much\""));
        w.ready_for_query(Idle);
    });
    assert!(rig.told(refused).last().unwrap().starts_with("Error 22023"));
    let accepted = client_begins_with_work_mem(&mut rig);
    assert_eq!(binds(&rig.answers_all_about(server, NOTHING)), 1, "the role is gone");
    assert!(rig.told(accepted).ends_with(&["ReadyForQuery I".into()]));
    rig.says(a, |w| w.query(b"select 1"));
    assert_eq!(
        binds(&rig.answers_all_about(server, NOTHING)),
        2,
        "work_mem, and the role again"
    );
}

/// Guards against a login that is refused because the server's user has a default time limit, and another session holds
/// a lock.
#[test]
fn a_time_limit_does_not_judge_startup_settings() {
    let mut rig = Rig::one_server("");
    let other = rig.client();
    let server = does(&mut rig, other, "select 1");
    rig.answers_all_about(server, NOTHING);
    let client = client_begins_with_work_mem(&mut rig);
    assert!(rig.told(server).contains(&"Bind  pgweir_1".to_string()));
    rig.says(server, |w| {
        w.empty(b'1');
        w.empty(b'2');
        w.error(&error("55P03", "canceling statement due to lock timeout"));
        w.ready_for_query(Idle);
    });
    assert_eq!(rig.told(client), [""; 0], "it goes on waiting");
    rig.answers_all_about(server, NOTHING);
    assert!(rig.told(client).ends_with(&["ReadyForQuery I".into()]));
}

/// A client whose startup packet names a role and work_mem, and that has given up the role.
fn client_without_its_startup_role(rig: &mut Rig) -> (ClientId, ServerId) {
    let client = rig.client_begins(&[("user", "u"), ("database", "db"), ("work_mem", "8MB"), ("role", "bob")]);
    let server = rig.connects.pop_front().expect("a server for the login");
    rig.server_logs_in(server);
    rig.answers_all_about(server, NOTHING);
    rig.told(client);
    rig.says(client, |w| w.query(b"set role none"));
    rig.answers_all_about(server, WITHOUT_ROLE);
    (client, server)
}

const WITHOUT_ROLE: Session = Session {
    settings: &[("work_mem", "8192"), ("role", "none")],
    ..NOTHING
};

/// Guards against SET ROLE NONE that is taken for RESET ROLE, if the startup packet names a role.
#[test]
fn who_gives_up_the_role_of_its_startup_packet_does_not_get_it_back() {
    let mut rig = Rig::one_server("");
    let (client, server) = client_without_its_startup_role(&mut rig);
    rig.says(client, |w| w.query(b"select 1"));
    assert_eq!(rig.answers_about(server, WITHOUT_ROLE), ["Query select 1"]);
    rig.says(client, |w| w.query(b"reset role"));
    let told = rig.answers_all_about(server, WITHOUT_ROLE);
    let makes = |line: &&String| line.starts_with("Bind pgweir_portal ");
    assert_eq!(told.iter().filter(makes).count(), 1, "{told:?}");
}

/// Guards against the role of the startup packet for a client that has given it up: after the last of the failed probes,
/// the pooler forgot what they were about, and took the next answer for that to a RESET ROLE.
#[test]
fn who_gave_up_its_role_before_failed_probes_does_not_get_it_back_after_them() {
    let mut rig = Rig::one_server("");
    let client = rig.client_begins(&[("user", "u"), ("database", "db"), ("role", "bob")]);
    let server = rig.connects.pop_front().expect("a server for the login");
    rig.server_logs_in(server);
    rig.answers_all_about(server, NOTHING);
    rig.says(client, |w| w.query(b"select 0"));
    rig.answers_all_about(server, NOTHING);
    rig.told(client);
    rig.says(client, |w| w.query(b"set role none"));
    rig.told(server);
    rig.completes(server, "SET");
    for _ in 0..3 {
        probe_fails(&mut rig, server);
    }
    assert_eq!(rig.told(server), [""; 0], "asked no more, for now");
    rig.says(client, |w| w.query(b"select 1"));
    assert_eq!(rig.answers_all_about(server, NOTHING), ["Query select 1"]);
    rig.says(client, |w| w.query(b"set work_mem = '1MB'"));
    let told = rig.answers_all_about(
        server,
        Session {
            settings: &[("work_mem", "1024"), ("role", "none")],
            ..NOTHING
        },
    );
    assert!(told.contains(&"Bind  pgweir_7".to_string()), "asked again: {told:?}");
    assert!(
        !told.contains(&"Bind  pgweir_1".to_string()),
        "no role is set: {told:?}"
    );
}

/// Guards against setting the role of the startup packet again behind RESET ALL, which does not change the role.
#[test]
fn reset_all_leaves_the_role() {
    let mut rig = Rig::one_server("");
    let (client, server) = client_without_its_startup_role(&mut rig);
    rig.says(client, |w| w.query(b"reset all"));
    let told = rig.answers_all_about(server, WITHOUT_ROLE);
    let makes = |line: &&String| line.starts_with("Bind pgweir_portal ");
    assert_eq!(told.iter().filter(makes).count(), 1, "work_mem alone: {told:?}");
    rig.says(client, |w| w.query(b"discard all"));
    let told = rig.answers_all_about(server, WITHOUT_ROLE);
    assert_eq!(told.iter().filter(makes).count(), 2, "the role, too: {told:?}");
}

/// Guards against a name that is cut without a word: PostgreSQL sends a NOTICE, and the pooler asks only for the first
/// client.
#[test]
fn every_client_is_told_that_its_application_name_is_cut() {
    let mut rig = Rig::one_server("");
    let (long, kept) = ("\u{fc}".repeat(32), "?".repeat(62));
    let packet = [("user", "u"), ("database", "db"), ("application_name", &long)];
    for _ in 0..2 {
        let client = rig.client_begins(&packet);
        if let Some(server) = rig.connects.pop_front() {
            rig.server_logs_in(server);
            let told = rig.told(server);
            rig.answers(server, &told, &[("application_name", &kept)]);
        }
        let heard = rig.hears(client);
        let tags: Vec<_> = heard.iter().map(|(tag, _)| char::from(*tag)).take(3).collect();
        assert_eq!(tags, ['R', 'N', 'S']);
        let notice = String::from_utf8_lossy(&heard[1].1);
        let message = format!("identifier \"{long}\" will be truncated to \"{}\"", "\u{fc}".repeat(31));
        assert!(notice.contains("C42622") && notice.contains(&message), "{notice}");
    }
}
