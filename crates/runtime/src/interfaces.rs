//! The addresses of this machine, for `samehost` and `samenet` in HBA files.

use pgweir_config::hba::{Interface, Machine};
use std::io;
use std::net::IpAddr;

/// The addresses of all interfaces. The system does not tell them if the process has no free file descriptor.
pub(crate) fn machine() -> io::Result<Machine> {
    let found = nix::ifaddrs::getifaddrs()?;
    let interfaces = found.filter_map(|interface| {
        Some(Interface {
            address: ip(&interface.address?)?,
            mask: ip(&interface.netmask?)?,
        })
    });
    Ok(Machine {
        interfaces: interfaces.collect(),
    })
}

fn ip(address: &nix::sys::socket::SockaddrStorage) -> Option<IpAddr> {
    if let Some(v4) = address.as_sockaddr_in() {
        return Some(v4.ip().into());
    }
    address.as_sockaddr_in6().map(|v6| v6.ip().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_has_a_loopback_address() {
        let found = machine().unwrap().interfaces;
        assert!(
            found.iter().any(|i| i.address == IpAddr::from([127, 0, 0, 1])),
            "{found:?}"
        );
    }
}
