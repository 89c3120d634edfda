//! The settings of a session: a client's, or the one on a server.
//!
//! A set of settings is a [`Shape`]. Clients and servers with the same settings share one shape, so that the usual
//! question ("does this server already look like this client?") is one comparison of pointers. The difference between
//! two shapes ([`crate::state::difference`]) is sent before the client's messages, in a separate segment.
//!
//! A shape holds the settings that the server has reported (ParameterStatus), those of the startup packet, and those
//! that a probe has found.

use crate::state::idle_limit::{self, IDLE_IN_TRANSACTION_LIMIT, IDLE_LIMIT, TRANSACTION_LIMIT};
use crate::statements::parse_settings::{CLIENT_ENCODING, ParseSettings};
use foldhash::fast::FixedState;
use std::cmp::Ordering;
use std::hash::{BuildHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

/// The most settings a shape may hold; a client that asks for more at startup is refused.
pub(crate) const SETTINGS_MAX: usize = 256;

/// The most settings that a server may report. PostgreSQL 18 reports 15, and those that extensions mark.
pub(crate) const REPORTED_MAX: usize = 128;

/// The most bytes of their names and values together.
pub(crate) const REPORTED_BYTES_MAX: usize = 1024 * 1024;

/// The setting that a server refuses once it has used temporary tables.
pub(crate) const TEMP_BUFFERS: &str = "temp_buffers";

/// A setting and its value.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, pgweir_freeze::Freeze)]
pub(crate) struct Setting {
    /// The name, in the server's spelling if the server reports it, otherwise in lower case.
    pub(super) name: Arc<str>,
    /// The value as `set_config` takes it, in the encoding of the database: see [`crate::state::beyond_ascii`].
    pub(super) value: Arc<str>,
    /// Whether the server reports changes of it by ParameterStatus.
    pub(super) reported: bool,
}

/// The hash of a value uses this many bytes at each end: a shape is hashed whenever one of its settings changes, and
/// values may be long. Usually equal values are the same `Arc`.
const HASHED_BYTES_MAX: usize = 64;

impl Hash for Setting {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        let value = self.value.as_bytes();
        self.name.hash(state);
        value.len().hash(state);
        value[..value.len().min(HASHED_BYTES_MAX)].hash(state);
        value[value.len().saturating_sub(HASHED_BYTES_MAX)..].hash(state);
        self.reported.hash(state);
    }
}

/// Reported settings that no client can set: they follow from the server, the user or the connection.
pub(super) const READ_ONLY: [&str; 6] = [
    "in_hot_standby",
    "integer_datetimes",
    "is_superuser",
    "server_encoding",
    "server_version",
    "system_user",
];

/// The encoding in which the database keeps text.
const SERVER_ENCODING: &str = "server_encoding";

/// Time limits that could end an internal statement while it waits for a lock on a catalog.
pub(super) const LIMITS: [&str; 3] = ["statement_timeout", TRANSACTION_LIMIT, "lock_timeout"];

/// The settings for the current user, innermost first. `pg_settings` shows neither.
pub(super) const WHO: [&str; 2] = ["role", SESSION_AUTHORIZATION];

/// The setting for the user as whom the session runs.
pub(crate) const SESSION_AUTHORIZATION: &str = "session_authorization";

impl Setting {
    /// The name, in the server's spelling if the server reports it, otherwise in lower case.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The value as `set_config` takes it.
    pub(crate) fn value(&self) -> &str {
        &self.value
    }

    /// Its name and value.
    pub(crate) fn pair(&self) -> (Arc<str>, Arc<str>) {
        (self.name.clone(), self.value.clone())
    }

    /// Whether the server reports changes of it by ParameterStatus.
    pub(crate) fn is_reported(&self) -> bool {
        self.reported
    }

    /// Whether `pg_settings` does not show it.
    pub(crate) fn is_hidden(&self) -> bool {
        !self.reported && (self.is_custom() || &*self.name == "role")
    }

    /// Whether it is a custom setting (`app.tenant`).
    pub(crate) fn is_custom(&self) -> bool {
        is_custom(&self.name)
    }
}

fn is_custom(name: &str) -> bool {
    name.contains('.')
}

/// The order of two names of settings. Case does not matter, as in PostgreSQL.
pub(crate) fn order(one: &str, other: &str) -> Ordering {
    let [one, other] = [one, other].map(|name| name.bytes().map(|b| b.to_ascii_lowercase()));
    one.cmp(other)
}

/// A set of settings, sorted by name. Compare with [`Shape::same`].
#[derive(Debug, pgweir_freeze::Freeze)]
pub(crate) struct Shape {
    /// In the [`order`] of their names.
    by_name: Vec<Setting>,
    parse: ParseSettings,
    /// See [`Shape::creates_temporary`].
    creates_temporary: bool,
    /// See [`Shape::hides_ascii`].
    hides_ascii: bool,
    /// Hash of the settings that no client can set.
    fixed: u64,
    /// See [`Shape::idle_limit`].
    idle_limit: Option<Duration>,
    /// See [`Shape::idle_in_transaction_limit`].
    idle_in_transaction_limit: Option<Duration>,
    /// See [`Shape::transaction_limit`].
    transaction_limit: Option<Duration>,
}

