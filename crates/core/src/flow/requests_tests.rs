//! Tests of the short ways of a linked client's messages, without a pooler.

use super::*;
use crate::alone::{Alone, SERVER};
use crate::statements::meaning::Meaning;
use crate::statements::prepared::Kind;
use pgweir_wire::Writer;

const REPLACES: &str = "create or replace function f() returns int language sql as 'select 2'";

fn written(write: impl FnOnce(&mut Writer<'_>)) -> Vec<u8> {
    let mut bytes = Vec::new();
    write(&mut Writer::new(&mut bytes));
    bytes
}

fn query(text: &str) -> Vec<u8> {
    written(|w| w.query(text.as_bytes()))
}

/// What becomes of a client's messages: why it stopped, and how many bytes were handled.
fn passes(alone: &mut Alone, input: &[u8]) -> (Stopped, usize) {
    let mut at = 0;
    let mut exchange = alone.exchange();
    // No flight stands behind another one.
    exchange.granted.publication = true;
    let stopped = exchange.pass(input, &mut at);
    (stopped, at)
}

/// Whether the only message of an input takes the short way of a Query or Bind.
fn goes_plainly(alone: &mut Alone, input: &[u8]) -> bool {
    let mut exchange = alone.exchange();
    let message = exchange.next_message(input, 0).expect("whole");
    exchange.goes_plainly(&message).is_some()
}

/// The client has prepared this statement under this name.
fn knows(alone: &mut Alone, text: &str, name: &[u8]) {
    let settings = alone.client.session.shape().parse_settings();
    let statement = alone.shared.statements.intern(text.as_bytes(), &[0, 0], settings);
    let meaning = Meaning::new(statement, alone.shared.statements.tick(), alone.pool.names_moved());
    alone.client.statements.names_mut().set(name, Some(meaning));
}

/// Guards against a client's SET of a custom setting that makes the messages of all later clients of the server take
/// the long way.
#[test]
fn custom_settings_of_others_concern_only_who_asks_for_them() {
    let after_another = || {
        let mut alone = Alone::linked();
        alone.server.session.note_custom_setting("app.x");
        alone
    };
    for text in [
        "select 1",
        "select a from t where b = 'app.x'",
        "update t set a = 1",
        "show app.y",
        "show datestyle",
        "select current_setting('app.y')",
        "begin",
    ] {
        let mut alone = after_another();
        let input = query(text);
        assert_eq!(passes(&mut alone, &input), (Stopped::Done, input.len()), "{text}");
        assert!(
            alone.shared.outbox.parts().iter().any(|p| p.to == SERVER.into()),
            "{text}"
        );
    }
    for text in ["show app.x", " SHOW app.x;", "select current_setting('app.x', true)"] {
        let mut alone = after_another();
        assert_eq!(passes(&mut alone, &query(text)), (Stopped::Rare, 0), "{text}");
        let parses = written(|w| w.parse(b"", text.as_bytes(), &[0, 0]));
        assert_eq!(passes(&mut alone, &parses), (Stopped::Rare, 0), "{text}");
        knows(&mut alone, text, b"s");
        let binds = written(|w| w.bind_text(b"s", &[]));
        assert_eq!(passes(&mut alone, &binds), (Stopped::Rare, 0), "{text}");
        // The client knows the setting itself.
        alone.client.session.note_custom_setting("app.x");
        assert_eq!(passes(&mut alone, &query(text)).0, Stopped::Done, "{text}");
    }
}

/// Guards against one client with such an encoding that takes the short way from all clients of all pools.
#[test]
fn an_encoding_that_hides_ascii_concerns_only_who_has_it() {
    let select = query("select 1");
    let mut alone = Alone::linked();
    let hiding = alone.with("client_encoding", "SJIS");
    assert!(hiding.hides_ascii());
    assert!(goes_plainly(&mut alone, &select));
    // A statement that a client with this encoding has prepared.
    let text = b"select '\x83\x5c'";
    let misread = alone.shared.statements.intern(text, &[0, 0], hiding.parse_settings());
    assert!(!misread.effects.is_empty());
    let mut alone = Alone::linked();
    let hiding = alone.with("client_encoding", "SJIS");
    alone.client.session.has_settings(hiding);
    assert!(!goes_plainly(&mut alone, &select));
    let input = written(|w| w.query(text));
    assert_eq!(passes(&mut alone, &input).1, input.len());
    assert!(alone.client.session.suspicion().is_some(), "the text is not read");
}

/// Guards against a PREPARE TRANSACTION of one client that takes the short way from all clients of all pools, and
/// against a COMMIT PREPARED that takes it.
#[test]
fn prepared_definitions_concern_only_who_commits_them() {
    let mut alone = Alone::linked();
    passes(&mut alone, &query(REPLACES));
    assert!(alone.server_side().knows_names());
    passes(&mut alone, &query("prepare transaction 'x'"));
    assert!(alone.shared.catalogs.may_be_prepared());
    let after_it = || {
        let mut alone = Alone::linked();
        alone.shared.catalogs.one_is_prepared();
        let server_id = alone.server_side().id;
        alone.shared.catalogs.defines(server_id, "db");
        alone
    };
    let mut alone = after_it();
    assert!(!alone.server_side().knows_names());
    assert!(goes_plainly(&mut alone, &query("select 1")));
    for text in ["commit prepared 'x'", "-- a\nCommit /* b */ Prepared 'x';"] {
        let mut alone = after_it();
        passes(&mut alone, &query(text));
        assert!(alone.server.session.may_publish(), "{text}");
        let mut alone = after_it();
        knows(&mut alone, text, b"s");
        let executes = written(|w| {
            w.bind_text(b"s", &[]);
            w.execute();
            w.sync();
        });
        let (_, at) = passes(&mut alone, &executes);
        passes(&mut alone, &executes[at..]);
        assert!(alone.server.session.may_publish(), "{text}");
    }
}

/// Guards against a client that waits for ever: what had been sent for its Bind had to be answered before the Bind was
/// looked at again, and was sent again then.
#[test]
fn nothing_is_sent_before_a_message_asks_for_its_turn() {
    let unread = |alone: &mut Alone| {
        let settings = alone.client.session.shape().parse_settings();
        let table = &mut alone.shared.statements;
        let statement = table.intern_client_named(Kind::ClientNamed, b"s", b"execute a", &[0, 0], settings, true);
        let statement = alone.shared.statements.intern_behind_set(&statement);
        let now = alone.shared.statements.now();
        alone.server.held.insert(statement.clone(), now);
        alone.server.held.doubt(alone.shared.statements.tick());
        let meaning = Meaning::new(statement, alone.shared.statements.tick(), alone.pool.names_moved());
        alone.client.statements.names_mut().set(b"s", Some(meaning));
        knows(alone, "select 1", b"a");
        written(|w| w.bind_text(b"s", &[]))
    };
    for is_unread in [true, false] {
        let mut alone = Alone::linked();
        let input = if is_unread { unread(&mut alone) } else { query(REPLACES) };
        let mut at = 0;
        assert_eq!((alone.exchange().pass(&input, &mut at), at), (Stopped::Rare, 0));
        assert!(alone.shared.outbox.parts().is_empty());
        assert_eq!(passes(&mut alone, &input).1, input.len());
        assert!(!alone.shared.outbox.parts().is_empty());
    }
}
