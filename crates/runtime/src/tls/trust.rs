//! Whether a certificate comes from a file of authorities.

use super::certificate::parse;
use super::chain::{CHECKS_MAX, Costly};
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::{CertificateError, DistinguishedName, Error, RootCertStore};
use x509_parser::certificate::X509Certificate;
use x509_parser::oid_registry::{
    OID_X509_EXT_BASIC_CONSTRAINTS, OID_X509_EXT_EXTENDED_KEY_USAGE, OID_X509_EXT_KEY_USAGE, Oid,
};
use x509_parser::time::ASN1Time;
use x509_parser::x509::X509Version;

/// The most certificates between a certificate of version 1 and the authority.
const CHAIN_MAX: usize = 4;

/// What a certificate is shown for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    Client,
    Server,
}

/// A file of trusted certificates.
#[derive(Debug, Clone)]
pub(super) struct Trust {
    /// The certificates that may sign others. rustls does not check whether its roots may.
    pub(super) roots: std::sync::Arc<RootCertStore>,
    /// All certificates of the file. One that may not sign is accepted only as the peer's own certificate.
    certificates: Vec<CertificateDer<'static>>,
}

impl Trust {
    /// Fails if one of them cannot be read, or if rustls cannot use an authority.
    pub(super) fn new(certificates: Vec<CertificateDer<'static>>) -> Result<Trust, Error> {
        let mut roots = RootCertStore::empty();
        for certificate in &certificates {
            let read = parse(certificate).ok_or(CertificateError::BadEncoding)?;
            if is_authority(&read) {
                roots.add(certificate.clone())?;
            }
        }
        Ok(Trust {
            roots: roots.into(),
            certificates,
        })
    }

    /// Like [`Trust::new`], for certificates of the system, of which some may not be readable.
    pub(super) fn of_readable(mut certificates: Vec<CertificateDer<'static>>) -> Result<Trust, Error> {
        certificates.retain(|certificate| {
            parse(certificate)
                .is_some_and(|read| !is_authority(&read) || RootCertStore::empty().add(certificate.clone()).is_ok())
        });
        Self::new(certificates)
    }

    /// The names of all of them, from which a client chooses its certificate.
    pub(super) fn names(&self) -> Vec<DistinguishedName> {
        let read = self.certificates.iter().filter_map(|certificate| parse(certificate));
        read.map(|read| read.subject().as_raw().to_vec().into()).collect()
    }

    /// Whether to accept a certificate that rustls refuses and OpenSSL accepts, if that is safe: a certificate that is
    /// in the file itself (a self-signed one), or one of version 1, which `openssl x509 -req` makes by default, as in
    /// PostgreSQL's manual. `refusal` is rustls's reason; `others` come from [`super::chain::between`].
    pub(super) fn accepts_though(
        &self,
        refusal: Error,
        certificate: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        now: UnixTime,
        role: Role,
    ) -> Result<(), Error> {
        let Some(read) = parse(certificate) else {
            return Err(refusal);
        };
        let is_ours = self.certificates.iter().any(|known| known == certificate);
        if !is_ours && (read.version() != X509Version::V1 || !self.has_signed(&read, others, now, role)?) {
            return Err(refusal);
        }
        in_time(&read, now)
            .then_some(())
            .ok_or(CertificateError::Expired.into())
    }

    /// Whether an authority of the file has signed a certificate of version 1, directly or through others.
    fn has_signed(
        &self,
        read: &X509Certificate<'_>,
        others: &[CertificateDer<'_>],
        now: UnixTime,
        role: Role,
    ) -> Result<bool, Costly> {
        let authorities: Vec<_> = self.certificates.iter().filter_map(|c| parse(c)).collect();
        let between: Vec<_> = others.iter().filter_map(|c| parse(c)).collect();
        let mut search = Search {
            authorities: &authorities,
            between: &between,
            way: Vec::new(),
            now,
            role,
            checks: 0,
        };
        search.finds_authority(read)
    }
}

/// The search for a way from a certificate of version 1 to an authority of the file.
struct Search<'a, 'der> {
    authorities: &'a [X509Certificate<'der>],
    between: &'a [X509Certificate<'der>],
    /// The indices in `between` of those on the way so far; none is there twice.
    way: Vec<usize>,
    now: UnixTime,
    role: Role,
    /// The signatures that were checked.
    checks: usize,
}

