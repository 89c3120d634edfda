//! Settings: the virtual session of a client, the actual session of a server, and what lies between them.
//!
//! A set of settings is a [`Shape`], shared by everyone who has the same one, so that the usual question ("does this
//! server already look like this client?") is one comparison of pointers. The difference between two shapes is sent ahead
//! of the client's own messages as a segment of its own (design, "Restoration").
//!
//! A shape holds what the server reported (ParameterStatus) and what was set explicitly at startup. Settings that a
//! client changes with SET and that the server does not report are not known here yet.

use crate::state::idle_limit::{self, IDLE_LIMIT};
use crate::statements::parse_settings::ParseSettings;
use foldhash::fast::{FixedState, RandomState};
use std::hash::{BuildHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

/// The most settings a shape may hold; a client that asks for more at startup is refused.
pub(crate) const SETTINGS_MAX: usize = 256;

/// The setting that a server with temporary tables behind it refuses.
pub(crate) const TEMP_BUFFERS: &str = "temp_buffers";

/// A setting's value.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, pgweir_freeze::Freeze)]
pub(crate) struct Setting {
    /// The name, spelled as the server reports it, or in lower case where it does not.
    pub(crate) name: Arc<str>,
    /// The value as `set_config` takes it.
    pub(crate) value: Arc<str>,
    /// Whether the server reports changes of it by ParameterStatus.
    pub(crate) reported: bool,
}

/// Bytes at each end of a value that count for its hash: a shape is hashed whenever one of its settings changes, and values
/// may be long. Equal values are the same `Arc` as a rule.
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
const READ_ONLY: [&str; 6] = [
    "in_hot_standby",
    "integer_datetimes",
    "is_superuser",
    "server_encoding",
    "server_version",
    "system_user",
];

/// Settings that change how the text of a statement is parsed (design, "Session state", identity of a statement).
const CHANGE_PARSING: [&str; 11] = [
    "array_nulls",
    "backslash_quote",
    "client_encoding",
    "DateStyle",
    "IntervalStyle",
    "lc_monetary",
    "search_path",
    "standard_conforming_strings",
    "TimeZone",
    "transform_null_equals",
    "xmloption",
];

/// Time limits that could end a statement of the pooler's own while it waits for a lock on a catalog.
const LIMITS: [&str; 3] = ["statement_timeout", "transaction_timeout", "lock_timeout"];

/// Settings that say who acts, innermost first. `pg_settings` shows neither.
const WHO: [&str; 2] = ["role", "session_authorization"];

impl Setting {
    /// Whether `pg_settings` leaves it out.
    pub(crate) fn is_hidden(&self) -> bool {
        !self.reported && (self.is_custom() || &*self.name == "role")
    }

    /// Whether it is one of the user's own (`app.tenant`).
    pub(crate) fn is_custom(&self) -> bool {
        is_custom(&self.name)
    }
}

fn is_custom(name: &str) -> bool {
    name.contains('.')
}

/// A set of settings, sorted by name. Compare with [`Shape::same`].
#[derive(Debug, pgweir_freeze::Freeze)]
pub(crate) struct Shape {
    settings: Vec<Setting>,
    parse: ParseSettings,
    /// See [`Shape::creates_temporary`].
    creates_temporary: bool,
    /// Hash of the settings that nobody can set.
    fixed: u64,
    /// See [`Shape::idle_limit`].
    idle_limit: Option<Duration>,
}

impl Shape {
    /// Whether two shapes are one: shapes are interned, so this is a comparison of pointers.
    #[inline]
    pub(crate) fn same(a: &Arc<Shape>, b: &Arc<Shape>) -> bool {
        Arc::ptr_eq(a, b)
    }

    /// Whether what nobody can set is the same in both, so that a server with one can be made to look like the other.
    pub(crate) fn same_fixed(&self, other: &Shape) -> bool {
        self.fixed == other.fixed
    }

    /// The user whom a server that started with this shape has logged in as; empty where the server does not tell.
    pub(crate) fn home(&self) -> Arc<str> {
        self.get("session_authorization")
            .map(|s| s.value.clone())
            .unwrap_or_default()
    }

    /// The major version of the server, where it tells.
    pub(crate) fn server_major(&self) -> Option<u32> {
        let version = &self.get("server_version")?.value;
        version.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
    }

    pub(crate) fn settings(&self) -> &[Setting] {
        &self.settings
    }

    /// What distinguishes statements parsed under this shape.
    pub(crate) fn parse_settings(&self) -> &ParseSettings {
        &self.parse
    }

    /// Whether `pg_temp` is in its search_path: what is created without a schema may be temporary.
    #[inline]
    pub(crate) fn creates_temporary(&self) -> bool {
        self.creates_temporary
    }

    /// How long a session of this shape may be idle outside a transaction, by its own setting.
    #[inline]
    pub(crate) fn idle_limit(&self) -> Option<Duration> {
        self.idle_limit
    }

    /// The setting of this name, compared without case as PostgreSQL does.
    pub(crate) fn get(&self, name: &str) -> Option<&Setting> {
        self.settings.iter().find(|s| s.name.eq_ignore_ascii_case(name))
    }

    /// Whether statements of the pooler's own could meet a time limit of the client's.
    pub(crate) fn is_hurried(&self) -> bool {
        LIMITS.iter().any(|name| self.is_limited_by(name))
    }

    fn is_limited_by(&self, limit: &str) -> bool {
        self.get(limit).is_some_and(|s| &*s.value != "0")
    }

    /// Role and session authorization, where they are not those of the user who logged in.
    fn who(&self, home: &str) -> [Option<Arc<str>>; 2] {
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

    /// The settings with `changes` made; a change to `None` removes one.
    fn changed<'c>(&self, changes: impl IntoIterator<Item = (&'c str, Option<&'c str>, bool)>) -> Vec<Setting> {
        let mut settings = self.settings.clone();
        for (name, value, reported) in changes {
            let at = settings.iter().position(|s| s.name.eq_ignore_ascii_case(name));
            match (at, value) {
                (Some(at), Some(value)) => {
                    settings[at].value = value.into();
                    settings[at].reported |= reported;
                }
                (Some(at), None) => drop(settings.remove(at)),
                (None, Some(value)) => {
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
                    let at = settings.partition_point(|s| s.name < setting.name);
                    settings.insert(at, setting);
                }
                (None, None) => {}
            }
        }
        settings
    }
}

/// Hash of the settings among these that nobody can set.
fn fixed_hash(settings: &[Setting]) -> u64 {
    let mut hasher = FixedState::default().build_hasher();
    let fixed = settings.iter().filter(|s| READ_ONLY.contains(&&*s.name));
    fixed.for_each(|s| (&s.name, &s.value).hash(&mut hasher));
    hasher.finish()
}

#[derive(Debug, Clone, pgweir_freeze::Freeze)]
struct ByContent(Arc<Shape>);

impl Hash for ByContent {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.0.settings.hash(state);
    }
}

