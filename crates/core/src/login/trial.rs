//! What a server must answer before a client can be welcomed: the settings of a new server, if none of the pool has
//! logged in yet; and whether it accepts startup parameters whose values no server of the pool has accepted before.

use crate::pools::pool::Pool;
use crate::state::difference::{Change, difference};
use crate::state::shape::{Setting, Shape, TEMP_BUFFERS};
use crate::state::shape_table::ShapeTable;
use crate::upstream::nature::is_kept_by_poolers;
use std::sync::Arc;

/// Settings that change with a role or a session authorization.
const BROUGHT_BY_ROLE: [&str; 2] = ["is_superuser", "session_authorization"];

/// The state of a trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq, pgweir_freeze::Freeze)]
enum Progress {
    /// No server has been asked, or its connection is lost.
    Waits,
    /// The server is being given the settings of a new server.
    ServerReturns,
    /// The server has been sent the values.
    ServerTries,
}

/// What a server must answer.
#[derive(Debug, pgweir_freeze::Freeze)]
pub(crate) struct Trial {
    /// Startup parameters to try. If there are none, only the settings of a new server are needed.
    values: Vec<(String, String)>,
    progress: Progress,
}

/// What a server's answer means for a trial.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The server has the settings of a new server now: the values can be sent.
    TryNow,
    /// The server has refused these settings, and the values have not been tried: another server must be asked.
    AnotherServer,
    /// The server has accepted or refused the values.
    Over,
}

impl Trial {
    /// What must be known before a client that asks for these settings can be welcomed; `None` if everything is known.
    /// A replication client is welcomed when its server has logged in.
    pub(crate) fn needed(pool: &Pool, settings: &[(String, String)]) -> Option<Trial> {
        let is_known = |name: &str, value: &str| is_free_text(name, value) || pool.knows_startup_value(name, value);
        let unknown = settings.iter().filter(|(name, value)| !is_known(name, value));
        let values: Vec<(String, String)> = unknown.cloned().collect();
        let progress = Progress::Waits;
        let is_needed = pool.welcome().is_none() || !values.is_empty() || pool.key().kind.is_replication();
        is_needed.then_some(Trial { values, progress })
    }

    /// Whether there is nothing to try: the login waits only for the settings of a new server.
    pub(crate) fn waits_for_welcome(&self) -> bool {
        self.values.is_empty()
    }

    /// A value to be tried that another pooler would not keep for its client.
    pub(crate) fn lost_by_poolers(&self) -> Option<&(String, String)> {
        self.values.iter().find(|(name, _)| !is_kept_by_poolers(name))
    }

    /// Whether the trial needs a server without traces of other sessions.
    pub(crate) fn minds_traces(&self) -> bool {
        self.values
            .iter()
            .any(|(name, _)| name.eq_ignore_ascii_case(TEMP_BUFFERS))
    }

    /// A server with the settings `shape` is to try the values. Returns what the server is sent first: the settings of
    /// a new server, because the answer must not depend on the server's earlier clients. For example, a role may be
    /// refused to another session authorization, and `DateStyle = ISO` keeps the order of day and month.
    pub(crate) fn begin_on(&mut self, shape: &Arc<Shape>, base: &Arc<Shape>) -> Vec<Change> {
        let way = difference(shape, base);
        if way.is_empty() {
            return self.try_values();
        }
        self.progress = Progress::ServerReturns;
        way
    }

    /// The values, to be sent to a server with the settings of a new one. A session authorization comes first, and is
    /// reset at once: see [`is_checked_only`].
    pub(crate) fn try_values(&mut self) -> Vec<Change> {
        self.progress = Progress::ServerTries;
        let set = |(name, value): &(String, String)| -> Change { (name.as_str().into(), Some(value.as_str().into())) };
        let (checked, made): (Vec<_>, Vec<_>) = self.values.iter().partition(|(name, _)| is_checked_only(name));
        let mut changes: Vec<Change> = Vec::new();
        for value in checked {
            let (name, value) = set(value);
            changes.extend([(name.clone(), value), (name, None)]);
        }
        changes.extend(made.into_iter().map(set));
        changes
    }

