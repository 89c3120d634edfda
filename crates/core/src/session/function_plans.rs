//! Plans that functions keep in the server process.
//!
//! A function in SQL or PL/pgSQL keeps the plans of its statements until the server process ends. Their constants were
//! read when the function first ran: `'01/02/2024'::date` under the DateStyle of the client that called it first (see
//! tests/e2e/test_attack_plans.py). On a direct connection that is the client itself. On a shared server another client
//! may have called the function first. Its settings must not decide what this client gets.
//!
//! So the plans on a server without a client were all made under the server's present settings, as far as constants
//! depend on them ([`pgweir_sql::READ_UNDER`]):
//!
//! - a restoration that changes one of these settings ends with DISCARD PLANS;
//! - DISCARD PLANS follows a transaction with a text that may have changed one of them, perhaps for the transaction
//!   only ([`Cleanup::Plans`]): before the probe, if there is one and the pooler knows all of the client's statements,
//!   otherwise when the client gives the server back.
//!
//! Neither is done if the catalog shows that no routine of the database has such constants.
//!
//! DISCARD PLANS also follows a transaction with a text that mentions a routine which is declared immutable, but reads
//! a setting or the role ([`Effects::FOLDS`]), or an object that runs it: PostgreSQL has computed the routine's result
//! when it planned.
//!
//! DISCARD PLANS makes PostgreSQL analyse prepared statements again as well, under the settings of whoever uses them
//! next. So the server's copies are prepared again before their next use, as after a temporary schema (see
//! [`crate::preparing::replanning`]).
//!
//! A plan also keeps what the names in a function meant. PostgreSQL plans again if an object that the plan uses is changed
//! or dropped, or if the search_path has changed, but not if a new object hides the one that a name meant. Nor does it plan
//! an expression again whose variable has got another type, with the column that it was read from. So DISCARD PLANS is also
//! sent
//!
//! - before a server's next client, after DDL of its database ([`Effects::NAMES`]),
//! - before a server's next client, if the one before may have had temporary objects: columns of the same name may have had
//!   other types,
//! - before a text that may make temporary objects, if its client has none and the server has a schema for them already.
//!   With the first temporary object of a session PostgreSQL adds this schema to the search_path, and plans everything
//!   again. Nothing can be discarded in front of a text that ends a failed transaction; it is done behind such a text.
//!
//! None of this is done if the catalog shows that no routine of the database keeps plans.
//!
//! A client that changes such a setting may get constants that were read under its own earlier settings until its
//! transaction has ended, as if it had called the function before: docs/differences.md.

use crate::base::message::{Message, Step};
use crate::base::pin_reason::{Cleanup, PinReason};
use crate::base::time::Time;
use crate::base::weakness::Weakness;
use crate::exchange::Exchange;
use crate::server_side::ServerSide;
use crate::session::sequences::Discard;
use crate::state::difference::Change;
use crate::state::suspicion::Suspicion;
use crate::statements::unnamed::Unnamed;
use crate::upstream::entry::To;
use crate::upstream::phase::ServerPhase;
use pgweir_sql::{Effects, SearchPath};
use pgweir_wire::FrontendTag;

/// Whether DISCARD PLANS may come before a probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Plans {
    MayGo,
    /// The client may have statements that only its server knows. PostgreSQL would read their constants again, under
    /// settings that the client has changed since. On a direct connection they stay as they were read at first.
    Stay,
}

/// DISCARD PLANS takes a snapshot, which may wait where transactions are deferrable by default. The statements of one Query
/// are one transaction.
const DISCARD_AT_ONCE: &str = "SET TRANSACTION ISOLATION LEVEL READ COMMITTED; DISCARD PLANS";

/// The text that discards plans.
fn discard_plans(deferrable: bool) -> &'static str {
    if deferrable { DISCARD_AT_ONCE } else { "DISCARD PLANS" }
}