impl Search<'_, '_> {
    /// Whether an authority of the file has signed a certificate, directly or through others. Each of these must be an
    /// authority and valid at this time.
    fn finds_authority(&mut self, read: &X509Certificate<'_>) -> Result<bool, Costly> {
        for authority in self.authorities {
            if self.signs(authority, read)? {
                return Ok(true);
            }
        }
        for (index, issuer) in self.between.iter().enumerate() {
            let is_new = self.way.len() < CHAIN_MAX && !self.way.contains(&index) && !is_old_root(issuer);
            if is_new && self.signs(issuer, read)? {
                self.way.push(index);
                if self.finds_authority(issuer)? {
                    return Ok(true);
                }
                self.way.pop();
            }
        }
        Ok(false)
    }

    /// Whether a certificate has signed another one, and might.
    fn signs(&mut self, issuer: &X509Certificate<'_>, read: &X509Certificate<'_>) -> Result<bool, Costly> {
        let may_sign = issuer.subject().as_raw() == read.issuer().as_raw()
            && is_authority(issuer)
            && has_no_other_conditions(issuer, self.way.len(), self.role)
            && in_time(issuer, self.now);
        if !may_sign {
            return Ok(false);
        }
        self.checks += 1;
        if self.checks > CHECKS_MAX {
            return Err(Costly::Signatures);
        }
        Ok(read.verify_signature(Some(issuer.public_key())).is_ok())
    }
}

/// Whether a certificate may sign the certificates of others, as OpenSSL decides it (`check_ca`): its
/// extensions say so, or it is a self-signed certificate of version 1, which has no extensions.
fn is_authority(certificate: &X509Certificate<'_>) -> bool {
    let (Ok(constraints), Ok(usage)) = (certificate.basic_constraints(), certificate.key_usage()) else {
        return false;
    };
    if usage.as_ref().is_some_and(|usage| !usage.value.key_cert_sign()) {
        return false;
    }
    match constraints {
        Some(constraints) => constraints.value.ca,
        None => usage.is_some() || is_old_root(certificate),
    }
}

/// Whether a certificate is of version 1 and self-signed.
fn is_old_root(certificate: &X509Certificate<'_>) -> bool {
    certificate.version() == X509Version::V1
        && certificate.extensions().is_empty()
        && certificate.subject().as_raw() == certificate.issuer().as_raw()
}

/// Whether the certificate of an authority has no further conditions that only rustls can check. `below` is the number
/// of authorities between it and the certificate. Its extended key usage, if it has one, must contain the role, also if
/// that extension is not critical, as OpenSSL has it (`check_purpose_ssl_client`).
fn has_no_other_conditions(certificate: &X509Certificate<'_>, below: usize, role: Role) -> bool {
    let is_short_enough = certificate.basic_constraints().is_ok_and(|found| {
        let length = found.and_then(|constraints| constraints.value.path_len_constraint);
        length.is_none_or(|length| length as usize >= below)
    });
    let is_for_role = certificate.extended_key_usage().is_ok_and(|found| {
        found.is_none_or(|usage| match role {
            Role::Client => usage.value.client_auth,
            Role::Server => usage.value.server_auth,
        })
    });
    let read = [
        OID_X509_EXT_BASIC_CONSTRAINTS,
        OID_X509_EXT_KEY_USAGE,
        OID_X509_EXT_EXTENDED_KEY_USAGE,
    ];
    let is_read = |oid: &Oid<'_>| read.contains(oid);
    let mut conditions = certificate.extensions().iter().filter(|extension| extension.critical);
    is_short_enough
        && is_for_role
        && conditions.all(|extension| is_read(&extension.oid))
        && certificate.name_constraints().is_ok_and(|found| found.is_none())
}

fn in_time(certificate: &X509Certificate<'_>, now: UnixTime) -> bool {
    let now = i64::try_from(now.as_secs()).ok().map(ASN1Time::from_timestamp);
    matches!(now, Some(Ok(now)) if certificate.validity().is_valid_at(now))
}

#[cfg(test)]
#[path = "trust_tests.rs"]
mod tests;
