//! Listener connections: one for each database, user and client_encoding of clients that listen.
//!
//! A listener is a server connection that serves no client. It listens to every channel of the clients with its
//! database, user and encoding, and delivers notifications to each of them. It is opened for the first such client, and
//! closed when no client has listened for [`UNUSED_TIME_MAX`]. It counts for `max_db_connections` and
//! `max_user_connections`, not for the pool's size. If the limits allow no listener, clients that listen keep their
//! servers.
//!
//! There is one for each user, because its clients have proved that they may log in as that user. There is one for each
//! encoding, because PostgreSQL sends channels and payloads in the receiver's encoding.
//!
//! PostgreSQL ends a connection that it sends a payload whose characters the receiver's encoding lacks, and with it
//! would end the notifications of all who share the connection. So a listener has only encodings to which PostgreSQL
//! can convert every text of the database: the database's own, mostly. Clients with any other encoding keep their
//! servers while they listen, and such a payload ends the session of its receivers alone, as on a direct connection.

use crate::base::consequence::{ClientFailure, Consequence};
use crate::base::errors::Trouble;
use crate::base::ids::ListenerId;
use crate::base::ids::{ClientId, ServerId};
use crate::base::pool_id::{LoginFailure, PoolId};
use crate::base::request::LogLevel;
use crate::listening::Listening;
use crate::notify::channels::{ChannelName, Channels, Notification, Told};
use crate::notify::listener::Asked;
use crate::notify::moving::Moving;
use crate::notify::obstacle::Obstacle;
use crate::pools::pool;
use crate::statements::parse_settings::CLIENT_ENCODING;
use crate::upstream::entry::To;
use crate::upstream::phase::ServerPhase;
use pgweir_wire::write::ErrorText;
use pgweir_wire::{HEADER_BYTES, Writer};
use std::collections::BTreeSet;
use std::time::Duration;

/// How long a listener is kept when nobody listens.
pub(crate) const UNUSED_TIME_MAX: Duration = Duration::from_secs(30);

/// Time limits of the user or the database must not end a connection that only listens. The WHERE clause selects those
/// settings that this version of PostgreSQL has.
const FOR_GOOD: &str = "SELECT pg_catalog.set_config(name, '0', false) FROM pg_catalog.pg_settings \
    WHERE name OPERATOR(pg_catalog.=) ANY ('{idle_session_timeout,statement_timeout,lock_timeout}'::pg_catalog.text[])";

