//! Settings that only a new connection can have.
//!
//! PostgreSQL refuses to change them later (55P02, recording E19). So the clients that ask for the same value in
//! their startup packets share a pool, whose servers are started with that value.

use crate::base::pool_id::StartupValue;
use crate::login::spelling::canonical;

/// The names of these settings: those whose `pg_settings.context` is `backend` or `superuser-backend`, and
/// `session_preload_libraries`, which PostgreSQL lets superusers change later, but only reads when a session begins.
const NAMES: [&str; 8] = [
    "ignore_system_indexes",
    "jit_debugging_support",
    "jit_profiling_support",
    "local_preload_libraries",
    "log_connections",
    "log_disconnections",
    "post_auth_delay",
    "session_preload_libraries",
];

/// The settings among them whose values are not booleans.
const NOT_BOOLEAN: [&str; 3] = [
    "local_preload_libraries",
    "post_auth_delay",
    "session_preload_libraries",
];

/// Removes these settings from those that a client asks for, and returns them. The last value of each counts. They are
/// returned in a fixed order and in canonical spelling.
pub(crate) fn take_from(settings: &mut Vec<(String, String)>) -> Box<[StartupValue]> {
    let mut taken: Vec<StartupValue> = Vec::new();
    settings.retain(|(name, value)| {
        let Some(known) = NAMES.iter().find(|n| n.eq_ignore_ascii_case(name)) else {
            return true;
        };
        taken.retain(|(n, _)| **n != **known);
        let value = if NOT_BOOLEAN.contains(known) {
            value
        } else {
            canonical(value)
        };
        taken.push(((*known).into(), value.into()));
        false
    });
    taken.sort();
    taken.into()
}

/// Removes all settings that a replication client asks for, and returns them. They cannot be set later, because a
/// walsender does not speak the extended protocol, and for physical replication runs no SQL.
pub(crate) fn take_all(settings: &mut Vec<(String, String)>) -> Box<[StartupValue]> {
    let all = std::mem::take(settings).into_iter();
    all.map(|(name, value)| (name.into(), value.into())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_value_of_each_is_taken_in_one_order() {
        let settings = |all: &[(&str, &str)]| all.iter().map(|(n, v)| (n.to_string(), v.to_string())).collect();
        let mut wished: Vec<(String, String)> = settings(&[
            ("Post_Auth_Delay", "1"),
            ("work_mem", "1MB"),
            ("log_connections", "on"),
            ("post_auth_delay", "2"),
            ("log_connections", "TRUE"),
            ("session_preload_libraries", "on"),
        ]);
        let taken = take_from(&mut wished);
        assert_eq!(wished, settings(&[("work_mem", "1MB")]));
        let expected: [StartupValue; 3] = [
            ("log_connections".into(), "on".into()),
            ("post_auth_delay".into(), "2".into()),
            ("session_preload_libraries".into(), "on".into()),
        ];
        assert_eq!(*taken, expected);
    }
}
