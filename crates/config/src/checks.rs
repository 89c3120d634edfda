//! Checks of a whole configuration: each of its lines is right, but together they are wrong.

use crate::catalogue::{CATALOGUE, GlobalSettings};
use crate::choices::{AuthType, PoolMode};
use crate::config::Config;
use crate::database::DatabaseSettings;
use crate::host::{ListenAddress, UnixSocketDir};
use crate::login_files;
use crate::number::SCRAM_ITERATIONS_MAX;
use crate::places::Places;
use crate::problem::{Place, Problem};
use crate::secret::Secret;
use crate::setting::Support;
use crate::tls_checks;

/// PostgreSQL's default number of SCRAM iterations, and RFC 7677's minimum.
const SCRAM_ITERATIONS_MIN: u32 = 4096;

/// Adds to `problems` the settings that do not fit together. `file` is the place of problems that belong to no line.
pub(crate) fn check(config: &Config, places: &Places, file: &Place, problems: &mut Vec<Problem>) {
    let mut checks = Checks {
        config,
        global: &config.global,
        places,
        file,
        problems,
    };
    checks.support();
    checks.listening();
    checks.users_and_secrets();
    checks.lookups();
    checks.authorities();
    checks.tls_lists();
    checks.access();
    checks.sizes_of_databases();
    checks.sizes();
    checks.reserve();
    checks.inherited_zeroes();
    checks.modes_and_queries();
    checks.databases();
    checks.peers();
}

/// Settings of the file that ask for something that pgweir cannot do and must not ignore: setting, message, hint.
pub(crate) fn unmet_demands(config: &Config) -> Vec<(&'static str, String, &'static str)> {
    let global = &config.global;
    let mut demands = Vec::new();
    tls_checks::unmet(global, &mut demands);
    if !(1..=SCRAM_ITERATIONS_MAX).contains(&global.scram_iterations) {
        let message = format!("scram_iterations is not between 1 and {SCRAM_ITERATIONS_MAX}");
        demands.push((
            "scram_iterations",
            message,
            "a million iterations take most of a second",
        ));
    }
    demands.extend(login_files::unmet(config));
    demands
}

/// A configuration that is being checked, with the places of its lines.
pub(crate) struct Checks<'a> {
    pub(crate) config: &'a Config,
    pub(crate) global: &'a GlobalSettings,
    pub(crate) places: &'a Places,
    pub(crate) file: &'a Place,
    pub(crate) problems: &'a mut Vec<Problem>,
}

