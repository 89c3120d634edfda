//! The end of a login: facts that are needed from a server first, and the messages that welcome the client.

use crate::base::close_reason::CloseReason;
use crate::base::consequence::Consequence;
use crate::base::errors::Trouble;
use crate::base::ids::{ClientId, ServerId};
use crate::base::pool_id::PoolId;
use crate::base::reasons::Waiting;
use crate::base::request::Request;
use crate::base::time::Time;
use crate::client::{Client, ClientPhase};
use crate::exchange::Exchange;
use crate::flow::logins::admitting;
use crate::login::login_step::ServerUse;
use crate::login::trial::{Trial, Verdict, first_shape};
use crate::login::welcome::{Welcome, cut_name};
use crate::login::{lookups, membership};
use crate::pooler::Pooler;
use crate::pools::pool::Pool;
use crate::state::difference::Change;
use crate::state::restoration::RefusedSettings;
use crate::upstream::nature::Nature;
use pgweir_wire::Writer;

/// SQLSTATEs of statements that lock_timeout, statement_timeout or a cancel has ended.
const TIME_LIMITS: [&str; 2] = ["55P03", "57014"];

/// What follows when a login has been given a server, or has its answer.
enum Tried {
    /// The server has been asked. Its answer comes later.
    Asked,
    /// The server has done its part.
    Over(Leaving, Then),
}

/// What becomes of the server of a login.
enum Leaving {
    Stays,
    IsReleased,
    IsClosed,
}

/// What becomes of the client.
enum Then {
    IsWelcome,
    /// Another server is asked.
    NeedsServer,
    /// The server has refused its startup parameters.
    IsRefused(RefusedSettings),
    /// It has been sent this error.
    IsClosed(String),
}

impl Pooler {
    /// Welcomes the client if the server's settings are known; otherwise gets a server for it.
    pub(crate) fn begin_welcome(&mut self, now: Time, id: ClientId) {
        match self.needs_server_for_welcome(id) {
            true => drop(self.acquire(now, id)),
            false => self.welcome(id),
        }
    }

    /// A client that is logging in needs a server, or another one, unless it has left or has one. If all that it asks
    /// for has become known meanwhile, it is welcomed.
    pub(crate) fn login_needs_server(&mut self, now: Time, id: ClientId) {
        let client = self.clients.get(id.0);
        if !client.is_some_and(|client| client.is_login() && client.link.is_none()) {
            return;
        }
        match self.needs_server_for_welcome(id) {
            true => drop(self.acquire(now, id)),
            false => self.welcome_late(id),
        }
    }

    /// Whether a server must answer before this client can be welcomed.
    fn needs_server_for_welcome(&mut self, id: ClientId) -> bool {
        let Some(client) = self.clients.get_mut(id.0) else {
            return false;
        };
        let pool = client.pool.and_then(|id| self.pools[id as usize].as_mut());
        pool.is_some_and(|pool| begins_trial(client, pool))
    }

    /// The pool's first server has logged in: clients that waited only for its settings are welcomed.
    pub(crate) fn welcome_known(&mut self, now: Time, pool_id: PoolId) {
        let waiting: Vec<ClientId> = self.pool(pool_id).waiting().iter().map(|(id, _)| id).collect();
        for id in waiting {
            let trial = self.clients.get(id.0).and_then(|client| client.login()?.trial());
            if trial.is_some_and(|trial| trial.waits_for_welcome()) && !self.needs_server_for_welcome(id) {
                if let Some(Waiting::ForServer { since, .. }) = self.clients.get(id.0).map(|client| client.waiting) {
                    self.pool_mut(pool_id).stats_mut().wait_time += now.us_since(since);
                }
                self.stop_waiting(id);
                self.welcome_late(id);
            }
        }
    }

    /// A login has been linked to a server.
    pub(crate) fn login_has_server(&mut self, now: Time, id: ClientId, server_id: ServerId) {
        let client = self.clients.get(id.0);
        if client.is_some_and(|client| client.link == Some(server_id)) {
            let tried = self.between(now, id, server_id).login_begins();
            self.login_tried(now, id, server_id, tried);
        }
    }

