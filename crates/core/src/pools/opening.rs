//! Opening server connections: when a pool may open one, what is sent first, and what a failure means for the next.

use crate::base::close_reason::FullLimit;
use crate::base::pool_id::{LoginFailure, PoolKey, PoolKind};
use crate::base::request::Endpoint;
use crate::base::time::Time;
use crate::notify::hub::LISTENER_NAME;
use crate::pools::databases::Databases;
use crate::pools::places::Line;
use crate::pools::pool::Pool;
use pgweir_wire::{ProtocolVersion, StartupPacket};
use std::time::Duration;

/// The most connections of one pool that are opened at the same time.
pub(crate) const OPENING_AT_ONCE_MAX: u32 = 16;

/// A server's lifetime varies by up to this part of it, so that servers opened together are not closed together.
const LIFETIME_JITTER_DIVISOR: u64 = 5;

/// Whether one more server may be opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MayOpen {
    Yes,
    No,
    /// A limit that several pools share is reached: an idle server of another pool must be closed first.
    Instead(SharedLimit),
}

/// A limit on the servers of several pools.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SharedLimit {
    /// `max_db_connections`
    Database,
    /// `max_user_connections`
    User,
    /// `pool_size` of a pool, in which replication connections of its database and user count.
    Pool,
}

impl SharedLimit {
    /// The same, as a reason to close a server.
    pub(crate) fn as_reason(self) -> FullLimit {
        match self {
            SharedLimit::Database => FullLimit::Database,
            SharedLimit::User => FullLimit::User,
            SharedLimit::Pool => FullLimit::Pool,
        }
    }

    /// The line of the pools that it keeps from opening a server.
    pub(crate) fn line(self) -> Line {
        match self {
            SharedLimit::Database => Line::Database,
            SharedLimit::User | SharedLimit::Pool => Line::User,
        }
    }

    /// Whether the limit holds for the two pools together.
    pub(crate) fn is_shared(self, one: &PoolKey, other: &PoolKey) -> bool {
        match self {
            SharedLimit::Database => one.database == other.database,
            SharedLimit::User => one.user == other.user,
            SharedLimit::Pool => counts_together(one, other),
        }
    }
}

/// Whether the servers of two pools count together for `pool_size`: replication connections count with the clients'
/// servers of their database and user, and with each other.
pub(crate) fn counts_together(one: &PoolKey, other: &PoolKey) -> bool {
    let is_main = |key: &PoolKey| key.kind == PoolKind::Clients && key.start.is_empty();
    let are_of_size = match (one.kind.is_replication(), other.kind.is_replication()) {
        (true, true) => true,
        (true, false) => is_main(other),
        (false, true) => is_main(one),
        (false, false) => false,
    };
    are_of_size && one.database == other.database && one.user == other.user
}

/// What a pool can do after a failed connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hope {
    /// Try another host at once.
    OtherHost,
    /// Go on with the servers that it has.
    Servers,
    /// Nothing: no client gets a server before `retry_at`.
    None,
}

impl Pool {
    /// Whether a client that is not authenticated has caused this pool, and no server has confirmed that its database
    /// exists.
    pub(crate) fn is_unproven(&self) -> bool {
        self.key().kind == PoolKind::AuthQuery && self.is_auto() && self.welcome().is_none()
    }

    /// Whether the pool's first server would be the first to tell whether its database exists.
    pub(crate) fn is_untried(&self) -> bool {
        self.is_unproven() && self.servers() == 0
    }

    /// Whether the pool has as many servers as its size allows. `beside`: servers of other pools that count together
    /// with the servers of this pool. `reserve`: the reserve pool may be used.
    #[inline]
    pub(crate) fn is_full(&self, beside: u32, reserve: bool) -> bool {
        let settings = self.settings();
        let size = settings.size + if reserve { settings.reserve_size } else { 0 };
        settings.size > 0 && self.servers().saturating_add(beside) >= size
    }

