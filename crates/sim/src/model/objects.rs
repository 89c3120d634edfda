//! State of a session besides settings: temporary tables, held cursors, channels, advisory locks.

use super::error::ServerError;
use super::session::Session;
use super::statement::{Column, Prepared};
use super::transaction::{Notification, Shared};
use super::value::{Type, Value};
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

/// A temporary table with one column of text. Only the number of its rows is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TemporaryTable {
    pub(super) rows: u64,
    /// `on commit drop`.
    pub(super) drop_on_commit: bool,
}

/// By name.
pub(super) type Temporary = BTreeMap<String, TemporaryTable>;

/// A command that takes effect when its transaction commits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Announcement {
    Listen(String),
    /// `None` is every channel.
    Unlisten(Option<String>),
    Notify {
        channel: String,
        payload: String,
    },
}

/// A cursor declared WITH HOLD: all its rows, and where the next FETCH begins.
#[derive(Debug)]
pub(super) struct HeldCursor {
    pub(super) columns: Vec<Column>,
    pub(super) rows: VecDeque<Vec<(Value, Type)>>,
    /// The level of the transaction in which it was declared; none after that has committed.
    pub(super) level_id: Option<u32>,
}

/// State that outlives a transaction and cannot be restored on another server: the columns of the pooler's probe, in
/// their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Ties {
    /// Temporary tables.
    pub temporary: bool,
    /// Session-level advisory locks.
    pub locks: bool,
    /// Cursors that outlive their transaction.
    pub cursors: bool,
    /// LISTEN.
    pub listening: bool,
    /// Statements of SQL-level PREPARE.
    pub prepared: bool,
}

impl Ties {
    /// All but statements of SQL-level PREPARE.
    pub fn without_prepared(self) -> Ties {
        Ties {
            prepared: false,
            ..self
        }
    }

    /// None of them.
    pub fn is_empty(self) -> bool {
        self == Ties::default()
    }
}

/// A session outside the model holds the advisory locks on keys below this one.
const FIRST_FREE_KEY: i64 = 0;

/// A session's advisory locks: how often it holds each.
#[derive(Debug, Default)]
pub(super) struct Locks(BTreeMap<i64, u32>);

impl Locks {
    /// `pg_advisory_lock()`, `pg_try_advisory_lock()`: returns whether the lock was taken.
    pub(super) fn lock(&mut self, key: i64) -> bool {
        if key < FIRST_FREE_KEY {
            return false;
        }
        *self.0.entry(key).or_default() += 1;
        true
    }

    /// `pg_advisory_unlock()`: returns whether the lock was held.
    pub(super) fn unlock(&mut self, key: i64) -> bool {
        let Some(count) = self.0.get_mut(&key) else {
            return false;
        };
        *count -= 1;
        if *count == 0 {
            self.0.remove(&key);
        }
        true
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}

impl Session {
    /// The state that would be lost if the client went on with another server.
    pub fn ties(&self) -> Ties {
        Ties {
            temporary: !self.transaction.temporary.is_empty(),
            locks: !self.locks.0.is_empty(),
            cursors: !self.cursors.is_empty(),
            listening: !self.channels.is_empty(),
            prepared: self.has_prepared_but(&[], false),
        }
    }

    /// Whether there are named prepared statements that are not the pooler's own.
    pub fn has_clients_statements(&self) -> bool {
        self.statements.keys().any(|name| !name.starts_with(b"pgweir_"))
    }

    /// Whether SQL-level PREPARE, or Parse if `parsed`, has made statements other than these.
    pub(super) fn has_prepared_but(&self, names: &[String], parsed: bool) -> bool {
        let counts = |(name, s): (&Vec<u8>, &Rc<Prepared>)| {
            (s.from_sql || parsed) && !names.iter().any(|n| n.as_bytes() == &**name)
        };
        self.statements.iter().any(counts)
    }

    pub(super) fn create_temporary(&mut self, name: String, drop_on_commit: bool) -> Result<(), ServerError> {
        if self.transaction.temporary.contains_key(&name) {
            let message = format!("relation \"{name}\" already exists");
            return Err(ServerError::error("42P07", message));
        }
        let table = TemporaryTable {
            rows: 0,
            drop_on_commit,
        };
        Rc::make_mut(&mut self.transaction.temporary).insert(name, table);
        self.transaction.temporary_schema = true;
        Ok(())
    }

