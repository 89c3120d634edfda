//! The hosts of a pool: which one gets the next connection.
//!
//! Failures are counted for each host. A host that fails gets no connections for a while, and the others serve. Then
//! one connection at a time is attempted again. Such an attempt is *in doubt*: it is not counted as a server
//! for a waiting client, so another connection may be opened, too.

use crate::base::pool_id::LoginFailure;
use crate::base::time::Time;
use std::net::IpAddr;
use std::time::Duration;

/// The first pause after a failed connection; it doubles with each failure up to [`RETRY_PAUSE_MAX`].
const RETRY_PAUSE_MIN: Duration = Duration::from_millis(250);

/// The longest pause while a server cannot be reached: its return is noticed within this time.
pub(crate) const RETRY_PAUSE_MAX: Duration = Duration::from_secs(1);

/// After this many doublings the pause has its greatest length, whatever `server_login_retry` is.
const DOUBLINGS_MAX: u32 = 16;

/// Usually a server is opened within this time. If it takes longer, other hosts are tried, too.
pub(crate) const OPENS_IN_TIME: Duration = Duration::from_secs(1);

/// An attempt lasts this many times longer for each two failures of the other host (slow, and given up) before it is
/// given up for that host. Otherwise a pool would go from one slow host to the other for ever.
const PATIENCE_TIMES: u32 = 4;

/// With more failures in a row, a host is no reason to give up an attempt.
const PATIENCE_FAILURES_MAX: u32 = 4;

/// If a host was suspected of being read-only, it is not suspected again for this time, because a client can cause the
/// same error by itself.
const SUSPECTED_PAUSE: Duration = Duration::from_secs(1);

/// One host.
#[derive(Debug, Clone, Default, pgweir_freeze::Freeze)]
struct Host {
    /// Number of failures in a row.
    failures: u32,
    /// No connection is attempted before this time.
    retry_at: Option<Time>,
    /// An attempt in doubt is under way.
    is_tried: bool,
    /// It is not what `target_session_attrs` wants, according to its latest login.
    is_unwanted: bool,
    /// Its connection is being closed in favour of a better host, which does not count as a failure.
    steps_back: bool,
    suspected_at: Option<Time>,
    /// Why its latest connection failed.
    reason: Option<LoginFailure>,
    /// If it is a name with several addresses: those where servers of the wrong kind were since it last served.
    unwanted_at: Vec<IpAddr>,
    /// How many connections have found such servers.
    unwanted_times: usize,
}

impl Host {
    /// How much the reason of its failure tells: what a server says is more than that none was reached, and least that
    /// it is of the wrong kind, because another host may be of the right one.
    fn reason_tells(&self, reason: &LoginFailure) -> (bool, bool) {
        (reason.sqlstate.is_some(), !self.is_unwanted)
    }

    fn is_sound(&self) -> bool {
        self.failures == 0 && !self.is_unwanted
    }

    /// Whether a connection to it may be attempted now.
    fn may_try(&self, now: Time) -> bool {
        match self.failures {
            0 => true,
            _ => !self.is_tried && self.retry_at.is_none_or(|at| at <= now),
        }
    }
}

/// A host that was chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Choice {
    /// Its place in the list.
    pub(super) host: usize,
    /// It has failed before.
    pub(super) in_doubt: bool,
}

/// All hosts of a pool, in the order of its settings.
#[derive(Debug, Default, pgweir_freeze::Freeze)]
pub(crate) struct Hosts {
    hosts: Vec<Host>,
    next: usize,
}

impl Hosts {
    pub(crate) fn new(count: usize) -> Self {
        Hosts {
            hosts: vec![Host::default(); count],
            next: 0,
        }
    }

    /// The host for a connection now: in turn from the next host on. A host of the wrong kind is taken only if there is
    /// no other.
    fn choice(&self, now: Time) -> Option<Choice> {
        let count = self.hosts.len();
        let in_turn = || (0..count).map(|i| (self.next + i) % count);
        let may_try = |host: &usize| self.hosts[*host].may_try(now);
        let wanted = in_turn().find(|host| !self.hosts[*host].is_unwanted && may_try(host));
        let has_sound = self.hosts.iter().any(Host::is_sound);
        let unwanted = || in_turn().find(|host| may_try(host)).filter(|_| !has_sound);
        let host = wanted.or_else(unwanted)?;
        let in_doubt = self.hosts[host].failures > 0;
        Some(Choice { host, in_doubt })
    }

