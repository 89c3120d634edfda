//! How statements begin, end and nest transactions.

use super::error::ServerError;
use super::portal::{Portal, PortalState};
use super::session::Session;
use super::transaction::{Block, Shared};

impl Session {
    pub(super) fn begin(&mut self) {
        if matches!(self.transaction.block, Block::InProgress) {
            self.report(&ServerError::warning(
                "25001",
                "there is already a transaction in progress",
            ));
        }
        self.transaction.block = Block::InProgress;
    }

    fn no_transaction(&mut self) {
        self.report(&ServerError::warning("25P01", "there is no transaction in progress"));
    }

    pub(super) fn commit_statement(&mut self, shared: &mut Shared, chain: bool) -> Result<&'static str, ServerError> {
        match self.transaction.block {
            Block::Default | Block::Started | Block::Implicit => {
                if chain {
                    return Err(needs_block("COMMIT AND CHAIN"));
                }
                self.no_transaction();
                self.commit(shared)?;
                Ok("COMMIT")
            }
            Block::InProgress => {
                self.commit(shared)?;
                self.chain(chain);
                Ok("COMMIT")
            }
            Block::Failed => {
                self.warn_of_portals(0);
                self.abort_all();
                self.chain(chain);
                Ok("ROLLBACK")
            }
        }
    }

    pub(super) fn rollback_statement(&mut self, chain: bool) -> Result<(), ServerError> {
        match self.transaction.block {
            Block::Default | Block::Started | Block::Implicit => {
                if chain {
                    return Err(needs_block("ROLLBACK AND CHAIN"));
                }
                self.no_transaction();
                self.abort_all();
            }
            block @ (Block::InProgress | Block::Failed) => {
                if block == Block::Failed {
                    self.warn_of_portals(0);
                }
                self.abort_all();
                self.chain(chain);
            }
        }
        Ok(())
    }

    /// The warnings when a failed transaction is cleaned up, about portals that were made in it after the
    /// failure (`AtCleanup_Portals`).
    fn warn_of_portals(&mut self, level_id: u32) {
        // Levels further out are aborted in order, and their portals with them.
        let level_id = level_id.max(self.transaction.level_id());
        let is_skipped = |portal: &Portal| {
            portal.needs_cleanup && portal.state != PortalState::Dangling && portal.level_id >= level_id
        };
        let skipped = self.portals.iter().filter(|(_, portal)| is_skipped(portal));
        let names: Vec<_> = skipped
            .map(|(name, _)| String::from_utf8_lossy(name).into_owned())
            .collect();
        for name in names {
            let text = format!("skipping cleanup for portal \"{name}\"");
            self.report(&ServerError::warning("01000", text));
        }
    }

    fn chain(&mut self, chain: bool) {
        if chain {
            self.transaction.block = Block::InProgress;
            self.transaction.pipelining = false;
            self.transaction.next_level_id = 0;
            self.transaction.push(None, self.settings.snapshot());
        }
    }

    pub(super) fn require_block(&self, what: &str) -> Result<(), ServerError> {
        match self.transaction.block {
            Block::InProgress | Block::Failed => Ok(()),
            Block::Default | Block::Started | Block::Implicit => Err(needs_block(what)),
        }
    }

    /// `PreventInTransactionBlock`.
    pub(super) fn refuse_in_block(&self, what: &str) -> Result<(), ServerError> {
        match self.transaction.block {
            Block::Default | Block::Started if !self.transaction.pipelining => Ok(()),
            Block::Default | Block::Started => Err(ServerError::error(
                "25001",
                format!("{what} cannot be executed within a pipeline"),
            )),
            _ => Err(ServerError::error(
                "25001",
                format!("{what} cannot run inside a transaction block"),
            )),
        }
    }

    fn savepoint(&self, name: &str) -> Result<usize, ServerError> {
        self.transaction
            .levels
            .iter()
            .rposition(|level| level.name.as_deref() == Some(name))
            .ok_or_else(|| ServerError::error("3B001", format!("savepoint \"{name}\" does not exist")))
    }

    pub(super) fn rollback_to(&mut self, name: &str) -> Result<(), ServerError> {
        let index = self.savepoint(name)?;
        if self.transaction.block == Block::Failed {
            self.warn_of_portals(self.transaction.levels[index].id);
        }
        self.transaction.levels.truncate(index + 1);
        self.undo_innermost();
        let Some(level) = self.transaction.levels.pop() else {
            return Ok(());
        };
        let outer = self.transaction.level_id();
        self.portals.retain(|_, portal| portal.level_id <= outer);
        self.transaction.push(level.name, level.settings);
        self.transaction.block = Block::InProgress;
        Ok(())
    }

    pub(super) fn release(&mut self, name: &str) -> Result<(), ServerError> {
        let index = self.savepoint(name)?;
        self.transaction.levels.truncate(index);
        let outer = self.transaction.level_id();
        for portal in self.portals.values_mut() {
            portal.level_id = portal.level_id.min(outer);
        }
        for cursor in self.cursors.values_mut() {
            cursor.level_id = cursor.level_id.map(|id| id.min(outer));
        }
        Ok(())
    }
}

fn needs_block(what: &str) -> ServerError {
    ServerError::error("25P01", format!("{what} can only be used in transaction blocks"))
}
