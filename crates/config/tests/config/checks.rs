//! Lines that are valid alone and wrong together.

use crate::support::{assert_one, errors, lines, load_files, sound, warnings};

#[test]
fn a_sound_file_has_nothing_said_about_it() {
    assert_eq!(warnings(&sound("")), [] as [&str; 0]);
    assert_eq!(
        warnings(&sound("pool_mode = transaction\nlisten_addr = 127.0.0.1")),
        [] as [&str; 0]
    );
}

#[test]
fn settings_without_effect_are_named_only_when_set() {
    assert_one(
        &warnings(&sound("pkt_buf = 8192")),
        &["pgbouncer.ini:5: warning: pkt_buf has no effect: "],
    );
    assert_one(
        &errors(&sound("workers = 2")),
        &["unknown parameter: pgbouncer/workers"],
    );
    assert_eq!(
        warnings(&sound(
            "pkt_buf = 4096\ndns_max_ttl = 15.0\nserver_tls_sslmode = disable"
        )),
        [] as [&str; 0]
    );
    assert_eq!(warnings(&sound("server_tls_sslmode = prefer")), [] as [&str; 0]);
}

#[test]
fn demands_for_encryption_are_never_dropped() {
    assert_eq!(warnings(&sound("server_tls_sslmode = verify-full")), [] as [&str; 0]);
    assert_one(
        &warnings(&sound("server_tls_sslmode = verify-ca")),
        &[":5: warning: server_tls_sslmode = verify-ca without server_tls_ca_file accepts whoever"],
    );
    for mode in ["disable", "allow", "prefer"] {
        assert_one(
            &errors(&sound(&format!(
                "server_tls_sslnegotiation = direct\nserver_tls_sslmode = {mode}"
            ))),
            &[&format!(
                "server_tls_sslmode = {mode} may not be used with server_tls_sslnegotiation = direct"
            )],
        );
    }
    assert_eq!(
        warnings(&sound(
            "server_tls_sslnegotiation = direct\nserver_tls_sslmode = require"
        )),
        [] as [&str; 0]
    );
    assert_one(
        &errors(&sound("client_tls_sslmode = allow")),
        &["To allow TLS connections from clients, client_tls_key_file and client_tls_cert_file must be set."],
    );
    let keyed = "client_tls_key_file = k\nclient_tls_cert_file = c\n";
    assert_eq!(
        warnings(&sound(&format!("{keyed}client_tls_sslmode = require"))),
        [] as [&str; 0]
    );
    assert_one(
        &errors(&sound(&format!("{keyed}client_tls_sslmode = verify-ca"))),
        &["client_tls_sslmode requires client_tls_ca_file for verify-ca"],
    );
    assert_one(
        &errors(&sound("server_tls_cert_file = c")),
        &["need each other", "set both"],
    );
    assert_one(
        &errors(&sound("client_tls_ciphers = RC4")),
        &["invalid client_tls_ciphers: RC4: expected a cipher list of OpenSSL"],
    );
    assert_one(
        &errors(&sound("server_tls_protocols = tlsv1.1")),
        &["older versions are not spoken"],
    );
}

/// The pooler could not log in to a server with a verifier that it would have made.
#[test]
fn scram_iterations_have_a_limit() {
    assert_eq!(warnings(&sound("scram_iterations = 1000000")), [] as [&str; 0]);
    for wrong in ["1000001", "0"] {
        assert_one(
            &errors(&sound(&format!("scram_iterations = {wrong}"))),
            &["scram_iterations is not between 1 and 1000000"],
        );
    }
}

/// A method of authentication that lacks what it needs would let in nobody, or the wrong clients.
#[test]
fn ways_to_log_in_need_their_files_and_options() {
    for (word, needs) in [
        ("hba", "auth_type = hba needs auth_hba_file"),
        ("ldap", "auth_type = ldap needs auth_ldap_options"),
        ("cert", "auth_type=cert requires client_tls_sslmode=SSLMODE_VERIFY_FULL"),
    ] {
        assert_one(&errors(&sound(&format!("auth_type = {word}"))), &[needs]);
    }
    assert_eq!(warnings(&sound("auth_type = pam")), [] as [&str; 0]);
    let ldap = |options: &str| sound(&format!("auth_type = ldap\nauth_ldap_options = {options}"));
    assert_eq!(warnings(&ldap("ldapserver=a ldapprefix=\"uid=\"")), [] as [&str; 0]);
    assert_one(
        &errors(&ldap("ldapserver=a")),
        &["pgbouncer.ini:6: error: auth_ldap_options: authentication method \"ldap\" requires argument \"ldapbasedn\""],
    );
}

