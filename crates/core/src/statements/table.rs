//! One table of prepared statements for all clients: statements with the same content are one object. A statement lives
//! as long as a client has a name for it or a server holds it.

use crate::base::secret_names::SecretNames;
use crate::statements::held::Moment;
use crate::statements::parse_settings::ParseSettings;
use crate::statements::prepared::{INTERNAL_ID_MAX, Kind, Statement, kept};
use foldhash::fast::RandomState;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

#[derive(Debug, Clone, pgweir_freeze::Freeze)]
struct ByContent(Arc<Statement>);

impl Hash for ByContent {
    fn hash<H: Hasher>(&self, state: &mut H) {
        Content {
            client_name: self.0.client_name(),
            query: &self.0.query,
            types: &self.0.types,
            settings: &self.0.settings,
        }
        .hash(state);
    }
}

impl PartialEq for ByContent {
    fn eq(&self, other: &Self) -> bool {
        self.0.client_name() == other.0.client_name()
            && self.0.matches(&other.0.query, &other.0.types, &other.0.settings)
    }
}

impl Eq for ByContent {}

#[derive(Hash)]
struct Content<'a> {
    /// See [`Statement::client_name`].
    client_name: Option<(Kind, &'a [u8])>,
    query: &'a [u8],
    types: &'a [u8],
    settings: &'a ParseSettings,
}

impl hashbrown::Equivalent<ByContent> for Content<'_> {
    fn equivalent(&self, key: &ByContent) -> bool {
        key.0.client_name() == self.client_name && key.0.matches(self.query, self.types, self.settings)
    }
}

/// Every statement that a client has a name for or a server holds.
#[derive(Debug, pgweir_freeze::Freeze)]
pub(crate) struct StatementTable {
    statements: hashbrown::HashSet<ByContent, RandomState>,
    next_id: u64,
    clock: Moment,
    /// With so many statements the table is swept for those that are no longer used.
    sweep_at: usize,
    /// Bytes of the texts that may still come before the table is swept.
    bytes_before_sweep: usize,
    names: SecretNames,
}

/// The table is not swept below this many statements, unless [`SWEEP_BYTES_MIN`] have come.
const SWEEP_STATEMENTS_MIN: usize = 256;

/// The table is not swept before so many bytes of texts have come, unless there are too many statements.
const SWEEP_BYTES_MIN: usize = 16 << 20;

impl StatementTable {
    pub(crate) fn new(names: SecretNames) -> Self {
        StatementTable {
            names,
            statements: hashbrown::HashSet::default(),
            next_id: INTERNAL_ID_MAX + 1,
            clock: Moment(1),
            sweep_at: SWEEP_STATEMENTS_MIN,
            bytes_before_sweep: SWEEP_BYTES_MIN,
        }
    }

