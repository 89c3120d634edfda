//! What the functions of a database do to sessions, and which tables and views run them: derived from its catalog.
//!
//! A [`Draft`] collects the rows of [`crate::statements::catalog_query`]: functions with their source, and which object
//! runs which. The source is judged like any text ([`pgweir_sql::judge_body`]). An object has the effects of everything
//! that it runs. The result is a [`Catalog`]: the names with effects. No source is kept.

use crate::catalog::runs::{self, Kind, Node, Run};
use crate::upstream::entry::AnswerRows;
use foldhash::fast::RandomState;
use pgweir_sql::{Effects, KnownNames, Language, SearchPath};
use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap, HashSet};

/// The most objects, and the most pairs of objects of which one runs the other. In a larger database every statement
/// counts as code that is not read.
pub(crate) const RUNS_MAX: usize = 500_000;

/// The most bytes of source. In a database with more, every statement counts as code that is not read.
pub(crate) const SOURCE_BYTES_MAX: usize = 128 * 1024 * 1024;

/// A probe asks for at most this many settings that functions set and `pg_settings` does not show. One more is kept: it
/// pins the client.
const SETTINGS_MAX: usize = 256;

/// What a statement may do because of the names that it mentions.
#[derive(Debug, Default, pgweir_freeze::Freeze)]
pub(crate) struct Catalog {
    pub(crate) names: KnownNames,
    /// Effects of making a value of a type, by the type's OID: a Parse may name the types of its parameters.
    pub(crate) types: HashMap<u32, Effects, RandomState>,
    /// Whether the analysis of some statement has effects: of reading a constant of a type that contains a domain.
    pub(crate) analysis_runs: bool,
    /// Settings that functions set and `pg_settings` does not show.
    pub(crate) hidden: Vec<Box<str>>,
    /// Names of all routines. A routine that a text calls and that is not among them was created after the reading.
    routines: HashSet<Box<[u8]>, RandomState>,
    /// A reading has shown that no routine keeps plans whose constants depend on settings.
    pub(crate) reads_no_constants: bool,
    /// Identifies this database, whatever address leads to it.
    pub(crate) identity: Option<Box<[u8]>>,
}

impl Catalog {
    /// Whether the catalog contains all these routines.
    pub(crate) fn knows_all(&self, names: &BTreeSet<Box<[u8]>>) -> bool {
        names.iter().all(|name| self.routines.contains(name))
    }
}

/// What has been read of a catalog.
#[derive(Debug, Default, pgweir_freeze::Freeze)]
pub(crate) struct Draft {
    nodes: Vec<Node>,
    by_oid: HashMap<(Kind, u32), u32, RandomState>,
    /// Places of words in `nodes`. The empty word stands for all names without an ASCII word.
    by_word: HashMap<Box<[u8]>, u32, RandomState>,
    runs: Vec<Run>,
    hidden: Vec<Box<str>>,
    routines: HashSet<Box<[u8]>, RandomState>,
    /// Some routine keeps plans whose constants may depend on settings.
    reads_constants: bool,
    /// See [`KnownNames::fold_to_ascii`].
    folds_to_ascii: bool,
    identity: Option<Box<[u8]>>,
    source_bytes: usize,
    /// The database is larger than the limits: every statement counts as code that is not read.
    pub(crate) too_much: bool,
}

/// Added to what is known of a routine that is declared immutable.
const IMMUTABLE: u32 = 8;

/// First words of statements that cause event triggers to run.
const DEFINING: [&str; 10] = [
    "create", "alter", "drop", "grant", "revoke", "comment", "import", "refresh", "reindex", "security",
];

/// First words of statements that compute the expressions of indexes and statistics.
const MAINTAINING: [&str; 5] = ["analyze", "analyse", "vacuum", "reindex", "cluster"];

/// Words of statements that may make tables.
const CREATING: [&str; 3] = ["create", "into", "import"];

/// The words that stand for all statements of a kind.
fn words_of(kind: Kind) -> &'static [&'static str] {
    match kind {
        Kind::Definition => &DEFINING,
        Kind::Creation => &CREATING,
        Kind::Maintenance => &MAINTAINING,
        Kind::Truncation => &["truncate"],
        Kind::Routine | Kind::Relation | Kind::Type | Kind::Word | Kind::Nameless => &[],
    }
}