fn with_hba(auth_type: &str, hba: &str, ident: &str) -> Result<pgweir_config::Loaded, Vec<pgweir_config::Problem>> {
    let settings = format!("auth_type = {auth_type}\nauth_hba_file = hba.conf\nauth_ident_file = ident.conf");
    load_files(&[
        ("pgbouncer.ini", &sound(&settings)),
        ("users.txt", "\"a\" \"x\""),
        ("hba.conf", hba),
        ("ident.conf", ident),
    ])
}

#[test]
fn a_bad_hba_file_is_refused_while_it_is_used() {
    let problems = with_hba("hba", "local all all trust\nhost all all nowhere md5\n", "").unwrap_err();
    assert_one(&lines(&problems), &["hba.conf:2: error: expected an IP address"]);
    let loaded = with_hba("md5", "host all all nowhere md5\n", "").unwrap();
    assert_one(
        &lines(&loaded.warnings),
        &["hba.conf:1: warning: expected an IP address"],
    );
    assert!(loaded.config.login_rules.hba.is_none());
    let problems = with_hba("hba", "local all all peer map=m\n", "n a b\n").unwrap_err();
    assert_one(
        &lines(&problems),
        &["hba.conf:1: error: map \"m\" is not in auth_ident_file"],
    );
    for empty in ["", "# local all all trust\n\n"] {
        let problems = with_hba("hba", empty, "").unwrap_err();
        assert_one(&lines(&problems), &["hba.conf: error: the file contains no entries"]);
    }
    let problems = with_hba("hba", "local all all trust\n", "m a\n").unwrap_err();
    assert_one(&lines(&problems), &["ident.conf:1: error: expected three columns"]);
    let missing = sound("auth_type = hba\nauth_hba_file = none.conf");
    assert_one(
        &errors(&missing),
        &["none.conf: error: could not open hba config file none.conf: "],
    );
}

/// If the file no longer names `auth_type` the running value stays. Then the rules must stay, too, unless the file has
/// usable ones.
#[test]
fn a_reload_never_takes_the_rules_away() {
    let running = with_hba("hba", "local all all trust\n", "").unwrap().config;
    let load = |settings: &str, hba: &str| {
        let text = sound(settings);
        let files = [
            ("pgbouncer.ini", text.as_str()),
            ("users.txt", "\"a\" \"x\""),
            ("hba.conf", hba),
            ("ident.conf", ""),
        ];
        load_files(&files).unwrap().config
    };
    for (hba, why) in [
        ("nonsense\n", "hba.conf:1: error:"),
        ("", "hba.conf: error: the file contains no entries"),
    ] {
        let refused = running
            .reload(load("auth_hba_file = hba.conf\nauth_ident_file = ident.conf", hba))
            .unwrap_err();
        assert_one(&lines(&refused), &[why]);
    }
    let unused = load("auth_type = trust\nauth_hba_file = hba.conf", "");
    assert!(running.reload(unused).is_ok(), "the rules are not used");
    let reload = running.reload(load("", "")).unwrap();
    assert_eq!(reload.config.login_rules, running.login_rules);
    assert_eq!(
        reload.config.global.auth_hba_file, "hba.conf",
        "what is in use is shown"
    );
    let other = with_hba("hba", "local all all reject\n", "").unwrap().config;
    let reload = running.reload(other.clone()).unwrap();
    assert!(reload.changes.login_rules);
    assert_eq!(reload.config.login_rules, other.login_rules);
}

#[test]
fn nowhere_to_listen_is_an_error() {
    assert_one(
        &errors("[databases]\na = host=h\n[pgbouncer]\nauth_file=users.txt\nunix_socket_dir=\n"),
        &["pgbouncer.ini:5: error: there is nothing to listen on"],
    );
}

#[test]
fn nobody_who_could_log_in() {
    let base = "[databases]\na = host=h\n[pgbouncer]\n";
    assert_one(
        &warnings(base),
        &["pgbouncer.ini: warning: no user can log in: auth_type = md5 needs auth_file"],
    );
    assert_eq!(warnings(&format!("{base}auth_user = x")), [] as [&str; 0]);
    assert_eq!(
        warnings("[databases]\n* = host=h auth_user=x\n[pgbouncer]\n"),
        [] as [&str; 0]
    );
    assert_one(&warnings(&sound("auth_query = select 1")), &["auth_query is not used"]);
}

