//! The plants.

use super::curve::Curve;
use super::{Class, Phase, Plant, Trouble};

/// An update of one hot row, 64 clients, through pgweir on 2 cores.
const HOT_ROW: Curve = Curve::Table(&[
    (1.0, 30_100.0),
    (2.0, 22_700.0),
    (4.0, 26_500.0),
    (8.0, 21_700.0),
    (20.0, 17_500.0),
    (64.0, 9_300.0),
    (150.0, 10_200.0),
]);
/// `pgbench -S`, prepared, 64 clients.
const SELECTS: Curve = Curve::Table(&[
    (1.0, 36_100.0),
    (2.0, 43_600.0),
    (4.0, 41_500.0),
    (8.0, 38_700.0),
    (20.0, 34_800.0),
    (64.0, 27_200.0),
    (150.0, 32_300.0),
]);
/// The same with a later version, measured for longer: pools of 4 to 20 differ by 6 %.
const FLAT: Curve = Curve::Table(&[
    (1.0, 16_900.0),
    (2.0, 30_500.0),
    (4.0, 34_900.0),
    (8.0, 36_800.0),
    (20.0, 37_200.0),
    (64.0, 30_000.0),
]);
/// A transaction like TPC-B's that waits for its commit on a disk.
const COMMITS: Curve = Curve::Table(&[
    (1.0, 1_220.0),
    (2.0, 2_160.0),
    (4.0, 3_150.0),
    (8.0, 3_710.0),
    (16.0, 3_810.0),
    (32.0, 3_630.0),
    (64.0, 3_510.0),
]);
/// pg_sleep(0.02), 200 clients.
const SLEEPS: Curve = Curve::Table(&[
    (1.0, 48.0),
    (2.0, 98.0),
    (4.0, 195.0),
    (8.0, 388.0),
    (20.0, 970.0),
    (64.0, 3_106.0),
    (150.0, 7_178.0),
    (200.0, 9_570.0),
]);
/// A sort of 20,000 rows, 64 clients.
const SORTS: Curve = Curve::Table(&[
    (1.0, 170.0),
    (2.0, 281.0),
    (4.0, 254.0),
    (8.0, 271.0),
    (20.0, 210.0),
    (64.0, 223.0),
    (150.0, 199.0),
]);
const QUIET: Trouble = Trouble {
    noise: 0.3,
    weather: (0.0, 1.0),
    stalls: 0.0,
    restart: 0.0,
};
/// On 2 cores that pgbench shares, 50 ms at the same limit differ by 15 %, and are like those 0.1 s before.
const NOISY: Trouble = Trouble {
    weather: (0.15, 0.12),
    ..QUIET
};

fn steady(name: &'static str, clients: u32, curve: Curve) -> Plant {
    Plant {
        name,
        max: 500,
        seconds: 30.0,
        classes: vec![Class {
            kind: 0,
            demand: 1.0,
            worth: 1.0,
        }],
        phases: vec![phase(0.0, clients, &[curve], &[1.0])],
        trouble: QUIET,
        late: 0.0,
        judged: |_| true,
        together: false,
    }
}

fn phase(from: f64, clients: u32, kinds: &[Curve], mix: &[f64]) -> Phase {
    Phase {
        from,
        clients,
        kinds: kinds.to_vec(),
        mix: mix.to_vec(),
    }
}

/// All plants.
pub fn all_plants() -> Vec<Plant> {
    [steady_plants(), unsteady_plants(), hidden_changes()].concat()
}

/// The steady plants: one workload, noise of 30 % in each request.
pub fn steady_plants() -> Vec<Plant> {
    vec![
        steady("cpu, 2 cores", 64, Curve::cores(2.0, 0.000_1)),
        steady("cpu, 4 cores", 64, Curve::cores(4.0, 0.000_5)),
        steady("cpu, 16 cores", 200, Curve::cores(16.0, 0.002)),
        steady("cpu, 64 cores", 400, Curve::cores(64.0, 0.005)),
        steady("cpu, 2 cores, 20 ms each", 64, Curve::cores(2.0, 0.02)),
        steady("wait 20 ms, 200 clients", 200, Curve::Wait { seconds: 0.02 }),
        steady("wait 20 ms, 1,000 clients", 1000, Curve::Wait { seconds: 0.02 }),
        Plant {
            seconds: 120.0,
            ..steady("wait 1 s, 200 clients", 200, Curve::Wait { seconds: 1.0 })
        },
        steady("table: -S", 64, SELECTS),
        steady("table: hot row", 64, HOT_ROW),
        steady("table: pg_sleep", 200, SLEEPS),
        steady("table: sort", 64, SORTS),
        steady(
            "one server, sharp peak",
            64,
            Curve::Usl {
                alone: 5_000.0,
                contention: 0.6,
                coherency: 0.4,
            },
        ),
    ]
}

