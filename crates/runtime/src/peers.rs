//! Cancel requests that are passed on to peers.

use crate::cancel::{Addressee, Beginning, Cancel, Speech};
use crate::dns::LookUp;
use crate::event_loop::EventLoop;
use crate::socket::SocketAddress;
use pgweir_config::SslMode;
use pgweir_core::ids::Slot;
use pgweir_core::{ClientId, Endpoint};
use pgweir_wire::CancelKey;
use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};

/// A request for a peer whose name is being looked up.
#[derive(Debug)]
pub(crate) struct Unresolved {
    cancel: Slot,
    host: String,
    port: u16,
}

/// Whether to use TLS with a peer: as with servers. Because a request is sent only once, `allow` means no TLS.
fn speech(endpoint: &Endpoint, sslmode: SslMode) -> Speech {
    match endpoint {
        Endpoint::Tcp { host, .. } if sslmode >= SslMode::Prefer => Speech::Tls {
            host: host.clone(),
            settings: None,
            beginning: match sslmode {
                SslMode::Prefer => Beginning::AsksOrPlain,
                _ => Beginning::Asks,
            },
        },
        _ => Speech::Plain,
    }
}

fn socket_addresses(addresses: &[IpAddr], port: u16) -> VecDeque<SocketAddress> {
    let socket_address = |address: &IpAddr| SocketAddress::Tcp(SocketAddr::new(*address, port));
    addresses.iter().map(socket_address).collect()
}

impl EventLoop {
    /// Sends `key` to a peer. The core is told once that the request is over, whether it succeeded or not.
    pub(crate) fn pass_on(&mut self, peer: u32, by: ClientId, endpoint: &Endpoint, sslmode: SslMode, key: &CancelKey) {
        let addressee = Addressee::Peer { peer, by };
        let cancel = self.add_cancel(Cancel::new(addressee, key, speech(endpoint, sslmode)));
        match endpoint {
            Endpoint::Unix { path, .. } => {
                self.begin_cancel(cancel, SocketAddress::unix(path).into_iter().collect());
            }
            Endpoint::Tcp { host, port } => match host.parse::<IpAddr>() {
                Ok(address) => self.begin_cancel(cancel, socket_addresses(&[address], *port)),
                Err(_) => self.begin_cancel_at(Unresolved {
                    cancel,
                    host: host.clone(),
                    port: *port,
                }),
            },
        }
    }

    fn begin_cancel_at(&mut self, unresolved: Unresolved) {
        match self.resolver.look_up(&unresolved.host, self.now) {
            LookUp::Known(addresses) => {
                self.begin_cancel(unresolved.cancel, socket_addresses(&addresses, unresolved.port));
            }
            LookUp::Failed => self.begin_cancel(unresolved.cancel, VecDeque::new()),
            LookUp::Asked => {
                // A request that has timed out in the meantime is dropped.
                let cancels = &mut self.cancels;
                self.unresolved.retain(|other| cancels.get(other.cancel).is_some());
                self.unresolved.push(unresolved);
            }
        }
    }

    /// A name has been looked up.
    pub(crate) fn begin_cancels_at(&mut self, host: &str) {
        let (ready, others) = std::mem::take(&mut self.unresolved)
            .into_iter()
            .partition(|unresolved| unresolved.host == host);
        self.unresolved = others;
        for unresolved in ready {
            self.begin_cancel_at(unresolved);
        }
    }
}
