//! What a RELOAD may not lose: a file that was cut off would lock everybody out.

use pgweir_config::{Config, Problem};

use crate::support::{assert_one, config, lines, load_files};

const WHOLE: &str = "[pgbouncer]
listen_addr = 127.0.0.1
auth_type = scram-sha-256
auth_file = users.txt
auth_user = looker
auth_dbname = logins
auth_query = SELECT u, p FROM logins.find($1)
admin_users = alice
stats_users = monitor
[databases]
app = host=127.0.0.1
";

/// `WHOLE` without the lines that begin with one of the names.
fn without(names: &[&str]) -> String {
    let stay = |line: &&str| !names.iter().any(|name| line.starts_with(name));
    WHOLE.lines().filter(stay).map(|line| format!("{line}\n")).collect()
}

fn refused(running: &Config, new: &str) -> Vec<Problem> {
    running.reload(config(new)).err().unwrap_or_default()
}

#[test]
fn a_reload_of_a_file_that_was_cut_off_is_refused() {
    let running = config(WHOLE);
    for (at, _) in WHOLE.match_indices('\n').skip(1) {
        let cut = &WHOLE[..at];
        match WHOLE[at..].trim().is_empty() {
            true => assert_eq!(refused(&running, cut), []),
            false => assert_ne!(refused(&running, cut), [], "{cut}"),
        }
    }
}

#[test]
fn a_reload_without_auth_file_keeps_the_users() {
    let running = config(WHOLE);
    let message = "auth_file is not set, so that there is no user, but the running configuration has 1";
    let hint = "the old configuration stays; a restart is needed to have none";
    for lost in ["", "auth_file =\n"] {
        let new = format!("[pgbouncer]\n{lost}{}", without(&["auth_file", "[pgbouncer]"]));
        assert_one(
            &lines(&refused(&running, &new)),
            &["pgbouncer.ini: error: ", message, hint],
        );
    }
    // Who needs no list of users is no exception: a file that was cut off may say so, too.
    let any = "[databases]\napp = host=h user=u\n[pgbouncer]\nauth_type = any\nadmin_users =\n";
    assert!(lines(&refused(&running, any)).iter().any(|line| line.contains(message)));
}

#[test]
fn a_line_that_is_gone_is_not_taken_for_an_empty_one() {
    let running = config(WHOLE);
    for name in ["auth_user", "auth_dbname", "auth_query", "admin_users"] {
        let message = format!("setting \"{name}\" is gone, which the running configuration has");
        let hint = match name {
            "auth_query" => "to do without it, write it with its default, or remove auth_user".to_owned(),
            _ => format!("the old configuration stays; to unset it, write \"{name} =\""),
        };
        assert_one(
            &lines(&refused(&running, &without(&[name]))),
            &[": error: ", &message, &hint],
        );
    }
    for (name, nothing) in [
        ("auth_user", "auth_user =\n"),
        ("auth_dbname", "auth_dbname =\n"),
        ("admin_users", "admin_users =\n"),
    ] {
        let asked = without(&[name]).replacen("[databases]", &format!("{nothing}[databases]"), 1);
        assert_eq!(refused(&running, &asked), [], "{name}");
    }
    assert_eq!(
        refused(&running, &without(&["auth_user", "auth_query", "auth_dbname"])).len(),
        1
    );
    let no_lookups =
        without(&["auth_user", "auth_query", "auth_dbname"]).replace("auth_file", "auth_user =\nauth_file");
    assert_eq!(
        refused(&running, &no_lookups),
        [],
        "they mean nothing without auth_user"
    );
}

/// The console of a file without `stats_users` can still be used by administrators, who can put it right.
#[test]
fn somebody_may_use_the_console_after_a_reload() {
    let running = config(WHOLE);
    assert_eq!(refused(&running, &without(&["stats_users"])), []);
    let without_administrators = config(&without(&["admin_users"]));
    assert_one(
        &lines(&refused(
            &without_administrators,
            &without(&["admin_users", "stats_users"]),
        )),
        &["setting \"stats_users\" is gone"],
    );
}

#[test]
fn a_reload_without_any_database_is_refused() {
    let new = without(&["app"]);
    let message = "the file has no database, but the running configuration has 1";
    assert_one(
        &lines(&refused(&config(WHOLE), &new)),
        &[message, "a restart is needed"],
    );
    let any = WHOLE.replace("app =", "* =");
    assert_one(&lines(&refused(&config(&any), &new)), &[message]);
    assert_eq!(refused(&config(&new), &new), [], "it had none before");
    assert_eq!(refused(&config(WHOLE), &any), []);
}

