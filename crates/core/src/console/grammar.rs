//! What a console user may type.
//!
//! PgBouncer's grammar is `WORD [WORD] [;]` and `SET key =|TO value`. On top of it stand the statements that drivers send
//! by themselves when they connect, begin, commit, reset or ping, so that every driver can read the console: comments, the
//! empty statement, `BEGIN` and its kin, `SET` of session settings, `RESET`, `DISCARD` and `DEALLOCATE`.

use crate::console::refusal::Refusal;
use pgweir_config::Setting;

/// Bytes of a command that an error message repeats.
const QUOTED_BYTES_MAX: usize = 200;

/// A table to look at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, pgweir_freeze::Freeze)]
pub(crate) enum Show {
    ActiveSockets,
    Clients,
    Config,
    Databases,
    DnsHosts,
    DnsZones,
    Fds,
    Listeners,
    Lists,
    Mem,
    PeerPools,
    Peers,
    Pins,
    Pools,
    /// SHOW POOLS EXTENDED: what PgBouncer does not show, too.
    PoolsExtended,
    Servers,
    /// The session of one client, by the number that SHOW CLIENTS calls its id.
    Session(u32),
    Sockets,
    State,
    StateStats,
    Stats,
    StatsAverages,
    StatsTotals,
    Totals,
    Users,
    Version,
    /// A session setting that drivers ask for: its place in [`SESSION_VALUES`].
    SessionValue(usize),
}

/// The words behind SHOW.
const SHOWS: [(&str, Show); 24] = [
    ("active_sockets", Show::ActiveSockets),
    ("clients", Show::Clients),
    ("config", Show::Config),
    ("databases", Show::Databases),
    ("dns_hosts", Show::DnsHosts),
    ("dns_zones", Show::DnsZones),
    ("fds", Show::Fds),
    ("listeners", Show::Listeners),
    ("lists", Show::Lists),
    ("mem", Show::Mem),
    ("peer_pools", Show::PeerPools),
    ("peers", Show::Peers),
    ("pins", Show::Pins),
    ("pools", Show::Pools),
    ("servers", Show::Servers),
    ("sockets", Show::Sockets),
    ("state", Show::State),
    ("state_stats", Show::StateStats),
    ("stats", Show::Stats),
    ("stats_averages", Show::StatsAverages),
    ("stats_totals", Show::StatsTotals),
    ("totals", Show::Totals),
    ("users", Show::Users),
    ("version", Show::Version),
];

/// Session settings the console seems to have, and their values.
pub(crate) const SESSION_VALUES: [(&str, &str); 5] = [
    ("client_encoding", "UTF-8"),
    ("datestyle", "ISO"),
    ("default_transaction_isolation", "read committed"),
    ("standard_conforming_strings", "on"),
    ("timezone", "GMT"),
];

/// Session settings that drivers set by themselves; setting them here does nothing.
const SESSION_SETTINGS: [&str; 20] = [
    "bytea_output",
    "client_encoding",
    "client_min_messages",
    "datestyle",
    "default_transaction_isolation",
    "default_transaction_read_only",
    "extra_float_digits",
    "idle_in_transaction_session_timeout",
    "intervalstyle",
    "jit",
    "lock_timeout",
    "names",
    "role",
    "search_path",
    "ssl_renegotiation_limit",
    "standard_conforming_strings",
    "statement_timeout",
    "synchronous_commit",
    "timezone",
    "transaction_timeout",
];

/// How SHUTDOWN is to go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, pgweir_freeze::Freeze)]
pub(crate) enum Shutdown {
    Now,
    WaitForClients,
    WaitForServers,
}

/// One command, read.
#[derive(Debug, Clone, PartialEq, Eq, pgweir_freeze::Freeze)]
pub(crate) enum Command {
    /// Nothing but blanks, comments and a semicolon: what drivers ping with.
    Empty,
    Help,
    Show(Show),
    /// A setting of the pooler.
    Set {
        key: String,
        value: String,
    },
    /// `SET application_name`: SHOW CLIENTS shows it.
    SetApplicationName(String),
    /// A session setting that has no meaning here.
    SetSession,
    Begin,
    Commit,
    Rollback,
    /// RESET, DISCARD, DEALLOCATE: acknowledged with this tag.
    Acknowledge(&'static str),
    Pause(Option<String>),
    Resume(Option<String>),
    Disable(String),
    Enable(String),
    Reconnect(Option<String>),
    Kill(Option<String>),
    KillClient(String),
    Suspend,
    Reload,
    Shutdown(Shutdown),
    WaitClose(Option<String>),
}

impl Command {
    /// The verb and the database of an order about databases; none where it is about all of them.
    pub(crate) fn about_database(&self) -> Option<(&'static str, Option<&str>)> {
        match self {
            Command::Pause(database) => Some(("PAUSE", database.as_deref())),
            Command::Resume(database) => Some(("RESUME", database.as_deref())),
            Command::Reconnect(database) => Some(("RECONNECT", database.as_deref())),
            Command::Kill(database) => Some(("KILL", database.as_deref())),
            Command::WaitClose(database) => Some(("WAIT_CLOSE", database.as_deref())),
            Command::Disable(database) => Some(("DISABLE", Some(database))),
            Command::Enable(database) => Some(("ENABLE", Some(database))),
            _ => None,
        }
    }

