//! The admin console as drivers and exporters use it.

mod rig;

use pgweir_core::{Accepted, Address, ClientId, LogLevel};
use pgweir_wire::{ProtocolVersion, StartupPacket, Writer, backend};
use rig::Rig;
use std::time::Duration;

const INT4: u32 = 23;
const INT8: u32 = 20;
const TEXT: u32 = 25;
const NUMERIC: u32 = 1700;
const BYTEA: u32 = 17;

/// A console client of a pooler with `auth_type = any`.
fn console(rig: &mut Rig) -> ClientId {
    let id = rig.client_begins(&[
        ("user", "boss"),
        ("database", "pgbouncer"),
        ("application_name", "watch"),
    ]);
    assert_eq!(rig.told(id).last().map(String::as_str), Some("ReadyForQuery I"));
    id
}

/// Rows of text.
type Table = Vec<Vec<Option<String>>>;

/// The answer to a Query: columns with their types, and rows.
fn query(rig: &mut Rig, id: ClientId, text: &str) -> (Vec<(String, u32)>, Table) {
    rig.says(id, |w| w.query(text.as_bytes()));
    let heard = rig.hears(id);
    let tags: Vec<u8> = heard.iter().map(|(tag, _)| *tag).collect();
    assert_eq!(
        (tags[0], &tags[tags.len() - 2..]),
        (b'T', &b"CZ"[..]),
        "{text}: {heard:?}"
    );
    assert_eq!(heard[heard.len() - 2].1, b"SHOW\0");
    let rows = heard[1..heard.len() - 2].iter().map(|(_, body)| row(body)).collect();
    (columns(&heard[0].1), rows)
}

fn row(body: &[u8]) -> Vec<Option<String>> {
    let text = |field: &[u8]| String::from_utf8(field.to_vec()).unwrap();
    let fields = backend::data_row(body).unwrap();
    fields.into_iter().map(|f| f.map(text)).collect()
}

/// Names and types of a RowDescription.
fn columns(body: &[u8]) -> Vec<(String, u32)> {
    let mut columns = Vec::new();
    let mut rest = &body[2..];
    while !rest.is_empty() {
        let end = rest.iter().position(|&b| b == 0).unwrap();
        let name = String::from_utf8(rest[..end].to_vec()).unwrap();
        let kind = u32::from_be_bytes(rest[end + 7..end + 11].try_into().unwrap());
        columns.push((name, kind));
        rest = &rest[end + 19..];
    }
    columns
}

/// One column of one row.
fn value(rig: &mut Rig, id: ClientId, show: &str, row: usize, column: &str) -> String {
    let (columns, rows) = query(rig, id, show);
    let at = columns
        .iter()
        .position(|(name, _)| name == column)
        .expect("a column of that name");
    rows[row][at].clone().unwrap_or_else(|| "NULL".into())
}

#[test]
fn the_login_tells_drivers_what_they_must_know() {
    let mut rig = Rig::new("");
    let id = rig.client_begins(&[("user", "x"), ("database", "pgbouncer")]);
    let told = rig.told(id);
    assert_eq!(told[0], "Authentication");
    for parameter in [
        "client_encoding UTF8",
        "DateStyle ISO",
        "standard_conforming_strings on",
        "is_superuser on",
    ] {
        assert!(told.contains(&format!("ParameterStatus {parameter}")), "{told:?}");
    }
    assert!(
        told.iter().any(|t| t.starts_with("ParameterStatus server_version 0.")),
        "{told:?}"
    );
    assert_eq!(told[told.len() - 2..], ["BackendKeyData", "ReadyForQuery I"]);
}

