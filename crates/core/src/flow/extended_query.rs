//! Execute, Describe and Close where prepared statements are tracked.
//!
//! Servers do not know a client's statement names: each message that contains one is rewritten to the name under which
//! servers hold the statement. If this server does not hold the statement yet, an internal Parse comes in front.

use crate::base::message::{Message, Step};
use crate::base::pin_reason::PinReason;
use crate::base::secret_names::could_be_internal;
use crate::base::weakness::Weakness;
use crate::exchange::Exchange;
use crate::flow::parsing::NAMING;
use crate::preparing::replanning::Use;
use crate::session::inspection::uses_names;
use crate::statements::ends::Ends;
use crate::statements::unnamed::Unnamed;
use crate::upstream::entry::{Effect, Entry, Expect};
use crate::upstream::replacement::Instead;
use pgweir_sql::Effects;
use pgweir_wire::Reader;
use pgweir_wire::frontend::{Named, Target};

/// The longest portal and statement names of a Bind, together, bytes; PostgreSQL cuts names at 63.
pub(super) const NAMES_BYTES_MAX: usize = 64 * 1024;

impl Exchange<'_> {
    /// Execute, which may run a DEALLOCATE, DISCARD ALL or UNLISTEN.
    pub(crate) fn execute(&mut self, message: &Message<'_>) -> Step {
        if self.server.session.has_definitions() {
            if let Err(step) = self.names_whole(message) {
                return step;
            }
            if let Some(step) = self.execute_may_publish(message) {
                return step;
            }
        }
        match self.client.statements.has_careful_portals() {
            true => self.execute_carefully(message),
            false => self.plain(message, Expect::Execute),
        }
    }

    /// Execute of a portal that may need care.
    #[cold]
    fn execute_carefully(&mut self, message: &Message<'_>) -> Step {
        if let Err(step) = self.names_whole(message) {
            return step;
        }
        self.forgets_portals();
        let portal = Reader::new(message.body()).cstr().ok();
        if portal.is_some_and(|portal| self.client.statements.portal_lists(portal))
            && let Some(step) = self.shows_names_now()
        {
            return step;
        }
        let does = portal.and_then(|portal| self.client.statements.does_by_portal(portal));
        let (ends, returns) = does.map_or((None, None), |does| (does.ends().cloned(), does.returns().cloned()));
        let queue = self.server.conversation.queue();
        if ends.is_some() && queue.segment_outstanding() && queue.statements_in_doubt() {
            // The statement that this request ends may not exist.
            return self.waits_for_replies();
        }
        let effect = match ends {
            Some(Ends::All) => self.discard_all_statements(Effect::default()),
            Some(Ends::Name(name)) if self.client.statements.meaning_of(&name).is_some() => {
                self.deallocates(&name, Effect::default())
            }
            Some(Ends::Channels(channel)) if self.client.relies_on_listener() => Effect {
                unlistens: [channel].into(),
                ..Effect::default()
            },
            _ => Effect::default(),
        };
        let step = self.pass_request(message, Entry::forward(Expect::Execute).with(effect));
        if let Some(returns) = returns {
            self.make_startup_values(&returns);
        }
        step
    }

    /// A DEALLOCATE ALL or DISCARD ALL is being sent: it ends the client's names and all statements that the server
    /// holds.
    pub(crate) fn discard_all_statements(&mut self, mut effect: Effect) -> Effect {
        effect.names_lost_all = self.client.statements.end_all();
        effect.server_lost_all = Some(self.server.held.take_all());
        effect
    }

    fn describe_unnamed(&mut self, message: &Message<'_>) -> Step {
        let checks_run = self.to().analysis_may_run();
        let checked = self.client.statements.unnamed().filter(|_| checks_run).cloned();
        let waits = checked.as_ref().and_then(|statement| self.analysis_waits(statement));
        if let Some(step) = waits.or_else(|| self.describes_naming(b"")) {
            return step;
        }
        if let Some(statement) = checked {
            self.suspect_analysis(&statement);
        }
        if let Some(step) = self.prepare_unnamed() {
            return step;
        }
        let entry = Entry::forward(Expect::Describe);
        let entry = match self.client.statements.unnamed() {
            Some(statement) if statement.infers => entry.using(statement.id),
            _ => entry,
        };
        self.pass_request(message, entry)
    }

    pub(crate) fn describe(&mut self, message: &Message<'_>) -> Step {
        let named = match self.named(message) {
            Ok(named) => named,
            Err(step) => return step,
        };
        match named {
            Some(Named {
                target: Target::Statement,
                name: b"",
            }) => self.describe_unnamed(message),
            Some(Named {
                target: Target::Statement,
                name,
            }) => {
                let Some(mut statement) = self.client.statements.meaning_of(name).cloned() else {
                    return self.unknown_name(message, name, Expect::Describe);
                };
                let waits = self.analysis_waits(&statement);
                if let Some(step) = waits.or_else(|| self.describes_naming(name)) {
                    return step;
                }
                self.suspect_analysis(&statement);
                match self.prepare_named(name, Expect::Describe, false) {
                    Use::Waits => return Step::Wait,
                    Use::Becomes(other) => statement = other,
                    Use::Refused(why) => return self.refuse_use(message, why),
                    Use::GoesOn => {}
                }
                let entry = self.tells_rows(name, statement.id, false);
                self.asks_instead(message, |r| r.special(entry).describe(b'S', statement.server_name()))
            }
            Some(Named {
                target: Target::Portal,
                name,
            }) => match self.client.statements.take_untold_portal() {
                Some(bound) if *bound.portal == *name => {
                    let entry = self.tells_rows(&bound.name, bound.statement, true);
                    self.pass_request(message, entry)
                }
                _ => self.plain(message, Expect::Describe),
            },
            None => self.plain(message, Expect::Describe),
        }
    }

    /// Describe of a statement that names or lists prepared statements: an EXECUTE returns the rows of the statement that
    /// it executes, and the Bind of one that lists them may follow.
    fn describes_naming(&mut self, name: &[u8]) -> Option<Step> {
        let statement = self.client.statements.meaning_of(name);
        let statement = statement.filter(|s| s.effects.intersects(NAMING)).cloned()?;
        if let Some(step) = self.lends_before_segment(&statement) {
            return Some(step);
        }
        let executes = statement.effects.intersects(Effects::PREPARE) && uses_names(&statement.verdict);
        if !executes || !self.keeps_session() || self.shared.is_weak(Weakness::DescribesUnlent) {
            return None;
        }
        let waits = self.waits_to_name(&statement.query);
        if waits.is_none() {
            self.lend_names(Effects::PREPARE, &statement.query);
            self.suspect_analysis_of_named(&statement.query);
        }
        waits
    }

    /// Whether the server may know a statement by this name, which the pooler does not know: one that code has prepared,
    /// or one whose name beyond ASCII had other bytes under another client_encoding.
    pub(super) fn unknown_may_run(&self, name: &[u8]) -> bool {
        let may_be_known = !name.is_ascii() || self.is_pinned_by_prepare();
        !could_be_internal(name) && may_be_known && self.looks_at_texts()
    }

    /// Bind or Describe of a name that the client has not prepared by Parse, as far as is known: it may come from an
    /// SQL-level PREPARE. For a client, a name that could be internal means no statement.
    #[cold]
    pub(super) fn unknown_name(&mut self, message: &Message<'_>, name: &[u8], expect: Expect) -> Step {
        if !could_be_internal(name) {
            if expect == Expect::Bind
                && self.unknown_may_run(name)
                && let Some(step) = self.runs_unread(message)
            {
                return step;
            }
            self.to().close_client_named(name);
            if self.client.session.pins().contains(PinReason::LongStatement) {
                // The name may mean a long statement, whose text was not read.
                self.server.moves_names(self.shared.statements.now());
                if expect == Expect::Bind {
                    self.to().hide_statements(None);
                }
            }
            return self.plain(message, expect);
        }
        let nowhere = self.shared.internal.names.nowhere.clone();
        let instead = Instead::Named {
            ours: (*nowhere).into(),
            theirs: name.into(),
        };
        let entry = Entry::forward(expect).replacing(*b"26000", instead);
        self.asks_instead(message, |r| match expect {
            Expect::Bind => r.special(entry).bind(b"", &nowhere, &[]),
            _ => r.special(entry).describe(b'S', &nowhere),
        })
    }

    /// The entry of a Describe whose reply describes a statement's rows to the client.
    fn tells_rows(&mut self, name: &[u8], statement: u64, by_portal: bool) -> Entry {
        // The description that the client got before is replaced.
        let meaning = self.client.statements.named_mut(name);
        let before = meaning
            .filter(|meaning| meaning.statement().id == statement)
            .and_then(|meaning| meaning.is_described(by_portal));
        let effect = Effect {
            describes: Some((name.into(), before)),
            ..Effect::default()
        };
        let asked = self.shared.statements.tick();
        Entry::forward(Expect::Describe)
            .using(statement)
            .with(effect)
            .asked_at(asked)
    }

    /// Close of a statement ends the client's name; servers keep the statement for later use.
    pub(crate) fn close(&mut self, message: &Message<'_>) -> Step {
        let named = match self.named(message) {
            Ok(named) => named,
            Err(step) => return step,
        };
        let Some(Named {
            target: Target::Statement,
            name,
        }) = named
        else {
            return self.plain(message, Expect::Close);
        };
        let effect = self.end_name(name);
        if name.is_empty() || effect.is_none() {
            // The name is not tracked: it may come from an SQL-level PREPARE, and Close of an unknown name succeeds.
            self.to().client_name_comes(name);
            if !name.is_empty() && self.may_meet_prepare() {
                self.suspect_unread(Effects::PREPARE | Effects::ENDS, "(Close)", Vec::new());
            }
            let server = &mut *self.server;
            let mut effect = effect.unwrap_or_default();
            if name.is_empty() {
                server.held.unnamed_becomes(Unnamed::Nothing);
                effect.server_unnamed = true;
            }
            return self.pass_request(message, Entry::forward(Expect::Close).with(effect));
        }
        self.answers_in_turn(message, Expect::Close, effect.expect("checked above"))
    }

    /// Ends a client's name, also on its server.
    pub(crate) fn end_name(&mut self, name: &[u8]) -> Option<Effect> {
        let effect = self.client.forget_name(name)?;
        if !name.is_empty() {
            self.to().close_client_named(name);
        }
        Some(effect)
    }

    /// The target of Describe or Close; `None`: the body is malformed, and the server must report that.
    fn named<'m>(&mut self, message: &Message<'m>) -> Result<Option<Named<'m>>, Step> {
        self.names_whole(message)?;
        Ok(Named::read(message.body()).ok())
    }

    /// A message that consists of a name, or nearly so, is needed as a whole. PostgreSQL refuses one of more than 10,000
    /// bytes.
    pub(crate) fn names_whole(&mut self, message: &Message<'_>) -> Result<(), Step> {
        if message.is_whole() {
            return Ok(());
        }
        if message.total <= NAMES_BYTES_MAX {
            return Err(Step::NeedBytes);
        }
        let detail = format!("expected at most {NAMES_BYTES_MAX} bytes, got {}", message.total);
        Err(self.fails("name is too long".into(), detail))
    }
}
