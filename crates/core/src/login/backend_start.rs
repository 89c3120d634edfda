//! Settings that only a new connection can have.
//!
//! PostgreSQL refuses to change them later (55P02, recording E19). So the clients that ask for the same value in
//! their startup packets share a pool, whose servers are started with that value.

use crate::base::pool_id::StartupValue;
use crate::login::spelling::{canonical, seconds};

/// How PostgreSQL reads a value.
#[derive(Clone, Copy)]
enum Kind {
    Boolean,
    /// A whole number with the unit `s`.
    Seconds,
    /// SHOW gives it back as it was written, so each spelling is another value. Since PostgreSQL 18, `log_connections`
    /// is of this kind, too; `on` and `off` mean there what they meant before.
    Text,
}

/// These settings: those whose `pg_settings.context` is `backend` or `superuser-backend`, and
/// `session_preload_libraries`, which PostgreSQL lets superusers change later, but only reads when a session begins.
const SETTINGS: [(&str, Kind); 8] = [
    ("ignore_system_indexes", Kind::Boolean),
    ("jit_debugging_support", Kind::Boolean),
    ("jit_profiling_support", Kind::Boolean),
    ("local_preload_libraries", Kind::Text),
    ("log_connections", Kind::Boolean),
    ("log_disconnections", Kind::Boolean),
    ("post_auth_delay", Kind::Seconds),
    ("session_preload_libraries", Kind::Text),
];

/// Removes these settings from those that a client asks for, and returns them. The last value of each counts. They are
/// returned in a fixed order and in canonical spelling.
pub(crate) fn take_from(settings: &mut Vec<(String, String)>) -> Box<[StartupValue]> {
    let mut taken: Vec<StartupValue> = Vec::new();
    settings.retain(|(name, value)| {
        let Some((known, kind)) = SETTINGS.iter().find(|(n, _)| n.eq_ignore_ascii_case(name)) else {
            return true;
        };
        taken.retain(|(n, _)| **n != **known);
        let value = match kind {
            Kind::Boolean => canonical(value).into(),
            Kind::Seconds => seconds(value).map_or_else(|| value.as_str().into(), |s| s.to_string().into()),
            Kind::Text => value.as_str().into(),
        };
        taken.push(((*known).into(), value));
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
    #[test]
    fn equal_spellings_are_one_value() {
        let taken = |name: &str, value: &str| {
            let mut wished = vec![(name.to_string(), value.to_string())];
            take_from(&mut wished)[0].1.to_string()
        };
        for value in [
            "2",
            " 2",
            "+2 ",
            "02",
            "0x2",
            "2s",
            "2 s",
            "2000ms",
            "1.6",
            "2e0",
            "0.2e1s",
            "2000000us",
        ] {
            assert_eq!(taken("post_auth_delay", value), "2", "{value}");
        }
        for (value, is) in [
            ("1min", "60"),
            ("0.5h", "1800"),
            ("010", "8"),
            ("0", "0"),
            ("2S", "2S"),
            ("", ""),
            ("x", "x"),
        ] {
            assert_eq!(taken("post_auth_delay", value), is, "{value}");
        }
        for value in ["on", "TRUE", "y", "1"] {
            assert_eq!(taken("log_disconnections", value), "on", "{value}");
        }
        // SHOW gives back texts as they were written, and on PostgreSQL 18 log_connections is a list.
        for (name, value) in [
            ("local_preload_libraries", "a, B"),
            ("session_preload_libraries", "2s"),
            ("log_connections", "Receipt , setup_durations"),
        ] {
            assert_eq!(taken(name, value), value);
        }
    }
}
