//! Host names of servers whose addresses have changed.

use crate::base::address::Address;
use crate::base::close_reason::CloseReason;
use crate::base::dns::DnsFacts;
use crate::base::ids::ServerId;
use crate::base::request::Endpoint;
use crate::base::time::Time;
use crate::pooler::Pooler;
use crate::server::Server;
use std::net::IpAddr;

impl Pooler {
    /// A host name no longer has these addresses: servers there are replaced when they are free, and the limits on
    /// servers at work begin again. `names` is for the console.
    pub(crate) fn names_known(&mut self, now: Time, names: DnsFacts, name: &str, gone: &[IpAddr]) {
        self.names = names;
        let is_there = |server: &Server| {
            let of_name = matches!(&server.endpoint, Endpoint::Tcp { host, .. } if host == name);
            let address = server.connected.as_ref().map(|connected| connected.remote);
            of_name && matches!(address, Some(Address::Tcp(address)) if gone.contains(&address.ip()))
        };
        let there: Vec<_> = self.servers.iter().filter(|(_, server)| is_there(server)).collect();
        let (slots, pools): (Vec<_>, Vec<_>) = there.iter().map(|(slot, server)| (*slot, server.pool)).unzip();
        // Before a server is closed, because another one may be opened for it at once.
        self.limits_begin_anew(now, &pools);
        for slot in slots {
            let Some(server) = self.servers.get_mut(slot) else {
                continue;
            };
            if server.is_idle() {
                self.close_server(now, ServerId(slot), CloseReason::AddressGone.text());
            } else {
                server.close_reason.get_or_insert(CloseReason::AddressGone);
            }
        }
    }
}
