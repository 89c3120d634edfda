//! What must hold at every step, and at the end.

use super::canary::Canary;
use super::changes::is_former;
use super::client::{Client, Phase};
use super::network::{Connection, Peer};
use super::topology::Mode;
use super::world::World;
use crate::model::Session;
use crate::model::audit::Ran;
use pgweir_core::ConnectionId;
use pgweir_wire::Header;
use std::collections::BTreeMap;

/// The application_name of the pooler's listeners.
const LISTENER: &str = "pgweir listener";

/// How long a client that has sent a part of a message may keep a server without a pin, microseconds.
const HELD_US_MAX: u64 = 500_000;

impl World {
    /// A server that gets another client must be idle and clean. `given` is the latest input to the core: the
    /// connection, the bytes, and how many of them the core has consumed.
    pub(super) fn check_links(&mut self, given: Option<(ConnectionId, &[u8], usize)>) {
        let mut wrong = None;
        let pooler = &mut self.pooler;
        for connection in self.connections.values_mut().filter(|c| !c.closing) {
            let Peer::Server(process_id) = connection.peer else {
                continue;
            };
            let linked = pooler.linked(connection.id);
            let before = std::mem::replace(&mut connection.linked, linked);
            let Some(client) = linked.filter(|_| before != linked) else {
                continue;
            };
            let Some(session) = self.postgres.session(process_id) else {
                continue;
            };
            if session.is_closed() || !session.is_logged_in() {
                continue;
            }
            // The server works on flights that were sent before, one client's transaction behind the other's.
            if matches!(connection.id, ConnectionId::Server(server) if pooler.flies(server)) {
                continue;
            }
            let id = connection.id;
            wrong = wrong.or_else(|| is_former(connection, self.changes));
            let unread = match given {
                Some((from, input, consumed)) if from == id => input.len() - consumed,
                _ => 0,
            };
            let way = connection.inbox.len() + connection.kept.len() + unread;
            let cancels = match id {
                ConnectionId::Server(server) => self.cancels.get(&server).map_or(0, Vec::len),
                ConnectionId::Client(_) => 0,
            };
            let mut to_it = session.unread().to_vec();
            to_it.extend(&connection.pending);
            let on_the_way_bytes = to_it.len();
            let outbox = pooler.outbox();
            let parts = outbox.parts().iter().filter(|part| part.to == id);
            let input = given.map_or(&[][..], |(_, input, _)| input);
            parts.for_each(|part| to_it.extend_from_slice(outbox.bytes(part, input)));
            if !session.is_idle() || !is_ignored_when_idle(&to_it, on_the_way_bytes) || way > 0 || cancels > 0 {
                wrong = Some(format!(
                    "{id:?} is given to {client:?} while not clean: idle {}, {on_the_way_bytes} bytes to it, {way} bytes \
                     from it, {cancels} cancels",
                    session.is_idle()
                ));
            } else if !session.ties().without_prepared().is_empty() {
                // The statements under its last client's names are closed before this client's first message. The
                // answers to this client must show that.
                wrong = Some(format!("{id:?} is given to {client:?} with {:?}", session.ties()));
            }
        }
        if let Some(wrong) = wrong {
            self.fail(wrong);
        }
    }

    /// A Sync has committed a statement: its client must have sent that Sync.
    pub(super) fn check_completed(&mut self, token: &str) {
        let Some(incomplete) = session_of(token).and_then(|number| self.incomplete.get(&number)) else {
            return;
        };
        // The token ends with its number: another one may begin with the same digits.
        let is_it =
            |at: &[u8]| at.starts_with(token.as_bytes()) && !at.get(token.len()).is_some_and(u8::is_ascii_digit);
        if (0..incomplete.len()).any(|at| is_it(&incomplete[at..])) {
            self.fail(format!("{token} was committed, but its client has sent no Sync"));
        }
    }

