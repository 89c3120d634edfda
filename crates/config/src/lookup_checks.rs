//! Checks of the queries that look up users.

use crate::auth_query::is_qualified;
use crate::checks::Checks;

impl Checks<'_> {
    /// Queries that look up users.
    pub(crate) fn lookups(&mut self) {
        let looked_up = self
            .each_database()
            .any(|database| self.config.auth_user(database).is_some())
            || self.global.auth_user.is_some();
        if self.config.is_named("auth_query") && !looked_up {
            self.warn_setting(
                "auth_query",
                "auth_query is not used",
                "it needs auth_user, the role that runs it",
            );
        }
        let (config, global) = (self.config, self.global);
        let message = |whose: &str| {
            format!(
                "the owner of a database can make {whose}auth_query run code as auth_user, and choose users' passwords"
            )
        };
        let hint = "set auth_dbname to a database that only you own, or write a schema in front of each table, function, type and \
            operator: pg_catalog.pg_authid, OPERATOR(pg_catalog.=)";
        // Databases that no line names are made by `auth_user` of [pgbouncer], too.
        if global.auth_user.is_some() && global.auth_dbname.is_none() && !is_qualified(&global.auth_query) {
            self.warn_setting("auth_query", message(""), hint);
        }
        let of_lines: Vec<String> = self
            .each_database()
            .filter(|database| database.auth_query.is_some() || global.auth_user.is_none())
            .filter(|database| config.auth_user(database).is_some() && config.auth_dbname(database).is_none())
            .filter(|database| !is_qualified(config.auth_query(database)))
            .map(|database| database.name.clone())
            .collect();
        for name in of_lines {
            self.warn(
                self.database_place(&name),
                message(&format!("database \"{name}\"'s ")),
                hint,
            );
        }
    }
}
