//! The end of a login: facts that are needed from a server first, and the messages that welcome the client.

use crate::base::close_reason::CloseReason;
use crate::base::errors::Trouble;
use crate::base::ids::{ClientId, ServerId};
use crate::base::pool_id::PoolId;
use crate::base::reasons::Waiting;
use crate::base::request::Request;
use crate::base::time::Time;
use crate::client::ClientPhase;
use crate::login::client_login::ServerUse;
use crate::login::lookups;
use crate::login::trial::{Trial, Verdict, first_shape};
use crate::login::welcome::Welcome;
use crate::pooler::Pooler;
use crate::state::difference::Change;
use crate::upstream::nature::{Nature, is_kept_by_poolers};
use pgweir_wire::Writer;

/// SQLSTATEs of statements that lock_timeout, statement_timeout or a cancel has ended.
const TIME_LIMITS: [&str; 2] = ["55P03", "57014"];

impl Pooler {
    /// Welcomes the client if the server's settings are known; otherwise gets a server for it.
    pub(crate) fn begin_welcome(&mut self, now: Time, id: ClientId, pool_id: PoolId) {
        let pool = self.pools[pool_id as usize].as_ref().expect("the caller looked it up");
        let Some(client) = self.clients.get_mut(id.0) else {
            return;
        };
        let Some(login) = client.login_mut() else { return };
        let Some(trial) = Trial::needed(pool, &login.wishes.settings) else {
            return self.welcome(id);
        };
        let minds_traces = trial.minds_traces();
        login.begin_trial(trial);
        client.session.minds_traces = minds_traces;
        self.acquire(now, id);
    }

    /// The pool's first server has logged in: clients that waited only for its settings are welcomed.
    pub(crate) fn welcome_known(&mut self, pool_id: PoolId) {
        let waiting: Vec<ClientId> = self.pool(pool_id).waiting.iter().map(|(id, _)| id).collect();
        for id in waiting {
            let trial = self.login_mut(id).and_then(|login| login.trial());
            if trial.is_some_and(|trial| trial.values.is_empty()) {
                self.stop_waiting(id);
                self.welcome_late(id);
            }
        }
    }

    /// A login has been linked to a server.
    pub(crate) fn login_has_server(&mut self, now: Time, id: ClientId, server_id: ServerId) {
        let server = self.server_mut(server_id);
        server.conversation.request_time = now;
        let pool_id = server.pool;
        let is_postgresql = server.nature.is_postgresql();
        let is_replication = self.pool(pool_id).key.kind.is_replication();
        let Some(login) = self.clients.get_mut(id.0).and_then(|c| c.login_mut()) else {
            return;
        };
        match login.server_use() {
            // From here on the server is the client's.
            _ if is_replication => self.welcome_late(id),
            ServerUse::AskSecret { user, database } => {
                let query = lookups::query(&self.shared.config, database);
                let user = user.to_string();
                self.at(server_id).ask_secret(&query, &user);
            }
            ServerUse::TryValues if !is_postgresql => self.trial_behind_pooler(now, id, server_id),
            ServerUse::TryValues => {
                let server = self.server_mut(server_id);
                let (shape, base) = (server.session.shape.clone(), server.session.base.clone());
                let trial = self.login_mut(id).and_then(|login| login.trial_mut());
                if let Some(changes) = trial.map(|trial| trial.begin_on(&shape, &base)) {
                    self.make_for_trial(now, id, server_id, &changes);
                }
            }
            ServerUse::Nothing => {
                self.release(now, server_id);
                self.welcome_late(id);
            }
        }
    }

    /// The startup parameters of a client behind another pooler or its console. Settings that every pooler keeps for
    /// its clients are tried. Any other would reach other clients or be lost.
    fn trial_behind_pooler(&mut self, now: Time, id: ClientId, server_id: ServerId) {
        let is_console = self.server_mut(server_id).nature == Nature::Console;
        let Some(trial) = self.login_mut(id).and_then(|login| login.trial_mut()) else {
            return;
        };
        if is_console {
            self.release(now, server_id);
            return self.welcome_late(id);
        }
        if let Some((name, value)) = trial.values.iter().find(|(name, _)| !is_kept_by_poolers(name)) {
            let message = format!("unsupported startup parameter: {name}={value}");
            let text = Trouble::BadStartupParameter.text(
                &message,
                "the server is another pooler, which does not keep this setting for its clients",
                "Name it in ignore_startup_parameters to leave it out.",
            );
            self.send(id, |w| w.error(&text));
            return self.close_client(now, id, &message);
        }
        let changes = trial.try_values();
        self.make_for_trial(now, id, server_id, &changes);
    }