#[test]
fn every_table_has_pgbouncers_columns_in_order_and_type() {
    let sockets = "type:t user:t database:t replication:t state:t addr:t port:i local_addr:t local_port:i \
                   connect_time:t request_time:t wait:i wait_us:i close_needed:i ptr:t link:t remote_pid:i tls:t \
                   application_name:t prepared_statements:i id:i";
    let buffers = "recv_pos:i pkt_pos:i pkt_remain:i send_pos:i send_remain:i pkt_avail:i send_avail:i";
    let all = format!("{sockets} {buffers}");
    let stats = "server_assignment_count:n xact_count:n query_count:n bytes_received:n bytes_sent:n xact_time:n \
                 query_time:n wait_time:n";
    let tables = [
        ("VERSION", "version:t"),
        ("STATE", "key:t value:t"),
        ("CONFIG", "key:t value:t default:t changeable:t"),
        ("LISTS", "list:t items:i"),
        ("MEM", "name:t size:i used:i free:i memtotal:i"),
        ("CLIENTS", sockets),
        ("SERVERS", sockets),
        ("SOCKETS", &all),
        ("ACTIVE_SOCKETS", &all),
        (
            "POOLS",
            "database:t user:t cl_active:i cl_waiting:i cl_active_cancel_req:i cl_waiting_cancel_req:i sv_active:i \
             sv_active_cancel:i sv_being_canceled:i sv_idle:i sv_used:i sv_tested:i sv_login:i maxwait:i \
             maxwait_us:i pool_mode:t load_balance_hosts:t",
        ),
        (
            "STATS",
            "database:t total_server_assignment_count:n total_xact_count:n total_query_count:n total_received:n \
             total_sent:n total_xact_time:n total_query_time:n total_wait_time:n total_client_parse_count:n \
             total_server_parse_count:n total_bind_count:n total_client_login_count:n \
             avg_server_assignment_count:n avg_xact_count:n avg_query_count:n avg_recv:n avg_sent:n \
             avg_xact_time:n avg_query_time:n avg_wait_time:n avg_client_parse_count:n avg_server_parse_count:n \
             avg_bind_count:n avg_client_login_count:n",
        ),
        (
            "STATS_TOTALS",
            &format!("database:t {stats} client_parse_count:n server_parse_count:n bind_count:n client_login_count:n"),
        ),
        (
            "STATS_AVERAGES",
            &format!(
                "database:t {stats} avg_client_parse_count:n avg_server_parse_count:n avg_bind_count:n \
                 avg_client_login_count:n"
            ),
        ),
        ("TOTALS", "name:t value:n"),
        (
            "DATABASES",
            "name:t host:t port:i database:t force_user:t pool_size:i min_pool_size:i reserve_pool_size:i \
             server_lifetime:i pool_mode:t load_balance_hosts:t max_connections:i current_connections:i \
             max_client_connections:i current_client_connections:i paused:i disabled:i",
        ),
        (
            "USERS",
            "name:t pool_size:t reserve_pool_size:t pool_mode:t max_user_connections:i current_connections:i \
             max_user_client_connections:i current_client_connections:i",
        ),
        ("PEERS", "peer_id:i host:t port:i pool_size:i"),
        (
            "PEER_POOLS",
            "peer_id:i cl_active_cancel_req:i cl_waiting_cancel_req:i sv_active_cancel:i sv_login:i",
        ),
        ("DNS_HOSTS", "hostname:t ttl:q addrs:t"),
        ("DNS_ZONES", "zonename:t serial:q count:i"),
        (
            "FDS",
            "fd:i task:t user:t database:t addr:t port:i cancel:q link:i client_encoding:t std_strings:t \
             datestyle:t timezone:t password:t scram_client_key:b scram_server_key:b",
        ),
        ("client_encoding", "client_encoding:t"),
    ];
    let mut rig = Rig::new("");
    rig.client();
    let id = console(&mut rig);
    for (name, expected) in tables {
        let letter = |oid: u32| match oid {
            INT4 => 'i',
            INT8 => 'q',
            TEXT => 't',
            NUMERIC => 'n',
            BYTEA => 'b',
            other => panic!("type {other}"),
        };
        let (columns, _) = query(&mut rig, id, &format!("SHOW {name}"));
        let columns: Vec<_> = columns.iter().map(|(n, oid)| format!("{n}:{}", letter(*oid))).collect();
        let expected: Vec<_> = expected.split_whitespace().collect();
        assert_eq!(columns, expected, "SHOW {name}");
    }
}

