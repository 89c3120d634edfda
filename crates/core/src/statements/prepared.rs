//! Protocol-level prepared statements: one table for all clients, and what each server holds of it.
//!
//! A statement's identity is its text, its parameter types and every setting that changes how text is parsed (recording
//! E12: a constant folded under one DateStyle stays folded). Clients keep their own names for statements; servers know
//! them by a name of ours. A statement lives as long as a client names it or a server holds it.

use crate::base::secret_names::{OwnNames, SecretNames};
use crate::statements::ends::Ends;
use crate::statements::held::{Moment, Rows};
use crate::statements::parameter_types::Types;
use crate::statements::parse_settings::ParseSettings;
use foldhash::fast::RandomState;
use std::collections::{HashMap, HashSet};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// Statements that return rows only by a RETURNING clause.
const WRITES: [&[u8]; 4] = [b"insert", b"update", b"delete", b"merge"];

/// Ids up to this are the pooler's own statements; they do not count among those of clients.
pub(crate) const OWN_ID_MAX: u64 = 15;

/// Whose a statement is, and how it is made on a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, pgweir_freeze::Freeze)]
pub(crate) enum Kind {
    /// Servers know it by a name of the pooler's.
    Shared,
    /// Servers know it by its client's own name, for SQL that names it (see [`crate::preparing::own_names`]).
    Own,
    /// The same, made by SQL-level PREPARE, which is its query text.
    Sql,
}

/// One statement, shared by every client that prepared it.
#[derive(Debug, pgweir_freeze::Freeze)]
pub(crate) struct Statement {
    /// Never used twice in a process.
    pub(crate) id: u64,
    pub(crate) kind: Kind,
    /// It is in no table: one client has it.
    pub(crate) is_private: bool,
    /// See [`Statement::server_name`].
    name: Box<[u8]>,
    /// Query text.
    pub(crate) query: Box<[u8]>,
    /// Parameter types as in Parse: count and OIDs.
    pub(crate) types: Box<[u8]>,
    /// Settings it was parsed under.
    pub(crate) settings: ParseSettings,
    /// What its text is.
    pub(crate) verdict: pgweir_sql::Statement,
    /// What its text may do to the session.
    pub(crate) effects: pgweir_sql::Effects,
    /// The server infers the type of a parameter: see [`crate::statements::parameter_types`].
    pub(crate) infers: bool,
    /// Settings may change how something in its text is read: a string, or a comparison with NULL.
    pub(crate) has_constants: bool,
    /// A copy that was made earlier may answer a Parse: nothing in it can be out of date without PostgreSQL's noticing.
    pub(crate) keeps: bool,
    /// Its text leaves it possible that it returns rows: others have no result that DDL could change.
    pub(crate) may_return_rows: bool,
}

impl Statement {
    /// The name servers know it by.
    #[inline]
    pub(crate) fn server_name(&self) -> &[u8] {
        &self.name
    }

    /// How it is made and its client's name for it, where servers know it by that.
    fn own(&self) -> Option<(Kind, &[u8])> {
        self.is_own().then_some((self.kind, self.server_name()))
    }

    /// Whether servers know it by its client's name for it.
    pub(crate) fn is_own(&self) -> bool {
        self.kind != Kind::Shared
    }

    /// Whether it is a bare BEGIN or START TRANSACTION.
    #[inline]
    pub(crate) fn begins_block(&self) -> bool {
        use pgweir_sql::Statement::{Begin, StartTransaction};
        matches!(self.verdict, Begin | StartTransaction)
    }

    /// Whether it ends statements of its session.
    #[inline]
    pub(crate) fn ends_some(&self) -> bool {
        use pgweir_sql::Statement::{Deallocate, DeallocateAll, DiscardAll};
        matches!(self.verdict, DeallocateAll | DiscardAll | Deallocate(_))
    }

    /// The statements of its session that it ends.
    pub(crate) fn ends(&self) -> Option<Ends> {
        use pgweir_sql::Statement::{Deallocate, DeallocateAll, DiscardAll};
        match &self.verdict {
            DeallocateAll | DiscardAll => Some(Ends::All),
            Deallocate(name) => Some(Ends::Name(name.clone())),
            _ => None,
        }
    }

