//! Settings (GUCs) of a session.

use super::error::ServerError;
use super::version::Version;
use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// How values of a setting are checked and spelled.
#[derive(Debug, Clone, Copy)]
enum Kind {
    Text,
    Internal,
    Bool,
    DateStyle,
    Encoding,
    TimeZone,
    SearchPath,
    OneOf(&'static [&'static str]),
    Int {
        min: i64,
        max: i64,
    },
    Kilobytes,
    Milliseconds,
    /// Any existing role. `pg_settings` does not show it, and RESET ALL does not change it (`GUC_NO_SHOW_ALL`,
    /// `GUC_NO_RESET_ALL`).
    Role,
}

struct Definition {
    name: &'static str,
    kind: Kind,
    default: &'static str,
    /// First major version that reports it by ParameterStatus; 0 is none.
    reported_since: u32,
}

const fn definition(name: &'static str, kind: Kind, default: &'static str, reported_since: u32) -> Definition {
    Definition {
        name,
        kind,
        default,
        reported_since,
    }
}

/// In the order PostgreSQL 15 reports them: by name, case-blind.
static DEFINITIONS: [Definition; 24] = [
    definition("application_name", Kind::Text, "", 1),
    definition("client_encoding", Kind::Encoding, "UTF8", 1),
    definition("DateStyle", Kind::DateStyle, "ISO, MDY", 1),
    definition("default_transaction_deferrable", Kind::Bool, "off", 0),
    definition("default_transaction_read_only", Kind::Internal, "off", 14),
    definition("extra_float_digits", Kind::Int { min: -15, max: 3 }, "1", 0),
    definition("in_hot_standby", Kind::Internal, "off", 14),
    definition("integer_datetimes", Kind::Internal, "on", 1),
    definition(
        "IntervalStyle",
        Kind::OneOf(&["postgres", "postgres_verbose", "sql_standard", "iso_8601"]),
        "postgres",
        1,
    ),
    definition("is_superuser", Kind::Internal, "on", 1),
    definition("jit", Kind::Bool, "on", 0),
    definition("lock_timeout", Kind::Milliseconds, "0", 0),
    definition(
        "max_parallel_workers_per_gather",
        Kind::Int { min: 0, max: 1024 },
        "2",
        0,
    ),
    definition("role", Kind::Role, "none", 0),
    definition(
        "scram_iterations",
        Kind::Int {
            min: 1,
            max: 2147483647,
        },
        "4096",
        16,
    ),
    definition("search_path", Kind::SearchPath, "\"$user\", public", 18),
    definition("server_encoding", Kind::Internal, "UTF8", 1),
    definition("server_version", Kind::Internal, "", 1),
    definition("session_authorization", Kind::Internal, "postgres", 1),
    definition("standard_conforming_strings", Kind::Bool, "on", 1),
    definition("statement_timeout", Kind::Milliseconds, "0", 0),
    definition("TimeZone", Kind::TimeZone, "UTC", 1),
    // Only PostgreSQL 17 and later have it, and the pooler asks only those for it.
    definition("transaction_timeout", Kind::Milliseconds, "0", 0),
    definition("work_mem", Kind::Kilobytes, "4MB", 0),
];

fn find(name: &str) -> Option<usize> {
    DEFINITIONS.iter().position(|d| d.name.eq_ignore_ascii_case(name))
}

/// Time zones that the model knows: every installation has them.
const TIME_ZONES: [&str; 6] = [
    "UTC",
    "GMT",
    "Asia/Tokyo",
    "Europe/Paris",
    "America/New_York",
    "Etc/UTC",
];

#[derive(Debug, Clone, PartialEq, Eq)]
struct Pair {
    /// The value after commit.
    session: Rc<str>,
    /// The present value: differs from `session` after SET LOCAL.
    current: Rc<str>,
    /// Whether the session has set it (`pg_settings.source` is `session`), after commit and at present.
    session_made: bool,
    current_made: bool,
}

