//! What the controller promises whatever it hears: limits within bounds, rest while held, nothing learnt without a queue.

use pgweir_sizing::{Bounds, Controller, Reason};

const SECOND: u64 = 1_000_000;
const BOUNDS: Bounds = Bounds { min: 2, max: 100 };

/// Servers that are always connected.
const CONNECTED: u32 = 1_000;

/// Completes a request each `spacing_us` until `until_us`, and ticks when it is due.
fn drive(of: &mut Controller, from_us: u64, until_us: u64, spacing_us: u64, waited: bool) {
    for now_us in (from_us..until_us).step_by(spacing_us as usize) {
        of.completed(now_us, 1, spacing_us * u64::from(of.limit()), waited);
        of.tick(now_us, CONNECTED, 0);
        assert!((BOUNDS.min..=BOUNDS.max).contains(&of.limit()), "{}", of.limit());
    }
}

#[test]
fn begins_at_its_start_within_the_bounds() {
    for (start, limit) in [(0, 2), (2, 2), (8, 8), (100, 100), (1_000_000, 100)] {
        let controller = Controller::new(BOUNDS, start, 0);
        assert_eq!((controller.limit(), controller.settled()), (limit, limit));
    }
    assert_eq!(Controller::new(Bounds { min: 0, max: 0 }, 5, 0).limit(), 1);
    assert_eq!(Controller::new(Bounds { min: 9, max: 3 }, 5, 0).limit(), 9);
    let huge = Controller::new(Bounds { min: 1, max: u32::MAX }, u32::MAX, 0);
    assert_eq!(huge.limit(), u32::MAX);
}

#[test]
fn does_not_move_while_nobody_waits() {
    let mut controller = Controller::new(BOUNDS, 8, 0);
    for now_us in (0..60 * SECOND).step_by(1_000) {
        controller.completed(now_us, 1, 1_500, false);
        controller.tick(now_us, CONNECTED, 0);
        assert_eq!(controller.limit(), 8);
    }
    assert_eq!(controller.steps().count(), 0);
}

#[test]
fn does_not_move_while_nothing_happens() {
    let mut controller = Controller::new(BOUNDS, 8, 0);
    let mut calls = 0;
    let mut now_us = 0;
    while now_us < 600 * SECOND {
        assert_eq!(controller.tick(now_us, 0, 0), None);
        assert_eq!(controller.limit(), 8);
        assert!(controller.due_us() > now_us);
        now_us = controller.due_us();
        calls += 1;
    }
    assert!(calls < 600 * 30, "{calls} calls in 600 seconds");
}

#[test]
fn equal_limits_end_at_the_smallest() {
    let mut controller = Controller::new(BOUNDS, 50, 0);
    drive(&mut controller, 0, 30 * SECOND, 500, true);
    assert_eq!(controller.settled(), BOUNDS.min);
    assert!(
        controller
            .steps()
            .all(|step| matches!(step.reason, Reason::FewerSuffice { .. }))
    );
}

#[test]
fn a_held_limit_stays_and_a_released_one_moves() {
    let mut controller = Controller::new(BOUNDS, 50, 0);
    drive(&mut controller, 0, SECOND / 2, 500, true);
    controller.hold(true, SECOND / 2);
    let held = controller.settled();
    for now_us in (SECOND / 2..20 * SECOND).step_by(500) {
        controller.completed(now_us, 1, 500 * u64::from(held), true);
        assert_eq!(controller.tick(now_us, CONNECTED, 0), None);
        assert_eq!((controller.limit(), controller.is_held()), (held, true));
    }
    controller.hold(false, 20 * SECOND);
    drive(&mut controller, 20 * SECOND, 60 * SECOND, 500, true);
    assert!(controller.settled() < held.max(3));
}

/// A controller that began at 8, where each server does as much as before, so that more servers do more; and the time.
fn grown() -> (Controller, u64) {
    let mut controller = Controller::new(BOUNDS, 8, 0);
    let mut now_us = 0;
    while now_us < 20 * SECOND {
        now_us += 20_000 / u64::from(controller.limit());
        controller.completed(now_us, 1, 20_000, true);
        controller.tick(now_us, CONNECTED, 0);
    }
    assert!(controller.settled() > 80, "{}", controller.settled());
    (controller, now_us)
}

