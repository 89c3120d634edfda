use super::*;

fn rates(transactions: f64) -> Rates {
    Rates {
        transactions,
        queries: 2.0 * transactions,
        received_bytes: 1e6,
        sent_bytes: 2e6,
        working: 3.24,
        transaction_us: Some(1234.0),
        query_us: Some(56_789.0),
        wait_us: None,
    }
}

fn pool(database: &str, user: &str, waiting: u64) -> Pool {
    Pool {
        database: database.to_owned(),
        user: user.to_owned(),
        mode: "transaction".to_owned(),
        clients_active: 8,
        clients_idle: 40,
        waiting,
        servers_active: 8,
        servers_idle: 1,
        servers_other: 0,
        wait_longest_us: 1500 * waiting,
    }
}

fn database(name: &str, pools: Vec<Pool>) -> Database {
    Database {
        name: name.to_owned(),
        rates: Some(rates(12_345.0)),
        pools,
    }
}

fn sizing(step: &str) -> Row {
    [
        ("host", "127.0.0.1:5432"),
        ("sizing", "auto"),
        ("limit", "12"),
        ("settled", "8"),
        ("working", "11"),
        ("per_second", "9000"),
        ("last_step", step),
        (
            "reason",
            if step.is_empty() {
                ""
            } else {
                "more servers do 11.1 % more"
            },
        ),
    ]
    .map(|(k, v)| (k.to_owned(), v.to_owned()))
    .into()
}

fn view() -> View {
    View {
        clock: "2026-11-24 01:02:03".to_owned(),
        rates: Some(rates(24_690.0)),
        together: pool("", "", 20),
        databases: vec![
            database("shop", vec![pool("shop", "alice", 15), pool("shop", "bob", 0)]),
            database("reports", vec![pool("reports", "carol", 5)]),
        ],
        sizings: vec![sizing("8 to 12, 3 s ago")],
        ..View::default()
    }
}

fn frame(width: usize, height: usize) -> Frame {
    Frame {
        width: Some(width),
        height: Some(height),
        title: "pgweir top: db:6432  pgweir 0.1.0".to_owned(),
        message: None,
    }
}

fn texts(page: &[Line]) -> Vec<&str> {
    page.iter().map(|line| &*line.text).collect()
}

#[test]
fn the_whole_page() {
    let page = page(
        &view(),
        &Frame {
            width: None,
            height: None,
            ..frame(0, 0)
        },
    );
    let expected = "\
pgweir top: db:6432  pgweir 0.1.0  2026-11-24 01:02:03
TPS 24,690, queries/s 49,380; server time 56.8 ms a query, 3.2 servers at work; waits - ms; in 1,000 kB/s, out 2,000 kB/s
clients: 8 active, 20 waiting (the first for 30.0 ms), 40 idle; servers: 8 active, 1 idle, 0 other

SIZING OF HOST  SIZING  LIMIT  SETTLED  WORKING  LONG  HELD  IDLE  OPENING  WAITING  POOLS  MAX  PER_SECOND
127.0.0.1:5432  auto       12        8       11                                                        9000
    last step 8 to 12, 3 s ago: more servers do 11.1 % more

DATABASE  USER       MODE         CL_ACTIVE  CL_WAIT  CL_IDLE  SV_ACTIVE  SV_IDLE  MAXWAIT_MS     TPS  QUERIES/S  XACT_MS  QUERY_MS  WAIT_MS
shop      (2 users)                      16       15       80         16        2        22.5  12,345     24,690     1.23      56.8        -
  shop    alice      transaction          8       15       40          8        1        22.5
  shop    bob        transaction          8        0       40          8        1           0
reports   carol      transaction          8        5       40          8        1        7.50  12,345     24,690     1.23      56.8        -";
    let expected: Vec<&str> = expected.lines().collect();
    assert_eq!(texts(&page), expected);
    let warned = page.iter().filter(|line| line.style == Style::Warning).count();
    assert_eq!(warned, 4, "all pools, shop, alice and carol");
}

#[test]
fn no_page_is_larger_than_its_frame() {
    let mut view = view();
    for (width, height) in (0..140).flat_map(|width| [0, 1, 3, 7, 12, 40].map(|height| (width, height))) {
        for clients in [
            Clients::NotAsked,
            Clients::Rows(vec![sizing(""); 30]),
            Clients::TooMany(9999),
        ] {
            view.clients = clients;
            let page = page(&view, &frame(width, height));
            assert!(page.len() <= height, "{width} x {height}");
            assert!(page.iter().all(|line| line.text.chars().count() <= width));
        }
        assert!(help(&frame(width, height)).len() <= height);
    }
}

