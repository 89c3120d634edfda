//! Settings (GUCs) of a session.

mod definitions;
mod spelling;
mod values;

use super::error::ServerError;
use super::version::Version;
use definitions::{DEFINITIONS, Definition, IDLE_LIMIT, Kind, find};
use spelling::{KILOBYTES, MILLISECONDS, checked, units};
use std::collections::BTreeSet;
use std::rc::Rc;
pub use values::Snapshot;
use values::{Pair, Place, RESERVED_PREFIX, Values, without_reserved};

pub(super) const INVALID_NAME: &str = "invalid configuration parameter name";

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
        self.begins_with("session_authorization", user);
    }

    /// The value of a setting that only the server sets.
    fn begins_with(&mut self, name: &str, value: &str) {
        let index = find(name).expect("it is among them");
        Rc::make_mut(&mut self.resets).known[index] = Pair::given(value.into());
        self.reset_all();
    }

    /// The server is a standby.
    pub(super) fn is_on_standby(&mut self) {
        self.begins_with("in_hot_standby", "on");
    }

    /// The user is no superuser.
    pub(super) fn is_of_common_user(&mut self) {
        self.begins_with("is_superuser", "off");
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

    /// idle_session_timeout, milliseconds; `None` is none.
    pub(super) fn idle_limit_ms(&self) -> Option<u64> {
        let value = &*self.values.0.known[IDLE_LIMIT].current;
        units(value, &MILLISECONDS).filter(|_| value != "0")
    }

    /// The application's name.
    pub(super) fn application_name(&self) -> &str {
        &self.values.0.known[0].current
    }

    /// Whether client_encoding is LATIN1.
    pub(super) fn is_latin1(&self) -> bool {
        &*self.values.0.known[1].current == "LATIN1"
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

    /// Whether the session has set this one.
    pub(super) fn is_made(&self, name: &str) -> bool {
        let place = self.place(name).ok();
        place
            .and_then(|place| self.values.0.pair(&place))
            .is_some_and(|pair| pair.current_made)
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
        match *place {
            Place::Known(index) => checked(&DEFINITIONS[index], &self.values.0.known[index].current, value),
            Place::Custom(_) => Ok(value.into()),
        }
    }
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