impl Pair {
    /// A value that the session has not set.
    fn given(value: Rc<str>) -> Pair {
        Pair {
            session: value.clone(),
            current: value,
            session_made: false,
            current_made: false,
        }
    }
}

/// The values of all settings.
#[derive(Debug, Clone)]
struct Values {
    /// In the order of [`DEFINITIONS`].
    known: Vec<Pair>,
    /// Custom ones, by name.
    custom: BTreeMap<Rc<str>, Pair>,
}

impl Values {
    fn defaults(version: Version) -> Rc<Values> {
        thread_local! {
            static MADE: [OnceCell<Rc<Values>>; 2] = const { [const { OnceCell::new() }; 2] };
        }
        let make = || {
            let value = |d: &Definition| match d.name {
                "server_version" => version.text(),
                _ => d.default,
            };
            Rc::new(Values {
                known: DEFINITIONS.iter().map(|d| Pair::given(value(d).into())).collect(),
                custom: BTreeMap::new(),
            })
        };
        MADE.with(|made| made[usize::from(version == Version::V18)].get_or_init(make).clone())
    }

    fn pair(&self, place: &Place) -> Option<&Pair> {
        match place {
            Place::Known(index) => Some(&self.known[*index]),
            Place::Custom(name) => self.custom.get(name),
        }
    }

    fn pair_mut(&mut self, place: Place) -> &mut Pair {
        match place {
            Place::Known(index) => &mut self.known[index],
            Place::Custom(name) => self.custom.entry(name).or_insert_with(|| Pair::given("".into())),
        }
    }

    fn all_mut(&mut self) -> impl Iterator<Item = &mut Pair> {
        self.known.iter_mut().chain(self.custom.values_mut())
    }
}

/// The place of a setting's value.
#[derive(Debug, Clone)]
enum Place {
    Known(usize),
    Custom(Rc<str>),
}

/// The values of all settings at one moment. A copy is cheap.
#[derive(Debug, Clone)]
pub struct Snapshot(Rc<Values>);

impl Snapshot {
    /// The first setting that differs between two sessions that must look alike: its name and both values. If the
    /// pooler follows only reported settings, `reported` skips all others.
    pub fn difference(&self, other: &Snapshot, reported: bool) -> Option<(String, String, String)> {
        if Rc::ptr_eq(&self.0, &other.0) {
            return None;
        }
        let told = |name: &str, a: &str, b: &str| Some((name.to_string(), a.to_string(), b.to_string()));
        for ((d, a), b) in DEFINITIONS.iter().zip(&self.0.known).zip(&other.0.known) {
            let counts = !matches!(d.kind, Kind::Internal) && (!reported || d.reported_since == 1);
            if counts && a.current != b.current {
                return told(d.name, &a.current, &b.current);
            }
        }
        if reported {
            return None;
        }
        let value = |of: &Snapshot, name: &str| of.0.custom.get(name).map_or("".into(), |p| p.current.clone());
        let names = self.0.custom.keys().chain(other.0.custom.keys());
        names
            .filter(|name| !name.starts_with(OF_THE_POOLER))
            .map(|name| (name, value(self, name), value(other, name)))
            .find(|(_, a, b)| a != b)
            .and_then(|(name, a, b)| told(name, &a, &b))
    }

    /// Current values, of custom settings too.
    pub fn values(&self) -> impl Iterator<Item = (&str, &str)> {
        let known = DEFINITIONS.iter().map(|d| d.name).zip(&self.0.known);
        let custom = self.0.custom.iter().map(|(name, pair)| (&**name, pair));
        known.chain(custom).map(|(name, pair)| (name, &*pair.current))
    }
}

/// The prefix that PL/pgSQL reserves.
const RESERVED_PREFIX: &str = "plpgsql.";
pub(super) const INVALID_NAME: &str = "invalid configuration parameter name";

