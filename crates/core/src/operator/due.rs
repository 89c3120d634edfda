//! What is due for one server, one client or one pool because time has passed.

use crate::base::errors::Trouble;
use crate::base::ids::ClientId;
use crate::base::pool_id::PoolKind;
use crate::base::reasons::{Passing, Waiting};
use crate::base::settings::Settings;
use crate::base::time::Time;
use crate::client::{Client, ClientPhase};
use crate::pools::hosts::OPENS_IN_TIME;
use crate::pools::pool::Pool;
use crate::server::Server;
use crate::upstream::phase::ServerPhase;
use std::time::Duration;

/// How long a server may take to end its client's last work, or internal work, before it is closed.
const DRAIN_TIME_MAX: Duration = Duration::from_secs(10);

/// How long a server may take to close after a FATAL message. PostgreSQL closes at once. With another
/// server, the client would wait for answers that never come.
const LAST_WORDS_TIME_MAX: Duration = Duration::from_secs(1);

fn is_over(limit: Option<Duration>, now: Time, since: Time) -> bool {
    limit.is_some_and(|limit| now - since > limit)
}

/// What is due for a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ServerDue {
    Nothing,
    /// It could not be opened within server_connect_timeout.
    ConnectTimeout,
    /// It is being opened, and takes longer than usual.
    OpensSlowly,
    /// It is closed for this reason.
    Close(&'static str),
    /// It is being drained: its query is cancelled again.
    CancelAgain,
    /// The flight of its client takes long, and no client waits behind it.
    EndFlight,
    /// Its client does not read its reply, and the flights of others wait behind it.
    CloseClient(ClientId),
    /// A time limit of its client may be exceeded: see [`limit_over`].
    LookAtClient(ClientId),
}

/// What is due for a server of this pool.
pub(super) fn of_server(now: Time, server: &Server, pool: &Pool, settings: &Settings) -> ServerDue {
    if server
        .conversation
        .fatal()
        .is_some_and(|since| now - since > LAST_WORDS_TIME_MAX)
    {
        return ServerDue::Close("server did not close after a FATAL message");
    }
    let takes_too_long = now - server.since > DRAIN_TIME_MAX;
    match server.phase {
        ServerPhase::Connecting | ServerPhase::Securing | ServerPhase::Login(_) => {
            if is_over(settings.server_connect_timeout, now, server.connect_time) {
                ServerDue::ConnectTimeout
            } else if pool.settings().endpoints.len() > 1
                && !server.in_doubt
                && now - server.connect_time > OPENS_IN_TIME
            {
                ServerDue::OpensSlowly
            } else {
                ServerDue::Nothing
            }
        }
        ServerPhase::Idle => idle_server_ends(now, server, pool, settings).map_or(ServerDue::Nothing, ServerDue::Close),
        // See Pooler::time_listeners.
        ServerPhase::Listening => ServerDue::Nothing,
        ServerPhase::Linked if server.flights.as_ref().is_some_and(|flights| flights.is_long(now)) => {
            ServerDue::EndFlight
        }
        ServerPhase::Linked
            if server
                .flights
                .as_ref()
                .is_some_and(|flights| flights.waits_for_reader(now)) =>
        {
            server.link.map_or(ServerDue::Nothing, ServerDue::CloseClient)
        }
        ServerPhase::Linked => server.link.map_or(ServerDue::Nothing, ServerDue::LookAtClient),
        ServerPhase::Draining
        | ServerPhase::Resetting
        | ServerPhase::LiftingLimit
        | ServerPhase::Reading
        | ServerPhase::ConnectQuery
            if takes_too_long =>
        {
            ServerDue::Close("server did not become idle in time")
        }
        ServerPhase::Draining => ServerDue::CancelAgain,
        ServerPhase::Testing | ServerPhase::Closing if takes_too_long => ServerDue::Close("test query timeout"),
        ServerPhase::CancelPending(_) if takes_too_long => ServerDue::Close("cancel request was not sent in time"),
        _ => ServerDue::Nothing,
    }
}