    pub(super) fn drop_table(&mut self, name: &str) -> Result<(), ServerError> {
        match Rc::make_mut(&mut self.transaction.temporary).remove(name) {
            Some(_) => Ok(()),
            None => Err(ServerError::error("42P01", format!("table \"{name}\" does not exist"))),
        }
    }

    pub(super) fn announce(&mut self, announcement: Announcement) {
        let announced = Rc::make_mut(&mut self.transaction.announced);
        // A notification that the transaction has already made is made once (NOTIFY, "Notes").
        let again = matches!(announcement, Announcement::Notify { .. }) && announced.contains(&announcement);
        if !again {
            announced.push(announcement);
        }
    }

    /// CLOSE; `None` is ALL.
    pub(super) fn close_cursor(&mut self, name: Option<&str>) -> Result<(), ServerError> {
        match name {
            None => self.cursors.clear(),
            Some(name) => {
                if self.cursors.remove(name).is_none() {
                    return Err(missing_cursor(name));
                }
            }
        }
        Ok(())
    }

    /// The transaction commits, and its announcements take effect.
    pub(super) fn commit_objects(&mut self, shared: &mut Shared) {
        if self.transaction.temporary.values().any(|t| t.drop_on_commit) {
            Rc::make_mut(&mut self.transaction.temporary).retain(|_, table| !table.drop_on_commit);
        }
        for cursor in self.cursors.values_mut() {
            cursor.level_id = None;
        }
        let announced = std::mem::take(&mut self.transaction.announced);
        // A session gets the notifications that are committed after it begins to listen (`Exec_ListenPreCommit`).
        if self.channels.is_empty() && announced.iter().any(|a| matches!(a, Announcement::Listen(_))) {
            self.heard = shared.notifications.len();
        }
        for announcement in announced.iter() {
            match announcement {
                Announcement::Listen(channel) => drop(self.channels.insert(channel.clone())),
                Announcement::Unlisten(Some(channel)) => drop(self.channels.remove(channel)),
                Announcement::Unlisten(None) => self.channels.clear(),
                Announcement::Notify { channel, payload } => shared.notifications.push(Notification {
                    process_id: self.key.process_id,
                    channel: channel.clone(),
                    payload: payload.clone(),
                }),
            }
        }
    }

    /// DISCARD ALL, without settings and portals.
    pub(super) fn discard_objects(&mut self) {
        self.statements.clear();
        self.cursors.clear();
        self.channels.clear();
        self.locks.clear();
        self.transaction.temporary = Rc::default();
    }

    /// Whether notifications have been committed that it has not read.
    pub fn has_to_hear(&self, shared: &Shared) -> bool {
        !self.channels.is_empty() && self.heard < shared.notifications.len()
    }

    /// Notifications are sent when no transaction is open (`ProcessNotifyInterrupt`).
    pub(super) fn tell_notifications(&mut self, shared: &Shared) {
        if self.channels.is_empty() {
            return;
        }
        let heard = std::mem::replace(&mut self.heard, shared.notifications.len());
        for notification in &shared.notifications[heard..] {
            if !self.channels.contains(&notification.channel) {
                continue;
            }
            let texts = [&notification.channel, &notification.payload];
            let texts = texts.map(|text| self.to_client(text.as_bytes()).into_owned());
            self.out.write(|w| {
                w.message(b'A', |b| {
                    b.extend(notification.process_id.to_be_bytes());
                    for text in texts {
                        b.extend(text);
                        b.push(0);
                    }
                });
            });
        }
    }
}

pub(super) fn missing_cursor(name: &str) -> ServerError {
    ServerError::error("34000", format!("cursor \"{name}\" does not exist"))
}

pub(super) fn missing_relation(name: &str) -> ServerError {
    ServerError::error("42P01", format!("relation \"{name}\" does not exist"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_taken_twice_is_given_back_twice() {
        let mut locks = Locks::default();
        assert!(locks.lock(7) && locks.lock(7));
        assert!(!locks.lock(-1), "somebody else holds it");
        assert!(locks.unlock(7) && locks.unlock(7) && !locks.unlock(7));
    }
}