/// The same values, without those under the reserved prefix.
fn without_reserved(values: &Rc<Values>) -> Rc<Values> {
    let mut values = values.clone();
    let is_reserved = |name: &Rc<str>| name.starts_with(RESERVED_PREFIX);
    if values.custom.keys().any(is_reserved) {
        Rc::make_mut(&mut values).custom.retain(|name, _| !is_reserved(name));
    }
    values
}

/// The prefix of internal custom settings, which keep a value for the length of a transaction.
const OF_THE_POOLER: &str = "pgweir";

/// All settings of one session.
#[derive(Debug)]
pub(super) struct Settings {
    version: Version,
    values: Snapshot,
    /// The values that RESET returns to.
    resets: Rc<Values>,
    /// Custom names that were ever set on this server: they outlive rollbacks and DISCARD ALL with the value '' (F2,
    /// F2b).
    placeholders: BTreeSet<Rc<str>>,
    /// PL/pgSQL is loaded: names under its prefix are reserved (`MarkGUCPrefixReserved`), and the model knows none of
    /// them.
    prefix_reserved: bool,
    /// The values that were last reported to the client, in the order of [`DEFINITIONS`].
    told: Vec<Option<Rc<str>>>,
    /// The values at the last report. While they are the same object, nothing has changed.
    told_of: Option<Rc<Values>>,
}

impl Settings {
    pub(super) fn new(version: Version) -> Self {
        let resets = Values::defaults(version);
        Settings {
            version,
            values: Snapshot(resets.clone()),
            resets,
            placeholders: BTreeSet::new(),
            prefix_reserved: false,
            told: vec![None; DEFINITIONS.len()],
            told_of: None,
        }
    }

    /// A value of the startup packet: what RESET returns to.
    pub(super) fn set_at_startup(&mut self, name: &str, value: &str) -> Result<(), ServerError> {
        let place = self.place(name).or_else(|e| self.placeholder(name, e))?;
        let value = self.checked(&place, value)?;
        *Rc::make_mut(&mut self.resets).pair_mut(place) = Pair::given(value.into());
        self.reset_all();
        Ok(())
    }

    /// Sets the session's user.
    pub(super) fn set_user(&mut self, user: &str) {
        let index = find("session_authorization").expect("it is among them");
        Rc::make_mut(&mut self.resets).known[index] = Pair::given(user.into());
        self.reset_all();
    }

    /// A custom name that has not been set; `unknown` is the error if the name cannot be set.
    fn placeholder(&mut self, name: &str, unknown: ServerError) -> Result<Place, ServerError> {
        if !name.contains('.') {
            return Err(unknown);
        }
        let lower: Rc<str> = name.to_ascii_lowercase().into();
        if self.prefix_reserved && lower.starts_with(RESERVED_PREFIX) {
            return Err(ServerError::error("42602", format!("{INVALID_NAME} \"{name}\"")));
        }
        self.placeholders.insert(lower.clone());
        Ok(Place::Custom(lower))
    }

    /// PL/pgSQL is loaded until the process ends: settings under its prefix that it does not know are removed, even if
    /// the transaction is rolled back. Returns their names.
    pub(super) fn reserve_prefix(&mut self) -> Vec<Rc<str>> {
        if std::mem::replace(&mut self.prefix_reserved, true) {
            return Vec::new();
        }
        let is_reserved = |name: &Rc<str>| name.starts_with(RESERVED_PREFIX);
        let removed: Vec<Rc<str>> = self
            .placeholders
            .iter()
            .filter(|name| is_reserved(name))
            .cloned()
            .collect();
        if !removed.is_empty() {
            self.placeholders.retain(|name| !is_reserved(name));
            self.resets = without_reserved(&self.resets);
            self.values = Snapshot(without_reserved(&self.values.0));
        }
        removed
    }

    fn place(&self, name: &str) -> Result<Place, ServerError> {
        if let Some(index) = find(name) {
            return Ok(Place::Known(index));
        }
        let lower = name.to_ascii_lowercase();
        if let Some(known) = self.placeholders.get(&*lower) {
            return Ok(Place::Custom(known.clone()));
        }
        Err(ServerError::error(
            "42704",
            format!("unrecognized configuration parameter \"{name}\""),
        ))
    }