/// The plants that are disturbed or that change.
fn unsteady_plants() -> Vec<Plant> {
    let cpu = Curve::cores(4.0, 0.000_5);
    let disturbed = |name, curve, trouble| Plant {
        seconds: 60.0,
        trouble,
        ..steady(name, 64, curve)
    };
    vec![
        disturbed(
            "4 cores, noise of 30 %, slow",
            cpu,
            Trouble {
                weather: (0.3, 2.0),
                ..QUIET
            },
        ),
        disturbed(
            "4 cores, noise of 30 %, fast",
            cpu,
            Trouble {
                weather: (0.3, 0.1),
                ..QUIET
            },
        ),
        disturbed(
            "sort, noise of 30 %, fast",
            SORTS,
            Trouble {
                weather: (0.3, 0.1),
                ..QUIET
            },
        ),
        disturbed("table: -S, flat, as noisy as measured", FLAT, NOISY),
        disturbed("table: TPC-B, as noisy as measured", COMMITS, NOISY),
        queue_ends("pg_sleep, then -S, flat, noisy, no queue", SLEEPS, FLAT),
        disturbed("4 cores, requests vary by 150 %", cpu, Trouble { noise: 1.5, ..QUIET }),
        disturbed("4 cores, stalls", cpu, Trouble { stalls: 5.0, ..QUIET }),
        disturbed("4 cores, restart", cpu, Trouble { restart: 20.0, ..QUIET }),
        shifting_mix(),
        alternating_mix(),
        long_beside_short(),
        sleeps_and_sorts(),
        changes("-S, then pg_sleep", 200, SELECTS, SLEEPS),
        changes("pg_sleep, then -S", 200, SLEEPS, SELECTS),
        changes("pg_sleep, then -S, few clients", 64, SLEEPS, SELECTS),
        changes("-S, then sort", 64, SELECTS, SORTS),
        changes("hot row, then 16 cores", 200, HOT_ROW, Curve::cores(16.0, 0.002)),
        changes(
            "16 cores, then 4",
            200,
            Curve::cores(16.0, 0.002),
            Curve::cores(4.0, 0.002),
        ),
        unseen(
            "16 cores, then 4, same class",
            200,
            Curve::cores(16.0, 0.002),
            Curve::cores(4.0, 0.002),
        ),
        unseen(
            "4 cores, then 16, same class",
            200,
            Curve::cores(4.0, 0.002),
            Curve::cores(16.0, 0.002),
        ),
        unseen(
            "waits, then 4 cores, same class",
            64,
            Curve::Wait { seconds: 0.02 },
            cpu,
        ),
        comes_and_goes(),
    ]
}

/// Plants whose workload changes, under the same class of requests, in a moment that shows nothing: while hardly a client is
/// there, while the server stands still, or in a window that looks like a stall. Only the figures after it can tell.
fn hidden_changes() -> Vec<Plant> {
    let (sixteen, four) = (Curve::cores(16.0, 0.002), Curve::cores(4.0, 0.002));
    let (fast, slow) = (Curve::cores(2.0, 0.000_1), Curve::cores(16.0, 0.02));
    let stands_still = Curve::Wait { seconds: 1e9 };
    vec![
        hidden("-S, few clients, pg_sleep", SELECTS, (2, SELECTS), SLEEPS),
        hidden("pg_sleep, few clients, -S", SLEEPS, (2, SLEEPS), SELECTS),
        hidden("16 cores, few clients, 4", sixteen, (2, sixteen), four),
        hidden("-S, standstill, pg_sleep", SELECTS, (200, stands_still), SLEEPS),
        hidden("pg_sleep, standstill, -S", SLEEPS, (200, stands_still), SELECTS),
        hidden("4 cores, standstill, 16", four, (200, stands_still), sixteen),
        hidden("-S, pg_sleep at any moment", SELECTS, (200, SLEEPS), SLEEPS),
        hidden("2 cores, 16 at any moment, slower", fast, (200, slow), slow),
    ]
}

fn hidden(name: &'static str, before: Curve, (clients, between): (u32, Curve), after: Curve) -> Plant {
    let phases = vec![
        phase(0.0, 200, &[before], &[1.0]),
        phase(6.0, clients, &[between], &[1.0]),
        phase(8.0, 200, &[after], &[1.0]),
    ];
    Plant {
        seconds: 24.0,
        phases,
        late: 0.2,
        judged: |phase| phase.from != 6.0,
        ..steady(name, 200, before)
    }
}

