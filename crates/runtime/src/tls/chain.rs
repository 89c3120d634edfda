//! Selects, by names alone, the certificates that may be in the chain of the peer's certificate.
//!
//! Anyone can send any certificates in a handshake. The search for a chain to an authority tries every order of those
//! with fitting names, which may take long. So the search gets few of them.

use super::certificate::parse;
use rustls::pki_types::CertificateDer;
use rustls::{Error, OtherError};
use std::sync::Arc;

/// The most certificates that, by their names, are between the peer's own and an authority. Honest chains have one to
/// three.
pub(super) const OTHERS_MAX: usize = 8;

/// The most of these with the same subject. Two are honest: an authority that two others have signed, or that has a new
/// key.
pub(super) const ALIKE_MAX: usize = 2;

/// The most signatures that are checked to find out whether an authority has signed a certificate of version 1. A usual
/// chain needs one check for each of its certificates, and one more for each further authority of the same name.
pub(super) const CHECKS_MAX: usize = 16;

/// Why a chain is refused without an answer to the question whether it is good.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum Costly {
    #[error("more than {OTHERS_MAX} certificates between the peer's own and an authority")]
    Long,
    #[error("more than {ALIKE_MAX} certificates of the peer have the same subject")]
    Alike,
    #[error("more than {CHECKS_MAX} signatures to check for the peer's certificate")]
    Signatures,
}

impl From<Costly> for Error {
    fn from(why: Costly) -> Error {
        Error::Other(OtherError(Arc::new(why)))
    }
}

/// Those of `others` that may be between `certificate` and an authority: each has the name of an issuer before it.
pub(super) fn between<'a>(
    certificate: &CertificateDer<'_>,
    others: &[CertificateDer<'a>],
) -> Result<Vec<CertificateDer<'a>>, Costly> {
    let Some(own) = parse(certificate) else {
        return Ok(Vec::new());
    };
    let others: Vec<_> = others.iter().filter_map(|der| Some((der, parse(der)?))).collect();
    let mut issuers = vec![own.issuer()];
    let mut found: Vec<CertificateDer<'a>> = Vec::new();
    let mut next = 0;
    while let Some(issuer) = issuers.get(next).map(|name| name.as_raw()) {
        next += 1;
        let mut alike = 0;
        for (der, read) in others.iter().filter(|(_, read)| read.subject().as_raw() == issuer) {
            if found.contains(der) {
                continue;
            }
            alike += 1;
            if alike > ALIKE_MAX {
                return Err(Costly::Alike);
            }
            if found.len() == OTHERS_MAX {
                return Err(Costly::Long);
            }
            found.push((*der).clone());
            if issuers.iter().all(|known| known.as_raw() != read.issuer().as_raw()) {
                issuers.push(read.issuer());
            }
        }
    }
    Ok(found)
}
