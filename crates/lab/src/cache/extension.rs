//! Extensions that the commands look through, and how to come by them.

use crate::server::{is_connection_lost, query_error};
use crate::{Error, Result};
use postgres::Client;
use postgres::error::SqlState;

/// What a server says that goes away.
const ENDS: [SqlState; 3] = [
    SqlState::ADMIN_SHUTDOWN,
    SqlState::CRASH_SHUTDOWN,
    SqlState::CANNOT_CONNECT_NOW,
];

const STOPPED: &str = "was PostgreSQL stopped or restarted meanwhile?";

/// Where an extension stands in the connected database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Extension {
    /// Created; the schema is quoted where it has to be.
    Created {
        /// Schema of its objects.
        schema: String,
        /// Major and minor version.
        version: (u32, u32),
    },
    /// Its files are on the server; `create extension` would do.
    Available,
    /// Its files are not there.
    Missing,
}

impl Extension {
    /// Looks it up.
    pub(crate) fn find(client: &mut Client, name: &str) -> Result<Self> {
        let created = client
            .query_opt(
                "select quote_ident(n.nspname), e.extversion from pg_catalog.pg_extension e \
                 join pg_catalog.pg_namespace n on n.oid = e.extnamespace where e.extname = $1",
                &[&name],
            )
            .map_err(|e| failed(&e))?;
        if let Some(row) = created {
            return Ok(Extension::Created {
                schema: row.get(0),
                version: version(row.get(1)),
            });
        }
        let available = client
            .query_opt(
                "select 1 from pg_catalog.pg_available_extensions where name = $1",
                &[&name],
            )
            .map_err(|e| failed(&e))?;
        Ok(if available.is_some() {
            Extension::Available
        } else {
            Extension::Missing
        })
    }

    /// What keeps it from being used and what to do, for people; None where it can be used.
    pub(crate) fn obstacle(&self, name: &str, database: &str) -> Option<(String, String)> {
        match self {
            Extension::Created { .. } => None,
            Extension::Available => Some((
                format!("extension \"{name}\" is not created in database \"{database}\""),
                format!("as a superuser: create extension {name}"),
            )),
            Extension::Missing => Some((
                format!("extension \"{name}\" is not installed on the server"),
                "install PostgreSQL's contrib modules (Debian: part of postgresql; Red Hat: postgresql-contrib), then: \
                 create extension "
                    .to_owned() + name,
            )),
        }
    }
}

/// Creates an extension that is available, after the user has agreed.
pub(crate) fn create(client: &mut Client, name: &str) -> Result<Extension> {
    client
        .batch_execute(&format!("create extension if not exists {name}"))
        .map_err(|e| failed(&e).context(format!("could not create extension \"{name}\"")))?;
    Extension::find(client, name)
}

/// `1.3` as (1, 3).
fn version(text: &str) -> (u32, u32) {
    let mut numbers = text.split('.').map(|part| part.parse().unwrap_or(0));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
}

/// What the server said, or why it cannot be heard; with a hint where that is because it goes away.
pub(crate) fn failed(error: &postgres::Error) -> Error {
    let stopped = is_connection_lost(error) || error.code().is_some_and(|code| ENDS.contains(code));
    match stopped {
        true => query_error(error).hint(STOPPED),
        false => query_error(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions() {
        assert_eq!(
            (version("1.3"), version("1.10"), version("2")),
            ((1, 3), (1, 10), (2, 0))
        );
    }

    #[test]
    fn what_is_missing_is_told_with_what_to_do() {
        let (what, how) = Extension::Available.obstacle("pg_prewarm", "shop").unwrap();
        assert!(
            what.contains("\"pg_prewarm\" is not created in database \"shop\"") && how.contains("create extension")
        );
        assert!(
            Extension::Missing
                .obstacle("pg_prewarm", "shop")
                .unwrap()
                .1
                .contains("contrib")
        );
        let created = Extension::Created {
            schema: "public".to_owned(),
            version: (1, 2),
        };
        assert_eq!(created.obstacle("pg_prewarm", "shop"), None);
    }
}