/// Why an idle server must be closed now.
fn idle_server_ends(now: Time, server: &Server, pool: &Pool, settings: &Settings) -> Option<&'static str> {
    let (size, reserve) = (pool.settings().size, pool.settings().reserve_size);
    if let Some(reason) = server.close_reason {
        Some(reason.text())
    } else if server.is_expired(now) {
        Some("server lifetime over")
    } else if size > 0 && pool.servers() > size && pool.waiting().is_empty() {
        // PgBouncer lets servers from the reserve be idle as long as others.
        let is_of_reserve = pool.servers() <= size.saturating_add(reserve);
        Some(match is_of_reserve {
            true => "reserve server is not needed any more",
            false => "too many servers in the pool",
        })
    } else {
        let is_idle_for_long = is_over(settings.server_idle_timeout, now, server.since);
        (is_idle_for_long && pool.servers() > pool.settings().min_size).then_some("server idle timeout")
    }
}

/// A time limit that a client has exceeded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Exceeded {
    pub(super) trouble: Trouble,
    pub(super) message: &'static str,
    /// The setting of the pooler's; `None` if the limit is the client's own.
    pub(super) setting: Option<&'static str>,
}

impl Exceeded {
    /// The HINT for the client.
    pub(super) fn hint(&self) -> String {
        let hint = |setting| format!("The limit is the setting {setting}.");
        self.setting.map(hint).unwrap_or_default()
    }
}

const TRANSACTION_TIMEOUT: Exceeded = Exceeded {
    trouble: Trouble::TransactionTimeout,
    message: "transaction timeout",
    setting: Some("transaction_timeout"),
};

const IDLE_TRANSACTION_TIMEOUT: Exceeded = Exceeded {
    trouble: Trouble::IdleTransactionTimeout,
    message: "idle transaction timeout",
    setting: Some("idle_transaction_timeout"),
};

/// The client's own `transaction_timeout` is over, in a transaction that no server knows.
const OWN_TRANSACTION_LIMIT: Exceeded = Exceeded {
    trouble: Trouble::TransactionTimeout,
    message: "terminating connection due to transaction timeout",
    setting: None,
};

/// The client's own `idle_in_transaction_session_timeout` is over, in a transaction that no server knows.
const OWN_IDLE_TRANSACTION_LIMIT: Exceeded = Exceeded {
    trouble: Trouble::IdleTransactionTimeout,
    message: "terminating connection due to idle-in-transaction timeout",
    setting: None,
};

/// The time limit that a linked client has exceeded, if any.
///
/// While the server works on a request, query_timeout applies, even if only a part of the request has been sent and the
/// client must send the rest. It counts from when the client began to wait for the server, or to define something, and
/// up to its Sync. A client that owes the next message (a COMMIT, a Sync or the rest of a message) is idle in a transaction:
/// idle_transaction_timeout applies. transaction_timeout counts both.
pub(super) fn limit_over(
    now: Time,
    server: &Server,
    client: &Client,
    pool: &Pool,
    settings: &Settings,
) -> Option<Exceeded> {
    let exceeded = |trouble, message, setting| {
        Some(Exceeded {
            trouble,
            message,
            setting: Some(setting),
        })
    };
    let works = !server.conversation.queue().is_empty();
    let is_amid_message = matches!(client.passing, Passing::Forward(_));
    let is_in_transaction = !server.is_clean() || is_amid_message;
    let is_asked = works || server.awaits_sync() || client.waiting == Waiting::ToDefine;
    let asked = client.defines_since.unwrap_or(server.asked_time());
    if is_asked && is_over(pool.settings().query_timeout, now, asked) {
        return exceeded(Trouble::QueryTimeout, "query timeout", "query_timeout");
    }
    if is_in_transaction && is_over(pool.settings().transaction_timeout, now, client.xact_start) {
        return Some(TRANSACTION_TIMEOUT);
    }
    if works || client.waiting == Waiting::ToDefine {
        return None;
    }
    if is_in_transaction {
        let idle_since = match server.awaits_sync() {
            true => server.conversation.quiet_since(),
            false => server.conversation.ready_time(),
        };
        return is_over(pool.settings().idle_transaction_timeout, now, idle_since).then_some(IDLE_TRANSACTION_TIMEOUT);
    }
    // As in PgBouncer, a client of session pooling may be idle for as long as it likes once it has a server.
    let idle_limit = pool
        .settings()
        .client_idle_timeout
        .filter(|_| pool.settings().shares_servers());
    if is_over(idle_limit, now, server.conversation.ready_time()) {
        let words = "client_idle_timeout";
        return exceeded(Trouble::ClientIdleTimeout, words, words);
    }
    if client.session.pins().of_session() && is_over(settings.pin_idle_timeout, now, server.conversation.ready_time()) {
        return exceeded(Trouble::PinIdleTimeout, "pin_idle_timeout", "pin_idle_timeout");
    }
    None
}