    /// Whether a Parse with this text, types and settings would be the same statement.
    pub(crate) fn matches(&self, query: &[u8], types: &[u8], settings: &ParseSettings) -> bool {
        *self.query == *query && *self.types == *types && self.settings == *settings
    }
}

/// What a statement may do, or why it is looked at in each Bind.
fn effects(query: &[u8]) -> pgweir_sql::Effects {
    let clears = pgweir_sql::may_need_database_alone(query) && pgweir_sql::database_needed_alone(query).is_some();
    let looked_at = if clears || pgweir_sql::is_signal(query) {
        pgweir_sql::Effects::CURRENT_SETTING
    } else {
        pgweir_sql::Effects::NONE
    };
    crate::base::secret_names::effects_of(query) | looked_at
}

/// `false` only where no setting but those that say what names mean changes what a text means.
fn has_constants(query: &[u8]) -> bool {
    let quotes = query.contains(&b'\'') || query.windows(2).any(|w| w[0] == b'$' && !w[1].is_ascii_digit());
    let word = |word: &[u8]| query.windows(word.len()).any(|w| w.eq_ignore_ascii_case(word));
    quotes || word(b"null") || word(b"xml")
}

/// `false` only where the text begins with the word of a write and the word RETURNING is not in it.
fn may_return_rows(query: &[u8]) -> bool {
    let text = query.trim_ascii_start();
    let begins = |word: &&[u8]| text.get(..word.len()).is_some_and(|t| t.eq_ignore_ascii_case(word));
    let returning = b"returning";
    !WRITES.iter().any(begins) || text.windows(returning.len()).any(|w| w.eq_ignore_ascii_case(returning))
}

#[derive(Debug, Clone, pgweir_freeze::Freeze)]
struct ByContent(Arc<Statement>);

impl Hash for ByContent {
    fn hash<H: Hasher>(&self, state: &mut H) {
        Content {
            own: self.0.own(),
            query: &self.0.query,
            types: &self.0.types,
            settings: &self.0.settings,
        }
        .hash(state);
    }
}

impl PartialEq for ByContent {
    fn eq(&self, other: &Self) -> bool {
        self.0.own() == other.0.own() && self.0.matches(&other.0.query, &other.0.types, &other.0.settings)
    }
}

impl Eq for ByContent {}

#[derive(Hash)]
struct Content<'a> {
    /// See [`Statement::own`].
    own: Option<(Kind, &'a [u8])>,
    query: &'a [u8],
    types: &'a [u8],
    settings: &'a ParseSettings,
}

impl hashbrown::Equivalent<ByContent> for Content<'_> {
    fn equivalent(&self, key: &ByContent) -> bool {
        key.0.own() == self.own && key.0.matches(self.query, self.types, self.settings)
    }
}

/// Every statement that somebody still names or holds.
#[derive(Debug, pgweir_freeze::Freeze)]
pub(crate) struct StatementTable {
    statements: hashbrown::HashSet<ByContent, RandomState>,
    next_id: u64,
    clock: Moment,
    /// The table is swept for statements nobody uses when it has grown to this.
    sweep_at: usize,
    names: SecretNames,
}

/// The table is not swept below this many statements.
const SWEEP_STATEMENTS_MIN: usize = 256;

impl StatementTable {
    pub(crate) fn new(names: SecretNames) -> Self {
        StatementTable {
            names,
            statements: hashbrown::HashSet::default(),
            next_id: OWN_ID_MAX + 1,
            clock: Moment(1),
            sweep_at: SWEEP_STATEMENTS_MIN,
        }
    }

    /// The statement with this content.
    pub(crate) fn intern(&mut self, query: &[u8], types: &[u8], settings: &ParseSettings) -> Arc<Statement> {
        let content = Content {
            own: None,
            query,
            types,
            settings,
        };
        self.shared(&content, |table| table.make(query, types, settings, false))
    }

    fn shared(&mut self, content: &Content<'_>, make: impl FnOnce(&mut Self) -> Statement) -> Arc<Statement> {
        if let Some(known) = self.statements.get(content) {
            return known.0.clone();
        }
        self.sweep();
        let statement = Arc::new(make(self));
        self.statements.insert(ByContent(statement.clone()));
        statement
    }

