//! The values of `*_tls_ciphers`, `*_tls13_ciphers` and `client_tls_ecdhcurve`, in OpenSSL's words.

use crate::mismatch::Mismatch;
use crate::value::{Kind, SettingValue};

/// A cipher suite of TLS 1.2: OpenSSL's name, and the words of OpenSSL's cipher lists that include it.
struct Suite {
    name: &'static str,
    words: &'static [&'static str],
}

/// Words that include every suite of [`SUITES`]: PgBouncer's keywords, and OpenSSL's words for forward secrecy.
const WORDS_FOR_ALL: [&str; 15] = [
    "default", "secure", "normal", "fast", "compat", "legacy", "insecure", "all", "high", "ecdhe", "eecdh", "kecdhe",
    "keecdh", "tlsv1.2", "aead",
];

/// The suites of TLS 1.2 that pgweir has, best first. All have forward secrecy and authenticated encryption.
const SUITES: [Suite; 6] = [
    Suite {
        name: "ECDHE-ECDSA-AES256-GCM-SHA384",
        words: &["aecdsa", "ecdsa", "aes", "aes256", "aesgcm", "sha384"],
    },
    Suite {
        name: "ECDHE-ECDSA-AES128-GCM-SHA256",
        words: &["aecdsa", "ecdsa", "aes", "aes128", "aesgcm", "sha256"],
    },
    Suite {
        name: "ECDHE-ECDSA-CHACHA20-POLY1305",
        words: &["aecdsa", "ecdsa", "chacha20"],
    },
    Suite {
        name: "ECDHE-RSA-AES256-GCM-SHA384",
        words: &["arsa", "rsa", "aes", "aes256", "aesgcm", "sha384"],
    },
    Suite {
        name: "ECDHE-RSA-AES128-GCM-SHA256",
        words: &["arsa", "rsa", "aes", "aes128", "aesgcm", "sha256"],
    },
    Suite {
        name: "ECDHE-RSA-CHACHA20-POLY1305",
        words: &["arsa", "rsa", "chacha20"],
    },
];

/// The suites of TLS 1.3, best first.
const SUITES_13: [&str; 3] = [
    "TLS_AES_256_GCM_SHA384",
    "TLS_AES_128_GCM_SHA256",
    "TLS_CHACHA20_POLY1305_SHA256",
];

/// The groups for key exchange: the name that the runtime knows, then others for it.
const CURVES: [&[&str]; 3] = [
    &["X25519"],
    &["prime256v1", "P-256", "secp256r1"],
    &["secp384r1", "P-384"],
];

/// The cipher suites of TLS 1.2 that may be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsCiphers {
    text: String,
    suites: Vec<&'static str>,
}

impl TlsCiphers {
    /// OpenSSL's names of the suites, in the order of preference; at least one.
    pub fn suites(&self) -> &[&'static str] {
        &self.suites
    }
}

impl SettingValue for TlsCiphers {
    const KIND: Kind = Kind::Text;

    /// Reads a cipher list as OpenSSL does (ciphers(1)): a word that names none of [`SUITES`] adds nothing, but a command
    /// (`@STRENGTH`) must be one of OpenSSL's. PgBouncer takes an empty text for `default`.
    fn parse(text: &str) -> Result<TlsCiphers, Mismatch> {
        let mut suites: Vec<&'static str> = Vec::new();
        let mut killed: Vec<&'static str> = Vec::new();
        let list = if text.is_empty() { "default" } else { text };
        for word in list.split([':', ',', ';', ' ']).filter(|word| !word.is_empty()) {
            let (sign, names) = match word.as_bytes()[0] {
                b'@' if is_command(&word[1..]) => continue,
                b'@' => {
                    return Err(Mismatch::expected(
                        "no other command than @STRENGTH and @SECLEVEL=0 to 5",
                    ));
                }
                sign @ (b'!' | b'-' | b'+') => (sign, &word[1..]),
                _ => (b' ', word),
            };
            let named = SUITES
                .iter()
                .filter(|suite| suite.is_named(names))
                .map(|suite| suite.name);
            for name in named {
                let was_there = suites.contains(&name);
                suites.retain(|other| sign == b' ' || *other != name);
                match sign {
                    b'!' => killed.push(name),
                    b'+' if was_there => suites.push(name),
                    b' ' if !was_there && !killed.contains(&name) => suites.push(name),
                    _ => {}
                }
            }
        }
        if suites.is_empty() {
            let ours = SUITES.map(|suite| suite.name).join(", ");
            return Err(Mismatch::expected(format!(
                "a cipher list of OpenSSL that includes one of {ours}, or a word like secure"
            )));
        }
        Ok(TlsCiphers {
            text: text.to_string(),
            suites,
        })
    }