    /// Sends the settings of a trial to a server and waits for the reply.
    fn make_for_trial(&mut self, now: Time, id: ClientId, server_id: ServerId, changes: &[Change]) {
        let shape = self.server_mut(server_id).session.shape.clone();
        let target = self.shared.shape_with(&shape, changes);
        self.between(now, id, server_id).confirm_first(changes, target);
    }

    /// A server has answered the settings of a trial.
    pub(crate) fn login_validated(
        &mut self,
        now: Time,
        id: ClientId,
        server_id: ServerId,
        refused: Option<(String, String)>,
    ) {
        let Some(trial) = self.login_mut(id).and_then(|login| login.trial_mut()) else {
            return;
        };
        match trial.answered(refused.is_some()) {
            Verdict::TryNow => {
                let changes = trial.try_values();
                self.make_for_trial(now, id, server_id, &changes);
            }
            Verdict::AnotherServer => {
                self.client_mut(id).waiting = Waiting::No;
                self.close_linked(now, id, server_id, CloseReason::NotRestored.text());
                self.acquire(now, id);
            }
            Verdict::Over => self.trial_over(now, id, server_id, refused),
        }
    }

    fn trial_over(&mut self, now: Time, id: ClientId, server_id: ServerId, refused: Option<(String, String)>) {
        let client = self.clients.get_mut(id.0).expect("looked up by the caller");
        client.waiting = Waiting::No;
        let server = self.servers.get(server_id.0).expect("a linked server lives");
        let pool = self.pools[server.pool as usize].as_mut();
        if let (None, Some(login), Some(pool)) = (&refused, client.login_mut(), pool)
            && let Some(trial) = login.trial()
        {
            trial.teach(pool, &server.session.shape);
        }
        if server.close_reason == Some(CloseReason::NotRestored) {
            self.close_linked(now, id, server_id, CloseReason::NotRestored.text());
        } else {
            self.release(now, server_id);
        }
        match refused {
            None => self.welcome_late(id),
            // The server has not rejected the values: a time limit that is a default of the user has ended the wait for
            // a lock.
            Some((sqlstate, _)) if TIME_LIMITS.contains(&&*sqlstate) => {
                self.acquire(now, id);
            }
            Some((sqlstate, message)) => self.refuse_values(now, id, &sqlstate, &message),
        }
    }

    /// Sends a client the server's error about its startup parameters.
    fn refuse_values(&mut self, now: Time, id: ClientId, sqlstate: &str, message: &str) {
        let mut text = Trouble::BadStartupParameter.text(message, "", "");
        if sqlstate.len() == 5 {
            text.sqlstate = sqlstate;
        }
        self.send(id, |w| w.error(&text));
        self.close_client(now, id, message);
    }

    /// Welcomes a client that had to wait, and continues with the messages that it has sent meanwhile.
    fn welcome_late(&mut self, id: ClientId) {
        self.welcome(id);
        self.shared.requests.push_back(Request::Resume(id.into()));
    }

    /// Sends the messages that end a successful login.
    fn welcome(&mut self, id: ClientId) {
        let client = self.clients.get_mut(id.0).expect("looked up by the caller");
        let ClientPhase::Login(mut login) = std::mem::replace(&mut client.phase, ClientPhase::Session) else {
            return;
        };
        let pool = client.pool.and_then(|id| self.pools[id as usize].as_mut());
        let pool = pool.expect("a client that is let in has a pool");
        pool.stats.client_login_count += 1;
        let welcome = pool.welcome.clone().expect("the caller checked");
        client.session.shape = first_shape(pool, &welcome, &login.wishes.settings, &mut self.shared.shapes);
        client.session.base = client.session.shape.clone();
        let (shape, status) = (client.session.shape.clone(), client.session.idle_status());
        self.give_process_id(id);
        let key = self.cancel_key_of(id);
        let notice = self.shared.settings.login_notify_message.clone();
        let closing = login.take_closing();
        self.shared.outbox.insert(id.into(), |to| {
            let welcome = Welcome {
                closing: closing.as_deref(),
                key: &key,
                notice: &notice,
                status,
            };
            let reported = shape.settings().iter().filter(|s| s.reported);
            welcome.write(&mut Writer::new(to), reported.map(|s| (&*s.name, &*s.value)));
        });
    }
}
