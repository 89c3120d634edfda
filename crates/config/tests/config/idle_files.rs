//! Files that settings name, but that other settings leave unused.

use crate::support::{assert_one, config, lines, load_files, sound, warnings};
use pgweir_config::{Config, Problem};

/// Every setting that names a file to be read, and settings with which nobody reads it. Not here: `auth_file` is always
/// read; `logfile` and `pidfile` are written; `resolv_conf` and `conffile` are read whenever they are named.
const UNUSED: [(&str, &str); 8] = [
    ("auth_hba_file", "auth_type = md5"),
    ("auth_ident_file", "auth_type = md5"),
    ("client_tls_ca_file", "client_tls_sslmode = disable"),
    ("client_tls_cert_file", "client_tls_sslmode = disable"),
    ("client_tls_key_file", "client_tls_sslmode = disable"),
    ("server_tls_ca_file", "server_tls_sslmode = require"),
    ("server_tls_cert_file", "server_tls_sslmode = disable"),
    ("server_tls_key_file", "server_tls_sslmode = disable"),
];

fn refused(running: &Config, new: Config) -> Vec<Problem> {
    running.reload(new).err().unwrap_or_default()
}

fn naming(setting: &str, file: &str, with: &str) -> String {
    sound(&format!("{with}\n{setting} = {file}"))
}

#[test]
fn a_file_that_cannot_be_read_refuses_the_reload_though_it_is_not_used() {
    for (setting, with) in UNUSED {
        let running = config(&sound(with));
        let found = refused(&running, config(&naming(setting, "/no/such/file", with)));
        let name = format!("{setting} \"/no/such/file\"");
        assert_one(
            &lines(&found),
            &["error: could not open", &name, "no such file", "the file is not used"],
        );
        assert_eq!(
            refused(&running, config(&naming(setting, "users.txt", with))),
            [],
            "{setting}"
        );
    }
}

/// Guards against a RELOAD that fails for ever because of a file that nobody uses, and that was missing at the start.
#[test]
fn a_file_that_was_missing_before_is_a_warning() {
    for (setting, with) in UNUSED {
        let ini = naming(setting, "/no/such/file", with);
        assert_one(&warnings(&ini), &["warning: could not open", "/no/such/file"]);
        let running = config(&ini);
        assert_eq!(refused(&running, config(&ini)), [], "{setting}");
        let other = ini.replace("/no/such/file", "/nor/this/one");
        assert_eq!(refused(&running, config(&other)).len(), 1, "{setting}");
    }
}

#[test]
fn a_file_that_vanishes_refuses_the_reload() {
    for (setting, with) in UNUSED {
        let ini = naming(setting, "extra", with);
        let files = [
            ("pgbouncer.ini", &*ini),
            ("users.txt", "\"app\" \"secret\"\n"),
            ("extra", ""),
        ];
        let running = load_files(&files).unwrap().config;
        assert_eq!(refused(&running, config(&ini)).len(), 1, "{setting}");
    }
}
