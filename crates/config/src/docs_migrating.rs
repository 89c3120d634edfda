//! The tables of `docs/migrating-from-pgbouncer.md` about settings: how each compares with PgBouncer 1.26.

use crate::catalogue::CATALOGUE;
use crate::docs::line_sections;
use crate::setting::{Setting, Support};
use std::fmt::Write;

/// How a setting compares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    /// It does the same as in PgBouncer.
    Same,
    /// It does the same, and more, or more safely.
    Better,
    /// It does something different, or nothing.
    Different,
    /// PgBouncer does not have it.
    Own,
}

use Verdict::{Better, Different, Own, Same};

impl Verdict {
    fn word(self) -> &'static str {
        match self {
            Same => "same",
            Better => "better",
            Different => "different",
            Own => "pgweir's own",
        }
    }
}

/// The settings that are not the same: names, verdict, explanation. Names of keys in other sections begin with the
/// section.
const NOTES: [(&[&str], Verdict, &str); 38] = [
    (
        &["auth_file"],
        Better,
        "a RELOAD that would leave no user, or with a file that cannot be read, is refused; a malformed SCRAM secret is not taken for a password",
    ),
    (
        &["admin_users", "auth_dbname", "auth_user", "stats_users"],
        Better,
        "a RELOAD is refused if the file was cut off before this line; to unset the setting, leave the line without a value",
    ),
    (
        &["client_tls_sslmode", "server_tls_sslmode"],
        Better,
        "a RELOAD is refused if the file was cut off before a line that asks for TLS; to do without, write `disable` or `prefer`",
    ),
    (
        &["auth_hba_file"],
        Better,
        "the format of PostgreSQL 16; a file with a bad line, or without a rule, is refused; PgBouncer ignores bad lines. `10.0.0.1/8` is read as `10.0.0.0/8`, as in PostgreSQL, with a warning; in PgBouncer such a line matches nobody",
    ),
    (
        &["auth_ident_file"],
        Better,
        "regular expressions where PostgreSQL 16 allows them, in most of their syntax ([differences](differences.md)); a file with a bad line is refused",
    ),
    (&["auth_ldap_options"], Better, "names are escaped; sixteen threads"),
    (
        &["auth_query"],
        Different,
        "the default names the schema of each table, function and operator, so that the search_path of a database or of `auth_user` does not matter; a query of your own that does not is warned about; the connection that runs the query never has a client's startup parameters; if the query cannot run, errors do not reveal which users exist",
    ),
    (
        &["auth_type"],
        Better,
        "SCRAM-SHA-256-PLUS for clients with TLS; an empty password is always refused",
    ),
    (
        &[
            "client_tls_ca_file",
            "client_tls_cert_file",
            "client_tls_key_file",
            "server_tls_ca_file",
            "server_tls_cert_file",
            "server_tls_key_file",
        ],
        Better,
        "a RELOAD or SET with a file that cannot be used is refused",
    ),
    (
        &["client_tls_ciphers", "server_tls_ciphers"],
        Different,
        "suites without forward secrecy or authenticated encryption do not exist. As in PgBouncer, a name that does not exist adds nothing, and a list without any suite is an error. Names in small letters are accepted, too",
    ),
    (
        &["client_tls_ecdhcurve"],
        Different,
        "X25519, P-256 and P-384: the TLS library has no others, such as secp521r1. More than one may be named; one that does not exist is left out with a warning, and is an error if there is no other",
    ),
    (
        &["client_tls13_ciphers", "server_tls13_ciphers"],
        Different,
        "TLS_AES_256_GCM_SHA384, TLS_AES_128_GCM_SHA256 and TLS_CHACHA20_POLY1305_SHA256: the TLS library has no others, such as TLS_AES_128_CCM_SHA256. One that does not exist is left out with a warning, and is an error if there is no other. Names in small letters, and blanks between names, are accepted, too",
    ),
    (
        &["client_tls_protocols", "server_tls_protocols"],
        Different,
        "TLS 1.2 and 1.3 only; an empty value stands for both, as in PgBouncer",
    ),
    (
        &[
            "auth_query_cache_time",
            "deferred_begin",
            "fair_by",
            "inspect_bytes_max",
            "io_uring",
            "link",
            "max_notification_backlog",
            "parse_without_server",
            "pin_idle_timeout",
            "pipeline_depth",
            "pool_size_max",
            "queue_target",
            "server_down_wait",
            "server_tls_sslnegotiation",
            "session_state",
            "session_state_probe",
            "sizing",
            "[databases] target_session_attrs",
            "[databases] weight",
            "[users] weight",
        ],
        Own,
        "",
    ),
    (
        &["disable_pqexec"],
        Better,
        "the console takes a Query; PgBouncer refuses it there, too, so that nobody can use the console",
    ),
    (
        &["dns_max_ttl"],
        Better,
        "the lifetime of a DNS record counts if it is shorter; PgBouncer ignores it",
    ),
    (
        &["idle_transaction_timeout", "transaction_timeout"],
        Better,
        "counts from the client's BEGIN, also while the BEGIN waits for a server",
    ),
    (
        &["peer_id"],
        Different,
        "from 1 to 16383; PgBouncer does not refuse greater numbers",
    ),
    (
        &["ignore_startup_parameters"],
        Better,
        "seldom needed: every setting of PostgreSQL's is accepted at startup, and follows its client",
    ),
    (
        &["tcp_socket_buffer"],
        Different,
        "a RELOAD that takes it away concerns new clients only after a restart: they inherit the size from the listening socket",
    ),
    (
        &["tcp_defer_accept"],
        Different,
        "is a time in seconds; PgBouncer takes 1 second for each value but 0",
    ),
    (
        &["user"],
        Better,
        "the process keeps the other groups of the user; PgBouncer's has only the primary one",
    ),
    (
        &["[users] client_idle_timeout"],
        Better,
        "concerns its user alone; if PgBouncer's own client_idle_timeout is 0, it closes idle clients of other users, too",
    ),
    (
        &["max_client_conn"],
        Better,
        "connections that have not logged in do not count, but are limited",
    ),
    (
        &["max_prepared_statements"],
        Better,
        "SQL's PREPARE and the unnamed statement follow a client as well",
    ),
    (
        &["scram_iterations"],
        Better,
        "a user who does not exist has an iteration count that users of `auth_file`, or users whom auth_query has found, have, so that the count does not tell who exists",
    ),
    (
        &["server_check_query"],
        Better,
        "a server is given to a client only after it has answered the query; a console does not get the query",
    ),
    (
        &["server_connect_timeout"],
        Same,
        "if the host does not even take the connection, PgBouncer's reason is `connect failed`, and pgweir's `connect timeout`",
    ),
    (
        &["server_login_retry"],
        Better,
        "a server that cannot be reached is tried again at least once a second while a client waits",
    ),
    (
        &["server_reset_query"],
        Better,
        "afterwards the pooler also checks for state that the query does not remove; a console does not get the query",
    ),
    (
        &["service_name"],
        Better,
        "accepted without effect, with a warning; PgBouncer has it on Windows only, and elsewhere refuses the file",
    ),
    (
        &["suspend_timeout"],
        Different,
        "PgBouncer 1.26 reads it and does not show it in SHOW CONFIG",
    ),
    (
        &["tcp_keepcnt", "tcp_keepidle", "tcp_keepintvl"],
        Better,
        "a value that Linux does not take is refused; PgBouncer accepts it, and then closes every TCP connection",
    ),
    (
        &["track_extra_parameters"],
        Different,
        "SHOW CONFIG shows its default; in PgBouncer an empty text. It has no effect: every parameter that a server reports follows its client",
    ),
    (
        &["verbose"],
        Different,
        "SHOW CONFIG shows its default, 0; in PgBouncer null",
    ),
    (
        &[
            "[users] transaction_timeout",
            "[users] idle_transaction_timeout",
            "[databases] auth_query",
        ],
        Better,
        "as in [pgbouncer]",
    ),
    (
        &["[users] query_wait_timeout"],
        Better,
        "counts whether or not [pgbouncer] or the database has a limit, too",
    ),
    (
        &["[databases] connect_query"],
        Better,
        "after RESET a client has the values that `connect_query` has set, on every server",
    ),
];

