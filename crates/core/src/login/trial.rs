//! What a server must tell before a client can be welcomed: what a server of the pool looks like, where none has logged in
//! yet, and what it makes of startup parameters with values that no server of the pool has accepted before.

use crate::pools::pool::Pool;
use crate::state::difference::{Change, difference};
use crate::state::shape::{Shape, TEMP_BUFFERS};
use crate::state::shape_table::ShapeTable;
use std::sync::Arc;

/// What a role or a session authorization changes beside itself.
const BROUGHT_BY_ROLE: [&str; 2] = ["is_superuser", "session_authorization"];

/// Where a trial stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, pgweir_freeze::Freeze)]
enum Progress {
    /// No server has been asked, or the one that was is gone.
    Waits,
    /// The server is on its way back to what a new one looks like.
    ServerReturns,
    /// The server has been asked.
    ServerTries,
}

/// What a server must tell.
#[derive(Debug, pgweir_freeze::Freeze)]
pub(crate) struct Trial {
    /// Startup parameters that are tried. None: it is enough to know what a new server looks like.
    pub(crate) values: Vec<(String, String)>,
    progress: Progress,
}

/// What a server's answer means for a trial.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The server looks like a new one now: the values can be tried.
    TryNow,
    /// It does not, and the values have not been tried: another server tells what it makes of them.
    AnotherServer,
    /// The values have been tried.
    Over,
}

impl Trial {
    /// What must be known before a client that asks for these settings can be welcomed; `None` where everything is. A client
    /// for replication is welcomed when its own server is there.
    pub(crate) fn needed(pool: &Pool, settings: &[(String, String)]) -> Option<Trial> {
        let is_known = |name: &str, value: &str| {
            let known = &pool.known_startup_values;
            is_free_text(name, value) || known.contains_key(&(name.into(), value.into()))
        };
        let unknown = settings.iter().filter(|(name, value)| !is_known(name, value));
        let values: Vec<(String, String)> = unknown.cloned().collect();
        let progress = Progress::Waits;
        let is_needed = pool.welcome.is_none() || !values.is_empty() || pool.key.kind.is_replication();
        is_needed.then_some(Trial { values, progress })
    }

    /// Whether it needs a server that shows no traces of other sessions.
    pub(crate) fn minds_traces(&self) -> bool {
        self.values
            .iter()
            .any(|(name, _)| name.eq_ignore_ascii_case(TEMP_BUFFERS))
    }

    /// A server that looks like `shape` is to try the values. What it is sent first: what it makes of them must not depend on
    /// whom it has served before. A role may be refused to another session authorization, and `DateStyle = ISO` keeps the
    /// order of day and month.
    pub(crate) fn begin_on(&mut self, shape: &Arc<Shape>, base: &Arc<Shape>) -> Vec<Change> {
        let way = difference(shape, base);
        if way.is_empty() {
            return self.try_values();
        }
        self.progress = Progress::ServerReturns;
        way
    }

    /// The values, as a server that looks like a new one is sent them.
    pub(crate) fn try_values(&mut self) -> Vec<Change> {
        self.progress = Progress::ServerTries;
        let set = |(name, value): &(String, String)| (name.as_str().into(), Some(value.as_str().into()));
        self.values.iter().map(set).collect()
    }

    /// The server has made what it was sent, or refused it.
    pub(crate) fn answered(&mut self, is_refused: bool) -> Verdict {
        match std::mem::replace(&mut self.progress, Progress::Waits) {
            Progress::ServerReturns if is_refused => Verdict::AnotherServer,
            Progress::ServerReturns => Verdict::TryNow,
            Progress::Waits | Progress::ServerTries => Verdict::Over,
        }
    }

    /// The server has accepted the values, and looks like `after` now: the pool knows them from here on.
    pub(crate) fn teach(&self, pool: &mut Pool, after: &Shape) {
        let brought = self.brought_by_role(pool, after);
        for (name, value) in &self.values {
            let own = after.get(name).filter(|s| s.reported);
            let mut reported: Vec<_> = own.map(|s| (s.name.clone(), s.value.clone())).into_iter().collect();
            if is_role(name) {
                reported.extend(brought.iter().cloned());
            }
            pool.remember_startup_value(name, value, reported);
        }
    }