    fn show(&self) -> Option<String> {
        Some(self.text.clone())
    }
}

/// Whether OpenSSL knows this command. It puts suites in order, or leaves out what [`SUITES`] leaves out.
fn is_command(word: &str) -> bool {
    let level = word.strip_prefix("SECLEVEL=");
    word == "STRENGTH" || level.is_some_and(|level| matches!(level.as_bytes(), [b'0'..=b'5']))
}

impl Suite {
    /// Whether all words in `names`, which are joined by `+`, include this suite.
    fn is_named(&self, names: &str) -> bool {
        names.split('+').all(|name| {
            let name = name.to_ascii_lowercase();
            name.eq_ignore_ascii_case(self.name) || WORDS_FOR_ALL.contains(&&*name) || self.words.contains(&&*name)
        })
    }
}

/// The words of a list that `known` finds, and those that it does not.
fn sort_out(text: &str, known: impl Fn(&str) -> Option<&'static str>) -> (Vec<&'static str>, Vec<String>) {
    let (mut found, mut left_out) = (Vec::new(), Vec::new());
    for word in text.split([':', ',', ' ']).filter(|word| !word.is_empty()) {
        match known(word) {
            Some(name) => found.push(name),
            None => left_out.push(word.to_string()),
        }
    }
    (found, left_out)
}

/// The cipher suites of TLS 1.3 that may be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tls13Ciphers {
    text: String,
    suites: Vec<&'static str>,
    left_out: Vec<String>,
}

impl Tls13Ciphers {
    /// OpenSSL's names of the suites, in the order of preference; at least one.
    pub fn suites(&self) -> &[&'static str] {
        &self.suites
    }

    /// The words that name none.
    pub fn left_out(&self) -> &[String] {
        &self.left_out
    }
}

impl SettingValue for Tls13Ciphers {
    const KIND: Kind = Kind::Text;

    fn parse(text: &str) -> Result<Tls13Ciphers, Mismatch> {
        let known = |name: &str| SUITES_13.into_iter().find(|suite| suite.eq_ignore_ascii_case(name));
        let (suites, left_out) = match text {
            "" => (SUITES_13.to_vec(), Vec::new()),
            _ => sort_out(text, known),
        };
        if suites.is_empty() {
            return Err(Mismatch::expected(format!(
                "cipher suites of TLS 1.3, separated by colons: {}",
                SUITES_13.join(", ")
            )));
        }
        Ok(Tls13Ciphers {
            text: text.to_string(),
            suites,
            left_out,
        })
    }

    /// An empty text counts as unset.
    fn show(&self) -> Option<String> {
        Some(self.text.clone()).filter(|text| !text.is_empty())
    }
}

/// The groups for key exchange that may be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EcdhCurves {
    text: String,
    curves: Vec<&'static str>,
    left_out: Vec<String>,
}

impl EcdhCurves {
    /// `X25519`, `prime256v1` or `secp384r1`, in the order of preference; empty: all of them.
    pub fn curves(&self) -> &[&'static str] {
        &self.curves
    }

    /// The words that name none.
    pub fn left_out(&self) -> &[String] {
        &self.left_out
    }
}

impl SettingValue for EcdhCurves {
    const KIND: Kind = Kind::Text;

    /// `none` leaves the choice to the other side, as in PgBouncer.
    fn parse(text: &str) -> Result<EcdhCurves, Mismatch> {
        let is_one = |names: &&&[&str], name: &str| names.iter().any(|n| n.eq_ignore_ascii_case(name));
        let known = |name: &str| CURVES.iter().find(|names| is_one(names, name)).map(|names| names[0]);
        let (curves, left_out) = match text {
            "" | "auto" | "none" => (Vec::new(), Vec::new()),
            _ => sort_out(text, known),
        };
        if curves.is_empty() && !left_out.is_empty() {
            return Err(Mismatch::expected("auto, or X25519, prime256v1 or secp384r1"));
        }
        Ok(EcdhCurves {
            text: text.to_string(),
            curves,
            left_out,
        })
    }

