//! UNLISTEN counts when its transaction commits.

use super::servers::Servers;
use pgweir_wire::TransactionStatus::{Idle, InTransaction};

#[test]
fn unlisten_behind_a_savepoint_that_is_rolled_back_does_not_count() {
    let mut s = Servers::new();
    let (client, server, listener) = s.moved();
    for (text, tag, status) in [
        ("select 1", "SELECT 1", InTransaction),
        ("unlisten a", "UNLISTEN", InTransaction),
        ("rollback to s", "ROLLBACK", InTransaction),
        ("commit", "COMMIT", Idle),
    ] {
        s.rig.says(client, |w| w.query(text.as_bytes()));
        s.rig.hears(server);
        s.rig.says(server, |w| {
            w.command_complete(tag);
            w.ready_for_query(status);
        });
    }
    s.heard(client);
    s.answer(server);
    s.notifies(listener, "a", "1");
    assert_eq!(s.heard(client), ["1"]);
}

#[test]
fn unlisten_inside_a_transaction_counts_when_that_commits() {
    for (text, tags, hears) in [
        ("unlisten a", "UNLISTEN", false),
        ("select 1; unlisten *; select 2", "SELECT 1,UNLISTEN,SELECT 1", false),
        ("unlisten b; select 1", "UNLISTEN,SELECT 1", true),
        ("select 'unlisten a'", "SELECT 1", true),
        ("rollback; begin; unlisten a", "ROLLBACK,BEGIN,UNLISTEN", false),
        ("unlisten a; rollback; begin", "UNLISTEN,ROLLBACK,BEGIN", true),
    ] {
        let mut s = Servers::new();
        let (client, server, listener) = s.moved();
        let sent = [
            ("select 1", "SELECT 1", InTransaction),
            (text, tags, InTransaction),
            ("commit", "COMMIT", Idle),
        ];
        for (text, tags, status) in sent {
            s.rig.says(client, |w| w.query(text.as_bytes()));
            s.rig.hears(server);
            s.rig.says(server, |w| {
                tags.split(',').for_each(|tag| w.command_complete(tag));
                w.ready_for_query(status);
            });
        }
        s.answer(server);
        s.heard(client);
        s.notifies(listener, "a", "1");
        assert_eq!(s.heard(client) == ["1"], hears, "{text}");
        s.answer(listener);
        assert_eq!(s.channels[&listener].contains("a"), hears, "{text}");
    }
}

/// Guards against notifications that reach a client behind its UNLISTEN: they had come during the transaction.
#[test]
fn what_came_during_a_transaction_with_unlisten_is_not_told() {
    for (text, status) in [
        ("unlisten a", "COMMIT"),
        ("unlisten *", "COMMIT"),
        ("unlisten b", "COMMIT"),
        ("unlisten a", "ROLLBACK"),
    ] {
        let mut s = Servers::new();
        let (client, server, listener) = s.moved();
        let runs = |s: &mut Servers, text: &str, tag: &str, status| {
            s.rig.says(client, |w| w.query(text.as_bytes()));
            s.rig.hears(server);
            s.rig.says(server, |w| {
                w.command_complete(tag);
                w.ready_for_query(status);
            });
        };
        runs(&mut s, "select 1", "SELECT 1", InTransaction);
        s.notifies(listener, "a", "1");
        runs(&mut s, text, "UNLISTEN", InTransaction);
        s.notifies(listener, "a", "2");
        s.heard(client);
        runs(&mut s, "end", status, Idle);
        let told: &[&str] = if status == "COMMIT" && text != "unlisten b" {
            &[]
        } else {
            &["1", "2"]
        };
        let heard: Vec<String> = s
            .heard(client)
            .into_iter()
            .filter(|h| !["C", "Z"].contains(&&**h))
            .collect();
        assert_eq!(heard, told, "{text} {status}");
    }
}

/// A transaction that has also begun to listen again gets what came meanwhile, as on a direct connection.
#[test]
fn what_came_before_a_new_listen_is_told() {
    let mut s = Servers::new();
    let (client, server, listener) = s.moved();
    for (text, tag, status) in [
        ("select 1", "SELECT 1", InTransaction),
        ("unlisten a", "UNLISTEN", InTransaction),
        ("listen a", "LISTEN", InTransaction),
        ("commit", "COMMIT", Idle),
    ] {
        s.rig.says(client, |w| w.query(text.as_bytes()));
        s.rig.hears(server);
        if text == "commit" {
            s.notifies(listener, "a", "1");
            s.heard(client);
        }
        s.rig.says(server, |w| {
            w.command_complete(tag);
            w.ready_for_query(status);
        });
    }
    assert_eq!(s.heard(client), ["C", "1", "Z"]);
}

/// Guards against an UNLISTEN in a Query of more than 64 kB that ends nothing: its client went on to get notifications.
/// It counts at the beginning of such a Query; elsewhere the server refuses the text.
#[test]
fn a_long_unlisten_counts_or_is_refused() {
    let long = "x".repeat(70_000);
    for (text, counts) in [
        (format!("unlisten * /* {long} */"), true),
        (format!("select '{long}'; unlisten *"), false),
        (format!("select $$ {long} $$; unlisten *"), false),
    ] {
        let mut s = Servers::new();
        let (client, server, listener) = s.moved();
        let answers = |s: &mut Servers, tag: &str, status| {
            s.rig.hears(server);
            s.rig.says(server, |w| {
                w.command_complete(tag);
                w.ready_for_query(status);
            });
        };
        s.rig.says(client, |w| w.query(b"select 1"));
        answers(&mut s, "SELECT 1", InTransaction);
        let mut message = Vec::new();
        pgweir_wire::Writer::new(&mut message).query(text.as_bytes());
        message.chunks(30_000).for_each(|piece| s.rig.comes(client, piece));
        let sent = s.rig.raw(server);
        assert_eq!(sent.len(), message.len());
        assert_eq!(
            sent.last() == Some(&0),
            counts,
            "no zero byte ends a text that is refused"
        );
        if !counts {
            continue;
        }
        answers(&mut s, "UNLISTEN", InTransaction);
        s.rig.says(client, |w| w.query(b"commit"));
        answers(&mut s, "COMMIT", Idle);
        s.answer(server);
        s.heard(client);
        s.notifies(listener, "a", "1");
        assert_eq!(s.heard(client), [""; 0]);
    }
}
