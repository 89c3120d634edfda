//! What the driver tells of a connection that TLS secures. TLS itself is the driver's: the core sees plain bytes.

use std::fmt;
use std::sync::Arc;

/// The facts of a finished handshake.
#[derive(Debug, Clone, PartialEq, Eq, pgweir_freeze::Freeze)]
pub struct TlsFacts {
    /// The version, in OpenSSL's words: `TLSv1.3`.
    pub protocol: &'static str,
    /// The cipher suite, by OpenSSL's name.
    pub cipher: &'static str,
    /// The `tls-server-end-point` (RFC 5929) of the certificate that was shown by the side that was connected to: ours
    /// for a client, the server's for a server. `None` where its signature has no hash of its own (Ed25519).
    pub end_point: Option<Arc<[u8]>>,
    /// The certificate of the other side, if it has shown one that was verified.
    pub peer: Option<Arc<PeerCertificate>>,
}

/// The names in a certificate that was verified.
#[derive(Debug, Clone, Default, PartialEq, Eq, pgweir_freeze::Freeze)]
pub struct PeerCertificate {
    /// The subject's common name. `None` where there is none, several, or one with a zero byte in it.
    pub common_name: Option<String>,
}

/// As SHOW CLIENTS and the log print it.
impl fmt::Display for TlsFacts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.protocol, self.cipher)
    }
}
