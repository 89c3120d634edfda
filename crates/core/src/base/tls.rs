//! The driver's report on a connection with TLS. The driver handles TLS; the core sees plain bytes.

use std::fmt;
use std::sync::Arc;

/// The facts of a finished handshake.
#[derive(Debug, Clone, PartialEq, Eq, pgweir_freeze::Freeze)]
pub struct TlsFacts {
    /// The version, in OpenSSL's words: `TLSv1.3`.
    pub protocol: &'static str,
    /// The cipher suite, by OpenSSL's name.
    pub cipher: &'static str,
    /// The `tls-server-end-point` (RFC 5929) of the certificate that the server side of this connection has shown: the
    /// pooler's for a client connection, PostgreSQL's for a server connection. `None` if its signature has no hash
    /// function (Ed25519).
    pub end_point: Option<Arc<[u8]>>,
    /// The certificate of the other side, if it has shown one that was verified.
    pub peer: Option<Arc<PeerCertificate>>,
}

/// The names in a certificate that was verified.
#[derive(Debug, Clone, Default, PartialEq, Eq, pgweir_freeze::Freeze)]
pub struct PeerCertificate {
    /// The subject's common name. `None` if there is none or several, or if it contains a zero byte.
    pub common_name: Option<String>,
}

/// As printed by SHOW CLIENTS and the log.
impl fmt::Display for TlsFacts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.protocol, self.cipher)
    }
}