/// What is due for a client without a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ClientDue {
    Nothing,
    /// It has not logged in within client_login_timeout.
    LoginTimeout,
    /// The same, because no server of its pool lets the pooler in.
    ServerDown,
    /// Its cancel request took longer than cancel_wait_timeout.
    CancelTimeout,
    /// The idle_session_timeout that the client has set.
    OwnIdleLimit,
    /// client_idle_timeout.
    IdleTimeout,
    /// A limit on the transaction that it has begun.
    Exceeded(Exceeded),
}

/// The time limit that a client with a deferred BEGIN has exceeded, if any. The limits count from the BEGIN, as they do
/// for a BEGIN that takes a server. No server enforces those that the client has set for its session.
fn deferred_limit_over(now: Time, client: &Client, pool: Option<&Pool>) -> Option<Exceeded> {
    let (begin, limits) = (client.session.deferred_begin()?, pool?.settings());
    if is_over(limits.transaction_timeout, now, begin.since()) {
        return Some(TRANSACTION_TIMEOUT);
    }
    let own = client.session.shape();
    if is_over(own.transaction_limit(), now, begin.since()) {
        return Some(OWN_TRANSACTION_LIMIT);
    }
    let idle_since = match client.waiting {
        Waiting::No => client.request_time,
        // The client has sent nothing else: the pooler takes a server only for the BEGIN.
        _ if begin.has_expired() => begin.since(),
        _ => return None,
    };
    if is_over(own.idle_in_transaction_limit(), now, idle_since) {
        return Some(OWN_IDLE_TRANSACTION_LIMIT);
    }
    is_over(limits.idle_transaction_timeout, now, idle_since).then_some(IDLE_TRANSACTION_TIMEOUT)
}

/// Whether a client that logs in waits for the first server of its pool.
fn lacks_welcome(client: &Client, pool: Option<&Pool>) -> bool {
    let asks_about_user = matches!(&client.phase, ClientPhase::Login(login) if login.awaits_auth_query());
    !asks_about_user && pool.is_some_and(|pool| pool.welcome().is_none())
}

/// The time limit that a client without a server has exceeded, because it has waited to define something.
fn definer_limit_over(now: Time, client: &Client, pool: Option<&Pool>, settings: &Settings) -> Option<Exceeded> {
    let since = client.defines_since?;
    let over = |trouble, words| Exceeded {
        trouble,
        message: words,
        setting: Some(words),
    };
    if is_over(settings.query_timeout, now, since) {
        return Some(over(Trouble::QueryTimeout, "query_timeout"));
    }
    let limit = pool.and_then(|pool| pool.settings().query_wait_timeout);
    let is_late = client.waiting == Waiting::ToDefine && is_over(limit, now, since);
    is_late.then(|| over(Trouble::QueryWaitTimeout, "query_wait_timeout"))
}

