//! RESET goes back to what the client's own startup packet said.
//!
//! A server's startup values are those of the pool; a client's may be others, restored by `set_config()`. So where a client
//! resets a setting that its startup packet gave, the pooler makes it again right behind the RESET. The client is told of
//! what differs in the end, in front of one ReadyForQuery, as it would be by a server of its own.
//!
//! A RESET among other statements of a Query may be undone by an error of theirs, so there the server's answer decides.

use crate::client::Waiting;
use crate::ids::{ClientId, ServerId};
use crate::pooler::Pooler;
use crate::prepared;
use crate::reply_queue::{Entry, Expect, Ready, To};
use crate::session_state::difference;
use pgweir_sql::{Effects, Statement};
use pgweir_wire::Writer;
use std::sync::Arc;

/// What a statement returns to its startup value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Returns {
    /// Every setting (RESET ALL, DISCARD ALL).
    All,
    /// The setting of this name, which may be none that a client can give at startup.
    One(Box<[u8]>),
    /// What remains of these, in their order: statements of one Query.
    Among(Vec<Change>),
}

/// What one of several statements does to settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Change {
    Returns(Returns),
    /// SET to a value.
    Sets(Box<[u8]>),
}

impl Returns {
    /// What a statement may return to its startup value. A SET may do it (TO DEFAULT).
    pub(crate) fn of(verdict: &Statement, text: &[u8]) -> Option<Returns> {
        match verdict {
            Statement::ResetAll | Statement::DiscardAll => Some(Returns::All),
            Statement::Reset(name) => Some(Returns::One(name.clone())),
            Statement::Set(name) if ends_with_default(text) => Some(Returns::One(name.clone())),
            _ => None,
        }
    }

    /// The same of a text of several statements; `None` where something else in it decides about settings as well.
    pub(crate) fn among(text: &[u8]) -> Option<Returns> {
        let mut changes = Vec::new();
        for text in pgweir_sql::statements(text)? {
            let verdict = pgweir_sql::classify(text);
            match (Returns::of(&verdict, text), verdict) {
                (Some(_), _) | (None, Statement::Set(_)) if changes.len() == CHANGES_MAX => return None,
                (Some(returns), _) => changes.push(Change::Returns(returns)),
                (None, Statement::Set(name)) => changes.push(Change::Sets(name)),
                (None, Statement::Other)
                    if !pgweir_sql::effects(text).intersects(Effects::SETTINGS.union(Effects::CODE)) => {}
                _ => return None,
            }
        }
        Some(Returns::Among(changes))
    }

    fn includes(&self, name: &str) -> bool {
        match self {
            Returns::All => true,
            Returns::One(one) => one.eq_ignore_ascii_case(name.as_bytes()),
            Returns::Among(changes) => changes
                .iter()
                .rev()
                .find_map(|change| match change {
                    Change::Returns(returns) => returns.includes(name).then_some(true),
                    Change::Sets(set) => set.eq_ignore_ascii_case(name.as_bytes()).then_some(false),
                })
                .unwrap_or(false),
        }
    }
}

/// The most SET and RESET in one Query that are followed one by one; behind more of them, the server is asked.
const CHANGES_MAX: usize = 64;

/// Whether the last word of a SET is DEFAULT or LOCAL.
fn ends_with_default(text: &[u8]) -> bool {
    let text = text.trim_ascii_end();
    let text = text.strip_suffix(b";").unwrap_or(text).trim_ascii_end();
    let word = text.rsplit(|b| !b.is_ascii_alphabetic()).next().unwrap_or_default();
    word.eq_ignore_ascii_case(b"default") || word.eq_ignore_ascii_case(b"local")
}

impl Pooler {
    /// The client's startup values that the server does not return to by itself.
    fn startup_values(&self, id: ClientId, server_id: ServerId, returns: &Returns) -> Vec<(Arc<str>, Arc<str>)> {
        let (Some(client), Some(server)) = (self.clients.get(id.0), self.servers.get(server_id.0)) else {
            return Vec::new();
        };
        if Arc::ptr_eq(&client.base, &server.base) {
            return Vec::new();
        }
        difference(&server.base, &client.base)
            .into_iter()
            .filter(|(name, _)| returns.includes(name))
            .filter_map(|(name, value)| Some((name, value?)))
            .collect()
    }

    /// What becomes of the ReadyForQuery of a Query that resets, because the client's startup values are made again.
    pub(crate) fn return_to_startup(&mut self, id: ClientId, server_id: ServerId, returns: &Returns) -> Ready {
        if self.startup_values(id, server_id, returns).is_empty() {
            Ready::Passes
        } else if self.server_mut(server_id).queue.in_pipeline() || self.server_mut(server_id).queried_in_pipeline {
            // The server may pass over it, or the Sync end what is left open; the probe finds it out.
            Ready::Passes
        } else {
            Ready::Decides
        }
    }

    /// A Query whose answer decides has ended: whether the client's startup values are made again now, and the
    /// ReadyForQuery is theirs.
    pub(crate) fn decide_on_reset(&mut self, server_id: ServerId, undone: bool) -> bool {
        let Some(id) = self.servers.get(server_id.0).and_then(|s| s.link) else {
            return false;
        };
        if undone {
            self.client_mut(id).reset_among = None;
            self.replies_came(server_id);
            self.tell_differences(id, server_id);
            return false;
        }
        self.make_what_was_reset(server_id);
        true
    }

