//! The value of `client_tls_protocols` and `server_tls_protocols`.

use crate::mismatch::Mismatch;
use crate::value::{Kind, SettingValue, split_list};

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
        let mut versions = Vec::new();
        for word in split_list(text) {
            versions.extend_from_slice(match word.to_ascii_lowercase().as_str() {
                "tlsv1.0" => &[V1_0][..],
                "tlsv1.1" => &[V1_1],
                "tlsv1.2" => &[V1_2],
                "tlsv1.3" => &[V1_3],
                "secure" => &[V1_2, V1_3],
                "all" | "legacy" => &[V1_0, V1_1, V1_2, V1_3],
                _ => {
                    return Err(Mismatch::expected(
                        "a list of tlsv1.0, tlsv1.1, tlsv1.2 and tlsv1.3, or one of secure, all and legacy",
                    ));
                }
            });
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
        assert!(TlsProtocols::parse("sslv3").is_err());
        assert!(TlsProtocols::parse("tlsv1.0,tlsv1.1").is_err() && TlsProtocols::parse("").is_err());
    }
}