    /// Reads one command.
    pub(crate) fn parse(text: &str) -> Result<Command, Refusal> {
        let invalid = || Refusal::invalid_command(shortened(text));
        let mut tokens = tokens(text).ok_or_else(invalid)?;
        while tokens.last() == Some(&Token::Semicolon) {
            tokens.pop();
        }
        let Some(Token::Word(first)) = tokens.first() else {
            return if tokens.is_empty() {
                Ok(Command::Empty)
            } else {
                Err(invalid())
            };
        };
        let rest = &tokens[1..];
        let verb = first.to_ascii_lowercase();
        match &*verb {
            "set" => return set(rest).ok_or_else(invalid),
            "begin" | "start" => return Ok(Command::Begin),
            "commit" | "end" => return Ok(Command::Commit),
            "rollback" | "abort" => return Ok(Command::Rollback),
            "reset" => return Ok(Command::Acknowledge("RESET")),
            "discard" => return Ok(Command::Acknowledge("DISCARD ALL")),
            "deallocate" => return Ok(Command::Acknowledge("DEALLOCATE")),
            _ => {}
        }
        let word = |token: &Token| match token {
            Token::Word(word) | Token::Quoted(word) => word.to_ascii_lowercase(),
            _ => String::new(),
        };
        if let ("show", [what, detail]) = (&*verb, rest) {
            return match (&*word(what), &*word(detail)) {
                ("pools", "extended") => Ok(Command::Show(Show::PoolsExtended)),
                ("session", id) => {
                    let id = id.parse().map_err(|_| Refusal::bad_client_id())?;
                    Ok(Command::Show(Show::Session(id)))
                }
                _ => Err(invalid()),
            };
        }
        let argument = match rest {
            [] => None,
            [Token::Word(word) | Token::Quoted(word)] => Some(word.clone()),
            _ => return Err(invalid()),
        };
        let required = |argument: Option<String>| argument.ok_or_else(Refusal::database_required);
        Ok(match (&*verb, argument) {
            ("show" | "select", Some(what)) => show(&what).ok_or_else(invalid)?,
            ("pause", database) => Command::Pause(database),
            ("resume", database) => Command::Resume(database),
            ("disable", database) => Command::Disable(required(database)?),
            ("enable", database) => Command::Enable(required(database)?),
            ("reconnect", database) => Command::Reconnect(database),
            ("kill", database) => Command::Kill(database),
            ("kill_client", Some(id)) if id.starts_with('-') => return Err(invalid()),
            ("kill_client", id) => Command::KillClient(id.unwrap_or_default()),
            ("wait_close", database) => Command::WaitClose(database),
            ("suspend", None) => Command::Suspend,
            ("reload", None) => Command::Reload,
            ("shutdown", None) => Command::Shutdown(Shutdown::Now),
            ("shutdown", Some(how)) => Command::Shutdown(match &*how.to_ascii_lowercase() {
                "wait_for_servers" => Shutdown::WaitForServers,
                "wait_for_clients" => Shutdown::WaitForClients,
                _ => return Err(invalid()),
            }),
            _ => return Err(invalid()),
        })
    }

