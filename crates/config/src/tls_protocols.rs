//! The value of `client_tls_protocols` and `server_tls_protocols`.

use crate::mismatch::Mismatch;
use crate::value::{Kind, SettingValue};

/// A version of TLS, oldest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TlsVersion {
    /// TLS 1.0.
    V1_0,
    /// TLS 1.1.
    V1_1,
    /// TLS 1.2.
    V1_2,
    /// TLS 1.3.
    V1_3,
}

/// The versions of TLS that may be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsProtocols {
    text: String,
    versions: Vec<TlsVersion>,
}

impl TlsProtocols {
    /// The versions, oldest first, each once.
    pub fn versions(&self) -> &[TlsVersion] {
        &self.versions
    }
}

impl SettingValue for TlsProtocols {
    const KIND: Kind = Kind::List;

    fn parse(text: &str) -> Result<TlsProtocols, Mismatch> {
        use TlsVersion::{V1_0, V1_1, V1_2, V1_3};
        let all = [V1_0, V1_1, V1_2, V1_3];
        let words = text.split([',', ':']).map(str::trim).filter(|word| !word.is_empty());
        let mut versions: Vec<TlsVersion> = Vec::new();
        for (number, word) in words.enumerate() {
            let (excludes, word) = word.strip_prefix('!').map_or((false, word), |word| (true, word));
            let named = match word.to_ascii_lowercase().as_str() {
                "tlsv1" => &all[..],
                "tlsv1.0" => &[V1_0][..],
                "tlsv1.1" => &[V1_1],
                "tlsv1.2" => &[V1_2],
                "tlsv1.3" => &[V1_3],
                "secure" | "default" => &[V1_2, V1_3],
                "all" | "legacy" => &all,
                _ => {
                    return Err(Mismatch::expected(
                        "a list of tlsv1.0, tlsv1.1, tlsv1.2 and tlsv1.3, or one of secure, default, all and legacy",
                    ));
                }
            };
            if excludes && number == 0 {
                versions.extend_from_slice(&all);
            }
            versions.retain(|version| !named.contains(version));
            if !excludes {
                versions.extend_from_slice(named);
            }
        }
        if text.split([',', ':']).all(|word| word.trim().is_empty()) {
            // As in PgBouncer.
            versions.extend([V1_2, V1_3]);
        }
        if !versions.iter().any(|version| *version >= V1_2) {
            return Err(Mismatch::expected(
                "tlsv1.2 or tlsv1.3 among them: older versions are not spoken",
            ));
        }
        versions.sort_unstable();
        versions.dedup();
        Ok(TlsProtocols {
            text: text.to_string(),
            versions,
        })
    }

    fn show(&self) -> Option<String> {
        Some(self.text.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_shortcuts_add_up() {
        let versions = |text| TlsProtocols::parse(text).unwrap().versions().to_vec();
        assert_eq!(versions("secure"), [TlsVersion::V1_2, TlsVersion::V1_3]);
        assert_eq!(
            versions("TLSv1.3, tlsv1.0,secure"),
            [TlsVersion::V1_0, TlsVersion::V1_2, TlsVersion::V1_3]
        );
        assert_eq!(versions("all").len(), 4);
        // As libtls, which PgBouncer took them from.
        for text in [
            "default",
            "tlsv1.2:tlsv1.3",
            "all:!tlsv1.0:!tlsv1.1",
            "!tlsv1.0,!tlsv1.1",
        ] {
            assert_eq!(versions(text), [TlsVersion::V1_2, TlsVersion::V1_3], "{text}");
        }
        assert_eq!(versions("secure,!tlsv1.2"), [TlsVersion::V1_3]);
        assert_eq!(versions("tlsv1").len(), 4);
        assert!(TlsProtocols::parse("sslv3").is_err());
        assert!(TlsProtocols::parse("tlsv1.0,tlsv1.1").is_err() && TlsProtocols::parse("secure,!all").is_err());
        for none in ["", " ", ","] {
            assert_eq!(versions(none), versions("secure"), "as in PgBouncer");
        }
    }
}
