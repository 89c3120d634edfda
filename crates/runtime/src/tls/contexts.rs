//! The settings `client_tls_*` and `server_tls_*`, with the files that they name.

use super::certificate::{end_point, parse};
use super::client_verifier::ClientVerifier;
use super::names;
use super::server_verifier::ServerVerifier;
use super::trust::Trust;
use pgweir_config::{
    Config, EcdhCurves, GlobalSettings, Problem, SslMode, SslNegotiation, Tls13Ciphers, TlsCiphers, TlsProtocols,
};
use rustls::client::Resumption;
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::NoServerSessionStorage;
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{ClientConfig, ServerConfig, SupportedProtocolVersion};
use std::io;
use std::sync::Arc;
use thiserror::Error;

/// PostgreSQL's protocol in ALPN.
const ALPN: &[u8] = b"postgresql";

/// The settings for new TLS connections. Existing connections keep theirs.
#[derive(Debug, Clone, Default)]
pub(crate) struct TlsContexts {
    /// For clients; `None`: `client_tls_sslmode = disable`.
    pub(super) accepts: Option<Accepts>,
    /// For servers; `None`: `server_tls_sslmode = disable`.
    pub(super) connects: Option<Connects>,
    /// For servers: TLS begins without an SSLRequest.
    pub(crate) connects_directly: bool,
}

/// The settings for clients' connections.
#[derive(Debug, Clone)]
pub(super) struct Accepts {
    pub(super) config: Arc<ServerConfig>,
    /// See [`pgweir_core::TlsFacts::end_point`].
    pub(super) end_point: Option<Arc<[u8]>>,
    /// Whether the certificates of clients are verified.
    pub(super) verifies: bool,
}

/// The settings for connections to servers.
#[derive(Debug, Clone)]
pub(super) struct Connects {
    pub(super) config: Arc<ClientConfig>,
    /// Whether a certificate must be for the host of its connection.
    pub(super) checks_name: bool,
}

/// Why the settings of TLS cannot be used.
#[derive(Debug, Error)]
pub enum TlsFailure {
    /// A file cannot be read.
    #[error("failed to load {what} file \"{file}\": {source}")]
    Read {
        /// The kind of file.
        what: &'static str,
        /// Its name.
        file: String,
        /// The system's error.
        source: io::Error,
    },
    /// A file has no part of the kind that is needed, or a malformed one.
    #[error("failed to load {what} file \"{file}\": {why}")]
    Content {
        /// The kind of file.
        what: &'static str,
        /// Its name.
        file: String,
        /// What is wrong with it.
        why: String,
    },
    /// Key and certificate do not belong together.
    #[error("private key file \"{key}\" does not belong to certificate file \"{certificate}\"")]
    Mismatch {
        /// The name of the file with the key.
        key: String,
        /// The name of the file with the certificate.
        certificate: String,
    },
    /// rustls cannot use the settings.
    #[error("{0}")]
    Settings(#[from] rustls::Error),
}

impl TlsContexts {
    /// Reads the files that the settings name.
    pub(crate) fn load(config: &Config) -> Result<TlsContexts, TlsFailure> {
        let global = &config.global;
        Ok(TlsContexts {
            accepts: match global.client_tls_sslmode {
                SslMode::Disable => None,
                mode => Some(accepts(global, mode)?),
            },
            connects: match global.server_tls_sslmode {
                SslMode::Disable => None,
                mode => Some(connects(global, mode)?),
            },
            connects_directly: global.server_tls_sslnegotiation == SslNegotiation::Direct,
        })
    }

    /// Like [`TlsContexts::load`], but a failure becomes an entry for the list of problems.
    pub(crate) fn load_or_problem(config: &Config) -> Result<TlsContexts, Problem> {
        TlsContexts::load(config).map_err(|failure| {
            Problem::error(&config.place(), format!("TLS setup failed: {failure}")).hint(
                "see the settings client_tls_* and server_tls_*; the user of pgweir must be able to read the files",
            )
        })
    }
}

/// Checks the files that the TLS settings name.
pub fn check_tls_files(config: &Config) -> Option<Problem> {
    TlsContexts::load_or_problem(config).err()
}

fn accepts(global: &GlobalSettings, mode: SslMode) -> Result<Accepts, TlsFailure> {
    let provider = provider(
        &global.client_tls_ciphers,
        &global.client_tls13_ciphers,
        Some(&global.client_tls_ecdhcurve),
    );
    let key = key_pair(&global.client_tls_cert_file, &global.client_tls_key_file, &provider)?;
    let end_point = key.cert.first().and_then(|certificate| end_point(certificate));
    let is_mandatory = mode >= SslMode::VerifyCa;
    // As in PostgreSQL, clients are asked for a certificate whenever the authorities are known: HBA lines may want it.
    let verifies = is_mandatory || !global.client_tls_ca_file.is_empty();
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(&versions(&global.client_tls_protocols))?;
    let builder = if verifies {
        let verifier = client_verifier(&global.client_tls_ca_file, is_mandatory, &provider)?;
        builder.with_client_cert_verifier(Arc::new(verifier))
    } else {
        builder.with_no_client_auth()
    };
    let mut config = builder.with_cert_resolver(Arc::new(SingleCertAndKey::from(key)));
    config.alpn_protocols = vec![ALPN.to_vec()];
    config.ignore_client_order = true;
    if verifies {
        // A resumed session would stand for a certificate that has expired, or whose authority is not trusted any more.
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
    } else {
        config.send_tls13_tickets = 1;
        config.ticketer = ring::Ticketer::new()?;
    }
    Ok(Accepts {
        config: Arc::new(config),
        end_point,
        verifies,
    })
}

fn connects(global: &GlobalSettings, mode: SslMode) -> Result<Connects, TlsFailure> {
    let provider = provider(&global.server_tls_ciphers, &global.server_tls13_ciphers, None);
    let checks_name = mode == SslMode::VerifyFull;
    let verifier = ServerVerifier {
        trust: match mode {
            SslMode::VerifyCa | SslMode::VerifyFull => Some(authorities_of_servers(&global.server_tls_ca_file)?),
            _ => None,
        },
        checks_name,
        algorithms: provider.signature_verification_algorithms,
    };
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(&versions(&global.server_tls_protocols))?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier));
    let mut config = if global.server_tls_cert_file.is_empty() {
        builder.with_no_client_auth()
    } else {
        let key = key_pair(&global.server_tls_cert_file, &global.server_tls_key_file, &provider)?;
        builder.with_client_cert_resolver(Arc::new(SingleCertAndKey::from(key)))
    };
    config.alpn_protocols = vec![ALPN.to_vec()];
    if mode >= SslMode::VerifyCa {
        // A resumed session would stand for a certificate that has expired.
        config.resumption = Resumption::disabled();
    }
    Ok(Connects {
        config: Arc::new(config),
        checks_name,
    })
}