fn changes(name: &'static str, clients: u32, before: Curve, after: Curve) -> Plant {
    let phases = vec![
        phase(0.0, clients, &[before], &[1.0]),
        phase(25.0, clients, &[after], &[1.0]),
    ];
    Plant {
        seconds: 60.0,
        phases,
        ..steady(name, clients, before)
    }
}

/// 200 clients, then 64, which are fewer than the limit found for the 200: nobody waits from then on.
fn queue_ends(name: &'static str, before: Curve, after: Curve) -> Plant {
    let phases = vec![phase(0.0, 200, &[before], &[1.0]), phase(10.0, 64, &[after], &[1.0])];
    Plant {
        seconds: 60.0,
        phases,
        trouble: NOISY,
        ..steady(name, 200, before)
    }
}

/// The server changes under the same requests.
fn unseen(name: &'static str, clients: u32, before: Curve, after: Curve) -> Plant {
    let plant = changes(name, clients, before, after);
    let phases = plant
        .phases
        .into_iter()
        .map(|phase| Phase {
            mix: vec![1.0, 0.0],
            ..phase
        })
        .collect();
    Plant { phases, ..plant }
}

/// Cheap and expensive requests on 8 cores; the share of the cheap ones goes from 90 % to 50 % and back.
fn shifting_mix() -> Plant {
    let curve = Curve::cores(8.0, 0.001);
    let mixes = [[9.0, 1.0], [1.0, 1.0], [9.0, 1.0]];
    let phases = (0..3)
        .map(|i| phase(f64::from(i) * 20.0, 100, &[curve], &mixes[i as usize]))
        .collect();
    let classes = vec![
        Class {
            kind: 0,
            demand: 0.5,
            worth: 0.5,
        },
        Class {
            kind: 0,
            demand: 20.0,
            worth: 20.0,
        },
    ];
    Plant {
        seconds: 60.0,
        classes,
        phases,
        ..steady("two classes, mix shifts", 100, curve)
    }
}

/// The same classes; the mix changes each 1.7 seconds.
fn alternating_mix() -> Plant {
    let curve = Curve::cores(8.0, 0.001);
    let mix = |i: u32| if i.is_multiple_of(2) { [95.0, 5.0] } else { [60.0, 40.0] };
    let phases = (0..35)
        .map(|i| phase(f64::from(i) * 1.7, 100, &[curve], &mix(i)))
        .collect();
    Plant {
        name: "two classes, mix alternates",
        phases,
        together: true,
        ..shifting_mix()
    }
}

/// One request in 1,000 takes half the time of the server: 0.5 s beside 0.5 ms, on 4 cores.
fn long_beside_short() -> Plant {
    let classes = vec![
        Class {
            kind: 0,
            demand: 1.0,
            worth: 1.0,
        },
        Class {
            kind: 0,
            demand: 1_000.0,
            worth: 1_000.0,
        },
    ];
    let curve = Curve::cores(4.0, 0.000_5);
    let phases = vec![phase(0.0, 64, &[curve], &[1_000.0, 1.0])];
    Plant {
        classes,
        phases,
        seconds: 60.0,
        ..steady("long requests beside short ones", 64, curve)
    }
}

/// Short waits beside sorts of 5 ms on 2 cores: each request is one or the other.
fn sleeps_and_sorts() -> Plant {
    let two_cores = Curve::Usl {
        alone: 200.0,
        contention: 0.3,
        coherency: 0.01,
    };
    let kinds = [two_cores, Curve::Wait { seconds: 0.02 }];
    let classes = vec![
        Class {
            kind: 0,
            demand: 1.0,
            worth: 1.0,
        },
        Class {
            kind: 1,
            demand: 1.0,
            worth: 1.0,
        },
    ];
    let phases = vec![phase(0.0, 200, &kinds, &[1.0, 1.0])];
    Plant {
        classes,
        phases,
        ..steady("sleeps beside sorts", 200, kinds[0])
    }
}

/// 64 clients for 3 seconds, 2 clients for 3 seconds, and so on.
fn comes_and_goes() -> Plant {
    let curve = Curve::cores(4.0, 0.000_5);
    let clients = |i: u32| if i.is_multiple_of(2) { 64 } else { 2 };
    let phases = (0..20)
        .map(|i| phase(f64::from(i) * 3.0, clients(i), &[curve], &[1.0]))
        .collect();
    let plant = steady("load comes and goes", 64, curve);
    Plant {
        seconds: 60.0,
        phases,
        judged: |phase| phase.clients > 2,
        together: true,
        ..plant
    }
}