    /// A server has run a statement: it must run under its client's settings, and under nobody else's. Clients that are
    /// still there compare at the end of their flight.
    pub(super) fn check_settings(&mut self, ran: Ran) {
        let Some(number) = session_of(&ran.token) else {
            return;
        };
        let own = format!("tok{number}x");
        let others = |(_, value): &(&str, &str)| value.contains("tok") && !value.contains(&own);
        if let Some((name, value)) = ran.settings.values().find(others) {
            let wrong = format!("{} ran with {name} = '{value}', which is another's", ran.token);
            return self.fail(wrong);
        }
        if let Some(client) = self.clients.iter_mut().find(|c| c.session_number == number)
            && client.connection.is_some()
        {
            return client.has_run(ran);
        }
        let retired = self.retired.get_mut(&number);
        if let Some(wrong) = retired.and_then(|retired| retired.judge(&ran)) {
            self.fail(format!("session {number}, which has gone: {wrong}"));
        }
    }

    /// A cancel has ended a statement: its client, or the pooler, may send it once more.
    pub(super) fn note_undone(&mut self, token: &str) {
        let Some(number) = session_of(token) else { return };
        let mut clients = self.clients.iter_mut();
        match clients.find(|c| c.session_number == number && c.connection.is_some()) {
            Some(client) => client.is_undone(token),
            None => self
                .retired
                .get_mut(&number)
                .into_iter()
                .for_each(|retired| retired.is_undone(token)),
        }
    }

    /// An idle client without a pin, and one that has sent a part of a message, must have no server, once everything
    /// that was on its way has arrived.
    pub(super) fn check_pins(&mut self) {
        if !self.topology.keeps_sessions || self.topology.mode == Mode::Session {
            return;
        }
        let reads_nothing = |c: &Connection| c.inbox.is_empty() && c.pending.is_empty() && !c.closing && !c.peer_closed;
        let is_still = |c: &Connection| reads_nothing(c) && c.kept.is_empty();
        let mut wrong = None;
        for client in self.clients.iter_mut().filter(|c| c.phase == Phase::Idle || c.hostile) {
            let held_since_us = client.held_since_us.take();
            let Some(connection) = client.connection.and_then(|key| self.connections.get(&key)) else {
                continue;
            };
            let linked = self.pooler.linked(connection.id).and_then(|id| self.by_id.get(&id));
            let Some(server) = linked.and_then(|key| self.connections.get(key)) else {
                continue;
            };
            let Peer::Server(process_id) = server.peer else {
                continue;
            };
            let Some(session) = self.postgres.session(process_id) else {
                continue;
            };
            let untracked = self.topology.max_prepared_statements == 0 && session.has_clients_statements();
            let at_rest = session.is_idle() && session.unread().is_empty() && session.ties().is_empty() && !untracked;
            // Its channels may be on their way to a listener that has not heard the mark.
            let listens = self.connections.values().any(|c| {
                let Peer::Server(listener) = c.peer else { return false };
                // A listener at work hears nothing before it has finished.
                let may_hear = |s: &Session| !s.is_idle() || self.postgres.behind(process_id).contains(&listener);
                let hears = |s: &Session| s.owner().0 == session.owner().0 && is_listener(s);
                let heard = self.postgres.session(listener);
                // The pooler does not know yet that a listener has gone.
                heard.map_or(c.peer_closed, |s| hears(s) && (may_hear(s) || !is_still(c)))
            });
            // No probe is sent while a cancel is on its way to the server.
            let is_cancelled = matches!(server.id, ConnectionId::Server(id) if self.cancels.contains_key(&id));
            // A pin that no probe can end is not visible in the session.
            let for_good = matches!(connection.id, ConnectionId::Client(id) if self.pooler.is_pinned_for_good(id));
            let for_good = for_good && (client.rubbish || !self.topology.refuses_texts);
            let is_excused = listens || is_cancelled || for_good;
            // A part of a message is no reason, but the messages in front of it may be reasons for a moment.
            let (waits, us_max) = match client.hostile {
                true => (reads_nothing(connection), HELD_US_MAX),
                false => (is_still(connection), 0),
            };
            if !waits || !is_still(server) || !at_rest || is_excused {
                continue;
            }
            let since_us = held_since_us.unwrap_or(self.now_us);
            client.held_since_us = Some(since_us);
            if self.now_us - since_us >= us_max {
                wrong = Some(format!(
                    "{:?} keeps {:?}, though nothing ties it to it",
                    connection.id, server.id
                ));
            }
        }
        if let Some(wrong) = wrong {
            self.fail(wrong);
        }
    }

