//! Rows of a catalog about its objects: what is known of each, and which object runs which.

use crate::catalog::code::{Draft, RUNS_MAX};
use crate::catalog::runs::{Kind, Run, words_of};
use pgweir_sql::Effects;

/// Added to what is known of a routine that is declared immutable.
const IMMUTABLE: u32 = 8;

/// What a text with `set_config` may do where a type has the name `text`: a cast of the setting's name may cut it.
const CHANGED_NAMES: Effects = Effects::SETTINGS.union(Effects::READING).union(Effects::UNTOLD);

impl Draft {
    /// Adds a row about an object; `false` if it is malformed.
    pub(super) fn add_object(&mut self, kind: u8, oid: u32, name: &[u8], of: u32) -> bool {
        if self.runs.len() >= RUNS_MAX || self.nodes.len() >= RUNS_MAX {
            self.too_much = true;
            return true;
        }
        self.add_fact(kind, oid, name, of) || self.add_run(kind, oid, name, of)
    }

    /// Adds a row about a single object or about the whole database; `false`: it is another row.
    fn add_fact(&mut self, kind: u8, oid: u32, name: &[u8], of: u32) -> bool {
        match kind {
            b'r' => self.add_routine(oid, name, of),
            b'y' => self.add_effects(oid, b"", pgweir_sql::effects_of_name(name)),
            b'b' => self.add_effects(oid, b"", pgweir_sql::effects_of_own(name)),
            b'x' => {
                let effects = pgweir_sql::effects_of_own(name);
                if effects.intersects(Effects::CODE) {
                    self.add_effects(oid, name, effects);
                }
            }
            b's' => self.add_effects(oid, b"", effects_of_setting(name)),
            b'p' => {
                let node = self.statements(Kind::Creation) as usize;
                self.nodes[node].read |= Effects::TEMPORARY;
            }
            b'a' => self.add_effects(0, b"set_config", CHANGED_NAMES),
            b'l' => self.folds_to_ascii = true,
            b'i' => self.identity = Some([name, b"/", oid.to_string().as_bytes()].concat().into()),
            _ => return false,
        }
        true
    }

    /// Adds a routine; `of` says what is known of it.
    fn add_routine(&mut self, oid: u32, name: &[u8], of: u32) {
        self.routines.insert(name.into());
        let node = self.node(Kind::Routine, oid, name) as usize;
        let known = of & !IMMUTABLE;
        // A function in C of an extension may run SQL, and keep the plans of it.
        let unread = matches!(known, 2 | 3);
        self.reads_constants |= unread;
        self.keeps_plans |= matches!(known, 1..=3);
        let node = &mut self.nodes[node];
        node.in_c = matches!(known, 1 | 3);
        node.immutable = of & IMMUTABLE != 0;
        node.reads_session = unread;
        node.read |= match known {
            1 => Effects::NATIVE,
            2 | 3 => pgweir_sql::UNREAD,
            4 => pgweir_sql::effects_of_name(name),
            _ => Effects::NONE,
        };
    }

    /// A routine has these effects.
    fn add_effects(&mut self, oid: u32, name: &[u8], effects: Effects) {
        let node = self.node(Kind::Routine, oid, name) as usize;
        self.nodes[node].read |= effects;
    }

    /// Adds a row about an object, or a kind of statements, that runs another object; `false` if there is no such row.
    fn add_run(&mut self, kind: u8, oid: u32, name: &[u8], of: u32) -> bool {
        let (who, what, on_write) = match kind {
            b'f' => (self.node(Kind::Routine, oid, b""), Kind::Routine, false),
            b't' => (self.node(Kind::Relation, oid, name), Kind::Routine, true),
            b'v' => (self.node(Kind::Relation, oid, name), Kind::Routine, false),
            b'u' => (self.node(Kind::Relation, oid, name), Kind::Relation, false),
            b'c' => (self.node(Kind::Relation, oid, name), Kind::Type, false),
            b'g' => (self.node(Kind::Routine, oid, b""), Kind::Type, false),
            b'k' => (self.node(Kind::Type, oid, name), Kind::Type, false),
            b'o' => (self.node(Kind::Relation, oid, name), Kind::Relation, true),
            b'w' => (self.statements(Kind::Truncation), Kind::Routine, false),
            b'm' => (self.statements(Kind::Maintenance), Kind::Relation, false),
            b'd' => (self.node(Kind::Type, oid, name), Kind::Routine, false),
            b'n' => (self.node(Kind::Nameless, 0, b""), Kind::Routine, false),
            b'q' => (self.node(Kind::OthersOperator, 0, b""), Kind::Routine, false),
            b'e' => (self.statements(Kind::Definition), Kind::Routine, false),
            _ => return false,
        };
        let what = self.node(what, of, b"");
        self.runs.push(Run { who, what, on_write });
        true
    }

    /// The place that stands for all statements of a kind.
    fn statements(&mut self, kind: Kind) -> u32 {
        let known = self.by_oid.contains_key(&(kind, 0));
        let place = self.node(kind, 0, b"");
        for verb in words_of(kind).iter().filter(|_| !known) {
            self.runs_by_word(verb.as_bytes().into(), place);
        }
        place
    }
}

/// What a routine may do because it runs under a setting of its definition (ALTER FUNCTION .. SET). With `pg_temp` in
/// search_path, CREATE TABLE makes a temporary table. Under another role or in another encoding, its text may mean
/// something else. What it calls keeps plans with constants that were read under its settings.
fn effects_of_setting(name: &[u8]) -> Effects {
    match name {
        b"search_path" => Effects::TEMPORARY,
        b"role" | b"session_authorization" => Effects::CODE.union(Effects::SETTINGS),
        pgweir_sql::SEED => Effects::SEED,
        _ if pgweir_sql::is_read_under(name) => Effects::READING,
        _ => pgweir_sql::UNREAD,
    }
}
