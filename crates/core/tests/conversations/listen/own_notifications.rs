//! What a client has sent to itself comes before its ReadyForQuery.

use super::servers::Servers;

#[test]
fn own_notifications_come_before_the_own_ready_for_query() {
    let mut s = Servers::new();
    let (client, server, listener) = s.moved();
    s.rig.says(client, |w| w.query(b"notify a, 'own'"));
    s.rig.completes(server, "NOTIFY");
    assert_eq!(s.heard(client), ["C"], "the listener has not heard it yet");
    s.notifies(listener, "a", "own");
    s.answer(listener);
    assert_eq!(s.heard(client), ["own", "Z"]);
    assert_eq!(s.rig.server_of(client), None);
}

/// Recording E17, in a pipeline: the messages after a NOTIFY wait until its own notifications have been delivered.
#[test]
fn own_notifications_come_before_the_own_ready_for_query_in_a_pipeline() {
    let mut s = Servers::new();
    let (client, server, listener) = s.moved();
    s.rig.says(client, |w| {
        w.query(b"notify a, 'own'");
        w.close(b'P', b"x");
        w.sync();
    });
    s.rig.hears(server);
    s.rig.completes(server, "NOTIFY");
    s.notifies(listener, "a", "own");
    s.answer(listener);
    assert_eq!(s.heard(client), ["C", "own", "Z"]);
    s.answer(s.rig.server_of(client).expect("the next"));
    assert_eq!(s.heard(client), ["3", "Z"]);
}

/// Guards against a ReadyForQuery of an earlier request that is taken for that of the NOTIFY after it.
#[test]
fn own_notifications_behind_another_request_in_a_pipeline_come_before_their_ready_for_query() {
    let mut s = Servers::new();
    let (client, server, listener) = s.moved();
    s.rig.says(client, |w| {
        w.query(b"select 1");
        w.query(b"notify a, 'own'");
    });
    s.rig.hears(server);
    s.rig.completes(server, "SELECT 1");
    assert_eq!(s.heard(client), ["C", "Z"]);
    s.rig.completes(server, "NOTIFY");
    assert_eq!(s.heard(client), ["C"], "the listener has not heard it yet");
    s.notifies(listener, "a", "own");
    s.answer(listener);
    assert_eq!(s.heard(client), ["own", "Z"]);
}
