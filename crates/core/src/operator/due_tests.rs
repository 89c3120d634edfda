//! Tests of what is due.

use super::*;
use crate::base::address::Address;
use crate::base::close_reason::CloseReason;
use crate::base::ids::{ServerId, Slot};
use crate::base::pool_id::PoolKey;
use crate::base::request::{Accepted, Endpoint};
use crate::base::settings::{PoolMode, PoolSettings};
use crate::pools::databases::Databases;
use crate::state::deferred_begin::{By, DeferredBegin};
use crate::state::shape_table::ShapeTable;
use crate::upstream::entry::{Entry, Expect};
use pgweir_auth::Credential;
use pgweir_config::Config;

const START: Time = Time(0);

const SERVER: ServerId = ServerId(Slot {
    index: 0,
    generation: 0,
});

/// A pool with one server and one client, and these settings.
struct Rig {
    settings: Settings,
    databases: Databases,
    pool: Pool,
    server: Server,
    client: Client,
    config: Config,
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
        let mut databases = Databases::default();
        databases.server_in(0, &mut pool, SERVER);
        pool.one_has_logged_in();
        let shape = ShapeTable::new().empty();
        let endpoint = Endpoint::Unix {
            path: "/tmp/.s.PGSQL.1".into(),
            port: 1,
        };
        let unix = Address::Unix { port: 1, pid: None };
        let accepted = Accepted {
            peer: unix,
            local: unix,
            peer_uid: None,
        };
        Rig {
            settings: Settings::new(&config),
            databases,
            pool,
            server: Server::new(START, 0, endpoint, shape.clone(), after(3600)),
            client: Client::new(START, accepted, shape),
            config,
        }
    }

    fn server(&self, now: Time) -> ServerDue {
        of_server(now, &self.server, &self.pool, &self.settings)
    }

    fn limit(&self, now: Time) -> Option<&'static str> {
        limit_over(now, &self.server, &self.client, &self.pool, &self.settings).and_then(|over| over.setting)
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
    rig.pool.settings_mut().min_size = 1;
    assert_eq!(rig.server(after(601)), ServerDue::Nothing, "the pool keeps it");
    assert_eq!(rig.server(after(3601)), ServerDue::Close("server lifetime over"));
    rig.server.close_reason = Some(CloseReason::Reconnect);
    assert_eq!(
        rig.server(after(3601)),
        ServerDue::Close("database configuration changed")
    );
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
    rig.server.conversation.queue_mut().push(Entry::forward(Expect::Query));
    assert_eq!(rig.limit(after(5)), None, "it is not idle, whatever it waits for");
    assert_eq!(rig.limit(after(6)), Some("query_timeout"));
}

#[test]
fn a_client_that_owes_the_next_message_is_idle_in_a_transaction() {
    let mut rig = Rig::new(
        "pool_mode = transaction\nidle_transaction_timeout = 2\ntransaction_timeout = 4\nclient_idle_timeout = 9",
    );
    rig.server
        .conversation
        .reports(pgweir_wire::TransactionStatus::InTransaction);
    assert_eq!(rig.limit(after(2)), None);
    assert_eq!(rig.limit(after(3)), Some("idle_transaction_timeout"));
    assert_eq!(rig.limit(after(5)), Some("transaction_timeout"));
    rig.client.waiting = Waiting::ToDefine;
    assert_eq!(rig.limit(after(3)), None, "it has asked for something");
    rig.client.waiting = Waiting::No;
    rig.server.conversation.reports(pgweir_wire::TransactionStatus::Idle);
    assert_eq!(rig.limit(after(5)), None);
    assert_eq!(rig.limit(after(10)), Some("client_idle_timeout"));
    rig.pool.settings_mut().mode = PoolMode::Session;
    assert_eq!(rig.limit(after(10)), None, "it has the server for its session");
}

