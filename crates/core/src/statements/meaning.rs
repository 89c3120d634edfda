//! What a client's name for a prepared statement means.

use crate::statements::held::Moment;
use crate::statements::parameter_types::Types;
use crate::statements::prepared::Statement;
use crate::statements::rows::Rows;
use std::sync::Arc;

/// What a client's name for a statement means.
#[derive(Debug, Clone, pgweir_freeze::Freeze)]
pub(crate) struct Meaning {
    statement: Arc<Statement>,
    /// The later of two moments: when the client prepared it, and when the client was last told its rows.
    since: Moment,
    /// When the client prepared it.
    made: Moment,
    /// When names last came to mean other objects before the client prepared it. A copy from before that moment may
    /// mean other objects.
    names: Moment,
    /// The types of its parameters, if Parse left one open and the server has told them.
    types: Option<Types>,
    /// The rows that Describe has told the client.
    told: Option<Rows>,
    /// A Describe of a portal has told the rows. Some drivers describe each portal; others rely on the first
    /// description.
    told_by_portal: bool,
    /// No server has parsed the statement for this client yet, and its text may mean something else than when another
    /// client prepared it: a server parses it before its first use.
    is_unparsed: bool,
    /// The statement that servers hold under this name, if SQL has named it.
    client_named: Option<Arc<Statement>>,
}

impl Meaning {
    /// `names` as in [`Meaning::names_moved`].
    pub(crate) fn new(statement: Arc<Statement>, since: Moment, names: Moment) -> Self {
        Meaning {
            statement,
            since,
            made: since,
            names,
            types: None,
            told: None,
            told_by_portal: false,
            is_unparsed: false,
            client_named: None,
        }
    }

    #[inline(always)]
    pub(crate) fn statement(&self) -> &Arc<Statement> {
        &self.statement
    }

    /// The same statement in another form: of other types, not shared, or client-named.
    pub(crate) fn becomes(&mut self, statement: Arc<Statement>) {
        self.statement = statement;
    }

    /// The later of two moments: when the client prepared it, and when the client was last told its rows.
    #[inline(always)]
    pub(crate) fn since(&self) -> Moment {
        self.since
    }

    /// When the client prepared it.
    pub(crate) fn made(&self) -> Moment {
        self.made
    }

    /// When names last came to mean other objects before the client prepared it. A copy from before that moment may
    /// mean other objects.
    #[inline(always)]
    pub(crate) fn names_moved(&self) -> Moment {
        self.names
    }

    /// Whether the name means the statement with this id, and meant it already at this moment.
    pub(crate) fn meant(&self, id: u64, at: Moment) -> bool {
        self.statement.id == id && self.made <= at
    }

    /// The rows that Describe has told the client.
    #[inline(always)]
    pub(crate) fn told(&self) -> Option<Rows> {
        self.told
    }

    /// Whether a Describe of a portal has told the rows. Some drivers describe each portal; others rely on the first
    /// description.
    #[inline(always)]
    pub(crate) fn is_told_by_portal(&self) -> bool {
        self.told_by_portal
    }

    /// A Describe is being sent, whose reply replaces the rows that the client was told before: returns these.
    pub(crate) fn is_described(&mut self, by_portal: bool) -> Option<Rows> {
        self.told_by_portal = by_portal;
        self.told.take()
    }

    /// The Describe was refused or ignored: what the client was told before counts again.
    pub(crate) fn is_not_described(&mut self, before: Option<Rows>) {
        self.told = self.told.or(before);
    }

    /// The server has told the client the rows. The Describe was sent at the moment `asked`.
    pub(crate) fn tells(&mut self, rows: Rows, asked: Moment) {
        self.told = Some(rows);
        self.since = self.since.max(asked);
    }

    /// Whether no server has parsed the statement for this client yet, and its text may mean something else than when
    /// another client prepared it: a server parses it before its first use.
    #[inline(always)]
    pub(crate) fn is_unparsed(&self) -> bool {
        self.is_unparsed
    }

    /// The client's Parse was answered by the pooler itself.
    pub(crate) fn is_parsed_by_nobody(&mut self) {
        self.is_unparsed = self.statement.infers || !self.statement.keeps;
    }

    /// A server has parsed it for this client, and has told the types of its parameters.
    pub(crate) fn is_parsed(&mut self, types: Types) {
        self.is_unparsed = false;
        if self.statement.infers {
            self.types.get_or_insert(types);
        }
    }

    /// The types that the server has told, if Parse left one open.
    #[inline(always)]
    pub(crate) fn told_types(&self) -> Option<&Types> {
        self.types.as_ref()
    }

    /// SQL names the statement: servers hold it under the client's name in this form.
    pub(crate) fn is_named_by_sql(&mut self, named: Arc<Statement>) {
        if self.statement.is_client_named() {
            self.statement = named;
        } else {
            self.client_named = Some(named);
        }
    }

    /// Whether servers hold the name's statement under this id.
    pub(crate) fn is_held_as(&self, id: u64) -> bool {
        self.statement.id == id || self.client_named.as_ref().is_some_and(|named| named.id == id)
    }

    /// The parameter types with which it is prepared again.
    pub(crate) fn types(&self) -> &[u8] {
        self.types.as_ref().map_or(&self.statement.types, Types::bytes)
    }

    /// The statement that servers hold under the client's name, if SQL has named it.
    pub(crate) fn as_client_named(&self) -> Option<&Arc<Statement>> {
        Some(&self.statement)
            .filter(|s| s.is_client_named())
            .or(self.client_named.as_ref())
    }
}
