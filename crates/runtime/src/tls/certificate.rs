//! Reading certificates.

use pgweir_core::PeerCertificate;
use sha2::{Digest, Sha224, Sha256, Sha384, Sha512};
use std::sync::Arc;
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::GeneralName;
use x509_parser::signature_algorithm::SignatureAlgorithm;

/// Reads a certificate leniently: also those of version 1, and others that rustls refuses.
pub(super) fn parse(der: &[u8]) -> Option<X509Certificate<'_>> {
    x509_parser::parse_x509_certificate(der)
        .ok()
        .map(|(_, certificate)| certificate)
}

/// The `tls-server-end-point` of a certificate (RFC 5929, section 4.1): its hash by the hash function of its signature,
/// or by SHA-256 if that is MD5 or SHA-1. `None` if the signature has no hash function or an unknown one.
pub(super) fn end_point(der: &[u8]) -> Option<Arc<[u8]>> {
    let certificate = parse(der)?;
    let name = match SignatureAlgorithm::try_from(&certificate.signature_algorithm).ok()? {
        SignatureAlgorithm::RSASSA_PSS(parameters) => parameters.hash_algorithm_oid().to_id_string(),
        _ => certificate.signature_algorithm.algorithm.to_id_string(),
    };
    let hash: &[u8] = match &*name {
        // RSA with MD5, with SHA-1; ECDSA with SHA-1; SHA-1 (of PSS)
        "1.2.840.113549.1.1.4" | "1.2.840.113549.1.1.5" | "1.2.840.10045.4.1" | "1.3.14.3.2.26" => &Sha256::digest(der),
        // RSA, ECDSA, and PSS, each with SHA-2
        "1.2.840.113549.1.1.14" | "1.2.840.10045.4.3.1" | "2.16.840.1.101.3.4.2.4" => &Sha224::digest(der),
        "1.2.840.113549.1.1.11" | "1.2.840.10045.4.3.2" | "2.16.840.1.101.3.4.2.1" => &Sha256::digest(der),
        "1.2.840.113549.1.1.12" | "1.2.840.10045.4.3.3" | "2.16.840.1.101.3.4.2.2" => &Sha384::digest(der),
        "1.2.840.113549.1.1.13" | "1.2.840.10045.4.3.4" | "2.16.840.1.101.3.4.2.3" => &Sha512::digest(der),
        _ => return None,
    };
    Some(hash.into())
}

/// The names of a certificate that was verified.
pub(super) fn names(der: &[u8]) -> Option<PeerCertificate> {
    Some(PeerCertificate {
        common_name: common_name(&parse(der)?).map(str::to_string),
    })
}

/// The subject's common name, if it has exactly one. A zero byte in it would end the name for some readers and not for
/// others (CVE-2009-4034).
pub(super) fn common_name<'a>(certificate: &'a X509Certificate<'_>) -> Option<&'a str> {
    let mut names = certificate.subject().iter_common_name();
    let (name, none) = (names.next()?.as_str().ok()?, names.next());
    (none.is_none() && !name.contains('\0')).then_some(name)
}

/// Whether the alternative names of a certificate contain one of kind DNS or, for a host that is an address, one of kind IP.
/// Then the common name does not count, as in libpq. (For an address libpq ignores names of kind DNS.)
pub(super) fn has_alternative_name(certificate: &X509Certificate<'_>, for_address: bool) -> bool {
    match certificate.subject_alternative_name() {
        Ok(Some(names)) => names.value.general_names.iter().any(|name| match name {
            GeneralName::DNSName(_) => true,
            GeneralName::IPAddress(_) => for_address,
            _ => false,
        }),
        Ok(None) => false,
        // An extension that cannot be read may contain one.
        Err(_) => true,
    }
}

/// Whether a name in a certificate matches this host, as in libpq: `*.` matches exactly one label, and no host of a
/// single label.
pub(super) fn is_name_of(pattern: &str, host: &str) -> bool {
    match pattern.strip_prefix("*.") {
        None => pattern.eq_ignore_ascii_case(host),
        Some(parent) => host
            .split_once('.')
            .is_some_and(|(label, rest)| !label.is_empty() && !rest.is_empty() && rest.eq_ignore_ascii_case(parent)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wildcard_stands_for_one_label() {
        assert!(is_name_of("db.example.com", "DB.example.com"));
        assert!(is_name_of("*.example.com", "db.example.com"));
        for (pattern, host) in [
            ("*.example.com", "example.com"),
            ("*.example.com", "a.b.example.com"),
            ("*.example.com", ".example.com"),
            ("*", "db"),
            ("d*.example.com", "db.example.com"),
            ("db", "db.example.com"),
        ] {
            assert!(!is_name_of(pattern, host), "{pattern} {host}");
        }
    }

    #[test]
    fn what_is_no_certificate_has_no_names() {
        assert!(names(b"").is_none() && names(b"0\x82\xff\xff").is_none() && end_point(b"\0").is_none());
    }
}