impl Draft {
    /// Adds a row of one of the two statements of [`crate::statements::catalog_query`]; `false` if it is not valid.
    pub(crate) fn add_row(&mut self, rows: AnswerRows, row: &[Option<&[u8]>]) -> bool {
        match (rows, row) {
            (AnswerRows::CatalogObject, &[Some([kind]), Some(oid), name, Some(of)]) => {
                match (oid_of(oid), oid_of(of)) {
                    (Some(oid), Some(of)) => self.add_object(*kind, oid, &unescaped(name.unwrap_or_default()), of),
                    _ => false,
                }
            }
            (AnswerRows::CatalogSource, &[Some(oid), Some([language]), source, names]) => match oid_of(oid) {
                Some(oid) => {
                    let names = unescaped(names.unwrap_or_default());
                    self.add_source(oid, *language, source.map(unescaped).as_deref(), &names)
                }
                None => false,
            },
            _ => false,
        }
    }

    /// Adds a row about an object, or says that it is malformed. It is long because each kind of row has its own
    /// columns, read in one place.
    fn add_object(&mut self, kind: u8, oid: u32, name: &[u8], of: u32) -> bool {
        if self.runs.len() >= RUNS_MAX || self.nodes.len() >= RUNS_MAX {
            self.too_much = true;
            return true;
        }
        let (who, what, on_write) = match kind {
            // A routine; `of` says what is known of it.
            b'r' => {
                self.routines.insert(name.into());
                let node = self.node(Kind::Routine, oid, name) as usize;
                let known = of & !IMMUTABLE;
                self.reads_constants |= known == 2;
                self.nodes[node].in_c = matches!(known, 1 | 3);
                self.nodes[node].immutable = of & IMMUTABLE != 0;
                self.nodes[node].reads_session = known == 2;
                self.nodes[node].read |= match known {
                    1 => Effects::NATIVE,
                    2 => pgweir_sql::UNREAD,
                    3 => Effects::CODE,
                    4 => pgweir_sql::effects_of_name(name),
                    _ => Effects::NONE,
                };
                return true;
            }
            b'y' => {
                let node = self.node(Kind::Routine, oid, b"") as usize;
                self.nodes[node].read |= pgweir_sql::effects_of_name(name);
                return true;
            }
            b'b' => {
                let node = self.node(Kind::Routine, oid, b"") as usize;
                self.nodes[node].read |= pgweir_sql::effects_of_own(name);
                return true;
            }
            b'x' => {
                let effects = pgweir_sql::effects_of_own(name);
                if effects.intersects(Effects::CODE) {
                    let node = self.node(Kind::Routine, oid, name) as usize;
                    self.nodes[node].read |= effects;
                }
                return true;
            }
            b's' => {
                let node = self.node(Kind::Routine, oid, b"") as usize;
                self.nodes[node].read |= effects_of_setting(name);
                return true;
            }
            b'p' => {
                let node = self.statements(Kind::Creation) as usize;
                self.nodes[node].read |= Effects::TEMPORARY;
                return true;
            }
            b'l' => {
                self.folds_to_ascii = true;
                return true;
            }
            b'i' => {
                self.identity = Some([name, b"/", oid.to_string().as_bytes()].concat().into());
                return true;
            }
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
            b'e' => (self.statements(Kind::Definition), Kind::Routine, false),
            _ => return false,
        };
        let what = self.node(what, of, b"");
        self.runs.push(Run { who, what, on_write });
        true
    }

    /// The place of an object. Its name may come later than the first row that refers to it.
    fn node(&mut self, kind: Kind, oid: u32, name: &[u8]) -> u32 {
        let next = self.nodes.len() as u32;
        let place = *self.by_oid.entry((kind, oid)).or_insert(next);
        if place == next {
            self.nodes.push(Node::new(kind));
        }
        if !name.is_empty() && self.nodes[place as usize].name.is_empty() {
            self.nodes[place as usize].name = name.into();
            self.runs_by_word(pgweir_sql::word_of(name).unwrap_or_default(), place);
        }
        place
    }