impl Exchange<'_> {
    /// What a probe after transactions with these effects may do with the plans on the client's server. If they stay,
    /// they are discarded when the client gives the server back.
    pub(crate) fn plans_of(&self, about: &Suspicion) -> Plans {
        let pins = self.client.session.pins();
        let may_be_unknown = self.is_pinned_by_prepare()
            || pins.contains(PinReason::LongStatement)
            || pins.contains(PinReason::ReadBehindSet)
            || about.may_have(Effects::PREPARE)
            || !self.shared.settings.tracks_statements_of(self.pool.settings());
        if may_be_unknown { Plans::Stay } else { Plans::MayGo }
    }

    /// A text with these effects is about to run. If it may make temporary objects that plans of functions, made before,
    /// would not find, the plans are discarded first: the returned step then means that the message is handled again.
    pub(super) fn minds_plans(&mut self, message: &Message<'_>, effects: Effects, text: &[u8]) -> Option<Step> {
        match may_make_temporary(effects, text) {
            true => self.makes_temporary(effects, message),
            false => None,
        }
    }

    /// Code that is not read is about to run, which may also read values of sequences. `Some`: the message is handled again.
    pub(crate) fn runs_any_code(&mut self, effects: Effects, message: &Message<'_>) -> Option<Step> {
        let waits = self.makes_temporary(effects, message);
        waits.or_else(|| self.uses_sequences(effects, message))
    }

    #[cold]
    fn makes_temporary(&mut self, effects: Effects, message: &Message<'_>) -> Option<Step> {
        let (client, session) = (&self.client.session, &mut self.server.session);
        session.plans_are_beside_temporary();
        // What PostgreSQL has planned beside earlier objects of the client's, it does not plan again for further ones. A text
        // that may have made some proves nothing: if it has made none, the plans of its functions do not suit the next.
        let has_some = client.pins().contains(PinReason::TemporaryObjects);
        if !session.has_temporary_schema() || session.has_new_plans() || has_some || !self.to().keeps_plans() {
            return None;
        }
        if self.shared.is_weak(Weakness::OverlooksTemporary) {
            return None;
        }
        self.discards_before(Discard::Plans, effects, message)
    }

    /// Handles a request of a client on a server that may be notable.
    pub(crate) fn begins_request_with_care(&mut self, message: &Message<'_>) -> Step {
        let step = self.begins_request(message);
        self.note_new_plans(message, step);
        step
    }

    /// Handles a message whose request has begun, on a server that may be notable.
    pub(crate) fn request_with_care(&mut self, message: &Message<'_>) -> Step {
        let step = self.request(message);
        self.note_new_plans(message, step);
        step
    }

    /// What was sent may make plans.
    fn note_new_plans(&mut self, message: &Message<'_>, step: Step) {
        use FrontendTag::{Close, Describe, Flush, Parse, Sync};
        let runs_nothing = matches!(message.tag, Parse | Describe | Close | Sync | Flush);
        if matches!(step, Step::Progress(_)) && !runs_nothing {
            self.server.session.plans_become_new(false);
        }
    }

    /// Whether the client must wait for the probe's answer because its statements will be prepared again before their
    /// next use: a setting that constants are read under may have changed. Preparing again needs the present settings,
    /// because the constants must be read under those of the first Parse.
    pub(crate) fn prepares_again_behind_probe(&self) -> bool {
        let may_read_otherwise = self.server.session.cleanup() >= Cleanup::Plans;
        may_read_otherwise && self.client.statements.has_names()
    }
}

