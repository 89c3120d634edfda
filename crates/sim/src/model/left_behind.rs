//! What a session keeps whatever is reset, and no view shows: the seed of random(), and the plan of a function.
//!
//! A client seeds with the number of its session: `set seed = '0.000012'`. A call of `folded('tok12x3')` is one of session
//! 12, and returns its argument. Its plan has constants that were read under the settings of the first call, and finds
//! the temporary tables that were there then.

use super::objects::Temporary;
use super::settings::Settings;
use std::collections::BTreeSet;

/// The settings under which the function's constants are read.
const READ_UNDER: [&str; 3] = ["TimeZone", "DateStyle", "IntervalStyle"];

/// See the module.
#[derive(Debug, Default)]
pub(super) struct LeftBehind {
    /// The session that has seeded random().
    seeded_by: Option<u64>,
    plan: Option<Plan>,
    /// What a client has got that another client has decided.
    foreign: Option<String>,
}

#[derive(Debug)]
struct Plan {
    made_by: u64,
    under: Vec<String>,
    finds: Found,
}

/// What the names in a plan can mean.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Found {
    /// The temporary tables.
    tables: BTreeSet<String>,
    /// The search_path contains a schema for temporary objects.
    in_schema: bool,
}

impl Found {
    pub(super) fn new(tables: &Temporary, in_schema: bool) -> Found {
        Found {
            tables: tables.keys().cloned().collect(),
            in_schema,
        }
    }

    /// PostgreSQL plans again if the search_path has changed, or a table of the plan is gone.
    fn plans_again(&self, now: &Found) -> bool {
        self.in_schema != now.in_schema || !self.tables.is_subset(&now.tables)
    }
}

impl LeftBehind {
    /// Sets `seed`, if that is the name of the setting.
    pub(super) fn set(&mut self, name: &str, value: Option<&str>) -> bool {
        let seeds = name.eq_ignore_ascii_case("seed");
        if let Some(digits) = value.and_then(|v| v.strip_prefix("0.")).filter(|_| seeds) {
            self.seeded_by = digits.parse().ok();
        }
        seeds
    }

    /// Somebody draws from random() for the session in whose statement this text is.
    pub(super) fn draw(&mut self, text: &str) {
        if let (Some(by), Some(own)) = (self.seeded_by, session_of(text))
            && by != own
        {
            self.foreign = Some(format!("{text} drew from random() as session {by} had seeded it"));
        }
    }

    /// Calls the function.
    pub(super) fn fold(&mut self, text: &str, settings: &Settings, finds: Found) {
        let Some(own) = session_of(text) else { return };
        let under: Vec<String> = READ_UNDER.iter().filter_map(|name| settings.get(name).ok()).collect();
        if self.plan.as_ref().is_some_and(|plan| plan.finds.plans_again(&finds)) {
            self.plan = None;
        }
        let plan = self.plan.get_or_insert_with(|| Plan {
            made_by: own,
            under: under.clone(),
            finds: finds.clone(),
        });
        if plan.made_by != own && plan.under != under {
            self.foreign = Some(format!(
                "{text} got constants that session {} had read under {:?}, under {under:?}",
                plan.made_by, plan.under
            ));
        }
        if plan.made_by != own && plan.finds != finds {
            self.foreign = Some(format!(
                "{text} used a plan of session {} that finds {:?}, beside {finds:?}",
                plan.made_by, plan.finds
            ));
        }
    }

    /// DISCARD PLANS.
    pub(super) fn forget_plans(&mut self) {
        self.plan = None;
    }

    /// random() has got a seed that no client knows.
    pub(super) fn seed_anew(&mut self) {
        self.seeded_by = None;
    }

    pub(super) fn take_foreign(&mut self) -> Option<String> {
        self.foreign.take()
    }
}

/// The number of the session whose token this text begins with.
fn session_of(text: &str) -> Option<u64> {
    text.strip_prefix("tok")?.split('x').next()?.parse().ok()
}
