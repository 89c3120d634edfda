use super::*;

const SECOND: Duration = Duration::from_secs(1);

fn totals(transactions: u64, queries: u64) -> Totals {
    Totals {
        transactions,
        queries,
        query_us: 500 * queries,
        transaction_us: 2000 * transactions,
        wait_us: 100 * transactions,
        assignments: Some(transactions / 2),
        received_bytes: 10 * queries,
        sent_bytes: 20 * queries,
    }
}

fn pool(database: &str, user: &str, waiting: u64) -> Pool {
    Pool {
        database: database.to_owned(),
        user: user.to_owned(),
        waiting,
        servers_active: 1,
        ..Pool::default()
    }
}

fn look(at: Duration, totals: &[(&str, Totals)], pools: &[Pool]) -> Look {
    Look {
        at,
        totals: totals
            .iter()
            .map(|(name, totals)| ((*name).to_owned(), *totals))
            .collect(),
        pools: pools.to_vec(),
        ..Look::default()
    }
}

fn names(view: &View) -> Vec<&str> {
    view.databases.iter().map(|database| &*database.name).collect()
}

#[test]
fn rates_are_what_happened_in_each_second() {
    let rates = Rates::between(&totals(100, 1000), &totals(300, 2000), 2 * SECOND).unwrap();
    assert_eq!((rates.transactions, rates.queries), (100.0, 500.0));
    assert_eq!((rates.received_bytes, rates.sent_bytes), (5000.0, 10000.0));
    assert_eq!((rates.query_us, rates.transaction_us), (Some(500.0), Some(2000.0)));
    // 200 transactions waited for 20,000 us together, and were given 100 servers.
    assert_eq!(rates.wait_us, Some(200.0));
    // 1000 queries of 0.5 ms in two seconds.
    assert_eq!(rates.working, 0.25);
}

#[test]
fn an_older_pgbouncer_counts_no_assignments() {
    let older = |n| Totals {
        assignments: None,
        ..totals(n, n)
    };
    let rates = Rates::between(&older(0), &older(10), SECOND).unwrap();
    assert_eq!(rates.wait_us, Some(100.0));
}

#[test]
fn a_quiet_second_has_no_means() {
    let rates = Rates::between(&totals(5, 5), &totals(5, 5), SECOND).unwrap();
    assert_eq!((rates.transactions, rates.query_us, rates.wait_us), (0.0, None, None));
}

#[test]
fn nothing_is_said_across_a_restart_of_the_pooler() {
    assert_eq!(Rates::between(&totals(500, 500), &totals(3, 3), SECOND), None);
    assert_eq!(Rates::between(&totals(3, 3), &totals(4, 4), Duration::ZERO), None);
}

#[test]
fn a_database_that_goes_or_comes_does_not_disturb_the_sum() {
    let before = look(
        Duration::ZERO,
        &[("gone", totals(900, 900)), ("stays", totals(10, 10))],
        &[],
    );
    let now = look(
        SECOND,
        &[("new", totals(5, 5)), ("stays", totals(12, 12))],
        &[pool("new", "u", 0)],
    );
    let view = View::new(Some(&before), &now, Order::Name);
    assert_eq!(view.rates.unwrap().transactions, 7.0);
    assert_eq!(view.databases[0].rates.unwrap().transactions, 5.0);
}

#[test]
fn the_first_look_has_no_rates() {
    let now = look(Duration::ZERO, &[("shop", totals(5, 5))], &[pool("shop", "u", 0)]);
    let view = View::new(None, &now, Order::Tps);
    assert_eq!((view.rates, view.databases[0].rates), (None, None));
}

#[test]
fn pools_are_put_together_by_database_in_each_order() {
    let pools = [
        pool("busy", "u", 0),
        pool("crowd", "bob", 2),
        pool("crowd", "alice", 2),
        pool("crowd", "carol", 9),
    ];
    let before = look(Duration::ZERO, &[], &pools);
    let now = look(SECOND, &[("crowd", totals(1, 1)), ("busy", totals(50, 50))], &pools);
    let view = |order| View::new(Some(&before), &now, order);
    assert_eq!(names(&view(Order::Waiting)), ["crowd", "busy"]);
    assert_eq!(names(&view(Order::Tps)), ["busy", "crowd"]);
    assert_eq!(names(&view(Order::Name)), ["busy", "crowd"]);
    assert_eq!(names(&view(Order::Servers)), ["crowd", "busy"]);
    let waiting = view(Order::Waiting);
    let users: Vec<&str> = waiting.databases[0].pools.iter().map(|pool| &*pool.user).collect();
    assert_eq!(users, ["carol", "alice", "bob"]);
    assert_eq!(
        (waiting.databases[0].together().waiting, waiting.together.waiting),
        (13, 13)
    );
}

#[test]
fn every_order_is_reached_by_its_key() {
    let mut order = Order::default();
    for expected in Order::value_variants() {
        assert_eq!(order, *expected);
        order = order.next();
    }
    assert_eq!(order, Order::default());
}

#[test]
fn clients_that_wait_longest_come_first() {
    let client = |name: &str, state: &str, wait_us: &str, since: &str| -> Row {
        let pairs = [
            ("user", name),
            ("state", state),
            ("wait_us", wait_us),
            ("request_time", since),
        ];
        pairs.map(|(k, v)| (k.to_owned(), v.to_owned())).into()
    };
    let rows = vec![
        client("idle", "idle", "0", "2026-01-01 00:00:00 UTC"),
        client("new", "active", "0", "2026-01-01 00:00:09 UTC"),
        // PgBouncer shows the wait of the request before.
        client("old", "active", "99", "2026-01-01 00:00:01 UTC"),
        client("short", "waiting", "5", "2026-01-01 00:00:03 UTC"),
        client("long", "waiting", "70", "2026-01-01 00:00:04 UTC"),
    ];
    let Clients::Rows(sorted) = in_order(&Clients::Rows(rows)) else {
        panic!("rows stay rows");
    };
    let users: Vec<String> = sorted.iter().map(|row| text(row, "user")).collect();
    assert_eq!(users, ["long", "short", "old", "new", "idle"]);
}
