//! SHOW LISTS and SHOW MEM: numbers of objects, and their memory.

use crate::client::{Client, ClientPhase};
use crate::console::rows::Rows;
use crate::operator::view::View;
use crate::pools::peers::PeerPool;
use crate::pools::pool::Pool;
use crate::server::Server;
use crate::state::shape::Shape;
use crate::statements::prepared::Statement;
use pgweir_config::{DatabaseSettings, PeerSettings, UserSettings};
use std::mem::size_of;

impl View<'_> {
    pub(super) fn show_lists(&self, rows: &mut Rows<'_>) {
        let login = |client: &Client| {
            matches!(
                client.phase,
                ClientPhase::Startup(_) | ClientPhase::Cancelling { .. } | ClientPhase::Login(_)
            )
        };
        let logging_in = self.clients.iter().filter(|(_, c)| login(c)).count();
        let lists = [
            ("databases", self.database_names().len()),
            ("users", self.user_names().len()),
            ("peers", self.config.peers.len()),
            ("pools", self.pool_rows()),
            ("peer_pools", self.peers.iter().len()),
            ("free_clients", self.clients.free_len()),
            ("used_clients", self.clients.len()),
            ("login_clients", logging_in),
            ("free_servers", self.servers.free_len()),
            ("used_servers", self.servers.len()),
            ("dns_names", self.names.hosts.len()),
            ("dns_zones", self.names.zones.len()),
            ("dns_queries", self.names.asked),
            ("dns_pending", 0),
        ];
        for (name, items) in lists {
            rows.push(&[name.into(), items.into()]);
        }
    }

    /// The counterparts of PgBouncer's caches: the size of one entry, the entries in use, the places kept for more, and
    /// the bytes of all. Memory that an entry refers to (texts, queues) is not counted, except the texts of prepared
    /// statements.
    pub(super) fn show_mem(&self, rows: &mut Rows<'_>) {
        let statements = self.statements.len();
        let statement_bytes = match statements {
            0 => size_of::<Statement>(),
            some => size_of::<Statement>() + self.statements.text_bytes() / some,
        };
        let free_pools = self.pools.iter().filter(|p| p.is_none()).count();
        let caches = [
            ("user_cache", size_of::<UserSettings>(), self.user_names().len(), 0),
            (
                "credentials_cache",
                size_of::<pgweir_auth::Credential>(),
                self.config.auth_users.len(),
                0,
            ),
            (
                "db_cache",
                size_of::<DatabaseSettings>(),
                self.database_names().len(),
                0,
            ),
            ("peer_cache", size_of::<PeerSettings>(), self.config.peers.len(), 0),
            ("peer_pool_cache", size_of::<PeerPool>(), self.peers.iter().len(), 0),
            (
                "pool_cache",
                size_of::<Pool>(),
                self.pools.len() - free_pools,
                free_pools,
            ),
            ("outstanding_request_cache", 0, 0, 0),
            (
                "server_cache",
                size_of::<Server>(),
                self.servers.len(),
                self.servers.free_len(),
            ),
            (
                "client_cache",
                size_of::<Client>(),
                self.clients.len(),
                self.clients.free_len(),
            ),
            ("iobuf_cache", 0, 0, 0),
            ("var_list_cache", size_of::<Shape>(), self.shapes.len(), 0),
            ("server_prepared_statement_cache", statement_bytes, statements, 0),
        ];
        for (name, size, used, free) in caches {
            // A free place holds no value.
            let total = size * used + size_of::<usize>() * 2 * free;
            rows.push(&[name.into(), size.into(), used.into(), free.into(), total.into()]);
        }
    }
}
