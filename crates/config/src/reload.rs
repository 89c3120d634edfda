//! What a RELOAD changes, and what needs a restart.

use std::collections::{BTreeMap, BTreeSet};

use crate::catalogue::CATALOGUE;
use crate::choices::AuthType;
use crate::config::Config;
use crate::database::DatabaseSettings;
use crate::problem::{Place, Problem, Severity};
use crate::setting::{ChangeRule, Setting};

/// The differences between two configurations.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// Settings of section `[pgbouncer]`, in catalogue order.
    pub settings: Vec<SettingChange>,
    /// Lines of `[databases]` by name, including `*`.
    pub databases: BTreeMap<String, DatabaseChange>,
    /// Names whose line of `[users]` is new, gone or different.
    pub users: BTreeSet<String>,
    /// Names whose secret in `auth_file` is new, gone or different.
    pub auth_users: BTreeSet<String>,
    /// Ids whose line of `[peers]` is new, gone or different.
    pub peers: BTreeSet<u32>,
    /// Whether a rule for logins is new, gone or different.
    pub login_rules: bool,
}

/// A setting with another value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingChange {
    /// Its name.
    pub name: &'static str,
    /// The value that SHOW CONFIG printed before.
    pub old: Option<String>,
    /// The value that it prints now.
    pub new: Option<String>,
    /// Whether the change needs a restart.
    pub needs_restart: bool,
}

/// The change of a line of `[databases]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DatabaseChange {
    /// It is new.
    Added,
    /// It is gone: its clients are closed.
    Removed,
    /// Sizes, limits or times changed; open server connections can stay.
    Adjusted,
    /// The address or the login changed: its server connections are closed when they are released.
    Reconnect,
}

impl Changes {
    /// The changes from `old` to `new`.
    pub fn between(old: &Config, new: &Config) -> Changes {
        let settings = CATALOGUE
            .iter()
            .map(|setting| SettingChange {
                name: setting.name,
                old: setting.value(old),
                new: setting.value(new),
                needs_restart: setting.change == ChangeRule::Restart,
            })
            .filter(|change| change.old != change.new)
            .collect();
        Changes {
            settings,
            databases: database_changes(&with_autodb(old), &with_autodb(new)),
            users: differing(&old.users, &new.users),
            auth_users: differing(&old.auth_users, &new.auth_users),
            peers: differing(&old.peers, &new.peers),
            login_rules: old.login_rules != new.login_rules,
        }
    }

    /// Whether nothing changed.
    pub fn is_empty(&self) -> bool {
        *self == Changes::default()
    }

    /// Whether the setting of that name changed.
    pub fn has_setting(&self, name: &str) -> bool {
        self.settings.iter().any(|change| change.name == name)
    }
}

/// The result of a RELOAD.
#[derive(Clone, Debug)]
pub struct Reload {
    /// The configuration to continue with.
    pub config: Config,
    /// The changes.
    pub changes: Changes,
    /// Settings that keep their value until a restart, although the file has another one.
    pub warnings: Vec<Problem>,
}

impl DatabaseChange {
    /// What has happened to the line, for the log.
    pub fn words(self) -> &'static str {
        match self {
            DatabaseChange::Added => "new",
            DatabaseChange::Removed => "removed",
            DatabaseChange::Adjusted => "limits changed",
            DatabaseChange::Reconnect => "servers are replaced",
        }
    }
}

impl Config {
    /// Changes to `new`, which was just loaded. Refuses it if a file that a setting names cannot be used, or if something
    /// is gone that logins need ([`Config::losses`]): a disk that is full leaves such files.
    ///
    /// A setting that needs a restart keeps its running value, with a warning if the file has another one. `auth_type`
    /// keeps its running value if the file no longer names it. Changes by SET are undone.
    pub fn reload(&self, mut new: Config) -> Result<Reload, Vec<Problem>> {
        let lost = self.lost_in(&new);
        if !lost.is_empty() {
            return Err(lost);
        }
        let place = new.place();
        let mut warnings = Vec::new();
        for setting in CATALOGUE {
            let named = new.is_named(setting.name);
            let restart = setting.change == ChangeRule::Restart;
            if !(restart || setting.name == "auth_type" && !named) {
                continue;
            }
            if named && setting.value(self) != setting.value(&new) {
                warnings.push(kept(setting, self, &new, &place));
            }
            (setting.copy)(&mut new.global, &self.global);
        }
        if new.global.auth_type == AuthType::Hba && new.login_rules.hba.is_none() {
            // The new file does not use `auth_type = hba`, but the running process does.
            new.login_rules.hba.clone_from(&self.login_rules.hba);
            new.login_rules.ident.clone_from(&self.login_rules.ident);
            new.global.auth_hba_file.clone_from(&self.global.auth_hba_file);
            new.global.auth_ident_file.clone_from(&self.global.auth_ident_file);
        }
        Ok(Reload {
            changes: Changes::between(self, &new),
            config: new,
            warnings,
        })
    }

