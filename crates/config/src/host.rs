//! Addresses: where to listen and where servers are.

use std::net::IpAddr;

use crate::mismatch::Mismatch;
use crate::value::{Kind, SettingValue, split_list};

/// One address of a server.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Host {
    /// A directory; the socket is `DIRECTORY/.s.PGSQL.PORT`.
    UnixDirectory(String),
    /// A prefix in Linux's abstract namespace, without the `@`; the socket is `PREFIX/.s.PGSQL.PORT` there.
    Abstract(String),
    /// An address, IPv6 without brackets.
    Address(IpAddr),
    /// A name for DNS or /etc/hosts.
    Name(String),
}

impl Host {
    /// Reads one host: `/dir`, `@abstract`, an address, or else a name.
    pub fn parse(text: &str) -> Host {
        if text.starts_with('/') {
            Host::UnixDirectory(text.to_string())
        } else if let Some(name) = text.strip_prefix('@') {
            Host::Abstract(name.to_string())
        } else if let Ok(address) = text.parse() {
            Host::Address(address)
        } else {
            Host::Name(text.to_string())
        }
    }

    /// Whether it is reached over a Unix-domain socket.
    pub fn is_unix(&self) -> bool {
        matches!(self, Host::UnixDirectory(_) | Host::Abstract(_))
    }
}

/// The host as the configuration file spells it.
impl std::fmt::Display for Host {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Host::UnixDirectory(path) => f.write_str(path),
            Host::Abstract(name) => write!(f, "@{name}"),
            Host::Address(address) => write!(f, "{address}"),
            Host::Name(name) => f.write_str(name),
        }
    }
}

/// The hosts of a comma-separated list.
pub(crate) fn parse_hosts(text: &str) -> Vec<Host> {
    split_list(text).iter().map(|host| Host::parse(host)).collect()
}

/// One address to listen on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListenAddress {
    /// `*`: every address of the machine, IPv4 and IPv6.
    Any,
    /// An address.
    Address(IpAddr),
    /// A name to be resolved at start.
    Name(String),
}

impl ListenAddress {
    /// Whether other machines can reach it. Any name other than `localhost` counts as reachable.
    pub fn is_reachable_from_outside(&self) -> bool {
        match self {
            ListenAddress::Any => true,
            ListenAddress::Address(address) => !address.is_loopback(),
            ListenAddress::Name(name) => !name.eq_ignore_ascii_case("localhost"),
        }
    }
}

/// The value of `listen_addr`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListenAddresses {
    text: String,
    addresses: Vec<ListenAddress>,
}

impl ListenAddresses {
    /// The addresses to listen on; empty for Unix-domain sockets only.
    pub fn addresses(&self) -> &[ListenAddress] {
        &self.addresses
    }
}

impl SettingValue for ListenAddresses {
    const KIND: Kind = Kind::List;

    fn parse(text: &str) -> Result<ListenAddresses, Mismatch> {
        let address = |item: &String| match (item.as_str(), item.parse()) {
            ("*", _) => Ok(ListenAddress::Any),
            (_, Ok(address)) => Ok(ListenAddress::Address(address)),
            (name, _) if name.contains(['/', '[', ']', ' ']) => Err(Mismatch {
                expected: "addresses or host names separated by commas".into(),
                hint: Some("write IPv6 addresses without brackets, and leave out ports and net masks".into()),
            }),
            (name, _) => Ok(ListenAddress::Name(name.to_string())),
        };
        let addresses = split_list(text).iter().map(address).collect::<Result<_, _>>()?;
        Ok(ListenAddresses {
            text: text.to_string(),
            addresses,
        })
    }

    fn show(&self) -> Option<String> {
        Some(self.text.clone())
    }
}

/// The value of `unix_socket_dir`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UnixSocketDir {
    /// Empty: no Unix-domain sockets, neither for listening nor for servers without a host.
    Off,
    /// A directory or an abstract name.
    At(Host),
}

impl SettingValue for UnixSocketDir {
    const KIND: Kind = Kind::Text;

    fn parse(text: &str) -> Result<UnixSocketDir, Mismatch> {
        Ok(match text {
            "" => UnixSocketDir::Off,
            _ if text.starts_with('@') => UnixSocketDir::At(Host::parse(text)),
            // Unlike in host=, a relative directory is allowed here.
            _ => UnixSocketDir::At(Host::UnixDirectory(text.to_string())),
        })
    }

    fn show(&self) -> Option<String> {
        Some(match self {
            UnixSocketDir::Off => String::new(),
            UnixSocketDir::At(host) => host.to_string(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_told_apart_by_their_first_character() {
        assert_eq!(Host::parse("/run/pg"), Host::UnixDirectory("/run/pg".into()));
        assert_eq!(Host::parse("@pg"), Host::Abstract("pg".into()));
        assert_eq!(Host::parse("::1"), Host::Address("::1".parse().unwrap()));
        assert_eq!(Host::parse("10.0.0.1"), Host::Address("10.0.0.1".parse().unwrap()));
        assert_eq!(Host::parse("db.example.com"), Host::Name("db.example.com".into()));
    }

    #[test]
    fn host_lists_print_as_written() {
        let hosts = parse_hosts("127.0.0.1,::1, db,/tmp,@x");
        let texts: Vec<String> = hosts.iter().map(Host::to_string).collect();
        assert_eq!(texts, ["127.0.0.1", "::1", "db", "/tmp", "@x"]);
    }

    #[test]
    fn listen_addresses_know_who_can_reach_them() {
        let reachable = |text| {
            ListenAddresses::parse(text)
                .unwrap()
                .addresses()
                .iter()
                .any(ListenAddress::is_reachable_from_outside)
        };
        assert!(!reachable("") && !reachable("127.0.0.1, ::1,localhost"));
        assert!(reachable("*") && reachable("127.0.0.1,0.0.0.0") && reachable("db1"));
        assert!(
            ListenAddresses::parse("[::1]")
                .unwrap_err()
                .hint
                .unwrap()
                .contains("without brackets")
        );
    }

    #[test]
    fn the_socket_directory_can_be_switched_off() {
        assert_eq!(UnixSocketDir::parse(""), Ok(UnixSocketDir::Off));
        assert_eq!(
            UnixSocketDir::parse("run"),
            Ok(UnixSocketDir::At(Host::UnixDirectory("run".into())))
        );
        assert_eq!(UnixSocketDir::parse("@x").unwrap().show().as_deref(), Some("@x"));
    }
}
