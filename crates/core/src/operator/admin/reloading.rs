//! RELOAD, and what a new configuration changes.

use crate::base::close_reason::CloseReason;
use crate::base::errors::Trouble;
use crate::base::pool_id::{PoolId, PoolKind};
use crate::base::request::{LogLevel, OrderId, ReloadOutcome, Request};
use crate::base::settings::{PoolMode, PoolSettings, Settings};
use crate::base::time::Time;
use crate::console::refusal::Refusal;
use crate::console::waiting::Waits;
use crate::login::lookups::{renewed, scram_keys_kept_max};
use crate::operator::admin::before::{Before, StoredLogin, user_weights};
use crate::pooler::Pooler;
use crate::pools::choice::Choice;
use crate::pools::pool;
use crate::shared::Shared;
use pgweir_config::{Changes, Config, Problem, Severity};
use std::collections::HashSet;
use std::sync::Arc;

impl Pooler {
    /// The configuration has been read again. If it has errors, nothing changes.
    pub(crate) fn reloaded(&mut self, now: Time, by: Option<OrderId>, outcome: ReloadOutcome) {
        let answer = match outcome {
            ReloadOutcome::Bad(problems) => reload_refused(&mut self.shared, &problems),
            ReloadOutcome::New(config, warnings) => match self.shared.config.reload((*config).clone()) {
                Err(mut problems) => {
                    problems.push(Problem::not_loaded(&config.place()));
                    reload_refused(&mut self.shared, &problems)
                }
                Ok(reload) => {
                    log_problems(&mut self.shared, &warnings);
                    log_problems(&mut self.shared, &reload.warnings);
                    self.log(LogLevel::Log, what_changed(&reload.changes));
                    let config = Arc::new(reload.config);
                    self.shared.requests.push_back(Request::Configure(config.clone()));
                    let before = self.before_change();
                    self.use_config(now, config, before);
                    Ok(())
                }
            },
        };
        if let Some(by) = by.filter(|by| self.console_waits_for(by.client, &Waits::Reloaded(*by))) {
            self.answer_console(by.client, answer.as_ref().map(|()| "RELOAD"));
        }
    }

    /// Takes over another configuration. `before`: what the old one has said.
    pub(crate) fn use_config(&mut self, now: Time, config: Arc<Config>, before: Before) {
        let settings = Settings::new(&config);
        let followed_less = settings.follows_more_than(&self.shared.settings);
        self.shared.settings = settings;
        self.shared.config = config;
        self.lookups.forget_secrets(now);
        self.mock_key = renewed(self.mock_key, &self.shared.config);
        self.scram_keys.keep_at_most(scram_keys_kept_max(&self.shared.config));
        let settings = &self.shared.settings;
        let sizings = &mut self.shared.sizings;
        for text in sizings.configure(now, settings.pool_size_max, settings.holds_sizes) {
            self.shared.log(LogLevel::Log, text);
        }
        let other_weights = before.user_weights != user_weights(&self.shared.config);
        let mut useless = Vec::new();
        let forced = self.clients.iter().filter(|(_, client)| client.login_user.is_some());
        let forced: HashSet<PoolId> = forced.filter_map(|(_, client)| client.pool).collect();
        for (pool_id, login) in before.logins {
            let is_forced = forced.contains(&pool_id);
            if !self.refresh_pool(now, pool_id, &login, other_weights, is_forced) {
                useless.push(pool_id);
            }
        }
        self.settle(now);
        for pool_id in useless {
            self.drop_pool(now, pool_id);
        }
        if followed_less {
            self.replace_servers(now, CloseReason::PoolingChanged, Choice::Within(None));
        }
        let (config, databases) = (&self.shared.config, &mut self.databases);
        databases.keep(|name| config.database(name).is_some());
        self.use_peers(now);
        self.make_pools_to_keep_warm(now);
        for pool_id in pool::ids(&self.pools) {
            self.catalogs().look_after(now, pool_id);
            self.open_servers_for_waiters(now, pool_id);
        }
    }

