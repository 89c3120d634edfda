//! Tests of the table of listeners alone.

use super::*;
use crate::base::ids::Slot;

fn slot(index: u32) -> Slot {
    Slot { index, generation: 0 }
}

fn client(index: u32) -> ClientId {
    ClientId(slot(index))
}

fn hub() -> Listeners {
    Listeners::new(&mut SecretNames::new([1; 32]), [2; 32])
}

fn find(hub: &mut Listeners, database: &str, user: &str, encoding: &str) -> ListenerId {
    hub.find_or_make(Time(0), &database.into(), &user.into(), &encoding.into())
}

fn names(names: &[&str]) -> BTreeSet<ChannelName> {
    names.iter().map(|name| ChannelName::from(name.as_bytes())).collect()
}

/// A client's server listens to these channels, and so does the listener.
fn hears(hub: &mut Listeners, id: ListenerId, client: ClientId, channels: &[&str]) {
    hub.get_mut(id).unwrap().begin_hearing(client, &names(channels));
}

#[test]
fn clients_share_a_listener_only_with_the_same_database_user_and_encoding() {
    let mut hub = hub();
    assert!(hub.is_empty());
    let first = find(&mut hub, "db", "u", "UTF8");
    assert_eq!(find(&mut hub, "db", "u", "UTF8"), first);
    let others = [("other", "u", "UTF8"), ("db", "v", "UTF8"), ("db", "u", "LATIN1")];
    let others = others.map(|(database, user, encoding)| find(&mut hub, database, user, encoding));
    assert_eq!(others, [first + 1, first + 2, first + 3]);
    hub.remove(others[1]);
    assert!(hub.get(others[1]).is_none() && !hub.is_empty());
    assert_eq!(
        find(&mut hub, "db", "w", "UTF8"),
        others[1],
        "a free place is used again"
    );
}

#[test]
fn a_server_is_found_until_its_listener_has_lost_it() {
    let mut hub = hub();
    let (id, server) = (find(&mut hub, "db", "u", "UTF8"), ServerId(slot(9)));
    hub.opens(id, server);
    assert_eq!(hub.of_server(server), Some(id));
    assert!(!hub.is_heard(server), "nobody listens to a channel");
    assert!(!hub.is_up(Some(id)) && !hub.is_up(None));
    hears(&mut hub, id, client(1), &["a"]);
    hub.get_mut(id).unwrap().is_up_now();
    assert!(hub.is_heard(server) && hub.is_up(Some(id)));
    hub.loses(server);
    assert_eq!(hub.of_server(server), None);
    assert!(!hub.is_heard(server) && !hub.is_up(Some(id)));
}

#[test]
fn a_client_is_told_only_when_its_server_has_stopped() {
    let mut hub = hub();
    let id = find(&mut hub, "db", "u", "UTF8");
    hears(&mut hub, id, client(1), &["a", "b"]);
    let told = |hub: &Listeners, channel: &[u8]| hub.get(id).unwrap().clients_told(channel);
    assert_eq!(told(&hub, b"a"), []);
    hub.begin_telling(id, client(1), &names(&["a"]));
    assert_eq!((told(&hub, b"a"), told(&hub, b"b")), (vec![client(1)], vec![]));
    hub.begin_telling(id + 1, client(1), &names(&["b"]));
    assert_eq!(told(&hub, b"b"), [], "another listener");
}

#[test]
fn a_mark_leads_to_its_client_until_the_client_leaves() {
    let mut hub = hub();
    let marks = [1, 1, 2].map(|n| hub.new_mark(client(n)));
    assert!(marks[0] != marks[1] && marks[1] != marks[2]);
    assert_eq!(
        marks.map(|mark| hub.client_of_mark(mark)),
        [client(1), client(1), client(2)].map(Some)
    );
    hub.forget_mark(marks[0]);
    assert_eq!(hub.client_of_mark(marks[0]), None);
    let mut channels = Channels::default();
    hub.forget_client(&channels);
    channels.wants(names(&["a"]), 1);
    assert!(channels.move_away(marks[1], None));
    hub.forget_client(&channels);
    assert_eq!(
        marks.map(|mark| hub.client_of_mark(mark)),
        [None, None, Some(client(2))]
    );
}

#[test]
fn only_the_internal_channel_carries_marks() {
    let hub = hub();
    let on = |channel| Notification {
        process_id: 1,
        channel,
        payload: b"7",
    };
    assert!(hub.is_mark(&on(hub.mark_channel().as_bytes())));
    assert!(!hub.is_mark(&on(b"mark")));
}

/// The list is not searched: with thousands of clients each notification cost the square of their number.
#[test]
fn a_client_is_behind_once_however_many_notifications_wait() {
    let mut hub = hub();
    let mut channels = [1, 3].map(|_| Channels::default());
    for (at, n) in [(1, 3), (0, 1), (1, 3)] {
        hub.falls_behind(client(n), &mut channels[at]);
        assert!(hub.take_behind().is_empty(), "nothing waits");
    }
    channels
        .iter_mut()
        .for_each(|c| assert_eq!(c.queue([7].into(), false), 1));
    for _ in 0..2 {
        for (at, n) in [(1, 3), (0, 1), (1, 3)] {
            hub.falls_behind(client(n), &mut channels[at]);
        }
        assert_eq!(hub.take_behind(), [client(3), client(1)]);
        channels.iter_mut().for_each(Channels::is_tried_again);
    }
    channels[0].take_unheard();
    hub.falls_behind(client(1), &mut channels[0]);
    assert_eq!(hub.take_behind(), []);
}

#[test]
fn only_clients_of_listeners_without_a_connection_wait_for_one() {
    let mut hub = hub();
    let [here, latin, elsewhere] =
        [("u", "UTF8"), ("u", "LATIN1"), ("v", "UTF8")].map(|(user, encoding)| find(&mut hub, "db", user, encoding));
    for (n, id) in [(1, here), (2, latin), (3, elsewhere)] {
        hears(&mut hub, id, client(n), &["a", "b"]);
    }
    let unconnected = |hub: &Listeners| hub.clients_unconnected(&"db".into(), &"u".into());
    assert_eq!(unconnected(&hub), [client(2), client(1)]);
    hub.opens(here, ServerId(slot(9)));
    assert_eq!(unconnected(&hub), [client(2)]);
}
