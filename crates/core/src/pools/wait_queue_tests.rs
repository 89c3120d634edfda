use super::*;
use crate::base::ids::Slot;
use crate::pools::fair::groups::GROUPS_MAX;
use std::collections::BTreeMap;

fn client(index: u32) -> ClientId {
    ClientId(Slot { index, generation: 0 })
}

const WHO: Who<'static> = Who {
    user: "u",
    application: "",
    weight: 1,
    servers: 1,
};

/// A queue with the flows of its clients.
struct Queue {
    queue: WaitQueue,
    flows: BTreeMap<u32, Flow>,
}

impl Queue {
    fn new(by: FairBy) -> Self {
        Queue {
            queue: WaitQueue::new(by),
            flows: BTreeMap::new(),
        }
    }

    fn push_as(&mut self, index: u32, who: &Who<'_>) -> u64 {
        let flow = self.flows.entry(index).or_default();
        self.queue.push(client(index), Time(index.into()), who, flow, 0)
    }

    fn push(&mut self, index: u32) -> u64 {
        self.push_as(index, &WHO)
    }

    fn charge_as(&mut self, index: u32, who: &Who<'_>, us: u64) {
        self.queue.charge(who, self.flows.entry(index).or_default(), us);
    }

    fn pop(&mut self) -> Option<u32> {
        let front = self.queue.front();
        let popped = self.queue.pop();
        assert_eq!(front, popped, "front and pop agree");
        self.queue.check().unwrap();
        popped.map(|(client, _)| client.0.index)
    }

    fn last(&self, count: usize, may: impl Fn(u32) -> bool) -> Vec<u32> {
        let last = self.queue.last(count, |client| may(client.0.index));
        last.into_iter().map(|client| client.0.index).collect()
    }

    fn rest(&mut self) -> Vec<u32> {
        std::iter::from_fn(|| self.pop()).collect()
    }
}

#[test]
fn first_come_first_served_and_leavers_are_skipped() {
    for by in [FairBy::Off, FairBy::Client, FairBy::Application, FairBy::User] {
        let mut q = Queue::new(by);
        let tickets: Vec<u64> = (0..5).map(|n| q.push(n)).collect();
        q.queue.remove(tickets[2]);
        q.queue.remove(tickets[0]);
        q.queue.remove(tickets[0]);
        assert_eq!(q.queue.len(), 3);
        let all: Vec<_> = q.queue.iter().map(|(c, _)| c.0.index).collect();
        assert_eq!(all, [1, 3, 4]);
        assert_eq!(q.rest(), [1, 3, 4]);
        assert!(q.queue.is_empty() && q.queue.front().is_none());
        let ticket = q.push(9);
        q.queue.remove(tickets[0]);
        assert_eq!(q.queue.len(), 1);
        q.queue.remove(ticket);
        assert!(q.queue.is_empty());
        q.queue.check().unwrap();
    }
}

#[test]
fn who_comes_back_stands_in_front() {
    for by in [FairBy::Off, FairBy::Client] {
        let mut q = Queue::new(by);
        let last = q.push(1);
        let tickets = [
            q.queue.push_front(client(2), Time(0)),
            q.queue.push_front(client(3), Time(0)),
        ];
        assert_eq!(
            (q.queue.holder(tickets[1]), q.queue.holder(last)),
            (Some(client(3)), Some(client(1)))
        );
        q.queue.remove(tickets[0]);
        assert_eq!(q.rest(), [3, 1]);
    }
}

#[test]
fn who_has_used_little_goes_first() {
    let mut q = Queue::new(FairBy::Client);
    q.push(0);
    q.charge_as(1, &WHO, 1000);
    q.charge_as(2, &WHO, 10);
    for n in [1, 2, 3] {
        q.push(n);
    }
    assert_eq!(q.rest(), [0, 3, 2, 1]);
    let mut q = Queue::new(FairBy::Off);
    q.push(0);
    q.charge_as(1, &WHO, 1000);
    q.push(1);
    q.push(2);
    assert_eq!(q.rest(), [0, 1, 2]);
}

#[test]
fn groups_share_what_their_clients_have_used() {
    let app = |application| Who { application, ..WHO };
    let user = |user| Who { user, ..WHO };
    for (by, other) in [(FairBy::Application, app("b")), (FairBy::User, user("b"))] {
        let mut q = Queue::new(by);
        let own = match by {
            FairBy::User => user("a"),
            _ => app("a"),
        };
        q.push_as(0, &own);
        q.push_as(1, &other);
        // A client of the group that has gone.
        q.charge_as(9, &own, 1000);
        q.push_as(2, &own);
        q.push_as(3, &other);
        assert_eq!(q.rest(), [1, 3, 0, 2], "{by:?}");
        // A new connection does not escape the debt.
        q.charge_as(9, &own, 1000);
        q.push_as(11, &other);
        q.charge_as(9, &own, 1000);
        q.push_as(12, &own);
        q.push_as(13, &other);
        assert_eq!(q.rest(), [11, 13, 12], "{by:?}");
    }
}

