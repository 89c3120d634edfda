//! Tests of linking and giving back, without a pooler.

use super::*;
use crate::alone::{Alone, CLIENT, NOW, SERVER};
use crate::base::close_reason::{CloseReason, FullLimit};
use crate::base::pin_reason::{Cleanup, PinReason};
use crate::catalog::catalogs::Needs;
use crate::client::ClientPhase;

#[test]
fn both_sides_know_of_a_link() {
    let mut alone = Alone::new();
    assert_eq!(alone.exchange().link(), Linked::Ready);
    assert_eq!((alone.client.link, alone.server.link), (Some(SERVER), Some(CLIENT)));
    assert!(matches!(alone.server.phase, ServerPhase::Linked) && alone.server.has_served);
    assert_eq!((alone.client.xact_start, alone.server.since), (NOW, NOW));
    assert_eq!(alone.pool.stats().server_assignment_count, 1);
    assert!(alone.written(SERVER).is_empty() && alone.written(CLIENT).is_empty());
}

#[test]
fn a_server_with_other_settings_is_not_ready() {
    let mut alone = Alone::new();
    let shape = alone.with("work_mem", "1MB");
    alone.client.session.has_settings(shape);
    assert_eq!(alone.exchange().link(), Linked::Differs);
}

#[test]
fn a_client_that_has_not_logged_in_is_no_session() {
    let mut alone = Alone::new();
    alone.client.phase = ClientPhase::Startup(Default::default());
    assert_eq!(alone.exchange().link(), Linked::Login);
}

#[test]
fn the_time_in_the_queue_ends_with_the_link() {
    let mut alone = Alone::new();
    let before = alone.client.session.visits();
    let ticket = alone.pool.waiting_mut().push_front(CLIENT, NOW);
    let since = Time(NOW.0 - 250);
    alone.client.waiting = Waiting::ForServer {
        ticket,
        since,
        notified: false,
    };
    alone.exchange().link();
    assert_eq!(alone.pool.stats().wait_time, 250);
    assert_eq!(
        (alone.client.waiting, alone.client.session.visits()),
        (Waiting::No, before + 1)
    );
}

#[test]
fn in_session_pooling_a_link_pins() {
    let mut alone = Alone::new();
    alone.pool.settings_mut().mode = PoolMode::Session;
    alone.exchange().link();
    assert!(alone.client.session.pins().contains(PinReason::SessionPooling));
}

#[test]
fn a_server_that_nobody_waits_for_lies_idle() {
    let mut alone = Alone::linked();
    assert!(alone.reply().lies_idle());
    assert_eq!((alone.client.link, alone.server.link), (None, None));
    assert!(matches!(alone.server.phase, ServerPhase::Idle));
    assert_eq!(alone.pool.idle_mut().pop_back(), Some(SERVER));
}

#[test]
fn a_server_with_which_something_must_be_done_does_not_lie_idle() {
    type Reason = (&'static str, fn(&mut Alone));
    let reasons: [Reason; 9] = [
        ("a client waits", |a| _ = a.pool.waiting_mut().push_front(CLIENT, NOW)),
        ("session pooling", |a| a.pool.settings_mut().mode = PoolMode::Session),
        ("server_reset_query_always", |a| {
            a.shared.settings.server_reset_query_always = true;
        }),
        ("a catalog must be read", |a| {
            a.shared.catalogs.count(Needs::default(), Needs::new(false, true));
        }),
        ("it must be cleaned", |a| a.server.session.needs(Cleanup::Settings)),
        ("it must be closed", |a| {
            a.server.close_reason = Some(CloseReason::Evicted(FullLimit::Database))
        }),
        ("a cancel is on its way", |a| a.server.cancels.one_is_sent()),
        ("traces are left", |a| a.server.session.will_keep_traces()),
        ("its lifetime is over", |a| {
            a.server.expires = NOW;
            a.server.has_served = true;
        }),
    ];
    for (reason, make) in reasons {
        let mut alone = Alone::linked();
        make(&mut alone);
        assert!(!alone.reply().lies_idle(), "{reason}");
        assert_eq!(
            (alone.client.link, alone.server.link),
            (Some(SERVER), Some(CLIENT)),
            "{reason}"
        );
        assert_eq!(alone.pool.idle().front(), None, "{reason}");
    }
}

#[test]
fn only_complete_requests_surely_need_a_server() {
    let mut alone = Alone::new();
    let needs = |alone: &Alone, bytes: &[u8]| surely_needs_server(&alone.client, &alone.shared.settings, bytes);
    assert!(needs(&alone, b"Q\0\0\0\x0dselect 1\0"));
    assert!(!needs(&alone, b"Q\0\0\0\x0dselect "), "the rest has not come");
    assert!(!needs(&alone, b"Q\0\0\0\x0abegin\0"), "it can be deferred");
    assert!(!needs(&alone, b"S\0\0\0\x04"), "the pooler can answer it");
    assert!(!needs(&alone, b"Q\0\0\0\x03"), "malformed");
    alone.shared.settings.disable_pqexec = true;
    assert!(!needs(&alone, b"Q\0\0\0\x0dselect 1\0"), "it is refused");
}
