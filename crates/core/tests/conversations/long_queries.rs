//! Queries of more than 64 kB that use names of prepared statements or channels.

use crate::rig::{NO_TYPES, Rig};
use pgweir_core::{ClientId, ServerId};
use pgweir_wire::TransactionStatus::Idle;

/// A client that has the statement `s`, and its server, which serves another client's statement, too.
fn with_statements() -> (Rig, ClientId, ServerId) {
    let mut rig = Rig::one_server("");
    let (client, other) = (rig.client(), rig.client());
    let mut server = None;
    for (who, name, text) in [(other, "other", "select 'secret'"), (client, "s", "select 1")] {
        rig.says(who, |w| {
            w.parse(name.as_bytes(), text.as_bytes(), NO_TYPES);
            w.sync();
        });
        server = rig.server_of(who);
        rig.serves(server.unwrap(), "DONE");
    }
    (rig, client, server.unwrap())
}

/// A text of `bytes` more bytes.
fn padded(text: &str, bytes: usize) -> Vec<u8> {
    let mut message = Vec::new();
    pgweir_wire::Writer::new(&mut message).query(format!("{text}; select '{}'", "x".repeat(bytes)).as_bytes());
    message
}

/// The message comes in pieces of 30,000 bytes; the server answers what it is sent meanwhile.
fn comes(rig: &mut Rig, client: ClientId, server: ServerId, message: &[u8]) -> Vec<String> {
    for piece in message.chunks(30_000) {
        rig.comes(client, piece);
    }
    let mut told = Vec::new();
    loop {
        if rig.bytes_written(server) > message.len() - 10 {
            told.extend(rig.told(server));
            return told;
        }
        let more = rig.serves(server, "DISCARD SEQUENCES");
        assert!(!more.is_empty(), "the Query comes: {told:?}");
        told.extend(more);
    }
}

fn has(told: &[String], begin: &str) -> bool {
    told.iter().any(|line| line.starts_with(begin))
}

/// Guards against `pg_prepared_statements` that shows other clients' SQL, and against names that the server does not
/// know, because the text was too long to be kept.
#[test]
fn a_long_query_that_begins_with_a_name_is_handled_like_a_short_one() {
    for (text, closes, lends) in [
        ("table pg_prepared_statements", true, true),
        ("execute s", false, true),
        ("deallocate s", false, true),
        ("select 1", false, false),
    ] {
        let (mut rig, client, server) = with_statements();
        let told = comes(&mut rig, client, server, &padded(text, 70_000));
        assert!(has(&told, &format!("Query {text}")), "{text}");
        assert_eq!(has(&told, "Close Spgweir_11"), closes, "{text}");
        assert_eq!(has(&told, "Parse s select 1"), lends, "{text}");
    }
}

/// The same where the name comes after the beginning was sent, or in a text longer than 1 MiB, or behind a dollar quote.
#[test]
fn a_long_query_that_names_a_statement_too_late_is_refused() {
    let long = "x".repeat(70_000);
    for (text, bytes, refused) in [
        (format!("select '{long}'; table pg_prepared_statements"), 10, true),
        (
            format!("select '{long}', $$x$$; table pg_prepared_statements"),
            10,
            true,
        ),
        (format!("select '{long}'; execute s"), 10, true),
        (format!("select '{long}'; execute t"), 10, false),
        (format!("select '{long} pg_prepared_statements'"), 10, false),
        ("table pg_prepared_statements".into(), 2_000_000, true),
        ("execute s".into(), 2_000_000, true),
        ("select 1".into(), 2_000_000, false),
    ] {
        let (mut rig, client, server) = with_statements();
        rig.told(client);
        let message = padded(&text, bytes);
        let (first, rest) = message.split_at(66_000);
        rig.comes(client, first);
        if rig.bytes_written(server) < 10_000 {
            // The server forgets values of sequences first.
            rig.serves(server, "DISCARD SEQUENCES");
        }
        rest.chunks(30_000).for_each(|piece| rig.comes(client, piece));
        let sent = rig.raw(server);
        assert_eq!(sent.len(), message.len());
        assert_eq!(sent[..sent.len() - 1], message[..message.len() - 1]);
        let name = &text[text.len().saturating_sub(30)..];
        assert_eq!(sent.last() != Some(&0), refused, "{name}: no zero byte ends the text");
        if refused {
            rig.says(server, |w| {
                w.error(&crate::rig::error("08P01", "invalid string in message"));
                w.ready_for_query(Idle);
            });
            let told = rig.told(client);
            assert!(told[0].starts_with("Error 54000"), "{told:?}");
            assert_eq!(rig.server_of(client), None, "nothing has run");
        }
    }
}

/// Guards against another client's SQL in a statement that is too long to be kept, and against the unnamed statement
/// that its client had before.
#[test]
fn a_statement_that_is_too_long_to_be_kept_sees_no_other() {
    for name in [&b""[..], b"big"] {
        let (mut rig, client, server) = with_statements();
        rig.says(client, |w| {
            w.parse(b"", b"select 'before'", NO_TYPES);
            w.sync();
        });
        rig.serves(server, "DONE");
        let text = format!("table pg_prepared_statements -- {}", "x".repeat(1_100_000));
        rig.says(client, |w| {
            w.parse(name, text.as_bytes(), NO_TYPES);
            w.sync();
        });
        while !rig.serves(server, "DISCARD SEQUENCES").is_empty() {}
        rig.says(client, |w| {
            w.bind_text(name, &[]);
            w.execute();
            w.sync();
        });
        let told = rig.told(server);
        assert!(has(&told, "Close Spgweir_11"), "{told:?}");
        assert!(
            !has(&told, "Parse") && !told.iter().any(|line| line == "Close S"),
            "{told:?}"
        );
    }
}