    /// The statement with this content.
    pub(crate) fn intern(&mut self, query: &[u8], types: &[u8], settings: &ParseSettings) -> Arc<Statement> {
        let content = Content {
            client_name: None,
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
        self.sweep(content.query.len() + content.types.len());
        let statement = Arc::new(make(self));
        self.statements.insert(ByContent(statement.clone()));
        statement
    }

    /// Forgets the statements that are no longer used, if there are twice as many statements or bytes of texts as were
    /// left the last time. `bytes`: those of the text that comes.
    fn sweep(&mut self, bytes: usize) {
        if self.statements.len() >= self.sweep_at || self.bytes_before_sweep < bytes {
            self.statements.retain(|s| Arc::strong_count(&s.0) > 1);
            self.sweep_at = (self.statements.len() * 2).max(SWEEP_STATEMENTS_MIN);
            self.statements.shrink_to(self.sweep_at);
            self.bytes_before_sweep = self.text_bytes().max(SWEEP_BYTES_MIN);
        }
        self.bytes_before_sweep = self.bytes_before_sweep.saturating_sub(bytes);
    }

    /// A statement with this content that is not shared, because the settings that it was parsed under are not known
    /// for certain.
    pub(crate) fn intern_for_one(&mut self, query: &[u8], types: &[u8], settings: &ParseSettings) -> Arc<Statement> {
        Arc::new(self.make(query, types, settings, true))
    }

    /// The same statement, for one client, as it is read behind a SET that may have changed its settings.
    pub(crate) fn intern_behind_set(&mut self, statement: &Statement) -> Arc<Statement> {
        let settings = statement.settings.behind_set();
        let made = self.make(&statement.query, &statement.types, &settings, true);
        Arc::new(match statement.is_client_named() {
            true => made.known_as(statement.kind, statement.server_name()),
            false => made,
        })
    }

    /// The same statement with these parameter types; it is shared if `statement` is.
    pub(crate) fn intern_with_types(&mut self, statement: &Statement, types: &[u8]) -> Arc<Statement> {
        match statement.is_private {
            true => self.intern_for_one(&statement.query, types, &statement.settings),
            false => self.intern(&statement.query, types, &statement.settings),
        }
    }

    /// The same statement after its client was told these parameter types.
    pub(crate) fn intern_as_told(&mut self, statement: &Statement, types: &[u8]) -> Arc<Statement> {
        match statement.may_refuse_told_types() {
            true => {
                let made = self.make(&statement.query, types, &statement.settings, true);
                Arc::new(made.parsed_with(&statement.types))
            }
            false => self.intern_with_types(statement, types),
        }
    }

    fn make(&mut self, query: &[u8], types: &[u8], settings: &ParseSettings, is_private: bool) -> Statement {
        let id = self.next_id;
        self.next_id += 1;
        Statement::new(id, self.names.of_statement(id), query, types, settings, is_private)
    }

    /// The statement with this content under a client's name. It is shared by clients that use the same name, as
    /// clients of one program do, unless it `is_private` or means something else at each Parse.
    pub(crate) fn intern_client_named(
        &mut self,
        kind: Kind,
        name: &[u8],
        query: &[u8],
        types: &[u8],
        settings: &ParseSettings,
        is_private: bool,
    ) -> Arc<Statement> {
        let name = kept(name);
        if is_private {
            return Arc::new(self.make(query, types, settings, true).known_as(kind, name));
        }
        let content = Content {
            client_name: Some((kind, name)),
            query,
            types,
            settings,
        };
        let shared = self.shared(&content, |table| {
            table.make(query, types, settings, false).known_as(kind, name)
        });
        match shared.reads_clock {
            true => Arc::new(self.make(query, types, settings, true).known_as(kind, name)),
            false => shared,
        }
    }

    /// The present moment, for comparing clients' names with servers' copies.
    pub(crate) fn now(&self) -> Moment {
        self.clock
    }

    /// The next moment: a client prepares or describes a statement.
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
    fn a_flood_of_unique_statements_does_not_grow_the_table() {
        let mut table = StatementTable::new(SecretNames::new([0; 32]));
        let kept = table.intern(b"kept", &[0, 0], &settings());
        for n in 0..10_000 {
            table.intern(format!("select {n}").as_bytes(), &[0, 0], &settings());
        }
        assert!(table.len() <= SWEEP_STATEMENTS_MIN);
        assert_eq!(table.intern(b"kept", &[0, 0], &settings()).id, kept.id);
    }

    #[test]
    fn a_flood_of_long_statements_beside_many_short_ones_does_not_grow_the_table() {
        let mut table = StatementTable::new(SecretNames::new([0; 32]));
        let short: Vec<_> = (0..3000)
            .map(|n| table.intern(format!("select {n}").as_bytes(), &[0, 0], &settings()))
            .collect();
        let padding = "x".repeat(1 << 20);
        for n in 0..100 {
            table.intern(format!("select '{n}{padding}'").as_bytes(), &[0, 0], &settings());
            assert!(table.text_bytes() <= SWEEP_BYTES_MIN + (1 << 21));
        }
        assert!(table.len() >= short.len());
    }
}
