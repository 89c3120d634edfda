//! A pool that has too few servers: what its clients are told, and which other pool gives way.

use crate::base::close_reason::CloseReason;
use crate::base::ids::ServerId;
use crate::base::pool_id::{PoolId, PoolKind};
use crate::base::slab::Slab;
use crate::base::time::Time;
use crate::client::Client;
use crate::pools::pool::{self, Pool};
use crate::server::Server;
use pgweir_config::Config;
use std::time::Duration;

/// A server that was opened for waiting clients makes no way for another pool before it has served one of them, for at
/// most this long. Otherwise pools whose logins take a while would end each other's servers in turn, and serve nobody.
const FIRST_TURN_MAX: Duration = Duration::from_secs(5);

/// The number of a pool's servers whose clients keep them beyond the end of their transactions.
pub(super) fn pinned_servers(servers: &Slab<Server>, clients: &Slab<Client>, pool: &Pool) -> usize {
    let servers = pool.members().iter().filter_map(|id| servers.get(id.0));
    let clients = servers.filter_map(|s| clients.get(s.link?.0));
    clients.filter(|c| c.session.pinned().is_some()).count()
}

/// Why a client has waited too long for a server: detail and hint of its error. `pinned` is the number of the pool's
/// servers that sessions keep, `setting` the limit that is over.
pub(super) fn why_it_waited(pool: &Pool, pinned: usize, setting: &str) -> (String, String) {
    let failure = pool.failure().filter(|_| !pool.has_ready_servers());
    let hint = match pinned {
        _ if failure.is_some() => "No server can be reached: see server_down_wait and the log.".into(),
        0 => format!("All servers of the pool are busy: see SHOW POOLS, pool_size and {setting}."),
        pinned => format!(
            "All servers of the pool are busy, and sessions keep {pinned} of them: see SHOW PINS, pin_idle_timeout, \
             reserve_pool_size and {setting}."
        ),
    };
    (failure.map_or(String::new(), |failure| failure.cached().message), hint)
}

/// The line of the log about a client that gets a server from the reserve.
pub(super) fn use_of_reserve(label: &str, pinned: usize) -> String {
    let why = match pinned {
        0 => String::new(),
        pinned => format!(", as sessions keep {pinned} of the pool's servers (SHOW PINS)"),
    };
    format!("{label} taking connection from reserve_pool{why}")
}

/// A pool gets no server because other pools, `holders`, have all that a limit allows. Returns the server
/// that makes room: one of the largest of these pools, to be closed when it is free. Only one such server at a time is
/// chosen: the one whose client, phase or login is the latest, because a client that has kept a server for long may
/// keep it for ever. A listener is closed only if there is no other choice, because notifications may be lost with it.
/// A server that has not served a client yet stays for [`FIRST_TURN_MAX`] if clients of its pool wait.
pub(super) fn gives_way(
    now: Time,
    pools: &[Option<Pool>],
    servers: &Slab<Server>,
    starved: PoolId,
    holders: impl Iterator<Item = PoolId>,
) -> Option<ServerId> {
    let others = holders.filter(|id| *id != starved).map(|id| pool::of(pools, id));
    let largest = others.max_by_key(|pool| (pool.key().kind != PoolKind::Listener, pool.servers()))?;
    let members = largest.members().iter();
    let of_largest = || members.clone().filter_map(|id| Some((*id, servers.get(id.0)?)));
    if of_largest().any(|(_, s)| s.close_reason.is_some_and(CloseReason::is_eviction)) {
        return None;
    }
    let someone_waits = !largest.waiting().is_empty();
    let awaits_its_turn = |s: &Server| someone_waits && !s.has_served && now - s.connect_time < FIRST_TURN_MAX;
    let may_end = of_largest().filter(|(_, s)| s.close_reason.is_none() && !awaits_its_turn(s));
    may_end.max_by_key(|(_, server)| server.since).map(|(id, _)| id)
}

/// Whether min_pool_size applies: the pool has clients, or its database forces a user, so that no client is needed to
/// know the user.
pub(super) fn keeps_warm(pool: &Pool, config: &Config) -> bool {
    let entry = config.databases.get(&*pool.key().database);
    let forced = entry.is_some_and(|d| d.user.as_deref() == Some(&*pool.key().user));
    let configured = forced && pool.key().start.is_empty();
    pool.key().kind == PoolKind::Clients && (pool.clients() > 0 || configured)
}