    /// Whether users of `stats_users` may give it.
    pub(crate) fn is_for_everyone(&self) -> bool {
        matches!(
            self,
            Command::Empty
                | Command::Help
                | Command::Show(_)
                | Command::SetApplicationName(_)
                | Command::SetSession
                | Command::Begin
                | Command::Commit
                | Command::Rollback
                | Command::Acknowledge(_)
        ) && *self != Command::Show(Show::Fds)
    }
}

fn show(what: &str) -> Option<Command> {
    let what = what.to_ascii_lowercase();
    if what == "help" {
        return Some(Command::Help);
    }
    let value = || SESSION_VALUES.iter().position(|(name, _)| *name == what);
    SHOWS
        .iter()
        .find(|(name, _)| *name == what)
        .map(|(_, show)| *show)
        .or_else(|| value().map(Show::SessionValue))
        .map(Command::Show)
}

/// What stands behind SET. Drivers write session settings in all the forms PostgreSQL has.
fn set(rest: &[Token]) -> Option<Command> {
    let word = |at: usize| match rest.get(at) {
        Some(Token::Word(word)) => word.to_ascii_lowercase(),
        _ => String::new(),
    };
    let scoped = matches!(&*word(0), "session" | "local") && rest.get(1) != Some(&Token::Equals) && word(1) != "to";
    let rest = if scoped { &rest[1..] } else { rest };
    match rest {
        [Token::Word(first), Token::Word(second), ..]
            if first.eq_ignore_ascii_case("time") && second.eq_ignore_ascii_case("zone")
                || first.eq_ignore_ascii_case("characteristics") =>
        {
            Some(Command::SetSession)
        }
        [Token::Word(first), Token::Word(_), ..]
            if ["transaction", "names", "role"]
                .iter()
                .any(|n| first.eq_ignore_ascii_case(n)) =>
        {
            Some(Command::SetSession)
        }
        [Token::Word(key) | Token::Quoted(key), separator, values @ ..] if separates(separator) => {
            let key = key.to_ascii_lowercase();
            // What is a setting of both is the pooler's, unless SESSION or LOCAL says otherwise.
            let is_session = SESSION_SETTINGS.contains(&&*key) && (scoped || Setting::find(&key).is_none());
            if is_session && !values.is_empty() {
                return Some(Command::SetSession);
            }
            let [Token::Word(value) | Token::Quoted(value) | Token::Text(value)] = values else {
                return None;
            };
            Some(match &*key {
                "application_name" => Command::SetApplicationName(value.clone()),
                _ => Command::Set {
                    key,
                    value: value.clone(),
                },
            })
        }
        _ => None,
    }
}

fn separates(token: &Token) -> bool {
    match token {
        Token::Equals => true,
        Token::Word(word) => word.eq_ignore_ascii_case("to"),
        _ => false,
    }
}

fn shortened(text: &str) -> &str {
    let end = (0..=text.len().min(QUOTED_BYTES_MAX))
        .rev()
        .find(|&end| text.is_char_boundary(end));
    &text[..end.unwrap_or(0)]
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Token {
    /// As written.
    Word(String),
    /// `"quoted"`, without its quotes.
    Quoted(String),
    /// `'text'`, without its quotes.
    Text(String),
    Equals,
    Semicolon,
}

/// The tokens of a text; `None` where a quote or comment does not end.
fn tokens(text: &str) -> Option<Vec<Token>> {
    let mut tokens = Vec::new();
    let mut rest = text;
    loop {
        rest = rest.trim_start();
        let Some(first) = rest.chars().next() else {
            return Some(tokens);
        };
        if rest.starts_with("--") {
            rest = rest.split_once('\n').map_or("", |(_, rest)| rest);
            continue;
        }
        if let Some(comment) = rest.strip_prefix("/*") {
            rest = comment.split_once("*/")?.1;
            continue;
        }
        let (token, length) = match first {
            ';' => (Token::Semicolon, 1),
            '=' => (Token::Equals, 1),
            '"' => quoted(rest, '"').map(|(text, length)| (Token::Quoted(text), length))?,
            '\'' => quoted(rest, '\'').map(|(text, length)| (Token::Text(text), length))?,
            _ => {
                let end = |c: char| c.is_whitespace() || matches!(c, ';' | '=' | '"' | '\'');
                let length = rest.find(end).unwrap_or(rest.len());
                (Token::Word(rest[..length].to_string()), length)
            }
        };
        tokens.push(token);
        rest = &rest[length..];
    }
}

/// A quoted text at the front, doubled quotes halved, and its bytes with the quotes.
fn quoted(text: &str, quote: char) -> Option<(String, usize)> {
    let mut inner = String::new();
    let mut characters = text.char_indices().skip(1).peekable();
    while let Some((at, c)) = characters.next() {
        if c != quote {
            inner.push(c);
        } else if characters.next_if(|&(_, c)| c == quote).is_some() {
            inner.push(quote);
        } else {
            return Some((inner, at + 1));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Command {
        Command::parse(text).unwrap_or_else(|refusal| panic!("{text}: {refusal:?}"))
    }

    #[test]
    fn words_in_any_case_with_or_without_a_semicolon() {
        for text in [
            "show pools",
            "SHOW POOLS;",
            " Show\n\"pools\" ; ",
            "select pools",
            "show pools -- all\n;",
        ] {
            assert_eq!(parse(text), Command::Show(Show::Pools), "{text}");
        }
        assert_eq!(parse("pause"), Command::Pause(None));
        assert_eq!(
            parse("PAUSE \"my \"\"db\"\"\";"),
            Command::Pause(Some("my \"db\"".into()))
        );
        assert_eq!(parse("resume Shop-1"), Command::Resume(Some("Shop-1".into())));
        assert_eq!(
            parse("shutdown WAIT_FOR_CLIENTS"),
            Command::Shutdown(Shutdown::WaitForClients)
        );
        assert_eq!(parse("SHOW Pools EXTENDED;"), Command::Show(Show::PoolsExtended));
        assert_eq!(parse("show session 4098"), Command::Show(Show::Session(4098)));
        assert_eq!(Command::parse("show session x").unwrap_err().sqlstate, "22023");
        assert_eq!(parse("show help"), Command::Help);
        assert_eq!(parse("kill_client 17"), Command::KillClient("17".into()));
    }

    #[test]
    fn one_command_at_a_time_and_nothing_else() {
        for text in [
            "show version; show version",
            "show",
            "show foo",
            "select 1",
            "reload p0",
            "shutdown soon",
            "pause a b",
            "show \"pools",
            "'show' pools",
            "set verbose",
            "set verbose = 1 2",
        ] {
            let refusal = Command::parse(text).expect_err(text);
            assert_eq!(refusal.message, format!("invalid command '{text}', use SHOW HELP;"));
            assert_eq!(refusal.sqlstate, "42601");
        }
        assert_eq!(Command::parse("disable").unwrap_err().message, "a database is required");
        let long = format!("show {}", "ä".repeat(500));
        assert!(Command::parse(&long).unwrap_err().message.len() < 300);
    }

    #[test]
    fn set_reaches_settings_and_lets_drivers_have_their_way() {
        let set = |key: &str, value: &str| Command::Set {
            key: key.into(),
            value: value.into(),
        };
        assert_eq!(parse("set verbose=1"), set("verbose", "1"));
        assert_eq!(parse("SET Admin_Users TO 'a,b'';c'"), set("admin_users", "a,b';c"));
        assert_eq!(parse("set server_reset_query = ''"), set("server_reset_query", ""));
        assert_eq!(
            parse("SET application_name = 'x'"),
            Command::SetApplicationName("x".into())
        );
        for text in [
            "SET extra_float_digits = 3",
            "set client_encoding to 'UTF8'",
            "SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY",
            "SET TRANSACTION ISOLATION LEVEL READ COMMITTED",
            "set time zone 'UTC'",
            "SET SESSION search_path = a, b",
        ] {
            assert_eq!(parse(text), Command::SetSession, "{text}");
        }
    }

    #[test]
    fn set_reaches_every_setting_of_the_pooler() {
        for setting in pgweir_config::CATALOGUE {
            let key = setting.name.to_string();
            let value = "1".to_string();
            assert_eq!(
                parse(&format!("SET {key} = 1")),
                Command::Set { key, value },
                "{}",
                setting.name
            );
        }
        assert_eq!(parse("SET SESSION transaction_timeout = 1"), Command::SetSession);
        assert_eq!(parse("SET LOCAL transaction_timeout TO '5s'"), Command::SetSession);
    }

    #[test]
    fn what_drivers_ping_and_begin_with_is_understood() {
        for text in ["", "  ", ";", "-- ping", "/* x */;"] {
            assert_eq!(parse(text), Command::Empty, "{text}");
        }
        assert_eq!(parse("BEGIN"), Command::Begin);
        assert_eq!(parse("begin isolation level read committed"), Command::Begin);
        assert_eq!(parse("commit;"), Command::Commit);
        assert_eq!(parse("ROLLBACK"), Command::Rollback);
        assert_eq!(parse("DISCARD ALL"), Command::Acknowledge("DISCARD ALL"));
    }

    #[test]
    fn only_looking_is_for_everyone() {
        for text in ["show stats", "show help", "begin", "", "set timezone = 'x'"] {
            assert!(parse(text).is_for_everyone(), "{text}");
        }
        for text in [
            "pause",
            "set verbose = 1",
            "show fds",
            "reload",
            "kill_client 1",
            "shutdown",
        ] {
            assert!(!parse(text).is_for_everyone(), "{text}");
        }
    }
}