    /// The canonical spelling of a name that exists.
    pub(super) fn name(&self, name: &str) -> Result<String, ServerError> {
        Ok(match self.place(name)? {
            Place::Known(index) => DEFINITIONS[index].name.into(),
            Place::Custom(name) => name.to_string(),
        })
    }

    pub(super) fn get(&self, name: &str) -> Result<String, ServerError> {
        let place = self.place(name)?;
        Ok(self
            .values
            .0
            .pair(&place)
            .map(|p| p.current.to_string())
            .unwrap_or_default())
    }

    /// A time limit, milliseconds.
    pub(super) fn milliseconds(&self, name: &str) -> Option<u64> {
        units(&self.get(name).ok()?, &MILLISECONDS)
    }

    /// The application's name.
    pub(super) fn application_name(&self) -> &str {
        &self.values.0.known[0].current
    }

    /// SET, or set_config(); `None` is the value that RESET returns to. Returns the new value.
    pub(super) fn set(&mut self, name: &str, value: Option<&str>, local: bool) -> Result<String, ServerError> {
        let place = match self.place(name) {
            Ok(place) => place,
            Err(e) => self.placeholder(name, e)?,
        };
        if let Place::Known(index) = place
            && matches!(DEFINITIONS[index].kind, Kind::Internal)
        {
            return Err(ServerError::unmodelled(format!("SET {name}")));
        }
        let made = value.is_some();
        let value: Rc<str> = match value {
            Some(value) => self.checked(&place, value)?.into(),
            None => self.resets.pair(&place).map_or("".into(), |p| p.current.clone()),
        };
        let text = value.to_string();
        let pair = Rc::make_mut(&mut self.values.0).pair_mut(place);
        pair.current = value.clone();
        pair.current_made = made;
        if !local {
            pair.session = value;
            pair.session_made = made;
        }
        Ok(text)
    }

    /// Name and value, in the setting's unit, of what the session has set: the rows of `pg_settings` with source
    /// `session`. Custom settings are not among them.
    pub(super) fn made(&self) -> Vec<(String, String)> {
        let in_units = |(d, pair): (&Definition, &Pair)| {
            let number = match d.kind {
                Kind::Kilobytes => units(&pair.current, &KILOBYTES),
                Kind::Milliseconds => units(&pair.current, &MILLISECONDS),
                _ => None,
            };
            let value = number.map_or_else(|| pair.current.to_string(), |n| n.to_string());
            (d.name.into(), value)
        };
        let all = DEFINITIONS.iter().zip(&self.values.0.known);
        let shows = |(d, pair): &(&Definition, &Pair)| pair.current_made && !matches!(d.kind, Kind::Role);
        all.filter(shows).map(in_units).collect()
    }

    /// DISCARD ALL, and the start of a session.
    pub(super) fn reset_all(&mut self) {
        self.values = Snapshot(self.resets.clone());
    }

    /// RESET ALL.
    pub(super) fn reset_all_but_role(&mut self) {
        let role = find("role").expect("it is among them");
        let kept = self.values.0.known[role].clone();
        self.reset_all();
        if self.values.0.known[role] != kept {
            Rc::make_mut(&mut self.values.0).known[role] = kept;
        }
    }

    pub(super) fn snapshot(&self) -> Snapshot {
        self.values.clone()
    }

    pub(super) fn restore(&mut self, snapshot: &Snapshot) {
        self.values = match self.prefix_reserved {
            true => Snapshot(without_reserved(&snapshot.0)),
            false => snapshot.clone(),
        };
    }

    /// The transaction commits, and SET LOCAL ends.
    pub(super) fn commit(&mut self) {
        let differs = |p: &Pair| p.current != p.session || p.current_made != p.session_made;
        let values = &self.values.0;
        if values.known.iter().chain(values.custom.values()).any(differs) {
            for pair in Rc::make_mut(&mut self.values.0).all_mut() {
                pair.current = pair.session.clone();
                pair.current_made = pair.session_made;
            }
        }
    }

