use super::*;

const LOGIN_RETRY: Duration = Duration::from_secs(15);

fn after(ms: u64) -> Time {
    Time(ms * 1000)
}

/// The hosts of the next `count` connections.
fn taken(hosts: &mut Hosts, now: Time, round_robin: bool, count: usize) -> Vec<Option<usize>> {
    let mut take = || hosts.take(now, round_robin).map(|choice| choice.host);
    (0..count).map(|_| take()).collect()
}

#[test]
fn round_robin_takes_turns_and_disable_stays() {
    let mut hosts = Hosts::new(3);
    assert_eq!(
        taken(&mut hosts, Time(0), true, 4),
        [Some(0), Some(1), Some(2), Some(0)]
    );
    let mut hosts = Hosts::new(3);
    assert_eq!(taken(&mut hosts, Time(0), false, 2), [Some(0), Some(0)]);
    hosts.failed(Time(0), 0, true, LOGIN_RETRY);
    assert_eq!(taken(&mut hosts, Time(0), false, 2), [Some(1), Some(1)]);
    assert_eq!(
        taken(&mut hosts, after(60_000), false, 1),
        [Some(1)],
        "it stays with one that works"
    );
}

#[test]
fn a_dead_host_is_passed_over_and_tried_again_by_one_connection_at_a_time() {
    let mut hosts = Hosts::new(2);
    hosts.failed(Time(0), 1, true, LOGIN_RETRY);
    assert_eq!(taken(&mut hosts, after(249), true, 3), [Some(0), Some(0), Some(0)]);
    assert_eq!(hosts.all_failed_until(), None);
    let again: Vec<_> = (0..3).map(|_| hosts.take(after(250), true)).collect();
    let in_doubt = Choice {
        host: 1,
        in_doubt: true,
    };
    assert_eq!(again.iter().filter(|choice| **choice == Some(in_doubt)).count(), 1);
    hosts.failed(after(250), 1, true, LOGIN_RETRY);
    assert_eq!(
        taken(&mut hosts, after(749), true, 2),
        [Some(0), Some(0)],
        "the pause doubles"
    );
    hosts.kind_is_known(1, true);
    hosts.succeeded(1);
    assert!(taken(&mut hosts, after(749), true, 2).contains(&Some(1)));
}

#[test]
fn when_all_are_dead_each_has_its_own_pause() {
    let mut hosts = Hosts::new(2);
    hosts.failed(after(0), 0, true, LOGIN_RETRY);
    hosts.failed(after(100), 1, true, LOGIN_RETRY);
    assert_eq!(hosts.all_failed_until(), Some(after(250)));
    assert!(!hosts.may_open(after(249)));
    assert_eq!(
        taken(&mut hosts, after(350), true, 3),
        [Some(0), Some(1), None],
        "one attempt at each"
    );
    for second in 1..20 {
        hosts.failed(after(second * 1000), 0, true, LOGIN_RETRY);
        assert!(
            hosts.may_open(after(second * 1000 + 1000)),
            "it is found within a second"
        );
        hosts.take(after(second * 1000 + 1000), true);
    }
    hosts.failed(after(50_000), 0, false, LOGIN_RETRY);
    hosts.failed(after(50_000), 1, false, LOGIN_RETRY);
    assert_eq!(
        hosts.all_failed_until(),
        Some(after(65_000)),
        "a refused login: server_login_retry"
    );
}

/// Guards against a host that swallows packets: its first attempt must not keep the others from being tried.
#[test]
fn a_slow_host_is_in_doubt() {
    let mut hosts = Hosts::new(2);
    assert_eq!(taken(&mut hosts, Time(0), false, 1), [Some(0)]);
    hosts.is_slow(0);
    assert_eq!(taken(&mut hosts, after(1), false, 2), [Some(1), Some(1)]);
}

#[test]
fn hosts_of_the_wrong_kind_are_tried_only_if_no_other_is_sound() {
    let mut hosts = Hosts::new(2);
    hosts.is_unwanted(1);
    hosts.failed(Time(0), 1, true, LOGIN_RETRY);
    assert_eq!(taken(&mut hosts, after(60_000), true, 3), [Some(0), Some(0), Some(0)]);
    hosts.failed(after(60_000), 0, true, LOGIN_RETRY);
    assert_eq!(
        taken(&mut hosts, after(60_001), true, 1),
        [Some(1)],
        "it may have been promoted"
    );
}

#[test]
fn a_second_choice_serves_while_there_is_no_better() {
    let mut hosts = Hosts::new(2);
    assert!(!hosts.second_choice_serves(0), "the other has not been tried");
    hosts.steps_back(0);
    hosts.failed(Time(0), 0, true, LOGIN_RETRY);
    assert_eq!(taken(&mut hosts, Time(0), false, 1), [Some(1)]);
    hosts.failed(Time(0), 1, true, LOGIN_RETRY);
    assert!(hosts.second_choice_serves(0));
    assert_eq!(taken(&mut hosts, Time(0), false, 1), [Some(0)], "at once");
    hosts.kind_is_known(0, false);
    hosts.succeeded(0);
    assert_eq!(taken(&mut hosts, after(1), false, 2), [Some(0), Some(0)]);
    assert_eq!(
        taken(&mut hosts, after(300), false, 2),
        [Some(1), Some(0)],
        "the better one is tried again"
    );
    hosts.kind_is_known(1, true);
    hosts.succeeded(1);
    assert_eq!(taken(&mut hosts, after(300), false, 2), [Some(1), Some(1)]);
}

#[test]
fn a_suspicion_is_looked_into_once_a_second() {
    let mut hosts = Hosts::new(1);
    assert!(hosts.suspect(after(0), 0) && !hosts.suspect(after(999), 0) && hosts.suspect(after(1000), 0));
    assert!(!hosts.suspect(after(0), 7), "a host that is not in the list any more");
}