#[test]
fn pools_of_one_database_and_user_are_one_row_whatever_they_are_for() {
    let settings = "auth_user = u\nauth_dbname = db\nadmin_users = boss";
    let mut rig = Rig::with_users("\"u\" \"\"\n\"boss\" \"\"\n", settings);
    let client = rig.client();
    rig.says(client, |w| w.query(b"select 1"));
    let unknown = rig.client_begins(&[("user", "somebody"), ("database", "db")]);
    assert!(rig.told(unknown).is_empty(), "auth_query is asked");
    rig.client_begins(&[("user", "u"), ("database", "db"), ("replication", "database")]);
    let id = console(&mut rig);
    let (_, rows) = query(&mut rig, id, "show pools");
    let keys: Vec<_> = rows
        .iter()
        .map(|r| (r[0].as_deref().unwrap(), r[1].as_deref().unwrap()))
        .collect();
    assert_eq!(keys, [("db", "u"), ("pgbouncer", "pgbouncer")]);
    let numbers: Vec<_> = rows[0][2..15].iter().map(|v| v.as_deref().unwrap()).collect();
    assert_eq!(
        numbers,
        ["1", "2", "0", "0", "1", "0", "0", "0", "0", "0", "2", "0", "0"],
        "one at work; one waits for auth_query and one to stream, whose servers log in"
    );
    assert_eq!(rows[0][15].as_deref(), Some("transaction"));
}

#[test]
fn waits_are_shown_with_the_longest_first_waiter() {
    let mut rig = Rig::with("db = host=127.0.0.1 user=u pool_size=1", "query_wait_notify = 0");
    let (busy, waiting) = (rig.client(), rig.client());
    rig.says(busy, |w| w.query(b"select 1"));
    rig.says(waiting, |w| w.query(b"select 2"));
    rig.wait(Duration::from_millis(2_500));
    let id = console(&mut rig);
    assert_eq!(value(&mut rig, id, "show pools", 0, "cl_waiting"), "1");
    assert_eq!(value(&mut rig, id, "show pools", 0, "maxwait"), "2");
    assert_eq!(value(&mut rig, id, "show pools", 0, "maxwait_us"), "500000");
    let (columns, rows) = query(&mut rig, id, "show clients");
    let state = columns.iter().position(|(n, _)| n == "state").unwrap();
    let states: Vec<_> = rows.iter().map(|r| r[state].as_deref().unwrap()).collect();
    assert_eq!(states, ["active", "waiting", "idle"]);
    assert_eq!(value(&mut rig, id, "show clients", 1, "wait"), "2");
    assert_eq!(value(&mut rig, id, "show clients", 2, "application_name"), "watch");
}

#[test]
fn clients_and_servers_point_at_each_other() {
    let mut rig = Rig::new("");
    let client = rig.client_begins(&[("user", "alice"), ("database", "db"), ("application_name", "shop")]);
    rig.servers_log_in();
    rig.told(client);
    rig.says(client, |w| w.query(b"select 1"));
    let id = console(&mut rig);
    let cell = |rig: &mut Rig, show: &str, column: &str| value(rig, id, show, 0, column);
    assert_eq!(cell(&mut rig, "show clients", "user"), "alice");
    assert_eq!(cell(&mut rig, "show servers", "user"), "u");
    assert_eq!(cell(&mut rig, "show clients", "application_name"), "shop");
    assert_eq!(cell(&mut rig, "show servers", "state"), "active");
    assert_eq!(cell(&mut rig, "show servers", "remote_pid"), "4711");
    assert_eq!(
        cell(&mut rig, "show clients", "link"),
        cell(&mut rig, "show servers", "ptr")
    );
    assert_eq!(
        cell(&mut rig, "show servers", "link"),
        cell(&mut rig, "show clients", "ptr")
    );
    assert_eq!(
        cell(&mut rig, "show clients", "connect_time"),
        "1970-01-01 00:00:00 UTC"
    );
    let (_, users) = query(&mut rig, id, "show users");
    let row = |name: &str| users.iter().find(|r| r[0].as_deref() == Some(name)).unwrap();
    assert_eq!(
        (row("alice")[5].as_deref(), row("alice")[7].as_deref()),
        (Some("0"), Some("1"))
    );
    assert_eq!((row("u")[5].as_deref(), row("u")[7].as_deref()), (Some("1"), Some("0")));
}

