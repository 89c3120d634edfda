//! TLS on both legs, by rustls: records of a connection, certificates, and what the settings make of them.
//!
//! | file | has |
//! |---|---|
//! | `session` | one connection's TLS: bytes of the socket to plain bytes and back, the handshake included |
//! | `steps` | what rustls wants done, step by step |
//! | `contexts` | the settings `client_tls_*` and `server_tls_*`, with the files that they name |
//! | `names` | OpenSSL's names of what rustls calls otherwise |
//! | `certificate` | what is read from a certificate: names, the hash for channel binding |
//! | `trust` | whether a certificate comes from a file of authorities |
//! | `server_verifier`, `client_verifier` | how much of the other side's certificate is looked at |

mod certificate;
mod client_verifier;
mod contexts;
mod names;
mod server_verifier;
mod session;
mod steps;
mod trust;

pub(crate) use contexts::TlsContexts;
pub use contexts::{TlsFailure, check_tls_files};
pub(crate) use session::{End, TlsSession};
