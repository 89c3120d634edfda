//! What the driver knows of host names, for the console.

use crate::base::time::Time;
use std::net::IpAddr;

/// The names that have been looked up.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DnsFacts {
    /// The names, sorted.
    pub hosts: Vec<DnsHost>,
    /// The zones whose serial number is known.
    pub zones: Vec<DnsZone>,
    /// Names that are being looked up.
    pub asked: usize,
}

/// A name and its addresses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DnsHost {
    /// As in the configuration.
    pub name: String,
    /// When it is looked up again.
    pub until: Time,
    /// None if there is no such name.
    pub addresses: Vec<IpAddr>,
}

/// A zone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DnsZone {
    /// Its name.
    pub name: String,
    /// Its serial number.
    pub serial: u32,
    /// Names in it.
    pub hosts: usize,
}