impl Listening<'_> {
    /// The listener for a client, if that listener is logged in; otherwise it is being opened.
    pub(crate) fn listener_of(&mut self, id: ClientId) -> Option<ListenerId> {
        let client = self.clients.get(id.0)?;
        let shape = client.session.shape();
        if shape.may_lack_characters() {
            return None;
        }
        let encoding = shape.value(CLIENT_ENCODING)?.clone();
        let key = pool::of(self.pools, client.pool?).key();
        let (database, user) = (key.database.clone(), key.user.clone());
        let at = self.listeners.find_or_make(self.now, &database, &user, &encoding);
        let listener = self.listeners.get_mut(at)?;
        listener.is_looked_for(self.now);
        let (up, server) = (listener.is_up(), listener.server());
        let usable = self.channels_mut(id)?.may_use(at) && up;
        if server.is_none() {
            self.missing.push(at);
        }
        usable.then_some(at)
    }

    pub(crate) fn listener_logged_in(&mut self, server_id: ServerId) {
        let Some(at) = self.listeners.of_server(server_id) else {
            return self.close_listener(server_id, "nobody listens any more");
        };
        let now = self.now;
        let server = self.server_mut(server_id);
        server.phase = ServerPhase::Listening;
        server.since = now;
        let listener = self.listeners.get(at).expect("found above");
        let encoding = format!("SET client_encoding TO '{}'", listener.encoding().replace('\'', "''"));
        let everything = listener.listen_to_everything(self.listeners.mark_channel());
        self.ask_listener(at, Asked::Settings, encoding.as_bytes());
        self.ask_listener(at, Asked::Settings, FOR_GOOD.as_bytes());
        self.ask_listener(at, Asked::Everything, &everything);
    }

    fn ask_listener(&mut self, at: ListenerId, asked: Asked, text: &[u8]) -> bool {
        let Some(listener) = self.listeners.get_mut(at) else {
            return false;
        };
        let Some(server_id) = listener.server() else {
            return false;
        };
        let Some(server) = self.servers.get_mut(server_id.0) else {
            return false;
        };
        if !matches!(server.phase, ServerPhase::Listening) {
            return false;
        }
        listener.is_asked(asked);
        self.at(server_id).asks(To::Skip, |r| r.query(text));
        true
    }

    /// A listener has answered a request with ReadyForQuery.
    pub(crate) fn listener_answered(&mut self, server_id: ServerId) {
        let Some(at) = self.listeners.of_server(server_id) else {
            return;
        };
        let listener = self.listeners.get_mut(at).expect("found above");
        let (asked, refused) = listener.answers();
        match asked {
            Some(Asked::Settings | Asked::Everything) if refused => {
                self.close_listener(server_id, "a listener cannot listen");
            }
            Some(Asked::Everything) => {
                if listener.is_up_now() {
                    let clients = listener.clients();
                    self.tell_of_gap(&clients);
                }
            }
            Some(Asked::Channels(id, ticket)) => self.listener_listens(at, id, ticket, refused),
            Some(Asked::Barrier(id)) => self.barrier_passed(id),
            Some(Asked::Settings | Asked::Unlisten) | None => {}
        }
    }

    /// A listener has refused a request; ReadyForQuery follows.
    pub(crate) fn listener_refuses(&mut self, server_id: ServerId, message: &[u8]) {
        let text = format!("{server_id}: a listener: {}", String::from_utf8_lossy(message));
        self.shared.log(LogLevel::Warning, text);
        if let Some(at) = self.listeners.of_server(server_id) {
            self.listeners.get_mut(at).expect("found above").refuses();
        }
    }

    /// A client's server listens to these channels; the listener must listen to them, too.
    pub(crate) fn want_channels(&mut self, id: ClientId, names: Vec<ChannelName>) {
        let names: BTreeSet<ChannelName> = names.into_iter().collect();
        // The client may listen to the channel for marks, whose name it has read in pg_stat_activity. With the client's
        // UNLISTEN the listener would lose the marks.
        let takes_marks = names.iter().any(|name| self.listeners.is_mark_channel(name));
        let channels = self.channels_mut(id).expect("asked by the caller");
        let obstacle = takes_marks.then_some(Obstacle::Marks);
        if let Some(obstacle) = obstacle.or_else(|| channels.obstacle_to(&names)) {
            return channels.give_up_moving(obstacle);
        }
        let Some(at) = self.listener_of(id) else { return };
        let ticket = self.listeners.ticket();
        let listener = self.listeners.get_mut(at).expect("found above");
        let text = listener.begin_hearing(id, &names);
        if self.ask_listener(at, Asked::Channels(id, ticket), &text) {
            self.channels_mut(id).expect("asked for above").wants(names, ticket);
        }
    }

    fn listener_listens(&mut self, at: ListenerId, id: ClientId, of: u64, refused: bool) {
        let Some(channels) = self.channels_mut(id) else { return };
        if let Some(Err(names)) = channels.listener_answers(of, refused) {
            return self.stop_hearing(at, id, names);
        }
        // The client may have other channels by now.
        if let Some(server_id) = self.clients.get(id.0).and_then(|c| c.link) {
            self.move_on(server_id);
        }
    }

    /// Asks the listener to show when it has received everything sent so far. `false`: there is no listener.
    pub(crate) fn ask_barrier(&mut self, at: ListenerId, id: ClientId) -> bool {
        self.listeners.is_up(Some(at)) && self.ask_listener(at, Asked::Barrier(id), b"")
    }

    /// A client no longer listens to these channels, or not at this listener.
    pub(crate) fn stop_hearing(&mut self, at: ListenerId, id: ClientId, names: BTreeSet<ChannelName>) {
        let Some(listener) = self.listeners.get_mut(at) else {
            return;
        };
        let text = listener.stop_hearing(self.now, id, &names);
        if !text.is_empty() {
            self.ask_listener(at, Asked::Unlisten, &text);
        }
    }

    /// A client no longer listens at this listener.
    pub(crate) fn stop_hearing_all(&mut self, at: ListenerId, id: ClientId) {
        let Some(listener) = self.listeners.get(at) else { return };
        let names = listener.channels_of(id);
        self.stop_hearing(at, id, names);
    }

    /// A listener has received a NotificationResponse.
    pub(crate) fn listener_hears(&mut self, server_id: ServerId, message: &[u8]) {
        let Ok(notification) = Notification::read(&message[HEADER_BYTES..]) else {
            return;
        };
        let Some(at) = self.listeners.of_server(server_id) else {
            return;
        };
        if self.listeners.is_mark(&notification) {
            return self.listener_passed_mark(at, &notification);
        }
        let listener = self.listeners.get(at);
        let clients = listener.map_or_else(Vec::new, |l| l.clients_told(notification.channel));
        if clients.is_empty() {
            return;
        }
        let told: Told = message.into();
        for id in clients {
            let waits = |c: &mut Channels| c.moving().waits_for_server(notification.channel);
            let later = self.channels_mut(id).is_some_and(waits);
            let told = self.told_to(id, notification.process_id, &told);
            self.tell(id, &told, later);
        }
    }

    /// The server refuses the listener's login. For clients that rely on the listener, this is as if their servers were
    /// lost.
    pub(crate) fn listener_refused(&mut self, pool_id: PoolId, failure: &LoginFailure) {
        let key = pool::of(self.pools, pool_id).key();
        for id in self.listeners.clients_unconnected(&key.database, &key.user) {
            if self.channels_mut(id).is_some_and(|c| c.relies_on_listener()) {
                let message = "the connection that listens for this session cannot be restored";
                self.consequences
                    .push_back(Consequence::FailClient(Box::new(ClientFailure {
                        client: id,
                        trouble: Trouble::ServerUnavailable,
                        message,
                        detail: failure.message.clone(),
                        hint: "",
                    })));
            }
        }
    }

    /// A listener is gone. It is opened again by `Pooler::time_listeners`.
    pub(crate) fn listener_lost(&mut self, server_id: ServerId, reason: &str) {
        let Some((at, was_up, asked)) = self.listeners.loses(server_id) else {
            return;
        };
        let listener = self.listeners.get(at).expect("found above");
        let clients = listener.clients();
        if was_up && !clients.is_empty() {
            let text = format!(
                "listener of {}/{} lost: {reason}; notifications to {} clients may be lost until it is restored",
                listener.database(),
                listener.user(),
                clients.len()
            );
            self.shared.log(LogLevel::Warning, text);
        }
        for (at, asked) in asked.into_iter().enumerate() {
            match asked {
                Asked::Channels(id, _) => {
                    // The listener was at work on the first request.
                    if let Some(channels) = self.channels_mut(id) {
                        channels.request_is_lost(at == 0);
                    }
                    self.channels_may_have_changed(id);
                }
                Asked::Barrier(id) => self.barrier_passed(id),
                _ => {}
            }
        }
        for id in clients {
            let Some(channels) = self.channels_mut(id) else {
                continue;
            };
            match channels.moving() {
                Moving::Wanted { .. } => self.channels_may_have_changed(id),
                Moving::Back(_) | Moving::Away { .. } => self.move_without_listener(id),
                _ => {}
            }
        }
    }

    pub(crate) fn tell_of_gap(&mut self, clients: &[ClientId]) {
        let mut notice = Vec::new();
        Writer::new(&mut notice).notice(&ErrorText {
            severity: "NOTICE",
            sqlstate: "01000",
            message: "notifications may have been lost",
            detail: "The connection that listens for this session was lost and has been restored.",
            hint: "Query the data that the lost notifications were about.",
        });
        let told: Told = notice.into();
        for &id in clients {
            if self.channels_mut(id).is_some_and(|c| c.relies_on_listener()) {
                self.tell(id, &told, false);
            }
        }
    }
}