    /// A server has ended by idle_session_timeout. It must have had a client that sets this limit, unless the pooler could
    /// not know yet that the server has the limit, or was about to change that.
    pub(super) fn check_idle_limit(&mut self, process_id: u32) {
        let key = self.by_process.get(&process_id);
        let Some(server) = key.and_then(|key| self.connections.get(key)) else {
            return;
        };
        let is_cancelled = matches!(server.id, ConnectionId::Server(id) if self.cancels.contains_key(&id));
        let is_still = server.inbox.is_empty() && server.pending.is_empty() && server.kept.is_empty() && !is_cancelled;
        let client = self.pooler.linked(server.id);
        let client = client.map(|id| self.clients.iter().find(|c| self.is_connection_of(c, id)));
        let is_wrong = match client {
            None => is_still && !server.closing,
            // The pooler does not know yet that the client has left.
            Some(None) => false,
            Some(Some(client)) => !self.topology.limits_idle_time(client.session_number),
        };
        if is_wrong {
            let client = client.flatten().map(|client| client.number);
            self.fail(format!(
                "server {process_id} ended by idle_session_timeout, which its client {client:?} has not set"
            ));
        }
    }

    /// Whether this is the connection of a client.
    fn is_connection_of(&self, client: &Client, id: ConnectionId) -> bool {
        let connection = client.connection.and_then(|key| self.connections.get(&key));
        connection.is_some_and(|connection| connection.id == id)
    }

    /// Checks the limits, but only when a number may have grown.
    pub(super) fn check_limits(&mut self) {
        if !std::mem::take(&mut self.has_grown) {
            return;
        }
        let t = &self.topology;
        let mut pools: BTreeMap<(&str, &str), u64> = BTreeMap::new();
        let mut databases: BTreeMap<&str, u64> = BTreeMap::new();
        let mut users: BTreeMap<&str, u64> = BTreeMap::new();
        // A server that the core has closed may exist for a moment, but not for ever.
        let is_closing = |process_id: u32| {
            let key = self.by_process.get(&process_id);
            key.and_then(|key| self.connections.get(key)).is_some_and(|c| c.closing)
        };
        let rests = self.canary == Some(Canary::LeaveOpen);
        for (process_id, session) in self.postgres.sessions() {
            let (database, user) = session.owner();
            if user.is_empty() || is_closing(process_id) && !rests {
                continue;
            }
            // Listeners do not count in the size of the pool.
            if !is_listener(session) {
                *pools.entry((database, user)).or_default() += 1;
            }
            *databases.entry(database).or_default() += 1;
            *users.entry(user).or_default() += 1;
        }
        let over = |count: u64, limit: u64| limit > 0 && count > limit;
        // Each entry has its own limits.
        let entries = if t.one_database { t.databases } else { 1 };
        let of_pool = t.pool_size_max.unwrap_or(t.pool_size + t.reserve_pool_size);
        let of_all = t.pool_size_max.unwrap_or(0);
        let wrong = pools
            .iter()
            .find(|(_, n)| over(**n, of_pool * entries))
            .map(|((database, user), n)| format!("pool {database}/{user} has {n} servers"))
            .or_else(|| {
                let all = pools.values().sum::<u64>();
                over(all, of_all).then(|| format!("{all} servers, and pool_size_max is {of_all}"))
            })
            .or_else(|| {
                databases
                    .iter()
                    .find(|(_, n)| over(**n, t.max_db_connections * entries))
                    .map(|(database, n)| format!("database {database} has {n} servers"))
            })
            .or_else(|| {
                users
                    .iter()
                    .find(|(_, n)| over(**n, t.max_user_connections))
                    .map(|(user, n)| format!("user {user} has {n} servers"))
            });
        let clients = self
            .clients
            .iter()
            .filter(|c| matches!(c.phase, Phase::Idle | Phase::Busy))
            // A client that the core has closed may not have noticed yet.
            .filter_map(|c| self.connections.get(&c.connection?))
            .filter(|connection| !connection.closing)
            .count() as u64;
        let wrong = wrong.or_else(|| {
            (clients > t.max_client_conn)
                .then(|| format!("{clients} clients, and max_client_conn is {}", t.max_client_conn))
        });
        if let Some(wrong) = wrong {
            self.fail(wrong);
        }
    }

