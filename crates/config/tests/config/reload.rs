//! What a RELOAD changes, keeps and warns about.

use pgweir_config::{AuthType, Changes, DatabaseChange, Reload};

use crate::support::{assert_one, config, errors, lines, load_files, sound};

fn reload(old: &str, new: &str) -> Reload {
    config(&sound(old)).reload(config(&sound(new))).unwrap()
}

#[test]
fn the_same_file_changes_nothing() {
    let reload = reload("verbose = 1", "verbose = 1");
    assert!(reload.changes.is_empty() && reload.warnings.is_empty());
}

#[test]
fn changed_settings_are_listed_with_both_values() {
    let reload = reload("query_timeout = 5", "query_timeout = 6\nlog_stats = 0");
    let changes: Vec<_> = reload
        .changes
        .settings
        .iter()
        .map(|c| (c.name, c.old.as_deref().unwrap(), c.new.as_deref().unwrap()))
        .collect();
    assert_eq!(changes, [("log_stats", "1", "0"), ("query_timeout", "5", "6")]);
    assert!(reload.changes.has_setting("log_stats") && !reload.changes.has_setting("verbose"));
}

#[test]
fn settings_that_need_a_restart_stay() {
    let reload = reload("listen_port = 7000", "listen_port = 7001\nverbose = 3");
    assert_eq!(
        (reload.config.global.listen_port, reload.config.global.verbose),
        (7000, 3)
    );
    assert!(!reload.changes.has_setting("listen_port"));
    assert_one(
        &lines(&reload.warnings),
        &[
            "pgbouncer.ini: warning: setting \"listen_port\" stays \"7000\" until a restart",
            "the file now says \"7001\"",
        ],
    );
    // The next RELOAD warns again: the file still differs from the running configuration.
    let again = reload.config.reload(config(&sound("listen_port = 7001"))).unwrap();
    assert_eq!((again.config.global.listen_port, again.warnings.len()), (7000, 1));
}

#[test]
fn what_a_file_no_longer_names_keeps_running() {
    let reload = reload(
        "unix_socket_dir = /run/x\npidfile = /run/p\nauth_type = trust\nverbose = 1",
        "",
    );
    let global = &reload.config.global;
    assert_eq!(
        (global.pidfile.as_str(), global.auth_type, global.verbose),
        ("/run/p", AuthType::Trust, 0)
    );
    assert!(reload.warnings.is_empty());
    assert_eq!(
        reload.changes.settings.iter().map(|c| c.name).collect::<Vec<_>>(),
        ["verbose"]
    );
    let named = reload.config.reload(config(&sound("auth_type = plain"))).unwrap();
    assert_eq!(named.config.global.auth_type, AuthType::Plain);
}

#[test]
fn set_lasts_until_the_next_reload() {
    let mut running = config(&sound("query_timeout = 5"));
    running.set("query_timeout", "9").unwrap();
    running.set("verbose", "2").unwrap();
    let reload = running.reload(config(&sound("query_timeout = 5"))).unwrap();
    assert_eq!(reload.config.query_timeout("x").unwrap().as_secs(), 5);
    assert_eq!(reload.config.global.verbose, 0);
}

#[test]
fn databases_are_sorted_by_what_must_happen() {
    let old = "[databases]\na = host=h\nb = host=h\nc = host=h\nd = host=h\ne = host=h password=1 user=u\nsame = host=h\n* = host=h";
    let new = "[databases]\nb = host=i\nc = host=h pool_size=3\ne = host=h password=2 user=u\nf = host=h\nsame = host=h\n\
               d = host=h timezone=UTC\n* = host=i";
    let changes = reload(old, new).changes.databases;
    let list: Vec<_> = changes.iter().map(|(name, change)| (name.as_str(), *change)).collect();
    assert_eq!(
        list,
        [
            ("*", DatabaseChange::Reconnect),
            ("a", DatabaseChange::Removed),
            ("b", DatabaseChange::Reconnect),
            ("c", DatabaseChange::Adjusted),
            ("d", DatabaseChange::Reconnect),
            ("e", DatabaseChange::Reconnect),
            ("f", DatabaseChange::Added),
        ]
    );
}

#[test]
fn users_secrets_and_peers_are_listed_by_name() {
    let files = |users: &'static str, secrets: &'static str| {
        load_files(&[("pgbouncer.ini", &sound(users)), ("users.txt", secrets)])
            .unwrap()
            .config
    };
    let old = files(
        "[users]\na = pool_size=1\nb = pool_size=1\n[peers]\n1 = host=a",
        "\"x\" \"1\"\n\"y\" \"1\"\n\"z\" \"1\"",
    );
    let new = files(
        "[users]\na = pool_size=2\nc = pool_size=1\n[peers]\n1 = host=b",
        "\"x\" \"2\"\n\"y\" \"1\"\n\"w\" \"1\"",
    );
    let changes = Changes::between(&old, &new);
    assert_eq!(changes.users.iter().collect::<Vec<_>>(), ["a", "b", "c"]);
    assert_eq!(changes.auth_users.iter().collect::<Vec<_>>(), ["w", "x", "z"]);
    assert_eq!(changes.peers.iter().collect::<Vec<_>>(), [&1]);
    assert!(changes.databases.is_empty() && changes.settings.is_empty());
}

/// Guards against locking out all users: a password file is missing, or empty for a moment while it is written.
#[test]
fn a_reload_keeps_the_users_when_their_file_is_gone_or_empty() {
    let ini = sound("query_timeout = 5");
    let with = |users: Option<&str>| {
        let files = [
            ("pgbouncer.ini", ini.as_str()),
            ("users.txt", users.unwrap_or_default()),
        ];
        let there = if users.is_some() { 2 } else { 1 };
        load_files(&files[..there]).expect("a start goes on").config
    };
    let running = config(&sound(""));
    for (users, message) in [
        (None, "could not open auth_file users.txt: "),
        (Some(""), "auth_file names no user, but the running configuration has 1"),
        (Some("; nobody\n\"app\n"), "auth_file names no user"),
    ] {
        let refused = running.reload(with(users)).expect_err(message);
        assert_one(&lines(&refused), &[": error: ", message]);
    }
    assert!(running.reload(with(Some("\"b\" \"2\""))).is_ok());
    let nobody = with(Some(""));
    assert!(nobody.reload(with(Some(""))).is_ok(), "it had none before");
}

/// Guards against closing every client: the configuration file was emptied while it was written.
#[test]
fn a_reload_of_an_empty_file_is_refused() {
    let running = config(&sound(""));
    for blank in ["[pgbouncer]\n", "[databases]\n[pgbouncer]\n"] {
        let refused = running.reload(config(blank)).expect_err(blank);
        assert_one(
            &lines(&refused),
            &["pgbouncer.ini: error: the file has no setting and no database"],
        );
        assert!(config(blank).reload(config(blank)).is_ok(), "it had nothing before");
    }
    for without_main_section in ["", "; nothing\n", "[databases]\na = host=h\n"] {
        let missing = "pgbouncer.ini: error: main section missing from config file";
        assert!(errors(without_main_section)[0].starts_with(missing));
    }
}
