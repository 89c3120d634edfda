//! What is due because time has passed: for one server, for one client, for one pool.

use crate::base::errors::Trouble;
use crate::base::ids::ClientId;
use crate::base::pool_id::PoolKind;
use crate::base::reasons::{Passing, Waiting};
use crate::base::settings::Settings;
use crate::base::time::Time;
use crate::client::{Client, ClientPhase};
use crate::pools::pool::Pool;
use crate::server::Server;
use crate::upstream::phase::{Intake, ServerPhase};
use std::time::Duration;

/// How long an abandoned server may take to end what its client began, before it is closed.
const DRAIN_TIME_MAX: Duration = Duration::from_secs(10);

fn is_over(limit: Option<Duration>, now: Time, since: Time) -> bool {
    limit.is_some_and(|limit| now - since > limit)
}

/// What is due for a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ServerDue {
    Nothing,
    /// It could not be opened within server_connect_timeout.
    ConnectTimeout,
    /// It is closed for this reason.
    Close(&'static str),
    /// It drains: what it works on is cancelled again.
    CancelAgain,
    /// What its client may do is limited: see [`limit_over`].
    LookAtClient(ClientId),
}

/// What is due for a server of this pool.
pub(super) fn of_server(now: Time, server: &Server, pool: &Pool, settings: &Settings) -> ServerDue {
    let takes_too_long = now - server.since > DRAIN_TIME_MAX;
    match server.phase {
        ServerPhase::Connecting | ServerPhase::Securing | ServerPhase::Login(_) => {
            if is_over(settings.server_connect_timeout, now, server.connect_time) {
                ServerDue::ConnectTimeout
            } else {
                ServerDue::Nothing
            }
        }
        ServerPhase::Idle => idle_server_ends(now, server, pool, settings).map_or(ServerDue::Nothing, ServerDue::Close),
        // See Pooler::time_listeners.
        ServerPhase::Listening => ServerDue::Nothing,
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
        ServerPhase::Testing | ServerPhase::CancelPending | ServerPhase::Closing if takes_too_long => {
            ServerDue::Close("test query timeout")
        }
        _ => ServerDue::Nothing,
    }
}

/// Why an idle server is closed now.
fn idle_server_ends(now: Time, server: &Server, pool: &Pool, settings: &Settings) -> Option<&'static str> {
    let size = pool.settings.size;
    if let Some(reason) = server.close_reason {
        Some(reason.text())
    } else if server.is_expired(now) {
        Some("server lifetime over")
    } else if size > 0 && pool.servers > size && pool.waiting.is_empty() {
        Some("reserve server is not needed any more")
    } else {
        let is_idle_for_long = is_over(settings.server_idle_timeout, now, server.since);
        (is_idle_for_long && pool.servers > pool.settings.min_size).then_some("server idle timeout")
    }
}

/// A time limit that a client has exceeded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Exceeded {
    pub(super) trouble: Trouble,
    pub(super) message: &'static str,
    pub(super) setting: &'static str,
}

/// Which time limit a linked client has exceeded.
///
/// A request of which a part has been sent is at work, also where its client must send the rest: query_timeout. A
/// client that has begun something and owes the next message, be it a COMMIT, a Sync or the rest of a message, is idle
/// in a transaction: idle_transaction_timeout. transaction_timeout counts both.
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
            setting,
        })
    };
    let works = !server.conversation.queue.is_empty();
    let is_amid_message = matches!(client.passing, Passing::Forward(_));
    let is_in_transaction = !server.is_clean() || is_amid_message;
    if works && is_over(pool.settings.query_timeout, now, server.conversation.request_time) {
        return exceeded(Trouble::QueryTimeout, "query timeout", "query_timeout");
    }
    if is_in_transaction && is_over(pool.settings.transaction_timeout, now, client.xact_start) {
        let words = ("transaction timeout", "transaction_timeout");
        return exceeded(Trouble::TransactionTimeout, words.0, words.1);
    }
    if works {
        return None;
    }
    if is_in_transaction {
        let idle_since = if server.conversation.queue.segment_open() || server.conversation.intake == Intake::ToSync {
            server.conversation.quiet_since
        } else {
            server.conversation.ready_time
        };
        if !is_over(pool.settings.idle_transaction_timeout, now, idle_since) {
            return None;
        }
        let words = ("idle transaction timeout", "idle_transaction_timeout");
        return exceeded(Trouble::IdleTransactionTimeout, words.0, words.1);
    }
    if is_over(pool.settings.client_idle_timeout, now, server.conversation.ready_time) {
        let words = "client_idle_timeout";
        return exceeded(Trouble::ClientIdleTimeout, words, words);
    }
    if client.session.pins.of_session() && is_over(settings.pin_idle_timeout, now, server.conversation.ready_time) {
        return exceeded(Trouble::PinIdleTimeout, "pin_idle_timeout", "pin_idle_timeout");
    }
    None
}

