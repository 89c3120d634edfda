//! SHOW: dispatch, and the small tables.

use crate::base::access::Access;
use crate::console::columns;
use crate::console::grammar::{SESSION_VALUES, Show};
use crate::console::refusal::Refusal;
use crate::console::rows::{self, Formats, Rows};
use crate::operator::view::View;

impl View<'_> {
    /// The rows of a table. Its columns come first, if they are `described`.
    pub(super) fn table(
        &self,
        show: Show,
        access: Access,
        formats: &Formats,
        described: bool,
    ) -> Result<Vec<u8>, Refusal> {
        if let Show::Session(number) = show
            && self.client_by_number(number).is_none()
        {
            return Err(Refusal::no_such_client());
        }
        let columns = columns::columns(show);
        let mut table = Vec::new();
        if described {
            rows::describe(&mut table, columns, formats);
        }
        let mut rows = Rows::new(columns, formats);
        self.show(show, access, &mut rows);
        table.extend(rows.into_bytes());
        Ok(table)
    }

    fn show(&self, show: Show, access: Access, rows: &mut Rows<'_>) {
        match show {
            Show::Clients => self.show_clients(rows),
            Show::Servers => self.show_servers(rows, false),
            Show::ServersExtended => self.show_servers(rows, true),
            Show::Sockets => self.show_sockets(rows, false),
            Show::ActiveSockets => self.show_sockets(rows, true),
            Show::Listeners => self.show_listeners(rows),
            Show::Pins => self.show_pins(access, rows),
            Show::Sizing => self.show_sizing(rows),
            Show::SizingSteps => self.show_sizing_steps(rows),
            Show::StateStats => self.show_state_stats(rows),
            Show::Pools => self.show_pools(rows, false),
            Show::PoolsExtended => self.show_pools(rows, true),
            Show::Session(number) => self.show_session(number, access, rows),
            Show::Databases => self.show_databases(rows),
            Show::Users => self.show_users(rows),
            Show::Config => self.show_config(access, rows),
            Show::Peers => self.show_peers(rows),
            Show::Lists => self.show_lists(rows),
            Show::Mem => self.show_mem(rows),
            Show::Stats => self.show_stats(rows),
            Show::StatsTotals => self.show_stats_totals(rows),
            Show::StatsAverages => self.show_stats_averages(rows),
            Show::Totals => self.show_totals(rows),
            Show::State => self.show_state(rows),
            Show::Version => rows.push(&[format!("pgweir {}", crate::operator::console::VERSION).into()]),
            Show::SessionValue(at) => rows.push(&[SESSION_VALUES[at].1.into()]),
            Show::PeerPools => self.show_peer_pools(rows),
            Show::DnsHosts => self.show_dns_hosts(rows),
            Show::DnsZones => self.show_dns_zones(rows),
            // Only the driver knows file descriptors.
            Show::Fds => {}
        }
    }

    fn show_dns_hosts(&self, rows: &mut Rows<'_>) {
        for host in &self.names.hosts {
            let addresses: Vec<String> = host.addresses.iter().map(ToString::to_string).collect();
            let ttl = host.until.since(self.now).as_secs();
            rows.push(&[(&*host.name).into(), ttl.into(), addresses.join(",").into()]);
        }
    }

    fn show_dns_zones(&self, rows: &mut Rows<'_>) {
        for zone in &self.names.zones {
            rows.push(&[(&*zone.name).into(), u64::from(zone.serial).into(), zone.hosts.into()]);
        }
    }

    fn show_state(&self, rows: &mut Rows<'_>) {
        let word = |yes: bool| if yes { "yes" } else { "no" };
        let (paused, suspended) = (self.orders.paused_all(), self.orders.is_suspended());
        rows.push(&["active".into(), word(!paused && !suspended).into()]);
        rows.push(&["paused".into(), word(paused).into()]);
        rows.push(&["suspended".into(), word(suspended).into()]);
    }
}
