//! TLS for clients and servers, by rustls: records, certificates, settings.
//!
//! | file | contains |
//! |---|---|
//! | `session` | TLS on one connection: the handshake, and decrypting and encrypting its bytes |
//! | `side` | rustls's part of a session, for both roles |
//! | `guard` | a panic in the library ends its connection alone |
//! | `steps` | what rustls asks for, step by step |
//! | `contexts` | the settings `client_tls_*` and `server_tls_*`, with the files that they name |
//! | `names` | OpenSSL's names for rustls's suites, groups and versions |
//! | `certificate` | reading certificates: names, the hash for channel binding |
//! | `chain` | which certificates may be between the other side's own and an authority |
//! | `trust` | whether a certificate comes from a file of authorities |
//! | `server_verifier`, `client_verifier` | how the other side's certificate is verified |

mod certificate;
mod chain;
mod client_verifier;
mod contexts;
mod guard;
mod names;
mod server_verifier;
mod session;
mod side;
mod steps;
mod trust;

pub(crate) use contexts::{TlsContexts, for_directory};
pub use contexts::{TlsFailure, check_tls_files};
pub(crate) use guard::report_panics;
pub(crate) use session::{End, LEFT, TlsSession};
