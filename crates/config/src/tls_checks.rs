//! Checks of the settings of TLS.

use crate::catalogue::GlobalSettings;
use crate::checks::Checks;
use crate::choices::{AuthType, SslMode, SslNegotiation};
use crate::problem::Problem;

/// Values of sslmode that need files which no setting names.
pub(crate) fn unmet(global: &GlobalSettings, demands: &mut Vec<(&'static str, String, &'static str)>) {
    let (clients, servers) = (global.client_tls_sslmode, global.server_tls_sslmode);
    let has_no_key = global.client_tls_key_file.is_empty() || global.client_tls_cert_file.is_empty();
    if clients != SslMode::Disable && has_no_key {
        let message =
            "To allow TLS connections from clients, client_tls_key_file and client_tls_cert_file must be set.";
        let hint = "name a certificate and its private key, or set client_tls_sslmode = disable";
        demands.push(("client_tls_sslmode", message.to_string(), hint));
    }
    if clients >= SslMode::VerifyCa && global.client_tls_ca_file.is_empty() {
        let message = match global.auth_type {
            AuthType::Cert if clients == SslMode::VerifyFull => {
                "auth_type=cert requires client_tls_ca_file".to_string()
            }
            _ => format!("client_tls_sslmode requires client_tls_ca_file for {}", clients.word()),
        };
        let hint = "name the file of the authorities that sign the certificates";
        demands.push(("client_tls_sslmode", message, hint));
    }
    if global.server_tls_sslnegotiation == SslNegotiation::Direct && servers < SslMode::Require {
        let message = format!(
            "server_tls_sslmode = {} may not be used with server_tls_sslnegotiation = direct",
            servers.word()
        );
        let hint = "set server_tls_sslmode = require, verify-ca or verify-full";
        demands.push(("server_tls_sslnegotiation", message, hint));
    }
    if servers != SslMode::Disable && global.server_tls_key_file.is_empty() != global.server_tls_cert_file.is_empty() {
        let message = "server_tls_key_file and server_tls_cert_file need each other".to_string();
        demands.push(("server_tls_key_file", message, "set both, or none"));
    }
}

impl Checks<'_> {
    /// What lists name in vain.
    pub(crate) fn tls_lists(&mut self) {
        let global = self.global;
        for (name, left_out) in [
            ("client_tls_ecdhcurve", global.client_tls_ecdhcurve.left_out()),
            ("client_tls13_ciphers", global.client_tls13_ciphers.left_out()),
            ("server_tls13_ciphers", global.server_tls13_ciphers.left_out()),
        ] {
            if !left_out.is_empty() {
                let message = format!(
                    "{name}: left out, because pgweir does not have it: {}",
                    left_out.join(", ")
                );
                self.problems.push(Problem::warning(self.setting_place(name), message));
            }
        }
    }

    /// Whose certificates are accepted.
    pub(crate) fn authorities(&mut self) {
        if self.global.server_tls_sslmode == SslMode::VerifyCa && self.global.server_tls_ca_file.is_empty() {
            self.warn_setting(
                "server_tls_sslmode",
                "server_tls_sslmode = verify-ca without server_tls_ca_file accepts whoever has a certificate of any public authority",
                "set server_tls_sslmode = verify-full, or name the file of your own authorities",
            );
        }
    }
}

/// PgBouncer's words for a value that OpenSSL does not take: it finds out when it configures TLS.
pub(crate) fn words_for_bad_value(name: &str, value: &str) -> Option<String> {
    let kind = name.strip_prefix("client_").or_else(|| name.strip_prefix("server_"))?;
    match kind {
        "tls_ciphers" | "tls_protocols" | "tls_ecdhcurve" => Some(format!("invalid {name}: {value}")),
        "tls13_ciphers" => Some(format!(
            "TLS setup failed: failed to set the TLSv1.3 cipher suites: {name} = {value}"
        )),
        _ => None,
    }
}
