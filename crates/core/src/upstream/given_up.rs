//! What a client's statements meant before requests that the server has not answered.

use crate::statements::meaning::Meaning;
use crate::statements::prepared::{Statement, kept};
use crate::upstream::entry::Entry;
use crate::upstream::reply_queue::ReplyQueue;
use std::sync::Arc;

/// How many unanswered requests are searched for the one that ends a name.
const SEARCHED_MAX: usize = 64;

impl ReplyQueue {
    /// A client's name of the statement with this id, if an unanswered request ends that name.
    pub(crate) fn name_given_up(&self, id: u64) -> Option<(&[u8], &Arc<Statement>)> {
        let names = self.entries.iter().filter_map(|e| e.effect()?.name.as_ref());
        names
            .filter_map(|(name, before)| Some((&**name, before.as_ref()?.statement())))
            .find(|(_, s)| s.id == id)
    }

    /// What a name means for the request at the front, if an unanswered request gives it another meaning or none. The
    /// name gets this meaning back if that request fails. Only the next requests are searched, so that the work for a
    /// long pipeline grows linearly. If more requests are between a Describe and the Close, what the Describe tells is
    /// forgotten.
    pub(crate) fn meaning_given_up(&mut self, name: &[u8]) -> Option<&mut Meaning> {
        let is_it = |of: &[u8]| kept(of) == kept(name);
        let first = self
            .entries
            .iter_mut()
            .take(SEARCHED_MAX)
            .filter_map(Entry::effect_mut)
            .find_map(|effect| {
                if let Some((of, before)) = &mut effect.name
                    && is_it(of)
                {
                    return Some(before.as_mut());
                }
                let all = effect.names_lost_all.as_mut()?;
                Some(all.iter_mut().find(|(of, _)| is_it(of)).map(|(_, before)| before))
            });
        first.flatten()
    }
}
