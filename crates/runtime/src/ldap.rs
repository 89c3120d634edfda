//! Passwords that a directory checks.

mod connection;

use crate::tls::for_directory;
use connection::{Connection, Security};
use ldap3::{Ldap, LdapError, Scope, SearchEntry, dn_escape, ldap_escape};
use pgweir_auth::Password;
use pgweir_config::hba::{LdapBind, LdapOptions, LdapScheme, LdapScope, SearchFilter};
use rustls::ClientConfig;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The time for a connection, TLS included, and for each answer of the directory.
const ANSWER_WAIT_MAX: Duration = Duration::from_secs(10);

/// The time for everything that one login asks directories.
const CONVERSATION_WAIT_MAX: Duration = Duration::from_secs(30);

/// A search is left when the directory has sent this many entries and references; one entry is expected.
const ENTRIES_MAX: usize = 16;

/// A directory, and the time until which its answers count.
struct Directory {
    connection: Connection,
    /// Its host and port, for the log.
    server: String,
    until: Instant,
    /// A search was left before its end, so that its entries may still come before any other answer.
    has_more: bool,
}

impl Directory {
    /// The next request's answer must come in the time that is left.
    fn in_time(&mut self) -> Result<&mut Ldap, String> {
        let wait = time_left(self.until)?;
        Ok(self.connection.ldap.with_timeout(wait))
    }

    /// What went wrong, for the log.
    fn about(&self, why: impl fmt::Display) -> String {
        format!("LDAP server {}: {why}", self.server)
    }
}

/// The time for one answer.
fn time_left(until: Instant) -> Result<Duration, String> {
    match until.saturating_duration_since(Instant::now()) {
        Duration::ZERO => Err(format!("it did not end within {} s", CONVERSATION_WAIT_MAX.as_secs())),
        left => Ok(left.min(ANSWER_WAIT_MAX)),
    }
}

/// The directory's answer to a wrong password: `invalidCredentials` of RFC 4511.
const INVALID_CREDENTIALS: u32 = 49;

/// Characters that have a meaning in distinguished names. A user's name must not contain them if it is used outside of
/// one.
const DN_CHARACTERS: &[char] = &[',', '=', '+', '<', '>', '#', ';', '\\', '"', '/', '*', '(', ')'];

/// Whether the directory accepts the password. Blocks. The error is for the log, and begins with PgBouncer's words where it
/// has any.
pub(crate) fn check(options: &LdapOptions, user: &str, password: &Password) -> Result<(), String> {
    // A name with an empty password is an anonymous bind, which succeeds (RFC 4513, section 5.1.2).
    if password.is_empty() {
        return Err("empty password".into());
    }
    let Ok(password) = std::str::from_utf8(password.as_bytes()) else {
        return Err("the password is not valid UTF-8, which LDAP asks for".into());
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|e| format!("cannot ask LDAP servers: {e}"))?;
    runtime.block_on(async {
        let mut directory = connect(options, Instant::now() + CONVERSATION_WAIT_MAX)
            .await
            .map_err(|why| format!("LDAP login failed for user {}: {why}", user.escape_default()))?;
        let verdict = judge(&mut directory, options, user, password).await;
        directory.connection.close().await;
        verdict
    })
}

async fn judge(directory: &mut Directory, options: &LdapOptions, user: &str, password: &str) -> Result<(), String> {
    let dn = match &options.bind {
        LdapBind::Simple { prefix, suffix } => simple_name(prefix, user, suffix).map_err(|why| directory.about(why))?,
        LdapBind::Search { base_dn, .. } => match find(directory, &options.bind, user).await {
            Ok(dn) => dn,
            Err(why) if directory.has_more => return Err(why),
            Err(why) => {
                pretend(directory, base_dn, user, password).await;
                return Err(why);
            }
        },
    };
    if dn.is_empty() {
        return Err(directory.about("the user has no distinguished name"));
    }
    bind(directory, &dn, password).await.map_err(|why| {
        let (dn, server) = (dn.escape_default(), &directory.server);
        format!("LDAP login failed for user {dn} on server {server}: {why}")
    })
}