    fn lost_in(&self, new: &Config) -> Vec<Problem> {
        if new.is_blank() && !self.is_blank() {
            let place = new.place();
            let message = "the file has no setting and no database, but the running configuration has some";
            return vec![Problem::error(&place, message).hint("the old configuration stays")];
        }
        let unread = new.unread_files.iter().cloned();
        let rules = new
            .login_rules
            .fault
            .iter()
            .filter(|_| self.goes_on_with_rules(new))
            .cloned();
        let unusable = unread.chain(rules).map(|problem| Problem {
            severity: Severity::Error,
            hint: Some("what was read from it before stays in use".into()),
            ..problem
        });
        let idle = new.idle_files_lost_since(self).map(|problem| Problem {
            severity: Severity::Error,
            hint: Some(
                "the file is not used with these settings: unset the setting, or name a file that can be read".into(),
            ),
            ..problem.clone()
        });
        unusable.chain(idle).chain(new.lost_since(self)).collect()
    }

    /// Whether nothing is in the file. Its place does not count.
    pub fn is_blank(&self) -> bool {
        let has_lines = !self.databases.is_empty() || !self.users.is_empty() || !self.peers.is_empty();
        self.named.is_empty() && self.autodb.is_none() && !has_lines
    }

    /// Whether `auth_type` stays `hba` because `new` does not name it. The problems of the rules were only warnings.
    fn goes_on_with_rules(&self, new: &Config) -> bool {
        self.global.auth_type == AuthType::Hba && !new.is_named("auth_type")
    }
}

fn kept(setting: &Setting, old: &Config, new: &Config, place: &Place) -> Problem {
    let text = |config| setting.value(config).unwrap_or_default();
    let (running, wanted) = (text(old), text(new));
    Problem::warning(
        place,
        format!("setting \"{}\" stays \"{running}\" until a restart", setting.name),
    )
    .hint(format!("the file now says \"{wanted}\""))
}

fn with_autodb(config: &Config) -> BTreeMap<&str, &DatabaseSettings> {
    config
        .databases
        .values()
        .chain(&config.autodb)
        .map(|database| (database.name.as_str(), database))
        .collect()
}

fn database_changes(
    old: &BTreeMap<&str, &DatabaseSettings>,
    new: &BTreeMap<&str, &DatabaseSettings>,
) -> BTreeMap<String, DatabaseChange> {
    let change = |name: &str| match (old.get(name), new.get(name)) {
        (None, _) => DatabaseChange::Added,
        (_, None) => DatabaseChange::Removed,
        (Some(old), Some(new)) if reaches_the_same(old, new) => DatabaseChange::Adjusted,
        _ => DatabaseChange::Reconnect,
    };
    differing(old, new)
        .into_iter()
        .map(|name| (name.to_string(), change(name)))
        .collect()
}

/// Whether a server connection that was opened under one of the two settings is also right under the other.
fn reaches_the_same(old: &DatabaseSettings, new: &DatabaseSettings) -> bool {
    let connection = |d: &DatabaseSettings| {
        let copy = d.clone();
        DatabaseSettings {
            pool_size: None,
            min_pool_size: None,
            reserve_pool_size: None,
            query_wait_timeout: None,
            max_db_connections: None,
            max_db_client_connections: None,
            server_lifetime: None,
            pool_mode: None,
            auth_user: None,
            ..copy
        }
    };
    connection(old) == connection(new)
}

/// The keys that only one of the two maps has, or whose values differ.
fn differing<K: Ord + Clone, V: PartialEq>(old: &BTreeMap<K, V>, new: &BTreeMap<K, V>) -> BTreeSet<K> {
    old.keys()
        .chain(new.keys())
        .filter(|key| old.get(key) != new.get(key))
        .cloned()
        .collect()
}
