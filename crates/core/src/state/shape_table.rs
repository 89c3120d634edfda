//! All shapes in use. Equal settings are one shape.

use crate::state::shape::{Setting, Shape, WHO};
use crate::statements::parse_settings::ParseSettings;
use foldhash::fast::RandomState;
use std::hash::Hash;
use std::sync::Arc;

/// Settings that change how the text of a statement is parsed, or what constants are made of it when it is planned
/// (tests/e2e/test_attack_plans.py). Beside them [`WHO`]: PostgreSQL checks the right to use a schema when it analyses a
/// statement, and the right to run a function that it inlines or computes when it plans, and never again.
const CHANGE_PARSING: [&str; 17] = [
    "array_nulls",
    "backslash_quote",
    "bytea_output",
    "client_encoding",
    "DateStyle",
    "extra_float_digits",
    "IntervalStyle",
    "lc_monetary",
    "quote_all_identifiers",
    "restrict_nonsystem_relation_kind",
    "search_path",
    "standard_conforming_strings",
    "TimeZone",
    "timezone_abbreviations",
    "transform_null_equals",
    "xmlbinary",
    "xmloption",
];

#[derive(Debug, Clone, pgweir_freeze::Freeze)]
struct ByContent(Arc<Shape>);

impl Hash for ByContent {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.0.settings().hash(state);
    }
}

impl PartialEq for ByContent {
    fn eq(&self, other: &Self) -> bool {
        self.0.settings() == other.0.settings()
    }
}

impl Eq for ByContent {}

impl hashbrown::Equivalent<ByContent> for Vec<Setting> {
    fn equivalent(&self, key: &ByContent) -> bool {
        **self == *key.0.settings()
    }
}

#[derive(Debug, pgweir_freeze::Freeze)]
pub(crate) struct ShapeTable {
    shapes: hashbrown::HashSet<ByContent, RandomState>,
    /// The settings among them that change parsing, each combination once.
    parses: hashbrown::HashSet<ParseSettings, RandomState>,
    sweep_at: usize,
    empty: Arc<Shape>,
    /// See [`crate::base::weakness::Weakness::SharesAcrossRoles`].
    #[cfg(feature = "weaknesses")]
    shares_across_roles: bool,
}

/// The table is not swept below this many shapes.
const SWEEP_SHAPES_MIN: usize = 64;

impl ShapeTable {
    pub(crate) fn new() -> Self {
        let empty = Arc::new(Shape::new(Vec::new(), ParseSettings::default()));
        let mut shapes = hashbrown::HashSet::default();
        shapes.insert(ByContent(empty.clone()));
        ShapeTable {
            shapes,
            parses: hashbrown::HashSet::default(),
            sweep_at: SWEEP_SHAPES_MIN,
            empty,
            #[cfg(feature = "weaknesses")]
            shares_across_roles: false,
        }
    }

    #[cfg(feature = "weaknesses")]
    pub(crate) fn share_across_roles(&mut self) {
        self.shares_across_roles = true;
    }