/// Connects to the first server that can be reached.
async fn connect(options: &LdapOptions, until: Instant) -> Result<Directory, String> {
    let security = match options.scheme {
        LdapScheme::Ldaps => Security::Tls(Arc::new(tls()?)),
        LdapScheme::Ldap if options.starttls => Security::StartTls(Arc::new(tls()?)),
        LdapScheme::Ldap => Security::Plain,
    };
    let mut problems = Vec::new();
    for (host, port) in &options.servers {
        let server = if host.contains(':') {
            format!("[{host}]:{port}")
        } else {
            format!("{host}:{port}")
        };
        let wait = match time_left(until) {
            Ok(wait) => wait,
            Err(why) => {
                problems.push(format!("{server}: {why}"));
                break;
            }
        };
        let opened = tokio::time::timeout(wait, Connection::open(host, *port, security.clone())).await;
        match opened.unwrap_or_else(|elapsed| Err(LdapError::from(elapsed).to_string())) {
            Ok(connection) => {
                return Ok(Directory {
                    connection,
                    server,
                    until,
                    has_more: false,
                });
            }
            Err(why) => problems.push(format!("{server}: {why}")),
        }
    }
    Err(format!("no LDAP server can be reached: {}", problems.join("; ")))
}

/// TLS with the authorities of the system, and those that libldap would trust.
fn tls() -> Result<ClientConfig, String> {
    let mut trusted = rustls_native_certs::load_native_certs().certs;
    if let Some(file) = own_authorities() {
        let found = rustls_native_certs::load_certs_from_paths(Some(file.as_ref()), None);
        if let Some(e) = found.errors.first() {
            return Err(format!("cannot read the certificates of {file}: {e}"));
        }
        trusted.extend(found.certs);
    }
    for_directory(trusted).map_err(|e| e.to_string())
}

/// The file of authorities in libldap's configuration.
fn own_authorities() -> Option<String> {
    if let Ok(file) = std::env::var("LDAPTLS_CACERT") {
        return Some(file);
    }
    let settings = std::fs::read_to_string("/etc/ldap/ldap.conf").ok()?;
    let mut lines = settings.lines().map(str::split_whitespace);
    lines.find_map(|mut words| {
        (words.next()?.eq_ignore_ascii_case("TLS_CACERT"))
            .then(|| words.next())?
            .map(str::to_owned)
    })
}

/// The name for a simple bind. If the prefix begins a distinguished name, the user's name is escaped as a part of it.
/// In other forms, such as `user@domain`, nothing can be escaped.
fn simple_name(prefix: &str, user: &str, suffix: &str) -> Result<String, String> {
    if prefix.contains('=') {
        return Ok(format!("{prefix}{}{suffix}", dn_escape(user)));
    }
    if user.contains(DN_CHARACTERS) || user.contains(char::is_control) {
        return Err("invalid character in user name for LDAP authentication".into());
    }
    Ok(format!("{prefix}{user}{suffix}"))
}

/// The filter that finds the user.
fn filter_for(filter: &SearchFilter, user: &str) -> String {
    let user = ldap_escape(user);
    match filter {
        SearchFilter::Attribute(attribute) => format!("({attribute}={user})"),
        SearchFilter::Template(text) if text.starts_with('(') => text.replace("$username", &user),
        SearchFilter::Template(text) => format!("({})", text.replace("$username", &user)),
    }
}

/// The distinguished name of the user's entry; exactly one entry must match.
async fn find(directory: &mut Directory, how: &LdapBind, user: &str) -> Result<String, String> {
    let LdapBind::Search {
        base_dn,
        scope,
        bind_dn,
        bind_password,
        filter,
    } = how
    else {
        return Err(directory.about("expected a search"));
    };
    if !bind_dn.is_empty() {
        bind(directory, bind_dn, bind_password)
            .await
            .map_err(|why| directory.about(format_args!("could not bind as \"{bind_dn}\": {why}")))?;
    }
    let scope = match scope {
        LdapScope::Base => Scope::Base,
        LdapScope::One => Scope::OneLevel,
        LdapScope::Sub => Scope::Subtree,
    };
    let found = search(directory, base_dn, scope, &filter_for(filter, user))
        .await
        .map_err(|why| directory.about(format_args!("could not search: {why}")))?;
    let (user, server) = (user.escape_default(), &directory.server);
    match found {
        Found::Nobody => Err(format!("LDAP user \"{user}\" does not exist on server {server}")),
        Found::Several => Err(format!("LDAP user \"{user}\" is not unique on server {server}")),
        Found::One(dn) => Ok(dn),
    }
}

