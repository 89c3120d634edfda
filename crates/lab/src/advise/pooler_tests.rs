//! The rules about a running pooler.

use super::super::connections::tests::{find, quiet};
use super::*;

fn pool() -> PoolFacts {
    PoolFacts {
        database: "shop".to_owned(),
        user: "bob".to_owned(),
        mode: "transaction".to_owned(),
        clients_active: 3,
        servers_active: 3,
        size: Some(20),
        ..PoolFacts::default()
    }
}

fn pooler(pool: PoolFacts, config: &[(&str, &str)]) -> PoolerFacts {
    PoolerFacts {
        version: "PgBouncer 1.26.1".to_owned(),
        pools: vec![pool],
        config: config.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect(),
        clients: Some(3),
        sizings: Vec::new(),
        servers_most: 3,
    }
}

#[test]
fn a_server_behind_the_loopback_address_is_better_reached_by_a_socket() {
    let advised = |host: Option<&str>| {
        let reached = PoolFacts {
            host: host.map(str::to_owned),
            ..pool()
        };
        loopback(&pooler(reached, &[])).is_some()
    };
    assert!(
        ["127.0.0.1", "127.1.2.3", "::1", "localhost"]
            .map(Some)
            .into_iter()
            .all(advised)
    );
    assert!(!advised(None));
    assert!(!advised(Some("10.0.0.1")));
    assert!(!advised(Some("db.example.com")));
}

#[test]
fn a_pooler_at_ease_is_fine() {
    let config = [
        ("max_client_conn", "100"),
        ("max_prepared_statements", "200"),
        ("min_pool_size", "5"),
    ];
    let findings = judge(&pooler(pool(), &config), Some(&quiet()));
    assert!(findings.iter().all(|f| f.severity == Severity::Fine), "{findings:?}");
    assert_eq!(findings.len(), 3);
}

#[test]
fn the_article_s_queue_of_eighty_is_admission_control() {
    // Article A: 20 servers for 100 clients on 2 processors: cl_waiting 80, maxwait_us 125884, more TPS than without.
    let busy = PoolFacts {
        clients_active: 20,
        clients_waiting: 80,
        servers_active: 20,
        wait_longest_us: 125_884,
        ..pool()
    };
    let findings = judge(&pooler(busy, &[]), Some(&quiet()));
    let waits = find(&findings, "pooler.waits");
    assert_eq!(
        (waits.severity, waits.changes.len()),
        (Severity::Advice, 0),
        "{waits:?}"
    );
    assert!(
        waits
            .evidence
            .iter()
            .any(|e| e.contains("keeps the server from collapse"))
    );
    // And for two processors 20 at work are many.
    assert_eq!(
        find(&findings, "pooler.too_large").changes[0].line,
        "default_pool_size = 5"
    );
}

#[test]
fn a_small_pool_with_a_long_queue_should_grow() {
    let busy = PoolFacts {
        clients_waiting: 9,
        servers_active: 2,
        size: Some(2),
        wait_longest_us: 3_000_000,
        ..pool()
    };
    let waits = waits(&busy, &pooler(busy.clone(), &[]), Some(&quiet())).unwrap();
    assert_eq!(
        (waits.severity, waits.changes[0].line.as_str()),
        (Severity::Warning, "default_pool_size = 5")
    );
}

#[test]
fn a_pool_that_finds_its_size_is_not_called_too_large() {
    let busy = PoolFacts {
        clients_waiting: 80,
        servers_active: 60,
        size: Some(60),
        finds_size: true,
        wait_longest_us: 2_000_000,
        ..pool()
    };
    let mut pooler = pooler(busy, &[]);
    pooler.sizings.push(SizingFacts {
        hosts: "127.0.0.1:5432".to_owned(),
        settled: 60,
        servers_max: 5,
        reason: "more servers do 12.0 % more (deviation 2.0)".to_owned(),
        ..SizingFacts::default()
    });
    let findings = judge(&pooler, Some(&quiet()));
    assert!(findings.iter().all(|f| f.id != "pooler.too_large"), "{findings:?}");
    let waits = find(&findings, "pooler.waits");
    assert_eq!((waits.severity, waits.changes.len()), (Severity::Advice, 0));
    assert!(
        find(&findings, "pooler.sum")
            .title
            .starts_with("the pools may open 5 servers")
    );
    let found = find(&findings, "pooler.sizing");
    assert_eq!(found.severity, Severity::Fine);
    assert!(found.evidence[0].contains("more servers do 12.0 % more"), "{found:?}");
    pooler.sizings[0].is_held = true;
    let held = judge(&pooler, Some(&quiet()));
    assert_eq!(find(&held, "pooler.sizing").changes[0].line, "sizing = auto");
}

#[test]
fn pools_beyond_max_connections() {
    let findings = judge(
        &pooler(
            PoolFacts {
                size: Some(200),
                ..pool()
            },
            &[],
        ),
        Some(&quiet()),
    );
    let sum = find(&findings, "pooler.sum");
    assert_eq!(
        (sum.severity, sum.changes[0].line.as_str()),
        (Severity::Warning, "max_db_connections = 9")
    );
}

#[test]
fn modes_limits_and_defaults() {
    let session = PoolFacts {
        mode: "session".to_owned(),
        ..pool()
    };
    let config = [
        ("max_client_conn", "3"),
        ("max_prepared_statements", "0"),
        ("min_pool_size", "0"),
    ];
    let findings = judge(&pooler(session, &config), None);
    assert_eq!(find(&findings, "pooler.mode").severity, Severity::Advice);
    assert_eq!(find(&findings, "pooler.clients").severity, Severity::Warning);
    assert_eq!(find(&findings, "pooler.warm").severity, Severity::Advice);
    assert!(findings.iter().all(|f| f.id != "pooler.prepared"));
    let findings = judge(&pooler(pool(), &config), None);
    assert_eq!(find(&findings, "pooler.prepared").severity, Severity::Advice);
}