impl PartialEq for ByContent {
    fn eq(&self, other: &Self) -> bool {
        self.0.settings == other.0.settings
    }
}

impl Eq for ByContent {}

impl hashbrown::Equivalent<ByContent> for Vec<Setting> {
    fn equivalent(&self, key: &ByContent) -> bool {
        *self == key.0.settings
    }
}

/// All shapes in use.
#[derive(Debug, pgweir_freeze::Freeze)]
pub(crate) struct ShapeTable {
    shapes: hashbrown::HashSet<ByContent, RandomState>,
    /// What changes parsing in them, each once.
    parses: hashbrown::HashSet<ParseSettings, RandomState>,
    sweep_at: usize,
    empty: Arc<Shape>,
}

/// The table is not swept below this many shapes.
const SWEEP_SHAPES_MIN: usize = 64;

impl ShapeTable {
    pub(crate) fn new() -> Self {
        let empty = Arc::new(Shape {
            settings: Vec::new(),
            parse: ParseSettings::default(),
            creates_temporary: false,
            fixed: 0,
            idle_limit: None,
        });
        let mut shapes = hashbrown::HashSet::default();
        shapes.insert(ByContent(empty.clone()));
        ShapeTable {
            shapes,
            parses: hashbrown::HashSet::default(),
            sweep_at: SWEEP_SHAPES_MIN,
            empty,
        }
    }

    /// The shape without settings.
    pub(crate) fn empty(&self) -> Arc<Shape> {
        self.empty.clone()
    }