#[test]
fn statistics_count_and_average_and_are_logged() {
    let mut rig = Rig::new("stats_period = 10");
    rig.wait(Duration::from_millis(1));
    let client = rig.client();
    for _ in 0..20 {
        rig.says(client, |w| w.query(b"select 1"));
        let server = rig.server_of(client).unwrap();
        rig.completes(server, "SELECT 1");
    }
    rig.wait(Duration::from_secs(10));
    let id = console(&mut rig);
    assert_eq!(value(&mut rig, id, "show stats", 0, "total_query_count"), "20");
    assert_eq!(value(&mut rig, id, "show stats", 0, "avg_query_count"), "2");
    assert_eq!(value(&mut rig, id, "show stats", 0, "total_client_login_count"), "1");
    assert_eq!(value(&mut rig, id, "show stats", 1, "database"), "pgbouncer");
    assert_eq!(value(&mut rig, id, "show stats_averages", 0, "query_count"), "2");
    let (_, totals) = query(&mut rig, id, "show totals");
    let names: Vec<_> = totals.iter().map(|r| r[0].as_deref().unwrap()).collect();
    assert_eq!(names.len(), 24);
    assert_eq!(
        (names[3], names[4], names[20]),
        ("total_client_bytes", "total_server_bytes", "avg_ps_client_parse_count")
    );
    let line = rig
        .log
        .iter()
        .find(|(_, text)| text.starts_with("stats: 2 xacts/s, 2 queries/s, "));
    assert!(line.is_some(), "{:?}", rig.log);
}

/// As in PgBouncer, each ReadyForQuery that a client got counts, also those from the
/// pooler.
#[test]
fn queries_that_no_server_has_answered_count() {
    let mut rig = Rig::new("default_pool_size = 1");
    let busy = rig.client();
    rig.says(busy, |w| w.query(b"select pg_sleep(9)"));
    let waiting = rig.client_begins(&[("user", "u"), ("database", "db")]);
    let key = rig.key_told(waiting);
    rig.told(waiting);
    let id = console(&mut rig);
    rig.says(waiting, |w| w.sync());
    assert_eq!(rig.told(waiting), ["ReadyForQuery I"]);
    assert_eq!(value(&mut rig, id, "show stats", 0, "total_query_count"), "1");
    rig.says(waiting, |w| w.query(b"select 1"));
    rig.cancel_request(&key);
    assert_eq!(rig.told(waiting).last().unwrap(), "ReadyForQuery I");
    assert_eq!(value(&mut rig, id, "show stats", 0, "total_query_count"), "2");
}

#[test]
fn totals_do_not_go_back_when_a_database_made_from_the_wildcard_is_forgotten() {
    let mut rig = Rig::with(
        "* = host=127.0.0.1 user=u",
        "autodb_idle_timeout = 5\nserver_idle_timeout = 1",
    );
    let client = rig.client();
    rig.says(client, |w| w.query(b"select 1"));
    let server = rig.server_of(client).unwrap();
    rig.completes(server, "SELECT 1");
    rig.client_leaves(client);
    let id = console(&mut rig);
    let total = |rig: &mut Rig| {
        let (_, rows) = query(rig, id, "show totals");
        rows[2][1].as_deref().unwrap().parse::<u64>().unwrap()
    };
    let before = total(&mut rig);
    rig.wait(Duration::from_secs(20));
    let (_, rows) = query(&mut rig, id, "show stats");
    assert_eq!(rows.len(), 1, "the database is gone: {rows:?}");
    assert!(total(&mut rig) > before);
}

