//! What the functions of a database do to sessions, and which tables and views run them: derived from its catalog.
//!
//! A [`Draft`] collects the rows of [`crate::statements::catalog_query`]: functions with their source
//! ([`crate::catalog::sources`]), and which object runs which ([`crate::catalog::objects`]). An object has the effects
//! of everything that it runs. The result is a [`Catalog`]: the names with effects. No source is kept.

use crate::catalog::runs::{self, Kind, Node, Run, words_of};
use foldhash::fast::RandomState;
use pgweir_sql::{Effects, KnownNames, Needs};
use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap, HashSet};

/// The most objects, and the most pairs of objects of which one runs the other. In a larger database every statement
/// counts as code that is not read.
pub(crate) const RUNS_MAX: usize = 500_000;

/// The most bytes of source. In a database with more, every statement counts as code that is not read.
pub(crate) const SOURCE_BYTES_MAX: usize = 128 * 1024 * 1024;

/// A probe asks for at most this many settings that functions set and `pg_settings` does not show: half of those that it
/// asks for, so that names in a client's own texts find room. Who calls a function that sets more keeps its server.
pub(super) const SETTINGS_MAX: usize = crate::state::suspicion::HIDDEN_SETTINGS_MAX / 2;

/// What a statement may do because of the names that it mentions.
#[derive(Debug, Default, pgweir_freeze::Freeze)]
pub(crate) struct Catalog {
    pub(super) names: KnownNames,
    /// Effects of making a value of a type, by the type's OID: a Parse may name the types of its parameters.
    pub(super) types: HashMap<u32, Effects, RandomState>,
    /// Whether the analysis of some statement may have effects: to read a constant of a type that contains a domain
    /// runs the domain's checks.
    pub(super) analysis_runs: bool,
    /// Settings that functions set and `pg_settings` does not show.
    pub(super) hidden: Vec<Box<str>>,
    /// Names of all routines. A routine that a text calls and that is not among them was created after the reading.
    routines: HashSet<Box<[u8]>, RandomState>,
    /// A reading has shown that no routine keeps plans whose constants depend on settings.
    pub(super) reads_no_constants: bool,
    /// A reading has shown that no routine keeps plans.
    pub(super) keeps_no_plans: bool,
    /// Identifies this database, whatever address leads to it.
    pub(super) identity: Option<Box<[u8]>>,
}

impl Catalog {
    /// Identifies this database, whatever address leads to it.
    pub(crate) fn identity(&self) -> Option<&[u8]> {
        self.identity.as_deref()
    }

    /// The number of names that matter.
    pub(crate) fn names(&self) -> usize {
        self.names.len()
    }

    /// Identifies the cluster of this database, with its standbys.
    pub(crate) fn cluster(&self) -> Option<&[u8]> {
        self.identity.as_deref()?.split(|b| *b == b'/').next()
    }

    /// Whether the catalog contains all these routines.
    pub(crate) fn knows_all(&self, names: &BTreeSet<Box<[u8]>>) -> bool {
        names.iter().all(|name| self.routines.contains(name))
    }
}

/// What has been read of a catalog.
#[derive(Debug, Default, pgweir_freeze::Freeze)]
pub(crate) struct Draft {
    pub(super) nodes: Vec<Node>,
    pub(super) by_oid: HashMap<(Kind, u32), u32, RandomState>,
    /// Places of words in `nodes`. The empty word stands for all names without an ASCII word.
    pub(super) by_word: HashMap<Box<[u8]>, u32, RandomState>,
    /// Places of key words in `nodes`, for objects whose names contain them.
    pub(super) by_key_word: HashMap<(Box<[u8]>, Needs), u32, RandomState>,
    pub(super) runs: Vec<Run>,
    pub(super) hidden: Vec<Box<str>>,
    pub(super) routines: HashSet<Box<[u8]>, RandomState>,
    /// Some routine keeps plans whose constants may depend on settings.
    pub(super) reads_constants: bool,
    /// Some routine keeps plans.
    pub(super) keeps_plans: bool,
    /// See [`KnownNames::fold_to_ascii`].
    pub(super) folds_to_ascii: bool,
    pub(super) identity: Option<Box<[u8]>>,
    pub(super) source_bytes: usize,
    /// The database is larger than the limits: every statement counts as code that is not read.
    pub(super) too_much: bool,
}

/// What the rows say that answer a request of a catalog reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CatalogRows {
    /// An object of the catalog.
    Object,
    /// The source of a routine.
    Source,
}

impl Draft {
    /// Adds a row of one of the two statements of [`crate::statements::catalog_query`]; `false` if it is not valid.
    pub(crate) fn add_row(&mut self, rows: CatalogRows, row: &[Option<&[u8]>]) -> bool {
        match (rows, row) {
            (CatalogRows::Object, &[Some([kind]), Some(oid), name, Some(of)]) => match (oid_of(oid), oid_of(of)) {
                (Some(oid), Some(of)) => self.add_object(*kind, oid, &unescaped(name.unwrap_or_default()), of),
                _ => false,
            },
            (CatalogRows::Source, &[Some(oid), Some([language]), source, names]) => match oid_of(oid) {
                Some(oid) => {
                    let names = unescaped(names.unwrap_or_default());
                    self.add_source(oid, *language, source.map(unescaped).as_deref(), &names)
                }
                None => false,
            },
            _ => false,
        }
    }

