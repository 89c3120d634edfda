//! Verifying servers' certificates: `server_tls_sslmode`.

use super::certificate::{common_name, has_alternative_name, is_name_of, parse};
use super::chain::between;
use super::trust::{Role, Trust};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{verify_server_cert_signed_by_trust_anchor, verify_server_name};
use rustls::crypto::{
    WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature, verify_tls13_signature_with_raw_key,
};
use rustls::pki_types::{CertificateDer, ServerName, SubjectPublicKeyInfoDer, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, DigitallySignedStruct, Error, SignatureScheme};

/// Verifies the certificates of servers.
#[derive(Debug)]
pub(super) struct ServerVerifier {
    /// The authorities that a certificate must come from; `None`: any certificate is accepted.
    pub(super) trust: Option<Trust>,
    /// Whether it must be for the host of the connection.
    pub(super) checks_name: bool,
    pub(super) algorithms: WebPkiSupportedAlgorithms,
}

impl ServerVerifier {
    fn check_authority(
        &self,
        trust: &Trust,
        certificate: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<(), Error> {
        let others = &between(certificate, others)?;
        let verdict = ParsedCertificate::try_from(certificate).and_then(|parsed| {
            let algorithms = self.algorithms.all;
            verify_server_cert_signed_by_trust_anchor(&parsed, &trust.roots, others, now, algorithms)
        });
        verdict.or_else(|refusal| trust.accepts_though(refusal, certificate, others, now, Role::Server))
    }
}

/// Checks that a certificate is for this host: by its alternative names, or, if it has none of the host's kind, by its
/// common name.
fn check_name(certificate: &CertificateDer<'_>, host: &ServerName<'_>) -> Result<(), Error> {
    if let Ok(parsed) = ParsedCertificate::try_from(certificate)
        && verify_server_name(&parsed, host).is_ok()
    {
        return Ok(());
    }
    let is_address = matches!(host, ServerName::IpAddress(_));
    let read = parse(certificate).filter(|read| !has_alternative_name(read, is_address));
    let host = host.to_str();
    match read.as_ref().and_then(common_name) {
        Some(name) if is_name_of(name, &host) => Ok(()),
        _ => Err(CertificateError::NotValidForName.into()),
    }
}

impl ServerCertVerifier for ServerVerifier {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        host: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if let Some(trust) = &self.trust {
            self.check_authority(trust, certificate, others, now)?;
        }
        if self.checks_name {
            check_name(certificate, host)?;
        }
        Ok(ServerCertVerified::assertion())
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

/// Verifies a signature of TLS 1.3, also by the key of a certificate that rustls cannot read.
pub(super) fn verify_signature(
    message: &[u8],
    certificate: &CertificateDer<'_>,
    signed: &DigitallySignedStruct,
    algorithms: &WebPkiSupportedAlgorithms,
) -> Result<HandshakeSignatureValid, Error> {
    match (ParsedCertificate::try_from(certificate), parse(certificate)) {
        (Err(_), Some(read)) => {
            let key = SubjectPublicKeyInfoDer::from(read.public_key().raw);
            verify_tls13_signature_with_raw_key(message, &key, signed, algorithms)
        }
        _ => verify_tls13_signature(message, certificate, signed, algorithms),
    }
}