    /// Whether the limits allow one more server now. `beside` and `reserve`: as for [`Pool::is_full`].
    pub(crate) fn may_open(&self, now: Time, databases: &Databases, beside: u32, reserve: bool) -> MayOpen {
        let settings = self.settings();
        if settings.endpoints.is_empty() {
            return MayOpen::No;
        }
        if self.is_full(0, reserve) || !self.may_retry(now) {
            return MayOpen::No;
        }
        // While no host works, one attempt at a time at each is enough.
        if !self.hosts().may_open(now) {
            return MayOpen::No;
        }
        let reached = |limit: u32, count: u32| limit > 0 && count >= limit;
        if self.is_full(beside, reserve) {
            return MayOpen::Instead(SharedLimit::Pool);
        }
        if reached(
            settings.max_db_connections,
            databases.of_database(&self.key().database).servers(),
        ) {
            return MayOpen::Instead(SharedLimit::Database);
        }
        if reached(
            settings.max_user_connections,
            databases.of_user(&self.key().user).servers(),
        ) {
            return MayOpen::Instead(SharedLimit::User);
        }
        MayOpen::Yes
    }

    /// The lifetime of a server that is opened now. `random` draws a number.
    pub(crate) fn lifetime(&self, random: impl FnOnce() -> u64) -> Duration {
        let lifetime = self.settings().server_lifetime;
        let jitter = lifetime.as_micros() as u64 / LIFETIME_JITTER_DIVISOR;
        lifetime - Duration::from_micros(if jitter > 0 { random() % jitter } else { 0 })
    }

    pub(crate) fn startup_packet(&self) -> Vec<u8> {
        let settings = self.settings();
        let mut keywords: Vec<(&[u8], &[u8])> = vec![
            (b"user", settings.server_user.as_bytes()),
            (b"database", settings.server_database.as_bytes()),
        ];
        if let PoolKind::Replication { physical } = self.key().kind {
            let mode: &[u8] = if physical { b"true" } else { b"database" };
            keywords.push((b"replication", mode));
        }
        let mut parameters: Vec<(&[u8], &[u8])> = Vec::new();
        parameters.extend(settings.startup.iter().map(|(n, v)| (n.as_bytes(), v.as_bytes())));
        parameters.extend(self.key().start.iter().map(|(n, v)| (n.as_bytes(), v.as_bytes())));
        if self.key().kind == PoolKind::Listener {
            parameters.retain(|(name, _)| *name != b"application_name");
            parameters.push((b"application_name", LISTENER_NAME.as_bytes()));
        }
        let mut packet = Vec::new();
        StartupPacket::write_login(&mut packet, ProtocolVersion::V3_0, &keywords, parameters);
        packet
    }

    /// A login to this host has succeeded. `is_wanted`: the host is what `target_session_attrs` wants.
    pub(crate) fn note_login(&mut self, endpoint: &Endpoint, is_wanted: bool) {
        self.one_has_logged_in();
        if let Some(host) = self.host_of(endpoint) {
            self.hosts_mut().kind_is_known(host, is_wanted);
        }
    }

    /// A server of this host has logged in and needs no more examination: the attempt to open it has succeeded.
    pub(crate) fn note_success(&mut self, endpoint: &Endpoint) {
        if let Some(host) = self.host_of(endpoint) {
            self.hosts_mut().succeeded(host);
        }
        self.opening_succeeded();
    }

    /// A connection to this host could not be opened, the login was refused, or the server ended before it was of use.
    /// `pause_max` is `server_login_retry`.
    pub(crate) fn note_failure(
        &mut self,
        now: Time,
        endpoint: &Endpoint,
        failure: &LoginFailure,
        pause_max: Duration,
    ) -> Hope {
        let mut telling = failure.clone();
        if let Some(host) = self.host_of(endpoint) {
            self.hosts_mut().failed(now, host, failure.temporary, pause_max);
            telling = self.hosts_mut().telling_reason(host, failure);
        }
        self.opening_failed(now, telling, pause_max);
        if self.has_ready_servers() {
            Hope::Servers
        } else if !self.waits_to_retry() {
            Hope::OtherHost
        } else {
            Hope::None
        }
    }
}
