//! How a process begins: with nothing, or with the state of another one.

use super::arriving::{Inherited, Predecessor, Taken};
use super::{ConnectionRecord, socket_path};
use crate::connection::{Connection, Facts};
use crate::connections::Connections;
use crate::event_loop::EventLoop;
use crate::listener::Listener;
use crate::log::Log;
use crate::service_manager::Environment;
use crate::settings::Settings;
use crate::start_error::StartError;
use crate::transport::Transport;
use pgweir_config::{Config, Holder, Problem, Severity};
use pgweir_core::{ConnectionId, LogLevel, Pooler, Surroundings, Time};
use std::collections::HashSet;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Instant;

/// Idle connections that are watched again in one turn of the event loop.
const WATCHED_PER_TURN: usize = 256;

/// Why a configuration that cannot be used harms nobody.
const GOES_ON: &str = "the old process goes on as before";

const OLD_PROCESS: Holder<'_> = Holder {
    name: "the old process",
    then: GOES_ON,
    way_out: "to have none, start without -R",
};

/// The process that this one replaces, if there is one, and what it has handed over.
#[derive(Debug)]
pub(crate) struct Beginning {
    predecessor: Option<Predecessor>,
    inherited: Inherited,
    environment: Environment,
}

/// A pooler, new or thawed, and its surroundings.
pub(crate) struct Begun {
    pub(crate) pooler: Pooler,
    /// The instant of [`Time`] zero.
    pub(crate) started: Instant,
    predecessor: Option<pgweir_core::Predecessor>,
    sockets: Vec<(ConnectionRecord, OwnedFd)>,
}

impl Beginning {
    /// With `-R`, finds the process to replace. If there is one, everything has been received when this returns.
    /// Nothing is asked of it if files cannot be read that its RELOAD would not do without. Like a RELOAD, this fails if
    /// something is gone that logins need.
    pub(crate) fn find(reboot: bool, config: &Config, log: &mut Log) -> Result<Self, StartError> {
        let settings = &Settings::of(config).listen;
        let mut beginning = Beginning {
            predecessor: None,
            inherited: Inherited::default(),
            environment: Environment::read(),
        };
        let Some(dir) = settings.unix_socket_dir.as_ref().filter(|_| reboot) else {
            if reboot {
                let text = "unix_socket_dir is not set, so that no old process can be found; try to continue normally";
                log.write(LogLevel::Log, text);
            }
            return Ok(beginning);
        };
        let place = socket_path(dir, settings.port);
        let Some(mut predecessor) = Predecessor::at(&place)? else {
            log.write(LogLevel::Log, "old process not found, try to continue normally");
            return Ok(beginning);
        };
        let unusable = unusable(config);
        if !unusable.is_empty() {
            return Err(StartError::Configuration(unusable));
        }
        match predecessor.inherit() {
            Ok(inherited) => {
                let before = inherited.taken.as_ref().map(Taken::holdings).unwrap_or_default();
                let lost = config.losses(&before, OLD_PROCESS);
                if !lost.is_empty() {
                    return Err(StartError::Configuration(lost));
                }
                beginning.inherited = inherited;
                beginning.predecessor = Some(predecessor);
            }
            Err(e) if predecessor.has_died() => {
                let text = format!(
                    "old process {} has ended ({e}), try to continue normally",
                    predecessor.pid()
                );
                log.write(LogLevel::Warning, &text);
            }
            Err(source) => return Err(StartError::TakeOver { place, source }),
        }
        Ok(beginning)
    }

    /// Whether there is a process to replace.
    pub(crate) fn is_take_over(&self) -> bool {
        self.predecessor.is_some()
    }

    /// Listening sockets that this process may use.
    pub(crate) fn listeners(&mut self) -> &mut Vec<Listener> {
        &mut self.inherited.listeners
    }

    /// The socket for the next take-over.
    pub(crate) fn take_gate(&mut self) -> Option<OwnedFd> {
        self.inherited.gate.take()
    }

    /// The environment variables of the service manager, from this process or the earlier one.
    pub(crate) fn environment(&self) -> &Environment {
        &self.environment
    }

    /// The pooler to begin with. If the state cannot be used, it stays with the old process.
    pub(crate) fn pooler(&mut self, config: Config, surroundings: Surroundings, log: &mut Log) -> Begun {
        let config = Arc::new(config);
        let now = Instant::now();
        if let Some(mut taken) = self.inherited.taken.take() {
            let started = taken.started();
            let age = now.saturating_duration_since(started);
            let mut of_old = surroundings.clone();
            of_old.wall.unix_us -= i64::try_from(age.as_micros()).unwrap_or(0);
            match Pooler::thaw(&taken.state, Arc::clone(&config), of_old) {
                Ok((pooler, predecessor)) => {
                    self.environment.complete(taken.service_manager());
                    return Begun {
                        pooler,
                        started,
                        predecessor: Some(predecessor),
                        sockets: taken.connections(),
                    };
                }
                Err(_) => log.write(
                    LogLevel::Warning,
                    "the state of the old process cannot be read; it keeps its connections",
                ),
            }
        }
        Begun {
            pooler: Pooler::new(config, surroundings, Time(0)),
            started: now,
            predecessor: None,
            sockets: Vec::new(),
        }
    }