/// The owner of a database chooses its search_path, and so what names without a schema mean there.
#[test]
fn auth_query_in_databases_of_others() {
    let unsafe_query = "auth_query = select usename, passwd from pg_shadow where usename=$1";
    let says = "the owner of a database can make auth_query run code as auth_user";
    let of_file = sound(&format!("auth_user = x\n{unsafe_query}"));
    assert_one(&warnings(&of_file), &["pgbouncer.ini:6: warning: ", says]);
    for harmless in [
        "auth_user = x".to_string(),
        "auth_user = x\nauth_query = select * from pgbouncer.user_lookup($1)".to_string(),
        format!("auth_user = x\nauth_dbname = app\n{unsafe_query}"),
    ] {
        assert_eq!(warnings(&sound(&harmless)), [] as [&str; 0], "{harmless}");
    }
    let line = |more: &str| format!("[databases]\na = host=h {more}\n[pgbouncer]\nauth_file=users.txt\n");
    let one = line("auth_user=x auth_query='select * from f($1)'");
    assert_one(
        &warnings(&one),
        &["pgbouncer.ini:2: warning: the owner of a database can make database \"a\"'s auth_query run code"],
    );
    assert_eq!(
        warnings(&line("auth_user=x auth_dbname=a auth_query='select * from f($1)'")),
        [] as [&str; 0]
    );
}

#[test]
fn hashes_that_scram_cannot_use() {
    let loaded = load_files(&[
        ("pgbouncer.ini", &sound("auth_type = scram-sha-256")),
        (
            "users.txt",
            "\"a\" \"md545f2603610af569b6155c45067268c6b\"\n\"b\" \"md545f2603610af569b6155c45067268c6b\"\n\"c\" \"x\"",
        ),
    ])
    .unwrap();
    assert_one(
        &lines(&loaded.warnings),
        &["pgbouncer.ini:4: warning: user \"a\" and 1 more cannot log in"],
    );
}

#[test]
fn open_doors() {
    let any = warnings("[databases]\na = host=h user=u\nb = host=h\n[pgbouncer]\nauth_type = any\n");
    assert!(
        any[0].contains(":3: warning: database \"b\" cannot be used: auth_type = any needs a user"),
        "{any:#?}"
    );
    assert!(any[1].contains("makes everyone an administrator"));
    assert_eq!(any.len(), 2);
    assert_one(
        &warnings(&sound("auth_type = trust\nlisten_addr = *")),
        &["auth_type = trust lets other machines in"],
    );
    assert_eq!(
        warnings(&sound("auth_type = trust\nlisten_addr = localhost")),
        [] as [&str; 0]
    );
    assert_one(
        &warnings(&sound("auth_type = plain\nlisten_addr = 0.0.0.0")),
        &["in clear text"],
    );
    assert_one(&warnings(&sound("scram_iterations = 1000")), &["below 4096"]);
}

#[test]
fn sizes_that_cannot_be_reached() {
    assert_one(
        &warnings(&sound("min_pool_size = 30")),
        &["min_pool_size 30 is above default_pool_size 20"],
    );
    assert_one(
        &warnings(&sound("max_db_connections = 10")),
        &["pools can never fill: max_db_connections 10"],
    );
    assert_one(
        &warnings(&sound("max_user_connections = 10")),
        &["max_user_connections 10 is below"],
    );
    assert_one(
        &warnings(&sound("reserve_pool_size=1\nreserve_pool_timeout=0")),
        &["the reserve is never used"],
    );
    assert_one(&warnings(&sound("max_client_conn = 0")), &["lets no client in"]);
    assert_one(
        &warnings(&sound(
            "default_pool_size=5\n[databases]\nb = host=h pool_size=2 min_pool_size=3",
        )),
        &[":7: warning: database \"b\": min_pool_size 3 is above the pool's size 2"],
    );
    assert_one(
        &warnings(&sound("[databases]\nb = host=h max_db_connections=2")),
        &["database \"b\": its pools can never fill: max_db_connections 2 is below their size 20"],
    );
    assert_eq!(
        warnings(&sound(
            "default_pool_size = 0\nmin_pool_size = 5\nmax_db_connections = 9"
        )),
        [] as [&str; 0]
    );
}

#[test]
fn zeroes_that_do_not_switch_off() {
    let text = sound(
        "query_timeout = 5\nmax_db_connections = 30\n[users]\nu = query_timeout=0 transaction_timeout=0\n\
                      [databases]\nb = host=h max_db_connections=0",
    );
    let texts = warnings(&text);
    assert_eq!(texts.len(), 2, "{texts:#?}");
    assert!(
        texts[0].contains("query_timeout=0 stands here for the global value, which is 5"),
        "{texts:#?}"
    );
    assert!(texts[1].contains("max_db_connections=0 stands here for the global value, which is 30"));
}