#[test]
fn limits_count_from_a_begin_that_no_server_has_seen() {
    let mut rig = Rig::new("idle_transaction_timeout = 2\ntransaction_timeout = 4\nclient_idle_timeout = 1");
    rig.client.phase = ClientPhase::Session;
    rig.client.session.defers(DeferredBegin::new(START, By::Query));
    assert_eq!(rig.client(after(2)), ClientDue::Nothing, "it is in a transaction");
    assert_eq!(rig.client(after(3)), ClientDue::Exceeded(IDLE_TRANSACTION_TIMEOUT));
    assert_eq!(rig.client(after(5)), ClientDue::Exceeded(TRANSACTION_TIMEOUT));
    let waiting = Waiting::ForServer {
        ticket: 0,
        since: START,
        notified: false,
    };
    rig.client.waiting = waiting;
    assert_eq!(rig.client(after(3)), ClientDue::Nothing, "it has asked for something");
    assert_eq!(rig.client(after(5)), ClientDue::Exceeded(TRANSACTION_TIMEOUT));
    rig.client.session.deferral_expires();
    assert_eq!(rig.client(after(3)), ClientDue::Exceeded(IDLE_TRANSACTION_TIMEOUT));
}

/// Guards against limits of the client's own that nobody enforces, because its BEGIN is on no server.
#[test]
fn limits_of_the_clients_own_count_from_a_begin_that_no_server_has_seen() {
    let mut rig = Rig::new("");
    rig.client.phase = ClientPhase::Session;
    rig.client.session.defers(DeferredBegin::new(START, By::Query));
    let mut table = ShapeTable::new();
    let mut set = |rig: &mut Rig, name, value| {
        let shape = table.change(rig.client.session.shape(), [(name, Some(value), false)]);
        rig.client.session.has_settings(shape);
    };
    assert_eq!(rig.client(after(99)), ClientDue::Nothing);
    set(&mut rig, "idle_in_transaction_session_timeout", "2000");
    assert_eq!(rig.client(after(2)), ClientDue::Nothing);
    assert_eq!(rig.client(after(3)), ClientDue::Exceeded(OWN_IDLE_TRANSACTION_LIMIT));
    set(&mut rig, "transaction_timeout", "1000");
    assert_eq!(rig.client(after(2)), ClientDue::Exceeded(OWN_TRANSACTION_LIMIT));
    assert_eq!(OWN_TRANSACTION_LIMIT.hint(), "", "PostgreSQL gives none");
}

/// The queue of a pool that has had a server has a time limit of its own.
#[test]
fn a_login_that_waits_for_the_first_server_of_its_pool_has_a_time_limit() {
    let mut rig = Rig::new("client_login_timeout = 60");
    assert_eq!(rig.client(after(60)), ClientDue::Nothing);
    assert_eq!(rig.client(after(61)), ClientDue::LoginTimeout);
    rig.client.waiting = Waiting::ForServer {
        ticket: 0,
        since: START,
        notified: false,
    };
    assert_eq!(rig.client(after(60)), ClientDue::Nothing);
    assert_eq!(rig.client(after(61)), ClientDue::ServerDown);
    rig.pool.learn_welcome(ShapeTable::new().empty());
    assert_eq!(rig.client(after(61)), ClientDue::Nothing);
}

#[test]
fn a_pool_without_clients_and_servers_is_cleaned() {
    let mut rig = Rig::new("pool_idle_timeout = 100");
    let due = |rig: &Rig, seconds| of_pool(after(seconds), &rig.pool, &rig.settings);
    assert_eq!(due(&rig, 101), PoolDue::Nothing, "its server ends by its own limits");
    rig.databases.server_out(0, &mut rig.pool, SERVER, false);
    assert_eq!(due(&rig, 100), PoolDue::Nothing);
    assert_eq!(due(&rig, 101), PoolDue::Clean(Duration::from_secs(101)));
    Databases::default().client_in(&rig.config, &mut rig.pool, "u").unwrap();
    assert_eq!(due(&rig, 101), PoolDue::Nothing);
}
