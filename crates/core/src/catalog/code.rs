//! What the functions of a database do to the session, and which tables and views run them: worked out from its catalog.
//!
//! A [`Draft`] collects the rows of [`crate::statements::catalog_query`]: functions with their source, and who runs whom. The source is
//! judged like any text ([`pgweir_sql::judge_body`]); whoever runs something has its effects, too. What is left is a
//! [`Catalog`]: the names that matter. Nothing of a source is kept.

use foldhash::fast::RandomState;
use pgweir_sql::{Effects, KnownNames, Language};
use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

/// Objects, and pairs of who runs whom, that are kept while a catalog is read; a database with more is not understood.
pub(crate) const RUNS_MAX: usize = 500_000;

/// Bytes of source that are looked at, as they come; a database with more is not understood.
pub(crate) const SOURCE_BYTES_MAX: usize = 128 * 1024 * 1024;

/// Settings of functions that `pg_settings` does not show, as many as are asked about.
const SETTINGS_MAX: usize = 256;

/// What statements that mention a name may do.
#[derive(Debug, Default, pgweir_freeze::Freeze)]
pub(crate) struct Catalog {
    pub(crate) names: KnownNames,
    /// Settings that functions make and `pg_settings` does not show.
    pub(crate) hidden: Vec<Box<str>>,
    /// Names of all routines: one that is called and not among them has been made since.
    routines: HashSet<Box<[u8]>, RandomState>,
    /// Tells this database from all others, whatever the way to it.
    pub(crate) identity: Option<Box<[u8]>>,
}

impl Catalog {
    /// Whether all these routines have been judged.
    pub(crate) fn knows_all(&self, names: &[Box<[u8]>]) -> bool {
        names.iter().all(|name| self.routines.contains(name))
    }
}

/// Kinds of things that have names or run functions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, pgweir_freeze::Freeze)]
enum Kind {
    Routine,
    /// Tables and views.
    Relation,
    Type,
    /// A word of a text or a source: whatever has it in its name.
    Word,
    /// Operators, casts: what runs without a name of its own in the text.
    Nameless,
    /// Event triggers: any statement that changes the catalog.
    Definition,
}

#[derive(Debug, pgweir_freeze::Freeze)]
struct Node {
    kind: Kind,
    name: Box<[u8]>,
    /// Effects of statements that mention it.
    read: Effects,
    /// Further effects, of those that write.
    written: Effects,
    /// The last body that mentioned it.
    mentioned_by: u32,
    /// Of a routine: the arguments that it takes for names of settings, bit 0 is the first.
    passes: u64,
    /// A routine in C.
    in_c: bool,
}

/// `who` runs `what`.
#[derive(Debug, Clone, Copy, pgweir_freeze::Freeze)]
struct Run {
    who: u32,
    what: u32,
    /// When it is written to: a trigger.
    on_write: bool,
}

/// What has been read of a catalog.
#[derive(Debug, Default, pgweir_freeze::Freeze)]
pub(crate) struct Draft {
    nodes: Vec<Node>,
    by_oid: HashMap<(Kind, u32), u32, RandomState>,
    /// Places in `nodes` of words; the empty one stands for all names without an ASCII word.
    by_word: HashMap<Box<[u8]>, u32, RandomState>,
    runs: Vec<Run>,
    hidden: Vec<Box<str>>,
    routines: HashSet<Box<[u8]>, RandomState>,
    identity: Option<Box<[u8]>>,
    source_bytes: usize,
    /// More than is kept: every statement may run any code.
    pub(crate) too_much: bool,
}

/// First words of statements that fire event triggers.
const DEFINING: [&str; 8] = [
    "create", "alter", "drop", "grant", "revoke", "comment", "import", "refresh",
];

/// Nobody's place in `nodes`.
const NOBODY: u32 = u32::MAX;

