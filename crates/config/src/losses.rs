//! What a RELOAD or a take-over may not lose. A full disk or an editor leaves a file that was cut off: without this check
//! nobody could log in any more, administrators included, or what was encrypted would cross the network in clear text.

use crate::choices::{AuthType, SslMode};
use crate::config::Config;
use crate::problem::{Place, Problem};
use crate::setting::Setting;

/// What a configuration has that logins need.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Holdings {
    /// Users of `auth_file`.
    pub users: usize,
    /// Lines of section `[databases]`.
    pub databases: usize,
    /// Settings with a value that the file names, out of those that say who may log in and what must be encrypted.
    pub lines: Vec<String>,
}

/// Who has the [`Holdings`], and what becomes of them.
#[derive(Clone, Copy, Debug)]
pub struct Holder<'a> {
    /// `the running configuration`.
    pub name: &'a str,
    /// What becomes of what would be lost.
    pub then: &'a str,
    /// How to lose it nevertheless.
    pub way_out: &'a str,
}

const RUNNING: Holder = Holder {
    name: "the running configuration",
    then: "the old configuration stays",
    way_out: "a restart is needed to have none",
};

/// A setting that says who may log in, or what must be encrypted.
struct Gate {
    name: &'static str,
    /// Whether a configuration would miss it.
    is_used: fn(&Config) -> bool,
    /// Whether its value is one that can be lost: for others the default is as good.
    protects: fn(&Config) -> bool,
    /// How to lose it; empty for writing it without a value.
    way_out: &'static str,
}

const GATES: [Gate; 11] = [
    Gate {
        name: "admin_users",
        is_used: |_| true,
        protects: |_| true,
        way_out: "",
    },
    Gate {
        name: "auth_dbname",
        is_used: |config| config.has_auth_user(),
        protects: |_| true,
        way_out: "",
    },
    Gate {
        name: "auth_ident_file",
        // RELOAD keeps maps and rules if the file names neither auth_hba_file nor auth_type.
        is_used: |config| {
            !config.global.auth_hba_file.is_empty() && config.may_have(|auth_type| auth_type == AuthType::Hba)
        },
        protects: |_| true,
        way_out: "",
    },
    Gate {
        name: "auth_ldap_options",
        is_used: |config| config.may_have(|auth_type| auth_type == AuthType::Ldap),
        protects: |_| true,
        way_out: "name another auth_type",
    },
    Gate {
        name: "auth_query",
        is_used: |config| config.has_auth_user(),
        protects: |_| true,
        way_out: "write it with its default, or remove auth_user",
    },
    Gate {
        name: AUTH_TYPE,
        is_used: |_| true,
        protects: |_| true,
        way_out: "name the one that you want",
    },
    Gate {
        name: "auth_user",
        is_used: |config| config.may_have(looks_users_up),
        protects: |_| true,
        way_out: "",
    },
    Gate {
        name: "client_tls_sslmode",
        is_used: |_| true,
        protects: |config| config.global.client_tls_sslmode != SslMode::Disable,
        way_out: "write \"client_tls_sslmode = disable\"",
    },
    Gate {
        name: "server_tls_ca_file",
        // Without it, the authorities of the system are trusted.
        is_used: |config| config.global.server_tls_sslmode >= SslMode::VerifyCa,
        protects: |_| true,
        way_out: "",
    },
    Gate {
        name: "server_tls_sslmode",
        is_used: |_| true,
        protects: |config| config.global.server_tls_sslmode >= SslMode::Require,
        way_out: "write \"server_tls_sslmode = prefer\"",
    },
    Gate {
        name: "stats_users",
        is_used: |config| config.global.admin_users.items().is_empty(),
        protects: |_| true,
        way_out: "",
    },
];

/// Whether users who are not in `auth_file` are looked up by `auth_query`.
fn looks_users_up(auth_type: AuthType) -> bool {
    !matches!(auth_type, AuthType::Any | AuthType::Pam | AuthType::Ldap)
}

/// RELOAD keeps the running value if the file no longer names it.
const AUTH_TYPE: &str = "auth_type";

impl Config {
    /// What it has that logins need.
    pub fn holdings(&self) -> Holdings {
        let has = |gate: &&Gate| {
            let has_value = self.is_in_file(gate.name) && self.has_value(gate.name);
            has_value && (gate.protects)(self) && (gate.is_used)(self)
        };
        Holdings {
            users: self.auth_users.len(),
            databases: self.databases.len() + usize::from(self.autodb.is_some()),
            lines: GATES.iter().filter(has).map(|gate| gate.name.to_owned()).collect(),
        }
    }

    /// What the running configuration `old` has and this one lost.
    pub(crate) fn lost_since(&self, old: &Config) -> Vec<Problem> {
        let mut before = old.holdings();
        before.lines.retain(|name| name != AUTH_TYPE);
        self.losses(&before, RUNNING)
    }

    /// What was there `before`, and this configuration lacks. A line that is gone is a loss; one without a value is asked
    /// for, except `auth_file`.
    pub fn losses(&self, before: &Holdings, holder: Holder<'_>) -> Vec<Problem> {
        let file = self.place();
        let Holder { name, then, way_out } = holder;
        let now = self.holdings();
        let mut problems = Vec::new();
        if now.users == 0 && before.users > 0 && self.unread_files.is_empty() {
            let (place, what) = match &self.global.auth_file {
                Some(file) => (Place::file(file), "auth_file names no user"),
                None => (file.clone(), "auth_file is not set, so that there is no user"),
            };
            let text = format!("{what}, but {name} has {}", before.users);
            problems.push(Problem::error(&place, text).hint(format!("{then}; {way_out}")));
        }
        if now.databases == 0 && before.databases > 0 {
            let text = format!("the file has no database, but {name} has {}", before.databases);
            problems.push(Problem::error(&file, text).hint(format!("{then}; {way_out}")));
        }
        let is_gone = |gate: &&Gate| {
            let was_there = before.lines.iter().any(|line| line == gate.name);
            was_there && !self.is_in_file(gate.name) && (gate.is_used)(self)
        };
        problems.extend(GATES.iter().filter(is_gone).map(|gate| {
            let way_out = match gate.way_out {
                "" => format!("to unset it, write \"{} =\"", gate.name),
                way_out => format!("to do without it, {way_out}"),
            };
            let text = format!("setting \"{}\" is gone, which {name} has", gate.name);
            Problem::error(&file, text).hint(format!("{then}; {way_out}"))
        }));
        problems
    }

    fn has_value(&self, name: &str) -> bool {
        let value = Setting::find(name).and_then(|setting| setting.value(self));
        value.is_some_and(|value| !value.is_empty())
    }

    /// Whether `auth_type` is one of those, or may stay one of them because the file does not name it.
    fn may_have(&self, is_one: fn(AuthType) -> bool) -> bool {
        !self.is_in_file(AUTH_TYPE) || is_one(self.global.auth_type)
    }
}
