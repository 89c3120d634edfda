//! The language of the console.
//!
//! PgBouncer's grammar is `WORD [WORD] [;]` and `SET key =|TO value`. In addition the console accepts the statements
//! that drivers send by themselves when they connect, begin, commit, reset or ping: comments, the empty statement,
//! `BEGIN` and similar ones, `SET` of session settings, `RESET`, `DISCARD` and `DEALLOCATE`.

use crate::console::refusal::Refusal;
use crate::console::tokens::{Token, tokens};
use pgweir_config::Setting;

/// The most bytes of a command that an error message repeats.
const QUOTED_BYTES_MAX: usize = 200;

/// A table that SHOW returns.
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
    /// SHOW POOLS EXTENDED: with columns that PgBouncer does not have.
    PoolsExtended,
    /// SHOW SERVERS EXTENDED: with a column that PgBouncer does not have.
    ServersExtended,
    Servers,
    /// The session of one client; the number is its id in SHOW CLIENTS.
    Session(u32),
    Sizing,
    /// SHOW SIZING STEPS: the latest steps to other limits.
    SizingSteps,
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
const SHOWS: [(&str, Show); 25] = [
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
    ("sizing", Show::Sizing),
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

/// Session settings that the console answers SHOW for, and their values.
pub(crate) const SESSION_VALUES: [(&str, &str); 5] = [
    ("client_encoding", "UTF-8"),
    ("datestyle", "ISO"),
    ("default_transaction_isolation", "read committed"),
    ("standard_conforming_strings", "on"),
    ("timezone", "GMT"),
];

/// Session settings that drivers set by themselves. On the console, SET of them has no effect.
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

/// The three ways of SHUTDOWN.
#[derive(Debug, Clone, Copy, PartialEq, Eq, pgweir_freeze::Freeze)]
pub(crate) enum Shutdown {
    Now,
    WaitForClients,
    WaitForServers,
}

#[derive(Debug, Clone, PartialEq, Eq, pgweir_freeze::Freeze)]
pub(crate) enum Command {
    /// Only blanks, comments and a semicolon: drivers send such texts as pings.
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
    /// A session setting, which has no meaning on the console.
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
    /// For a command about databases: its verb and the database; `None` for the database means all of them.
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
        match (&*verb, rest) {
            ("set", rest) => set(rest).ok_or_else(invalid),
            ("show", [what, detail]) => show_detail(what, detail)?.ok_or_else(invalid),
            _ => match of_drivers(&verb) {
                Some(command) => Ok(command),
                None => order(&verb, rest)?.ok_or_else(invalid),
            },
        }
    }

    /// Whether users of `stats_users` may use it.
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

/// Statements that drivers send by themselves, whatever follows the verb.
fn of_drivers(verb: &str) -> Option<Command> {
    Some(match verb {
        "begin" | "start" => Command::Begin,
        "commit" | "end" => Command::Commit,
        "rollback" | "abort" => Command::Rollback,
        "reset" => Command::Acknowledge("RESET"),
        "discard" => Command::Acknowledge("DISCARD ALL"),
        "deallocate" => Command::Acknowledge("DEALLOCATE"),
        _ => return None,
    })
}

/// SHOW with two words after it; `Ok(None)` if there is no such command.
fn show_detail(what: &Token, detail: &Token) -> Result<Option<Command>, Refusal> {
    let word = |token: &Token| match token {
        Token::Word(word) | Token::Quoted(word) => word.to_ascii_lowercase(),
        _ => String::new(),
    };
    match (&*word(what), &*word(detail)) {
        ("pools", "extended") => Ok(Some(Command::Show(Show::PoolsExtended))),
        ("servers", "extended") => Ok(Some(Command::Show(Show::ServersExtended))),
        ("sizing", "steps") => Ok(Some(Command::Show(Show::SizingSteps))),
        ("session", id) => {
            let id = id.parse().map_err(|_| Refusal::bad_client_id())?;
            Ok(Some(Command::Show(Show::Session(id))))
        }
        _ => Ok(None),
    }
}

/// A verb with at most one word after it; `Ok(None)` if there is no such command.
fn order(verb: &str, rest: &[Token]) -> Result<Option<Command>, Refusal> {
    let argument = match rest {
        [] => None,
        [Token::Word(word) | Token::Quoted(word)] => Some(word.clone()),
        _ => return Ok(None),
    };
    let required = |argument: Option<String>| argument.ok_or_else(Refusal::database_required);
    Ok(Some(match (verb, argument) {
        ("show" | "select", Some(what)) => return Ok(show(&what)),
        ("pause", database) => Command::Pause(database),
        ("resume", database) => Command::Resume(database),
        ("disable", database) => Command::Disable(required(database)?),
        ("enable", database) => Command::Enable(required(database)?),
        ("reconnect", database) => Command::Reconnect(database),
        ("kill", database) => Command::Kill(database),
        ("kill_client", Some(id)) if id.starts_with('-') => return Ok(None),
        ("kill_client", id) => Command::KillClient(id.unwrap_or_default()),
        ("wait_close", database) => Command::WaitClose(database),
        ("suspend", None) => Command::Suspend,
        ("reload", None) => Command::Reload,
        ("shutdown", None) => Command::Shutdown(Shutdown::Now),
        ("shutdown", Some(how)) => Command::Shutdown(match &*how.to_ascii_lowercase() {
            "wait_for_servers" => Shutdown::WaitForServers,
            "wait_for_clients" => Shutdown::WaitForClients,
            _ => return Ok(None),
        }),
        _ => return Ok(None),
    }))
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

/// The text after SET. Drivers write session settings in all forms that PostgreSQL accepts.
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
            // A name of settings of both the pooler and PostgreSQL means the pooler's, unless SESSION or LOCAL comes
            // before it.
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

#[cfg(test)]
#[path = "grammar_tests.rs"]
mod tests;