#[test]
fn errors_leave_the_console_usable_and_have_states_and_hints() {
    let mut rig = Rig::new("");
    let id = console(&mut rig);
    let mut refused = |text: &str| {
        rig.says(id, |w| w.query(text.as_bytes()));
        let told = rig.told(id);
        assert_eq!(told.last().map(String::as_str), Some("ReadyForQuery I"), "{text}");
        assert_eq!(told.len(), 2, "{text}: {told:?}");
        told[0].clone()
    };
    assert_eq!(
        refused("show foo"),
        "Error 42601 invalid command 'show foo', use SHOW HELP;"
    );
    assert_eq!(
        refused("select 1"),
        "Error 42601 invalid command 'select 1', use SHOW HELP;"
    );
    assert_eq!(refused("pause nosuch"), "Error 3D000 no such database: nosuch");
    assert_eq!(refused("kill pgbouncer"), "Error 42809 cannot kill admin db: pgbouncer");
    assert_eq!(refused("resume"), "Error 55000 pooler is not paused");
    assert_eq!(refused("resume db"), "Error 55000 database db is not paused");
    assert_eq!(refused("disable"), "Error 42601 a database is required");
    assert_eq!(refused("kill_client x"), "Error 22023 invalid client pointer supplied");
    assert_eq!(refused("kill_client 99"), "Error 42704 client not found");
    assert!(refused("set listen_port = 1").contains("cannot be changed without a restart"));
    assert!(refused("set pool_mod = session").starts_with("Error 22023 SET failed: unknown setting"));
    assert!(refused("set verbose = abc").starts_with("Error 22023 SET failed:"));
    assert_eq!(query(&mut rig, id, "show version").1.len(), 1);
    let logged = |(level, text): &(LogLevel, String)| *level == LogLevel::Warning && text.contains("pooler error: ");
    assert_eq!(rig.log.iter().filter(|l| logged(l)).count(), 12);
}

#[test]
fn what_drivers_send_by_themselves_is_acknowledged() {
    let mut rig = Rig::new("");
    let id = console(&mut rig);
    let mut answers = |text: &str| {
        rig.says(id, |w| w.query(text.as_bytes()));
        rig.told(id).join(", ")
    };
    assert_eq!(answers("BEGIN"), "CommandComplete BEGIN, ReadyForQuery T");
    assert_eq!(answers("COMMIT"), "CommandComplete COMMIT, ReadyForQuery I");
    assert_eq!(answers("start transaction"), "CommandComplete BEGIN, ReadyForQuery T");
    assert_eq!(answers("rollback"), "CommandComplete ROLLBACK, ReadyForQuery I");
    assert_eq!(
        answers("SET extra_float_digits = 3"),
        "Notice 00000 SET ignored, CommandComplete SET, ReadyForQuery I"
    );
    assert_eq!(
        answers("SET application_name = 'new'"),
        "CommandComplete SET, ReadyForQuery I"
    );
    assert_eq!(answers("DISCARD ALL"), "CommandComplete DISCARD ALL, ReadyForQuery I");
    assert_eq!(answers("-- ping"), "I?, ReadyForQuery I");
    assert_eq!(
        answers("show help"),
        "Notice 00000 Console usage, CommandComplete SHOW, ReadyForQuery I"
    );
    assert_eq!(value(&mut rig, id, "show clients", 0, "application_name"), "new");
}

fn bind(w: &mut Writer<'_>, portal: &str, statement: &str, formats: &[i16]) {
    w.message(b'B', |b| {
        for name in [portal, statement] {
            b.extend_from_slice(name.as_bytes());
            b.push(0);
        }
        b.extend([0; 4]);
        b.extend((formats.len() as i16).to_be_bytes());
        formats.iter().for_each(|f| b.extend(f.to_be_bytes()));
    });
}

fn execute(w: &mut Writer<'_>, portal: &str, rows: i32) {
    w.message(b'E', |b| {
        b.extend_from_slice(portal.as_bytes());
        b.push(0);
        b.extend(rows.to_be_bytes());
    });
}

#[test]
fn the_extended_protocol_describes_binds_and_sends_binary() {
    let mut rig = Rig::new("");
    let id = console(&mut rig);
    rig.says(id, |w| {
        w.parse(b"s", b"SHOW LISTS", &[0, 0]);
        w.describe(b'S', b"s");
        w.sync();
    });
    let heard = rig.hears(id);
    let tags: Vec<u8> = heard.iter().map(|(tag, _)| *tag).collect();
    assert_eq!(tags, b"1tTZ");
    assert_eq!(heard[1].1, [0, 0], "no parameters");
    assert_eq!(columns(&heard[2].1), [("list".into(), TEXT), ("items".into(), INT4)]);
    rig.says(id, |w| {
        bind(w, "", "s", &[0, 1]);
        w.describe(b'P', b"");
        execute(w, "", 0);
        w.sync();
    });
    let heard = rig.hears(id);
    assert_eq!((heard[0].0, heard[1].0), (b'2', b'T'));
    assert_eq!(heard[1].1[heard[1].1.len() - 2..], [0, 1], "items are binary");
    let first = backend::data_row(&heard[2].1).unwrap();
    assert_eq!(first, [Some(&b"databases"[..]), Some(&[0, 0, 0, 2][..])]);
    assert_eq!(heard[heard.len() - 2], (b'C', b"SHOW\0".to_vec()));
}

