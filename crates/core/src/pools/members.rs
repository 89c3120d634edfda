//! The parts of a pool, for other layers: its connections, its queue, and its counts.

use crate::base::ids::ServerId;
use crate::base::pool_id::{LoginFailure, PoolKey};
use crate::base::request::Endpoint;
use crate::base::settings::PoolSettings;
use crate::base::stats::Stats;
use crate::base::time::Time;
use crate::pools::classes::Classes;
use crate::pools::hosts::Hosts;
use crate::pools::idle_list::IdleList;
use crate::pools::overload::Pressure;
use crate::pools::pool::Pool;
use crate::pools::pool_login::PoolLogin;
use crate::pools::sizing::Share;
use crate::pools::wait_queue::WaitQueue;
use pgweir_auth::Credential;
use std::time::Duration;

impl Pool {
    #[inline]
    pub(crate) fn key(&self) -> &PoolKey {
        &self.key
    }

    #[inline]
    pub(crate) fn settings(&self) -> &PoolSettings {
        &self.settings
    }

    /// A RELOAD gives it these settings; `auto`: its database is made from `*` now. Returns whether its servers must be
    /// replaced.
    pub(crate) fn configure(&mut self, settings: PoolSettings, auto: bool) -> bool {
        let other_servers = self.settings.needs_new_servers(&settings);
        self.settings = settings;
        self.names_catalog();
        self.auto = auto;
        other_servers
    }

    /// Settings that a test changes.
    #[cfg(test)]
    pub(crate) fn settings_mut(&mut self) -> &mut PoolSettings {
        &mut self.settings
    }

    /// Whether its database is made from `*`.
    pub(crate) fn is_auto(&self) -> bool {
        self.auto
    }

    /// Its database is made from `*`.
    pub(crate) fn is_of_auto_database(&mut self) {
        self.auto = true;
    }

    pub(crate) fn credential(&self) -> &Credential {
        self.login.credential()
    }

    /// Since when the credential may be out of date.
    pub(crate) fn credential_as_of(&self) -> Time {
        self.login.as_of()
    }

    /// From now on its servers are logged in to with this credential, unless a newer one is known. `as_of`: it was right
    /// at this time. If servers have refused the one before, the next attempt is made at once.
    pub(crate) fn logs_in_with(&mut self, credential: Credential, as_of: Time) {
        if self.login.learn(credential, as_of) && self.failure.as_ref().is_some_and(LoginFailure::is_about_credential) {
            self.forget_failures();
        }
    }

    /// The configuration says something else about its logins.
    pub(crate) fn is_told_to_log_in_with(&mut self, credential: Credential, now: Time) {
        self.login = PoolLogin::new(credential, now);
    }

    /// A server that was given this credential, if it was given one, could not be opened. Returns whether that says
    /// something about the next attempt.
    pub(crate) fn counts_as_failure(&mut self, given: Option<&Credential>, failure: &LoginFailure) -> bool {
        match given.filter(|_| failure.is_about_credential()) {
            Some(given) => self.login.is_refused(given),
            None => true,
        }
    }

    /// An attempt to open a server has ended, and shows nothing about the next one.
    pub(crate) fn attempt_is_void(&mut self, endpoint: &Endpoint) {
        if let Some(host) = self.host_of(endpoint) {
            self.hosts.attempt_is_void(host);
        }
    }

    #[inline]
    pub(crate) fn stats(&self) -> &Stats {
        &self.stats
    }

    #[inline]
    pub(crate) fn stats_mut(&mut self) -> &mut Stats {
        &mut self.stats
    }

    /// Its idle servers.
    #[inline]
    pub(crate) fn idle(&self) -> &IdleList {
        &self.idle
    }

    #[inline]
    pub(crate) fn idle_mut(&mut self) -> &mut IdleList {
        &mut self.idle
    }

    /// Its waiting clients.
    #[inline]
    pub(crate) fn waiting(&self) -> &WaitQueue {
        &self.waiting
    }

    #[inline]
    pub(crate) fn waiting_mut(&mut self) -> &mut WaitQueue {
        &mut self.waiting
    }

    /// Its waiting clients, and the user of its servers. A client that did not log in as another user counts as a
    /// client of that user.
    pub(crate) fn queue_and_user(&mut self) -> (&mut WaitQueue, &str) {
        (&mut self.waiting, &self.key.user)
    }

    /// Its hosts.
    pub(crate) fn hosts(&self) -> &Hosts {
        &self.hosts
    }

    pub(crate) fn hosts_mut(&mut self) -> &mut Hosts {
        &mut self.hosts
    }