    fn sweep(&mut self) {
        if self.statements.len() >= self.sweep_at {
            self.statements.retain(|s| Arc::strong_count(&s.0) > 1);
            self.sweep_at = (self.statements.len() * 2).max(SWEEP_STATEMENTS_MIN);
            self.statements.shrink_to(self.sweep_at);
        }
    }

    /// A statement with this content that nobody shares: what it was parsed under is not known for certain.
    pub(crate) fn intern_for_one(&mut self, query: &[u8], types: &[u8], settings: &ParseSettings) -> Arc<Statement> {
        Arc::new(self.make(query, types, settings, true))
    }

    fn make(&mut self, query: &[u8], types: &[u8], settings: &ParseSettings, is_private: bool) -> Statement {
        let statement = Statement {
            id: self.next_id,
            kind: Kind::Shared,
            is_private,
            name: self.names.of_statement(self.next_id),
            query: query.into(),
            types: types.into(),
            settings: settings.clone(),
            verdict: pgweir_sql::classify(query),
            effects: effects(query),
            infers: crate::statements::parameter_types::are_inferred(query, types),
            has_constants: has_constants(query),
            keeps: !crate::statements::parameter_types::may_name_types(query),
            may_return_rows: may_return_rows(query),
        };
        self.next_id += 1;
        statement
    }

    /// The statement with this content that servers know by its clients' name for it: clients of one program give the same
    /// names to the same statements. Nobody shares one that `is_private`.
    pub(crate) fn intern_own(
        &mut self,
        kind: Kind,
        name: &[u8],
        query: &[u8],
        types: &[u8],
        settings: &ParseSettings,
        is_private: bool,
    ) -> Arc<Statement> {
        if is_private {
            return Arc::new(self.make_own(kind, name, query, types, settings, true));
        }
        let content = Content {
            own: Some((kind, name)),
            query,
            types,
            settings,
        };
        self.shared(&content, |table| {
            table.make_own(kind, name, query, types, settings, false)
        })
    }

    fn make_own(
        &mut self,
        kind: Kind,
        name: &[u8],
        query: &[u8],
        types: &[u8],
        settings: &ParseSettings,
        is_private: bool,
    ) -> Statement {
        let statement = self.make(query, types, settings, is_private);
        let verdict = match kind {
            Kind::Sql => pgweir_sql::Statement::Other,
            Kind::Own | Kind::Shared => statement.verdict,
        };
        Statement {
            kind,
            name: name.into(),
            verdict,
            // It has been prepared.
            effects: match kind {
                Kind::Sql => statement.effects.without(pgweir_sql::Effects::PREPARE),
                Kind::Own | Kind::Shared => statement.effects,
            },
            ..statement
        }
    }

    /// Now, for comparing what clients know of statements with what servers hold.
    pub(crate) fn now(&self) -> Moment {
        self.clock
    }

    /// A client prepares or describes a statement: this comes after everything before.
    pub(crate) fn tick(&mut self) -> Moment {
        self.clock.0 += 1;
        self.clock
    }

    pub(crate) fn len(&self) -> usize {
        self.statements.len()
    }

    /// Bytes of the texts, for SHOW MEM.
    pub(crate) fn text_bytes(&self) -> usize {
        self.statements.iter().map(|s| s.0.query.len() + s.0.types.len()).sum()
    }
}