    fn show(&self) -> Option<String> {
        Some(self.text.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn suites(text: &str) -> Vec<&'static str> {
        TlsCiphers::parse(text).map(|c| c.suites).unwrap_or_default()
    }

    #[test]
    fn keywords_and_cipher_lists_are_read_as_openssl_reads_them() {
        for word in [
            "default",
            "secure",
            "normal",
            "fast",
            "legacy",
            "all",
            "HIGH:!aNULL:!MD5",
            "",
        ] {
            assert_eq!(suites(word).len(), 6, "{word}");
        }
        assert_eq!(suites("ECDHE-RSA-AES128-GCM-SHA256"), ["ECDHE-RSA-AES128-GCM-SHA256"]);
        assert_eq!(suites("EECDH+aRSA+AES256:!CHACHA20"), ["ECDHE-RSA-AES256-GCM-SHA384"]);
        assert_eq!(
            suites("ECDHE+CHACHA20:-aECDSA:@SECLEVEL=2"),
            ["ECDHE-RSA-CHACHA20-POLY1305"]
        );
        assert_eq!(suites("aRSA:!AES:ALL").len(), 2, "a killed suite does not come back");
        assert_eq!(suites("aRSA+AESGCM:+AES256")[1], "ECDHE-RSA-AES256-GCM-SHA384");
    }

    #[test]
    fn lists_without_a_suite_of_ours_are_refused() {
        for text in [" ", "DHE-RSA-AES256-SHA", "kRSA", "3DES:RC4", "ALL:!ALL", "nonsense"] {
            assert!(TlsCiphers::parse(text).is_err(), "{text}");
        }
        assert!(Tls13Ciphers::parse("TLS_AES_128_CCM_SHA256").is_err() && Tls13Ciphers::parse(":").is_err());
        assert_eq!(Tls13Ciphers::parse("").unwrap().suites, SUITES_13);
        assert_eq!(
            Tls13Ciphers::parse("TLS_CHACHA20_POLY1305_SHA256:tls_aes_128_gcm_sha256")
                .unwrap()
                .suites,
            ["TLS_CHACHA20_POLY1305_SHA256", "TLS_AES_128_GCM_SHA256"]
        );
    }

    #[test]
    fn lists_may_have_openssls_commands_and_names_that_do_not_exist() {
        let one = "ECDHE-RSA-AES128-GCM-SHA256";
        for harmless in [
            "NOSUCH",
            "!NOSUCH",
            "AES128-SHA",
            "@STRENGTH",
            "@SECLEVEL=0",
            "@SECLEVEL=5",
        ] {
            assert_eq!(suites(&format!("{one}:{harmless}")), [one], "{harmless}");
            assert_eq!(suites(&format!("{harmless}:{one}")), [one], "{harmless}");
        }
        for bad in [
            "@",
            "@NOSUCH",
            "@SECLEVEL",
            "@SECLEVEL=",
            "@SECLEVEL=6",
            "@SECLEVEL=10",
            "@strength",
        ] {
            assert!(TlsCiphers::parse(&format!("{one}:{bad}")).is_err(), "{bad}");
        }
    }

    #[test]
    fn curves_have_several_names() {
        assert_eq!(
            EcdhCurves::parse("P-256:x25519").unwrap().curves,
            ["prime256v1", "X25519"]
        );
        for all in ["", "auto", "none"] {
            assert!(EcdhCurves::parse(all).unwrap().curves.is_empty(), "{all}");
        }
        assert!(EcdhCurves::parse("secp521r1").is_err() && EcdhCurves::parse("X448:P-521").is_err());
    }

    /// As OpenSSL, for suites of TLS 1.3: it leaves out what it does not know.
    #[test]
    fn a_list_may_also_name_what_there_is_not() {
        let ciphers = Tls13Ciphers::parse("TLS_AES_128_CCM_SHA256:TLS_AES_128_GCM_SHA256:TLS_X").unwrap();
        assert_eq!(ciphers.suites(), ["TLS_AES_128_GCM_SHA256"]);
        assert_eq!(ciphers.left_out(), ["TLS_AES_128_CCM_SHA256", "TLS_X"]);
        let curves = EcdhCurves::parse("secp521r1:X25519").unwrap();
        assert_eq!(
            (curves.curves(), curves.left_out()),
            (&["X25519"][..], &["secp521r1".to_string()][..])
        );
        assert!(EcdhCurves::parse("P-256:x25519").unwrap().left_out().is_empty());
    }
}
