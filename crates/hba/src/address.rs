//! The address column.

use crate::problem::Fault;
use crate::token::Word;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// An address of this machine, with the mask of its network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interface {
    /// The address.
    pub address: IpAddr,
    /// The mask of its network.
    pub mask: IpAddr,
}

/// The addresses of this machine, for `samehost` and `samenet`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Machine {
    /// All of them.
    pub interfaces: Vec<Interface>,
}

impl Machine {
    fn has(&self, peer: IpAddr) -> bool {
        self.interfaces.iter().any(|i| i.address == peer)
    }

    fn is_near(&self, peer: IpAddr) -> bool {
        self.interfaces.iter().any(|i| is_in(peer, i.address, i.mask))
    }
}

/// The address column of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Address {
    All,
    SameHost,
    SameNet,
    Network { address: IpAddr, mask: IpAddr },
}

impl Address {
    /// Whether it depends on the addresses of this machine.
    pub(crate) fn asks_for_machine(&self) -> bool {
        matches!(self, Address::SameHost | Address::SameNet)
    }

    pub(crate) fn matches(&self, peer: IpAddr, machine: &Machine) -> bool {
        // On a socket for both IPv4 and IPv6, a client's IPv4 address is mapped; it counts as IPv4.
        let peer = peer.to_canonical();
        match self {
            Address::All => true,
            Address::SameHost => machine.has(peer),
            Address::SameNet => machine.is_near(peer),
            Address::Network { address, mask } => is_in(peer, *address, *mask),
        }
    }

    /// Reads the column. `mask` is the next column, which may be its mask; the second result says whether it was used.
    pub(crate) fn parse(word: &Word, mask: Option<&Word>) -> Result<(Address, bool), Fault> {
        for (keyword, address) in [
            ("all", Address::All),
            ("samehost", Address::SameHost),
            ("samenet", Address::SameNet),
        ] {
            if word.is(keyword) {
                return Ok((address, false));
            }
        }
        if let Some((address, bits)) = word.text.split_once('/') {
            let address = parse_ip(address)?;
            let mask = mask_of_bits(address, bits)?;
            return Ok((Address::Network { address, mask }, false));
        }
        let address = parse_ip(&word.text)?;
        let wanted = || Fault::new(format!("expected a mask behind address \"{}\"", word.text));
        let mask = mask.ok_or_else(wanted)?;
        let Ok(mask) = mask.text.parse::<IpAddr>() else {
            return Err(Fault::new(format!("invalid IP mask \"{}\"", mask.text)).hint(
                "write the address with a number of bits, as in 10.0.0.0/8, or with a mask, as in 10.0.0.0 255.0.0.0",
            ));
        };
        if mask.is_ipv4() != address.is_ipv4() {
            return Err(Fault::new("IP address and mask do not match"));
        }
        Ok((Address::Network { address, mask }, true))
    }

    /// What to say of an address with bits outside its mask, which do not count, as in PostgreSQL. In PgBouncer such a line
    /// matches nobody.
    pub(crate) fn bits_outside_mask(&self) -> Option<Fault> {
        let Address::Network { address, mask } = self else {
            return None;
        };
        let network = masked(*address, *mask);
        let text = format!(
            "address does not match mask: {address} / {mask} stands for all addresses of {network}, which PgBouncer ignores"
        );
        (network != *address).then(|| Fault::new(text).hint("write the address without bits outside its mask"))
    }
}

fn parse_ip(text: &str) -> Result<IpAddr, Fault> {
    text.parse().map_err(|_| {
        let is_keyword = ["all", "samehost", "samenet"]
            .iter()
            .any(|word| word.eq_ignore_ascii_case(text));
        let is_number = text.starts_with(|c: char| c.is_ascii_digit());
        let hint = match (is_keyword, is_number) {
            (true, _) => "write all, samehost and samenet in small letters and without quotes",
            (_, true) => "write all four numbers of an IPv4 address, without zeros in front, as in 127.0.0.1",
            _ => "host names are not supported: they would need a look-up for each login",
        };
        let text = format!("expected an IP address, all, samehost or samenet, got \"{text}\"");
        Fault::new(text).hint(hint)
    })
}

