//! Sweeps of the articles and of noisy machines, and what they recommend.

use super::super::confidence::fit_with_confidence;
use super::*;

const SERVER: Surroundings = Surroundings {
    cores: Some(32),
    spindles: 1,
    reserved_connections: 3,
    replicas: 0,
    fits: None,
};

fn levels(curve: &[(u32, f64)]) -> Vec<Level> {
    let level = |&(clients, tps): &(u32, f64)| Level {
        clients,
        first_round: 0,
        tps: [0.99, 1.0, 1.01].map(|round| tps * round).to_vec(),
    };
    curve.iter().map(level).collect()
}

fn judge(curve: &[(u32, f64)]) -> Recommendation {
    let levels = levels(curve);
    let law = fit_with_confidence(&levels).ok();
    recommend(&levels, law.as_ref(), &SERVER).unwrap()
}

/// The first sweep of the EDB article, by its description: 100, 200, ... 3600 clients on 32 processors, a peak between
/// 300 and 500, a steep fall past 700, little left above 1000. Shares of the peak's throughput.
const EDB_FIRST: [(u32, f64); 14] = [
    (100, 0.62),
    (200, 0.86),
    (300, 0.97),
    (400, 1.0),
    (500, 0.98),
    (600, 0.92),
    (700, 0.85),
    (800, 0.62),
    (900, 0.45),
    (1000, 0.34),
    (1400, 0.2),
    (1800, 0.13),
    (2600, 0.07),
    (3600, 0.03),
];

/// The second, up to 1800, with its peak between 300 and 400.
const EDB_SECOND: [(u32, f64); 10] = [
    (100, 0.7),
    (200, 0.9),
    (300, 1.0),
    (400, 0.99),
    (500, 0.93),
    (700, 0.8),
    (900, 0.5),
    (1100, 0.33),
    (1400, 0.22),
    (1800, 0.14),
];

#[test]
fn the_edb_curves_recommend_300_to_500() {
    for curve in [&EDB_FIRST[..], &EDB_SECOND[..]] {
        let scaled: Vec<_> = curve
            .iter()
            .map(|&(clients, share)| (clients, share * 21_000.0))
            .collect();
        let r = judge(&scaled);
        let sizes = r.sizes.as_ref().unwrap();
        assert!((300..=500).contains(&sizes.max_connections), "{r:?}");
        assert!((200..=500).contains(&sizes.default_pool_size), "{r:?}");
        assert_eq!((r.place, r.rule_of_thumb), (PeakPlace::Within, Some(65)));
    }
}

#[test]
fn two_processors_peak_at_about_ten() {
    let law = super::super::usl::Usl {
        lambda: 300.0,
        sigma: 0.2,
        kappa: 0.008,
    };
    let curve: Vec<_> = [1u32, 2, 4, 8, 12, 16, 32, 64, 128]
        .iter()
        .map(|&n| (n, law.throughput(f64::from(n))))
        .collect();
    let r = judge(&curve);
    assert!(r.from_law && (r.peak_clients - 10.0).abs() < 0.5, "{r:?}");
    // Ten at work at most, and PostgreSQL's default as the limit.
    let sizes = r.sizes.unwrap();
    assert_eq!((sizes.default_pool_size <= 10, sizes.max_connections), (true, 100));
}

#[test]
fn plain_postgresql_with_many_clients_says_measure_fewer() {
    // Experiments E, scale 20 and scale 1000, plain.
    for curve in [
        [
            (64, 54440.0),
            (512, 24957.0),
            (2048, 3301.0),
            (8192, 596.0),
            (19900, 427.0),
        ],
        [
            (64, 81460.0),
            (512, 72805.0),
            (2048, 10902.0),
            (8192, 7729.0),
            (19900, 971.0),
        ],
    ] {
        let r = judge(&curve);
        assert_eq!(r.place, PeakPlace::AtFewest);
        let sizes = r.sizes.as_ref().unwrap();
        assert!(sizes.default_pool_size <= 64 && sizes.max_connections == 100, "{r:?}");
        assert!(r.reasons[0].contains("measure fewer"), "{:?}", r.reasons);
    }
}

#[test]
fn a_pool_that_holds_its_throughput_is_called_flat() {
    // Experiments E, scale 20 and scale 1000, with the pool built in.
    for curve in [
        [
            (64, 53765.0),
            (512, 52666.0),
            (2048, 51451.0),
            (8192, 49493.0),
            (19900, 48062.0),
        ],
        [
            (64, 84356.0),
            (512, 81388.0),
            (2048, 80029.0),
            (8192, 79281.0),
            (19900, 81247.0),
        ],
    ] {
        let r = judge(&curve);
        assert_eq!(r.place, PeakPlace::Flat);
        assert!(r.reasons[0].contains("hardly depends"), "{:?}", r.reasons);
    }
}