/// RELOAD undoes a SET; that is no line which is gone.
#[test]
fn what_set_has_named_may_go() {
    let mut running = config(&without(&["admin_users"]));
    running.set("admin_users", "bob").unwrap();
    assert_eq!(refused(&running, &without(&["admin_users"])), []);
}

#[test]
fn files_of_rules_are_not_lost_with_the_line_that_names_them() {
    let load = |ini: &str| {
        let files = [
            ("pgbouncer.ini", ini),
            ("hba", "local all all peer map=m\n"),
            ("ident", "m root app\n"),
            ("users.txt", "\"app\" \"1\"\n"),
        ];
        load_files(&files).map(|loaded| loaded.config)
    };
    let head = "[databases]\napp =\n[pgbouncer]\nauth_file = users.txt\n";
    let hba = format!("{head}auth_type = hba\nauth_hba_file = hba\n");
    let running = load(&format!("{hba}auth_ident_file = ident\n")).unwrap();
    let lost = load(&hba).map_or_else(|e| e, |new| running.reload(new).err().unwrap_or_default());
    assert!(!lost.is_empty(), "without auth_ident_file");
    let ldap = load(&format!(
        "{head}auth_ldap_options = ldapserver=h ldapprefix=x\nauth_type = ldap\n"
    ))
    .unwrap();
    assert_one(
        &lines(
            &ldap
                .reload(load(head).unwrap())
                .expect_err("auth_type stays, and its options are gone"),
        ),
        &["setting \"auth_ldap_options\" is gone"],
    );
    let other = load(&format!("{head}auth_type = md5\n")).unwrap();
    assert!(ldap.reload(other).is_ok(), "nothing reads the options");
}

/// Every setting without which somebody gets in who should not, or what should be encrypted is not, with a value that
/// protects, what else it needs, and the value with which its absence can be asked for.
const PROTECTING: [(&str, &str, &str, &str); 4] = [
    (
        "client_tls_sslmode",
        "require",
        "client_tls_cert_file = users.txt\nclient_tls_key_file = users.txt\n",
        "disable",
    ),
    (
        "client_tls_sslmode",
        "allow",
        "client_tls_cert_file = users.txt\nclient_tls_key_file = users.txt\n",
        "disable",
    ),
    ("server_tls_sslmode", "require", "", "prefer"),
    (
        "server_tls_ca_file",
        "users.txt",
        "server_tls_sslmode = verify-full\n",
        "",
    ),
];

/// Guards against a file that was cut off, after which passwords and rows cross the network in clear text, or a server
/// with a certificate of any authority is trusted.
#[test]
fn encryption_is_not_lost_with_a_line() {
    for (name, value, with, nothing) in PROTECTING {
        let file = |line: &str| without(&[]).replacen("[databases]", &format!("{with}{line}[databases]"), 1);
        let running = config(&file(&format!("{name} = {value}\n")));
        let message = format!("setting \"{name}\" is gone, which the running configuration has");
        let hint = format!("write \"{}\"", format!("{name} = {nothing}").trim_end());
        assert_one(
            &lines(&refused(&running, &file(""))),
            &[": error: ", &message, "the old configuration stays", &hint],
        );
        assert_eq!(refused(&running, &file(&format!("{name} = {nothing}\n"))), [], "{name}");
        let asked_for = config(&file(&format!("{name} = {nothing}\n")));
        assert_eq!(refused(&asked_for, &file("")), [], "nothing is lost: {name}");
    }
}

/// The file of authorities means nothing if no certificate is checked; then the loss of the mode is the one that counts.
#[test]
fn authorities_may_go_with_the_check_of_certificates() {
    let tls = "server_tls_sslmode = verify-full\nserver_tls_ca_file = users.txt\n";
    let file = |lines: &str| without(&[]).replacen("[databases]", &format!("{lines}[databases]"), 1);
    let running = config(&file(tls));
    assert_eq!(refused(&running, &file("server_tls_sslmode = require\n")), []);
    assert_one(
        &lines(&refused(&running, &file(""))),
        &["setting \"server_tls_sslmode\" is gone"],
    );
}
