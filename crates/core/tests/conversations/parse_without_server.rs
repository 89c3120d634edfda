//! A Parse that would have to wait for a server: when it is answered without one, and what its client gets then.

use crate::rig::{NO_TYPES, Rig, error};
use pgweir_core::{ClientId, ServerId};
use pgweir_wire::TransactionStatus::{Idle, InTransaction};

const ONE_SERVER: &str = "default_pool_size = 1";

const TEXT: &[u8] = b"select 1 from t where k = $1";

/// One parameter, whose type is left open.
const OPEN: &[u8] = &[0, 1, 0, 0, 0, 0];

/// One parameter of type integer.
const INTEGER: &[u8] = &[0, 1, 0, 0, 0, 23];

fn prepares(rig: &mut Rig, client: ClientId, name: &[u8], types: &[u8]) {
    rig.says(client, |w| {
        w.parse(name, TEXT, types);
        w.sync();
    });
}

/// A client keeps the only server in a transaction; another one has had `TEXT` prepared before.
fn busy(types: &[u8]) -> (Rig, ServerId, ClientId) {
    let mut rig = Rig::new(ONE_SERVER);
    let (keeper, other) = (rig.client(), rig.client());
    rig.told(other);
    prepares(&mut rig, other, b"before", types);
    let server = rig.server_of(other).expect("the pool's only server");
    let asked = rig.told(server);
    rig.says(server, |w| {
        w.empty(b'1');
        if asked.iter().any(|message| message.starts_with("Describe")) {
            w.message(b't', |body| body.extend(INTEGER));
            w.empty(b'n');
        }
        w.ready_for_query(Idle);
    });
    rig.told(other);
    rig.says(keeper, |w| w.query(b"begin; select 1"));
    assert_eq!(rig.server_of(keeper), Some(server));
    rig.told(server);
    rig.says(server, |w| {
        w.command_complete("BEGIN");
        w.command_complete("SELECT 1");
        w.ready_for_query(InTransaction);
    });
    rig.told(keeper);
    (rig, server, keeper)
}

fn ends(rig: &mut Rig, server: ServerId, keeper: ClientId) {
    rig.says(keeper, |w| w.query(b"commit"));
    rig.told(server);
    rig.completes(server, "COMMIT");
    rig.told(keeper);
}

fn waits(rig: &mut Rig, write: impl FnOnce(&mut pgweir_wire::Writer<'_>)) {
    let client = rig.client();
    rig.told(client);
    rig.says(client, write);
    assert!(rig.told(client).is_empty());
}

#[test]
fn it_is_answered_if_the_statement_is_known() {
    for end in [b'S', b'H'] {
        let (mut rig, server, keeper) = busy(INTEGER);
        let client = rig.client();
        rig.told(client);
        rig.says(client, |w| {
            w.parse(b"s", TEXT, INTEGER);
            w.empty(end);
        });
        assert_eq!(rig.told(client)[0], "ParseComplete");
        assert_eq!(rig.server_of(client), None);
        rig.says(client, |w| {
            w.bind_text(b"s", &[Some(b"1")]);
            w.execute();
            w.sync();
        });
        ends(&mut rig, server, keeper);
        assert_eq!(rig.server_of(client), Some(server));
        let asked = rig.told(server);
        assert!(asked.iter().all(|message| !message.starts_with("Parse")), "{asked:?}");
    }
}

#[test]
fn open_types_are_inferred_before_the_first_use() {
    let (mut rig, server, keeper) = busy(OPEN);
    let client = rig.client();
    rig.told(client);
    prepares(&mut rig, client, b"s", OPEN);
    assert_eq!(rig.told(client), ["ParseComplete", "ReadyForQuery I"]);
    rig.says(client, |w| {
        w.bind_text(b"s", &[Some(b"1")]);
        w.execute();
        w.sync();
    });
    ends(&mut rig, server, keeper);
    let asked = rig.told(server);
    let kinds: Vec<&str> = asked.iter().filter_map(|message| message.split(' ').next()).collect();
    assert_eq!(
        kinds,
        ["Close", "Parse", "Describe", "Bind", "Execute", "Sync"],
        "{asked:?}"
    );
    rig.says(server, |w| {
        w.empty(b'3');
        w.empty(b'1');
        w.message(b't', |body| body.extend(INTEGER));
        w.empty(b'n');
        w.empty(b'2');
        w.command_complete("SELECT 0");
        w.ready_for_query(Idle);
    });
    assert_eq!(
        rig.told(client),
        ["BindComplete", "CommandComplete SELECT 0", "ReadyForQuery I"]
    );
    // The types are known from now on.
    rig.says(client, |w| {
        w.bind_text(b"s", &[Some(b"2")]);
        w.execute();
        w.sync();
    });
    let asked = rig.told(server);
    assert!(asked.iter().all(|message| !message.starts_with("Parse")), "{asked:?}");
}

#[test]
fn what_is_wrong_is_told_at_the_first_use() {
    let (mut rig, server, keeper) = busy(OPEN);
    let client = rig.client();
    rig.told(client);
    prepares(&mut rig, client, b"s", OPEN);
    rig.told(client);
    rig.says(client, |w| {
        w.bind_text(b"s", &[Some(b"1")]);
        w.execute();
        w.sync();
    });
    ends(&mut rig, server, keeper);
    rig.told(server);
    rig.says(server, |w| {
        w.empty(b'3');
        w.error(&error("42P01", "relation \"t\" does not exist"));
        w.ready_for_query(Idle);
    });
    assert_eq!(
        rig.told(client),
        ["Error 42P01 relation \"t\" does not exist", "ReadyForQuery I"]
    );
}

#[test]
fn a_statement_that_no_server_has_prepared_waits() {
    let (mut rig, ..) = busy(INTEGER);
    waits(&mut rig, |w| {
        w.parse(b"s", b"select 2", NO_TYPES);
        w.sync();
    });
}

#[test]
fn other_types_are_another_statement() {
    let (mut rig, ..) = busy(INTEGER);
    waits(&mut rig, |w| {
        w.parse(b"s", TEXT, OPEN);
        w.sync();
    });
}

#[test]
fn what_is_prepared_inside_the_open_transaction_is_known_when_it_is_answered() {
    let (mut rig, server, keeper) = busy(INTEGER);
    rig.says(keeper, |w| {
        w.parse(b"inside", b"select 1 from just_made", NO_TYPES);
        w.sync();
    });
    let same = |w: &mut pgweir_wire::Writer<'_>| {
        w.parse(b"s", b"select 1 from just_made", NO_TYPES);
        w.sync();
    };
    rig.told(server);
    waits(&mut rig, same);
    rig.says(server, |w| {
        w.empty(b'1');
        w.ready_for_query(InTransaction);
    });
    assert_eq!(rig.told(keeper), ["ParseComplete", "ReadyForQuery T"]);
    let client = rig.client();
    rig.told(client);
    rig.says(client, same);
    assert_eq!(rig.told(client), ["ParseComplete", "ReadyForQuery I"]);
}

