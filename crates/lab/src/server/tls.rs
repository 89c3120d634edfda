//! TLS to the server as libpq's sslmode, sslrootcert, sslcert and sslkey say (PostgreSQL manual, "SSL Support").

use super::conninfo::Parameters;
use crate::{Error, Result};
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// How much of the server's certificate is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Check {
    /// Nothing.
    No,
    /// That a known authority has signed it.
    Authority,
    /// That, and the name in it.
    AuthorityAndName,
}

/// The TLS configuration for a connection with these resolved parameters.
pub(super) fn config(parameters: &Parameters) -> Result<ClientConfig> {
    let provider = Arc::new(ring::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|e| Error::new(format!("TLS: {e}")))?;
    let roots_file = file_of(parameters, "sslrootcert", "root.crt");
    let check = match parameters.get("sslmode") {
        Some("verify-full") => Check::AuthorityAndName,
        Some("verify-ca") => Check::Authority,
        // With a root certificate at hand, require is verify-ca.
        Some("require") if roots_file.is_some() => Check::Authority,
        _ => Check::No,
    };
    let inner = match check {
        Check::No => None,
        _ => Some(
            WebPkiServerVerifier::builder_with_provider(Arc::new(roots(roots_file.as_deref())?), Arc::clone(&provider))
                .build()
                .map_err(|e| Error::new(format!("root certificates: {e}")))?,
        ),
    };
    let verifier = Verifier { check, inner, provider };
    let builder = builder.dangerous().with_custom_certificate_verifier(Arc::new(verifier));
    let certificate = file_of(parameters, "sslcert", "postgresql.crt");
    let key = file_of(parameters, "sslkey", "postgresql.key");
    match (certificate, key, parameters.get("sslcertmode")) {
        (Some(certificate), Some(key), mode) if mode != Some("disable") => {
            let chain = certificates(&certificate)?;
            let error = |e: &dyn std::fmt::Display| Error::new(format!("private key file \"{}\": {e}", key.display()));
            let key = PrivateKeyDer::from_pem_file(&key).map_err(|e| error(&e))?;
            builder
                .with_client_auth_cert(chain, key)
                .map_err(|e| Error::new(format!("client certificate: {e}")))
        }
        _ => Ok(builder.with_no_client_auth()),
    }
}

/// The file that the parameter names, or libpq's default in ~/.postgresql where that exists.
pub(super) fn file_of(parameters: &Parameters, name: &str, default: &str) -> Option<PathBuf> {
    match parameters.get(name) {
        Some(file) => Some(PathBuf::from(file)),
        None => std::env::home_dir()
            .map(|home| home.join(".postgresql").join(default))
            .filter(|file| file.exists()),
    }
}

fn roots(file: Option<&Path>) -> Result<RootCertStore> {
    let mut store = RootCertStore::empty();
    match file {
        Some(file) if file == Path::new("system") => {
            store.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        }
        Some(file) => {
            for certificate in certificates(file)? {
                store
                    .add(certificate)
                    .map_err(|e| Error::new(format!("root certificate file \"{}\": {e}", file.display())))?;
            }
        }
        None => {
            return Err(
                Error::new("there is no root certificate file to verify the server with")
                    .hint("name one in sslrootcert, put it in ~/.postgresql/root.crt, or set sslrootcert=system"),
            );
        }
    }
    Ok(store)
}

fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>> {
    let read = CertificateDer::pem_file_iter(file).and_then(Iterator::collect);
    read.map_err(|e| Error::new(format!("certificate file \"{}\": {e}", file.display())))
}

/// Looks at the server's certificate as far as sslmode asks.
#[derive(Debug)]
struct Verifier {
    check: Check,
    inner: Option<Arc<WebPkiServerVerifier>>,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let Some(inner) = &self.inner else {
            return Ok(ServerCertVerified::assertion());
        };
        match inner.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now) {
            Err(rustls::Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) if self.check == Check::Authority => Ok(ServerCertVerified::assertion()),
            verdict => verdict,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(
            message,
            certificate,
            signed,
            &self.provider.signature_verification_algorithms,
        )
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(
            message,
            certificate,
            signed,
            &self.provider.signature_verification_algorithms,
        )
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