#[test]
fn applications_of_different_users_are_different() {
    let mut q = Queue::new(FairBy::Application);
    let who = |user| Who { user, ..WHO };
    q.push_as(0, &who("a"));
    q.push_as(1, &who("b"));
    q.charge_as(0, &who("a"), 1000);
    assert_eq!(q.rest(), [1, 0]);
}

#[test]
fn weights_decide_between_groups_and_between_clients() {
    let who = |user, weight| Who { user, weight, ..WHO };
    for by in [FairBy::User, FairBy::Application, FairBy::Client] {
        let mut q = Queue::new(by);
        let all: Vec<_> = (0..10)
            .map(|n| if n % 2 == 0 { who("light", 1) } else { who("heavy", 3) })
            .collect();
        (0..10).for_each(|n| _ = q.push_as(n, &all[n as usize]));
        let mut used = [0, 0];
        for _ in 0..4000 {
            let n = q.pop().unwrap();
            used[n as usize % 2] += 1;
            q.charge_as(n, &all[n as usize], 100);
            q.push_as(n, &all[n as usize]);
        }
        assert!((2970..=3030).contains(&used[1]), "{by:?}: {used:?}");
    }
}

#[test]
fn the_number_of_remembered_groups_is_limited() {
    let mut q = Queue::new(FairBy::User);
    q.push_as(0, &WHO);
    for n in 0..3 * GROUPS_MAX as u32 {
        let user = format!("user {n}");
        let who = Who { user: &user, ..WHO };
        q.charge_as(n, &who, u64::from(n) / 100);
    }
    assert!(q.queue.groups.len() <= GROUPS_MAX + 1, "and one that waits");
    // The group that owes the most is remembered.
    let last = format!("user {}", 3 * GROUPS_MAX - 1);
    q.push_as(1, &Who { user: &last, ..WHO });
    q.push_as(2, &Who { user: "new", ..WHO });
    assert_eq!(q.rest(), [0, 2, 1]);
}

/// Guards against a queue of more than a thousand groups in which every new group makes others forget what they owe,
/// and in which each arrival looks at all groups.
#[test]
fn groups_that_wait_take_no_place_from_those_that_are_remembered() {
    let mut q = Queue::new(FairBy::User);
    let waiting = GROUPS_MAX as u32;
    for n in 0..waiting {
        let user = format!("user {n}");
        q.push_as(n, &Who { user: &user, ..WHO });
    }
    let owes = Who { user: "owes", ..WHO };
    q.charge_as(waiting, &owes, 1_000);
    q.push_as(waiting + 1, &Who { user: "new", ..WHO });
    q.push_as(waiting, &owes);
    q.push_as(waiting + 2, &Who { user: "last", ..WHO });
    assert_eq!(q.rest().last(), Some(&waiting));
}

#[test]
fn another_order_keeps_everybody() {
    let mut q = Queue::new(FairBy::Client);
    q.push(0);
    q.push(1);
    q.queue.push_front(client(2), Time(7));
    let all = q.queue.reorder(FairBy::User);
    assert_eq!(
        all,
        [
            (client(2), Time(7), true),
            (client(0), Time(0), false),
            (client(1), Time(1), false)
        ]
    );
    assert!(q.queue.is_empty() && q.queue.fair_by() == FairBy::User);
}

#[test]
fn the_newest_of_the_heaviest_is_refused_first() {
    let who = |user, weight| Who { user, weight, ..WHO };
    let mut q = Queue::new(FairBy::User);
    (0..4).for_each(|n| _ = q.push_as(n, &who("few", 1)));
    (4..10).for_each(|n| _ = q.push_as(n, &who("many", 2)));
    assert_eq!(
        q.last(7, |_| true),
        [3, 9, 2, 8, 7, 1, 6],
        "six with the weight 2 are less than four with the weight 1"
    );
    assert_eq!(q.last(7, |n| n != 3 && n != 9), [2, 8, 1, 7, 6, 0, 5]);
    assert_eq!(q.last(7, |n| n < 4), [3], "the heaviest has none that may go");
    let mut q = Queue::new(FairBy::Off);
    (0..3).for_each(|n| _ = q.push(n));
    assert_eq!(q.last(2, |_| true), [2, 1]);
    assert_eq!(q.last(9, |n| n != 1), [2, 0]);
}

#[test]
fn traffic_is_counted_between_two_looks() {
    let mut q = Queue::new(FairBy::Client);
    (0..5).for_each(|n| _ = q.push(n));
    q.queue.take_traffic();
    q.pop();
    q.pop();
    q.push(7);
    assert_eq!(q.queue.take_traffic(), Traffic { served: 2, fewest: 3 });
    assert_eq!(q.queue.take_traffic(), Traffic { served: 0, fewest: 4 });
}