impl<'a> Checks<'a> {
    pub(crate) fn setting_place(&self, name: &str) -> &'a Place {
        self.places.settings.get(name).unwrap_or(self.file)
    }

    pub(crate) fn database_place(&self, name: &str) -> &'a Place {
        self.places.databases.get(name).unwrap_or(self.file)
    }

    pub(crate) fn warn(&mut self, place: &Place, message: impl Into<String>, hint: impl Into<String>) {
        self.problems.push(Problem::warning(place, message).hint(hint));
    }

    pub(crate) fn warn_setting(&mut self, name: &str, message: impl Into<String>, hint: impl Into<String>) {
        self.warn(self.setting_place(name), message, hint);
    }

    /// The entries of `[databases]`, including the one named `*`.
    pub(crate) fn each_database(&self) -> impl Iterator<Item = &'a DatabaseSettings> + use<'a> {
        self.config.databases.values().chain(&self.config.autodb)
    }

    fn support(&mut self) {
        let demands = unmet_demands(self.config);
        for setting in CATALOGUE {
            let as_it_is = setting.value(self.config).as_deref() == setting.default;
            if as_it_is || !self.config.is_named(setting.name) {
                continue;
            }
            let Support::AcceptedNoEffect(reason) = setting.support else {
                continue;
            };
            if !demands.iter().any(|(name, ..)| *name == setting.name) {
                let place = self.setting_place(setting.name);
                self.problems.push(Problem::warning(
                    place,
                    format!("{} has no effect: {reason}", setting.name),
                ));
            }
        }
        for (name, message, hint) in demands {
            self.problems
                .push(Problem::error(self.setting_place(name), message).hint(hint));
        }
    }

    fn listening(&mut self) {
        let sockets = self.global.unix_socket_dir != UnixSocketDir::Off;
        let addresses = !self.global.listen_addr.addresses().is_empty();
        if !sockets && !addresses {
            let place = self.setting_place("unix_socket_dir");
            self.problems.push(
                Problem::error(
                    place,
                    "there is nothing to listen on: listen_addr and unix_socket_dir are both empty",
                )
                .hint("set listen_addr = 127.0.0.1, or * for all addresses"),
            );
        }
        if self.global.listen_port == 0 {
            self.warn_setting(
                "listen_port",
                "listen_port = 0 lets the kernel choose a port",
                "clients cannot know it",
            );
        }
        if self.global.unix_socket_mode > 0o777 {
            let mode = self.global.unix_socket_mode;
            self.warn_setting(
                "unix_socket_mode",
                format!("unix_socket_mode is {mode:o} in octal, more than permissions"),
                "write octal numbers with a leading 0, as in 0777",
            );
        }
        if self.global.max_client_conn == 0 {
            self.warn_setting(
                "max_client_conn",
                "max_client_conn = 0 lets no client in",
                "set it to a number above 0",
            );
        }
    }

    fn users_and_secrets(&mut self) {
        let auth_type = self.global.auth_type;
        let word = auth_type.word();
        let looked_up = self
            .each_database()
            .any(|database| self.config.auth_user(database).is_some())
            || self.global.auth_user.is_some();
        let needs_users = matches!(
            auth_type,
            AuthType::Trust | AuthType::Plain | AuthType::Md5 | AuthType::ScramSha256 | AuthType::Cert
        );
        if needs_users && self.global.auth_file.is_none() && !looked_up {
            self.warn_setting(
                "auth_type",
                format!("no user can log in: auth_type = {word} needs auth_file or auth_user"),
                "set auth_file to a file of lines \"user\" \"password\"",
            );
        }
        if auth_type == AuthType::ScramSha256 {
            let md5: Vec<&str> = self
                .config
                .auth_users
                .iter()
                .filter(|(_, secret)| matches!(secret, Secret::Md5(_)))
                .map(|(user, _)| user.as_str())
                .collect();
            if let Some(first) = md5.first() {
                let others = match md5.len() {
                    1 => String::new(),
                    count => format!(" and {} more", count - 1),
                };
                self.warn_setting(
                    "auth_file",
                    format!("user \"{first}\"{others} cannot log in: auth_type = {word} cannot use an MD5 hash"),
                    "store SCRAM verifiers, or use auth_type = md5, which takes both",
                );
            }
        }
        if (1..SCRAM_ITERATIONS_MIN).contains(&self.global.scram_iterations) {
            self.warn_setting(
                "scram_iterations",
                format!("scram_iterations is below {SCRAM_ITERATIONS_MIN}"),
                "fewer iterations make stolen verifiers easier to guess",
            );
        }
    }

    fn access(&mut self) {
        let reachable = self
            .global
            .listen_addr
            .addresses()
            .iter()
            .any(ListenAddress::is_reachable_from_outside);
        match self.global.auth_type {
            AuthType::Any => {
                self.warn_setting(
                    "auth_type",
                    "auth_type = any lets anyone in, and makes everyone an administrator of the console",
                    "it is meant for tests",
                );
                for database in self.each_database().filter(|database| database.user.is_none()) {
                    self.warn(
                        self.database_place(&database.name),
                        format!(
                            "database \"{}\" cannot be used: auth_type = any needs a user for it",
                            database.name
                        ),
                        "add user=",
                    );
                }
            }
            AuthType::Trust if reachable => self.warn_setting(
                "auth_type",
                "auth_type = trust lets other machines in under any known name, without a password",
                "use scram-sha-256, or set listen_addr = 127.0.0.1",
            ),
            AuthType::Plain if reachable => self.warn_setting(
                "auth_type",
                "auth_type = plain sends passwords over the network in clear text",
                "use scram-sha-256",
            ),
            _ => {}
        }
    }

    fn sizes_of_databases(&mut self) {
        let global = self.global;
        for database in self.each_database() {
            let place = self.database_place(&database.name);
            let name = &database.name;
            let pool_size = database.pool_size.unwrap_or(global.default_pool_size);
            let pool_size = pool_size.fixed().unwrap_or(global.pool_size_max);
            let min = database.min_pool_size.unwrap_or(global.min_pool_size);
            if pool_size > 0 && min > pool_size && (database.pool_size.is_some() || database.min_pool_size.is_some()) {
                self.warn(
                    place,
                    format!("database \"{name}\": min_pool_size {min} is above the pool's size {pool_size}"),
                    "a pool never grows beyond its size",
                );
            }
            let max = database.max_db_connections.unwrap_or(global.max_db_connections);
            if max > 0 && max < pool_size && (database.pool_size.is_some() || database.max_db_connections.is_some()) {
                self.warn(
                    place,
                    format!("database \"{name}\": its pools can never fill: max_db_connections {max} is below their size {pool_size}"),
                    "raise the limit or lower pool_size",
                );
            }
        }
    }

    fn sizes(&mut self) {
        let global = self.global;
        let size = global.default_pool_size.fixed().unwrap_or(global.pool_size_max);
        if size > 0 && global.min_pool_size > size {
            self.warn_setting(
                "min_pool_size",
                format!(
                    "min_pool_size {} is above default_pool_size {size}",
                    global.min_pool_size
                ),
                "a pool never grows beyond its size",
            );
        }
        for (limit, max) in [
            ("max_db_connections", global.max_db_connections),
            ("max_user_connections", global.max_user_connections),
        ] {
            if max > 0 && max < size {
                self.warn_setting(
                    limit,
                    format!("pools can never fill: {limit} {max} is below default_pool_size {size}"),
                    "raise the limit or lower the size",
                );
            }
        }
    }

    fn reserve(&mut self) {
        let global = self.global;
        let reserve = global.reserve_pool_size > 0
            || self
                .each_database()
                .any(|database| database.reserve_pool_size.unwrap_or(0) > 0)
            || self
                .config
                .users
                .values()
                .any(|user| user.reserve_pool_size.unwrap_or(0) > 0);
        if reserve && global.reserve_pool_timeout.is_zero() {
            self.warn_setting(
                "reserve_pool_timeout",
                "the reserve is never used: reserve_pool_timeout is 0",
                "set it to the seconds a client waits before the reserve is used",
            );
        }
    }

    fn inherited_zeroes(&mut self) {
        for (place, key) in &self.places.inherited {
            let Some(setting) = crate::Setting::find(key) else {
                continue;
            };
            let value = setting.value(self.config).unwrap_or_default();
            if value != "0" {
                self.warn(
                    place,
                    format!("{key}=0 stands here for the global value, which is {value}"),
                    "only section [pgbouncer] can switch it off",
                );
            }
        }
    }

    fn modes_and_queries(&mut self) {
        let global = self.global;
        let modes = || {
            let of_databases = self
                .each_database()
                .map(|database| database.pool_mode.unwrap_or(global.pool_mode));
            of_databases.chain(self.config.users.values().filter_map(|user| user.pool_mode))
        };
        let session = modes().any(|mode| mode == PoolMode::Session);
        let others = modes().any(|mode| mode != PoolMode::Session);
        let reset = global.server_reset_query.to_ascii_lowercase();
        if global.server_reset_query_always.is_on() && others {
            self.warn_setting(
                "server_reset_query_always",
                "server_reset_query_always costs a round trip per transaction and loses prepared statements",
                "leave it out: sessions are kept apart without it",
            );
        } else if self.config.is_named("server_reset_query") && !reset.is_empty() && others && !session {
            self.warn_setting(
                "server_reset_query",
                "server_reset_query is not used: no pool has pool_mode = session",
                "leave it out",
            );
        }
        if reset.contains("rollback") || reset.contains("abort") {
            self.warn_setting(
                "server_reset_query",
                "server_reset_query rolls back where no transaction is open",
                "servers are released outside transactions only; DISCARD ALL is enough",
            );
        }
        if global.server_lifetime.is_zero() {
            self.warn_setting(
                "server_lifetime",
                "server_lifetime = 0 uses each server connection once",
                "set it to the seconds a connection may live",
            );
        }
    }
}
