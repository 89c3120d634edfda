//! The server that is measured.

use super::database::LabDatabase;
use super::{CommonArguments, load_seen};
use crate::interrupt::Interrupt;
use crate::server::conninfo::Parameters;
use crate::server::{Facts, Server};
use crate::throwaway::{Cluster, Options, SERVER_PORT};
use crate::{Error, Result};
use postgres::Client;

/// The server, and everything that the lab has made in it.
pub struct Target {
    /// The lab's database, dropped with this value. The field comes before the cluster, which must end after it.
    database: Option<LabDatabase>,
    /// The server; once the lab's database is made, connected to that.
    pub server: Server,
    /// The facts that it reported at the beginning.
    pub facts: Facts,
    /// Its cluster, if it is a throwaway server.
    pub cluster: Option<Cluster>,
}

impl Target {
    /// Connects to the server that the arguments name, or starts a throwaway one.
    pub(super) fn open(common: &CommonArguments, settings: &[String]) -> Result<Self> {
        let (server, cluster) = if common.throwaway {
            crate::tell("starting a throwaway PostgreSQL\n");
            let cluster = Cluster::start(&Options {
                bin_dir: common.bin_dir.clone(),
                settings: settings.to_vec(),
                keep: false,
            })?;
            (server_of(&cluster)?, Some(cluster))
        } else {
            (Server::from_arguments(&common.server)?, None)
        };
        let mut client = server.connect()?;
        let facts = Facts::ask(&mut client).map_err(|e| e.context(server.place()))?;
        Ok(Target {
            database: None,
            server,
            facts,
            cluster,
        })
    }

    /// Whether it is a throwaway cluster.
    pub fn is_throwaway(&self) -> bool {
        self.cluster.is_some()
    }

    /// Fails if the server must not be measured.
    pub(super) fn refuse_if_unfit(&self, force: bool, interrupt: &Interrupt) -> Result<()> {
        if self.facts.in_recovery {
            return Err(Error::new("the server is in recovery, so nothing can be created in it")
                .hint("measure the primary, or --throwaway"));
        }
        if force {
            return Ok(());
        }
        load_seen::refuse_foreign_load(&mut self.server.connect()?, &self.facts, interrupt)
    }

    /// Makes the lab's database, and connects to it from now on.
    pub(super) fn make_database(&mut self, common: &CommonArguments) -> Result<()> {
        let inside = self.server.in_database(&common.database);
        if common.existing {
            drop(inside.connect()?);
        } else {
            self.database = Some(LabDatabase::create(&self.server, &common.database, self.facts.major())?);
        }
        self.server = inside;
        Ok(())
    }

    /// Drops the lab's database now, and reports a failure.
    pub fn close(mut self) -> Result<()> {
        self.database.take().map_or(Ok(()), LabDatabase::drop_now)
    }

    /// A connection in the lab's database.
    pub fn connect(&self) -> Result<Client> {
        self.server.connect()
    }

    /// From now on the server is reached at this address, because its settings have changed.
    pub fn reach_by(&mut self, changes: &[(&str, &str)]) -> Result<()> {
        self.server = self.server.with(changes)?;
        match &mut self.database {
            Some(database) => database.reach_by(changes),
            None => Ok(()),
        }
    }

    /// Stops the throwaway PostgreSQL and starts it with these settings in place of the previous ones.
    pub fn restart(&mut self, settings: &[String]) -> Result<()> {
        match &mut self.cluster {
            Some(cluster) => cluster.restart(settings),
            None => Err(Error::new("only a throwaway server can be restarted")),
        }
    }
}

/// The address of a throwaway cluster.
fn server_of(cluster: &Cluster) -> Result<Server> {
    let mut parameters = Parameters::default();
    let folder = cluster.folder().to_string_lossy();
    for (name, value) in [
        ("host", &*folder),
        ("port", &SERVER_PORT.to_string()),
        ("user", "postgres"),
        ("dbname", "postgres"),
        ("sslmode", "disable"),
    ] {
        parameters.set(name, value).map_err(Error::new)?;
    }
    Server::new(parameters)
}