/// What is due for a client that has no server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ClientDue {
    Nothing,
    /// It has not logged in within client_login_timeout.
    LoginTimeout,
    /// Its cancel request took longer than cancel_wait_timeout.
    CancelTimeout,
    /// Its own idle_session_timeout.
    OwnIdleLimit,
    /// client_idle_timeout.
    IdleTimeout,
}

/// What is due for a client, whose pool this is.
pub(super) fn of_client(now: Time, client: &Client, pool: Option<&Pool>, settings: &Settings) -> ClientDue {
    match client.phase {
        ClientPhase::Startup | ClientPhase::Login(_) => {
            // Who waits in a pool's queue is under query_wait_timeout.
            let is_queued = matches!(client.waiting, Waiting::ForServer { .. });
            if !is_queued && is_over(settings.client_login_timeout, now, client.connect_time) {
                return ClientDue::LoginTimeout;
            }
        }
        ClientPhase::Cancelling => {
            if is_over(settings.cancel_wait_timeout, now, client.connect_time) {
                return ClientDue::CancelTimeout;
            }
        }
        ClientPhase::Session if client.link.is_none() && client.waiting == Waiting::No => {
            if is_over(client.own_idle_limit(), now, client.request_time) {
                return ClientDue::OwnIdleLimit;
            }
            let limit = pool.and_then(|pool| pool.settings.client_idle_timeout);
            if is_over(limit, now, client.request_time) {
                return ClientDue::IdleTimeout;
            }
        }
        ClientPhase::Session | ClientPhase::Console(_) => {}
    }
    ClientDue::Nothing
}

/// What is due for a pool that may be out of use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PoolDue {
    Nothing,
    /// Nobody has used it for this long: its servers are closed, and it is forgotten.
    Clean(Duration),
    /// Its database was made from `*` and nobody uses it: it is forgotten.
    Forget,
}

