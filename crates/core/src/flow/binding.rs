//! Bind where prepared statements are tracked: the server gets its own name of the statement, and holds it.

use crate::base::ids::ServerId;
use crate::base::message::{Message, Step};
use crate::base::outbox::Outbox;
use crate::base::pin_reason::PinReason;
use crate::base::weakness::Weakness;
use crate::exchange::{Exchange, Wish};
use crate::flow::extended_query::NAMES_BYTES_MAX;
use crate::preparing::replanning::Use;
use crate::statements::client_statements::Bound;
use crate::statements::prepared::{Statement, UNREAD};
use crate::upstream::entry::{Effect, Entry, Expect};
use pgweir_sql::Effects;
use pgweir_wire::HEADER_BYTES;
use pgweir_wire::frontend::BindNames;
use std::sync::Arc;

/// Writes the beginning of a Bind with the server's name of its statement; the part behind the names follows.
#[inline(always)]
pub(crate) fn write_bind(
    outbox: &mut Outbox,
    to: ServerId,
    message: &Message<'_>,
    names: &BindNames<'_>,
    statement: &Statement,
) {
    let server_name = statement.server_name();
    let length = message.total - 1 - names.wire_bytes() + names.portal.len() + server_name.len() + 2;
    outbox.insert(to.into(), |bytes| {
        let [a, b, c, d] = (length as u32).to_be_bytes();
        if names.portal.is_empty() {
            bytes.extend_from_slice(&[b'B', a, b, c, d, 0]);
        } else {
            bytes.extend_from_slice(&[b'B', a, b, c, d]);
            bytes.extend_from_slice(names.portal);
            bytes.push(0);
        }
        bytes.extend_from_slice(server_name);
        bytes.push(0);
    });
}

/// What was known before a statement with a name is prepared for its Bind.
struct Before {
    /// The client has not been told the statement's rows.
    untold: bool,
    /// The transaction block has failed, and the statement may end it.
    ends_failed: bool,
}

