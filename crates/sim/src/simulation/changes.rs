//! Changes of the configuration: by a RELOAD, and by a process that takes over.
//!
//! Each gives all databases other servers, so that no client may get a server of an earlier configuration any more.

use super::beginning::config_of;
use super::network::Connection;
use super::world::World;
use pgweir_config::Config;
use pgweir_core::ReloadOutcome;
use std::sync::Arc;

impl World {
    /// The next configuration, which counts from now on.
    pub(super) fn next_config(&mut self) -> Arc<Config> {
        self.changes += 1;
        config_of(&self.topology, self.changes)
    }

    pub(super) fn reload(&mut self) {
        let outcome = ReloadOutcome::New(self.next_config(), Vec::new());
        self.pooler.handle_reload(self.now(), None, outcome);
        self.settle();
    }
}

/// What is wrong with giving this server to a client after so many changes.
pub(super) fn is_former(server: &Connection, changes: u64) -> Option<String> {
    (server.changes < changes).then(|| {
        format!(
            "{:?} of configuration {} is given to a client, and {changes} counts",
            server.id, server.changes
        )
    })
}