    /// Whether a connection may be opened now.
    pub(crate) fn may_open(&self, now: Time) -> bool {
        self.choice(now).is_some()
    }

    /// The host for the next connection. `round_robin`: next time the host after it is taken, otherwise the same one.
    pub(crate) fn take(&mut self, now: Time, round_robin: bool) -> Option<Choice> {
        let choice = self.choice(now)?;
        self.next = choice.host;
        if round_robin {
            self.pass_over(choice.host);
        }
        if choice.in_doubt {
            self.hosts[choice.host].is_tried = true;
        }
        Some(choice)
    }

    fn pass_over(&mut self, host: usize) {
        if self.next == host {
            self.next = (host + 1) % self.hosts.len().max(1);
        }
    }

    /// A connection attempt has had no answer for too long: it is in doubt now.
    pub(crate) fn is_slow(&mut self, host: usize) {
        if let Some(host) = self.hosts.get_mut(host) {
            host.failures = host.failures.max(1);
            host.is_tried = true;
        }
    }

    /// The best host to try instead of the one at `place`, which has not answered for this long.
    pub(crate) fn better_than_silent(&self, now: Time, place: usize, silent: Duration) -> Option<usize> {
        let has_sound = self.hosts.iter().any(Host::is_sound);
        let others = self.hosts.iter().enumerate().filter(|(at, host)| {
            let serves = !host.is_unwanted || !has_sound;
            *at != place && serves && host.may_try(now) && host.failures <= PATIENCE_FAILURES_MAX
        });
        let (at, host) = others.min_by_key(|(_, host)| (host.is_unwanted, host.failures))?;
        (silent > OPENS_IN_TIME * PATIENCE_TIMES.pow(host.failures.div_ceil(2))).then_some(at)
    }

    /// An attempt at `silent` is given up, and the next one is made at `better`.
    pub(crate) fn turn_from_silent(&mut self, now: Time, silent: usize, better: usize, pause_max: Duration) {
        self.failed(now, silent, true, pause_max);
        self.next = better;
    }

    /// A connection could not be opened, or was refused. `pause_max` limits the pause before the next attempt. If the
    /// failure is not temporary, it is the pause.
    pub(crate) fn failed(&mut self, now: Time, place: usize, is_temporary: bool, pause_max: Duration) {
        let Some(host) = self.hosts.get_mut(place) else { return };
        host.is_tried = false;
        if std::mem::take(&mut host.steps_back) {
            return self.pass_over(place);
        }
        host.failures = host.failures.saturating_add(1);
        let doubled = RETRY_PAUSE_MIN * 2u32.saturating_pow(host.failures.min(DOUBLINGS_MAX) - 1);
        let pause = match is_temporary {
            true => doubled.min(RETRY_PAUSE_MAX).min(pause_max),
            false => pause_max,
        };
        host.retry_at = Some(now + pause);
        self.pass_over(place);
    }

    /// Why a connection failed; [`Hosts::failed`] was called before. Returns the reason that tells most among those of
    /// all hosts that are like this one, temporary or not.
    pub(crate) fn telling_reason(&mut self, place: usize, failure: &LoginFailure) -> LoginFailure {
        let Some(host) = self.hosts.get_mut(place) else {
            return failure.clone();
        };
        host.reason = Some(failure.clone());
        let mut telling = (host.reason_tells(failure), failure);
        for host in self.hosts.iter().filter(|host| host.failures > 0) {
            if let Some(reason) = host.reason.as_ref().filter(|r| r.temporary == failure.temporary)
                && host.reason_tells(reason) > telling.0
            {
                telling = (host.reason_tells(reason), reason);
            }
        }
        telling.1.clone()
    }