/// The statements the pooler makes for itself.
#[derive(Debug, pgweir_freeze::Freeze)]
pub(crate) struct OwnStatements {
    /// Names of what is none of these.
    pub(crate) names: OwnNames,
    /// Makes a setting; NULL resets it.
    pub(crate) set_config: Arc<Statement>,
    /// Begins the transaction of a deferred BEGIN.
    pub(crate) begin: Arc<Statement>,
    /// Keeps a setting's value in a custom setting (the third parameter) and makes the setting for this transaction.
    pub(crate) set_for_parse: Arc<Statement>,
    /// Gives a setting the value that was kept.
    pub(crate) set_back: Arc<Statement>,
    /// As `set_config`, for the transaction only; tells name and value from before.
    pub(crate) set_config_local: Arc<Statement>,
    /// Begins a transaction that no default of the session's can hold up.
    pub(crate) begin_plain: Arc<Statement>,
    /// Ends it.
    pub(crate) commit: Arc<Statement>,
    /// One row: what ties the session to its server, a column for each of [`crate::state::pins::PROBED`], and whether it has a
    /// schema for temporary objects; the parameters say whether to look for locks, and which statements of SQL-level PREPARE
    /// can be made again anywhere.
    pub(crate) probe_pins: Arc<Statement>,
    /// Name and value of every setting the session has made; the parameter names those that pg_settings does not show.
    pub(crate) probe_settings: Arc<Statement>,
    /// Forgets what the session has drawn from sequences.
    pub(crate) discard_sequences: Arc<Statement>,
    /// Every channel that the session listens to.
    pub(crate) listening_channels: Arc<Statement>,
    /// Routines of the database, and what runs them: see [`crate::statements::catalog_query`].
    pub(crate) catalog_objects: Arc<Statement>,
    /// The source of routines.
    pub(crate) catalog_sources: Arc<Statement>,
    /// A name for what is used once: whatever it means is closed in front of each use. By itself, no statement at all.
    pub(crate) scratch: Arc<Statement>,
}

/// See [`OwnStatements::probe_pins`]. Temporary objects of every kind depend on their schema (recording E11).
const PROBE_PINS: &str = "SELECT \
    EXISTS (SELECT FROM pg_catalog.pg_depend d \
        WHERE d.refclassid OPERATOR(pg_catalog.=) 'pg_catalog.pg_namespace'::pg_catalog.regclass \
        AND d.refobjid OPERATOR(pg_catalog.=) pg_catalog.pg_my_temp_schema()), \
    CASE WHEN $1 THEN EXISTS (SELECT FROM pg_catalog.pg_locks l \
        WHERE l.locktype OPERATOR(pg_catalog.=) 'advisory' \
        AND l.pid OPERATOR(pg_catalog.=) pg_catalog.pg_backend_pid()) ELSE false END, \
    EXISTS (SELECT FROM pg_catalog.pg_cursors c WHERE c.is_holdable), \
    EXISTS (SELECT FROM pg_catalog.pg_listening_channels()), \
    EXISTS (SELECT FROM pg_catalog.pg_prepared_statements p \
        WHERE p.from_sql AND p.name OPERATOR(pg_catalog.<>) ALL ($2)), \
    pg_catalog.pg_my_temp_schema() OPERATOR(pg_catalog.<>) 0";

/// See [`OwnStatements::probe_settings`].
const PROBE_SETTINGS: &str = "SELECT s.name, s.setting FROM pg_catalog.pg_settings s \
    WHERE s.source OPERATOR(pg_catalog.=) 'session' \
    UNION ALL SELECT n, pg_catalog.current_setting(n, true) FROM pg_catalog.unnest($1) AS u(n)";