/// What a search has found: distinguished names.
enum Found {
    Nobody,
    One(String),
    Several,
}

async fn search(directory: &mut Directory, base_dn: &str, scope: Scope, filter: &str) -> Result<Found, String> {
    let started = directory
        .in_time()?
        .streaming_search(base_dn, scope, filter, vec!["1.1"])
        .await;
    let mut answers = started.map_err(|e| directory.connection.reason(&e))?;
    let (mut found, mut read) = (Vec::new(), 0);
    while let Some(entry) = answers.next().await.map_err(|e| directory.connection.reason(&e))? {
        time_left(directory.until)?;
        read += 1;
        if read > ENTRIES_MAX {
            directory.has_more = true;
            return Ok(Found::Several);
        }
        if !entry.is_ref() && !entry.is_intermediate() {
            found.push(SearchEntry::construct(entry).dn);
        }
    }
    let result = answers.finish().await.success();
    result.map_err(|e| directory.connection.reason(&e))?;
    Ok(match found.pop() {
        None => Found::Nobody,
        Some(_) if !found.is_empty() => Found::Several,
        Some(dn) => Found::One(dn),
    })
}

/// Asks as many questions about a user who was not found as about one who was, so that the time of the refusal does not
/// reveal which users exist. The bind uses a name that no entry has, and its answer is ignored. The time that the
/// directory needs to compare a password is beyond the pooler's control.
async fn pretend(directory: &mut Directory, base_dn: &str, user: &str, password: &str) {
    let _ = bind(directory, &format!("cn={},{base_dn}", dn_escape(user)), password).await;
}

async fn bind(directory: &mut Directory, dn: &str, password: &str) -> Result<(), String> {
    let answer = directory.in_time()?.simple_bind(dn, password).await;
    let answer = answer.map_err(|e| directory.connection.reason(&e))?;
    // A fault may follow a sound answer.
    if let Some(fault) = directory.connection.fault() {
        return Err(fault.to_string());
    }
    match answer.rc {
        0 => Ok(()),
        INVALID_CREDENTIALS => Err("Invalid credentials".into()),
        _ => Err(answer.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A user's name always stays one value of one attribute.
    #[test]
    fn names_cannot_leave_their_place() {
        let attribute = SearchFilter::Attribute("uid".into());
        assert_eq!(filter_for(&attribute, "alice"), "(uid=alice)");
        assert_eq!(filter_for(&attribute, "*)(uid=admin"), "(uid=\\2a\\29\\28uid=admin)");
        let template = SearchFilter::Template("(&(uid=$username)(active=1))".into());
        assert_eq!(
            filter_for(&template, "x)(|(a=*)"),
            "(&(uid=x\\29\\28|\\28a=\\2a\\29)(active=1))"
        );
        assert_eq!(
            filter_for(&SearchFilter::Template("uid=$username".into()), "a\\b"),
            "(uid=a\\5cb)"
        );
        let dn = simple_name("uid=", "alice,ou=admins", ",ou=people").unwrap();
        assert_eq!(dn, "uid=alice\\2cou\\3dadmins,ou=people");
        assert_eq!(
            simple_name("", "alice", "@example.com").as_deref(),
            Ok("alice@example.com")
        );
        for name in ["cn=admin,dc=x", "a*", "a\nb", "DOM\\a"] {
            assert!(simple_name("", name, "@example.com").is_err(), "{name:?}");
        }
    }

    #[test]
    fn an_empty_password_is_refused_before_anybody_is_asked() {
        let options = LdapOptions::parse("ldapserver=127.0.0.1 ldapport=1 ldapprefix=uid=").unwrap();
        assert_eq!(
            check(&options, "alice", &Password::from("")),
            Err("empty password".into())
        );
        let unreachable = check(&options, "alice", &Password::from("x")).unwrap_err();
        assert!(
            unreachable.starts_with("LDAP login failed for user alice: no LDAP server can be reached: 127.0.0.1:1: "),
            "{unreachable}"
        );
    }
}
