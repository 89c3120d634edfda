//! The columns of every table, by name, order and type.

use super::tables::{BYTEA, INT4, INT8, NUMERIC, TEXT, console, query};
use crate::rig::Rig;

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
        ("SIZING STEPS", "host:t at:t from:i to:i reason:t"),
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