/// The place of a setting, or where it would be inserted. They are in the [`order`] of their names.
fn find(settings: &[Setting], name: &str) -> Result<usize, usize> {
    settings.binary_search_by(|s| order(&s.name, name))
}

impl Shape {
    /// `settings` are in the [`order`] of their names; `parse` are those of them that change parsing.
    pub(super) fn new(settings: Vec<Setting>, parse: ParseSettings) -> Self {
        let value = |name: &str| find(&settings, name).ok().map(|at| &*settings[at].value);
        Shape {
            hides_ascii: parse.hides_ascii(),
            parse,
            creates_temporary: value("search_path").is_some_and(|path| pgweir_sql::may_name_schema(path, "pg_temp")),
            fixed: fixed_hash(&settings),
            idle_limit: value(IDLE_LIMIT).and_then(idle_limit::limit),
            idle_in_transaction_limit: value(IDLE_IN_TRANSACTION_LIMIT).and_then(idle_limit::limit),
            transaction_limit: value(TRANSACTION_LIMIT).and_then(idle_limit::limit),
            by_name: settings,
        }
    }

    /// Whether two shapes are the same. Shapes are interned, so this is a comparison of pointers.
    #[inline]
    pub(crate) fn same(a: &Arc<Shape>, b: &Arc<Shape>) -> bool {
        Arc::ptr_eq(a, b)
    }

    /// Whether the settings that no client can set are the same in both, so that a restoration can lead from one to the
    /// other.
    pub(crate) fn same_fixed(&self, other: &Shape) -> bool {
        self.fixed == other.fixed
    }

    /// The user whom a server that started with this shape has logged in as; empty if the server does not report it.
    pub(crate) fn home(&self) -> Arc<str> {
        self.get("session_authorization")
            .map(|s| s.value.clone())
            .unwrap_or_default()
    }

    /// The major version of the server, if it reports one.
    pub(crate) fn server_major(&self) -> Option<u32> {
        let version = &self.get("server_version")?.value;
        version.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
    }

    /// The encoding of the database, and that of the client; `None` if the server reports neither.
    pub(crate) fn encodings(&self) -> Option<[&Arc<str>; 2]> {
        Some([self.value(SERVER_ENCODING)?, self.value(CLIENT_ENCODING)?])
    }

    /// Whether text beyond ASCII has other bytes in messages than in the database.
    pub(crate) fn converts(&self) -> bool {
        let encodings = self.encodings();
        encodings.is_some_and(|[database, client]| pgweir_sql::is_converted(database, client))
    }

    /// Whether text of the database may have characters that the client's encoding lacks.
    pub(crate) fn may_lack_characters(&self) -> bool {
        let encodings = self.encodings();
        encodings.is_some_and(|[database, client]| pgweir_sql::may_lack_characters(database, client))
    }

    /// Whether a value is not ASCII.
    pub(super) fn is_beyond_ascii(&self) -> bool {
        self.by_name.iter().any(|s| !s.value.is_ascii())
    }

    pub(crate) fn settings(&self) -> &[Setting] {
        &self.by_name
    }

    /// The settings that distinguish statements parsed under this shape.
    pub(crate) fn parse_settings(&self) -> &ParseSettings {
        &self.parse
    }

    /// Whether a function's plans that were made under one of the two shapes give the same results under the other.
    pub(crate) fn plans_alike(&self, other: &Shape) -> bool {
        self.parse.plans_alike(&other.parse)
    }

    /// Whether `pg_temp` is in the search_path: objects created without a schema may be temporary.
    #[inline]
    pub(crate) fn creates_temporary(&self) -> bool {
        self.creates_temporary
    }

    /// Whether a byte that looks like ASCII may be the second half of a character in a text of this client: SJIS, GBK.
    #[inline]
    pub(crate) fn hides_ascii(&self) -> bool {
        self.hides_ascii
    }

    /// Whether neither [`Shape::creates_temporary`] nor [`Shape::hides_ascii`] is true: a text means what its bytes
    /// say.
    #[inline]
    pub(crate) fn is_usual(&self) -> bool {
        !self.creates_temporary && !self.hides_ascii
    }

    /// How long a session with these settings may be idle outside a transaction.
    #[inline]
    pub(crate) fn idle_limit(&self) -> Option<Duration> {
        self.idle_limit
    }

    /// How long a session with these settings may be idle in a transaction.
    pub(crate) fn idle_in_transaction_limit(&self) -> Option<Duration> {
        self.idle_in_transaction_limit
    }

    /// How long a transaction with these settings may take.
    pub(crate) fn transaction_limit(&self) -> Option<Duration> {
        self.transaction_limit
    }