impl ServerSide<'_> {
    /// Whether functions may keep plans on the server from client to client.
    fn keeps_plans(&self) -> bool {
        !self.shared.is_weak(Weakness::KeepsPlans)
            && self.shared.settings.keeps_sessions
            && self.pool.shares_sessions()
            && self.server.nature.is_postgresql()
            && self.pool.catalog().is_none_or(|known| known.may_keep_plans())
    }

    /// Whether the server may keep plans of functions from client to client, and their constants depend on settings.
    pub(crate) fn functions_may_keep_plans(&self) -> bool {
        let may_read = self.pool.catalog().is_none_or(|known| known.may_read_constants());
        may_read && self.keeps_plans()
    }

    /// A client was just linked to a server: discards plans of functions that may mislead it. What is sent begins a
    /// restoration's segment, which the caller ends.
    #[cold]
    pub(crate) fn plans_on_link(&mut self) {
        if !self.server.session.plans_may_mislead() {
            return;
        }
        self.server.session.plans_mislead_no_more();
        if self.keeps_plans() {
            self.begin_restoring();
            self.run_discard_plans();
        }
    }

    /// Discards the plans of functions in the present segment.
    pub(crate) fn run_discard_plans(&mut self) {
        let statement = self.shared.internal.discard_plans.clone();
        // The unnamed portal may be the client's, which may execute it again.
        self.run_in_internal_portal(&statement, &[]);
        self.server.session.plans_become_new(true);
        self.plans_are_discarded();
    }

    /// In a segment that changes these settings: discards the plans that were made under their former values.
    pub(crate) fn discard_plans_behind(&mut self, set: &[Change]) {
        let is_read_under = |(name, _): &Change| pgweir_sql::is_read_under(name.as_bytes());
        if !self.functions_may_keep_plans() || !set.iter().any(is_read_under) {
            return;
        }
        let statement = self.shared.internal.discard_plans.clone();
        self.prepare(&statement);
        self.asks(To::Skip, |r| {
            r.bind(b"", statement.server_name(), &[]);
            r.execute(b"");
        });
        self.plans_are_discarded();
    }

    /// Discards the plans that were made under other settings than the server's present ones, before another client
    /// gets the server.
    #[cold]
    pub(crate) fn discard_plans(&mut self, now: Time) {
        let deferrable = self.server.session.shape().is_deferrable();
        self.internal_query(now, ServerPhase::Resetting, discard_plans(deferrable));
        self.plans_are_discarded();
    }

    /// The client's transaction has ended, and a probe asks for the settings that it has set. The client may go on at
    /// once behind the probe, on the same server, and must not get what another client's call has left. DISCARD PLANS
    /// comes before the probe's segment and is not a part of it, because that segment may fail. `deferrable`: the
    /// session's defaults may delay it.
    pub(crate) fn discard_plans_before_probe(&mut self, deferrable: bool) {
        let session = &self.server.session;
        let is_overdue = session.has_overdue_plans() && self.keeps_plans();
        let is_due = is_overdue || session.cleanup() >= Cleanup::Plans && self.functions_may_keep_plans();
        if self.server.link.is_none() || !is_due {
            return;
        }
        // A client whose text was not read keeps its server. Its statements must not be prepared again: the encoding in
        // which they were parsed may not be known.
        let about = session
            .probe()
            .map_or(Effects::NONE, |probe| probe.suspicion().effects());
        if session.cleanup() > Cleanup::Plans && about.contains(pgweir_sql::UNREAD) {
            return;
        }
        self.server.session.plans_are_discarded();
        self.server.session.plans_are_overdue_no_more();
        self.query_for_nothing(discard_plans(deferrable).as_bytes());
        self.plans_are_discarded();
    }

    /// Prepared statements would be analysed again under the settings of whoever uses them.
    fn plans_are_discarded(&mut self) {
        self.shared.state_stats.plans_discarded += 1;
        self.server.held.outdate_all();
        self.server.held.unnamed_becomes(Unnamed::Foreign);
    }
}

/// Whether a text with these effects may make temporary objects. Code that is read makes some only if the words of the
/// text say so, or the catalog says so of a routine.
fn may_make_temporary(effects: Effects, text: &[u8]) -> bool {
    let effects = SearchPath::adds_to(effects, text, None);
    let is_unread = effects.contains(pgweir_sql::UNREAD);
    effects.intersects(Effects::TEMPORARY)
        || is_unread
        || effects.intersects(Effects::CODE) && pgweir_sql::contains(text, b"temp")
}
