//! Host names of servers whose addresses have changed.

use crate::base::close_reason::CloseReason;
use crate::base::dns::DnsFacts;
use crate::base::ids::ServerId;
use crate::base::request::{Address, Endpoint};
use crate::base::time::Time;
use crate::pooler::Pooler;
use crate::server::Server;
use std::net::IpAddr;

impl Pooler {
    /// A host name no longer has these addresses: servers there are replaced when they are free. `names` is for the
    /// console.
    pub(crate) fn names_known(&mut self, now: Time, names: DnsFacts, name: &str, gone: &[IpAddr]) {
        self.names = names;
        let is_there = |server: &Server| {
            let of_name = matches!(&server.endpoint, Endpoint::Tcp { host, .. } if host == name);
            let address = server.connected.as_ref().map(|connected| connected.remote);
            of_name && matches!(address, Some(Address::Tcp(address)) if gone.contains(&address.ip()))
        };
        for slot in self.servers.slots() {
            let Some(server) = self.servers.get_mut(slot).filter(|server| is_there(server)) else {
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
