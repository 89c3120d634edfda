//! Clients that are refused because others wait already (queue_target): conversations in virtual time.

use crate::rig::Rig;
use pgweir_core::{ClientId, ServerId};
use pgweir_wire::ErrorFields;
use pgweir_wire::TransactionStatus::InTransaction;
use std::time::Duration;

const MS: Duration = Duration::from_millis(1);

const TARGET: &str = "default_pool_size = 1\nqueue_target = 0.2\nquery_wait_notify = 0";

const REFUSED: &str = "Error 53300 too many clients wait for a server";

/// A client whose transaction has the only server, and as many others that have logged in.
fn busy(rig: &mut Rig, others: usize) -> (ServerId, ClientId, Vec<ClientId>) {
    let holder = rig.client();
    let others = (0..others).map(|_| rig.client()).collect();
    rig.query(holder, "select 'long'");
    let server = rig.server_of(holder).expect("the only server");
    rig.told(server);
    (server, holder, others)
}

#[test]
fn the_newest_is_refused_and_its_connection_stays() {
    let mut rig = Rig::new(TARGET);
    let (server, _, clients) = busy(&mut rig, 3);
    for client in &clients {
        rig.query(*client, "select 1");
        rig.wait(MS);
    }
    rig.wait(MS * 195);
    clients
        .iter()
        .for_each(|client| assert_eq!(rig.bytes_written(*client), 0));
    rig.wait(MS * 100);
    let heard = rig.hears(clients[2]);
    assert_eq!(heard.iter().map(|(tag, _)| *tag).collect::<Vec<_>>(), [b'E', b'Z']);
    let error = ErrorFields::read(&heard[0].1).unwrap();
    let field = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert_eq!(field(error.severity), "ERROR");
    assert_eq!(field(error.sqlstate), "53300");
    assert_eq!(field(error.message), "too many clients wait for a server");
    let text = field(&heard[0].1);
    assert!(
        text.contains("DIt was the last of 3 clients that wait, and no server has become free for seconds."),
        "{text}"
    );
    assert!(
        text.contains(
            "HThe limit is the setting queue_target. Try again later, or see SHOW POOLS, pool_size and weight."
        ),
        "{text}"
    );
    assert_eq!(rig.told(clients[1]), Vec::<String>::new());
    // It asks again, and is served in the end.
    rig.query(clients[2], "select 2");
    (0..4).for_each(|_| rig.completes(server, "SELECT 1"));
    assert_eq!(rig.told(clients[2]), ["CommandComplete SELECT 1", "ReadyForQuery I"]);
    assert_eq!(rig.told(server).len(), 3);
}

#[test]
fn more_are_refused_the_longer_it_lasts_and_the_wait_is_told() {
    let mut rig = Rig::new(&format!("{TARGET}\nmax_client_conn = 1000"));
    let (server, holder, clients) = busy(&mut rig, 100);
    clients.iter().for_each(|client| rig.query(*client, "select 1"));
    // A client is served in 20 ms: ten of them within the target.
    let mut running = holder;
    let mut refused = Vec::new();
    for _ in 0..40 {
        rig.wait(MS * 20);
        rig.completes(server, "SELECT 1");
        rig.told(running);
        running = *clients.iter().find(|c| rig.server_of(**c).is_some()).unwrap();
        for client in &clients {
            let heard = rig.hears(*client);
            refused.extend(heard.into_iter().filter(|(tag, _)| *tag == b'E').map(|(_, body)| body));
        }
    }
    let text = String::from_utf8_lossy(&refused[0]).into_owned();
    let wait = text.split("about ").nth(1).and_then(|rest| rest.split(' ').next());
    let wait: u64 = wait.and_then(|ms| ms.parse().ok()).unwrap_or_else(|| panic!("{text}"));
    assert!((1500..2000).contains(&wait), "{text}");
    // 40 of them were served. Of the others only those are left who are served in time.
    assert!((50..=60).contains(&refused.len()), "{}", refused.len());
}

#[test]
fn nobody_is_refused_unless_asked_for() {
    for settings in ["default_pool_size = 1", "default_pool_size = 1\nqueue_target = 2"] {
        let mut rig = Rig::new(settings);
        let (_, _, clients) = busy(&mut rig, 20);
        clients.iter().for_each(|client| rig.query(*client, "select 1"));
        rig.wait(MS * 1900);
        clients
            .iter()
            .for_each(|client| assert_eq!(rig.bytes_written(*client), 0));
    }
}

#[test]
fn a_burst_is_served() {
    let mut rig = Rig::new("default_pool_size = 1\nqueue_target = 0.001");
    let (server, _, clients) = busy(&mut rig, 5);
    rig.completes(server, "SELECT 1");
    for _ in 0..20 {
        clients.iter().for_each(|client| rig.query(*client, "select 1"));
        for _ in 0..=clients.len() {
            rig.wait(MS * 5);
            if !rig.told(server).is_empty() {
                rig.completes(server, "SELECT 1");
            }
        }
        for client in &clients {
            let told = rig.told(*client);
            assert!(!told.contains(&REFUSED.to_string()), "{told:?}");
        }
        rig.wait(MS * 70);
    }
}