    /// The setting of this name; case does not matter, as in PostgreSQL.
    pub(crate) fn get(&self, name: &str) -> Option<&Setting> {
        find(&self.by_name, name).ok().map(|at| &self.by_name[at])
    }

    /// The settings of both, each beside that of the same name.
    pub(super) fn beside<'a>(
        &'a self,
        other: &'a Shape,
    ) -> impl Iterator<Item = (Option<&'a Setting>, Option<&'a Setting>)> {
        let (mut here, mut there) = (self.by_name.iter().peekable(), other.by_name.iter().peekable());
        std::iter::from_fn(move || {
            let order = match (here.peek(), there.peek()) {
                (Some(one), Some(two)) if Arc::ptr_eq(&one.name, &two.name) => Ordering::Equal,
                (Some(one), Some(two)) => order(&one.name, &two.name),
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (None, None) => return None,
            };
            Some((here.next_if(|_| order.is_le()), there.next_if(|_| order.is_ge())))
        })
    }

    /// The value of the setting of this name.
    pub(crate) fn value(&self, name: &str) -> Option<&Arc<str>> {
        self.get(name).map(|s| &s.value)
    }

    /// Whether a time limit of the client's could end internal statements.
    pub(crate) fn is_hurried(&self) -> bool {
        LIMITS.iter().any(|name| self.is_limited_by(name))
    }

    pub(super) fn is_limited_by(&self, limit: &str) -> bool {
        self.get(limit).is_some_and(|s| &*s.value != "0")
    }

    /// The role, if one is set, and the session authorization, if it differs from the user who logged in.
    pub(super) fn who(&self, home: &str) -> [Option<Arc<str>>; 2] {
        let away = |(at, name): (usize, &&str)| {
            let setting = self.get(name)?;
            (at == 0 || *setting.value != *home).then(|| setting.value.clone())
        };
        let mut who = WHO.iter().enumerate().map(away);
        [who.next().flatten(), who.next().flatten()]
    }

    /// Whether a snapshot may have to wait for other sessions (recording F3).
    pub(crate) fn is_deferrable(&self) -> bool {
        self.get("default_transaction_deferrable")
            .is_some_and(|s| !matches!(&*s.value, "off" | "false" | "0" | "no"))
    }

    /// Whether transactions may be read-only by default: only then a snapshot waits. PostgreSQL reports that since 14,
    /// before a probe follows.
    pub(crate) fn may_be_read_only(&self) -> bool {
        match self.get("default_transaction_read_only") {
            Some(setting) => setting.value() != "off",
            None => self.server_major().is_some_and(|major| major < 14),
        }
    }

    /// Whether this setting would be more than the pooler keeps of the settings that a server reports.
    pub(super) fn reports_too_much(&self, name: &str, value: &str) -> bool {
        let others = self.by_name.iter().filter(|s| s.reported && *s.name != *name);
        let (count, bytes) = others.fold((1, name.len() + value.len()), |(count, bytes), other| {
            (count + 1, bytes + other.name.len() + other.value.len())
        });
        count > REPORTED_MAX || bytes > REPORTED_BYTES_MAX
    }

    /// The settings after `changes`; a change to `None` removes a setting.
    pub(super) fn changed<'c>(
        &self,
        changes: impl IntoIterator<Item = (&'c str, Option<&'c str>, bool)>,
    ) -> Vec<Setting> {
        let mut settings = self.by_name.clone();
        for (name, value, reported) in changes {
            match (find(&settings, name), value) {
                (Ok(at), Some(value)) => {
                    settings[at].value = value.into();
                    settings[at].reported |= reported;
                }
                (Ok(at), None) => drop(settings.remove(at)),
                (Err(at), Some(value)) => {
                    let name = if reported {
                        name.into()
                    } else {
                        name.to_ascii_lowercase().into()
                    };
                    let setting = Setting {
                        name,
                        value: value.into(),
                        reported,
                    };
                    settings.insert(at, setting);
                }
                (Err(_), None) => {}
            }
        }
        settings
    }
}

/// Hash of those of the settings that no client can set.
fn fixed_hash(settings: &[Setting]) -> u64 {
    let mut hasher = FixedState::default().build_hasher();
    let fixed = settings.iter().filter(|s| READ_ONLY.contains(&&*s.name));
    fixed.for_each(|s| (&s.name, &s.value).hash(&mut hasher));
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Guards against delays for all clients, caused by one whose long settings are hashed again at each change.
    #[test]
    fn a_long_value_is_not_read_again_when_a_shape_is_hashed() {
        #[derive(Default)]
        struct Counts(usize);
        impl Hasher for Counts {
            fn finish(&self) -> u64 {
                0
            }
            fn write(&mut self, bytes: &[u8]) {
                self.0 += bytes.len();
            }
        }
        let setting = Setting {
            name: "app.long".into(),
            value: "x".repeat(1 << 20).into(),
            reported: false,
        };
        let mut counts = Counts::default();
        setting.hash(&mut counts);
        assert!(counts.0 < 256, "{} bytes", counts.0);
    }
}