    /// Makes a client's startup values again, now that the server has reset them. Its messages wait until the server has
    /// confirmed them, and so do the values where a cancel is on its way that could hit them.
    pub(crate) fn make_what_was_reset(&mut self, server_id: ServerId) {
        let Some(server) = self.servers.get(server_id.0) else {
            return;
        };
        let may_be_hit = server.cancels_in_flight > 0 || !server.queue.is_empty();
        let Some(id) = server.link.filter(|_| !may_be_hit) else {
            return;
        };
        if let Some(returns) = self.clients.get_mut(id.0).and_then(|c| c.reset_among.take()) {
            self.send_startup_values(id, server_id, &returns);
        }
    }

    /// A segment in which DISCARD ALL has run has failed, and with it the client's startup values that were made behind that, if
    /// only by a cancel: they are made in a segment of their own. Where a probe follows, that finds it out; and the client may
    /// have sent more already, which runs without them.
    #[cold]
    pub(crate) fn makes_startup_values_later(&mut self, id: ClientId, server_id: ServerId) {
        let waiting = self.clients.get(id.0).map(|c| c.waiting);
        let sent_more = !self.server_mut(server_id).queue.is_one_whole_segment();
        if sent_more || self.keeps_session(id) || !matches!(waiting, Some(Waiting::No | Waiting::ForReplies)) {
            return;
        }
        if self.startup_values(id, server_id, &Returns::All).is_empty() {
            return;
        }
        if let Some(sync) = self
            .server_mut(server_id)
            .queue
            .front_mut()
            .filter(|e| e.to == To::Forward)
        {
            sync.ready = Ready::Makes;
            let client = self.client_mut(id);
            client.reset_among = Some(Box::new(Returns::All));
            client.waiting = Waiting::ForReplies;
        }
    }

    /// The segment behind a Query whose ReadyForQuery was swallowed.
    fn send_startup_values(&mut self, id: ClientId, server_id: ServerId, returns: &Returns) {
        self.make_startup_values(id, server_id, returns);
        let mut entry = Entry::forward(Expect::Sync);
        entry.ready = Ready::Told;
        self.server_mut(server_id).queue.push(entry);
        self.send(server_id, |w| w.sync());
    }

    /// Makes the client's startup values in the segment at hand.
    pub(crate) fn make_startup_values(&mut self, id: ClientId, server_id: ServerId, returns: &Returns) {
        let values = self.startup_values(id, server_id, returns);
        if values.is_empty() {
            return;
        }
        self.state_stats.returns_to_startup += 1;
        let name = self.prepare_surely(server_id);
        let queue = &mut self.server_mut(server_id).queue;
        for _ in &values {
            queue.push(Entry::skip(Expect::Bind));
            queue.push(Entry::skip(Expect::Execute));
            queue.push(Entry::skip(Expect::Close));
        }
        let portal = &*self.own_statements.names.portal;
        self.outbox.insert(server_id.into(), |bytes| {
            let mut writer = Writer::new(bytes);
            for (setting, value) in &values {
                // The unnamed portal may be the client's, to be executed once more.
                let values = [Some(setting.as_bytes()), Some(value.as_bytes())];
                writer.bind_portal(portal, name.server_name(), &values);
                writer.execute_portal(portal);
                writer.close(b'P', portal);
            }
        });
    }

    /// Prepares what makes a setting; the statement by whose name it is known. Among the messages that the server has not
    /// answered yet there may be one that deallocates all, or would have and fails: then it is prepared for this use alone.
    fn prepare_surely(&mut self, server_id: ServerId) -> Arc<prepared::Statement> {
        let statement = self.own_statements.set_config.clone();
        if !self.server_mut(server_id).queue.segment_outstanding() {
            self.ensure_held(server_id, &statement);
            return statement;
        }
        let scratch = self.own_statements.scratch.clone();
        self.takes_scratch(server_id);
        self.outbox.insert(server_id.into(), |b| {
            Writer::new(b).parse(scratch.server_name(), &statement.query, &statement.types)
        });
        scratch
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_text_returns_to_its_startup_value() {
        let of = |text: &str| Returns::of(&pgweir_sql::classify(text.as_bytes()), text.as_bytes());
        assert_eq!(of("reset all"), Some(Returns::All));
        assert_eq!(of("discard all;"), Some(Returns::All));
        assert_eq!(of("RESET DateStyle"), Some(Returns::One(b"datestyle"[..].into())));
        assert_eq!(
            of("set timezone to DEFAULT ;"),
            Some(Returns::One(b"timezone"[..].into()))
        );
        assert_eq!(of("set time zone local"), Some(Returns::One(b"timezone"[..].into())));
        assert_eq!(of("set timezone to 'default'"), None);
        assert_eq!(of("select 1"), None);
    }

    #[test]
    fn the_last_of_several_statements_decides_about_a_setting() {
        let includes = |text: &str, name: &str| Returns::among(text.as_bytes()).map(|r| r.includes(name));
        let text = "reset datestyle; set work_mem = 1; select 1; reset timezone; set TimeZone to 'UTC'";
        assert_eq!(includes(text, "DateStyle"), Some(true));
        assert_eq!(includes(text, "work_mem"), Some(false));
        assert_eq!(includes(text, "TimeZone"), Some(false));
        assert_eq!(includes(text, "IntervalStyle"), Some(false));
        assert_eq!(includes("set a to 1; reset all", "a"), Some(true));
        assert_eq!(includes("reset a; begin", "a"), None);
        assert_eq!(includes("reset a; select set_config('a', 'b', false)", "a"), None);
        assert_eq!(includes("reset a; do $$begin end$$", "a"), None);
    }
}