    pub(super) fn not_served(&mut self) {
        let waiting: Vec<String> = self
            .clients
            .iter()
            .filter(|c| c.phase != Phase::Offline)
            .map(|c| {
                let readable = c
                    .connection
                    .and_then(|key| self.connections.get(&key))
                    .map(|conn| (self.pooler.may_read(conn.id), self.pooler.linked(conn.id)));
                format!(
                    "client {} is {:?}, {readable:?}, flight: {}",
                    c.number,
                    c.phase,
                    c.describe_flight()
                )
            })
            .collect();
        self.fail(format!(
            "long after the faults, not served:\n    {}",
            waiting.join("\n    ")
        ));
    }

    /// All clients are gone: every server must be idle, or gone too.
    pub(super) fn check_rest(&mut self) {
        let wrong = self.without_rest();
        if !wrong.is_empty() {
            self.fail(format!("after all clients have gone: {}", wrong.join("; ")));
        }
    }

    /// The connections that are not at rest.
    pub(super) fn without_rest(&self) -> Vec<String> {
        let mut wrong = Vec::new();
        for connection in self.connections.values() {
            match connection.peer {
                Peer::Client(number) => wrong.push(format!("the connection of client {number} is still open")),
                Peer::Stranger | Peer::Watcher => wrong.push("the connection of a visitor is still open".into()),
                Peer::Canceller(_) => wrong.push("a cancel connection is still open".into()),
                Peer::Server(process_id) => {
                    let idle = self
                        .postgres
                        .session(process_id)
                        .is_some_and(|s| s.is_idle() && s.unread().is_empty());
                    if !idle || connection.closing || self.pooler.linked(connection.id).is_some() {
                        wrong.push(format!("{:?} is not at rest", connection.id));
                    }
                }
            }
        }
        if !self.cancels.is_empty() {
            wrong.push("cancels are on their way".into());
        }
        wrong
    }

    pub(super) fn trace_bytes(&self, what: &str, id: ConnectionId, bytes: &[u8]) {
        let text = |m: &[u8]| match id {
            ConnectionId::Client(_) => crate::transcript::backend_to_text(m),
            ConnectionId::Server(_) => crate::transcript::frontend_to_text(m),
        };
        for message in crate::transcript::split_messages(bytes) {
            self.trace.line(self.now_us, || {
                let mut line = text(message);
                if let Some((at, _)) = line.char_indices().nth(160) {
                    line.truncate(at);
                }
                format!("{what} {id:?} {line}")
            });
        }
    }
}

fn is_listener(session: &Session) -> bool {
    session.application_name() == LISTENER
}

/// Whether an idle server ignores every message that begins in the first `sent_bytes` of these bytes: the data of a
/// COPY that failed, and Flush. The last message may have been written only in part.
fn is_ignored_when_idle(bytes: &[u8], sent_bytes: usize) -> bool {
    let mut at = 0;
    crate::transcript::split_messages(bytes).into_iter().all(|m| {
        let begins = at;
        at += m.len();
        begins >= sent_bytes
            || matches!(m[0], b'd' | b'c' | b'f' | b'H')
                && matches!(Header::read(m), Ok(Some(h)) if h.message_bytes as usize == m.len())
    })
}

/// The number of the session to which a token belongs.
fn session_of(token: &str) -> Option<u64> {
    token.trim_start_matches("tok").split('x').next()?.parse().ok()
}