    /// Those of [`WHO`] that matter beside these settings.
    fn who_matters(&self, _settings: &[Setting]) -> &'static [&'static str] {
        #[cfg(feature = "weaknesses")]
        if self.shares_across_roles {
            let path = _settings.iter().find(|s| s.name.eq_ignore_ascii_case("search_path"));
            let follows_role = path.is_none_or(|s| pgweir_sql::may_name_schema(&s.value, "$user"));
            return if follows_role { &WHO } else { &[] };
        }
        &WHO
    }

    /// The shape without settings.
    pub(crate) fn empty(&self) -> Arc<Shape> {
        self.empty.clone()
    }

    /// `base` after these changes: name, new value or `None` to remove it, whether the server reports it.
    pub(crate) fn change<'c>(
        &mut self,
        base: &Arc<Shape>,
        changes: impl IntoIterator<Item = (&'c str, Option<&'c str>, bool)>,
    ) -> Arc<Shape> {
        self.intern(base.changed(changes), base.parse_settings())
    }

    /// `likely` is used if it equals the shape's settings that change parsing, which most changes do not concern.
    fn intern(&mut self, settings: Vec<Setting>, likely: &ParseSettings) -> Arc<Shape> {
        if let Some(known) = self.shapes.get(&settings) {
            return known.0.clone();
        }
        if self.shapes.len() >= self.sweep_at {
            self.shapes.retain(|s| Arc::strong_count(&s.0) > 1);
            self.sweep_at = (self.shapes.len() * 2).max(SWEEP_SHAPES_MIN);
            self.shapes.shrink_to(self.sweep_at);
            self.parses.retain(ParseSettings::is_used);
            self.parses.shrink_to(self.sweep_at);
        }
        let who = self.who_matters(&settings);
        let changes_parsing = |s: &&Setting| {
            CHANGE_PARSING
                .iter()
                .chain(who)
                .any(|n| n.eq_ignore_ascii_case(&s.name))
        };
        let parse: Arc<[_]> = settings
            .iter()
            .filter(changes_parsing)
            .map(|s| (s.name.clone(), s.value.clone()))
            .collect();
        let parse = if *parse == *likely.all() {
            likely.clone()
        } else {
            self.parses.get_or_insert(ParseSettings::of(parse)).clone()
        };
        let shape = Arc::new(Shape::new(settings, parse));
        self.shapes.insert(ByContent(shape.clone()));
        shape
    }

    /// With the shape of a server that reports three settings.
    #[cfg(test)]
    pub(super) fn with_base() -> (Self, Arc<Shape>) {
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

    pub(crate) fn len(&self) -> usize {
        self.shapes.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_settings_are_one_shape_whatever_the_way_there() {
        let (mut table, base) = ShapeTable::with_base();
        let a = table.change(&base, [("datestyle", Some("SQL, DMY"), false)]);
        let b = table.change(&a, [("DateStyle", Some("ISO, MDY"), true)]);
        assert!(Shape::same(&base, &b) && !Shape::same(&base, &a));
        assert_eq!(&*a.get("dAtEsTyLe").unwrap().name, "DateStyle");
    }

    #[test]
    fn a_role_matters_as_rights_are_checked_when_a_statement_is_prepared() {
        let (mut table, base) = ShapeTable::with_base();
        let bob = table.change(&base, [("role", Some("bob"), false)]);
        assert_ne!(bob.parse_settings(), base.parse_settings());
        assert!(!bob.parse_settings().reads_alike(base.parse_settings()));
        assert!(bob.parse_settings().pairs().all(|(name, _)| &**name != "role"));
        let fixed = table.change(&base, [("search_path", Some("a"), false)]);
        let fixed_bob = table.change(&fixed, [("role", Some("bob"), false)]);
        assert_ne!(fixed_bob.parse_settings(), fixed.parse_settings());
        assert!(fixed.parse_settings().reads_alike(base.parse_settings()));
        let eve = table.change(&base, [("session_authorization", Some("eve"), true)]);
        assert!(!eve.parse_settings().reads_alike(base.parse_settings()));
        let other_day = table.change(&base, [("DateStyle", Some("SQL, DMY"), true)]);
        assert!(!other_day.parse_settings().reads_alike(base.parse_settings()));
        // Shapes with equal parse settings share one object, however they were made.
        let named = table.change(&base, [("application_name", Some("x"), true)]);
        let again = table.change(&named, [("DateStyle", Some("SQL, DMY"), true)]);
        assert!(!Shape::same(&again, &other_day) && again.parse_settings().is_surely(other_day.parse_settings()));
    }

    /// Recorded from PostgreSQL 15: it folds names without quotes when it splits search_path.
    #[test]
    fn the_schema_names_of_a_path_are_folded() {
        let (mut table, base) = ShapeTable::with_base();
        for path in [
            "pg_temp",
            "PG_TEMP,public",
            "public, Pg_Temp ",
            "\"pg_temp\"",
            "public,PG_TEMP_3",
        ] {
            let shape = table.change(&base, [("search_path", Some(path), false)]);
            assert!(shape.creates_temporary() && !shape.is_usual(), "{path}");
        }
        for path in ["public", "pg_tem,p", "\"pg_\"\"temp\""] {
            let shape = table.change(&base, [("search_path", Some(path), false)]);
            assert!(!shape.creates_temporary(), "{path}");
        }
        for path in ["$user", "$USER, public", "\"$user\""] {
            let fixed = table.change(&base, [("search_path", Some(path), false)]);
            let bob = table.change(&fixed, [("role", Some("bob"), false)]);
            assert_ne!(bob.parse_settings(), fixed.parse_settings(), "{path}");
        }
    }

    #[test]
    fn parsing_differs_only_with_settings_that_change_it() {
        let (mut table, base) = ShapeTable::with_base();
        let named = table.change(&base, [("application_name", Some("x"), true)]);
        let dated = table.change(&base, [("DateStyle", Some("SQL, DMY"), true)]);
        assert_eq!(base.parse_settings(), named.parse_settings());
        assert_ne!(base.parse_settings(), dated.parse_settings());
    }

    #[test]
    fn a_flood_of_shapes_does_not_grow_the_table() {
        let (mut table, base) = ShapeTable::with_base();
        for n in 0..5_000 {
            table.change(&base, [("application_name", Some(&*format!("app {n}")), true)]);
        }
        assert!(table.len() <= SWEEP_SHAPES_MIN);
    }
}
