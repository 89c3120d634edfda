//! How commands begin and end transactions (`xact.c`).

use super::error::ServerError;
use super::later;
use super::portal::PortalState;
use super::session::Session;
use super::transaction::{Block, Level, Shared, Writes};
use std::rc::Rc;

impl Session {
    /// `start_xact_command`.
    pub(super) fn start_command(&mut self) -> Result<(), ServerError> {
        let first = !std::mem::replace(&mut self.transaction.command_started, true);
        match self.transaction.block {
            // Sync has ended the implicit block, and no command has ended the rest of it.
            Block::Started if first => {
                return Err(ServerError::error(
                    "XX000",
                    "StartTransactionCommand: unexpected state STARTED",
                ));
            }
            Block::Default => {
                self.transaction.block = Block::Started;
                self.transaction.pipelining = false;
                self.transaction.next_level_id = 0;
                self.transaction.push(None, self.settings.snapshot());
            }
            Block::Started if self.transaction.pipelining && self.version.pipelines_are_blocks() => {
                self.transaction.block = Block::Implicit;
            }
            _ => {}
        }
        Ok(())
    }

    /// `finish_xact_command`.
    pub(super) fn finish_command(&mut self, shared: &mut Shared) -> Result<(), ServerError> {
        let started = std::mem::replace(&mut self.transaction.command_started, false);
        match self.transaction.block {
            Block::Started if started => self.commit(shared),
            _ => Ok(()),
        }
    }

    /// Commits the transaction's writes and ends it. If a deferred constraint does not hold, all of it is undone.
    pub(super) fn commit(&mut self, shared: &mut Shared) -> Result<(), ServerError> {
        if self.transaction.lacking.is_some() {
            self.abort_all();
            return Err(later::violated());
        }
        for (key, value) in std::mem::take(&mut self.transaction.writes).iter() {
            match value {
                Some(value) => shared.table.insert(*key, value.clone()),
                None => shared.table.remove(key),
            };
        }
        if let Some(code) = self.transaction.code.take() {
            shared.replace_code(code);
        }
        if !self.transaction.number_types.is_empty() {
            shared.number_types.extend(self.transaction.number_types.iter());
        }
        self.settings.commit();
        self.commit_objects(shared);
        self.end_transaction();
        Ok(())
    }

    /// Undoes all of the transaction and ends it.
    pub(super) fn abort_all(&mut self) {
        if let Some(Level {
            settings,
            temporary,
            temporary_schema,
            ..
        }) = self.transaction.levels.first()
        {
            self.settings.restore(settings);
            self.transaction.temporary = temporary.clone();
            self.transaction.temporary_schema = *temporary_schema;
        }
        self.cursors.retain(|_, cursor| cursor.level_id.is_none());
        self.end_transaction();
    }

    fn end_transaction(&mut self) {
        self.transaction.block = Block::Default;
        self.transaction.levels.clear();
        self.transaction.writes = Rc::new(Writes::new());
        self.transaction.code = None;
        self.transaction.lacking = None;
        if !self.transaction.number_types.is_empty() {
            self.transaction.number_types = Rc::default();
        }
        self.transaction.announced = Rc::default();
        self.portals.clear();
        self.unsynced.clear();
    }

    /// `AbortCurrentTransaction`: a block becomes a failed one, anything else ends.
    pub(super) fn abort_current(&mut self) {
        self.transaction.command_started = false;
        match self.transaction.block {
            Block::Default => {}
            Block::Started | Block::Implicit => self.abort_all(),
            Block::InProgress => {
                self.transaction.block = Block::Failed;
                self.undo_innermost();
                let innermost = self.transaction.level_id();
                for portal in self.portals.values_mut().filter(|p| p.level_id >= innermost) {
                    portal.needs_cleanup = false;
                    if portal.state != PortalState::Dangling {
                        portal.state = PortalState::Released;
                    }
                }
            }
            Block::Failed => {}
        }
    }

    /// Settings and rows as they were when the innermost level began.
    pub(super) fn undo_innermost(&mut self) {
        if let Some(level) = self.transaction.levels.last() {
            self.settings.restore(&level.settings);
            self.transaction.writes = level.writes.clone();
            self.transaction.code = level.code;
            self.transaction.lacking = level.lacking;
            self.transaction.number_types = level.number_types.clone();
            self.transaction.temporary = level.temporary.clone();
            self.transaction.temporary_schema = level.temporary_schema;
            self.transaction.announced = level.announced.clone();
            let innermost = level.id;
            self.cursors
                .retain(|_, cursor| cursor.level_id.is_none_or(|id| id < innermost));
        }
    }
}