impl Draft {
    /// A row of either statement of [`crate::statements::catalog_query`]; `false` where it is none.
    pub(crate) fn add_row(&mut self, row: &[Option<&[u8]>]) -> bool {
        match *row {
            [Some([kind]), Some(oid), name, Some(of)] if !kind.is_ascii_digit() => match (oid_of(oid), oid_of(of)) {
                (Some(oid), Some(of)) => self.add_object(*kind, oid, &unescaped(name.unwrap_or_default()), of),
                _ => false,
            },
            [Some(oid), Some([language]), source, names] => match oid_of(oid) {
                Some(oid) => {
                    let names = unescaped(names.unwrap_or_default());
                    self.add_source(oid, *language, source.map(unescaped).as_deref(), &names)
                }
                None => false,
            },
            // What a setting was before, and what it is now.
            [Some(name), _, _] => oid_of(name).is_none(),
            _ => false,
        }
    }

    fn add_object(&mut self, kind: u8, oid: u32, name: &[u8], of: u32) -> bool {
        if self.runs.len() >= RUNS_MAX || self.nodes.len() >= RUNS_MAX {
            self.too_much = true;
            return true;
        }
        let (who, what, on_write) = match kind {
            // A routine; `of` says how much is known of it.
            b'r' => {
                self.routines.insert(name.into());
                let node = self.node(Kind::Routine, oid, name) as usize;
                self.nodes[node].in_c = matches!(of, 1 | 3);
                self.nodes[node].read |= match of {
                    1 => Effects::NATIVE,
                    2 => pgweir_sql::UNREAD,
                    3 => Effects::CODE,
                    _ => Effects::NONE,
                };
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
            b'i' => {
                self.identity = Some([name, b"/", oid.to_string().as_bytes()].concat().into());
                return true;
            }
            b'f' => (self.node(Kind::Routine, oid, b""), Kind::Routine, false),
            b't' => (self.node(Kind::Relation, oid, name), Kind::Routine, true),
            b'v' => (self.node(Kind::Relation, oid, name), Kind::Routine, false),
            b'u' => (self.node(Kind::Relation, oid, name), Kind::Relation, false),
            b'c' => (self.node(Kind::Relation, oid, name), Kind::Type, false),
            b'd' => (self.node(Kind::Type, oid, name), Kind::Routine, false),
            b'n' => (self.node(Kind::Nameless, 0, b""), Kind::Routine, false),
            b'e' => (self.definition(), Kind::Routine, false),
            _ => return false,
        };
        let what = self.node(what, of, b"");
        self.runs.push(Run { who, what, on_write });
        true
    }

    /// The place of an object; its name may come later than the first row about it.
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

    /// Whoever mentions `word` runs `what`.
    fn runs_by_word(&mut self, word: Box<[u8]>, what: u32) {
        let next = self.nodes.len() as u32;
        let who = *self.by_word.entry(word).or_insert(next);
        if who == next {
            self.nodes.push(Node::new(Kind::Word));
        }
        let on_write = false;
        self.runs.push(Run { who, what, on_write });
    }

    /// The place of everything that changes the catalog.
    fn definition(&mut self) -> u32 {
        let known = self.by_oid.contains_key(&(Kind::Definition, 0));
        let place = self.node(Kind::Definition, 0, b"");
        for verb in DEFINING.into_iter().filter(|_| !known) {
            self.runs_by_word(verb.as_bytes().into(), place);
        }
        place
    }

    /// The source of a routine; all names have come before. `None`: it is too long.
    fn add_source(&mut self, oid: u32, language: u8, source: Option<&[u8]>, parameters: &[u8]) -> bool {
        let language = match language {
            b's' => Language::Sql,
            b'b' => Language::SqlStandard,
            b'p' => Language::Plpgsql,
            b'i' => Language::Internal,
            _ => return false,
        };
        // Made since the names were read: the next read finds it.
        let Some(&who) = self.by_oid.get(&(Kind::Routine, oid)) else {
            return true;
        };
        let Some(source) = source else {
            self.nodes[who as usize].read |= pgweir_sql::UNREAD;
            return true;
        };
        self.source_bytes += source.len();
        if self.source_bytes > SOURCE_BYTES_MAX || self.runs.len() >= RUNS_MAX {
            self.too_much = true;
            return true;
        }
        let parameters: Vec<&[u8]> = parameters.split(|b| *b == b',').collect();
        let judged = pgweir_sql::judge_body(language, source, &parameters);
        let mut effects = judged.effects;
        self.nodes[who as usize].passes |= judged.passes;
        if effects.intersects(Effects::SETTINGS | Effects::CODE) {
            for name in pgweir_sql::body_settings(source) {
                if self.hidden.len() <= SETTINGS_MAX && !self.hidden.contains(&name) {
                    self.hidden.push(name);
                }
            }
        }
        let mut draws = false;
        for word in pgweir_sql::words(source) {
            let mut folded = [0; 64];
            let folded = &mut folded[..word.len()];
            folded.copy_from_slice(word);
            folded.make_ascii_lowercase();
            draws |= matches!(&*folded, b"insert" | b"nextval");
            if let Some(&word) = self.by_word.get(&*folded) {
                self.mentions(who, word);
            }
        }
        if source.iter().any(|b| !b.is_ascii() || *b == b'"')
            && let Some(&unreadable) = self.by_word.get(&b""[..])
        {
            self.mentions(who, unreadable);
        }
        if draws {
            // currval() of what it has drawn itself, as a rule.
            effects = effects.without(Effects::SEQUENCE);
        }
        if source.windows(2).any(|pair| pair == b"&\"") {
            // U&"..": letters are escapes, any name may hide.
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

    /// What follows from everything that was read.
    pub(crate) fn finish(mut self) -> Catalog {
        if self.too_much {
            return Catalog {
                names: KnownNames::everything(pgweir_sql::UNREAD),
                hidden: self.hidden,
                routines: self.routines,
                identity: self.identity,
            };
        }
        self.pass_on_effects();
        let mut names = KnownNames::new();
        for node in &self.nodes {
            if node.read.is_empty() && node.written.is_empty() {
                continue;
            }
            match node.kind {
                Kind::Word => {}
                Kind::Nameless => names.add_always(node.read | node.written),
                Kind::Definition => DEFINING
                    .iter()
                    .for_each(|verb| names.add(verb.as_bytes(), node.read, node.written)),
                _ if node.name.is_empty() => {}
                _ => {
                    names.add(&node.name, node.read.without(Effects::PASSES), node.written);
                    if node.read.intersects(Effects::PASSES) {
                        names.add_passing(&node.name, node.passes);
                    }
                }
            }
        }
        Catalog {
            names,
            hidden: self.hidden,
            routines: self.routines,
            identity: self.identity,
        }
    }

    /// Whoever runs something has its effects. Each of them is passed on once, so the time is that of reading all pairs.
    fn pass_on_effects(&mut self) {
        self.runs.sort_unstable_by_key(|run| run.what);
        let has_effects = |node: &Node| !(node.read | node.written).is_empty();
        let mut news: Vec<u32> = (0..self.nodes.len() as u32)
            .filter(|&place| has_effects(&self.nodes[place as usize]))
            .collect();
        while let Some(place) = news.pop() {
            let what = &self.nodes[place as usize];
            let (all, written, in_c) = (what.read, what.written, what.in_c);
            // Only who calls a routine by its name in a text names the setting.
            let read = if all.intersects(Effects::PASSES) {
                all.without(Effects::PASSES) | Effects::UNTOLD
            } else {
                all
            };
            let from = self.runs.partition_point(|run| run.what < place);
            for run in self.runs[from..].iter().take_while(|run| run.what == place) {
                let who = &mut self.nodes[run.who as usize];
                let (read, written) = match who.kind {
                    _ if run.on_write => (Effects::NONE, read | written),
                    Kind::Word => (all, written),
                    Kind::Relation => (read, written),
                    Kind::Routine => (read | written, Effects::NONE),
                    // Functions in C that read and print values are part of every type: they are not what pins are for.
                    Kind::Type | Kind::Nameless if in_c => (Effects::NONE, Effects::NONE),
                    Kind::Type | Kind::Nameless | Kind::Definition => {
                        ((read | written).without(Effects::NATIVE), Effects::NONE)
                    }
                };
                if !who.read.contains(read) || !who.written.contains(written) {
                    who.read |= read;
                    who.written |= written;
                    news.push(run.who);
                }
            }
        }
    }
}

impl Node {
    fn new(kind: Kind) -> Self {
        Node {
            kind,
            name: Box::default(),
            read: Effects::NONE,
            written: Effects::NONE,
            mentioned_by: NOBODY,
            passes: 0,
            in_c: false,
        }
    }
}

/// Bytes as `encode(.., 'escape')` writes them: those that are not ASCII, and zero, in octal behind a backslash.
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
mod tests {
    use super::*;

    fn catalog(rows: &[&[&str]]) -> Catalog {
        let mut draft = Draft::default();
        for row in rows {
            let row: Vec<Option<&[u8]>> = row.iter().map(|v| Some(v.as_bytes())).collect();
            assert!(draft.add_row(&row), "{row:?}");
        }
        draft.finish()
    }

    fn effects(catalog: &Catalog, text: &str) -> Effects {
        catalog.names.effects_in(text.as_bytes())
    }

    #[test]
    fn effects_reach_whoever_runs_a_function() {
        let catalog = catalog(&[
            &["r", "1", "remember", "0"],
            &["r", "2", "outer_one", "0"],
            &["r", "3", "harmless", "0"],
            &["r", "4", "on_change", "0"],
            &["t", "10", "orders", "4"],
            &["v", "11", "tenants", "1"],
            &["u", "12", "all_tenants", "11"],
            &["u", "13", "open_orders", "10"],
            &["d", "20", "checked", "1"],
            &["c", "14", "typed", "20"],
            &["1", "p", "begin perform set_config('app.x', '1', false); end", ""],
            &["2", "p", "begin perform Remember(); end", ""],
            &["3", "s", "select 1", ""],
            &["4", "p", "begin perform pg_advisory_lock(1); return new; end", ""],
        ]);
        let settings = [
            "select remember()",
            "call outer_one()",
            "table tenants",
            "table all_tenants",
            "table typed",
        ];
        for text in settings {
            assert_eq!(effects(&catalog, text), Effects::SETTINGS, "{text}");
        }
        assert_eq!(effects(&catalog, "select harmless()"), Effects::NONE);
        assert_eq!(effects(&catalog, "select * from orders"), Effects::NONE);
        assert_eq!(effects(&catalog, "delete from orders"), Effects::LOCKS);
        assert_eq!(effects(&catalog, "update open_orders set a = 1"), Effects::LOCKS);
        assert_eq!(catalog.hidden, ["app.x".into()]);
    }

    #[test]
    fn code_that_cannot_be_read_is_told_from_code_that_keeps_state() {
        let catalog = catalog(&[
            &["r", "1", "in_c", "1"],
            &["r", "2", "in_perl", "2"],
            &["r", "3", "twice", "0"],
            &["n", "0", "", "1"],
            &["d", "20", "shape", "1"],
            &["3", "s", "select in_c(), in_perl()", ""],
        ]);
        assert_eq!(effects(&catalog, "select in_c(1)"), Effects::NATIVE);
        assert_eq!(effects(&catalog, "select in_perl(1)"), pgweir_sql::UNREAD);
        assert_eq!(
            effects(&catalog, "select twice()"),
            Effects::NATIVE | pgweir_sql::UNREAD
        );
        assert_eq!(
            effects(&catalog, "select 'x'::shape"),
            Effects::NONE,
            "its input function is in C"
        );
        assert_eq!(effects(&catalog, "select 1"), Effects::NONE);
    }

    #[test]
    fn what_calls_a_function_of_postgresql_s_own_that_is_not_harmless_is_told() {
        let catalog = catalog(&[
            &["r", "1", "set_ctx", "0"],
            &["r", "2", "outer_ctx", "0"],
            &["r", "3", "in_extension", "3"],
            &["b", "2078", "set_config", "0"],
            &["b", "2924", "query_to_xml", "0"],
            &["v", "10", "tenants", "2078"],
            &["v", "11", "pages", "2924"],
            &["v", "12", "contexts", "1"],
            &["n", "0", "", "3"],
            &["i", "5", "1795326815.3", "0"],
            &["1", "s", "select set_config(name, value, false)", "name,value,"],
            &["2", "s", "select set_ctx('a.' || $1, $2)", ""],
        ]);
        let untold = Effects::SETTINGS | Effects::UNTOLD;
        assert_eq!(effects(&catalog, "table tenants"), untold);
        assert_eq!(effects(&catalog, "table pages"), pgweir_sql::UNREAD);
        assert_eq!(effects(&catalog, "table contexts"), untold);
        assert_eq!(effects(&catalog, "select outer_ctx('x', 'y')"), untold);
        assert_eq!(
            effects(&catalog, "select set_ctx('a.b', 'y')"),
            Effects::SETTINGS | Effects::PASSES
        );
        assert_eq!(effects(&catalog, "select in_extension()"), Effects::CODE);
        assert_eq!(effects(&catalog, "select 1 + 2"), Effects::NONE, "an operator in C");
        assert_eq!(
            catalog.names.passed_in(b"select set_ctx('a.b', 'y')").names,
            ["a.b".into()]
        );
        assert!(catalog.knows_all(&[b"set_ctx"[..].into()]) && !catalog.knows_all(&[b"set_config"[..].into()]));
        assert_eq!(catalog.identity.as_deref(), Some(&b"1795326815.3/5"[..]));
    }

    #[test]
    fn an_operator_or_a_cast_may_run_a_function_in_any_statement() {
        let catalog = catalog(&[
            &["r", "1", "remember", "0"],
            &["n", "0", "", "1"],
            &["1", "s", "select set_config('work_mem', '1MB', false)", ""],
        ]);
        assert_eq!(effects(&catalog, "select 1 ### 2"), Effects::SETTINGS);
    }

    #[test]
    fn an_event_trigger_runs_in_whatever_changes_the_catalog() {
        let catalog = catalog(&[
            &["r", "1", "watch", "0"],
            &["r", "2", "make_partition", "0"],
            &["e", "0", "", "1"],
            &["1", "p", "begin listen x; end", ""],
            &["2", "p", "begin create table p partition of t default; end", ""],
        ]);
        for text in [
            "create table t (a int)",
            "select 1; drop view v",
            "select make_partition()",
        ] {
            assert_eq!(effects(&catalog, text), Effects::LISTEN, "{text}");
        }
        assert_eq!(effects(&catalog, "insert into t values (1)"), Effects::NONE);
    }

    #[test]
    fn functions_that_call_each_other_come_to_an_end() {
        let catalog = catalog(&[
            &["r", "1", "ping", "0"],
            &["r", "2", "pong", "0"],
            &["1", "p", "begin perform pong(); end", ""],
            &["2", "p", "begin perform ping(); listen x; end", ""],
        ]);
        assert_eq!(effects(&catalog, "select ping()"), Effects::LISTEN);
    }

    #[test]
    fn a_function_that_asks_for_what_it_has_drawn_does_not_pin() {
        let catalog = catalog(&[
            &["r", "1", "make", "0"],
            &["r", "2", "latest", "0"],
            &["1", "s", "insert into t values (1); select currval('s')", ""],
            &["2", "s", "select currval('s')", ""],
        ]);
        assert_eq!(effects(&catalog, "select make()"), Effects::NONE);
        assert_eq!(effects(&catalog, "select latest()"), Effects::SEQUENCE);
    }

    #[test]
    fn a_source_too_long_to_come_is_code_and_too_much_source_makes_everything_code() {
        let mut draft = Draft::default();
        assert!(draft.add_row(&[Some(b"r"), Some(b"1"), Some(b"long_one"), Some(b"0")]));
        assert!(draft.add_row(&[Some(b"1"), Some(b"p"), None, None]));
        let catalog = draft.finish();
        assert_eq!(effects(&catalog, "select long_one()"), pgweir_sql::UNREAD);
        let mut draft = Draft::default();
        assert!(draft.add_row(&[Some(b"r"), Some(b"1"), Some(b"x"), Some(b"0")]));
        let source = vec![b' '; SOURCE_BYTES_MAX + 1];
        assert!(draft.add_row(&[Some(b"1"), Some(b"s"), Some(&source), None]));
        assert_eq!(effects(&draft.finish(), "select 1"), pgweir_sql::UNREAD);
    }

    #[test]
    fn rows_of_another_shape_are_refused() {
        let mut draft = Draft::default();
        assert!(!draft.add_row(&[]));
        assert!(!draft.add_row(&[Some(b"?"), Some(b"1"), None, Some(b"0")]));
        assert!(!draft.add_row(&[Some(b"r"), Some(b"x"), None, Some(b"0")]));
        assert!(
            draft.add_row(&[Some(b"lock_timeout"), Some(b"1s"), Some(b"0")]),
            "of set_config()"
        );
        assert!(!draft.add_row(&[Some(b"1"), Some(b"?"), None, None]));
    }

    /// The client's encoding may not have all letters of a source: what comes is ASCII, and read back.
    #[test]
    fn names_and_sources_come_escaped() {
        assert_eq!(*unescaped(b"a\\\\b\\303\\244c\\8\\"), *b"a\\b\xc3\xa4c\\8\\");
        let catalog = catalog(&[
            &["r", "1", "gr\\303\\266\\303\\237e", "0"],
            &["r", "2", "\\321\\204", "0"],
            &["r", "3", "calls", "0"],
            &["1", "p", "begin listen x; end", ""],
            &["2", "p", "begin set work_mem = '1MB'; end", ""],
            &["3", "s", "select \\321\\204()", ""],
        ]);
        assert_eq!(
            effects(&catalog, "select gr\u{f6}\u{df}e()"),
            Effects::LISTEN | Effects::SETTINGS
        );
        assert_eq!(
            effects(&catalog, "select calls()"),
            Effects::SETTINGS,
            "it mentions a name without ASCII"
        );
    }

    /// A schema for each tenant: every call of a name may be a call of all functions with it.
    #[test]
    fn as_many_functions_of_one_name_as_there_are_tenants_are_understood() {
        let mut draft = Draft::default();
        for n in 0..2000_u32 {
            let oid = |kind: u32| (16384 + 2 * n + kind).to_string();
            for (kind, name) in [(0, "inner"), (1, "outer")] {
                assert!(draft.add_row(&[
                    Some(b"r"),
                    Some(oid(kind).as_bytes()),
                    Some(name.as_bytes()),
                    Some(b"0")
                ]));
            }
        }
        for n in 0..2000_u32 {
            let oid = |kind: u32| (16384 + 2 * n + kind).to_string();
            for (kind, source) in [(0, "listen x"), (1, "select inner()")] {
                assert!(draft.add_row(&[Some(oid(kind).as_bytes()), Some(b"s"), Some(source.as_bytes()), None]));
            }
        }
        assert!(!draft.too_much);
        let catalog = draft.finish();
        assert_eq!(effects(&catalog, "select outer()"), Effects::LISTEN);
        assert_eq!(effects(&catalog, "select 1"), Effects::NONE);
    }

    /// A chain as long as a database has functions takes time that grows with its length, not with its square.
    #[test]
    fn a_long_chain_of_calls_is_followed() {
        let mut draft = Draft::default();
        const LONG: u32 = 100_000;
        let row = |n: u32| (16384 + n).to_string();
        for n in 0..LONG {
            let name = format!("f{n}");
            assert!(draft.add_row(&[Some(b"r"), Some(row(n).as_bytes()), Some(name.as_bytes()), Some(b"0")]));
        }
        for n in 0..LONG {
            let source = if n == 0 {
                "listen x".into()
            } else {
                format!("select f{}()", n - 1)
            };
            assert!(draft.add_row(&[Some(row(n).as_bytes()), Some(b"s"), Some(source.as_bytes()), None]));
        }
        let catalog = draft.finish();
        assert_eq!(effects(&catalog, &format!("select f{}()", LONG - 1)), Effects::LISTEN);
    }
}