    /// `base` with changes made: name, new value or `None` to remove it, whether the server reports it.
    pub(crate) fn change<'c>(
        &mut self,
        base: &Arc<Shape>,
        changes: impl IntoIterator<Item = (&'c str, Option<&'c str>, bool)>,
    ) -> Arc<Shape> {
        self.intern(base.changed(changes), &base.parse)
    }

    /// `likely` is shared where the settings that change parsing are the same; most changes touch none of them.
    fn intern(&mut self, settings: Vec<Setting>, likely: &ParseSettings) -> Arc<Shape> {
        if let Some(known) = self.shapes.get(&settings) {
            return known.0.clone();
        }
        if self.shapes.len() >= self.sweep_at {
            self.shapes.retain(|s| Arc::strong_count(&s.0) > 1);
            self.sweep_at = (self.shapes.len() * 2).max(SWEEP_SHAPES_MIN);
            self.shapes.shrink_to(self.sweep_at);
            self.parses.retain(|p| Arc::strong_count(&p.0) > 1);
            self.parses.shrink_to(self.sweep_at);
        }
        // "$user" is who acts. Where the path is not known, it is the default, which names it.
        let path = settings.iter().find(|s| s.name.eq_ignore_ascii_case("search_path"));
        let follows_role = path.is_none_or(|s| s.value.contains("$user"));
        let changes_parsing = |s: &&Setting| {
            let is_role = follows_role && s.name.eq_ignore_ascii_case(WHO[0]);
            is_role || CHANGE_PARSING.iter().any(|n| n.eq_ignore_ascii_case(&s.name))
        };
        let parse: Arc<[_]> = settings
            .iter()
            .filter(changes_parsing)
            .map(|s| (s.name.clone(), s.value.clone()))
            .collect();
        let parse = if *parse == *likely.0 {
            likely.clone()
        } else {
            self.parses.get_or_insert(ParseSettings(parse)).clone()
        };
        let creates_temporary = settings
            .iter()
            .any(|s| s.name.eq_ignore_ascii_case("search_path") && s.value.contains("pg_temp"));
        let fixed = fixed_hash(&settings);
        let limit = settings.iter().find(|s| s.name.eq_ignore_ascii_case(IDLE_LIMIT));
        let idle_limit = limit.and_then(|s| idle_limit::limit(&s.value));
        let shape = Arc::new(Shape {
            settings,
            parse,
            creates_temporary,
            fixed,
            idle_limit,
        });
        self.shapes.insert(ByContent(shape.clone()));
        shape
    }

    pub(crate) fn len(&self) -> usize {
        self.shapes.len()
    }
}

/// A setting to make on a server; `None` resets it to the server's own startup value.
pub(crate) type Change = (Arc<str>, Option<Arc<str>>);

/// The settings that make a server with one shape look like a client with another, in the order to send them.
///
/// `home` is the user whom the server logged in as.
pub(crate) fn difference_on(server: &Shape, client: &Shape, home: &str) -> Vec<Change> {
    let mut set = Vec::new();
    let writable = |name: &str| !READ_ONLY.iter().chain(&WHO).any(|n| n.eq_ignore_ascii_case(name));
    for have in &server.settings {
        if !have.reported && writable(&have.name) && client.get(&have.name).is_none() {
            set.push((have.name.clone(), None));
        }
    }
    for want in &client.settings {
        let have = server.get(&want.name);
        if writable(&want.name) && have.map(|h| &h.value) != Some(&want.value) {
            set.push((want.name.clone(), Some(want.value.clone())));
        }
    }
    // Values are read in the encoding that goes before them.
    set.sort_by_key(|(name, _)| !name.eq_ignore_ascii_case("client_encoding"));
    // Privileges are taken back first and given up last: the servers' own user makes the settings in between.
    let (from, to) = (server.who(home), client.who(home));
    if from == to && set.is_empty() {
        return set;
    }
    let back = WHO.iter().zip(&from).filter(|(_, user)| user.is_some());
    let mut all: Vec<Change> = back.map(|(name, _)| ((*name).into(), None)).collect();
    if let (Some((name, value)), [Some(_), _]) = (all.first_mut(), &to)
        && **name == *WHO[0]
    {
        // RESET ROLE takes the role that the user who logged in has by default, if there is one.
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

/// The same settings, with the time limits lifted in front of them and made behind them: a limit is for the client's
/// statements, which do not wait for what a restoration reads.
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
            // It is the same for both.
            None if server.is_limited_by(limit) => all.push((limit.into(), client.get(limit).map(|s| s.value.clone()))),
            None => {}
        }
    }
    all
}