/// What is due for a pool, as far as its own state tells.
pub(super) fn of_pool(now: Time, pool: &Pool, settings: &Settings) -> PoolDue {
    let has_listener = pool.key.kind == PoolKind::Listener && pool.servers > 0;
    if pool.clients > 0 || !pool.waiting.is_empty() || has_listener {
        return PoolDue::Nothing;
    }
    let unused_for = |limit: Option<Duration>| is_over(limit, now, pool.last_used);
    if unused_for(settings.pool_idle_timeout) {
        PoolDue::Clean(now - pool.last_used)
    } else if pool.auto && pool.servers == 0 && (unused_for(settings.autodb_idle_timeout) || pool.is_unproven()) {
        PoolDue::Forget
    } else {
        PoolDue::Nothing
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::close_reason::CloseReason;
    use crate::base::pool_id::PoolKey;
    use crate::base::request::{Accepted, Address, Endpoint};
    use crate::base::settings::PoolSettings;
    use crate::state::shape::ShapeTable;
    use crate::upstream::reply_queue::{Entry, Expect};
    use pgweir_auth::Credential;

    const START: Time = Time(0);

    /// A pool with one server and one client, under these settings.
    struct Rig {
        settings: Settings,
        pool: Pool,
        server: Server,
        client: Client,
    }

    impl Rig {
        fn new(settings: &str) -> Rig {
            let ini = format!("[databases]\ndb = host=h\n[pgbouncer]\nauth_type = any\nlisten_addr = *\n{settings}\n");
            let files = |_: &str| -> std::io::Result<Vec<u8>> { Ok(ini.clone().into_bytes()) };
            let config = pgweir_config::load("test.ini", &files).unwrap().config;
            let entry = config.database("db").unwrap();
            let key = PoolKey {
                database: "db".into(),
                user: "u".into(),
                kind: PoolKind::Clients,
                start: Box::default(),
            };
            let mut pool = Pool::new(START, key, PoolSettings::new(&config, &entry, "u"), Credential::Nothing);
            pool.servers = 1;
            let shape = ShapeTable::new().empty();
            let endpoint = Endpoint::Unix {
                path: "/tmp/.s.PGSQL.1".into(),
                port: 1,
            };
            let unix = Address::Unix { port: 1 };
            let accepted = Accepted {
                peer: unix,
                local: unix,
                peer_uid: None,
            };
            Rig {
                settings: Settings::new(&config),
                pool,
                server: Server::new(START, 0, endpoint, shape.clone(), after(3600)),
                client: Client::new(START, accepted, shape),
            }
        }

        fn server(&self, now: Time) -> ServerDue {
            of_server(now, &self.server, &self.pool, &self.settings)
        }

        fn limit(&self, now: Time) -> Option<&'static str> {
            limit_over(now, &self.server, &self.client, &self.pool, &self.settings).map(|over| over.setting)
        }

        fn client(&self, now: Time) -> ClientDue {
            of_client(now, &self.client, Some(&self.pool), &self.settings)
        }
    }

    fn after(seconds: u64) -> Time {
        START + Duration::from_secs(seconds)
    }

    #[test]
    fn a_server_that_does_not_open_is_given_up() {
        let rig = Rig::new("server_connect_timeout = 15");
        assert_eq!(rig.server(after(15)), ServerDue::Nothing);
        assert_eq!(rig.server(after(16)), ServerDue::ConnectTimeout);
    }

    #[test]
    fn an_idle_server_ends_for_the_first_reason_that_holds() {
        let mut rig = Rig::new("server_idle_timeout = 600\nmin_pool_size = 0");
        rig.server.phase = ServerPhase::Idle;
        assert_eq!(rig.server(after(600)), ServerDue::Nothing);
        assert_eq!(rig.server(after(601)), ServerDue::Close("server idle timeout"));
        rig.pool.settings.min_size = 1;
        assert_eq!(rig.server(after(601)), ServerDue::Nothing, "the pool keeps it");
        assert_eq!(rig.server(after(3601)), ServerDue::Close("server lifetime over"));
        rig.server.close_reason = Some(CloseReason::Reconnect);
        assert_eq!(rig.server(after(3601)), ServerDue::Close("close_needed"));
    }

    #[test]
    fn an_abandoned_server_is_cancelled_again_until_it_is_closed() {
        let mut rig = Rig::new("");
        rig.server.phase = ServerPhase::Draining;
        assert_eq!(rig.server(after(10)), ServerDue::CancelAgain);
        assert_eq!(
            rig.server(after(11)),
            ServerDue::Close("server did not become idle in time")
        );
    }

    #[test]
    fn a_client_is_at_work_while_its_server_owes_it_something() {
        let mut rig = Rig::new("query_timeout = 5\nidle_transaction_timeout = 2\nclient_idle_timeout = 9");
        rig.server.conversation.queue.push(Entry::forward(Expect::Query));
        assert_eq!(rig.limit(after(5)), None, "it is not idle, whatever it waits for");
        assert_eq!(rig.limit(after(6)), Some("query_timeout"));
    }

    #[test]
    fn a_client_that_owes_the_next_message_is_idle_in_a_transaction() {
        let mut rig = Rig::new("idle_transaction_timeout = 2\ntransaction_timeout = 4\nclient_idle_timeout = 9");
        rig.server.conversation.status = pgweir_wire::TransactionStatus::InTransaction;
        assert_eq!(rig.limit(after(2)), None);
        assert_eq!(rig.limit(after(3)), Some("idle_transaction_timeout"));
        assert_eq!(rig.limit(after(5)), Some("transaction_timeout"));
        rig.server.conversation.status = pgweir_wire::TransactionStatus::Idle;
        assert_eq!(rig.limit(after(5)), None);
        assert_eq!(rig.limit(after(10)), Some("client_idle_timeout"));
    }

    #[test]
    fn a_login_that_waits_in_the_queue_has_no_other_time_limit() {
        let mut rig = Rig::new("client_login_timeout = 60");
        assert_eq!(rig.client(after(60)), ClientDue::Nothing);
        assert_eq!(rig.client(after(61)), ClientDue::LoginTimeout);
        rig.client.waiting = Waiting::ForServer {
            ticket: 0,
            since: START,
            notified: false,
        };
        assert_eq!(rig.client(after(61)), ClientDue::Nothing);
    }

    #[test]
    fn a_pool_is_cleaned_when_nobody_uses_it() {
        let mut rig = Rig::new("pool_idle_timeout = 100");
        let due = |rig: &Rig, seconds| of_pool(after(seconds), &rig.pool, &rig.settings);
        assert_eq!(due(&rig, 100), PoolDue::Nothing);
        assert_eq!(due(&rig, 101), PoolDue::Clean(Duration::from_secs(101)));
        rig.pool.clients = 1;
        assert_eq!(due(&rig, 101), PoolDue::Nothing);
    }
}