    /// A server has answered the settings of a trial.
    pub(crate) fn login_validated(
        &mut self,
        now: Time,
        id: ClientId,
        server_id: ServerId,
        refused: Option<RefusedSettings>,
    ) {
        let tried = self.between(now, id, server_id).login_validated(refused);
        self.login_tried(now, id, server_id, tried);
    }

    /// Carries out what follows from a trial.
    fn login_tried(&mut self, now: Time, id: ClientId, server_id: ServerId, tried: Tried) {
        let (server, then) = match tried {
            Tried::Asked => return,
            Tried::Over(server, then) => (server, then),
        };
        match server {
            Leaving::Stays => {}
            Leaving::IsReleased => self.release(now, server_id),
            Leaving::IsClosed => self.close_linked(now, id, server_id, CloseReason::NotRestored.text()),
        }
        match then {
            Then::IsWelcome => self.welcome_late(id),
            Then::NeedsServer => self.consequences.push_back(Consequence::LoginNeedsServer(id)),
            Then::IsRefused(refused) => {
                let message = match refused.message() {
                    "" => "the server refuses a startup parameter, and gives no reason",
                    message => message,
                };
                let mut text = Trouble::BadStartupParameter.text(message, refused.detail(), refused.hint());
                if refused.sqlstate().len() == 5 {
                    text.sqlstate = refused.sqlstate();
                }
                self.send(id, |w| w.error(&text));
                self.close_client(now, id, message);
            }
            Then::IsClosed(message) => self.close_client(now, id, &message),
        }
    }

    /// Welcomes a client that had to wait, and continues with the messages that it has sent meanwhile.
    fn welcome_late(&mut self, id: ClientId) {
        self.welcome(id);
        self.shared.requests.push_back(Request::Resume(id.into()));
    }

    /// Sends the messages that end a successful login. If the pool has forgotten the settings of its servers, the client
    /// waits for the next server instead.
    fn welcome(&mut self, id: ClientId) {
        let Some(client) = self.clients.get_mut(id.0) else {
            return;
        };
        let pool = client.pool.and_then(|id| self.pools[id as usize].as_mut());
        let pool = pool.expect("a client that is let in has a pool");
        let Some(welcome) = pool.welcome().cloned() else {
            return self.consequences.push_back(Consequence::LoginNeedsServer(id));
        };
        let ClientPhase::Login(mut login) = std::mem::replace(&mut client.phase, ClientPhase::Session) else {
            return;
        };
        pool.stats_mut().client_login_count += 1;
        let shape = first_shape(pool, &welcome, &login.wishes().settings, &mut self.shared.shapes);
        client.session.starts_with(shape.clone());
        let status = client.session.idle_status();
        let peer_id = self.shared.config.global.peer_id;
        admitting::give_process_id(&mut self.process_ids, &mut self.clients, id, peer_id);
        let key = self.cancel_key_of(id);
        let notice = self.shared.settings.login_notify_message.clone();
        let closing = login.take_closing();
        self.shared.outbox.insert(id.into(), |to| {
            let welcome = Welcome {
                closing: closing.as_deref(),
                key: &key,
                cut_name: cut_name(&login.wishes().settings, &shape),
                notice: &notice,
                status,
            };
            let reported = shape.settings().iter().filter(|s| s.is_reported());
            welcome.write(&mut Writer::new(to), reported.map(|s| (s.name(), s.value())));
        });
    }
}

/// Begins the trial of what the pool does not know, if a server must answer before this client can be welcomed. What
/// the pool knew when an earlier trial began may have been forgotten since, or more may be known.
fn begins_trial(client: &mut Client, pool: &mut Pool) -> bool {
    let Some(login) = client.login_mut() else { return false };
    pool.uses_startup_values(&login.wishes().settings);
    let Some(trial) = Trial::needed(pool, &login.wishes().settings) else {
        return false;
    };
    let minds_traces = trial.minds_traces();
    login.begin_trial(trial);
    client.session.minds_traces_if(minds_traces);
    true
}