    /// A server of the wrong kind was found at this address of the host, whose name has these addresses. Returns whether
    /// another one may be of the right kind: then the next connection is attempted at once. This happens only before
    /// the host has failed, and `times_max` times.
    pub(crate) fn may_be_wanted_elsewhere(
        &mut self,
        place: usize,
        at: IpAddr,
        addresses: &[IpAddr],
        times_max: usize,
    ) -> bool {
        let Some(host) = self.hosts.get_mut(place) else {
            return false;
        };
        if !host.unwanted_at.contains(&at) {
            host.unwanted_at.push(at);
        }
        host.unwanted_times += 1;
        let is_left = addresses.iter().any(|address| !host.unwanted_at.contains(address));
        let goes_on = is_left && host.failures == 0 && host.unwanted_times <= times_max;
        if !goes_on {
            (host.unwanted_at, host.unwanted_times) = (Vec::new(), 0);
        }
        goes_on
    }

    /// A connection attempt has ended, and shows nothing about those that follow.
    pub(crate) fn attempt_is_void(&mut self, place: usize) {
        if let Some(host) = self.hosts.get_mut(place) {
            host.is_tried = false;
        }
    }

    /// The host is of the wrong kind. If it may not serve, a call of [`Hosts::failed`] follows.
    pub(crate) fn is_unwanted(&mut self, place: usize) {
        if let Some(host) = self.hosts.get_mut(place) {
            host.is_unwanted = true;
        }
    }

    /// The host is only a second choice, and there may be a better one. A call of [`Hosts::failed`] follows.
    pub(crate) fn steps_back(&mut self, place: usize) {
        if let Some(host) = self.hosts.get_mut(place) {
            (host.is_unwanted, host.steps_back) = (true, true);
            (host.failures, host.retry_at) = (0, None);
        }
    }

    /// A login has succeeded, and the server may serve. `is_wanted`: it is of the wanted kind.
    pub(crate) fn kind_is_known(&mut self, place: usize, is_wanted: bool) {
        if let Some(host) = self.hosts.get_mut(place) {
            host.is_unwanted = !is_wanted;
        }
    }

    /// A server of the host is ready to serve.
    pub(crate) fn succeeded(&mut self, place: usize) {
        if let Some(host) = self.hosts.get_mut(place) {
            *host = Host {
                is_unwanted: host.is_unwanted,
                suspected_at: host.suspected_at,
                ..Host::default()
            };
        }
    }

    /// Whether the latest login showed that the host is of the wrong kind.
    pub(crate) fn is_known_unwanted(&self, place: usize) -> bool {
        self.hosts.get(place).is_some_and(|host| host.is_unwanted)
    }

    /// Whether a server of second choice may serve, because each other host has failed or is no better.
    pub(crate) fn second_choice_serves(&self, place: usize) -> bool {
        let others = self.hosts.iter().enumerate().filter(|(at, _)| *at != place);
        others.map(|(_, host)| host).all(|host| !host.is_sound())
    }

    /// Whether a second choice serves, and a host that may be better was last tried at least `pause` ago.
    pub(crate) fn better_is_due(&self, now: Time, pause: Duration) -> bool {
        let is_due = |host: &Host| {
            let rests = host.retry_at.is_some_and(|at| at + pause > now);
            host.failures > 0 && !host.is_unwanted && !host.is_tried && !rests
        };
        let second_choice_serves = self.hosts.iter().any(|host| host.is_unwanted && host.failures == 0);
        second_choice_serves && self.hosts.iter().any(is_due)
    }

    /// A server of the host has sent an error that suggests the wrong kind. Returns whether to check the host.
    pub(crate) fn suspect(&mut self, now: Time, place: usize) -> bool {
        let Some(host) = self.hosts.get_mut(place) else {
            return false;
        };
        let is_new = host.suspected_at.is_none_or(|at| now - at >= SUSPECTED_PAUSE);
        if is_new {
            host.suspected_at = Some(now);
        }
        is_new
    }

    /// The next attempt at any host, if all of them have failed.
    pub(crate) fn all_failed_until(&self) -> Option<Time> {
        let times = self
            .hosts
            .iter()
            .map(|host| host.retry_at.filter(|_| host.failures > 0));
        times.collect::<Option<Vec<Time>>>()?.into_iter().min()
    }

    /// Forgets all failures.
    pub(crate) fn forget_failures(&mut self) {
        for host in &mut self.hosts {
            (host.failures, host.retry_at, host.reason) = (0, None, None);
        }
    }
}

#[cfg(test)]
#[path = "hosts_tests.rs"]
mod tests;
