//! What holds between any two moves.

use crate::configuration::{LIMITED_SERVERS_MAX, POOL_SERVERS_MAX, PORT_LIMITED};
use crate::server::Purpose;
use crate::world::World;
use pgweir_wire::{Header, StartupPacket};
use std::collections::HashMap;

impl World {
    pub fn check(&self) {
        self.check_links();
        self.check_limits();
        self.check_nobody_is_stuck();
    }

    fn check_links(&self) {
        for &id in self.places.keys() {
            let Some(other) = self.pooler.linked(id) else { continue };
            assert!(
                self.is_alive(id) && self.is_alive(other),
                "{id:?} and {other:?} are linked and not both alive"
            );
            assert_eq!(self.pooler.linked(other), Some(id), "a link with one end");
        }
    }

    fn check_limits(&self) {
        let mut pools: HashMap<(u16, &Purpose), usize> = HashMap::new();
        let mut limited = 0;
        for server in self.servers.iter().filter(|s| s.alive) {
            limited += usize::from(server.port() == PORT_LIMITED);
            // The startup packet shows to which pool it belongs; auth_query has pools of its own.
            if let Some(purpose) = &server.purpose {
                *pools.entry((server.port(), purpose)).or_default() += 1;
            }
        }
        assert!(
            limited <= LIMITED_SERVERS_MAX,
            "{limited} servers in spite of max_db_connections"
        );
        for (pool, count) in pools {
            assert!(count <= POOL_SERVERS_MAX, "{count} servers in pool {pool:?}");
        }
    }

    /// A driver passes kept bytes again only when more bytes come or at a Resume. So a complete message that is kept
    /// although its connection may be read will never be answered.
    fn check_nobody_is_stuck(&self) {
        for client in self
            .clients
            .iter()
            .filter(|c| c.alive && !c.securing && c.sound && !c.kept.is_empty())
        {
            if self.pooler.may_read(client.id.into()) {
                let whole = match client.kept[0] {
                    // The length of a startup packet begins with a zero byte, a message with a letter.
                    0 => StartupPacket::packet_bytes(&client.kept).ok().flatten(),
                    _ => message_bytes(&client.kept),
                };
                let is_whole = whole.is_some_and(|bytes| bytes <= client.kept.len());
                assert!(!is_whole, "a message of {} is left lying: {:?}", client.id, client.kept);
            }
        }
        for server in self.servers.iter().filter(|s| s.alive && !s.kept.is_empty()) {
            let is_whole = message_bytes(&server.kept).is_some_and(|bytes| bytes <= server.kept.len());
            assert!(!is_whole, "a message of {} is left lying: {:?}", server.id, server.kept);
        }
    }
}

fn message_bytes(bytes: &[u8]) -> Option<usize> {
    Some(Header::read(bytes).ok()??.message_bytes as usize)
}