impl Exchange<'_> {
    /// Its login has been linked to a server.
    fn login_begins(&mut self) -> Tried {
        self.server.conversation.query_begins(self.now);
        let is_replication = self.pool.key().kind.is_replication();
        let tries = self.client.login().is_some_and(|login| login.trial().is_some());
        if tries && !begins_trial(self.client, self.pool) {
            return Tried::Over(Leaving::IsReleased, Then::IsWelcome);
        }
        self.client.session.traces_are_considered();
        let Some(login) = self.client.login_mut() else {
            return Tried::Asked;
        };
        match login.server_use() {
            _ if is_replication && self.pool.welcome().is_none() => Tried::Over(Leaving::IsReleased, Then::NeedsServer),
            // From here on the server is the client's.
            _ if is_replication => Tried::Over(Leaving::Stays, Then::IsWelcome),
            ServerUse::AskRoles { user, roles } => {
                let values = (user.to_string(), membership::array(roles.iter().map(|role| &**role)));
                self.to().ask_roles(&values.0, &values.1);
                Tried::Asked
            }
            ServerUse::AskSecret { user, database } => {
                let query = lookups::query(&self.shared.config, database);
                let user = user.to_string();
                login.is_known_as_of(self.now);
                self.to().ask_secret(&query, &user);
                Tried::Asked
            }
            ServerUse::TryValues if !self.server.nature.is_postgresql() => self.trial_behind_pooler(),
            ServerUse::TryValues => {
                let session = &self.server.session;
                let changes = login
                    .trial_mut()
                    .map(|trial| trial.begin_on(session.shape(), session.base()));
                changes.map_or(Tried::Asked, |changes| self.make_for_trial(changes))
            }
            ServerUse::Nothing => Tried::Over(Leaving::IsReleased, Then::IsWelcome),
        }
    }

    /// The startup parameters of a client behind another pooler or its console. Settings that every pooler keeps for
    /// its clients are tried. Any other would reach other clients or be lost.
    fn trial_behind_pooler(&mut self) -> Tried {
        let Some(trial) = self.client.login_mut().and_then(|login| login.trial_mut()) else {
            return Tried::Asked;
        };
        if self.server.nature == Nature::Console {
            return Tried::Over(Leaving::IsReleased, Then::IsWelcome);
        }
        if let Some((name, value)) = trial.lost_by_poolers() {
            let message = format!("unsupported startup parameter: {name}={value}");
            let text = Trouble::BadStartupParameter.text(
                &message,
                "the server is another pooler, which does not keep this setting for its clients",
                "Name it in ignore_startup_parameters to leave it out.",
            );
            self.tell(|w| w.error(&text));
            return Tried::Over(Leaving::Stays, Then::IsClosed(message));
        }
        let changes = trial.try_values();
        self.make_for_trial(changes)
    }

    /// Sends the settings of a trial to a server.
    fn make_for_trial(&mut self, changes: Vec<Change>) -> Tried {
        let target = self.shared.shape_with(self.server.session.shape(), &changes);
        self.confirm_first(changes, target);
        Tried::Asked
    }

    /// The server has answered the settings of a trial.
    fn login_validated(&mut self, refused: Option<RefusedSettings>) -> Tried {
        let Some(trial) = self.client.login_mut().and_then(|login| login.trial_mut()) else {
            return Tried::Asked;
        };
        match trial.answered(refused.is_some()) {
            Verdict::TryNow => {
                let changes = trial.try_values();
                self.make_for_trial(changes)
            }
            Verdict::AnotherServer => {
                self.client.waiting = Waiting::No;
                Tried::Over(Leaving::IsClosed, Then::NeedsServer)
            }
            Verdict::Over => {
                let counts = !self.server.is_former;
                if counts && refused.is_none() {
                    trial.teach(self.pool, self.server.session.shape());
                }
                self.client.waiting = Waiting::No;
                let leaving = match self.server.close_reason {
                    Some(CloseReason::NotRestored) => Leaving::IsClosed,
                    _ => Leaving::IsReleased,
                };
                let then = match refused {
                    // The servers that replace it may answer otherwise.
                    _ if !counts => Then::NeedsServer,
                    None => Then::IsWelcome,
                    // The server has not rejected the values: a time limit that is a default of the user has ended the
                    // wait for a lock.
                    Some(refused) if TIME_LIMITS.contains(&refused.sqlstate()) => Then::NeedsServer,
                    Some(refused) => Then::IsRefused(refused),
                };
                Tried::Over(leaving, then)
            }
        }
    }
}
