//! What a pool has learnt from its servers: what they are, what they accept, what they do, and whether they can be
//! reached.

use crate::base::pool_id::LoginFailure;
use crate::base::request::Endpoint;
use crate::base::time::Time;
use crate::catalog::catalogs::Needs;
use crate::catalog::known::Known;
use crate::pools::hosts::{Choice, Hosts};
use crate::pools::pool::Pool;
use crate::pools::startup_values::Reported;
use crate::state::sequences::Sequences;
use crate::state::shape::Shape;
use crate::statements::held::Moment;
use crate::upstream::nature::Nature;
use std::sync::Arc;
use std::time::Duration;

/// The least time between two attempts to log in that clients' statements have caused.
const TRY_AGAIN_PAUSE: Duration = Duration::from_secs(1);

impl Pool {
    /// The worst nature among its servers.
    #[inline]
    pub(crate) fn nature(&self) -> Nature {
        self.nature
    }

    /// Its servers turn out to be something else: what it has learnt from the others no longer holds.
    pub(crate) fn changes_nature(&mut self, nature: Nature) {
        self.nature = nature;
        self.forget_welcome();
    }

    /// A RELOAD gives it other servers.
    pub(crate) fn has_other_servers(&mut self) {
        self.forget_welcome();
        self.hosts = Hosts::new(self.settings.endpoints.len());
    }

    fn forget_welcome(&mut self) {
        self.welcome = None;
        self.startup_values.clear();
    }

    /// The settings of its servers after login; `None` until the first one has logged in.
    pub(crate) fn welcome(&self) -> Option<&Arc<Shape>> {
        self.welcome.as_ref()
    }

    /// A server has logged in and has these settings. Returns whether it is the first one.
    pub(crate) fn learn_welcome(&mut self, welcome: Arc<Shape>) -> bool {
        self.welcome.replace(welcome).is_none()
    }

    /// Whether a server has accepted this value of a startup parameter.
    pub(crate) fn knows_startup_value(&self, name: &str, value: &str) -> bool {
        self.startup_values.reported(name, value).is_some()
    }

    /// What a server has reported for this value of a startup parameter.
    pub(crate) fn reported_for(&self, name: &str, value: &str) -> Option<&Reported> {
        self.startup_values.reported(name, value)
    }

    pub(crate) fn remember_startup_value(&mut self, name: &str, value: &str, reported: Vec<(Arc<str>, Arc<str>)>) {
        self.startup_values.learn((name.into(), value.into()), reported.into());
    }

    /// A client logs in with these startup parameters.
    pub(crate) fn uses_startup_values(&mut self, settings: &[(String, String)]) {
        for (name, value) in settings {
            self.startup_values.uses(name, value);
        }
    }

    /// How its clients use sequences.
    #[inline]
    pub(crate) fn sequences(&self) -> Sequences {
        self.sequences
    }

    /// A client of the pool uses sequences in this way. This is never taken back, even when no client claims a server
    /// any longer: a client that has only inserted claims none, and its later currval() would get 55000 instead of the
    /// value.
    pub(crate) fn uses_sequences(&mut self, how: Sequences) {
        self.sequences = self.sequences.max(how);
    }

    /// What the functions of its database do; `None` while no name in a statement can matter.
    #[inline]
    pub(crate) fn catalog(&self) -> Option<&Known> {
        self.catalog.as_deref()
    }

    #[inline]
    pub(crate) fn catalog_mut(&mut self) -> Option<&mut Known> {
        self.catalog.as_deref_mut()
    }

    /// Whether names in statements may matter.
    #[inline]
    pub(crate) fn catalog_matters(&self) -> bool {
        self.catalog.as_ref().is_some_and(|known| known.matters())
    }

    /// What must be known of its catalog.
    pub(crate) fn needs_of_catalog(&self) -> Needs {
        Needs::new(self.catalog_matters(), self.reading_due.is_some())
    }

    /// A catalog has been read, or has been found to say nothing.
    pub(crate) fn learn_catalog(&mut self, known: Option<Known>) {
        self.catalog = known.map(Box::new);
    }

    /// When one of its servers must read the catalog.
    pub(crate) fn reading_due(&self) -> Option<Time> {
        self.reading_due
    }

    /// One of its servers must read the catalog at this time.
    pub(crate) fn must_read_catalog(&mut self, at: Option<Time>) {
        self.reading_due = at;
    }

    /// When names in statements last came to mean other objects of its database, as far as texts have shown.
    #[inline]
    pub(crate) fn names_moved(&self) -> Moment {
        self.names_moved
    }

    /// Names in statements have come to mean other objects.
    pub(crate) fn names_move(&mut self, now: Moment) {
        self.names_moved = now;
    }

