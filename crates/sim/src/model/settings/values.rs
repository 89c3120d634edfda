//! The values of all settings.

use super::definitions::{DEFINITIONS, Definition, Kind};
use crate::model::version::Version;
use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::rc::Rc;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Pair {
    /// The value after commit.
    pub(super) session: Rc<str>,
    /// The present value: differs from `session` after SET LOCAL.
    pub(super) current: Rc<str>,
    /// Whether the session has set it (`pg_settings.source` is `session`), after commit and at present.
    pub(super) session_made: bool,
    pub(super) current_made: bool,
}

impl Pair {
    /// A value that the session has not set.
    pub(super) fn given(value: Rc<str>) -> Pair {
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
pub(super) struct Values {
    /// In the order of [`DEFINITIONS`].
    pub(super) known: Vec<Pair>,
    /// Custom ones, by name.
    pub(super) custom: BTreeMap<Rc<str>, Pair>,
}

impl Values {
    pub(super) fn defaults(version: Version) -> Rc<Values> {
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

    pub(super) fn pair(&self, place: &Place) -> Option<&Pair> {
        match place {
            Place::Known(index) => Some(&self.known[*index]),
            Place::Custom(name) => self.custom.get(name),
        }
    }

    pub(super) fn pair_mut(&mut self, place: Place) -> &mut Pair {
        match place {
            Place::Known(index) => &mut self.known[index],
            Place::Custom(name) => self.custom.entry(name).or_insert_with(|| Pair::given("".into())),
        }
    }

    pub(super) fn all_mut(&mut self) -> impl Iterator<Item = &mut Pair> {
        self.known.iter_mut().chain(self.custom.values_mut())
    }
}

/// The place of a setting's value.
#[derive(Debug, Clone)]
pub(super) enum Place {
    Known(usize),
    Custom(Rc<str>),
}

/// The values of all settings at one moment. A copy is cheap.
#[derive(Debug, Clone)]
pub struct Snapshot(pub(super) Rc<Values>);

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
pub(super) const RESERVED_PREFIX: &str = "plpgsql.";

/// The same values, without those under the reserved prefix.
pub(super) fn without_reserved(values: &Rc<Values>) -> Rc<Values> {
    let mut values = values.clone();
    let is_reserved = |name: &Rc<str>| name.starts_with(RESERVED_PREFIX);
    if values.custom.keys().any(is_reserved) {
        Rc::make_mut(&mut values).custom.retain(|name, _| !is_reserved(name));
    }
    values
}

/// The prefix of internal custom settings, which keep a value for the length of a transaction.
const OF_THE_POOLER: &str = "pgweir";