#[test]
fn a_portal_gives_its_rows_by_and_by() {
    let mut rig = Rig::new("");
    let id = console(&mut rig);
    rig.says(id, |w| {
        w.query(b"begin");
        w.parse(b"", b"show state", &[0, 0]);
        bind(w, "p", "", &[]);
        execute(w, "p", 2);
        execute(w, "p", 2);
        execute(w, "p", 2);
        w.close(b'P', b"p");
        w.close(b'S', b"");
        w.sync();
    });
    let tags: Vec<u8> = rig.hears(id).iter().map(|(tag, _)| *tag).collect();
    assert_eq!(tags, b"CZ12DDsDCC33Z");
}

#[test]
fn an_error_of_the_extended_protocol_drops_everything_up_to_sync() {
    let mut rig = Rig::new("");
    let id = console(&mut rig);
    rig.says(id, |w| {
        w.parse(b"", b"show nonsense", &[0, 0]);
        bind(w, "", "", &[]);
        execute(w, "", 0);
        w.query(b"show version");
        w.sync();
        bind(w, "", "nosuch", &[]);
        w.sync();
        execute(w, "nosuch", 0);
        w.sync();
        w.parse(b"s", b"show version", &[0, 0]);
        w.parse(b"s", b"show version", &[0, 0]);
        w.sync();
        bind(w, "", "s", &[1, 1]);
        w.sync();
    });
    assert_eq!(
        rig.told(id),
        [
            "Error 42601 invalid command 'show nonsense', use SHOW HELP;",
            "ReadyForQuery I",
            "Error 26000 prepared statement \"nosuch\" does not exist",
            "ReadyForQuery I",
            "Error 34000 portal \"nosuch\" does not exist",
            "ReadyForQuery I",
            "ParseComplete",
            "Error 42P05 prepared statement \"s\" already exists",
            "ReadyForQuery I",
            "Error 08P01 result formats do not fit 1 columns",
            "ReadyForQuery I",
        ]
    );
}

#[test]
fn every_split_of_a_conversation_gives_the_same_answers() {
    let mut bytes = Vec::new();
    let mut w = Writer::new(&mut bytes);
    w.query(b"show version");
    w.parse(b"", b"show help", &[0, 0]);
    bind(&mut w, "", "", &[]);
    execute(&mut w, "", 0);
    w.sync();
    let mut answers = Vec::new();
    for cut in 0..bytes.len() {
        let mut rig = Rig::new("");
        let id = console(&mut rig);
        rig.comes(id, &bytes[..cut]);
        rig.comes(id, &bytes[cut..]);
        answers.push(rig.hears(id));
    }
    answers.dedup();
    assert_eq!(answers.len(), 1);
}

#[test]
fn bytes_that_are_no_messages_end_the_connection() {
    for bytes in [&b"?\0\0\0\x04"[..], b"Q\0\x01\xff\xff", b"Q\0\0\0\x03", b"p\0\0\0\x04"] {
        let mut rig = Rig::new("");
        let id = console(&mut rig);
        rig.comes(id, bytes);
        assert!(rig.closed.contains(&id.into()), "{bytes:?}");
        assert!(rig.told(id)[0].starts_with("Error 08P01 "));
    }
    // A message of the right kind with a malformed body gets an ERROR.
    for (tag, body) in [
        (b'Q', &b"show version"[..]),
        (b'P', b"x"),
        (b'B', b"\0\0\xff\xff"),
        (b'E', b""),
    ] {
        let mut rig = Rig::new("");
        let id = console(&mut rig);
        rig.says(id, |w| w.message(tag, |b| b.extend_from_slice(body)));
        assert!(rig.told(id)[0].starts_with("Error 08P01 "), "{tag}");
        assert!(!rig.closed.contains(&id.into()));
    }
}

