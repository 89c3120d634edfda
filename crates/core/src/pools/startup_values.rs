//! Values of startup parameters that a pool's servers have accepted.

use crate::base::pool_id::StartupValue;
use foldhash::fast::RandomState;
use std::collections::HashMap;
use std::sync::Arc;

/// Settings that a server reports: names and values.
pub(crate) type Reported = Box<[(Arc<str>, Arc<str>)]>;

/// Half of the most values of startup parameters that a pool remembers.
const STARTUP_VALUES_HALF: usize = 2048;

/// Values that a server has accepted, and what it reported for each.
///
/// When `recent` is full, the values that have not been used since it was empty are forgotten. So a client that logs in
/// with ever new values does not take away the values with which others log in often.
#[derive(Debug, Default, pgweir_freeze::Freeze)]
pub(super) struct StartupValues {
    recent: HashMap<StartupValue, Reported, RandomState>,
    before: HashMap<StartupValue, Reported, RandomState>,
}

impl StartupValues {
    /// What a server has reported for this value; `None`: no server is known to accept it.
    pub(super) fn reported(&self, name: &str, value: &str) -> Option<&Reported> {
        let key = (name.into(), value.into());
        self.recent.get(&key).or_else(|| self.before.get(&key))
    }

    /// A client logs in with this value.
    pub(super) fn uses(&mut self, name: &str, value: &str) {
        if self.before.is_empty() {
            return;
        }
        if let Some((key, reported)) = self.before.remove_entry(&(name.into(), value.into())) {
            self.learn(key, reported);
        }
    }

    /// A server has accepted this value.
    pub(super) fn learn(&mut self, value: StartupValue, reported: Reported) {
        if self.recent.len() >= STARTUP_VALUES_HALF {
            self.before = std::mem::take(&mut self.recent);
        }
        self.before.remove(&value);
        self.recent.insert(value, reported);
    }

    pub(super) fn clear(&mut self) {
        self.recent.clear();
        self.before.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn learns(values: &mut StartupValues, value: String) {
        values.learn(("search_path".into(), value.into()), Box::new([]));
    }

    #[test]
    fn a_flood_of_new_values_does_not_take_away_what_is_used() {
        let mut values = StartupValues::default();
        learns(&mut values, "often".into());
        learns(&mut values, "once".into());
        for n in 0..10 * STARTUP_VALUES_HALF {
            learns(&mut values, format!("s{n}"));
            if n % 1000 == 0 {
                values.uses("search_path", "often");
            }
            assert!(values.recent.len() + values.before.len() <= 2 * STARTUP_VALUES_HALF);
        }
        assert!(values.reported("search_path", "often").is_some());
        assert!(values.reported("search_path", "once").is_none());
    }

    #[test]
    fn what_is_not_known_does_not_become_known_by_use() {
        let mut values = StartupValues::default();
        values.uses("search_path", "a");
        assert!(values.reported("search_path", "a").is_none());
        learns(&mut values, "a".into());
        assert!(values.reported("search_path", "a").is_some());
        values.clear();
        assert!(values.reported("search_path", "a").is_none());
    }
}