    /// Reported settings whose value differs from the last report, in no promised order.
    pub(super) fn changes_to_tell(&mut self) -> Vec<(String, String)> {
        let mut changes = Vec::new();
        if self.told_of.as_ref().is_some_and(|of| Rc::ptr_eq(of, &self.values.0)) {
            return changes;
        }
        let major = self.version.major();
        for ((d, pair), told) in DEFINITIONS.iter().zip(&self.values.0.known).zip(&mut self.told) {
            let is_reported = d.reported_since > 0 && d.reported_since <= major;
            if is_reported && told.as_ref() != Some(&pair.current) {
                *told = Some(pair.current.clone());
                changes.push((d.name.into(), pair.current.to_string()));
            }
        }
        self.told_of = Some(self.values.0.clone());
        changes
    }

    fn checked(&self, place: &Place, value: &str) -> Result<String, ServerError> {
        let Place::Known(index) = *place else {
            return Ok(value.into());
        };
        let d = &DEFINITIONS[index];
        let invalid = || {
            ServerError::error(
                "22023",
                format!("invalid value for parameter \"{}\": \"{value}\"", d.name),
            )
        };
        Ok(match d.kind {
            Kind::Internal | Kind::Text | Kind::SearchPath | Kind::Role => value.into(),
            Kind::Bool => match value.to_ascii_lowercase().as_str() {
                "on" | "true" | "yes" | "1" => "on".into(),
                "off" | "false" | "no" | "0" => "off".into(),
                _ => {
                    return Err(ServerError::error(
                        "22023",
                        format!("parameter \"{}\" requires a Boolean value", d.name),
                    ));
                }
            },
            Kind::OneOf(list) => list
                .iter()
                .find(|v| v.eq_ignore_ascii_case(value))
                .ok_or_else(invalid)?
                .to_string(),
            Kind::TimeZone => TIME_ZONES
                .iter()
                .find(|v| **v == value)
                .ok_or_else(invalid)?
                .to_string(),
            Kind::Encoding => match value.to_ascii_uppercase().replace(['-', '_'], "").as_str() {
                "UTF8" | "UNICODE" => "UTF8".into(),
                "LATIN1" => "LATIN1".into(),
                "SQLASCII" => "SQL_ASCII".into(),
                _ => return Err(invalid()),
            },
            Kind::DateStyle => date_style(&self.values.0.known[index].current, value).ok_or_else(invalid)?,
            Kind::Int { min, max } => {
                let number: i64 = value.parse().map_err(|_| invalid())?;
                if !(min..=max).contains(&number) {
                    return Err(ServerError::error(
                        "22023",
                        format!(
                            "{number} is outside the valid range for parameter \"{}\" ({min} .. {max})",
                            d.name
                        ),
                    ));
                }
                number.to_string()
            }
            Kind::Kilobytes => {
                let kb = units(value, &KILOBYTES).ok_or_else(invalid)?;
                match kb {
                    kb if kb % (1024 * 1024) == 0 => format!("{}GB", kb / 1024 / 1024),
                    kb if kb % 1024 == 0 => format!("{}MB", kb / 1024),
                    kb => format!("{kb}kB"),
                }
            }
            Kind::Milliseconds => {
                let ms = units(value, &MILLISECONDS).ok_or_else(invalid)?;
                match ms {
                    0 => "0".into(),
                    ms if ms % 60_000 == 0 => format!("{}min", ms / 60_000),
                    ms if ms % 1000 == 0 => format!("{}s", ms / 1000),
                    ms => format!("{ms}ms"),
                }
            }
        })
    }
}

const KILOBYTES: [(&str, u64); 3] = [("kB", 1), ("MB", 1024), ("GB", 1024 * 1024)];
const MILLISECONDS: [(&str, u64); 3] = [("ms", 1), ("s", 1000), ("min", 60_000)];

