//! Undoes the effects of requests that the server has refused or ignored.

use crate::base::pin_reason::PinReason;
use crate::reply::Reply;
use crate::statements::unnamed::Unnamed;
use crate::upstream::entry::{Effect, Entry, Expect, To};
use std::collections::HashSet;

impl Reply<'_> {
    /// Undoes the effects of requests that the server refused (`failed`, the first one) or ignored, the latest
    /// first, so that each one restores the state that it found.
    pub(crate) fn undo(&mut self, entries: Vec<Entry>) {
        let mut restored = HashSet::new();
        let answered = entries.iter().position(|e| e.to() != To::Skip);
        for (at, mut entry) in entries.into_iter().enumerate().rev() {
            if entry.expect() == Expect::Describe {
                self.server.held.is_not_asked(entry.uses());
                if self.server.held.unnamed() == Unnamed::Asked(entry.uses()) {
                    self.server.held.unnamed_becomes(Unnamed::Foreign);
                }
            }
            // An internal Parse says nothing about the reply to the client; but a Query behind it has failed, and
            // destroys the unnamed statement in any case.
            let failed = answered == Some(at) && (at == 0 || entry.expect() == Expect::Query);
            let effect = entry.take_effect();
            self.undo_one(entry.expect(), effect, failed, &mut restored);
        }
        self.server.conversation.queue_mut().gains_nothing_of(&restored);
    }

    /// Undoes the effect of one request that was refused.
    pub(crate) fn undo_refused(&mut self, expect: Expect, effect: Option<Effect>) {
        let mut restored = HashSet::new();
        self.undo_one(expect, effect, true, &mut restored);
        self.server.conversation.queue_mut().gains_nothing_of(&restored);
    }

    /// Undoes one effect. Adds the statements that the server has not lost after all to `all_restored`.
    fn undo_one(&mut self, expect: Expect, effect: Option<Effect>, failed: bool, all_restored: &mut HashSet<u64>) {
        let server = &mut *self.server;
        let effect = effect.unwrap_or_default();
        let was_uncertain = effect.server_gains.as_ref().is_some_and(|s| s.settings.are_uncertain());
        if matches!(expect, Expect::ParseUnnamed | Expect::Query) || effect.server_unnamed {
            server.held.unnamed_becomes(Unnamed::Foreign);
        }
        if let Some(statement) = effect.server_gains {
            // Another Parse of the scratch statement may be under way. It counts as held: it is closed before it is
            // parsed, and before a client looks at pg_prepared_statements.
            if statement.id != self.shared.internal.scratch.id {
                server.held.remove(statement.id);
            }
            if statement.is_client_named() {
                server.held.is_refused(statement.id);
            }
        }
        if let Some(statement) = effect.server_loses {
            server.held.restore(statement);
        }
        for statement in effect.server_lost_all.unwrap_or_default() {
            all_restored.insert(statement.id);
            server.held.restore(statement);
        }
        let Some((_, client)) = &mut self.client else { return };
        if let Some((name, before)) = effect.name {
            client.statements.names_mut().restore(&name, before);
        }
        if was_uncertain && !client.statements.some_are_uncertain() {
            client
                .session
                .pins_end([PinReason::ReadBehindSet], &mut self.shared.state_stats);
        }
        if let Some((name, before)) = effect.followed {
            client.session.follows_again(&name, before);
        }
        if let Some(before) = effect.portal {
            client.statements.restore_portal(before);
        }
        if let Some((name, told)) = effect.describes
            && let Some(meaning) = client.statements.names_mut().get_mut(&name)
        {
            meaning.is_not_described(told);
        }
        for (name, statement) in effect.names_lost_all.into_iter().flatten() {
            client.statements.names_mut().restore(&name, Some(statement));
        }
        if expect == Expect::ParseUnnamed && failed {
            // A Parse that fails has already dropped the unnamed statement.
            client.statements.replace_unnamed(None);
        } else if let (Some(before), false) = (effect.unnamed, expect == Expect::Query && failed) {
            client.statements.replace_unnamed(before);
        }
    }
}
