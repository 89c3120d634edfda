//! Tests of how many flights a server gets with `pipeline_depth = auto`, and of who waits behind a late one.

use super::*;
use crate::base::ids::Slot;
use crate::upstream::flight::Form;

/// More clients than are needed for the deepest queue.
const ENDLESS: usize = 100_000;

/// The most waiting clients that are no crowd.
const NO_CROWD: usize = (DEPTH_USUAL + 1) * CROWD - 1;

fn client(index: u32) -> ClientId {
    ClientId(Slot { index, generation: 0 })
}

fn push(flights: &mut Flights, now: Time) {
    let waited = Waited {
        since: Time(0),
        notified: false,
    };
    let flight = Flight::new(&[], Form::Query, 7);
    flights.push(now, client(flights.len() as u32), Box::new(flight), waited);
}

/// This many flights on a server that was seen to need `depth` more than one. Each takes `us` microseconds.
fn flights(count: usize, depth: u8, us: u64) -> Flights {
    let mut flights = Flights {
        depth,
        mean: us * 16,
        ..Flights::default()
    };
    (0..count).for_each(|_| push(&mut flights, Time(0)));
    flights
}

/// How many flights a server gets while this many clients wait.
fn sent(depth: u8, us: u64, waiting: usize) -> usize {
    let needs_more = |count: &usize| flights(*count, depth, us).needs_more(waiting);
    (0..).take_while(needs_more).count()
}

/// The deepest queue that can be seen to be needed.
const DEEPEST: u8 = DEPTH_MAX as u8 - 1;

#[test]
fn a_server_gets_as_many_flights_as_keep_it_from_sleeping() {
    assert_eq!(sent(0, 10, 1), 1);
    assert_eq!(sent(2, 10, 1), 3);
}

#[test]
fn a_server_gets_more_than_eight_flights_only_while_a_crowd_waits() {
    assert_eq!(sent(DEEPEST, 10, 1), DEPTH_USUAL);
    assert_eq!(sent(DEEPEST, 10, NO_CROWD), DEPTH_USUAL);
    assert_eq!(sent(DEEPEST, 10, NO_CROWD + 1), DEPTH_USUAL + 1);
    assert_eq!(sent(DEEPEST, 10, 20 * CROWD), 20);
    assert_eq!(sent(DEEPEST, 10, ENDLESS), DEPTH_MAX);
}

#[test]
fn the_last_flight_waits_no_longer_than_the_backlog_allows() {
    assert_eq!(sent(DEEPEST, 100, NO_CROWD) as u64, BACKLOG_US_MAX / 100);
    assert_eq!(sent(DEEPEST, 100, ENDLESS) as u64, BACKLOG_OF_CROWD_US_MAX / 100);
    assert_eq!(sent(DEEPEST, 10_000, 1), 1, "the first one waits for nobody");
}

/// The server answers `answered` of `before` flights at once; another flight is sent then.
fn input(flights: &mut Flights, before: usize, answered: usize) {
    while flights.len() < before {
        push(flights, Time(0));
    }
    let before = flights.input_begins();
    for _ in 0..answered {
        flights.land(Time(0));
    }
    push(flights, Time(0));
    flights.input_ends(before);
    while flights.len() > 1 {
        flights.land(Time(0));
    }
}

#[test]
fn a_server_that_has_slept_gets_one_flight_more() {
    let mut server = flights(1, 0, 10);
    input(&mut server, 1, 0);
    assert_eq!(server.depth, 0, "it has answered nothing");
    for depth in 1..=DEEPEST {
        input(&mut server, 2, 2);
        assert_eq!(server.depth, depth);
    }
    input(&mut server, 2, 2);
    assert_eq!(server.depth, DEEPEST);
}

#[test]
fn a_server_that_nobody_waits_for_may_sleep() {
    let mut server = flights(1, 3, 10);
    let before = server.input_begins();
    server.land(Time(0));
    server.input_ends(before);
    assert_eq!(server.depth, 3);
}

#[test]
fn a_server_that_always_has_enough_to_do_gets_one_flight_less() {
    let mut server = flights(1, 5, 10);
    let ample = |server: &mut Flights, inputs: u8| (0..inputs).for_each(|_| input(server, 6, 1));
    ample(&mut server, AMPLE_INPUTS - 1);
    assert_eq!(server.depth, 5);
    input(&mut server, 6, 4);
    ample(&mut server, AMPLE_INPUTS - 1);
    assert_eq!(server.depth, 5, "they did not come in a row");
    ample(&mut server, 1);
    assert_eq!(server.depth, 4);
}

#[test]
fn clients_behind_a_late_flight_are_counted_once() {
    let mut server = flights(4, 3, 10);
    server.client_leaves(client(2));
    assert_eq!(server.count_late(Time(LATE_US)), 0);
    assert_eq!(server.count_late(Time(LATE_US + 1)), 2, "one of the three has left");
    assert_eq!(server.count_late(Time(LATE_US + 2)), 0);
    server.land(Time(2 * LATE_US));
    assert_eq!(server.count_late(Time(3 * LATE_US)), 0, "the next one is not late");
    assert_eq!(server.count_late(Time(3 * LATE_US + 1)), 1);
}