    /// The place of an object. Its name may come later than the first row that refers to it.
    pub(super) fn node(&mut self, kind: Kind, oid: u32, name: &[u8]) -> u32 {
        let next = self.nodes.len() as u32;
        let place = *self.by_oid.entry((kind, oid)).or_insert(next);
        if place == next {
            self.nodes.push(Node::new(kind));
        }
        if !name.is_empty() && self.nodes[place as usize].name.is_empty() {
            self.nodes[place as usize].name = name.into();
            let word = pgweir_sql::word_of(name).unwrap_or_default();
            match Needs::of(&word, kind == Kind::Routine) {
                Needs::Nothing => self.runs_by_word(word, place),
                needs => self.runs_by_key_word(word, needs, place),
            }
        }
        place
    }

    /// Every text that may use this key word as a name runs `what`.
    fn runs_by_key_word(&mut self, word: Box<[u8]>, needs: Needs, what: u32) {
        let next = self.nodes.len() as u32;
        let who = *self.by_key_word.entry((word, needs)).or_insert(next);
        self.runs_by_node(who, what);
    }

    /// Every text that contains `word` runs `what`.
    pub(super) fn runs_by_word(&mut self, word: Box<[u8]>, what: u32) {
        let next = self.nodes.len() as u32;
        let who = *self.by_word.entry(word).or_insert(next);
        self.runs_by_node(who, what);
    }

    /// `who`, a word that may be new, runs `what`.
    fn runs_by_node(&mut self, who: u32, what: u32) {
        if who == self.nodes.len() as u32 {
            self.nodes.push(Node::new(Kind::Word));
        }
        let on_write = false;
        self.runs.push(Run { who, what, on_write });
    }

    /// Identifies the database: see [`Catalog::identity`].
    pub(crate) fn identity(&self) -> Option<&[u8]> {
        self.identity.as_deref()
    }

    /// Whether the database is larger than the limits.
    pub(crate) fn is_too_much(&self) -> bool {
        self.too_much
    }

    /// Derives the catalog from everything that was read.
    pub(crate) fn finish(mut self) -> Catalog {
        if self.too_much {
            return Catalog {
                names: KnownNames::everything(pgweir_sql::UNREAD),
                types: HashMap::default(),
                analysis_runs: true,
                hidden: self.hidden,
                routines: self.routines,
                reads_no_constants: false,
                keeps_no_plans: false,
                identity: self.identity,
            };
        }
        runs::sort(&mut self.runs);
        self.reads_constants |= runs::find_folding(&mut self.nodes, &self.runs);
        runs::pass_on_effects(&mut self.nodes, &self.runs);
        let mut names = KnownNames::new();
        if self.folds_to_ascii {
            names.fold_to_ascii();
        }
        for node in &self.nodes {
            if node.read.is_empty() && node.written.is_empty() {
                continue;
            }
            match node.kind {
                Kind::Word => {}
                Kind::Nameless | Kind::OthersOperator => names.add_always(node.read | node.written),
                Kind::Definition | Kind::Creation | Kind::Maintenance | Kind::Truncation => {
                    let add = |verb: &&str| names.add(verb.as_bytes(), node.read, node.written);
                    words_of(node.kind).iter().for_each(add);
                    if node.kind == Kind::Definition {
                        names.add_select_into(node.read);
                    }
                }
                _ if node.name.is_empty() => {}
                _ => {
                    let is_routine = node.kind == Kind::Routine;
                    names.add_object(&node.name, is_routine, node.read.without(Effects::PASSES), node.written);
                    if node.read.intersects(Effects::PASSES) {
                        names.add_passing(&node.name, node.passes);
                    }
                }
            }
        }
        let effects_of = |(&(kind, oid), &place): (&(Kind, u32), &u32)| {
            let effects = self.nodes[place as usize].read;
            (kind == Kind::Type && !effects.is_empty()).then_some((oid, effects))
        };
        let types: HashMap<_, _, _> = self.by_oid.iter().filter_map(effects_of).collect();
        Catalog {
            analysis_runs: !types.is_empty(),
            types,
            names,
            hidden: self.hidden,
            routines: self.routines,
            reads_no_constants: !self.reads_constants,
            keeps_no_plans: !self.keeps_plans,
            identity: self.identity,
        }
    }
}

/// Decodes what `encode(.., 'escape')` has written: bytes that are not ASCII, and zero, are octal numbers after a
/// backslash.
fn unescaped(text: &[u8]) -> Cow<'_, [u8]> {
    let Some(first) = text.iter().position(|b| *b == b'\\') else {
        return text.into();
    };
    let mut bytes = text[..first].to_vec();
    let mut rest = &text[first..];
    while let [byte, behind @ ..] = rest {
        let (byte, behind) = match (byte, behind) {
            (b'\\', [b'\\', behind @ ..]) => (b'\\', behind),
            (b'\\', [a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', behind @ ..]) => {
                ((a - b'0') << 6 | (b - b'0') << 3 | (c - b'0'), behind)
            }
            _ => (*byte, behind),
        };
        bytes.push(byte);
        rest = behind;
    }
    bytes.into()
}

fn oid_of(text: &[u8]) -> Option<u32> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

#[cfg(test)]
#[path = "code_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "object_tests.rs"]
mod object_tests;

#[cfg(test)]
#[path = "reading_tests.rs"]
mod reading_tests;