#[test]
fn a_deferred_begin_stays_deferred() {
    let (mut rig, server, keeper) = busy(INTEGER);
    let client = rig.client();
    rig.told(client);
    rig.says(client, |w| w.query(b"begin"));
    assert_eq!(rig.told(client), ["CommandComplete BEGIN", "ReadyForQuery T"]);
    prepares(&mut rig, client, b"s", INTEGER);
    assert_eq!(rig.told(client), ["ParseComplete", "ReadyForQuery T"]);
    rig.says(client, |w| {
        w.bind_text(b"s", &[Some(b"1")]);
        w.execute();
        w.sync();
    });
    ends(&mut rig, server, keeper);
    assert!(rig.told(server)[0].ends_with("BEGIN"));
}

#[test]
fn more_than_a_parse_waits() {
    let (mut rig, ..) = busy(INTEGER);
    waits(&mut rig, |w| {
        w.parse(b"s", TEXT, INTEGER);
        w.bind_text(b"s", &[Some(b"1")]);
        w.execute();
        w.sync();
    });
    waits(&mut rig, |w| {
        w.parse(b"", TEXT, INTEGER);
        w.sync();
    });
}

#[test]
fn a_name_that_is_taken_waits() {
    let (mut rig, ..) = busy(INTEGER);
    let client = rig.client();
    rig.told(client);
    prepares(&mut rig, client, b"s", INTEGER);
    rig.told(client);
    prepares(&mut rig, client, b"s", INTEGER);
    assert!(rig.told(client).is_empty());
}

#[test]
fn the_setting_turns_it_off() {
    let (mut rig, ..) = busy(INTEGER);
    rig.reloads(crate::rig::configuration(
        "db = host=127.0.0.1 user=u",
        &format!("{ONE_SERVER}\nparse_without_server = 0"),
    ));
    waits(&mut rig, |w| {
        w.parse(b"s", TEXT, INTEGER);
        w.sync();
    });
}

/// Guards against ParseComplete for a client whose transaction has failed before a server had its BEGIN.
#[test]
fn it_is_not_answered_in_a_failed_transaction() {
    let (mut rig, _, _) = busy(INTEGER);
    let client = rig.client_begins(&[("user", "u"), ("database", "db")]);
    let key = rig.key_told(client);
    rig.query(client, "begin");
    rig.query(client, "select 1");
    rig.cancel_request(&key);
    let told = rig.told(client);
    assert_eq!(told.last().map(String::as_str), Some("ReadyForQuery E"), "{told:?}");
    prepares(&mut rig, client, b"s", INTEGER);
    assert_eq!(rig.told(client), [""; 0], "a server refuses it");
}
