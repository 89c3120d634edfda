//! Verifying clients' certificates: `client_tls_ca_file`. With `client_tls_sslmode = verify-ca` and `verify-full` they are
//! mandatory.

use super::chain::between;
use super::server_verifier::verify_signature;
use super::trust::{Role, Trust};
use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms, verify_tls12_signature};
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{VerifierBuilderError, WebPkiClientVerifier};
use rustls::{CertificateError, DigitallySignedStruct, DistinguishedName, Error, SignatureScheme};
use std::sync::Arc;

/// Verifies the certificates of clients.
#[derive(Debug)]
pub(super) struct ClientVerifier {
    /// rustls's verifier for the same authorities; `None` if there is none, only single certificates.
    inner: Option<Arc<dyn ClientCertVerifier>>,
    /// The names of all trusted certificates.
    names: Vec<DistinguishedName>,
    trust: Trust,
    /// A client without a certificate is refused.
    is_mandatory: bool,
    algorithms: WebPkiSupportedAlgorithms,
}

impl ClientVerifier {
    pub(super) fn new(
        trust: Trust,
        is_mandatory: bool,
        provider: &Arc<CryptoProvider>,
    ) -> Result<Self, VerifierBuilderError> {
        let builder = || WebPkiClientVerifier::builder_with_provider(Arc::clone(&trust.roots), Arc::clone(provider));
        Ok(ClientVerifier {
            inner: match trust.roots.is_empty() {
                true => None,
                false => Some(builder().build()?),
            },
            names: trust.names(),
            trust,
            is_mandatory,
            algorithms: provider.signature_verification_algorithms,
        })
    }
}

impl ClientCertVerifier for ClientVerifier {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &self.names
    }

    fn client_auth_mandatory(&self) -> bool {
        self.is_mandatory
    }

    fn verify_client_cert(
        &self,
        certificate: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        let others = &between(certificate, others)?;
        let verdict = match &self.inner {
            Some(inner) => inner.verify_client_cert(certificate, others, now),
            None => Err(CertificateError::UnknownIssuer.into()),
        };
        verdict.or_else(|refusal| {
            let trust = &self.trust;
            trust.accepts_though(refusal, certificate, others, now, Role::Client)?;
            Ok(ClientCertVerified::assertion())
        })
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signed, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_signature(message, certificate, signed, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}
