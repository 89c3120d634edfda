//! One prepared statement: its identity, and what is known of it by its text.
//!
//! A statement's identity is its text, its parameter types and every setting that changes how text is parsed (recording
//! E12: a constant folded under one DateStyle stays folded). Each client gives its statements names; servers know the
//! statements by internal names.

use crate::statements::ends::{Does, Ends};
use crate::statements::parameter_types;
use crate::statements::parse_settings::ParseSettings;

/// The effects of a text that was not read, or that may have been misread.
pub(crate) const UNREAD: pgweir_sql::Effects = pgweir_sql::UNREAD
    .union(pgweir_sql::Effects::SETTINGS)
    .union(pgweir_sql::Effects::ENDS)
    .union(pgweir_sql::Effects::DEFINES);

/// The longest name that PostgreSQL keeps, bytes: NAMEDATALEN - 1.
pub(crate) const NAME_BYTES_MAX: usize = pgweir_sql::IDENTIFIER_BYTES_MAX;

/// What PostgreSQL keeps of a statement's name in a message: its first bytes, even if they end within a character.
pub(crate) fn kept(name: &[u8]) -> &[u8] {
    &name[..name.len().min(NAME_BYTES_MAX)]
}

/// Ids up to this are those of internal statements; they do not count in `max_prepared_statements`.
pub(crate) const INTERNAL_ID_MAX: u64 = 16;

/// By which name servers know a statement, and how it is prepared there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, pgweir_freeze::Freeze)]
pub(crate) enum Kind {
    /// Under an internal name, by Parse.
    Shared,
    /// Under the client's name, by Parse, for SQL that names it (see [`crate::preparing::client_named`]).
    ClientNamed,
    /// Under the client's name, by SQL-level PREPARE, which is its query text.
    Sql,
}

/// The longest text of a prepared EXECUTE that is searched for names.
const NAMING_BYTES_MAX: usize = 4096;

/// One statement. Unless it is private, all clients that prepare the same share it.
#[derive(Debug, pgweir_freeze::Freeze)]
pub(crate) struct Statement {
    /// Never used twice in a process.
    pub(crate) id: u64,
    pub(crate) kind: Kind,
    /// It is in no table: only one client has it.
    pub(crate) is_private: bool,
    /// See [`Statement::server_name`].
    name: Box<[u8]>,
    pub(crate) query: Box<[u8]>,
    /// Parameter types as in Parse: count and OIDs.
    pub(crate) types: Box<[u8]>,
    /// The types that the client's own Parse gave, where PostgreSQL may refuse those that it has told (`types`): see
    /// [`crate::preparing::told_types`].
    pub(crate) own_types: Option<Box<[u8]>>,
    /// The settings that the statement was parsed under.
    pub(crate) settings: ParseSettings,
    /// What kind of statement the text is.
    pub(crate) verdict: pgweir_sql::Statement,
    /// What the text may do to the session.
    pub(crate) effects: pgweir_sql::Effects,
    /// The server infers the type of a parameter: see [`crate::statements::parameter_types`].
    pub(crate) infers: bool,
    /// Settings may change the meaning of something in its text: a string, or a comparison with NULL.
    pub(crate) has_constants: bool,
    /// The text may contain a date or time such as `'today'`, which PostgreSQL reads when it parses the statement.
    pub(crate) reads_clock: bool,
    /// An existing copy may answer a Parse: nothing in the copy can become outdated without PostgreSQL noticing it.
    pub(crate) keeps: bool,
    /// By its text the statement may return rows. A statement without rows has no result that DDL could change.
    pub(crate) may_return_rows: bool,
    /// The statement only reads rows, and locks none.
    pub(crate) only_reads: bool,
}

impl Statement {
    /// Keeps what the text says about the statement. `name` is the internal name.
    pub(crate) fn new(
        id: u64,
        name: Box<[u8]>,
        query: &[u8],
        types: &[u8],
        settings: &ParseSettings,
        is_private: bool,
    ) -> Self {
        let has_constants = pgweir_sql::has_constants(query);
        Statement {
            id,
            kind: Kind::Shared,
            is_private,
            name,
            query: query.into(),
            types: types.into(),
            own_types: None,
            settings: settings.clone(),
            verdict: pgweir_sql::classify(query),
            effects: match settings.hides_ascii() && pgweir_sql::may_hide_ascii(query) {
                true => UNREAD,
                false => effects(query),
            },
            infers: parameter_types::are_inferred(query, types),
            has_constants,
            reads_clock: has_constants && pgweir_sql::reads_clock(query),
            keeps: !pgweir_sql::may_name_types(query),
            may_return_rows: pgweir_sql::may_return_rows(query),
            only_reads: pgweir_sql::class_of_read(query).is_some(),
        }
    }

    /// The same statement under its client's name.
    pub(crate) fn known_as(self, kind: Kind, name: &[u8]) -> Self {
        let (verdict, effects) = match kind {
            // The PREPARE has run; this is the statement that it has prepared.
            Kind::Sql => (
                pgweir_sql::Statement::Other,
                self.effects.without(pgweir_sql::Effects::PREPARE),
            ),
            Kind::ClientNamed | Kind::Shared => (self.verdict, self.effects),
        };
        Statement {
            kind,
            name: name.into(),
            verdict,
            effects,
            ..self
        }
    }

