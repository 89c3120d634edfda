//! The lab's own database: it is created, and dropped however the measurement ends.

use crate::server::{Server, query_error};
use crate::{Error, Result};
use postgres::Client;
use postgres::error::SqlState;
use std::thread;
use std::time::{Duration, Instant};

/// The comment that marks a database as the lab's own.
const MARK: &str = "made by pgweir lab, which drops it when it ends";

/// How long to try to drop the database while the server does not answer, and how often.
const SERVER_BACK_MAX: Duration = Duration::from_secs(5);
const ASK_INTERVAL: Duration = Duration::from_millis(250);

/// A database that is dropped together with this value.
#[derive(Debug)]
pub struct LabDatabase {
    /// The server, connected to a database that existed before.
    server: Server,
    name: String,
    /// The server's major version.
    major: u32,
}

impl LabDatabase {
    /// Creates it. A database that a killed run of the lab has left is dropped first; any other is not touched.
    pub fn create(server: &Server, name: &str, major: u32) -> Result<Self> {
        if server.get("dbname") == Some(name) {
            return Err(Error::new(format!(
                "the lab cannot create database \"{name}\" while it is connected to it"
            ))
            .hint("name another database of the server to connect to, such as dbname=postgres")
            .hint("--existing uses the database as it is"));
        }
        let mut client = server.connect()?;
        let found = client
            .query_opt(
                "select coalesce(shobj_description(oid, 'pg_database'), '') from pg_database where datname = $1",
                &[&name],
            )
            .map_err(|e| query_error(&e))?;
        if let Some(row) = found {
            if row.get::<_, &str>(0) != MARK {
                return Err(
                    Error::new(format!("database \"{name}\" exists, and the lab has not made it"))
                        .hint("name another one with --database, which is created and dropped")
                        .hint("--existing uses the database as it is"),
                );
            }
            drop_database(&mut client, name, major)?;
        }
        // The guard exists before the database, because a signal may come in between.
        let database = LabDatabase {
            server: server.clone(),
            name: name.to_owned(),
            major,
        };
        let created = client.batch_execute(&format!("create database {}", quoted(name)));
        if let Err(e) = created {
            std::mem::forget(database);
            let may_not = e.code() == Some(&SqlState::INSUFFICIENT_PRIVILEGE);
            let failed = query_error(&e);
            return Err(if may_not {
                let user = server.get("user").unwrap_or_default();
                failed.hint(format!(
                    "alter role {} createdb, or measure as another role",
                    quoted(user)
                ))
            } else {
                failed
            });
        }
        client
            .batch_execute(&format!("comment on database {} is '{MARK}'", quoted(name)))
            .map_err(|e| query_error(&e))?;
        Ok(database)
    }

    /// From now on the server is reached at this address.
    pub(super) fn reach_by(&mut self, changes: &[(&str, &str)]) -> Result<()> {
        self.server = self.server.with(changes)?;
        Ok(())
    }

    /// Drops it now.
    pub fn drop_now(self) -> Result<()> {
        let outcome = self.try_drop();
        std::mem::forget(self);
        outcome
    }

    fn try_drop(&self) -> Result<()> {
        let started = Instant::now();
        let mut client = loop {
            match self.server.connect() {
                Ok(client) => break client,
                Err(e) if started.elapsed() > SERVER_BACK_MAX => return Err(self.left_behind(e)),
                Err(_) => thread::sleep(ASK_INTERVAL),
            }
        };
        drop_database(&mut client, &self.name, self.major).map_err(|e| self.left_behind(e))
    }

    fn left_behind(&self, why: Error) -> Error {
        let name = quoted(&self.name);
        why.context(format!("database {name} is left behind"))
            .hint(format!("drop database {name};"))
    }
}

impl Drop for LabDatabase {
    fn drop(&mut self) {
        if let Err(e) = self.try_drop() {
            crate::tell(&format!("pgweir: {e}\n"));
        }
    }
}

fn drop_database(client: &mut Client, name: &str, major: u32) -> Result<()> {
    let name_quoted = quoted(name);
    if major >= 13 {
        let forced = client.batch_execute(&format!("drop database if exists {name_quoted} with (force)"));
        match forced {
            // If an autovacuum worker is connected, which belongs to no user, only a superuser may use "force".
            Err(e) if e.code() == Some(&SqlState::INSUFFICIENT_PRIVILEGE) => {}
            outcome => return outcome.map_err(|e| query_error(&e)),
        }
    }
    // Without "force", PostgreSQL ends autovacuum workers itself, and waits five seconds for other sessions.
    let ended = client.execute(
        "select pg_terminate_backend(pid) from pg_stat_activity where datname = $1 and usename = current_user",
        &[&name],
    );
    let dropped = ended.and_then(|_| client.batch_execute(&format!("drop database if exists {name_quoted}")));
    dropped.map_err(|e| query_error(&e))
}

/// As an identifier.
fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}
