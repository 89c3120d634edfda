//! The model PostgreSQL as a process with many connections.

use crate::model::{CatalogLocks, Pace, RoleDefault, Session, Shared, Version};
use pgweir_wire::CancelKey;
use std::collections::BTreeMap;
use std::rc::Rc;

/// The beginning of the names of internal statements.
const INTERNAL: &str = "pgweir_";

/// A prepared statement with an internal name.
#[derive(Debug, Clone)]
pub struct Internal {
    /// Its name.
    pub name: String,
    /// The pooler has made it for itself, and not for a client.
    pub is_of_pooler: bool,
}

/// One server.
#[derive(Debug)]
pub struct Postgres {
    version: Version,
    /// The default settings of sessions.
    defaults: Rc<[RoleDefault]>,
    /// In a new database the function `changing()` sets a setting.
    code_sets: bool,
    common_users: bool,
    /// For so many steps of all sessions replicas lag.
    lag: u64,
    /// By database, of which there are few.
    shared: Vec<(String, Shared)>,
    sessions: BTreeMap<u32, Session>,
    next_process_id: u32,
    /// While it is down connections are refused.
    pub down: bool,
}

impl Postgres {
    /// A server without connections, with these default settings of sessions.
    pub fn new(version: Version, defaults: &[RoleDefault]) -> Self {
        Postgres {
            version,
            defaults: defaults.into(),
            code_sets: false,
            common_users: false,
            lag: 0,
            shared: Vec::new(),
            sessions: BTreeMap::new(),
            next_process_id: 1,
            down: false,
        }
    }

    /// In all databases the function `changing()` sets a setting, until a client replaces the function.
    pub fn with_code_that_sets(mut self, sets: bool) -> Self {
        self.code_sets = sets;
        self
    }

    /// No user is a superuser, if this holds.
    pub fn with_common_users(mut self, are: bool) -> Self {
        self.common_users = are;
        self
    }

    /// For so many steps of all sessions replicas lag.
    pub fn with_lag(mut self, lag: u64) -> Self {
        self.lag = lag;
        self
    }

    /// The session is on a replica.
    pub fn is_on_replica(&mut self, process_id: u32) {
        if let Some(session) = self.sessions.remove(&process_id) {
            self.sessions.insert(process_id, session.on_replica());
        }
    }

    /// Accepts a connection; returns its process id. `forgets` omits the default settings of its role and
    /// database. `is_standby`: it is on a standby.
    pub fn accept(&mut self, pace: Pace, locks: Option<CatalogLocks>, forgets: bool, is_standby: bool) -> u32 {
        let process_id = self.next_process_id;
        self.next_process_id += 1;
        let key = CancelKey {
            process_id,
            secret: (process_id ^ 0x5a5a_5a5a).to_be_bytes().into(),
        };
        let defaults = if forgets { Rc::default() } else { self.defaults.clone() };
        let session = Session::new(self.version, key)
            .at_pace(pace)
            .with_defaults(defaults)
            .with_catalog_locks(locks)
            .of_common_user(self.common_users);
        let session = if is_standby { session.on_standby() } else { session };
        self.sessions.insert(process_id, session);
        process_id
    }

    /// A session.
    pub fn session(&self, process_id: u32) -> Option<&Session> {
        self.sessions.get(&process_id)
    }

    /// A session, for what does not concern its database.
    pub fn session_mut(&mut self, process_id: u32) -> Option<&mut Session> {
        self.sessions.get_mut(&process_id)
    }

    /// Idle sessions of the same database that have not delivered all notifications.
    pub fn behind(&self, process_id: u32) -> Vec<u32> {
        let Some(database) = self.sessions.get(&process_id).map(|s| s.owner().0) else {
            return Vec::new();
        };
        let of_database = |(name, shared): &&(String, Shared)| name == database && shared.has_notifications();
        let Some((_, shared)) = self.shared.iter().find(of_database) else {
            return Vec::new();
        };
        let is_behind = |s: &Session| s.is_idle() && s.owner().0 == database && s.has_to_hear(shared);
        self.sessions()
            .filter(|(_, s)| is_behind(s))
            .map(|(id, _)| id)
            .collect()
    }

    /// All sessions.
    pub fn sessions(&self) -> impl Iterator<Item = (u32, &Session)> {
        self.sessions.iter().map(|(id, session)| (*id, session))
    }

    /// Internal statements, which a client with such a server can read in pg_prepared_statements.
    pub fn internal_statements(&self) -> Vec<Internal> {
        let all = self.sessions.values().flat_map(Session::statement_names);
        all.filter(|(name, _)| name.starts_with(INTERNAL))
            .map(|(name, is_of_pooler)| Internal {
                name: name.into(),
                is_of_pooler,
            })
            .collect()
    }

    /// Calls `act` with a session and its database.
    pub fn with<T>(&mut self, process_id: u32, act: impl FnOnce(&mut Session, &mut Shared) -> T) -> Option<T> {
        let session = self.sessions.get_mut(&process_id)?;
        let database = session.owner().0;
        let at = match self.shared.iter().position(|(name, _)| name == database) {
            Some(at) => at,
            None => {
                let shared = Shared::new().with_lag(self.lag);
                let shared = match self.code_sets {
                    true => shared.with_code_that_sets(),
                    false => shared,
                };
                self.shared.push((database.into(), shared));
                self.shared.len() - 1
            }
        };
        let shared = &mut self.shared[at].1;
        shared.step();
        Some(act(session, shared))
    }

    /// Forgets a session whose connection is gone.
    pub fn remove(&mut self, process_id: u32) {
        self.sessions.remove(&process_id);
    }
}
