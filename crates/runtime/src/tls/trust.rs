//! Whether a certificate comes from a file of authorities.

use super::certificate::parse;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::{CertificateError, Error, RootCertStore};
use x509_parser::certificate::X509Certificate;
use x509_parser::oid_registry::{OID_X509_EXT_BASIC_CONSTRAINTS, OID_X509_EXT_KEY_USAGE, Oid};
use x509_parser::time::ASN1Time;
use x509_parser::x509::X509Version;

/// The most certificates between a certificate of version 1 and the authority.
const CHAIN_MAX: usize = 4;

/// A file of authorities.
#[derive(Debug, Clone)]
pub(super) struct Trust {
    pub(super) roots: std::sync::Arc<RootCertStore>,
    /// The same certificates, as they are in the file.
    certificates: Vec<CertificateDer<'static>>,
}

impl Trust {
    /// Fails if rustls cannot use one of them as an authority.
    pub(super) fn new(certificates: Vec<CertificateDer<'static>>) -> Result<Trust, Error> {
        let mut roots = RootCertStore::empty();
        for certificate in &certificates {
            roots.add(certificate.clone())?;
        }
        Ok(Trust {
            roots: roots.into(),
            certificates,
        })
    }

    /// Whether to accept a certificate that rustls refuses and OpenSSL accepts, if that is safe: a certificate that is
    /// in the file itself (a self-signed one), or one of version 1, which `openssl x509 -req` makes by default, as in
    /// PostgreSQL's manual. `refusal` is rustls's reason.
    pub(super) fn accepts_though(
        &self,
        refusal: Error,
        certificate: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<(), Error> {
        let Some(read) = parse(certificate) else {
            return Err(refusal);
        };
        let is_ours = self.certificates.iter().any(|known| known == certificate);
        if is_ours || read.version() == X509Version::V1 && self.has_signed(&read, others, now, CHAIN_MAX) {
            return in_time(&read, now)
                .then_some(())
                .ok_or(CertificateError::Expired.into());
        }
        Err(refusal)
    }

    /// Whether an authority of the file has signed a certificate, directly or through others. Each of these must be an
    /// authority and valid at this time.
    fn has_signed(
        &self,
        read: &X509Certificate<'_>,
        others: &[CertificateDer<'_>],
        now: UnixTime,
        more: usize,
    ) -> bool {
        let signs = |issuer: &X509Certificate<'_>| {
            issuer.subject().as_raw() == read.issuer().as_raw()
                && in_time(issuer, now)
                && read.verify_signature(Some(issuer.public_key())).is_ok()
        };
        if self
            .certificates
            .iter()
            .filter_map(|c| parse(c))
            .any(|root| signs(&root))
        {
            return true;
        }
        let between = others.iter().take(CHAIN_MAX).filter_map(|c| parse(c));
        more > 0
            && between
                .filter(|issuer| may_sign(issuer, CHAIN_MAX - more) && signs(issuer))
                .any(|issuer| self.has_signed(&issuer, others, now, more - 1))
    }
}

/// Whether a certificate may sign the certificates of others, with no further conditions that only rustls can check.
/// `below` is the number of authorities between it and the certificate.
fn may_sign(certificate: &X509Certificate<'_>, below: usize) -> bool {
    let is_authority = certificate.basic_constraints().is_ok_and(|found| {
        found.is_some_and(|c| c.value.ca && c.value.path_len_constraint.is_none_or(|n| n as usize >= below))
    });
    let signs = certificate
        .key_usage()
        .is_ok_and(|found| found.is_none_or(|usage| usage.value.key_cert_sign()));
    let is_read = |oid: &Oid<'_>| *oid == OID_X509_EXT_BASIC_CONSTRAINTS || *oid == OID_X509_EXT_KEY_USAGE;
    let conditions = certificate.extensions().iter().filter(|extension| extension.critical);
    is_authority
        && signs
        && conditions.into_iter().all(|extension| is_read(&extension.oid))
        && certificate.name_constraints().is_ok_and(|found| found.is_none())
}

fn in_time(certificate: &X509Certificate<'_>, now: UnixTime) -> bool {
    let now = i64::try_from(now.as_secs()).ok().map(ASN1Time::from_timestamp);
    matches!(now, Some(Ok(now)) if certificate.validity().is_valid_at(now))
}