#[test]
fn a_user_of_stats_users_may_look_and_nothing_else() {
    let mut rig = Rig::with_users(
        "\"watcher\" \"\"\n\"boss\" \"\"\n\"bob\" \"\"\n",
        "stats_users = watcher\nadmin_users = boss",
    );
    let watcher = rig.client_begins(&[("user", "watcher"), ("database", "pgbouncer")]);
    assert!(rig.told(watcher).contains(&"ParameterStatus is_superuser off".into()));
    for refused in ["pause", "show fds", "set verbose = 1", "reload", "shutdown"] {
        rig.says(watcher, |w| w.query(refused.as_bytes()));
        assert_eq!(
            rig.told(watcher),
            ["Error 42501 admin access needed", "ReadyForQuery I"]
        );
    }
    assert_eq!(query(&mut rig, watcher, "show stats").1.len(), 1);
    let boss = rig.client_begins(&[("user", "boss"), ("database", "pgbouncer")]);
    rig.told(boss);
    assert_eq!(query(&mut rig, boss, "show fds").1.len(), 0);
    let bob = rig.client_begins(&[("user", "bob"), ("database", "pgbouncer")]);
    assert_eq!(rig.told(bob), ["Error 28000 not allowed"]);
    assert!(rig.closed.contains(&bob.into()));
}

#[test]
fn the_owner_of_the_process_is_an_administrator_on_the_unix_socket() {
    for uid in [0, 1] {
        let mut rig = Rig::with_users("\"bob\" \"\"\n", "auth_type = scram-sha-256");
        let peer = Address::Unix { port: 6432 };
        let accepted = Accepted {
            peer,
            local: peer,
            peer_uid: Some(uid),
        };
        let id = rig.pooler.handle_accept(rig.now, accepted);
        let mut packet = Vec::new();
        let parameters = [(&b"user"[..], &b"pgbouncer"[..]), (b"database", b"pgbouncer")];
        StartupPacket::write_startup(&mut packet, ProtocolVersion::V3_0, parameters);
        rig.comes(id, &packet);
        let heard = rig.told(id);
        let in_at_once = heard.last().map(String::as_str) == Some("ReadyForQuery I");
        assert_eq!(in_at_once, uid == 0, "{heard:?}");
    }
}

#[test]
fn the_console_is_there_when_every_client_place_is_taken() {
    let mut rig = Rig::new("max_client_conn = 1");
    let client = rig.client();
    let refused = rig.client_begins(&[("user", "u"), ("database", "db")]);
    assert!(rig.told(refused)[0].contains("max_client_conn"));
    let id = console(&mut rig);
    rig.client_leaves(client);
    rig.client();
    assert_eq!(value(&mut rig, id, "show lists", 6, "items"), "2");
    assert_eq!(rig.pooler.linked(id.into()), None);
    rig.says(id, |w| w.terminate());
    assert!(rig.closed.contains(&id.into()));
}

/// How many clients share a server: pgweir's own column, which exporters of PgBouncer's columns do not see.
#[test]
fn show_servers_extended_counts_flights() {
    let mut rig = Rig::new("default_pool_size = 1\npipeline_depth = 8\nlink = adversarial\nsession_state = full");
    let boss = console(&mut rig);
    let flights = |rig: &mut Rig| value(rig, boss, "SHOW SERVERS EXTENDED", 0, "flights");
    let crowd: Vec<ClientId> = (0..4).map(|_| rig.client()).collect();
    for client in &crowd {
        rig.says(*client, |w| w.query(b"select 1"));
    }
    let server = rig.server_of(crowd[0]).expect("the pool's only server");
    assert_eq!(flights(&mut rig), "0", "the first works alone");
    rig.completes(server, "SELECT 1");
    assert_eq!(flights(&mut rig), "3");
    rig.completes(server, "SELECT 1");
    assert_eq!(flights(&mut rig), "2");
    let (columns, _) = query(&mut rig, boss, "SHOW SERVERS");
    assert!(columns.iter().all(|(name, _)| name != "flights"));
}