/// What is due for a client; `pool` is its pool.
pub(super) fn of_client(now: Time, client: &Client, pool: Option<&Pool>, settings: &Settings) -> ClientDue {
    match client.phase {
        ClientPhase::Startup(_) | ClientPhase::Login(_) => {
            // A client in a pool's queue is under query_wait_timeout, unless no server has ever let the pooler in.
            if is_over(settings.client_login_timeout, now, client.connect_time) {
                return match client.waiting {
                    Waiting::ForServer { .. } if lacks_welcome(client, pool) => ClientDue::ServerDown,
                    Waiting::ForServer { .. } => ClientDue::Nothing,
                    _ => ClientDue::LoginTimeout,
                };
            }
        }
        ClientPhase::Cancelling { .. } => {
            if is_over(settings.cancel_wait_timeout, now, client.connect_time) {
                return ClientDue::CancelTimeout;
            }
        }
        ClientPhase::Session if client.link.is_none() && client.defines_since.is_some() => {
            return definer_limit_over(now, client, pool, settings).map_or(ClientDue::Nothing, ClientDue::Exceeded);
        }
        ClientPhase::Session if client.link.is_none() && client.session.deferred_begin().is_some() => {
            return deferred_limit_over(now, client, pool).map_or(ClientDue::Nothing, ClientDue::Exceeded);
        }
        ClientPhase::Session if client.link.is_none() && client.waiting == Waiting::No => {
            if is_over(client.own_idle_limit(), now, client.request_time) {
                return ClientDue::OwnIdleLimit;
            }
            let limit = pool.and_then(|pool| pool.settings().client_idle_timeout);
            if is_over(limit, now, client.request_time) {
                return ClientDue::IdleTimeout;
            }
        }
        ClientPhase::Session | ClientPhase::Console(_) => {}
    }
    ClientDue::Nothing
}

/// What is due for a pool that may be unused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PoolDue {
    Nothing,
    /// It has had neither clients nor servers for this long: it is dropped.
    Clean(Duration),
    /// Its database was made from `*`, or it is for replication, and it is unused: it is dropped.
    Forget,
}

/// What is due for a pool according to the pool's state alone.
pub(super) fn of_pool(now: Time, pool: &Pool, settings: &Settings) -> PoolDue {
    let has_listener = pool.key().kind == PoolKind::Listener && pool.servers() > 0;
    if pool.clients() > 0 || !pool.waiting().is_empty() || has_listener {
        return PoolDue::Nothing;
    }
    // A pool for replication was opened for one client, and no other client can use it. But a refused login is
    // remembered until the next attempt is allowed.
    if pool.key().kind.is_replication() && pool.may_retry(now) {
        return PoolDue::Forget;
    }
    let unused_for = |limit: Option<Duration>| is_over(limit, now, pool.last_used());
    if pool.servers() > 0 {
        PoolDue::Nothing
    } else if unused_for(settings.pool_idle_timeout) {
        PoolDue::Clean(now - pool.last_used())
    } else if pool.is_auto() && (unused_for(settings.autodb_idle_timeout) || pool.is_unproven()) {
        PoolDue::Forget
    } else {
        PoolDue::Nothing
    }
}

/// Notes when a segment began that its client has not ended, and since when the server has had nothing to do in it. No
/// ReadyForQuery marks these moments, and each message behind the answers would begin the time anew.
pub(super) fn note_open_segment(now: Time, server: &mut Server) {
    if server.awaits_sync() {
        server.asked.get_or_insert(server.conversation.request_time());
    }
    if !server.conversation.queue().is_empty() {
        return;
    }
    if !server.is_clean() {
        server.conversation.is_seen_quiet(now);
    } else if now > server.since {
        // The pooler itself may have answered what the client had waited for.
        server.asked = None;
    }
}

#[cfg(test)]
#[path = "due_tests.rs"]
mod tests;