    /// The server has accepted or refused what it was sent.
    pub(crate) fn answered(&mut self, is_refused: bool) -> Verdict {
        match std::mem::replace(&mut self.progress, Progress::Waits) {
            Progress::ServerReturns if is_refused => Verdict::AnotherServer,
            Progress::ServerReturns => Verdict::TryNow,
            Progress::Waits | Progress::ServerTries => Verdict::Over,
        }
    }

    /// The server has accepted the values, and its settings are now `after`: the pool keeps them.
    pub(crate) fn teach(&self, pool: &mut Pool, after: &Shape) {
        let brought = self.brought_by_role(pool, after);
        for (name, value) in &self.values {
            let own = after.get(name).filter(|s| s.is_reported());
            let mut reported: Vec<_> = own.map(Setting::pair).into_iter().collect();
            if is_role(name) {
                reported.extend(brought.iter().cloned());
            }
            pool.remember_startup_value(name, value, reported);
        }
    }

    /// Reported settings that differ from those of a new server although the client has not asked for them: a role
    /// changes `is_superuser`.
    fn brought_by_role(&self, pool: &Pool, after: &Shape) -> Vec<(Arc<str>, Arc<str>)> {
        let Some(welcome) = pool.welcome() else {
            return Vec::new();
        };
        let is_wished = |name: &str| self.values.iter().any(|(n, _)| n.eq_ignore_ascii_case(name));
        let settings = after.settings().iter();
        settings
            .filter(|s| s.is_reported() && !is_wished(s.name()) && BROUGHT_BY_ROLE.contains(&s.name()))
            .filter(|s| welcome.get(s.name()).is_none_or(|w| w.value() != s.value()))
            .map(Setting::pair)
            .collect()
    }
}

/// The settings of a session that begins with these startup parameters, if a new server of its pool has `welcome`.
pub(crate) fn first_shape(
    pool: &Pool,
    welcome: &Arc<Shape>,
    settings: &[(String, String)],
    shapes: &mut ShapeTable,
) -> Arc<Shape> {
    let mut changes: Vec<(&str, &str, bool)> = Vec::new();
    for (name, value) in settings.iter().filter(|(name, _)| !is_checked_only(name)) {
        let known = pool.reported_for(name, value);
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

/// PostgreSQL checks a session authorization of the startup packet; then the login sets its own.
fn is_checked_only(name: &str) -> bool {
    name.eq_ignore_ascii_case("session_authorization")
}

fn is_role(name: &str) -> bool {
    name.eq_ignore_ascii_case("role") || name.eq_ignore_ascii_case("session_authorization")
}

/// Settings that accept any text of printable ASCII and report it unchanged, so that no server has to be asked.
/// PostgreSQL cuts application_name like an identifier.
fn is_free_text(name: &str, value: &str) -> bool {
    name.eq_ignore_ascii_case("application_name")
        && value.len() <= pgweir_sql::IDENTIFIER_BYTES_MAX
        && value.bytes().all(|b| (32..127).contains(&b))
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

    /// Guards against sessions that begin as another user than the one who has logged in.
    #[test]
    fn a_session_authorization_is_tried_first_and_not_kept() {
        let base = ShapeTable::new().empty();
        let mut trial = trial(&[("role", "r"), ("Session_Authorization", "x")]);
        let tried = trial.begin_on(&base, &base);
        let shown = tried.iter().map(|(name, value)| (&**name, value.as_deref()));
        assert_eq!(
            shown.collect::<Vec<_>>(),
            [
                ("Session_Authorization", Some("x")),
                ("Session_Authorization", None),
                ("role", Some("r"))
            ]
        );
    }

    #[test]
    fn an_application_name_is_known_without_a_server() {
        assert!(is_free_text("Application_Name", "psql -f 1.sql"));
        assert!(
            !is_free_text("application_name", "caf\u{e9}"),
            "the server makes it caf??"
        );
        assert!(is_free_text("application_name", &"a".repeat(63)));
        assert!(!is_free_text("application_name", &"a".repeat(64)), "the server cuts it");
        assert!(!is_free_text("search_path", "a"));
    }
}