fn mask_of_bits(address: IpAddr, bits: &str) -> Result<IpAddr, Fault> {
    let max = if address.is_ipv4() { 32 } else { 128 };
    let is_number = !bits.is_empty() && bits.bytes().all(|b| b.is_ascii_digit());
    let bits = bits.parse::<u32>().ok().filter(|bits| is_number && *bits <= max);
    let Some(bits) = bits else {
        return Err(Fault::new(format!(
            "invalid CIDR mask in address, expected a number from 0 to {max}"
        )));
    };
    Ok(match address {
        IpAddr::V4(_) => Ipv4Addr::from(u32::MAX.checked_shl(32 - bits).unwrap_or(0)).into(),
        IpAddr::V6(_) => Ipv6Addr::from(u128::MAX.checked_shl(128 - bits).unwrap_or(0)).into(),
    })
}

fn masked(address: IpAddr, mask: IpAddr) -> IpAddr {
    match (address, mask) {
        (IpAddr::V4(a), IpAddr::V4(m)) => (a & m).into(),
        (IpAddr::V6(a), IpAddr::V6(m)) => (a & m).into(),
        (address, _) => address,
    }
}

fn is_in(peer: IpAddr, address: IpAddr, mask: IpAddr) -> bool {
    let same_kind = peer.is_ipv4() == address.is_ipv4() && peer.is_ipv4() == mask.is_ipv4();
    same_kind && masked(peer, mask) == masked(address, mask)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn word(text: &str) -> Word {
        Word {
            text: text.into(),
            quoted: false,
        }
    }

    fn matches(column: &str, mask: Option<&str>, peer: &str) -> bool {
        let (address, _) = Address::parse(&word(column), mask.map(word).as_ref()).unwrap();
        let interface = Interface {
            address: "192.0.2.7".parse().unwrap(),
            mask: "255.255.255.0".parse().unwrap(),
        };
        let machine = Machine {
            interfaces: vec![interface],
        };
        address.matches(peer.parse().unwrap(), &machine)
    }

    #[test]
    fn networks_match_their_own_kind_only() {
        assert!(matches("10.0.0.0/8", None, "10.255.1.2"));
        assert!(!matches("10.0.0.0/8", None, "11.0.0.0"));
        assert!(matches("10.0.0.0", Some("255.0.0.0"), "10.1.2.3"));
        assert!(matches("0.0.0.0/0", None, "203.0.113.1"));
        assert!(!matches("0.0.0.0/0", None, "::1"));
        assert!(matches("::/0", None, "2001:db8::1"));
        assert!(!matches("::/0", None, "127.0.0.1"));
        assert!(matches("2001:db8::/32", None, "2001:db8:1::1"));
        assert!(matches("all", None, "2001:db8:1::1") && matches("all", None, "10.0.0.1"));
        assert!(matches("127.0.0.1/32", None, "127.0.0.1") && !matches("127.0.0.1/32", None, "127.0.0.2"));
    }

    /// Guards against skipping a rule for an IPv4 network because the listening socket is for both IPv4 and IPv6.
    #[test]
    fn a_mapped_address_is_an_ipv4_address() {
        assert!(matches("10.0.0.0/8", None, "::ffff:10.1.2.3"));
        assert!(!matches("::/0", None, "::ffff:10.1.2.3"));
    }

    #[test]
    fn samehost_and_samenet_ask_the_interfaces() {
        assert!(matches("samehost", None, "192.0.2.7") && !matches("samehost", None, "192.0.2.8"));
        assert!(matches("samenet", None, "192.0.2.8") && !matches("samenet", None, "192.0.3.8"));
    }

    #[test]
    fn wrong_addresses_are_refused() {
        for column in [
            "10.0.0.0/33",
            "10.0.0.0/-1",
            "10.0.0.0/+8",
            "::/129",
            "example.com",
            "10.0.0.0/",
            "10.0.0/8",
        ] {
            assert!(Address::parse(&word(column), None).is_err(), "{column}");
        }
        for mask in ["255.255.0", "::", "md5"] {
            assert!(Address::parse(&word("10.0.0.0"), Some(&word(mask))).is_err(), "{mask}");
        }
    }
}