fn units(value: &str, units: &[(&str, u64)]) -> Option<u64> {
    let digits = value.find(|c: char| !c.is_ascii_digit()).unwrap_or(value.len());
    let number: u64 = value[..digits].parse().ok()?;
    match &value[digits..] {
        "" => Some(number),
        unit => number.checked_mul(units.iter().find(|(name, _)| *name == unit)?.1),
    }
}

/// Style and field order. A value may omit one of them (`check_datestyle`).
fn date_style(now: &str, value: &str) -> Option<String> {
    let (mut style, mut order) = now.split_once(", ")?;
    for word in value.split(',').map(str::trim) {
        match word.to_ascii_lowercase().as_str() {
            "iso" => style = "ISO",
            "sql" => style = "SQL",
            "postgres" => style = "Postgres",
            "german" => {
                style = "German";
                if !value.contains(',') {
                    order = "DMY";
                }
            }
            "dmy" | "european" => order = "DMY",
            "mdy" | "us" => order = "MDY",
            "ymd" => order = "YMD",
            _ => return None,
        }
    }
    Some(format!("{style}, {order}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_spelled_as_postgresql_spells_them() {
        let mut settings = Settings::new(Version::V15);
        for (name, value, becomes) in [
            ("work_mem", "8192", "8MB"),
            ("work_mem", "100kB", "100kB"),
            ("statement_timeout", "60000", "1min"),
            ("datestyle", "sql,dmy", "SQL, DMY"),
            ("datestyle", "ymd", "SQL, YMD"),
            ("client_encoding", "utf-8", "UTF8"),
        ] {
            assert_eq!(settings.set(name, Some(value), false).unwrap(), becomes);
        }
        assert_eq!(
            settings
                .set("extra_float_digits", Some("9"), false)
                .unwrap_err()
                .sqlstate,
            "22023"
        );
        assert_eq!(settings.set("nosuch", Some("9"), false).unwrap_err().sqlstate, "42704");
    }

    #[test]
    fn what_the_session_has_made_is_told_in_the_settings_own_unit() {
        let mut settings = Settings::new(Version::V15);
        assert_eq!(settings.made(), []);
        settings.set("work_mem", Some("8MB"), false).unwrap();
        settings.set("TimeZone", Some("UTC"), false).unwrap();
        settings.set("DateStyle", Some("ISO, YMD"), true).unwrap();
        settings.set("lock_timeout", Some("2s"), false).unwrap();
        settings.set("lock_timeout", None, false).unwrap();
        settings.commit();
        let pair = |name: &str, value: &str| (name.to_string(), value.to_string());
        assert_eq!(settings.made(), [pair("TimeZone", "UTC"), pair("work_mem", "8192")]);
        settings.reset_all();
        assert_eq!(settings.made(), []);
    }

    #[test]
    fn a_reserved_prefix_removes_settings_for_good() {
        let mut settings = Settings::new(Version::V15);
        settings.set("plpgsql.no_such", Some("1"), false).unwrap();
        let before = settings.snapshot();
        let removed = settings.reserve_prefix();
        assert_eq!(removed.iter().map(|n| &**n).collect::<Vec<_>>(), ["plpgsql.no_such"]);
        settings.restore(&before);
        let code = |outcome: Result<String, ServerError>| outcome.unwrap_err().sqlstate;
        assert_eq!(code(settings.get("plpgsql.no_such")), "42704");
        assert_eq!(code(settings.set("PLpgSQL.no_such", Some("1"), false)), "42602");
        assert_eq!(code(settings.set("plpgsql.no_such", None, false)), "42602");
        assert!(settings.reserve_prefix().is_empty());
    }

    #[test]
    fn a_custom_name_leaves_a_residue() {
        let mut settings = Settings::new(Version::V15);
        assert!(settings.get("app.x").is_err());
        let before = settings.snapshot();
        settings.set("app.x", Some("1"), false).unwrap();
        settings.restore(&before);
        assert_eq!(settings.get("app.x").unwrap(), "");
    }
}
