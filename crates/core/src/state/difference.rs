//! The settings that make a server with one shape look like a client with another.

use crate::state::shape::{LIMITS, READ_ONLY, Shape, WHO};
use std::sync::Arc;

/// A setting to set on a server; `None` resets it to the server's startup value.
pub(crate) type Change = (Arc<str>, Option<Arc<str>>);

/// The settings that make a server with one shape look like a client with another, in the order to send them.
///
/// `home` is the user whom the server logged in as.
pub(crate) fn difference_on(server: &Shape, client: &Shape, home: &str) -> Vec<Change> {
    let (mut set, mut wanted) = (Vec::new(), Vec::new());
    let writable = |name: &str| !READ_ONLY.iter().chain(&WHO).any(|n| n.eq_ignore_ascii_case(name));
    for pair in server.beside(client) {
        match pair {
            (Some(have), Some(want)) if have.value == want.value => {}
            (_, Some(want)) if writable(&want.name) => wanted.push((want.name.clone(), Some(want.value.clone()))),
            (Some(have), None) if !have.reported && writable(&have.name) => set.push((have.name.clone(), None)),
            _ => {}
        }
    }
    set.append(&mut wanted);
    // Role and session authorization are reset first and set last, so that the user whom the server logged in as sets
    // the other settings.
    let (from, to) = (server.who(home), client.who(home));
    if from == to && set.is_empty() {
        return set;
    }
    let back = WHO.iter().zip(&from).filter(|(_, user)| user.is_some());
    let mut all: Vec<Change> = back.map(|(name, _)| ((*name).into(), None)).collect();
    if let (Some((name, value)), [Some(_), _]) = (all.first_mut(), &to)
        && **name == *WHO[0]
    {
        // RESET ROLE would set the default role of the user who logged in, if there is one.
        *value = Some("none".into());
    }
    all.append(&mut set);
    for (name, user) in WHO.iter().zip(&to).rev() {
        if let Some(user) = user {
            all.push(((*name).into(), Some(user.clone())));
        }
    }
    all
}

/// The changes in `set`, with time limits lifted before them and set after them. A time limit is for the client's
/// statements, not for the locks that a restoration may wait for.
pub(crate) fn unhurried(server: &Shape, client: &Shape, set: Vec<Change>) -> Vec<Change> {
    let is_limit = |name: &str| LIMITS.iter().any(|limit| limit.eq_ignore_ascii_case(name));
    let is_hurried = server.is_hurried() || client.is_hurried();
    if !is_hurried || set.iter().all(|(name, _)| is_limit(name)) {
        return set;
    }
    let lifted = LIMITS.iter().filter(|limit| server.is_limited_by(limit));
    let mut all: Vec<Change> = lifted.map(|limit| ((*limit).into(), Some("0".into()))).collect();
    let (limits, others): (Vec<Change>, Vec<Change>) = set.into_iter().partition(|(name, _)| is_limit(name));
    all.extend(others);
    for limit in LIMITS {
        match limits.iter().find(|(name, _)| name.eq_ignore_ascii_case(limit)) {
            Some(change) => all.push(change.clone()),
            // Server and client have the same limit.
            None if server.is_limited_by(limit) => all.push((limit.into(), client.get(limit).map(|s| s.value.clone()))),
            None => {}
        }
    }
    all
}

/// The difference between two shapes of the same user.
pub(crate) fn difference(server: &Shape, client: &Shape) -> Vec<Change> {
    difference_on(server, client, &server.home())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::shape_table::ShapeTable;

    #[test]
    fn only_what_differs_and_can_be_set_is_sent() {
        let (mut table, base) = ShapeTable::with_base();
        let client = table.change(
            &base,
            [
                ("application_name", Some("x"), true),
                ("server_version", Some("16"), true),
            ],
        );
        let d = difference(&base, &client);
        assert_eq!(d, [("application_name".into(), Some("x".into()))]);
        assert!(difference(&client, &client).is_empty());
        assert!(!base.same_fixed(&client) && client.same_fixed(&client));
        assert_eq!(base.server_major(), Some(15));
    }

    #[test]
    fn what_the_next_client_does_not_have_is_reset_and_dependent_settings_come_in_order() {
        let (mut table, base) = ShapeTable::with_base();
        let server = table.change(&base, [("work_mem", Some("1MB"), false)]);
        let client = table.change(
            &base,
            [
                ("client_encoding", Some("LATIN1"), true),
                ("Role", Some("bob"), false),
                ("search_path", Some("a"), false),
            ],
        );
        let d = difference(&server, &client);
        let names: Vec<_> = d.iter().map(|(n, v)| (&**n, v.is_some())).collect();
        assert_eq!(
            names,
            [
                ("work_mem", false),
                ("client_encoding", true),
                ("search_path", true),
                ("role", true)
            ]
        );
    }

    #[test]
    fn from_one_role_to_another_the_way_leads_over_the_user_who_logged_in() {
        let (mut table, base) = ShapeTable::with_base();
        let base = table.change(&base, [("session_authorization", Some("app"), true)]);
        let server = table.change(&base, [("role", Some("alice"), false)]);
        let client = table.change(
            &base,
            [
                ("session_authorization", Some("eve"), true),
                ("role", Some("bob"), false),
                ("log_statement", Some("all"), false),
            ],
        );
        let d = difference_on(&server, &client, "app");
        let names: Vec<_> = d.iter().map(|(n, v)| (&**n, v.as_deref())).collect();
        assert_eq!(
            names,
            [
                ("role", Some("none")),
                ("log_statement", Some("all")),
                ("session_authorization", Some("eve")),
                ("role", Some("bob"))
            ]
        );
        let back = difference_on(&client, &base, "app");
        let names: Vec<_> = back.iter().map(|(n, v)| (&**n, v.as_deref())).collect();
        assert_eq!(
            names,
            [("role", None), ("session_authorization", None), ("log_statement", None)]
        );
    }

    /// Guards against restorations that fail by the client's time limit while another session holds a lock.
    #[test]
    fn no_time_limit_holds_while_settings_are_made() {
        let (mut table, base) = ShapeTable::with_base();
        let limit = |value| ("lock_timeout", Some(value), false);
        let server = table.change(&base, [limit("1s"), ("statement_timeout", Some("2s"), false)]);
        let client = table.change(&base, [limit("1s"), ("role", Some("bob"), false)]);
        let way = |from: &Shape, to: &Shape| unhurried(from, to, difference_on(from, to, "app"));
        let shown = |set: &[Change]| {
            let one = |(name, value): &Change| format!("{name}={}", value.as_deref().unwrap_or("default"));
            set.iter().map(one).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(
            shown(&way(&server, &client)),
            "statement_timeout=0 lock_timeout=0 role=bob statement_timeout=default lock_timeout=1s"
        );
        assert_eq!(shown(&way(&base, &client)), "role=bob lock_timeout=1s");
        assert_eq!(
            shown(&way(&server, &base)),
            "lock_timeout=default statement_timeout=default"
        );
    }
}
