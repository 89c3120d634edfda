//! OpenSSL's names for rustls's suites, groups and versions.

use pgweir_config::TlsVersion;
use rustls::crypto::SupportedKxGroup;
use rustls::crypto::ring::{cipher_suite, kx_group};
use rustls::{ProtocolVersion, SupportedCipherSuite, SupportedProtocolVersion, version};

/// Every cipher suite, by OpenSSL's name.
static SUITES: [(&str, SupportedCipherSuite); 9] = [
    ("TLS_AES_256_GCM_SHA384", cipher_suite::TLS13_AES_256_GCM_SHA384),
    ("TLS_AES_128_GCM_SHA256", cipher_suite::TLS13_AES_128_GCM_SHA256),
    (
        "TLS_CHACHA20_POLY1305_SHA256",
        cipher_suite::TLS13_CHACHA20_POLY1305_SHA256,
    ),
    (
        "ECDHE-ECDSA-AES256-GCM-SHA384",
        cipher_suite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
    ),
    (
        "ECDHE-ECDSA-AES128-GCM-SHA256",
        cipher_suite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
    ),
    (
        "ECDHE-ECDSA-CHACHA20-POLY1305",
        cipher_suite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
    ),
    (
        "ECDHE-RSA-AES256-GCM-SHA384",
        cipher_suite::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
    ),
    (
        "ECDHE-RSA-AES128-GCM-SHA256",
        cipher_suite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
    ),
    (
        "ECDHE-RSA-CHACHA20-POLY1305",
        cipher_suite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
    ),
];

/// The suite of this name.
pub(super) fn suite(name: &str) -> Option<SupportedCipherSuite> {
    SUITES.iter().find(|(known, _)| *known == name).map(|(_, suite)| *suite)
}

/// OpenSSL's name of a suite.
pub(super) fn suite_name(suite: SupportedCipherSuite) -> &'static str {
    let found = SUITES.iter().find(|(_, known)| *known == suite);
    found.map_or("unknown", |(name, _)| name)
}

/// OpenSSL's name of a version.
pub(super) fn version_name(version: ProtocolVersion) -> &'static str {
    match version {
        ProtocolVersion::TLSv1_3 => "TLSv1.3",
        ProtocolVersion::TLSv1_2 => "TLSv1.2",
        _ => "unknown",
    }
}

/// rustls's value for a version; `None` if rustls does not support it.
pub(super) fn version(version: TlsVersion) -> Option<&'static SupportedProtocolVersion> {
    match version {
        TlsVersion::V1_3 => Some(&version::TLS13),
        TlsVersion::V1_2 => Some(&version::TLS12),
        TlsVersion::V1_1 | TlsVersion::V1_0 => None,
    }
}

/// The group with this name in `client_tls_ecdhcurve`.
pub(super) fn group(name: &str) -> Option<&'static dyn SupportedKxGroup> {
    match name {
        "X25519" => Some(kx_group::X25519),
        "prime256v1" => Some(kx_group::SECP256R1),
        "secp384r1" => Some(kx_group::SECP384R1),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pgweir_config::{EcdhCurves, SettingValue, Tls13Ciphers, TlsCiphers};

    #[test]
    fn every_name_that_a_setting_can_have_is_known_here() {
        let (old, new) = (TlsCiphers::parse("all").unwrap(), Tls13Ciphers::parse("").unwrap());
        for name in old.suites().iter().chain(new.suites()) {
            assert_eq!(suite_name(suite(name).unwrap()), *name);
        }
        assert_eq!(old.suites().len() + new.suites().len(), SUITES.len());
        let curves = EcdhCurves::parse("X25519:P-256:P-384").unwrap();
        assert!(curves.curves().iter().all(|name| group(name).is_some()));
    }
}
