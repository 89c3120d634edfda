//! A line of section `[peers]`.

use crate::host::Host;
use crate::line_key::{Notes, line_keys, port, size};
use crate::mismatch::Mismatch;
use crate::value::Kind;

/// The largest peer id; larger ones do not fit the cancel keys that clients get.
pub const PEER_ID_MAX: u32 = 16_383;

/// The largest peer id that PgBouncer's parser accepts.
pub(crate) const PEER_ID_ACCEPTED_MAX: u32 = 65_535;

/// The port of a peer if its line names none.
pub const PEER_PORT_DEFAULT: u16 = 6432;

/// Another pooler process behind the same load balancer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerSettings {
    /// Its `peer_id`.
    pub id: u32,
    /// Its host.
    pub host: Host,
    /// Its port.
    pub port: u16,
    /// Cancel requests that may be under way to it at once; `None` is `default_pool_size`.
    pub pool_size: Option<u32>,
}

/// A peer's line while it is being read, when its host is not known yet.
pub(crate) struct PeerLine {
    pub host: Option<Host>,
    pub port: u16,
    pub pool_size: Option<u32>,
}

impl Default for PeerLine {
    fn default() -> PeerLine {
        PeerLine {
            host: None,
            port: PEER_PORT_DEFAULT,
            pool_size: None,
        }
    }
}

line_keys! { PeerLine;
    host -> host: host, {
        kind: Kind::Text, unit: "", without: "none: it must be given",
        help: "Where the peer is: a host name, an address, a directory that starts with `/`, or `@` and an abstract socket name.",
    }
    port -> port: port, {
        kind: Kind::Integer, unit: "", without: "6432",
        help: "Its port.",
    }
    pool_size -> pool_size: size, {
        kind: Kind::Integer, unit: "connections", without: "`default_pool_size`",
        help: "Cancel requests that may be under way to the peer at once.",
    }
}

fn host(value: &str, _: &mut Notes) -> Result<Option<Host>, Mismatch> {
    if value.contains(',') {
        Err(Mismatch::expected("a single host"))
    } else {
        Ok(Some(Host::parse(value)))
    }
}