    /// Every text that contains `word` runs `what`.
    fn runs_by_word(&mut self, word: Box<[u8]>, what: u32) {
        let next = self.nodes.len() as u32;
        let who = *self.by_word.entry(word).or_insert(next);
        if who == next {
            self.nodes.push(Node::new(Kind::Word));
        }
        let on_write = false;
        self.runs.push(Run { who, what, on_write });
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

    /// Adds the source of a routine, after all names have come. `None`: the source is too long. It is long because what
    /// is read in each language is decided here alone.
    fn add_source(&mut self, oid: u32, language: u8, source: Option<&[u8]>, parameters: &[u8]) -> bool {
        let language = match language {
            b's' => Language::Sql,
            b'b' => Language::SqlStandard,
            b'p' => Language::Plpgsql,
            b'i' => Language::Internal,
            _ => return false,
        };
        // The routine was created after the names had been read; the next reading finds it.
        let Some(&who) = self.by_oid.get(&(Kind::Routine, oid)) else {
            return true;
        };
        let Some(source) = source else {
            self.nodes[who as usize].read |= pgweir_sql::UNREAD;
            self.nodes[who as usize].reads_session = true;
            self.reads_constants = true;
            return true;
        };
        self.reads_constants |= language != Language::Internal && pgweir_sql::reads_constants(source);
        self.nodes[who as usize].reads_session |= language != Language::Internal && pgweir_sql::reads_session(source);
        self.source_bytes += source.len();
        if self.source_bytes > SOURCE_BYTES_MAX || self.runs.len() >= RUNS_MAX {
            self.too_much = true;
            return true;
        }
        let parameters: Vec<&[u8]> = parameters.split(|b| *b == b',').collect();
        let judged = pgweir_sql::judge_body(language, source, &parameters);
        let mut effects = SearchPath::adds_to(judged.effects, source, None);
        self.nodes[who as usize].passes |= judged.passes;
        self.nodes[who as usize].changes_tables = pgweir_sql::may_change_tables(language, source);
        if effects.intersects(Effects::SETTINGS | Effects::CODE) {
            for name in pgweir_sql::body_settings(source) {
                if self.hidden.len() <= SETTINGS_MAX && !self.hidden.contains(&name) {
                    self.hidden.push(name);
                }
            }
        }
        let (mut selects, mut into) = (false, false);
        let (mut draws, mut calls) = (false, self.by_oid.contains_key(&(Kind::Nameless, 0)));
        for word in pgweir_sql::words(source) {
            let mut folded = [0; 64];
            let folded = &mut folded[..word.len()];
            folded.copy_from_slice(word);
            folded.make_ascii_lowercase();
            draws |= matches!(&*folded, b"insert" | b"nextval");
            selects |= &*folded == b"select";
            into |= &*folded == b"into" && language != Language::Plpgsql;
            if let Some(&word) = self.by_word.get(&*folded) {
                calls = true;
                self.mentions(who, word);
            }
        }
        if let Some(&definition) = self.by_oid.get(&(Kind::Definition, 0)).filter(|_| selects && into) {
            self.mentions(who, definition);
        }
        if source.iter().any(|b| !b.is_ascii() || *b == b'"')
            && let Some(&unreadable) = self.by_word.get(&b""[..])
        {
            calls = true;
            self.mentions(who, unreadable);
        }
        if !calls && !pgweir_sql::may_create(language, source) {
            // It calls nothing and makes no table, so it does not matter whether its search_path contains pg_temp.
            self.nodes[who as usize].read = self.nodes[who as usize].read.without(Effects::TEMPORARY);
        }
        if draws && effects.intersects(Effects::SEQUENCE) {
            // A currval() in such a function usually asks for a value that the function itself has drawn. If it does
            // not, the value must not be another client's.
            effects = effects.without(Effects::SEQUENCE) | Effects::DRAWN;
        }
        if source.windows(2).any(|pair| pair == b"&\"") {
            // U&"..": letters may be escapes, so any name may be meant.
            effects |= pgweir_sql::UNREAD;
        }
        self.nodes[who as usize].read |= effects;
        true
    }

    fn mentions(&mut self, who: u32, what: u32) {
        let node = &mut self.nodes[what as usize];
        if node.mentioned_by != who {
            node.mentioned_by = who;
            let on_write = false;
            self.runs.push(Run { who, what, on_write });
        }
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
                Kind::Nameless => names.add_always(node.read | node.written),
                Kind::Definition | Kind::Creation | Kind::Maintenance | Kind::Truncation => {
                    let add = |verb: &&str| names.add(verb.as_bytes(), node.read, node.written);
                    words_of(node.kind).iter().for_each(add);
                    if node.kind == Kind::Definition {
                        names.add_select_into(node.read);
                    }
                }
                _ if node.name.is_empty() => {}
                _ => {
                    names.add(&node.name, node.read.without(Effects::PASSES), node.written);
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
            identity: self.identity,
        }
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
