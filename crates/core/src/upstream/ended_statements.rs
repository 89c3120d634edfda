//! What the reply queue knows about requests that end prepared statements.

use crate::statements::client_names::StatementName;
use crate::statements::prepared::Statement;
use crate::upstream::entry::Entry;
use crate::upstream::reply_queue::ReplyQueue;
use std::collections::HashSet;
use std::sync::Arc;

/// What requests gain behind one that has ended all statements: see [`ReplyQueue::all_ended_in_front`].
#[derive(Debug, Default)]
pub(crate) struct GainedLater {
    statements: HashSet<u64>,
    names: HashSet<Box<[u8]>>,
}

impl GainedLater {
    /// The statements that the server gains.
    pub(crate) fn statements(&self) -> &HashSet<u64> {
        &self.statements
    }

    /// The names that the client gains.
    pub(crate) fn names(&self) -> &HashSet<Box<[u8]>> {
        &self.names
    }
}

impl ReplyQueue {
    /// The request at the front has ended all statements, which was not known when later requests were sent. Returns
    /// what the later requests give the server and the client. Their record of earlier statements is dropped: these
    /// statements are not restored if the later requests fail. `None`: this was found before, since a Query may end all
    /// statements thousands of times.
    pub(crate) fn all_ended_in_front(&mut self) -> Option<GainedLater> {
        let entries = self.entries.len() as u32;
        if std::mem::replace(&mut self.ended_by_front, entries) == entries {
            return None;
        }
        let mut later = GainedLater::default();
        for effect in self.entries.iter_mut().skip(1).filter_map(Entry::effect_mut) {
            effect.server_loses.take_if(|s| !later.statements.contains(&s.id));
            if let Some(lost) = &mut effect.server_lost_all {
                lost.retain(|s| later.statements.contains(&s.id));
            }
            if let Some(lost) = &mut effect.names_lost_all {
                lost.retain(|(name, _)| later.names.contains(&**name));
            }
            if let Some((name, before)) = &mut effect.name
                && later.names.insert(name.clone())
            {
                *before = None;
            }
            later.statements.extend(effect.server_gains.as_ref().map(|s| s.id));
        }
        Some(later)
    }

    /// The command tag DEALLOCATE has come for the request at the front. Returns the next name that the request
    /// deallocates.
    pub(crate) fn next_deallocated(&mut self) -> Option<StatementName> {
        self.entries.front_mut()?.effect_mut()?.deallocates.pop_front()
    }

    /// The command tag UNLISTEN has come for the request at the front. Returns the next channel that the request ends.
    pub(crate) fn next_unlistened(&mut self) -> Option<Option<Box<[u8]>>> {
        self.entries.front_mut()?.effect_mut()?.unlistens.pop_front()
    }

    /// A statement of the request at the front has been answered.
    pub(crate) fn counts_answered(&mut self) {
        let front = self.entries.front_mut().and_then(Entry::effect_mut);
        if let Some(others) = front.and_then(|effect| effect.before_deallocate.as_mut()) {
            *others = others.saturating_sub(1);
        }
    }

    /// The server has not lost these statements after all: a Parse of one of them fails and takes nothing from the
    /// server.
    pub(crate) fn gains_nothing_of(&mut self, statements: &HashSet<u64>) {
        if statements.is_empty() {
            return;
        }
        for effect in self.entries.iter_mut().filter_map(Entry::effect_mut) {
            let is_held = |gained: &Arc<Statement>| statements.contains(&gained.id);
            if effect.server_gains.as_ref().is_some_and(is_held) {
                effect.server_gains = None;
            }
        }
    }
}