    /// An internal statement. Its text is not examined, because no client has written it.
    pub(crate) fn internal(id: u64, name: Box<[u8]>, query: &[u8], types: &[u8]) -> Self {
        Statement {
            id,
            kind: Kind::Shared,
            is_private: false,
            name,
            query: query.into(),
            types: types.into(),
            own_types: None,
            settings: ParseSettings::default(),
            verdict: pgweir_sql::Statement::Other,
            effects: pgweir_sql::Effects::NONE,
            infers: false,
            has_constants: false,
            reads_clock: false,
            keeps: true,
            may_return_rows: true,
            only_reads: false,
        }
    }

    /// The same statement, which was prepared with these types, and then told to have others.
    pub(crate) fn parsed_with(self, own_types: &[u8]) -> Self {
        Statement {
            own_types: Some(own_types.into()),
            ..self
        }
    }

    /// Whether PostgreSQL may refuse the statement if it is given the types that it has told itself.
    pub(crate) fn may_refuse_told_types(&self) -> bool {
        self.infers && pgweir_sql::casts_to_unknown(&self.query)
    }

    /// The name by which servers know the statement.
    #[inline]
    pub(crate) fn server_name(&self) -> &[u8] {
        &self.name
    }

    /// Whether the statement may execute or end prepared statements itself.
    pub(crate) fn names_statements(&self) -> bool {
        self.effects.intersects(pgweir_sql::Effects::PREPARE)
    }

    /// The text, if it may name prepared statements and is short enough to be searched for names.
    pub(crate) fn naming_text(&self) -> Option<&[u8]> {
        let is_short = self.query.len() <= NAMING_BYTES_MAX;
        (self.names_statements() && is_short).then_some(&self.query)
    }

    /// How the statement is prepared, and its name, if it is client-named.
    pub(crate) fn client_name(&self) -> Option<(Kind, &[u8])> {
        self.is_client_named().then_some((self.kind, self.server_name()))
    }

    /// Whether the value given for this parameter (`$1` is 1), which names a setting, is the name as it stands.
    pub(crate) fn is_given_as_text(&self, number: u16) -> bool {
        let oid = parameter_types::oids(&self.types).get(usize::from(number).wrapping_sub(1));
        pgweir_sql::is_given_as_text(&self.query, number, oid.map_or(0, |oid| u32::from_be_bytes(*oid)))
    }

    pub(crate) fn is_client_named(&self) -> bool {
        self.kind != Kind::Shared
    }

    /// Whether the statement is a bare BEGIN or START TRANSACTION.
    #[inline]
    pub(crate) fn begins_block(&self) -> bool {
        use pgweir_sql::Statement::{Begin, StartTransaction};
        matches!(self.verdict, Begin | StartTransaction)
    }

    /// Whether the statement ends prepared statements.
    #[inline]
    pub(crate) fn ends_some(&self) -> bool {
        use pgweir_sql::Statement::{Deallocate, DeallocateAll, DiscardAll};
        matches!(self.verdict, DeallocateAll | DiscardAll | Deallocate(_))
    }

    /// What an Execute of it does, if it needs care. `looks`: texts are read for what they do to the session.
    #[inline(always)]
    pub(crate) fn does(&self, looks: bool) -> Option<Does> {
        match self.verdict {
            pgweir_sql::Statement::Other => None,
            _ => self.done_by_verdict(looks),
        }
    }

    #[cold]
    fn done_by_verdict(&self, looks: bool) -> Option<Does> {
        let returns = (looks && !self.effects.is_empty()).then(|| pgweir_sql::Returns::of(&self.verdict, &self.query));
        Does::of(self.ends(), returns.flatten())
    }

    /// The prepared statements or channels that the statement ends.
    fn ends(&self) -> Option<Ends> {
        use pgweir_sql::Statement::{Deallocate, DeallocateAll, DiscardAll, Unlisten, UnlistenAll};
        match &self.verdict {
            DeallocateAll | DiscardAll => Some(Ends::All),
            Deallocate(name) => Some(Ends::Name(name.clone())),
            Unlisten(channel) => Some(Ends::Channels(Some(channel.clone()))),
            UnlistenAll => Some(Ends::Channels(None)),
            _ => None,
        }
    }

    /// Whether a Parse with this text, types and settings means this statement.
    pub(crate) fn matches(&self, query: &[u8], types: &[u8], settings: &ParseSettings) -> bool {
        *self.query == *query && *self.types == *types && self.settings == *settings
    }
}

/// What a statement may do to the session. A statement with any effect is looked at in each Bind.
fn effects(query: &[u8]) -> pgweir_sql::Effects {
    let clears = pgweir_sql::may_need_database_alone(query) && pgweir_sql::database_needed_alone(query).is_some();
    let shows_custom = || pgweir_sql::setting_shown(query).is_some_and(|name| name.contains(&b'.'));
    let looked_at = if clears || pgweir_sql::is_signal(query) || shows_custom() {
        pgweir_sql::Effects::CURRENT_SETTING
    } else {
        pgweir_sql::Effects::NONE
    };
    crate::base::secret_names::effects_of(query) | looked_at
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Guards against a Bind that takes the short way although a custom setting of other sessions would show.
    #[test]
    fn a_statement_that_shows_a_custom_setting_is_looked_at() {
        for text in ["show app.x", " Show app.x ;", "show \"App\".x"] {
            assert!(!effects(text.as_bytes()).is_empty(), "{text}");
        }
        for text in ["show datestyle", "show all", "select 1.5", "show"] {
            assert!(effects(text.as_bytes()).is_empty(), "{text}");
        }
    }
}