    /// The old process stops. When this returns without an error, this process must serve all connections.
    pub(crate) fn take_place(&mut self, with_connections: bool, log: &mut Log) -> Result<(), StartError> {
        let Some(predecessor) = &mut self.predecessor else {
            return Ok(());
        };
        predecessor
            .take_place(with_connections)
            .map_err(|source| StartError::TakeOver {
                place: format!("process {}", predecessor.pid()),
                source,
            })?;
        let what = match with_connections {
            true => "all connections",
            false => "the listening sockets",
        };
        let text = format!("online restart: {what} taken over from process {}", predecessor.pid());
        log.write(LogLevel::Log, &text);
        Ok(())
    }
}

/// The files that cannot be read, as errors; a configuration file in which nothing is counts among them.
fn unusable(config: &Config) -> Vec<Problem> {
    if config.is_blank() {
        let message = "the file has no setting and no database, but there is a process to take over from";
        return vec![Problem::error(&config.place(), message).hint(GOES_ON)];
    }
    let unread = config.unread_files.iter().cloned();
    let as_error = |problem| Problem {
        severity: Severity::Error,
        hint: Some(GOES_ON.into()),
        ..problem
    };
    unread.map(as_error).collect()
}

impl Begun {
    /// Takes up the connections that were handed over. Those at work are watched at once. The others follow in later
    /// turns of the event loop ([`EventLoop::watch_some`]), so that they delay nobody: when a socket is watched, its
    /// earlier events are reported.
    pub(crate) fn take_up(&mut self, connections: &mut Connections) -> Vec<ConnectionId> {
        let mut unwatched = Vec::new();
        for (record, socket) in self.sockets.drain(..) {
            let id = record.id;
            let generation = match id {
                ConnectionId::Client(client) => client.0.generation,
                ConnectionId::Server(server) => server.0.generation,
            };
            let mut connection = Connection::new(Transport::new(socket), generation);
            // The other side may not have read the latest output.
            connection.facts.set(Facts::SPOKE_LAST);
            if record.is_unix {
                connection.facts.set(Facts::UNIX);
            }
            let is_idle_client = matches!(id, ConnectionId::Client(_)) && self.pooler.linked(id).is_none();
            let is_at_work = !is_idle_client || !record.kept.is_empty() || !record.pending.is_empty();
            if let Some(peer) = record.relayed {
                connection.facts.set(Facts::RELAYED);
                connections.relayed.insert(id, peer);
            }
            connection.kept = record.kept;
            connection.pending.push(&record.pending);
            connections.insert(id, connection);
            match is_at_work {
                true => connections.watch(id),
                false => unwatched.push(id),
            }
        }
        unwatched
    }

    /// What the core must know before it can go on: the old process, and the connections that have come from it.
    pub(crate) fn predecessor(&mut self) -> Option<(pgweir_core::Predecessor, HashSet<ConnectionId>)> {
        let ids = self.sockets.iter().map(|(record, _)| record.id).collect();
        self.predecessor.take().map(|predecessor| (predecessor, ids))
    }
}

impl EventLoop {
    /// Continues where the other process has stopped, with the connections that were handed over.
    pub(crate) fn go_on(
        &mut self,
        predecessor: pgweir_core::Predecessor,
        has: &HashSet<ConnectionId>,
        unwatched: Vec<ConnectionId>,
    ) {
        self.unwatched = unwatched;
        self.look_at_clock();
        self.pooler
            .handle_taken_over(self.now, predecessor, |id| has.contains(&id));
        self.settle();
    }

    /// Begins to watch some of the connections that were handed over. Those that are gone are skipped.
    pub(crate) fn watch_some(&mut self) {
        for id in self
            .unwatched
            .split_off(self.unwatched.len().saturating_sub(WATCHED_PER_TURN))
        {
            self.connections.watch(id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A disk that is full leaves such a file; a RELOAD refuses it, too.
    #[test]
    fn a_configuration_file_in_which_nothing_is_takes_nothing_over() {
        let unusable = |text: &'static str| {
            let loaded = pgweir_config::load("pgweir.ini", &|_: &str| Ok(text.as_bytes().to_vec()));
            unusable(&loaded.unwrap().config).len()
        };
        assert_eq!(unusable("[pgbouncer]\n"), 1);
        assert_eq!(unusable("[databases]\nshop =\n[pgbouncer]\n"), 0);
    }
}