    /// What a new configuration changes for one pool. `before` is what the old one said of its servers' logins. A
    /// credential that a client's login has revealed is kept, unless the new files say something else. `other_weights`:
    /// the weights of users have changed. `is_forced`: it has clients whose user is not that of the servers. Returns
    /// whether the pool is still of use.
    fn refresh_pool(
        &mut self,
        now: Time,
        pool_id: PoolId,
        before: &StoredLogin,
        other_weights: bool,
        is_forced: bool,
    ) -> bool {
        let key = self.pool(pool_id).key().clone();
        let Some(entry) = self.shared.config.database(&key.database) else {
            let message = "database removed";
            self.log_dropped_database(&key.database);
            self.drop_connections(now, Trouble::Killed, message, Choice::One(pool_id));
            return false;
        };
        let elsewhere = match entry.user.as_deref() {
            Some(forced) => *forced != *key.user,
            None => is_forced,
        };
        if key.kind != PoolKind::AuthQuery && elsewhere {
            // Its clients now belong to the pool of another user.
            let message = CloseReason::DatabaseChanged.text();
            self.drop_connections(now, Trouble::Killed, message, Choice::One(pool_id));
            return false;
        }
        let mut settings = PoolSettings::new(&self.shared.config, &entry, &key.user);
        settings.suit(key.kind);
        let auto = !self.shared.config.databases.contains_key(&*key.database);
        let login = StoredLogin::of(&self.shared.config, &key);
        let secret_changed = login != *before;
        let pool = self.pool_mut(pool_id);
        let were_alone = pool.settings().mode == PoolMode::Session && settings.mode != PoolMode::Session;
        let database = pool.catalog_key().clone();
        let other_servers = pool.configure(settings, auto);
        self.uses_other_database(pool_id, &database);
        let pool = self.pool_mut(pool_id);
        if secret_changed {
            pool.is_told_to_log_in_with(login.credential, now);
        }
        let other_order = pool.waiting().fair_by() != pool.settings().fair_by || other_weights;
        self.share_limit(now, pool_id);
        let pool = self.pool_mut(pool_id);
        if other_servers {
            pool.has_other_servers();
            self.replace_servers(now, CloseReason::DatabaseChanged, Choice::One(pool_id));
        }
        if were_alone {
            self.replace_servers(now, CloseReason::PoolingChanged, Choice::One(pool_id));
        }
        if other_order {
            self.reorder_waiters(pool_id);
        }
        if other_servers || secret_changed {
            self.pool_mut(pool_id).forget_failures();
        }
        true
    }

    /// A pool may have come to use another database than this one.
    fn uses_other_database(&mut self, pool_id: PoolId, before: &Arc<str>) {
        let now = pool::of(&self.pools, pool_id).catalog_key();
        if now != before {
            self.shared.catalogs.is_left_by(before, pool_id);
            self.shared.catalogs.is_used_by(now, pool_id);
        }
    }
}

fn reload_refused(shared: &mut Shared, problems: &[Problem]) -> Result<(), Refusal> {
    log_problems(shared, problems);
    shared.log(
        LogLevel::Error,
        "RELOAD Failed, see logs for more details; the old configuration stays".into(),
    );
    Err(Refusal::reload_failed(problems))
}

fn log_problems(shared: &mut Shared, problems: &[Problem]) {
    for problem in problems {
        let level = match problem.severity {
            Severity::Warning => LogLevel::Warning,
            Severity::Error => LogLevel::Error,
        };
        shared.log(level, problem.line());
    }
}

/// The names of the settings that a RELOAD has changed, for the log. Values may be secrets.
fn what_changed(changes: &Changes) -> String {
    let settings = changes
        .settings
        .iter()
        .filter(|c| !c.needs_restart)
        .map(|c| c.name.to_string());
    let databases = changes
        .databases
        .iter()
        .map(|(name, change)| format!("database {name} ({})", change.words()));
    let users = changes
        .users
        .iter()
        .chain(&changes.auth_users)
        .map(|name| format!("user {name}"));
    let peers = changes.peers.iter().map(|id| format!("peer {id}"));
    let rules = changes.login_rules.then(|| "rules for logins".to_string());
    let names: Vec<String> = settings
        .chain(databases)
        .chain(users)
        .chain(peers)
        .chain(rules)
        .collect();
    if names.is_empty() {
        "RELOAD: nothing changed".into()
    } else {
        format!("RELOAD: changed {}", names.join(", "))
    }
}
