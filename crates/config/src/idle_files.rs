//! Files that settings name, but that other settings leave unused. Their loss is noticed at once, not when they are needed.

use crate::choices::{AuthType, SslMode};
use crate::config::Config;
use crate::file_source::FileSource;
use crate::places::Places;
use crate::problem::{Place, Problem};
use crate::setting::Setting;

/// A file that a setting names, that is not in use, and that could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct UnreadFile {
    setting: &'static str,
    name: String,
    pub(crate) problem: Problem,
}

/// A setting that names a file to be read.
struct Naming {
    setting: &'static str,
    /// Whether the file is in use; then whoever uses it says what is wrong.
    is_used: fn(&Config) -> bool,
    /// Whether its problems are warnings of its reader, also if it is not in use.
    is_read: bool,
}

const NAMING: [Naming; 8] = [
    Naming {
        setting: "auth_hba_file",
        is_used: uses_rules,
        is_read: true,
    },
    Naming {
        setting: "auth_ident_file",
        is_used: uses_rules,
        is_read: true,
    },
    Naming {
        setting: "client_tls_ca_file",
        is_used: accepts_tls,
        is_read: false,
    },
    Naming {
        setting: "client_tls_cert_file",
        is_used: accepts_tls,
        is_read: false,
    },
    Naming {
        setting: "client_tls_key_file",
        is_used: accepts_tls,
        is_read: false,
    },
    Naming {
        setting: "server_tls_ca_file",
        is_used: |config| config.global.server_tls_sslmode >= SslMode::VerifyCa,
        is_read: false,
    },
    Naming {
        setting: "server_tls_cert_file",
        is_used: uses_tls_with_servers,
        is_read: false,
    },
    Naming {
        setting: "server_tls_key_file",
        is_used: uses_tls_with_servers,
        is_read: false,
    },
];

fn uses_rules(config: &Config) -> bool {
    config.global.auth_type == AuthType::Hba
}

fn accepts_tls(config: &Config) -> bool {
    config.global.client_tls_sslmode != SslMode::Disable
}

fn uses_tls_with_servers(config: &Config) -> bool {
    config.global.server_tls_sslmode != SslMode::Disable
}

/// Notes the files that cannot be read.
pub(crate) fn read(config: &mut Config, files: &dyn FileSource, places: &Places, problems: &mut Vec<Problem>) {
    for naming in &NAMING {
        let setting = naming.setting;
        if (naming.is_used)(config) {
            continue;
        }
        let name = Setting::find(setting).and_then(|setting| setting.value(config));
        let Some(name) = name.filter(|name| !name.is_empty()) else {
            continue;
        };
        let Err(e) = files.read(&name) else { continue };
        let place = places.settings.get(setting).cloned();
        let place = place.unwrap_or_else(|| Place::file(&config.read_from));
        let text = format!("could not open {setting} \"{name}\": {e}");
        let problem = Problem::warning(&place, text).hint("the file is not used with these settings");
        if !naming.is_read {
            problems.push(problem.clone());
        }
        config.unread_idle_files.push(UnreadFile { setting, name, problem });
    }
}

impl Config {
    /// Files that are not in use, and that could not be read, though this was no problem of the running configuration `old`.
    pub(crate) fn idle_files_lost_since<'a>(&'a self, old: &'a Config) -> impl Iterator<Item = &'a Problem> {
        let was_there = |file: &&UnreadFile| {
            let before = &mut old.unread_idle_files.iter();
            !before.any(|old| (old.setting, &old.name) == (file.setting, &file.name))
        };
        let lost = self.unread_idle_files.iter().filter(was_there);
        lost.map(|file| &file.problem)
    }
}
