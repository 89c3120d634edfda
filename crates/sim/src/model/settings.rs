//! Settings (GUCs) of a session.

use super::error::ServerError;
use super::session::Version;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// How a setting's values are checked and spelled.
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
    Int { min: i64, max: i64 },
    Kilobytes,
    Milliseconds,
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
const DEFINITIONS: [Definition; 22] = [
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
    // Only PostgreSQL 17 and later have it, and only they are asked for it.
    definition("transaction_timeout", Kind::Milliseconds, "0", 0),
    definition("work_mem", Kind::Kilobytes, "4MB", 0),
];

const TIMEZONE: Definition = definition("TimeZone", Kind::TimeZone, "UTC", 1);

fn definitions() -> impl Iterator<Item = &'static Definition> {
    // TimeZone sorts between statement_timeout and work_mem; it is apart only because no test may depend on its place.
    let place = DEFINITIONS.len() - 2;
    DEFINITIONS[..place]
        .iter()
        .chain(std::iter::once(&TIMEZONE))
        .chain(&DEFINITIONS[place..])
}

fn find(name: &str) -> Option<&'static Definition> {
    definitions().find(|d| d.name.eq_ignore_ascii_case(name))
}

/// Time zones the model takes: any that every installation has.
const TIME_ZONES: [&str; 6] = [
    "UTC",
    "GMT",
    "Asia/Tokyo",
    "Europe/Paris",
    "America/New_York",
    "Etc/UTC",
];

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Pair {
    /// What holds after commit.
    session: String,
    /// What holds now: differs from `session` after SET LOCAL.
    current: String,
    /// Whether the session made it (`pg_settings.source` is `session`), after commit and now.
    session_made: bool,
    current_made: bool,
}

/// Values at one moment, cheap to keep for a rollback.
#[derive(Debug, Clone, Default)]
pub(super) struct Snapshot(Rc<BTreeMap<String, Pair>>);

/// All settings of one session.
#[derive(Debug)]
pub(super) struct Settings {
    version: Version,
    /// By canonical name; custom ones too.
    values: Snapshot,
    resets: BTreeMap<String, String>,
    /// Custom names ever set here: they outlive rollbacks and DISCARD ALL with the value '' (F2, F2b).
    placeholders: BTreeSet<String>,
    /// Last value the client was told, by canonical name.
    told: BTreeMap<String, String>,
}

impl Settings {
    pub(super) fn new(version: Version) -> Self {
        let mut values = BTreeMap::new();
        for d in definitions() {
            let value = match d.name {
                "server_version" => version.text().to_string(),
                _ => d.default.to_string(),
            };
            values.insert(d.name.to_string(), value);
        }
        let mut settings = Settings {
            version,
            values: Snapshot::default(),
            resets: values,
            placeholders: BTreeSet::new(),
            told: BTreeMap::new(),
        };
        settings.reset_all();
        settings
    }

    /// A value of the startup packet: what RESET returns to.
    pub(super) fn set_at_startup(&mut self, name: &str, value: &str) -> Result<(), ServerError> {
        let canonical = self.name(name).or_else(|e| self.placeholder(name).ok_or(e))?;
        let value = self.checked(&canonical, value)?;
        self.resets.insert(canonical, value);
        self.reset_all();
        Ok(())
    }

    /// Which user the session is.
    pub(super) fn set_user(&mut self, user: &str) {
        self.resets.insert("session_authorization".into(), user.into());
        self.reset_all();
    }

    fn placeholder(&mut self, name: &str) -> Option<String> {
        if !name.contains('.') {
            return None;
        }
        let name = name.to_ascii_lowercase();
        self.placeholders.insert(name.clone());
        Some(name)
    }

    /// The canonical spelling of a name that exists.
    pub(super) fn name(&self, name: &str) -> Result<String, ServerError> {
        if let Some(d) = find(name) {
            return Ok(d.name.into());
        }
        let lower = name.to_ascii_lowercase();
        if self.placeholders.contains(&lower) {
            return Ok(lower);
        }
        Err(ServerError::error(
            "42704",
            format!("unrecognized configuration parameter \"{name}\""),
        ))
    }

    pub(super) fn get(&self, name: &str) -> Result<String, ServerError> {
        let canonical = self.name(name)?;
        Ok(self
            .values
            .0
            .get(&canonical)
            .map(|p| p.current.clone())
            .unwrap_or_default())
    }