    /// What a server reports otherwise than a new one, though nobody asked for it: a role changes `is_superuser`.
    fn brought_by_role(&self, pool: &Pool, after: &Shape) -> Vec<(Arc<str>, Arc<str>)> {
        let Some(welcome) = &pool.welcome else {
            return Vec::new();
        };
        let is_wished = |name: &str| self.values.iter().any(|(n, _)| n.eq_ignore_ascii_case(name));
        let settings = after.settings().iter();
        settings
            .filter(|s| s.reported && !is_wished(&s.name) && BROUGHT_BY_ROLE.contains(&&*s.name))
            .filter(|s| welcome.get(&s.name).is_none_or(|w| w.value != s.value))
            .map(|s| (s.name.clone(), s.value.clone()))
            .collect()
    }
}

/// What a session looks like that begins with these settings, where servers of its pool look like `welcome`.
pub(crate) fn first_shape(
    pool: &Pool,
    welcome: &Arc<Shape>,
    settings: &[(String, String)],
    shapes: &mut ShapeTable,
) -> Arc<Shape> {
    let mut changes: Vec<(&str, &str, bool)> = Vec::new();
    for (name, value) in settings {
        let known = pool
            .known_startup_values
            .get(&(name.as_str().into(), value.as_str().into()));
        let reported = known.map_or(&[][..], |reported| reported);
        if !reported.iter().any(|(n, _)| n.eq_ignore_ascii_case(name)) {
            changes.push((name, value, false));
        }
        changes.extend(reported.iter().map(|(n, v)| (&**n, &**v, true)));
    }
    shapes.change(
        welcome,
        changes.into_iter().map(|(n, v, reported)| (n, Some(v), reported)),
    )
}

fn is_role(name: &str) -> bool {
    name.eq_ignore_ascii_case("role") || name.eq_ignore_ascii_case("session_authorization")
}

/// Settings that take any text of printable ASCII, and report it as it is: no server need be asked.
fn is_free_text(name: &str, value: &str) -> bool {
    name.eq_ignore_ascii_case("application_name") && value.bytes().all(|b| (32..127).contains(&b))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trial(values: &[(&str, &str)]) -> Trial {
        Trial {
            values: values.iter().map(|(n, v)| (n.to_string(), v.to_string())).collect(),
            progress: Progress::Waits,
        }
    }

    #[test]
    fn a_server_that_looks_like_a_new_one_tries_the_values_at_once() {
        let base = ShapeTable::new().empty();
        let mut trial = trial(&[("search_path", "a")]);
        let tried: [Change; 1] = [("search_path".into(), Some("a".into()))];
        assert_eq!(trial.begin_on(&base, &base), tried);
        assert_eq!(trial.answered(true), Verdict::Over);
    }

    #[test]
    fn a_server_returns_to_what_it_was_before_it_tries_the_values() {
        let mut shapes = ShapeTable::new();
        let base = shapes.empty();
        let used = shapes.change(&base, [("role", Some("r"), false)]);
        let mut trial = trial(&[("search_path", "a")]);
        let undone = trial.begin_on(&used, &base);
        assert!(undone.iter().all(|(name, _)| &**name != "search_path"), "{undone:?}");
        assert_eq!(trial.answered(false), Verdict::TryNow);
        assert_eq!(trial.try_values().len(), 1);
        assert_eq!(trial.answered(false), Verdict::Over);
    }

    #[test]
    fn a_server_that_does_not_return_says_nothing_about_the_values() {
        let mut shapes = ShapeTable::new();
        let base = shapes.empty();
        let used = shapes.change(&base, [("role", Some("r"), false)]);
        let mut trial = trial(&[("search_path", "a")]);
        trial.begin_on(&used, &base);
        assert_eq!(trial.answered(true), Verdict::AnotherServer);
        assert_eq!(trial.begin_on(&base, &base).len(), 1, "the next server tries them");
        assert_eq!(trial.answered(true), Verdict::Over);
    }

    #[test]
    fn an_application_name_is_known_without_a_server() {
        assert!(is_free_text("Application_Name", "psql -f 1.sql"));
        assert!(
            !is_free_text("application_name", "caf\u{e9}"),
            "the server makes it caf??"
        );
        assert!(!is_free_text("search_path", "a"));
    }
}