/// The way from one shape to another of the same user.
pub(crate) fn difference(server: &Shape, client: &Shape) -> Vec<Change> {
    difference_on(server, client, &server.home())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table_and_base() -> (ShapeTable, Arc<Shape>) {
        let mut table = ShapeTable::new();
        let empty = table.empty();
        let base = table.change(
            &empty,
            [
                ("DateStyle", Some("ISO, MDY"), true),
                ("application_name", Some(""), true),
                ("server_version", Some("15.1"), true),
            ],
        );
        (table, base)
    }

    /// Guards against a client with long settings that holds everybody up whenever it changes one of them.
    #[test]
    fn a_long_value_is_not_read_again_when_a_shape_is_hashed() {
        #[derive(Default)]
        struct Counts(usize);
        impl std::hash::Hasher for Counts {
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

    #[test]
    fn equal_settings_are_one_shape_whatever_the_way_there() {
        let (mut table, base) = table_and_base();
        let a = table.change(&base, [("datestyle", Some("SQL, DMY"), false)]);
        let b = table.change(&a, [("DateStyle", Some("ISO, MDY"), true)]);
        assert!(Shape::same(&base, &b) && !Shape::same(&base, &a));
        assert_eq!(&*a.get("dAtEsTyLe").unwrap().name, "DateStyle");
    }

    #[test]
    fn a_role_matters_where_the_path_names_it_and_constants_do_not_depend_on_either() {
        let (mut table, base) = table_and_base();
        let bob = table.change(&base, [("role", Some("bob"), false)]);
        assert_ne!(bob.parse_settings(), base.parse_settings());
        assert!(bob.parse_settings().reads_alike(base.parse_settings()));
        assert!(bob.parse_settings().pairs().all(|(name, _)| &**name != "role"));
        let fixed = table.change(&base, [("search_path", Some("a"), false)]);
        let fixed_bob = table.change(&fixed, [("role", Some("bob"), false)]);
        assert_eq!(fixed_bob.parse_settings(), fixed.parse_settings());
        let other_day = table.change(&base, [("DateStyle", Some("SQL, DMY"), true)]);
        assert!(!other_day.parse_settings().reads_alike(base.parse_settings()));
        // One object for all who read texts alike, however they came to.
        let named = table.change(&base, [("application_name", Some("x"), true)]);
        let again = table.change(&named, [("DateStyle", Some("SQL, DMY"), true)]);
        assert!(!Shape::same(&again, &other_day) && again.parse_settings().is_surely(other_day.parse_settings()));
    }

    #[test]
    fn only_what_differs_and_can_be_set_is_sent() {
        let (mut table, base) = table_and_base();
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
        let (mut table, base) = table_and_base();
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
                ("client_encoding", true),
                ("work_mem", false),
                ("search_path", true),
                ("role", true)
            ]
        );
    }

    #[test]
    fn from_one_role_to_another_the_way_leads_over_the_user_who_logged_in() {
        let (mut table, base) = table_and_base();
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

    /// Guards against restorations that fail by their own client's time limit, while somebody holds a lock.
    #[test]
    fn no_time_limit_holds_while_settings_are_made() {
        let (mut table, base) = table_and_base();
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

    #[test]
    fn parsing_differs_only_with_settings_that_change_it() {
        let (mut table, base) = table_and_base();
        let named = table.change(&base, [("application_name", Some("x"), true)]);
        let dated = table.change(&base, [("DateStyle", Some("SQL, DMY"), true)]);
        assert_eq!(base.parse_settings(), named.parse_settings());
        assert_ne!(base.parse_settings(), dated.parse_settings());
    }

    #[test]
    fn a_flood_of_shapes_does_not_grow_the_table() {
        let (mut table, base) = table_and_base();
        for n in 0..5_000 {
            table.change(&base, [("application_name", Some(&*format!("app {n}")), true)]);
        }
        assert!(table.len() <= SWEEP_SHAPES_MIN);
    }
}