/// The verdict on a setting, by its name, and the explanation.
fn verdict(name: &str, support: Support) -> (Verdict, String) {
    let noted = NOTES.iter().find(|(names, _, _)| names.contains(&name));
    match (noted, support) {
        (Some((_, verdict, note)), _) => (*verdict, (*note).to_string()),
        (None, Support::Full) => (Same, String::new()),
        (None, Support::AcceptedNoEffect(why)) => (Different, format!("accepted without effect: {why}")),
    }
}

/// A table of every setting of `[pgbouncer]`, and one of the keys of the other sections.
pub fn settings_compared() -> String {
    let mut out = String::from("| setting | | |\n|---|---|---|\n");
    for Setting { name, support, .. } in CATALOGUE {
        let (verdict, note) = verdict(name, *support);
        let word = verdict.word();
        writeln!(out, "| [`{name}`](settings.md#{name}) | {word} | {note} |").expect("a String takes all");
    }
    out.push_str("\n| section | key | | |\n|---|---|---|---|\n");
    for (section, _, keys) in line_sections() {
        for key in keys {
            let name = key.name;
            let (verdict, note) = verdict(&format!("[{section}] {name}"), Support::Full);
            let word = verdict.word();
            writeln!(out, "| [{section}] | `{name}` | {word} | {note} |").expect("a String takes all");
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_note_is_about_a_setting() {
        let table = settings_compared();
        for name in NOTES.iter().flat_map(|(names, _, _)| *names) {
            let row = match name.split_once("] ") {
                Some((section, key)) => format!("| {section}] | `{key}` |"),
                None => format!("| [`{name}`]("),
            };
            assert!(table.contains(&row), "{name}");
        }
    }

    #[test]
    fn what_has_no_effect_is_not_called_the_same() {
        for setting in CATALOGUE.iter().filter(|s| s.support != Support::Full) {
            let (verdict, note) = verdict(setting.name, setting.support);
            assert!(
                verdict != Same && !(verdict == Different && note.is_empty()),
                "{}",
                setting.name
            );
        }
    }
}
