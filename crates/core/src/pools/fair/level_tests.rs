use super::*;

/// Flows that always wait or are served, one server, and how long each uses it.
struct Saturated {
    level: Level,
    flows: Vec<(Flow, u32, u64)>,
    used_us: Vec<u64>,
    number: u64,
}

impl Saturated {
    fn new(weights_and_times: &[(u32, u64)]) -> Self {
        let mut all = Saturated {
            level: Level::new(1),
            flows: weights_and_times
                .iter()
                .map(|&(w, us)| (Flow::default(), w, us))
                .collect(),
            used_us: vec![0; weights_and_times.len()],
            number: 0,
        };
        (0..all.flows.len()).for_each(|n| all.waits(n, 0));
        all
    }

    fn waits(&mut self, n: usize, paused_us: u64) {
        self.number += 1;
        let (flow, weight, _) = &mut self.flows[n];
        let arriving = Arriving {
            number: self.number,
            weight: *weight,
            paused_us,
            servers: 1,
        };
        self.level.insert(flow, n as u32, arriving);
    }

    /// Serves the next flow, which does not wait again. Returns its number.
    fn serves(&mut self) -> usize {
        let n = self.level.first().unwrap() as usize;
        let (flow, weight, us) = &mut self.flows[n];
        self.level.serve(n as u32, *weight);
        self.level.charge(flow, *us, *weight, 1, None);
        self.used_us[n] += *us;
        n
    }

    fn runs(&mut self, times: usize) {
        for _ in 0..times {
            let n = self.serves();
            self.waits(n, 0);
        }
    }
}

#[test]
fn time_goes_by_weights_whatever_the_length_of_transactions() {
    let mut all = Saturated::new(&[(1, 100), (3, 10_000), (6, 700)]);
    all.runs(20_000);
    let each = all.used_us.iter().zip([1, 3, 6]).map(|(us, weight)| us / weight);
    let (least, most) = (each.clone().min().unwrap(), each.max().unwrap());
    assert!(most - least <= 10_000, "{:?}", all.used_us);
}

#[test]
fn whoever_comes_back_has_no_credit_and_goes_first() {
    let mut all = Saturated::new(&[(1, 1000), (1, 1000), (1, 1000)]);
    assert_eq!(all.serves(), 0);
    all.runs(1000);
    all.waits(0, 0);
    assert_eq!(all.serves(), 0);
    all.waits(0, 0);
    // From now on it takes turns with the others.
    all.used_us = vec![0; 3];
    all.runs(300);
    assert_eq!(all.used_us, [100_000; 3]);
}

#[test]
fn who_pauses_goes_first_among_many() {
    let mut all = Saturated::new(&[(1, 50); 1001]);
    all.runs(1001);
    assert_eq!(all.serves(), 0);
    for _ in 0..20 {
        // A round takes 50 ms, and a pause 5 ms.
        all.runs(100);
        all.waits(0, 5_000);
        assert_eq!(all.serves(), 0);
    }
}

#[test]
fn those_who_pause_leave_something_to_the_others() {
    // The first two pause long after each use, and wait again at once: together they ask for the whole server.
    let mut all = Saturated::new(&[(1, 1000); 20]);
    for _ in 0..10_000 {
        let n = all.serves();
        all.waits(n, if n < 2 { 9_000 } else { 0 });
    }
    let others: u64 = all.used_us[2..].iter().sum();
    assert!(others > 4_000_000, "{others}");
}

#[test]
fn where_all_pause_alike_nobody_goes_first() {
    let mut all = Saturated::new(&[(1, 100); 50]);
    for _ in 0..500 {
        let n = all.serves();
        all.waits(n, 20_000);
    }
    // A flow that has just been served waits for the others.
    let last = all.serves();
    all.waits(last, 20_000);
    for _ in 0..49 {
        assert_ne!(all.serves(), last);
    }
}

#[test]
fn who_owes_much_for_its_pause_does_not_go_first() {
    let mut all = Saturated::new(&[(1, 100); 50]);
    all.flows[0].2 = 9_000;
    all.runs(100);
    while all.level.first() != Some(0) {
        all.runs(1);
    }
    all.serves();
    all.waits(0, 6_000);
    assert_ne!(all.serves(), 0);
}

#[test]
fn a_debt_keeps_nobody_waiting_for_ever() {
    let mut all = Saturated::new(&[(1, 100); 1000]);
    all.flows[0].2 = 3_600_000_000;
    while all.serves() != 0 {}
    (1..1000).for_each(|n| {
        if all.level.iter().all(|other| other != n as u32) {
            all.waits(n, 0);
        }
    });
    all.waits(0, 0);
    let others: u64 = all.used_us[1..].iter().sum();
    for _ in 0.. {
        let n = all.serves();
        if n == 0 {
            break;
        }
        all.waits(n, 0);
    }
    let waited = all.used_us[1..].iter().sum::<u64>() - others;
    assert!((900_000..1_100_000).contains(&waited), "{waited}");
}

/// Clients that connect, run one short transaction and leave: each is a new flow.
#[test]
fn new_flows_keep_nobody_waiting_for_ever() {
    const TOGETHER: usize = 15;
    let mut all = Saturated::new(&[(1, 100)]);
    all.flows[0].2 = 100_000;
    for _ in 0..20 {
        while all.flows.len() < TOGETHER {
            all.flows.push((Flow::default(), 1, 2_000));
            all.used_us.push(0);
            all.waits(all.flows.len() - 1, 0);
        }
        let mut others = 0;
        loop {
            let n = all.serves();
            if n == 0 {
                break;
            }
            others += 2_000;
            // 14 others may use as much as it has used, each.
            assert!(others < 16 * 100_000, "{others}");
            all.flows[n].0 = Flow::default();
            all.waits(n, 0);
        }
        all.waits(0, 0);
    }
}

#[test]
fn what_takes_no_time_is_not_served_for_ever() {
    let mut all = Saturated::new(&[(1, 0), (1, 5)]);
    all.runs(1200);
    assert!(all.used_us[1] > 900, "{:?}", all.used_us);
}

#[test]
fn a_waiting_flow_that_is_charged_moves_behind_others() {
    let mut level = Level::new(1);
    let mut flows = [Flow::default(); 2];
    let arriving = |number| Arriving {
        number,
        weight: 1,
        paused_us: 0,
        servers: 1,
    };
    level.insert(&mut flows[0], 0, arriving(1));
    level.insert(&mut flows[1], 1, arriving(2));
    assert_eq!(level.first(), Some(0));
    level.charge(&mut flows[0], 1000, 1, 1, Some(0));
    assert_eq!(level.first(), Some(1));
    level.check(|_| 1).unwrap();
    level.remove(0, 1);
    level.remove(0, 1);
    assert_eq!(level.len(), 1);
}