#[test]
fn a_restart_begins_softly() {
    let (mut controller, now_us) = grown();
    let found = controller.settled();
    let step = controller.restarted(now_us);
    assert_eq!((step.from, step.to, step.reason), (found, 8, Reason::Restarted));
    assert_eq!((controller.limit(), controller.settled()), (8, 8));
    assert_eq!(controller.steps().last(), Some(&step));
}

#[test]
fn a_server_that_is_restarted_again_and_again_leaves_the_other_steps_where_they_are() {
    let (mut controller, now_us) = grown();
    let first = controller.steps().next().copied();
    for _ in 0..100 {
        controller.restarted(now_us);
    }
    assert_eq!(controller.steps().next().copied(), first);
}

/// Nothing would raise it again.
#[test]
fn a_restart_leaves_a_held_limit_as_it_is() {
    let (mut controller, now_us) = grown();
    let found = controller.settled();
    controller.hold(true, now_us);
    let step = controller.restarted(now_us);
    assert_eq!((step.from, step.to, step.reason), (found, found, Reason::Restarted));
    assert_eq!((controller.limit(), controller.settled()), (found, found));
}

#[test]
fn other_bounds_hold_at_once() {
    let mut controller = Controller::new(BOUNDS, 50, 0);
    let step = controller.set_bounds(Bounds { min: 1, max: 20 }, SECOND).unwrap();
    assert_eq!(controller.limit(), 20);
    assert_eq!((step.at_us, step.from, step.to), (SECOND, 41, 20));
    assert_eq!(step.reason.to_string(), "between 1 and 20 servers are allowed now");
    assert_eq!(controller.steps().last(), Some(&step));
    controller.set_bounds(Bounds { min: 64, max: 128 }, SECOND);
    assert_eq!(controller.limit(), 64);
    assert_eq!(controller.steps().count(), 2);
    let same = controller.set_bounds(Bounds { min: 64, max: 200 }, SECOND);
    assert_eq!((same, controller.steps().count()), (None, 2), "the limit stays");
}

#[test]
fn servers_that_cannot_be_connected_are_not_waited_for_long() {
    let mut controller = Controller::new(BOUNDS, 8, 0);
    let (mut now_us, mut high_us) = (0, 0);
    while now_us < 60 * SECOND {
        let active = controller.limit().min(12);
        let spacing_us = 20_000 / u64::from(active);
        now_us += spacing_us;
        controller.completed(now_us, 1, 20_000, true);
        controller.tick(now_us, 12, active);
        high_us += if controller.limit() > 12 { spacing_us } else { 0 };
    }
    assert_eq!(controller.settled(), 12);
    assert!(
        high_us < 10 * SECOND,
        "above what can be connected for {high_us} us of 60 s"
    );
}

#[test]
fn endures_any_input() {
    let mut controller = Controller::new(BOUNDS, 8, 10 * SECOND);
    let mut state = 1u64;
    let mut random = |below: u64| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    let mut now_us = 10 * SECOND;
    for round in 0..200_000u64 {
        now_us += random(5_000);
        // Times that stand still or go back, service times of nothing and of days, more classes than are kept.
        let at_us = if round.is_multiple_of(97) { now_us / 2 } else { now_us };
        let service_us = if round.is_multiple_of(89) {
            random(1 << 40)
        } else {
            random(3_000)
        };
        let class = if round.is_multiple_of(3) {
            random(1_000_000) as u32
        } else {
            0
        };
        controller.completed(at_us, class, service_us, random(10) > 0);
        controller.tick(at_us, random(200) as u32, random(200) as u32);
        match round % 20_011 {
            1 => _ = controller.restarted(at_us),
            2 => controller.hold(round.is_multiple_of(2), at_us),
            _ => {}
        }
        assert!((BOUNDS.min..=BOUNDS.max).contains(&controller.limit()));
        assert!(controller.steps().count() <= 32);
    }
}

#[test]
fn steps_say_why_in_words() {
    let mut controller = Controller::new(BOUNDS, 50, 0);
    drive(&mut controller, 0, 30 * SECOND, 500, true);
    controller.restarted(30 * SECOND);
    let texts: Vec<String> = controller.steps().map(|step| step.reason.to_string()).collect();
    assert!(texts[0].starts_with("fewer servers do "), "{texts:?}");
    assert_eq!(texts.last().map(String::as_str), Some("server restarted or replaced"));
}