#[test]
fn reset_queries_that_do_nothing_or_harm() {
    assert_one(
        &warnings(&sound("pool_mode = statement\nserver_reset_query = DISCARD ALL")),
        &["server_reset_query is not used"],
    );
    assert_eq!(warnings(&sound("server_reset_query = DISCARD ALL")), [] as [&str; 0]);
    assert_eq!(
        warnings(&sound("pool_mode = statement\nserver_reset_query =")),
        [] as [&str; 0]
    );
    let mixed = sound("pool_mode = statement\nserver_reset_query = DISCARD ALL\n[users]\nu = pool_mode=session");
    assert_eq!(warnings(&mixed), [] as [&str; 0]);
    assert_one(
        &warnings(&sound("pool_mode = transaction\nserver_reset_query_always = 1")),
        &["round trip per transaction"],
    );
    assert_one(
        &warnings(&sound("server_reset_query = ROLLBACK; DISCARD ALL")),
        &["rolls back where no transaction"],
    );
    assert_one(
        &warnings(&sound("server_lifetime = 0")),
        &["each server connection once"],
    );
}

#[test]
fn databases_that_lead_nowhere() {
    assert_one(
        &warnings("[pgbouncer]\nauth_file=users.txt\n"),
        &["no databases are defined"],
    );
    assert_one(
        &warnings(&sound("listen_addr=127.0.0.1\nunix_socket_dir=\n[databases]\nb =")),
        &["database \"b\" has no host, and unix_socket_dir is empty"],
    );
    assert_one(
        &warnings(&sound("[databases]\nb = port=6432")),
        &["database \"b\" connects to this pooler itself"],
    );
    assert_one(
        &warnings(&sound("listen_addr=::1\n[databases]\nb = host=localhost port=6432")),
        &["to this pooler itself"],
    );
    assert_eq!(
        warnings(&sound(
            "[databases]\nb = host=localhost port=6432\nc = host=/other port=6432"
        )),
        [] as [&str; 0]
    );
    assert_one(
        &warnings(&sound("[databases]\nb = host=h password=x")),
        &["password= is not used without user="],
    );
    let long = "x".repeat(64);
    assert_one(
        &warnings(&sound(&format!("[databases]\n{long} = host=h"))),
        &["more than 63 bytes"],
    );
    assert_eq!(
        warnings(&sound(&format!("[databases]\n{long} = host=h dbname=short"))),
        [] as [&str; 0]
    );
}

#[test]
fn authentication_databases_that_are_none() {
    assert_one(
        &warnings(&sound("auth_dbname = nope")),
        &["authentication database \"nope\" is not configured"],
    );
    assert_one(
        &errors(&sound("auth_dbname = pgbouncer")),
        &["cannot use the reserved \"pgbouncer\" database as an auth_dbname"],
    );
    assert_eq!(warnings(&sound("auth_dbname = app")), [] as [&str; 0]);
    assert_one(
        &warnings(&sound("[databases]\nb = host=h auth_dbname=nope")),
        &[":6: warning: authentication database"],
    );
    assert_one(
        &warnings(&sound("[databases]\nb = host=h auth_dbname=pgbouncer")),
        &[":6: warning: cannot use the reserved \"pgbouncer\" database as an auth_dbname"],
    );
}

#[test]
fn modes_written_in_decimal() {
    assert_one(
        &warnings(&sound("unix_socket_mode = 777")),
        &["unix_socket_mode is 1411 in octal", "leading 0"],
    );
    assert_one(&warnings(&sound("listen_port = 0")), &["lets the kernel choose"]);
}

#[test]
fn peers_alone_and_out_of_range() {
    assert_one(&warnings(&sound("peer_id = 3")), &["there are no peers"]);
    let errors = errors(&sound("peer_id = 20000"));
    assert!(
        errors
            .iter()
            .any(|text| text.contains("error: peer_id 20000 is above 16383")),
        "{errors:#?}"
    );
    assert_one(
        &warnings(&sound("[peers]\n20000 = host=a")),
        &["peer id 20000 is above 16383"],
    );
}

#[test]
fn what_can_be_no_host_is_named() {
    let of = |host: &str| warnings(&sound(&format!("[databases]\nb = host={host}")));
    for (host, hint) in [
        ("10.0.0.1:5433", "name the port with port="),
        ("[::1]", "without brackets"),
        ("run/postgresql", "begins with a slash"),
        ("10.0.0.300", "four numbers up to 255"),
        ("db;other", "by commas"),
        ("10.0.0.1,10.0.0.2:5432", "name the port with port="),
    ] {
        assert_one(&of(host), &["is neither an address nor a host name", hint]);
    }
    for host in [
        "db-1.example.com",
        "my_db",
        "bücher.example",
        "::1",
        "/run/postgresql",
        "@pg",
        "1a",
    ] {
        assert_eq!(of(host), [] as [&str; 0], "{host}");
    }
}