impl Exchange<'_> {
    pub(crate) fn bind(&mut self, message: &Message<'_>) -> Step {
        let step = self.bind_as_understood(message);
        if matches!(step, Step::Progress(_)) && self.client.statements.has_careful_portals() {
            self.client.statements.keeps_portal();
        }
        step
    }

    #[inline(always)]
    fn bind_as_understood(&mut self, message: &Message<'_>) -> Step {
        let names = match BindNames::read(message.body()) {
            Ok(names) => names,
            Err(_) if message.is_whole() => return self.plain(message, Expect::Bind),
            Err(_) if message.bytes.len() < NAMES_BYTES_MAX => return Step::NeedBytes,
            Err(error) => return self.fails(error.to_string(), "in the names of a Bind message".into()),
        };
        self.forgets_portals();
        if self.portal_is_in_doubt(names.portal) {
            return self.waits_for_replies();
        }
        let client = &mut *self.client;
        client.statements.take_untold_portal();
        let (mut statement, untold) = client.statements.of_bind(names.statement);
        let parsed_so = |s: &Arc<Statement>| s.settings.is_surely(client.session.shape().parse_settings());
        if !names.statement.is_empty() && statement.as_ref().is_some_and(|s| !parsed_so(s)) {
            statement = self.share_no_longer(names.statement);
        }
        let may_end_block = |s: &Arc<Statement>| pgweir_sql::may_end_block(&s.query);
        let ends_failed = self.server.conversation.is_surely_failed() && statement.as_ref().is_none_or(may_end_block);
        let looks = self.looks_at_texts();
        let does = statement.as_ref().and_then(|s| s.does(looks));
        self.client.statements.binds(names.portal, does);
        if !names.statement.is_empty()
            && self.may_run_unread(names.statement, statement.as_ref())
            && let Some(step) = self.unread_waits()
        {
            return step;
        }
        // What is sent to prepare other statements, or set for them, would be sent again after each wait.
        if self.may_be_replaced(statement.as_ref())
            && self.keeps_session()
            && !self.shared.is_weak(Weakness::LendsBeforeWaits)
            && let Some(step) = self.runs_any_code(UNREAD, message)
        {
            return step;
        }
        let knows_names = self.to().knows_names() || self.client.statements.cursors_may_list();
        if let Some(statement) = statement.as_ref().filter(|s| !s.effects.is_empty() || knows_names) {
            let statement = statement.clone();
            if let Some(step) = self.wishes_of_bound(&statement, &names, message) {
                return step;
            }
        }
        if names.statement.is_empty() {
            return self.bind_unnamed(message, statement.as_ref(), ends_failed);
        }
        self.bind_named(message, &names, statement, Before { untold, ends_failed })
    }

    /// Whether what a name means may be code that is not read. `statement` is what it means, if that is known.
    fn may_run_unread(&self, name: &[u8], statement: Option<&Arc<Statement>>) -> bool {
        match statement {
            Some(statement) => statement.settings.are_uncertain(),
            None => self.unknown_may_run(name),
        }
    }

    /// Whether code may have put another statement in the place of this one, which exists only on the server.
    fn may_be_replaced(&self, statement: Option<&Arc<Statement>>) -> bool {
        statement.is_some_and(|s| s.settings.are_uncertain() && self.server.held.may_be_replaced(s.id))
    }

    /// Bind of a statement with a name; `None`: it is not known.
    fn bind_named(
        &mut self,
        message: &Message<'_>,
        names: &BindNames<'_>,
        mut statement: Option<Arc<Statement>>,
        before: Before,
    ) -> Step {
        let describes_next = message.describes_next(names.portal);
        let described = describes_next == Some(true);
        match self.prepare_named(names.statement, Expect::Bind, described) {
            Use::GoesOn => {}
            Use::Becomes(other) => statement = Some(other),
            Use::Waits => return Step::Wait,
            Use::Refused(why) => return self.refuse_use(message, why),
        }
        let Some(statement) = statement else {
            return self.unknown_name(message, names.statement, Expect::Bind);
        };
        if self.may_be_replaced(Some(&statement))
            && let Some(step) = self.runs_unread(message)
        {
            return step;
        }
        self.to().may_change_settings(Some(&statement));
        if before.ends_failed {
            self.server.conversation.block_may_end();
        }
        if before.untold && describes_next != Some(false) && keeps_rows(&statement) {
            self.client.statements.portal_is_untold(Bound {
                portal: names.portal.into(),
                name: names.statement.into(),
                statement: statement.id,
            });
        }
        let entry = Entry::forward(Expect::Bind).using(statement.id);
        self.forward_bind(message, names, &statement, entry)
    }

    /// Bind of the unnamed statement; `None`: it is not known.
    fn bind_unnamed(
        &mut self,
        message: &Message<'_>,
        statement: Option<&Arc<Statement>>,
        ends_failed_block: bool,
    ) -> Step {
        if let Some(step) = self.prepare_unnamed() {
            return step;
        }
        if ends_failed_block {
            self.server.conversation.block_may_end();
        }
        if statement.is_none() && self.client.session.pins().contains(PinReason::LongStatement) {
            self.to().hide_statements(None);
        }
        self.to().may_change_settings(statement);
        self.pass_bind(message)
    }

    /// Passes a Bind on unchanged.
    pub(crate) fn pass_bind(&mut self, message: &Message<'_>) -> Step {
        let entry = self.of_portal(Entry::forward(Expect::Bind));
        self.pass_request(message, entry)
    }

    /// Adds what is undone if this Bind is refused or ignored.
    #[inline(always)]
    fn of_portal(&mut self, entry: Entry) -> Entry {
        match self.client.statements.take_replaced_portal() {
            None => entry,
            portal => entry.with(Effect {
                portal,
                ..Effect::default()
            }),
        }
    }

    /// Whether a Bind must wait because an earlier segment, which is not answered, may have bound this portal, and an
    /// Execute of the portal needs care.
    #[inline(always)]
    pub(crate) fn portal_is_in_doubt(&self, portal: &[u8]) -> bool {
        self.client.statements.does_by_portal(portal).is_some()
            && self.server.conversation.queue().client_segment_outstanding()
    }

    /// What a statement needs from other connections before it is bound, or from the server.
    fn wishes_of_bound(
        &mut self,
        statement: &Arc<Statement>,
        names: &BindNames<'_>,
        message: &Message<'_>,
    ) -> Option<Step> {
        if statement.effects.intersects(Effects::CURRENT_SETTING)
            && let Some(step) = self.wants_database_alone(&statement.query)
        {
            return Some(step);
        }
        if !self.granted.signal && pgweir_sql::is_signal(&statement.query) {
            return Some(self.wishes(Wish::Signal));
        }
        self.suspect_bound(statement, names, message)
    }

    /// Forwards a Bind with the server's name of its statement.
    #[inline(always)]
    fn forward_bind(
        &mut self,
        message: &Message<'_>,
        names: &BindNames<'_>,
        statement: &Statement,
        entry: Entry,
    ) -> Step {
        write_bind(&mut self.shared.outbox, self.server_id, message, names, statement);
        let entry = self.of_portal(entry);
        self.server.conversation.queue_mut().push(entry);
        self.pool.stats_mut().bind_count += 1;
        self.forward_rest(message, HEADER_BYTES + names.wire_bytes())
    }

    /// A client uses a statement under other settings than those it was parsed under. After DDL, PostgreSQL may read
    /// the statement's constants again at any time, under the settings of the session that uses it next (recording
    /// E12). If no other client uses the statement, this is the same as on a direct connection.
    #[cold]
    fn share_no_longer(&mut self, name: &[u8]) -> Option<Arc<Statement>> {
        let client = &mut *self.client;
        let meaning = client.statements.named_mut(name)?;
        let of = meaning.statement();
        if !of.is_client_named() && !of.is_private && !of.settings.reads_alike(client.session.shape().parse_settings())
        {
            let types = match of.may_refuse_told_types() {
                true => &of.types,
                false => meaning.types(),
            };
            let statement = self.shared.statements.intern_for_one(&of.query, types, &of.settings);
            meaning.becomes(statement);
        }
        Some(meaning.statement().clone())
    }
}

/// Whether a client that knows the rows of a statement may rely on them.
fn keeps_rows(statement: &Statement) -> bool {
    statement.may_return_rows && !pgweir_sql::belongs_to_session(&statement.query)
}