#[test]
fn what_matters_most_stays_on_a_narrow_terminal() {
    let page = page(&view(), &frame(60, 24));
    let heading = texts(&page)
        .into_iter()
        .find(|line| line.starts_with("DATABASE"))
        .unwrap();
    assert_eq!(heading, "DATABASE  USER       CL_WAIT  SV_ACTIVE  MAXWAIT_MS     TPS");
}

#[test]
fn what_is_below_the_last_line_is_counted() {
    let mut view = view();
    view.sizings.clear();
    view.databases = (0..50)
        .map(|i| database(&format!("db{i}"), vec![pool("", "u", 0)]))
        .collect();
    let page = page(&view, &frame(200, 20));
    assert_eq!(page.len(), 20);
    // Four lines above the table, its heading, 14 databases, and this line.
    assert_eq!(page.last().unwrap().text, "... 36 more");
}

#[test]
fn without_sizes_to_find_nothing_is_said_of_them() {
    let mut view = view();
    view.sizings.clear();
    let page = page(&view, &frame(200, 40));
    assert!(!texts(&page).iter().any(|line| line.contains("SIZING")));
    view.sizings = vec![sizing("")];
    assert!(texts(&super::page(&view, &frame(200, 40))).contains(&"    no step yet"));
}

#[test]
fn a_lost_connection_and_a_paused_pooler_are_seen_at_the_top() {
    let mut view = view();
    view.stopped = vec!["paused".to_owned()];
    let frame = Frame {
        message: Some("connection lost, trying again: refused".to_owned()),
        ..frame(200, 40)
    };
    let page = page(&view, &frame);
    assert!(page[0].text.ends_with("  PAUSED"), "{}", page[0].text);
    assert_eq!(
        (&*page[1].text, page[1].style),
        ("connection lost, trying again: refused", Style::Warning)
    );
}

#[test]
fn a_message_is_told_to_its_last_word() {
    let message = "connection lost, trying again: console: could not connect to server at \"db\": Connection refused";
    let frame = Frame {
        message: Some(message.to_owned()),
        ..frame(50, 40)
    };
    let page = page(&view(), &frame);
    let warned: Vec<&str> = texts(&page)[1..4].to_vec();
    assert_eq!(
        warned,
        [
            "connection lost, trying again: console: could not",
            "connect to server at \"db\": Connection refused",
            &*page[3].text
        ]
    );
    assert!(page[3].text.starts_with("TPS "), "{}", page[3].text);
}

#[test]
fn a_client_cannot_write_to_the_terminal() {
    let mut view = view();
    let client = [
        ("user", "eve\x1b[2J"),
        ("state", "active"),
        ("application_name", "\x1b]0;owned\x07"),
    ];
    view.clients = Clients::Rows(vec![client.map(|(k, v)| (k.to_owned(), v.to_owned())).into()]);
    view.databases = vec![database("\x1b[31m", vec![pool("\x1b[31m", "\n\n", 0)])];
    for clients in [view.clients.clone(), Clients::NotAsked] {
        view.clients = clients;
        let page = page(&view, &frame(200, 40));
        assert!(
            page.iter().all(|line| !line.text.contains(char::is_control)),
            "{page:?}"
        );
    }
}

#[test]
fn milliseconds_with_the_digits_that_mean_something() {
    for (us, words) in [
        (0.0, "0"),
        (420.0, "0.42"),
        (9_994.0, "9.99"),
        (12_340.0, "12.3"),
        (2_125_884.0, "2,126"),
    ] {
        assert_eq!(ms(Some(us)), words);
    }
    assert_eq!(ms(None), "-");
}

#[test]
fn the_help_names_every_column_of_pools_and_every_order() {
    let help = help(&frame(200, 100));
    let text = texts(&help).join("\n");
    for column in [
        "CL_ACTIVE",
        "CL_WAIT",
        "CL_IDLE",
        "SV_ACTIVE",
        "SV_IDLE",
        "MAXWAIT_MS",
        "QUERIES/S",
        "XACT_MS",
        "QUERY_MS",
        "WAIT_MS",
    ] {
        assert!(text.contains(column), "{column}");
    }
    for order in <super::super::view::Order as clap::ValueEnum>::value_variants() {
        assert!(text.contains(order.word()), "{order:?}");
    }
}
