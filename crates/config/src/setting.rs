//! An entry of the catalogue.

use crate::catalogue::{CATALOGUE, GlobalSettings};
use crate::mismatch::Mismatch;
use crate::value::Kind;

/// The places in the file where a setting may stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scope {
    /// Section `[pgbouncer]`.
    Global,
    /// A line of section `[databases]`.
    Database,
    /// A line of section `[users]`.
    User,
    /// A line of section `[peers]`.
    Peer,
}

/// When a changed value takes effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeRule {
    /// After RELOAD, SIGHUP, or SET on the console.
    Reload,
    /// When the process starts.
    Restart,
}

/// How far this version supports a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Support {
    /// It does what its help says.
    Full,
    /// It is accepted so that existing files load, and has no effect; the reason follows.
    AcceptedNoEffect(&'static str),
}

/// The chapters of the documentation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Group {
    /// Where clients connect.
    Listening,
    /// How clients prove who they are.
    Authentication,
    /// Who may use the admin console.
    Console,
    /// How servers are shared.
    Pooling,
    /// Sizes and limits.
    Limits,
    /// What happens to a client's session.
    Session,
    /// Keeping server connections healthy.
    Servers,
    /// Timeouts.
    Timeouts,
    /// TLS on both sides.
    Tls,
    /// Name look-up.
    Dns,
    /// Logs and statistics.
    Logging,
    /// The process itself.
    Process,
    /// Sockets and buffers.
    Network,
}

impl Group {
    /// All chapters, in the order of the documentation.
    pub const ALL: [Group; 13] = [
        Group::Listening,
        Group::Authentication,
        Group::Console,
        Group::Pooling,
        Group::Limits,
        Group::Session,
        Group::Servers,
        Group::Timeouts,
        Group::Tls,
        Group::Dns,
        Group::Logging,
        Group::Process,
        Group::Network,
    ];

    /// The heading of its chapter.
    pub fn title(self) -> &'static str {
        match self {
            Group::Listening => "Listening",
            Group::Authentication => "Authentication",
            Group::Console => "Console access",
            Group::Pooling => "Pooling",
            Group::Limits => "Pool sizes and limits",
            Group::Session => "Sessions and statements",
            Group::Servers => "Server connections",
            Group::Timeouts => "Timeouts",
            Group::Tls => "TLS",
            Group::Dns => "Name look-up",
            Group::Logging => "Logs and statistics",
            Group::Process => "Process",
            Group::Network => "Network tuning",
        }
    }
}

/// One setting of section `[pgbouncer]`.
#[derive(Debug)]
pub struct Setting {
    /// The name in the file and on the console.
    pub name: &'static str,
    /// The kind of text that it takes.
    pub kind: Kind,
    /// The unit of its number; empty for none.
    pub unit: &'static str,
    /// Its value if the file does not name it; `None` is unset, which SHOW CONFIG prints as null.
    pub default: Option<&'static str>,
    /// The chapter it belongs to.
    pub group: Group,
    /// The sections where it may stand. The key has the same name there, unless the long help says otherwise.
    pub scopes: &'static [Scope],
    /// When a change takes effect.
    pub change: ChangeRule,
    /// How far this version supports it.
    pub support: Support,
    /// Its help in one line, with the blank at the start of a doc comment.
    pub(crate) help: &'static str,
    /// Further help. Paragraphs are separated by empty lines. May be empty.
    pub long_help: &'static str,
    pub(crate) set: fn(&mut GlobalSettings, &str) -> Result<(), Mismatch>,
    pub(crate) get: fn(&GlobalSettings) -> Option<String>,
    /// Copies this setting from the second to the first.
    pub(crate) copy: fn(&mut GlobalSettings, &GlobalSettings),
}

/// Settings whose text may contain a password: that of LDAP's search (`ldapbindpasswd`), and that of a connection which a
/// query opens (`dblink`).
const MAY_HOLD_SECRETS: [&str; 2] = ["auth_ldap_options", "auth_query"];

impl Setting {
    /// Whether its value may contain a password. It is shown only to administrators, and never logged.
    pub fn may_hold_secret(&self) -> bool {
        MAY_HOLD_SECRETS.contains(&self.name)
    }

    /// Its help in one line.
    pub fn help(&self) -> &'static str {
        self.help.trim()
    }

    /// The setting of that name.
    pub fn find(name: &str) -> Option<&'static Setting> {
        Some(&CATALOGUE[Setting::index(name)?])
    }

    /// Its place in the catalogue, which is sorted by name.
    pub(crate) fn index(name: &str) -> Option<usize> {
        CATALOGUE.binary_search_by(|setting| setting.name.cmp(name)).ok()
    }
}
