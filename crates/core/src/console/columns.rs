//! The columns of every SHOW. Names, order and types are PgBouncer's, because dashboards and exporters
//! rely on them.

use crate::console::grammar::{Command, Show};
use crate::console::rows::{Column, bytea, int4, int8, numeric, text};

const VERSION: &[Column] = &[text("version")];

const STATE: &[Column] = &[text("key"), text("value")];

const CONFIG: &[Column] = &[text("key"), text("value"), text("default"), text("changeable")];

const PINS: &[Column] = &[
    text("client"),
    text("server"),
    text("database"),
    text("user"),
    text("reason"),
    int8("seconds"),
    text("statement"),
];

const SESSION: &[Column] = &[text("kind"), text("name"), text("value")];

const LISTENERS: &[Column] = &[
    text("database"),
    text("user"),
    text("client_encoding"),
    text("server"),
    int4("channels"),
    int4("clients"),
];

const SIZING: &[Column] = &[
    text("host"),
    text("sizing"),
    int4("limit"),
    int4("settled"),
    int4("working"),
    int4("long"),
    int4("held"),
    int4("idle"),
    int4("opening"),
    int4("waiting"),
    int4("pools"),
    int4("servers_max"),
    int8("per_second"),
    text("last_step"),
    text("reason"),
];

const SIZING_STEPS: &[Column] = &[text("host"), text("at"), int4("from"), int4("to"), text("reason")];

const STATE_STATS: &[Column] = &[text("name"), int8("count")];

const LISTS: &[Column] = &[text("list"), int4("items")];

const MEM: &[Column] = &[text("name"), int4("size"), int4("used"), int4("free"), int4("memtotal")];

/// The number of columns that only SHOW POOLS EXTENDED has; they come last.
const POOLS_OF_OUR_OWN: usize = 2;

/// SHOW POOLS EXTENDED has all of them, SHOW POOLS those of PgBouncer.
const POOLS: &[Column] = &[
    text("database"),
    text("user"),
    int4("cl_active"),
    int4("cl_waiting"),
    int4("cl_active_cancel_req"),
    int4("cl_waiting_cancel_req"),
    int4("sv_active"),
    int4("sv_active_cancel"),
    int4("sv_being_canceled"),
    int4("sv_idle"),
    int4("sv_used"),
    int4("sv_tested"),
    int4("sv_login"),
    int4("maxwait"),
    int4("maxwait_us"),
    text("pool_mode"),
    text("load_balance_hosts"),
    int4("cl_pinned"),
    int4("sv_pinned"),
];

/// SHOW SOCKETS has all of them, SHOW CLIENTS and SHOW SERVERS those before [`SOCKET_BUFFERS`].
const SOCKETS: &[Column] = &[
    text("type"),
    text("user"),
    text("database"),
    text("replication"),
    text("state"),
    text("addr"),
    int4("port"),
    text("local_addr"),
    int4("local_port"),
    text("connect_time"),
    text("request_time"),
    int4("wait"),
    int4("wait_us"),
    int4("close_needed"),
    text("ptr"),
    text("link"),
    int4("remote_pid"),
    text("tls"),
    text("application_name"),
    int4("prepared_statements"),
    int4("id"),
    int4("recv_pos"),
    int4("pkt_pos"),
    int4("pkt_remain"),
    int4("send_pos"),
    int4("send_remain"),
    int4("pkt_avail"),
    int4("send_avail"),
];

/// Columns of SHOW SOCKETS about buffers.
pub(crate) const SOCKET_BUFFERS: usize = 7;

/// The columns of SHOW CLIENTS and SHOW SERVERS.
const SOCKETS_BEFORE_BUFFERS: usize = SOCKETS.len() - SOCKET_BUFFERS;

/// SHOW SERVERS EXTENDED: the columns of SHOW SERVERS, and one that PgBouncer does not have.
const SERVERS_EXTENDED: &[Column] = &{
    let mut all = [int4("flights"); SOCKETS_BEFORE_BUFFERS + 1];
    let mut at = 0;
    while at < SOCKETS_BEFORE_BUFFERS {
        all[at] = SOCKETS[at];
        at += 1;
    }
    all
};

const STATS: &[Column] = &[
    text("database"),
    numeric("total_server_assignment_count"),
    numeric("total_xact_count"),
    numeric("total_query_count"),
    numeric("total_received"),
    numeric("total_sent"),
    numeric("total_xact_time"),
    numeric("total_query_time"),
    numeric("total_wait_time"),
    numeric("total_client_parse_count"),
    numeric("total_server_parse_count"),
    numeric("total_bind_count"),
    numeric("total_client_login_count"),
    numeric("avg_server_assignment_count"),
    numeric("avg_xact_count"),
    numeric("avg_query_count"),
    numeric("avg_recv"),
    numeric("avg_sent"),
    numeric("avg_xact_time"),
    numeric("avg_query_time"),
    numeric("avg_wait_time"),
    numeric("avg_client_parse_count"),
    numeric("avg_server_parse_count"),
    numeric("avg_bind_count"),
    numeric("avg_client_login_count"),
];

const STATS_TOTALS: &[Column] = &[
    text("database"),
    numeric("server_assignment_count"),
    numeric("xact_count"),
    numeric("query_count"),
    numeric("bytes_received"),
    numeric("bytes_sent"),
    numeric("xact_time"),
    numeric("query_time"),
    numeric("wait_time"),
    numeric("client_parse_count"),
    numeric("server_parse_count"),
    numeric("bind_count"),
    numeric("client_login_count"),
];