/// The cipher suites and groups that the settings allow.
fn provider(old: &TlsCiphers, new: &Tls13Ciphers, curves: Option<&EcdhCurves>) -> Arc<CryptoProvider> {
    let mut provider = ring::default_provider();
    let suites = new.suites().iter().chain(old.suites());
    provider.cipher_suites = suites.filter_map(|name| names::suite(name)).collect();
    let groups: Vec<_> = curves
        .into_iter()
        .flat_map(|curves| curves.curves())
        .filter_map(|name| names::group(name))
        .collect();
    if !groups.is_empty() {
        provider.kx_groups = groups;
    }
    Arc::new(provider)
}

fn versions(protocols: &TlsProtocols) -> Vec<&'static SupportedProtocolVersion> {
    protocols.versions().iter().filter_map(|v| names::version(*v)).collect()
}

fn client_verifier(
    file: &str,
    is_mandatory: bool,
    provider: &Arc<CryptoProvider>,
) -> Result<ClientVerifier, TlsFailure> {
    let trust = authorities(file)?;
    ClientVerifier::new(trust, is_mandatory, provider).map_err(|e| content("CA", file, &e))
}

/// For a connection to a directory: its certificate must come from one of these, and be for its host.
pub(crate) fn for_directory(trusted: Vec<CertificateDer<'static>>) -> Result<ClientConfig, rustls::Error> {
    let provider = Arc::new(ring::default_provider());
    let verifier = ServerVerifier {
        trust: Some(Trust::of_readable(trusted)?),
        checks_name: true,
        algorithms: provider.signature_verification_algorithms,
    };
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    let config = config.dangerous().with_custom_certificate_verifier(Arc::new(verifier));
    Ok(config.with_no_client_auth())
}

fn authorities(file: &str) -> Result<Trust, TlsFailure> {
    Trust::new(certificates("CA", file)?).map_err(|e| content("CA", file, &e))
}

/// The authorities of the system, where no file is named.
fn authorities_of_servers(file: &str) -> Result<Trust, TlsFailure> {
    if !file.is_empty() {
        return authorities(file);
    }
    let of_system = rustls_native_certs::load_native_certs();
    let why: &dyn std::fmt::Display = match of_system.errors.first() {
        Some(error) if of_system.certs.is_empty() => error,
        _ => &"found none",
    };
    if of_system.certs.is_empty() {
        return Err(content("CA", "of the system", why));
    }
    Trust::of_readable(of_system.certs).map_err(|e| content("CA", "of the system", &e))
}

/// A certificate, with those of intermediate authorities behind it, and its key.
fn key_pair(certificate: &str, key: &str, provider: &CryptoProvider) -> Result<CertifiedKey, TlsFailure> {
    let chain = certificates("certificate", certificate)?;
    let bytes = read("private key", key)?;
    let private = PrivateKeyDer::from_pem_slice(&bytes).map_err(|e| content("private key", key, &e))?;
    let signing = provider
        .key_provider
        .load_private_key(private)
        .map_err(|e| content("private key", key, &e))?;
    let leaf = parse(&chain[0]).ok_or_else(|| content("certificate", certificate, &"malformed certificate"))?;
    let is_of_leaf = signing
        .public_key()
        .is_none_or(|public| public.as_ref() == leaf.public_key().raw);
    if !is_of_leaf {
        return Err(TlsFailure::Mismatch {
            key: key.to_owned(),
            certificate: certificate.to_owned(),
        });
    }
    Ok(CertifiedKey::new(chain, signing))
}

/// The certificates in a file, at least one.
fn certificates(what: &'static str, file: &str) -> Result<Vec<CertificateDer<'static>>, TlsFailure> {
    let bytes = read(what, file)?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&bytes).collect();
    match found {
        Ok(found) if found.is_empty() => Err(content(what, file, &"expected a certificate in PEM format, got none")),
        Ok(found) => Ok(found),
        Err(e) => Err(content(what, file, &e)),
    }
}

fn read(what: &'static str, file: &str) -> Result<Vec<u8>, TlsFailure> {
    std::fs::read(file).map_err(|source| TlsFailure::Read {
        what,
        file: file.to_owned(),
        source,
    })
}

fn content(what: &'static str, file: &str, why: &dyn std::fmt::Display) -> TlsFailure {
    TlsFailure::Content {
        what,
        file: file.to_owned(),
        why: why.to_string(),
    }
}