impl OwnStatements {
    pub(crate) fn new(names: &mut SecretNames) -> Self {
        let own_names = OwnNames::new(names);
        let mut own = |id, query: &[u8], types: &[u8]| {
            Arc::new(Statement {
                id,
                kind: Kind::Shared,
                is_private: false,
                name: names.of_statement(id),
                query: query.into(),
                types: types.into(),
                settings: ParseSettings::default(),
                verdict: pgweir_sql::Statement::Other,
                effects: pgweir_sql::Effects::NONE,
                infers: false,
                has_constants: false,
                keeps: true,
                may_return_rows: true,
            })
        };
        // Two parameters of type text (OID 25).
        let texts = [0, 2, 0, 0, 0, 25, 0, 0, 0, 25];
        OwnStatements {
            names: own_names,
            set_config: own(1, b"SELECT pg_catalog.set_config($1, $2, false)", &texts),
            begin: own(2, b"BEGIN", &[0, 0]),
            set_config_local: own(
                3,
                b"SELECT $1, pg_catalog.current_setting($1), pg_catalog.set_config($1, $2, true)",
                &texts,
            ),
            begin_plain: own(
                4,
                b"BEGIN TRANSACTION ISOLATION LEVEL READ COMMITTED NOT DEFERRABLE",
                &[0, 0],
            ),
            commit: own(5, b"COMMIT", &[0, 0]),
            // Parameters of types bool (OID 16) and text[] (OID 1009).
            probe_pins: own(6, PROBE_PINS.as_bytes(), &[0, 2, 0, 0, 0, 16, 0, 0, 3, 0xf1]),
            // One parameter of type text[] (OID 1009).
            probe_settings: own(7, PROBE_SETTINGS.as_bytes(), &[0, 1, 0, 0, 3, 0xf1]),
            discard_sequences: own(12, b"DISCARD SEQUENCES", &[0, 0]),
            listening_channels: own(8, b"SELECT c FROM pg_catalog.pg_listening_channels() AS c", &[0, 0]),
            catalog_objects: own(9, crate::statements::catalog_query::OBJECTS.as_bytes(), &[0, 0]),
            catalog_sources: own(10, crate::statements::catalog_query::SOURCES.as_bytes(), &[0, 0]),
            scratch: own(11, b"", &[0, 0]),
            set_for_parse: own(
                14,
                b"SELECT pg_catalog.set_config($3, pg_catalog.current_setting($1), true), \
                  pg_catalog.set_config($1, $2, true)",
                &[0, 3, 0, 0, 0, 25, 0, 0, 0, 25, 0, 0, 0, 25],
            ),
            set_back: own(
                15,
                b"SELECT pg_catalog.set_config($1, pg_catalog.current_setting($2), true)",
                &texts,
            ),
        }
    }
}

/// A client's name for a statement, in the client's encoding.
pub(crate) type StatementName = Box<[u8]>;

/// What a client's name for a statement means.
#[derive(Debug, Clone, pgweir_freeze::Freeze)]
pub(crate) struct Meaning {
    pub(crate) statement: Arc<Statement>,
    /// When the client prepared it, or was told its rows last.
    pub(crate) since: Moment,
    /// When the client prepared it.
    pub(crate) made: Moment,
    /// The types of its parameters, where Parse left one open and the server has told them.
    pub(crate) types: Option<Types>,
    /// The rows that Describe has told the client.
    pub(crate) told: Option<Rows>,
    /// It was Describe of a portal that told them. Drivers differ in whether they describe each portal, or keep in mind what
    /// the first was like.
    pub(crate) told_by_portal: bool,
    /// The same statement as servers know it by this name, once SQL has come to it.
    pub(crate) own: Option<Arc<Statement>>,
}

impl Meaning {
    pub(crate) fn new(statement: Arc<Statement>, since: Moment) -> Self {
        Meaning {
            statement,
            since,
            made: since,
            types: None,
            told: None,
            told_by_portal: false,
            own: None,
        }
    }

    /// Parameter types with which it must be prepared again.
    pub(crate) fn types(&self) -> &[u8] {
        self.types.as_ref().map_or(&self.statement.types, Types::bytes)
    }

    /// The statement as servers know it by its client's name for it, if SQL has come to it.
    pub(crate) fn as_own(&self) -> Option<&Arc<Statement>> {
        Some(&self.statement).filter(|s| s.is_own()).or(self.own.as_ref())
    }
}

/// A portal that the client has not been told the rows of.
#[derive(Debug, pgweir_freeze::Freeze)]
pub(crate) struct Bound {
    pub(crate) portal: Box<[u8]>,
    /// The client's name for its statement, and the statement's id.
    pub(crate) name: StatementName,
    pub(crate) statement: u64,
}

/// A client's names for its statements.
#[derive(Debug, Default, pgweir_freeze::Freeze)]
pub(crate) struct Names {
    names: HashMap<Box<[u8]>, Meaning, RandomState>,
    /// How many were made by SQL-level PREPARE.
    by_sql: usize,
    /// How many are of letters that a text may spell in other ways than it seems.
    odd: usize,
    /// How many begin a transaction block.
    beginning: usize,
}

/// Bytes of a name that SQL knows: NAMEDATALEN - 1.
const NAME_BYTES_MAX: usize = 63;