    /// SET, or set_config(); `None` is the value that RESET returns to. Returns the new value.
    pub(super) fn set(&mut self, name: &str, value: Option<&str>, local: bool) -> Result<String, ServerError> {
        let canonical = match self.name(name) {
            Ok(canonical) => canonical,
            Err(e) => self.placeholder(name).ok_or(e)?,
        };
        if let Some(Kind::Internal) = find(&canonical).map(|d| d.kind) {
            return Err(ServerError::unmodelled(format!("SET {name}")));
        }
        let made = value.is_some();
        let value = match value {
            Some(value) => self.checked(&canonical, value)?,
            None => self.resets.get(&canonical).cloned().unwrap_or_default(),
        };
        let pair = Rc::make_mut(&mut self.values.0).entry(canonical).or_default();
        pair.current.clone_from(&value);
        pair.current_made = made;
        if !local {
            pair.session.clone_from(&value);
            pair.session_made = made;
        }
        Ok(value)
    }

    /// Name and value, in the setting's own unit, of what the session has made: the rows of `pg_settings` whose source is
    /// `session`. Custom settings are not among them.
    pub(super) fn made(&self) -> Vec<(String, String)> {
        let made = |d: &&Definition| self.values.0.get(d.name).is_some_and(|p| p.current_made);
        let in_units = |d: &Definition| {
            let value = &self.values.0[d.name].current;
            let number = match d.kind {
                Kind::Kilobytes => units(value, &KILOBYTES),
                Kind::Milliseconds => units(value, &MILLISECONDS),
                _ => None,
            };
            (d.name.into(), number.map_or_else(|| value.clone(), |n| n.to_string()))
        };
        definitions().filter(made).map(in_units).collect()
    }

    pub(super) fn reset_all(&mut self) {
        let fresh = self.resets.iter().map(|(name, value)| {
            let pair = Pair {
                session: value.clone(),
                current: value.clone(),
                ..Pair::default()
            };
            (name.clone(), pair)
        });
        self.values = Snapshot(Rc::new(fresh.collect()));
    }

    pub(super) fn snapshot(&self) -> Snapshot {
        self.values.clone()
    }

    pub(super) fn restore(&mut self, snapshot: &Snapshot) {
        self.values = snapshot.clone();
    }

    /// The transaction committed: what was LOCAL ends.
    pub(super) fn commit(&mut self) {
        let differs = |p: &Pair| p.current != p.session || p.current_made != p.session_made;
        if self.values.0.values().any(differs) {
            for pair in Rc::make_mut(&mut self.values.0).values_mut() {
                pair.current.clone_from(&pair.session);
                pair.current_made = pair.session_made;
            }
        }
    }

    /// Reported settings whose value is not what the client was last told, in no promised order.
    pub(super) fn changes_to_tell(&mut self) -> Vec<(String, String)> {
        let mut changes = Vec::new();
        for d in definitions().filter(|d| d.reported_since > 0 && d.reported_since <= self.version.major()) {
            let value = &self.values.0[d.name].current;
            if self.told.get(d.name) != Some(value) {
                self.told.insert(d.name.into(), value.clone());
                changes.push((d.name.into(), value.clone()));
            }
        }
        changes
    }

    fn checked(&self, canonical: &str, value: &str) -> Result<String, ServerError> {
        let Some(d) = find(canonical) else {
            return Ok(value.into());
        };
        let invalid = || {
            ServerError::error(
                "22023",
                format!("invalid value for parameter \"{}\": \"{value}\"", d.name),
            )
        };
        Ok(match d.kind {
            Kind::Internal | Kind::Text | Kind::SearchPath => value.into(),
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
            Kind::DateStyle => date_style(&self.values.0["DateStyle"].current, value).ok_or_else(invalid)?,
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

/// Style and field order, either of which may be left as it was (`check_datestyle`).
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
    fn a_custom_name_leaves_a_residue() {
        let mut settings = Settings::new(Version::V15);
        assert!(settings.get("app.x").is_err());
        let before = settings.snapshot();
        settings.set("app.x", Some("1"), false).unwrap();
        settings.restore(&before);
        assert_eq!(settings.get("app.x").unwrap(), "");
    }
}
