//! SHOW CONFIG and SET.

use pgweir_config::{CATALOGUE, ChangeRule, Config, Kind, PoolMode, Setting};

use crate::support::{config, load_files, sound};

fn shown(config: &Config, key: &str) -> Option<String> {
    config.rows().find(|row| row.key == key).unwrap().value
}

#[test]
fn rows_come_in_the_order_of_names_with_values_as_pgbouncer_prints_them() {
    let config = config(&sound(
        "server_lifetime = 1.50\nunix_socket_mode = 0700\npool_mode = SESSION\nlogfile =",
    ));
    let rows: Vec<_> = config.rows().collect();
    assert!(rows.windows(2).all(|pair| pair[0].key < pair[1].key));
    assert_eq!(rows.len(), CATALOGUE.len());
    assert_eq!(shown(&config, "server_lifetime").as_deref(), Some("1.5"));
    assert_eq!(shown(&config, "unix_socket_mode").as_deref(), Some("448"));
    assert_eq!(shown(&config, "pool_mode").as_deref(), Some("session"));
    assert_eq!(shown(&config, "logfile").as_deref(), Some(""));
    assert_eq!(shown(&config, "auth_user"), None);
    assert_eq!(shown(&config, "conffile").as_deref(), Some("pgbouncer.ini"));
    assert_eq!(shown(&config, "server_check_query").as_deref(), Some("<empty>"));
    let row = rows.iter().find(|row| row.key == "unix_socket_mode").unwrap();
    assert_eq!((row.default, row.changeable), (Some("0777"), false));
    assert!(rows.iter().find(|row| row.key == "pool_mode").unwrap().changeable);
}

#[test]
fn what_show_prints_set_takes_back() {
    let mut config = config(&sound(
        "pool_mode = transaction\nquery_timeout = 2592000\nadmin_users = a, b",
    ));
    let before = config.clone();
    for setting in CATALOGUE.iter().filter(|setting| setting.change == ChangeRule::Reload) {
        let Some(value) = shown(&config, setting.name) else {
            continue;
        };
        config.set(setting.name, &value).unwrap();
        assert_eq!(shown(&config, setting.name), Some(value), "{}", setting.name);
    }
    assert_eq!(config.global, before.global);
}

#[test]
fn set_changes_one_setting() {
    let mut config = config(&sound(""));
    config.set("pool_mode", "Transaction").unwrap();
    config.set("query_timeout", "0.5").unwrap();
    assert_eq!(config.global.pool_mode, PoolMode::Transaction);
    assert_eq!(shown(&config, "query_timeout").as_deref(), Some("0.5"));
}

#[test]
fn set_refuses_and_leaves_everything_as_it_was() {
    let mut config = config(&sound(""));
    let before = config.clone();
    for (key, value, want) in [
        (
            "listen_port",
            "6433",
            "setting \"listen_port\" cannot be changed without a restart",
        ),
        (
            "pool_mod",
            "session",
            "unknown setting \"pool_mod\"\n    hint: did you mean \"pool_mode\"?",
        ),
        (
            "pool_mode",
            "fast",
            "console: error: invalid value \"fast\" for parameter pool_mode: expected session, transaction or statement",
        ),
        ("log_stats", "on", "use 1 for yes"),
        ("client_tls_sslmode", "verify-ca", "client_tls_cert_file must be set"),
        ("auth_type", "hba", "needs auth_hba_file"),
        ("auth_hba_file", "x", "which only RELOAD reads"),
        ("auth_file", "x", "which only RELOAD reads"),
        ("auth_ldap_options", "ldapserver=a", "requires argument"),
    ] {
        let problem = config.set(key, value).unwrap_err().to_string();
        assert!(
            problem.starts_with("console: error: ") && problem.contains(want),
            "{problem}"
        );
    }
    assert_eq!(config, before);
}

/// Guards against rules that nobody passes: while `auth_type` is another one, the files' errors are only warnings.
#[test]
fn set_cannot_choose_rules_that_could_not_be_read() {
    for (hba, ident, why) in [
        ("nonsense\n", "", "could not parse hba config line 1: expected local"),
        ("# none\n", "", "hba.conf: the file contains no entries"),
        ("local all all peer map=m\n", "", "map \"m\" is not in auth_ident_file"),
        (
            "local all all trust\n",
            "m a\n",
            "could not parse ident config line 1: expected three",
        ),
    ] {
        let ini = sound("auth_type = md5\nauth_hba_file = hba.conf\nauth_ident_file = ident.conf");
        let files = [
            ("pgbouncer.ini", ini.as_str()),
            ("users.txt", "\"app\" \"x\"\n"),
            ("hba.conf", hba),
            ("ident.conf", ident),
        ];
        let mut config = load_files(&files).unwrap().config;
        let before = config.clone();
        let refused = config.set("auth_type", "hba").unwrap_err().to_string();
        assert!(refused.contains(why), "{refused}");
        assert_eq!(config, before);
        assert!(config.set("pool_mode", "session").is_ok(), "the files are not used");
    }
}

#[test]
fn kinds_and_units_agree() {
    for setting in CATALOGUE {
        match setting.kind {
            Kind::Seconds => assert_eq!(setting.unit, "seconds", "{}", setting.name),
            Kind::Integer => {}
            _ => assert_eq!(setting.unit, "", "{}", setting.name),
        }
    }
    assert_eq!(
        Setting::find("pool_mode").unwrap().help(),
        "When a server connection goes back to its pool."
    );
}