/// Whether a text that names a statement spells its name as it is, or in another case of ASCII letters.
fn is_spelled_plainly(name: &[u8]) -> bool {
    (1..=NAME_BYTES_MAX).contains(&name.len()) && name.iter().all(|b| b.is_ascii() && !matches!(b, b'"' | b'\\'))
}

impl Names {
    #[inline]
    pub(crate) fn get(&self, name: &[u8]) -> Option<&Meaning> {
        self.names.get(name)
    }

    /// Whether one of them begins a transaction block.
    #[inline]
    pub(crate) fn some_begin_block(&self) -> bool {
        self.beginning > 0
    }

    /// Names and what they mean, in no order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&[u8], &Arc<Statement>)> {
        self.names.iter().map(|(name, m)| (&**name, &m.statement))
    }

    pub(crate) fn get_mut(&mut self, name: &[u8]) -> Option<&mut Meaning> {
        self.names.get_mut(name)
    }

    /// A name for the statement with this id: the first in order where there are several, so that it is always the same.
    pub(crate) fn name_of(&self, id: u64) -> Option<(&[u8], &Arc<Statement>)> {
        let named = self.names.iter().filter(|(_, m)| m.statement.id == id);
        named
            .map(|(name, m)| (&**name, &m.statement))
            .min_by_key(|(name, _)| *name)
    }

    /// Gives a name its meaning, or none; returns what it meant before.
    pub(crate) fn set(&mut self, name: &[u8], meaning: Option<Meaning>) -> Option<Meaning> {
        let odd = usize::from(!is_spelled_plainly(name));
        let by_sql = |m: &Option<Meaning>| m.as_ref().map(|m| usize::from(m.statement.kind == Kind::Sql));
        let begins = |m: &Option<Meaning>| usize::from(m.as_ref().is_some_and(|m| m.statement.begins_block()));
        let gained = by_sql(&meaning);
        let beginning = self.beginning + begins(&meaning);
        let before = match meaning {
            Some(meaning) => self.names.insert(name.into(), meaning),
            None => self.names.remove(name),
        };
        let lost = by_sql(&before);
        self.beginning = beginning - begins(&before);
        self.by_sql = self.by_sql + gained.unwrap_or(0) - lost.unwrap_or(0);
        self.odd = self.odd + gained.map_or(0, |_| odd) - lost.map_or(0, |_| odd);
        before
    }

    /// The names that a text may mention: `false` only of those that it certainly does not. One pass over the text and one
    /// look-up for each of its words, however many names there are.
    pub(crate) fn mentioned_in(&self, text: &[u8]) -> Vec<Box<[u8]>> {
        let mut found: HashSet<&[u8], RandomState> = HashSet::default();
        if text.windows(2).any(|w| w.eq_ignore_ascii_case(b"u&")) {
            // What an escape spells is not looked into.
            return self.names.keys().cloned().collect();
        }
        let mut look_up = |word: &[u8]| {
            let word = &word[..word.len().min(NAME_BYTES_MAX)];
            found.extend(self.names.get_key_value(word).map(|(name, _)| &**name));
            let folded = word.to_ascii_lowercase();
            found.extend(self.names.get_key_value(&*folded).map(|(name, _)| &**name));
        };
        let is_word = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'$') || !b.is_ascii();
        text.split(|b| !is_word(b))
            .filter(|w| !w.is_empty())
            .for_each(&mut look_up);
        // An identifier in quotes stands between two of them that follow each other.
        text.split(|&b| b == b'"')
            .filter(|w| !w.is_empty())
            .for_each(&mut look_up);
        if self.odd > 0 {
            let odd = self.names.keys().filter(|name| !is_spelled_plainly(name));
            found.extend(odd.map(|name| &**name));
        }
        found.into_iter().map(Into::into).collect()
    }

    /// The names that SQL-level PREPARE has made.
    pub(crate) fn made_by_sql(&self) -> Vec<Box<[u8]>> {
        if self.by_sql == 0 {
            return Vec::new();
        }
        let by_sql = self.names.iter().filter(|(_, m)| m.statement.kind == Kind::Sql);
        by_sql.map(|(name, _)| name.clone()).collect()
    }

    /// All names.
    pub(crate) fn all(&self) -> Vec<Box<[u8]>> {
        self.names.keys().cloned().collect()
    }

    /// The order in which the client prepared what these names mean.
    pub(crate) fn in_order(&self, names: &mut [Box<[u8]>]) {
        names.sort_by_cached_key(|name| self.names.get(name).map(|m| m.made));
    }

    /// Forgets all names but those in `names`.
    pub(crate) fn keep_only(&mut self, names: &HashSet<Box<[u8]>>) {
        for name in self.all() {
            if !names.contains(&name) {
                self.set(&name, None);
            }
        }
    }

    pub(crate) fn take_all(&mut self) -> Vec<(Box<[u8]>, Meaning)> {
        std::mem::take(self).names.into_iter().collect()
    }

    pub(crate) fn len(&self) -> usize {
        self.names.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings() -> ParseSettings {
        ParseSettings::default()
    }

    #[test]
    fn same_content_is_one_statement_and_any_difference_is_another() {
        let mut table = StatementTable::new(SecretNames::new([0; 32]));
        let a = table.intern(b"select $1", &[0, 0], &settings());
        assert_eq!(table.intern(b"select $1", &[0, 0], &settings()).id, a.id);
        assert_ne!(table.intern(b"select $1", &[0, 1, 0, 0, 0, 23], &settings()).id, a.id);
        assert_ne!(table.intern(b"select $2", &[0, 0], &settings()).id, a.id);
        let other = ParseSettings::new([("DateStyle", "SQL, DMY")]);
        assert_ne!(table.intern(b"select $1", &[0, 0], &other).id, a.id);
    }

    #[test]
    fn a_text_mentions_what_it_spells_in_any_case() {
        let mentions = |text: &str, name: &[u8]| {
            let mut names = Names::default();
            let mut table = StatementTable::new(SecretNames::new([0; 32]));
            let statement = table.intern(b"select 1", &[0, 0], &settings());
            names.set(b"another", Some(Meaning::new(statement.clone(), Moment(1))));
            names.set(name, Some(Meaning::new(statement, Moment(2))));
            names.mentioned_in(text.as_bytes()) == [Box::from(name)]
        };
        assert!(mentions("execute S1 (2)", b"s1"));
        assert!(mentions("execute \"Mixed Case\"", b"Mixed Case"));
        assert!(mentions("execute \"a\"\"b\"", b"a\"b"));
        assert!(mentions("execute é", "É".as_bytes()));
        assert!(!mentions("execute s2", b"s1"));
        assert!(!mentions("execute s11", b"s1"));
        assert!(!mentions("execute _s1", b"s1"));
        assert!(mentions("execute 'it\"s' \"x y\"", b"x y"));
        let long = "x".repeat(80);
        assert!(mentions(&format!("execute {}", &long[..63]), long.as_bytes()));
    }

    #[test]
    fn constants_are_found() {
        for text in [
            "select 'x'",
            "select $$x$$",
            "select a = NULL",
            "select xmlparse(document $1)",
        ] {
            assert!(has_constants(text.as_bytes()), "{text}");
        }
        assert!(!has_constants(b"select a, 1.5 from t where b = $1") && !has_constants(b"commit"));
    }

    #[test]
    fn what_returns_no_rows_is_known_by_its_text() {
        for text in [
            "select 1",
            "with x as (select 1) insert into t table x",
            "Update t set a=1 Returning a",
            "",
            "fetch c",
        ] {
            assert!(may_return_rows(text.as_bytes()), "{text}");
        }
        for text in ["insert into t values (1)", "  UPDATE t SET a = 1", "delete from t"] {
            assert!(!may_return_rows(text.as_bytes()), "{text}");
        }
    }

    #[test]
    fn a_flood_of_unique_statements_does_not_grow_the_table() {
        let mut table = StatementTable::new(SecretNames::new([0; 32]));
        let kept = table.intern(b"kept", &[0, 0], &settings());
        for n in 0..10_000 {
            table.intern(format!("select {n}").as_bytes(), &[0, 0], &settings());
        }
        assert!(table.len() <= SWEEP_STATEMENTS_MIN);
        assert_eq!(table.intern(b"kept", &[0, 0], &settings()).id, kept.id);
    }
}