#[test]
fn a_pipeline_goes_on_behind_the_refused_segment() {
    let mut rig = Rig::new(TARGET);
    let (server, _, clients) = busy(&mut rig, 1);
    rig.says(clients[0], |w| {
        for text in ["select 'refused'", "select 'served'"] {
            w.parse(b"", text.as_bytes(), &[0, 0]);
            w.bind_portal(b"", b"", &[]);
            w.execute_portal(b"");
            w.sync();
        }
    });
    rig.wait(MS * 300);
    assert_eq!(rig.told(clients[0]), [REFUSED, "ReadyForQuery I"]);
    rig.completes(server, "SELECT 1");
    let sent = rig.serves(server, "SELECT 1");
    assert!(sent.iter().any(|line| line.contains("select 'served'")), "{sent:?}");
    assert!(!sent.iter().any(|line| line.contains("select 'refused'")), "{sent:?}");
    assert_eq!(rig.told(clients[0]).last().unwrap(), "ReadyForQuery I");
}

#[test]
fn what_has_not_come_yet_is_dropped_up_to_its_end() {
    let mut rig = Rig::new(TARGET);
    let (server, _, clients) = busy(&mut rig, 1);
    let mut bytes = Vec::new();
    let mut w = pgweir_wire::Writer::new(&mut bytes);
    w.parse(b"", b"select 'refused'", &[0, 0]);
    w.bind_portal(b"", b"", &[]);
    w.execute_portal(b"");
    let behind_execute = bytes.len();
    pgweir_wire::Writer::new(&mut bytes).sync();
    rig.comes(clients[0], &bytes[..behind_execute]);
    rig.wait(MS * 300);
    assert_eq!(rig.told(clients[0]), [REFUSED]);
    rig.comes(clients[0], &bytes[behind_execute..]);
    assert_eq!(rig.told(clients[0]), ["ReadyForQuery I"]);
    rig.completes(server, "SELECT 1");
    assert_eq!(rig.told(server), Vec::<String>::new());
}

#[test]
fn a_client_may_vanish_when_it_is_refused() {
    let mut rig = Rig::new(TARGET);
    let (server, _, clients) = busy(&mut rig, 2);
    for client in &clients {
        rig.says(*client, |w| {
            w.parse(b"", b"select 1", &[0, 0]);
            w.bind_portal(b"", b"", &[]);
            w.execute_portal(b"");
        });
    }
    rig.wait(MS * 300);
    assert_eq!(rig.told(clients[1]), [REFUSED]);
    rig.client_leaves(clients[1]);
    rig.client_leaves(clients[0]);
    rig.completes(server, "SELECT 1");
    rig.wait(MS * 1000);
    assert_eq!(rig.told(server), Vec::<String>::new());
}

#[test]
fn who_has_begun_a_transaction_or_logs_in_is_not_refused() {
    let mut rig = Rig::new(TARGET);
    let (server, holder, clients) = busy(&mut rig, 2);
    rig.query(clients[0], "begin");
    assert_eq!(rig.told(clients[0]), ["CommandComplete BEGIN", "ReadyForQuery T"]);
    rig.query(clients[0], "select 'in a transaction'");
    // It needs a server to know whether the value is one.
    let arriving = rig.client_begins(&[("user", "u"), ("database", "db"), ("work_mem", "1MB")]);
    rig.wait(MS * 900);
    assert_eq!(rig.told(clients[0]), Vec::<String>::new());
    assert_eq!(rig.told(arriving), Vec::<String>::new());
    // One that holds its server is not refused either.
    rig.says(server, |w| {
        w.command_complete("SELECT 1");
        w.ready_for_query(InTransaction);
    });
    rig.told(holder);
    rig.wait(MS * 900);
    assert_eq!(rig.told(holder), Vec::<String>::new());
    rig.query(clients[1], "select 1");
    rig.wait(MS * 300);
    assert_eq!(rig.told(clients[1]), [REFUSED, "ReadyForQuery I"]);
}

#[test]
fn the_console_counts_refusals() {
    let mut rig = Rig::new(TARGET);
    let (_, _, clients) = busy(&mut rig, 1);
    rig.query(clients[0], "select 1");
    rig.wait(MS * 300);
    let admin = rig.client_begins(&[("user", "pgbouncer"), ("database", "pgbouncer")]);
    rig.told(admin);
    rig.query(admin, "show state_stats");
    let rows = rig.hears(admin);
    let is_row = |(tag, body): &(u8, Vec<u8>)| *tag == b'D' && body.windows(13).any(|w| w == b"refused_early");
    let row = rows.iter().find(|row| is_row(row)).expect("a row");
    assert!(row.1.ends_with(b"\0\0\0\x011"), "{:?}", row.1);
}

#[test]
fn the_group_with_the_most_waiting_clients_is_refused() {
    let users = "\"many\" \"\"\n\"few\" \"\"\n\"u\" \"\"";
    let mut rig = Rig::with_users(users, &format!("{TARGET}\nfair_by = user"));
    let login = |rig: &mut Rig, user: &str| {
        let id = rig.client_begins(&[("user", user), ("database", "db")]);
        rig.servers_log_in();
        rig.told(id);
        id
    };
    let holder = login(&mut rig, "u");
    rig.query(holder, "select 'long'");
    let many: Vec<_> = (0..3).map(|_| login(&mut rig, "many")).collect();
    let few: Vec<_> = (0..2).map(|_| login(&mut rig, "few")).collect();
    for client in many.iter().chain(&few) {
        rig.query(*client, "select 1");
    }
    rig.wait(MS * 300);
    assert_eq!(rig.told(many[2]), [REFUSED, "ReadyForQuery I"]);
    for client in many[..2].iter().chain(&few) {
        assert_eq!(rig.told(*client), Vec::<String>::new());
    }
}