    /// Its part in the limit on servers at work of its host, if its size is `auto`.
    #[inline]
    pub(crate) fn share(&self) -> Option<Share> {
        self.share
    }

    #[inline]
    pub(crate) fn share_mut(&mut self) -> Option<&mut Share> {
        self.share.as_mut()
    }

    /// Its part in the limit of its host, if clients wait.
    pub(crate) fn share_if_waited_for(&mut self) -> Option<&mut Share> {
        self.share.as_mut().filter(|_| !self.waiting.is_empty())
    }

    /// It gets a part in the limit of its host.
    pub(crate) fn gets_share(&mut self, share: Share) {
        self.share = Some(share);
    }

    /// It gives up its part.
    pub(crate) fn take_share(&mut self) -> Option<Share> {
        self.share.take()
    }

    /// Whether its queue stays too long.
    pub(crate) fn pressure(&self) -> &Pressure {
        &self.pressure
    }

    /// Judges how long clients wait, and returns how many of them must be refused. Judges nothing while there are no
    /// servers, or while the pool's clients may not get them (`is_normal` is false).
    pub(crate) fn look_at_queue(&mut self, now: Time, is_normal: bool, target: Duration) -> usize {
        let traffic = self.waiting.take_traffic();
        let oldest = self.first_waiter().map_or(Duration::ZERO, |(_, since)| now - since);
        match is_normal && self.has_ready_servers() {
            false => self.pressure.rests(now),
            true => self.pressure.look(now, traffic, self.waiting.len(), oldest, target),
        }
    }

    /// Whether flights of this class are known to be short.
    pub(crate) fn knows_to_be_short(&self, class: u64) -> bool {
        self.classes.as_ref().is_some_and(|classes| classes.is_short(class))
    }

    /// How short its flights are, by class: a flight has been answered.
    pub(crate) fn classes_mut(&mut self) -> &mut Classes {
        self.classes.get_or_insert_default()
    }

    /// A server has room for another flight.
    pub(crate) fn list_with_room(&mut self, server: ServerId) {
        self.roomy.push_back(server);
    }

    /// Takes the server that has had room for longest.
    pub(crate) fn next_with_room(&mut self) -> Option<ServerId> {
        self.roomy.pop_front()
    }

    /// Servers that had room for another flight when they were last looked at.
    #[cfg(any(test, feature = "weaknesses"))]
    pub(crate) fn with_room(&self) -> impl Iterator<Item = &ServerId> {
        self.roomy.iter()
    }

    /// Whether a server had room when it was last looked at.
    pub(crate) fn may_have_room(&self) -> bool {
        !self.roomy.is_empty()
    }

    /// Lists a server that will soon be free, and removes the other listed servers for which `still` is false.
    pub(crate) fn note_soon_free(&mut self, server: ServerId, still: impl Fn(&ServerId) -> bool) {
        self.soon_free.retain(|other| *other != server && still(other));
        self.soon_free.push(server);
    }

    /// Servers that were to be free soon.
    pub(crate) fn soon_free(&self) -> &[ServerId] {
        &self.soon_free
    }

    /// All its server connections, whatever their phase, in the order of their opening.
    #[inline]
    pub(crate) fn members(&self) -> &[ServerId] {
        &self.members
    }

    /// The number of its server connections.
    #[inline]
    pub(crate) fn servers(&self) -> u32 {
        self.members.len() as u32
    }

    /// Its servers that are connecting or logging in.
    pub(crate) fn connecting(&self) -> u32 {
        self.connecting
    }

    /// The servers that are being opened in doubt.
    pub(crate) fn in_doubt(&self) -> u32 {
        self.in_doubt
    }

    /// The servers among these that are not in doubt: waiting clients may count on them.
    pub(crate) fn surely_connecting(&self) -> u32 {
        self.connecting.saturating_sub(self.in_doubt)
    }

    /// Whether one of its servers has logged in.
    pub(crate) fn has_ready_servers(&self) -> bool {
        self.servers() != self.connecting
    }

    /// A server has logged in.
    pub(crate) fn one_has_logged_in(&mut self) {
        self.connecting -= 1;
    }

    /// Its logged-in clients.
    pub(crate) fn clients(&self) -> u32 {
        self.clients
    }

    /// It has a client or opens a server.
    pub(crate) fn is_used(&mut self, now: Time) {
        self.last_used = now;
    }

    /// When it last had a client or a server.
    pub(crate) fn last_used(&self) -> Time {
        self.last_used
    }
}