#[test]
fn a_sweep_that_still_rises_asks_for_more() {
    let r = judge(&[(1, 100.0), (2, 200.0), (4, 390.0), (8, 760.0)]);
    assert_eq!((r.place, &r.sizes), (PeakPlace::Rising, &None));
    assert!(!r.from_law && r.reasons[0].contains("measure more"), "{r:?}");
    // Nor does a sweep of pools recommend one: nobody knows how many clients they should be compared with.
    let mut r = r;
    r.set_pool(4, &SERVER);
    assert_eq!(r.sizes, None);
}

/// The last level is the best by an accident of one percent: a size that was measured is enough all the same.
#[test]
fn a_plateau_is_not_called_rising() {
    let r = judge(&[(1, 300.0), (4, 1_000.0), (16, 3_000.0), (64, 3_010.0)]);
    assert_eq!((r.place, r.sizes.unwrap().default_pool_size), (PeakPlace::AtMost, 16));
}

/// Guards against "it was measured" for a number between two levels.
#[test]
fn the_recommended_pool_is_a_level_that_was_measured() {
    let curve = [(10, 500.0), (30, 880.0), (50, 1_000.0), (100, 700.0)];
    let r = judge(&curve);
    let size = r.sizes.unwrap().default_pool_size;
    assert!(curve.iter().any(|(clients, _)| *clients == size), "{size}");
}

/// The laboratory and pgweir advise give the same limits for the same server.
#[test]
fn memory_replicas_and_users_count_as_in_advise() {
    let small = Surroundings {
        cores: Some(2),
        fits: Some(22),
        replicas: 5,
        ..SERVER
    };
    let levels = levels(&[(2, 500.0), (5, 1_000.0), (10, 900.0), (20, 500.0)]);
    let sizes = recommend(&levels, None, &small).unwrap().sizes.unwrap();
    // 5 + 5 + 10 + 3.
    assert_eq!((sizes.default_pool_size, sizes.max_connections), (5, 30));
    assert_eq!(sizes.max_db_connections, Some(9));
    assert!(sizes.pgbouncer_ini().ends_with("max_db_connections = 9\n"), "{sizes:?}");
}

#[test]
fn a_law_that_does_not_fit_is_not_asked() {
    // A cliff no USL has: the law would put the peak elsewhere.
    let r = judge(&[
        (10, 100.0),
        (20, 200.0),
        (40, 400.0),
        (80, 800.0),
        (90, 20.0),
        (200, 18.0),
        (400, 15.0),
    ]);
    assert_eq!((r.peak_clients, r.from_law), (80.0, false));
}

#[test]
fn rounding() {
    let pairs = [
        (0.2, 1),
        (9.6, 10),
        (19.4, 19),
        (24.0, 20),
        (96.0, 100),
        (149.0, 100),
        (150.0, 200),
        (349.0, 300),
    ];
    for (clients, expected) in pairs {
        assert_eq!(round_connections(clients), expected, "{clients}");
    }
}

/// Guards against settings from the accidents of a busy machine: three short rounds that differed by 79 %.
#[test]
fn where_noise_decides_nothing_is_recommended_but_longer_measuring() {
    let level = |clients, tps: [f64; 3]| Level {
        clients,
        first_round: 0,
        tps: tps.to_vec(),
    };
    let noisy = [
        level(1, [2_100.0, 3_900.0, 2_600.0]),
        level(2, [5_200.0, 3_000.0, 4_100.0]),
        level(4, [3_600.0, 5_900.0, 3_300.0]),
        level(8, [4_700.0, 2_900.0, 5_300.0]),
    ];
    let r = recommend(&noisy, None, &SERVER).unwrap();
    assert_eq!(r.sizes, None, "{r:?}");
    assert!(r.rounds_needed.is_some_and(|rounds| rounds > 3), "{r:?}");
    // One round knows nothing of the noise.
    let once: Vec<Level> = noisy
        .iter()
        .map(|l| Level {
            tps: vec![l.tps[0]],
            ..l.clone()
        })
        .collect();
    let r = recommend(&once, None, &SERVER).unwrap();
    assert_eq!((r.sizes, r.rounds_needed), (None, None));
}

#[test]
fn nothing_measured_recommends_nothing() {
    assert_eq!(recommend(&[], None, &SERVER), None);
}

#[test]
fn what_is_pasted_is_what_was_recommended() {
    let sizes = judge(&[(10, 900.0), (40, 1000.0), (100, 500.0)]).sizes.unwrap();
    assert_eq!(
        sizes.postgresql_conf(),
        format!("max_connections = {}\n", sizes.max_connections)
    );
    let line = format!("\ndefault_pool_size = {}\n", sizes.default_pool_size);
    assert!(sizes.pgbouncer_ini().contains(&line), "{sizes:?}");
    assert!(
        sizes.because[0].ends_with("32 x 2 + 1, would have said 65"),
        "{sizes:?}"
    );
}