/// PgBouncer prefixes the last four names only.
const STATS_AVERAGES: &[Column] = &[
    text("database"),
    numeric("server_assignment_count"),
    numeric("xact_count"),
    numeric("query_count"),
    numeric("bytes_received"),
    numeric("bytes_sent"),
    numeric("xact_time"),
    numeric("query_time"),
    numeric("wait_time"),
    numeric("avg_client_parse_count"),
    numeric("avg_server_parse_count"),
    numeric("avg_bind_count"),
    numeric("avg_client_login_count"),
];

const TOTALS: &[Column] = &[text("name"), numeric("value")];

const DATABASES: &[Column] = &[
    text("name"),
    text("host"),
    int4("port"),
    text("database"),
    text("force_user"),
    int4("pool_size"),
    int4("min_pool_size"),
    int4("reserve_pool_size"),
    int4("server_lifetime"),
    text("pool_mode"),
    text("load_balance_hosts"),
    int4("max_connections"),
    int4("current_connections"),
    int4("max_client_connections"),
    int4("current_client_connections"),
    int4("paused"),
    int4("disabled"),
];

const USERS: &[Column] = &[
    text("name"),
    text("pool_size"),
    text("reserve_pool_size"),
    text("pool_mode"),
    int4("max_user_connections"),
    int4("current_connections"),
    int4("max_user_client_connections"),
    int4("current_client_connections"),
];

const PEERS: &[Column] = &[int4("peer_id"), text("host"), int4("port"), int4("pool_size")];

const PEER_POOLS: &[Column] = &[
    int4("peer_id"),
    int4("cl_active_cancel_req"),
    int4("cl_waiting_cancel_req"),
    int4("sv_active_cancel"),
    int4("sv_login"),
];

const DNS_HOSTS: &[Column] = &[text("hostname"), int8("ttl"), text("addrs")];

const DNS_ZONES: &[Column] = &[text("zonename"), int8("serial"), int4("count")];

const FDS: &[Column] = &[
    int4("fd"),
    text("task"),
    text("user"),
    text("database"),
    text("addr"),
    int4("port"),
    int8("cancel"),
    int4("link"),
    text("client_encoding"),
    text("std_strings"),
    text("datestyle"),
    text("timezone"),
    text("password"),
    bytea("scram_client_key"),
    bytea("scram_server_key"),
];

/// In the order of [`crate::console::grammar::SESSION_VALUES`].
const SESSION_VALUES: [&[Column]; 5] = [
    &[text("client_encoding")],
    &[text("datestyle")],
    &[text("default_transaction_isolation")],
    &[text("standard_conforming_strings")],
    &[text("timezone")],
];

/// The columns of a SHOW.
pub(crate) fn columns(show: Show) -> &'static [Column] {
    match show {
        Show::Sockets | Show::ActiveSockets => SOCKETS,
        Show::Clients | Show::Servers => &SOCKETS[..SOCKETS_BEFORE_BUFFERS],
        Show::ServersExtended => SERVERS_EXTENDED,
        Show::Config => CONFIG,
        Show::Databases => DATABASES,
        Show::DnsHosts => DNS_HOSTS,
        Show::DnsZones => DNS_ZONES,
        Show::Fds => FDS,
        Show::Listeners => LISTENERS,
        Show::Pins => PINS,
        Show::Sizing => SIZING,
        Show::SizingSteps => SIZING_STEPS,
        Show::StateStats => STATE_STATS,
        Show::Lists => LISTS,
        Show::Mem => MEM,
        Show::PeerPools => PEER_POOLS,
        Show::Peers => PEERS,
        Show::Pools => &POOLS[..POOLS.len() - POOLS_OF_OUR_OWN],
        Show::PoolsExtended => POOLS,
        Show::Session(_) => SESSION,
        Show::State => STATE,
        Show::Stats => STATS,
        Show::StatsAverages => STATS_AVERAGES,
        Show::StatsTotals => STATS_TOTALS,
        Show::Totals => TOTALS,
        Show::Users => USERS,
        Show::Version => VERSION,
        Show::SessionValue(at) => SESSION_VALUES[at],
    }
}

impl Command {
    /// The columns of its rows; `None` if it returns no rows.
    pub(crate) fn columns(&self) -> Option<&'static [Column]> {
        match self {
            Command::Show(show) => Some(columns(*show)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::console::grammar;

    #[test]
    fn session_values_have_their_own_names() {
        for (at, (name, _)) in grammar::SESSION_VALUES.iter().enumerate() {
            assert_eq!(columns(Show::SessionValue(at))[0].name, *name);
        }
    }

    #[test]
    fn tables_are_as_wide_as_pgbouncers() {
        let wide = |show| columns(show).len();
        assert_eq!(
            (wide(Show::Pools), wide(Show::Clients), wide(Show::Sockets)),
            (17, 21, 28)
        );
        assert_eq!((wide(Show::PoolsExtended), wide(Show::ServersExtended)), (19, 22));
        assert_eq!(columns(Show::ServersExtended)[20].name, "id");
        assert_eq!(
            (wide(Show::Stats), wide(Show::StatsTotals), wide(Show::StatsAverages)),
            (25, 13, 13)
        );
        assert_eq!((wide(Show::Databases), wide(Show::Users), wide(Show::Fds)), (17, 8, 15));
    }
}