    /// Why its servers cannot be opened.
    pub(crate) fn failure(&self) -> Option<&LoginFailure> {
        self.failure.as_ref()
    }

    /// Whether a connection may be attempted at this time.
    pub(crate) fn may_retry(&self, now: Time) -> bool {
        self.retry_at.is_none_or(|at| at <= now)
    }

    /// Whether no connection to any host is worth an attempt yet.
    pub(crate) fn waits_to_retry(&self) -> bool {
        self.retry_at.is_some()
    }

    /// Servers for clients that may come would be in the way of a statement until then.
    pub(crate) fn keep_clear(&mut self, until: Time) {
        self.kept_clear = Some(until);
    }

    /// Whether servers may be opened in advance, for clients that may come.
    pub(crate) fn may_warm(&self, now: Time) -> bool {
        let is_over = |until: Option<Time>| until.is_none_or(|until| until <= now);
        is_over(self.warms_at) && (self.clients > 0 || is_over(self.kept_clear))
    }

    /// A connection has failed; [`Hosts::failed`](crate::pools::hosts::Hosts::failed) was called for its host before.
    /// When all hosts have been tried, and no client waits, the next attempt follows only after `pause_max`.
    pub(crate) fn opening_failed(&mut self, now: Time, failure: LoginFailure, pause_max: Duration) {
        self.retry_at = self.hosts.all_failed_until();
        self.warms_at = self.retry_at.filter(|at| *at > now).map(|_| now + pause_max);
        self.failure = Some(failure);
    }

    /// A connection has succeeded.
    pub(crate) fn opening_succeeded(&mut self) {
        self.failure = None;
        self.retry_at = None;
        self.warms_at = None;
    }

    /// The next attempt to open a server is made at once, at every host.
    pub(crate) fn forget_failures(&mut self) {
        self.opening_succeeded();
        self.hosts.forget_failures();
    }

    /// The servers may admit logins now that they have refused. The next attempt is made at once, or one second after
    /// the last one for this reason: clients cause these attempts, and a refused login costs the server a process.
    pub(crate) fn try_again(&mut self, now: Time) {
        let at = self.tried_again.map_or(now, |last| (last + TRY_AGAIN_PAUSE).max(now));
        self.forget_failures();
        self.retry_at = Some(at).filter(|at| *at > now);
        self.tried_again = Some(at);
    }

    /// The host of the next connection, and whether that connection is in doubt. The caller has called
    /// [`Pool::may_open`], or needs a connection in any case.
    pub(crate) fn take_endpoint(&mut self, now: Time) -> (Endpoint, bool) {
        let choice = self.hosts.take(now, self.settings.round_robin_hosts);
        let choice = choice.unwrap_or(Choice {
            host: 0,
            in_doubt: false,
        });
        self.in_doubt += u32::from(choice.in_doubt);
        (self.settings.endpoints[choice.host].clone(), choice.in_doubt)
    }

    /// A server takes long to open, and is in doubt from now on: its host may swallow packets.
    pub(crate) fn opens_slowly(&mut self, endpoint: &Endpoint) {
        self.in_doubt += 1;
        if let Some(place) = self.host_of(endpoint) {
            self.hosts.is_slow(place);
        }
    }

    /// A server has logged in or is gone; `was_in_doubt`: until then.
    pub(crate) fn doubt_ends(&mut self, was_in_doubt: bool) {
        self.in_doubt -= u32::from(was_in_doubt);
    }

    /// A server has ended by itself soon after it was ready, and has not served a client. Returns whether another one
    /// did the same less than `within` ago: then something ends all servers, not only this one.
    pub(crate) fn ends_early_again(&mut self, now: Time, within: Duration) -> bool {
        let before = self.early_end.replace(now);
        before.is_some_and(|before| now - before < within)
    }

    /// New sessions may begin with other settings than its servers, or as another role, or may be refused.
    /// `judges_anew`: the next client that logs in waits for a new server.
    pub(crate) fn outdates_servers(&mut self, judges_anew: bool) {
        self.outdated = true;
        self.judges_anew |= judges_anew;
    }

    /// Whether its servers are outdated, and may be replaced now: at most once in this time.
    pub(crate) fn is_replacement_due(&self, now: Time, apart: Duration) -> bool {
        self.outdated && self.replaced_at.is_none_or(|at| now - at >= apart)
    }

    /// Its servers are replaced, because they are outdated.
    pub(crate) fn is_replaced(&mut self, now: Time) {
        (self.outdated, self.replaced_at) = (false, Some(now));
        if std::mem::take(&mut self.judges_anew) {
            self.forget_welcome();
        }
    }
}
