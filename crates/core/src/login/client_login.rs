//! A client's login: authentication, and what must be known before it can be welcomed.
//!
//! ```text
//! authentication ── secret unknown ──> auth_query on a server of its own pool ──┐
//!       │  <────────────────────────────────────────────────────────────────────┘
//!       └─> welcome: needs a server where the pool has none yet, or where a startup parameter has a value that no
//!           server of this pool has accepted before
//! ```

use crate::base::access::Access;
use crate::base::errors::Trouble;
use crate::base::ids::{ClientId, ServerId};
use crate::base::pool_id::{PoolId, PoolKind};
use crate::base::reasons::Waiting;
use crate::base::request::{Address, LogLevel, Request};
use crate::base::time::Time;
use crate::client::ClientPhase;
use crate::login::backend_start::{self, START_POOLS_MAX};
use crate::login::lookups::NoLookup;
use crate::login::startup::Wishes;
use crate::pooler::Pooler;
use crate::pools::databases::NoPool;
use crate::session::restoration::NOT_RESTORED;
use crate::session::session_state::{Change, Shape, difference};
use crate::statements::unnamed::Unnamed;
use crate::upstream::reply_queue::{Entry, Expect};
use pgweir_auth::{
    ClientAuth, ClientAuthMethod, ClientAuthNonces, ClientAuthRules, ClientStep, Credential, Learned, Secret,
};
use pgweir_config::{AuthType, CONSOLE_DATABASE};
use pgweir_wire::{HEADER_BYTES, Header, ProtocolVersion, Writer, backend};
use rand_core::RngCore;
use std::sync::Arc;

/// The longest message of a client that is not logged in, bytes; passwords of 65,530 bytes must fit.
const LOGIN_MESSAGE_BYTES_MAX: u32 = 66_000;

/// Iterations of PBKDF2 for passwords that clients send in clear text, in a round of the timers: some 8 ms of 100. Whoever
/// comes later waits for the next round, so that wrong passwords do not stall those who work.
pub(crate) const ITERATIONS_PER_ROUND: u64 = 40_000;

/// What the login waits for.
enum Stage {
    /// The client's next message.
    Client(Box<ClientAuth>),
    /// The answer of auth_query.
    AuthQuery(Box<ClientAuth>, Option<Option<Secret>>),
    /// A server, to learn what servers of the pool look like, or what it makes of these startup parameters.
    Welcome(Vec<(String, String)>),
}

/// A login in progress.
pub(crate) struct Login {
    wishes: Wishes,
    version: ProtocolVersion,
    stage: Option<Stage>,
    /// What auth_query found, which may also log in to servers.
    found: Option<Secret>,
    /// AuthenticationSASLFinal, due with AuthenticationOk.
    closing: Option<Vec<u8>>,
    /// Its server is on its way back to what a new one looks like.
    server_returns: bool,
}

impl std::fmt::Debug for Login {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "Login({}/{} {:?})",
            self.wishes.database, self.wishes.user, self.version
        )
    }
}

impl Login {
    pub(crate) fn new(wishes: Wishes, version: ProtocolVersion) -> Self {
        Login {
            wishes,
            version,
            stage: None,
            found: None,
            closing: None,
            server_returns: false,
        }
    }

    pub(crate) fn waits_for_secret(&self) -> bool {
        !matches!(self.stage, Some(Stage::Client(_)))
    }

    pub(crate) fn awaits_auth_query(&self) -> bool {
        matches!(self.stage, Some(Stage::AuthQuery(..)))
    }

    pub(crate) fn database_label(&self) -> String {
        self.wishes.database.clone()
    }

    pub(crate) fn user_label(&self) -> String {
        self.wishes.user.clone()
    }

    pub(crate) fn user(&self) -> &str {
        &self.wishes.user
    }

    pub(crate) fn database(&self) -> &str {
        &self.wishes.database
    }

    /// The exchange that waits for auth_query.
    pub(crate) fn take_lookup(&mut self) -> Option<Box<ClientAuth>> {
        match self.stage.take() {
            Some(Stage::AuthQuery(auth, _)) => Some(auth),
            other => {
                self.stage = other;
                None
            }
        }
    }

    /// A setting the startup packet asked for.
    pub(crate) fn setting(&self, name: &str) -> Option<&str> {
        let settings = self.wishes.settings.iter().rev();
        settings
            .clone()
            .find(|(n, _)| n.eq_ignore_ascii_case(name))
            .map(|(_, value)| &**value)
    }

    /// What must be sent in front of AuthenticationOk.
    pub(crate) fn take_closing(&mut self) -> Option<Vec<u8>> {
        self.closing.take()
    }
}

impl Pooler {
    fn login_mut(&mut self, id: ClientId) -> Option<&mut Login> {
        match &mut self.clients.get_mut(id.0)?.phase {
            ClientPhase::Login(login) => Some(login),
            _ => None,
        }
    }

    pub(crate) fn begin_authentication(&mut self, now: Time, id: ClientId) {
        let Some(client) = self.clients.get(id.0) else { return };
        let own_uid = client.accepted.peer_uid == Some(self.surroundings.own_uid);
        let unix = matches!(client.accepted.peer, Address::Unix { .. });
        let ClientPhase::Login(login) = &client.phase else {
            return;
        };
        let (user, database) = (login.wishes.user.clone(), login.wishes.database.clone());
        if database == CONSOLE_DATABASE && user == CONSOLE_DATABASE && unix && own_uid {
            return self.open_console(now, id, &user, Access::Admin);
        }
        let method = match self.shared.config.global.auth_type {
            AuthType::Any => ClientAuthMethod::Any,
            AuthType::Trust => ClientAuthMethod::Trust,
            AuthType::Plain => ClientAuthMethod::Plain,
            AuthType::Md5 => ClientAuthMethod::Md5,
            AuthType::ScramSha256 => ClientAuthMethod::ScramSha256,
            // Refused when the configuration is read.
            AuthType::Cert | AuthType::Hba | AuthType::Pam | AuthType::Ldap => ClientAuthMethod::ScramSha256,
        };
        let mut nonces = ClientAuthNonces {
            md5_salt: [0; 4],
            scram: [0; 18],
        };
        self.random.fill_bytes(&mut nonces.md5_salt);
        self.random.fill_bytes(&mut nonces.scram);
        let known = self
            .shared
            .config
            .auth_users
            .get(&user)
            .map(|s| Secret::parse(s.text().as_bytes()));
        let lookup = if known.is_none() && method != ClientAuthMethod::Any {
            self.auth_query_pool(now, &database, &user)
        } else {
            Err(NoLookup::Nowhere)
        };
        if lookup == Err(NoLookup::TooManyDatabases) {
            let message = "too many logins to databases that are not known yet";
            return self.fail_client(now, id, Trouble::TooManyClients, message, "", "Try again in a moment.");
        }
        let lookup = lookup.ok();
        let rules = ClientAuthRules {
            mock_key: self.mock_key,
            mock_secret: self.mock_secret(&user, lookup.is_some()),
            scram_iterations: self.shared.config.global.scram_iterations,
        };
        let auth = Box::new(ClientAuth::new(method, user.as_bytes(), nonces, rules));
        match (known, lookup) {
            (Some(Ok(secret)), _) => self.secret_known(now, id, auth, Some(secret)),
            (Some(Err(_)), _) | (None, None) => self.secret_known(now, id, auth, None),
            (None, Some(pool)) => {
                let client = self.client_mut(id);
                client.pool = Some(pool);
                self.login_mut(id).expect("checked above").stage = Some(Stage::AuthQuery(auth, None));
                self.acquire(now, id);
            }
        }
    }

    pub(crate) fn secret_known(&mut self, now: Time, id: ClientId, mut auth: Box<ClientAuth>, secret: Option<Secret>) {
        let step = auth.handle_secret(secret);
        self.authentication_step(now, id, auth, step);
    }

    fn authentication_step(&mut self, now: Time, id: ClientId, auth: Box<ClientAuth>, step: ClientStep) {
        match step {
            ClientStep::Ask(request) => {
                let payload = request.payload();
                self.send(id, |w| w.authentication(&payload));
                if let Some(login) = self.login_mut(id) {
                    login.stage = Some(Stage::Client(auth));
                }
            }
            ClientStep::Refused(refused) => {
                if let Some(client) = self.clients.get(id.0) {
                    let text = format!("{} {}", self.client_label(id, client), refused.reason);
                    self.log(LogLevel::Debug, text);
                }
                self.fail_client(now, id, Trouble::AuthenticationFailed, refused.told, "", "");
            }
            ClientStep::Accepted(accepted) => {
                let Some(login) = self.login_mut(id) else { return };
                login.closing = accepted.closing.map(|request| request.payload());
                self.authenticated(now, id, accepted.learned);
            }
        }
    }

    pub(crate) fn login_bytes(&mut self, now: Time, id: ClientId, input: &[u8]) -> usize {
        let mut at = 0;
        while let Some(login) = self.login_mut(id) {
            if login.waits_for_secret() {
                return at;
            }
            let header = match Header::read(&input[at..]) {
                Ok(Some(header)) => header,
                Ok(None) => return at,
                Err(error) => {
                    self.fail_client(now, id, Trouble::ProtocolViolation, &error.to_string(), "", "");
                    return input.len();
                }
            };
            if header.tag == b'X' {
                self.close_client(now, id, "client close request");
                return input.len();
            }
            if header.tag != b'p' || header.message_bytes > LOGIN_MESSAGE_BYTES_MAX {
                let message = format!("expected password response, got message type {}", header.tag);
                self.fail_client(now, id, Trouble::ProtocolViolation, &message, "", "");
                return input.len();
            }
            let end = at + header.message_bytes as usize;
            if end > input.len() {
                return at;
            }
            let payload = &input[at + HEADER_BYTES..end];
            let Some(Stage::Client(mut auth)) = self.login_mut(id).and_then(|l| l.stage.take()) else {
                return end;
            };
            if auth.derives_keys() && self.scram_keys.iterations_spent() >= ITERATIONS_PER_ROUND {
                let login = self.login_mut(id).expect("looked up above");
                login.stage = Some(Stage::Client(auth));
                self.client_mut(id).waiting = Waiting::ForTurn;
                self.turns.push(id);
                return at;
            }
            at = end;
            let step = auth.handle_message(payload, &mut self.scram_keys);
            self.authentication_step(now, id, auth, step);
        }
        // Logged in on the way: the rest belongs to the session.
        if at < input.len() && self.clients.get(id.0).is_some() {
            self.shared.requests.push_back(Request::Resume(id.into()));
        }
        if self.clients.get(id.0).is_some() {
            at
        } else {
            input.len()
        }
    }

    /// A new round: logins that waited for their turn go on.
    pub(crate) fn next_turns(&mut self) {
        self.scram_keys.forgive_iterations(ITERATIONS_PER_ROUND);
        for id in std::mem::take(&mut self.turns) {
            if let Some(client) = self.clients.get_mut(id.0)
                && client.waiting == Waiting::ForTurn
            {
                client.waiting = Waiting::No;
                self.shared.requests.push_back(Request::Resume(id.into()));
            }
        }
    }

    /// The client is who it says. What follows may tell it about databases.
    fn authenticated(&mut self, now: Time, id: ClientId, learned: Learned) {
        let Some(login) = self.login_mut(id) else { return };
        let (user, database, replication) = (
            login.wishes.user.clone(),
            login.wishes.database.clone(),
            login.wishes.replication,
        );
        if database == CONSOLE_DATABASE {
            return match self.console_access(&user) {
                Some(access) => self.open_console(now, id, &user, access),
                None => self.fail_client(
                    now,
                    id,
                    Trouble::NotAllowed,
                    "not allowed",
                    "",
                    "Add the user to admin_users or stats_users.",
                ),
            };
        }
        let kind = match replication {
            Some(physical) => PoolKind::Replication { physical },
            None => PoolKind::Clients,
        };
        let start = match self.login_mut(id) {
            Some(login) => backend_start::take_from(&mut login.wishes.settings),
            None => return,
        };
        let pool_id = match self.pool_started_with(now, &database, &user, kind, start) {
            Ok(pool_id) => pool_id,
            Err(NoPool::NoSuchDatabase) => {
                let message = format!("no such database: {database}");
                return self.fail_client(now, id, Trouble::NoSuchDatabase, &message, "", "");
            }
            Err(NoPool::TooManyStarts) => {
                let message = "too many different values of settings that only a new connection can have";
                let detail = format!("expected at most {START_POOLS_MAX} for a database and user");
                let hint = "log_connections and post_auth_delay are such settings; they need not be given at startup.";
                return self.fail_client(now, id, Trouble::BadStartupParameter, message, &detail, hint);
            }
        };
        if self.databases.disabled.contains(&*database) {
            let message = format!("database \"{database}\" is disabled");
            return self.fail_client(
                now,
                id,
                Trouble::DatabaseDisabled,
                &message,
                "",
                "An administrator has disabled it.",
            );
        }
        if self.shared.config.global.auth_type == AuthType::Any
            && self.shared.config.database(&database).is_some_and(|d| d.user.is_none())
        {
            let message = "auth_type = any requires a database with a forced user";
            return self.fail_client(
                now,
                id,
                Trouble::NotAllowed,
                message,
                "",
                "Add user= to the database's line.",
            );
        }
        let full = self.client_count >= self.shared.settings.max_client_conn;
        let counted = if full {
            Err((Trouble::TooManyClients, "max_client_conn"))
        } else {
            self.count_client_in(pool_id, &user)
        };
        if let Err((trouble, limit)) = counted {
            let message = format!("no more connections allowed ({limit})");
            return self.fail_client(
                now,
                id,
                trouble,
                &message,
                "",
                "Close idle clients, or raise the limit.",
            );
        }
        let forced = *self.pool(pool_id).key.user != *user;
        let client = self.client_mut(id);
        client.pool = Some(pool_id);
        client.login_user = forced.then(|| user.as_str().into());
        client.counted = true;
        self.client_count += 1;
        self.arrives_no_more();
        let found = self.login_mut(id).and_then(|l| l.found.take());
        self.learn_credential(pool_id, &user, learned, found);
        self.begin_welcome(now, id, pool_id);
    }

    /// What the login has taught us is the best way into the servers, unless the configuration names a password.
    /// `found` is what auth_query had to say.
    fn learn_credential(&mut self, pool_id: PoolId, user: &str, learned: Learned, found: Option<Secret>) {
        let key = self.pool(pool_id).key.clone();
        let configured = self.stored_credential(&key.database, user);
        if *key.user != *user || matches!(configured, Credential::Password(_)) {
            return;
        }
        let credential = match (learned, found) {
            (Learned::Password(password), _) => Credential::Password(password),
            (Learned::ScramKeys(keys), _) => Credential::ScramKeys(keys),
            (Learned::Nothing, Some(secret)) => Credential::from_secret(&secret),
            (Learned::Nothing, None) => return,
        };
        if !matches!(credential, Credential::Nothing) {
            self.pool_mut(pool_id).credential = credential;
        }
    }

    /// Welcomes the client if everything is known, else gets it a server to learn it from.
    fn begin_welcome(&mut self, now: Time, id: ClientId, pool_id: PoolId) {
        let pool = self.pool(pool_id);
        let Some(login) = self.clients.get(id.0).and_then(|c| match &c.phase {
            ClientPhase::Login(login) => Some(login),
            _ => None,
        }) else {
            return;
        };
        let unknown: Vec<(String, String)> = login
            .wishes
            .settings
            .iter()
            .filter(|(name, value)| !is_free_text(name, value))
            .filter(|(name, value)| {
                !pool
                    .known_startup_values
                    .contains_key(&(name.as_str().into(), value.as_str().into()))
            })
            .cloned()
            .collect();
        if pool.welcome.is_some() && unknown.is_empty() {
            return self.welcome(now, id);
        }
        self.client_mut(id).minds_traces = unknown.iter().any(|(name, _)| crate::session::traces::is_bound(name));
        self.login_mut(id).expect("looked up above").stage = Some(Stage::Welcome(unknown));
        self.acquire(now, id);
    }

    /// The pool's first server has logged in: clients that only waited to hear what it looks like can go on.
    pub(crate) fn welcome_known(&mut self, now: Time, pool_id: PoolId) {
        let waiting: Vec<ClientId> = self.pool(pool_id).waiting.iter().map(|(id, _)| id).collect();
        for id in waiting {
            if let Some(Login {
                stage: Some(Stage::Welcome(unknown)),
                ..
            }) = self.login_mut(id)
                && unknown.is_empty()
            {
                self.stop_waiting(id);
                self.welcome_late(now, id);
            }
        }
    }

    /// A login has been linked to a server.
    pub(crate) fn login_has_server(&mut self, now: Time, id: ClientId, server_id: ServerId) {
        self.server_mut(server_id).request_time = now;
        let Some(login) = self.login_mut(id) else { return };
        match &login.stage {
            Some(Stage::AuthQuery(..)) => {
                let (user, database) = (login.wishes.user.clone(), login.wishes.database.clone());
                let entry = self.shared.config.database(&database);
                let query = match &entry {
                    Some(entry) => self.shared.config.auth_query(entry).to_string(),
                    None => self.shared.config.global.auth_query.clone(),
                };
                let server = self.server_mut(server_id);
                server.unnamed = Unnamed::Foreign;
                for expect in [Expect::ParseUnnamed, Expect::Bind, Expect::Execute, Expect::Sync] {
                    server.queue.push(Entry::skip(expect));
                }
                self.send(server_id, |w| {
                    w.parse(b"", query.as_bytes(), &[0, 0]);
                    w.bind_text(b"", &[Some(user.as_bytes())]);
                    w.execute();
                    w.sync();
                });
            }
            Some(Stage::Welcome(unknown)) if !unknown.is_empty() => {
                let set = as_changes(unknown);
                if !self.returns_to_base(now, id, server_id) {
                    self.try_startup_values(now, id, server_id, &set);
                }
            }
            _ => {
                self.release(now, server_id);
                self.welcome_late(now, id);
            }
        }
    }

    /// What a server makes of startup parameters must not depend on whom it served before: a role may be refused to another
    /// session authorization, and `DateStyle = ISO` keeps the order of day and month. Says whether there is anything to do.
    fn returns_to_base(&mut self, now: Time, id: ClientId, server_id: ServerId) -> bool {
        let server = self.servers.get_mut(server_id.0).expect("a linked server lives");
        let (shape, base) = (server.shape.clone(), server.base.clone());
        let way = difference(&shape, &base);
        if way.is_empty() {
            return false;
        }
        let target = self.shared.shape_with(&shape, &way);
        self.between(now, id, server_id).confirm_first(&way, target);
        if let Some(login) = self.login_mut(id) {
            login.server_returns = true;
        }
        true
    }

    /// Asks a server that looks like a new one what it makes of startup values.
    fn try_startup_values(&mut self, now: Time, id: ClientId, server_id: ServerId, set: &[Change]) {
        let shape = self.server_mut(server_id).shape.clone();
        let target = self.shared.shape_with(&shape, set);
        self.between(now, id, server_id).confirm_first(set, target);
    }

    /// A row of auth_query: user name and secret.
    pub(crate) fn captured_row(&mut self, server_id: ServerId, message: &[u8], whole: bool) {
        let Some(id) = self.servers.get(server_id.0).and_then(|s| s.link) else {
            return;
        };
        let Some(Login {
            stage: Some(Stage::AuthQuery(_, found)),
            wishes,
            ..
        }) = self.login_mut(id)
        else {
            return;
        };
        if !whole || message.first() != Some(&b'D') || found.is_some() {
            return;
        }
        let Ok(row) = backend::data_row(&message[HEADER_BYTES..]) else {
            return;
        };
        if row.first().copied().flatten() != Some(wishes.user.as_bytes()) {
            return;
        }
        // A user without a password exists, but nothing it says will be right.
        let secret = row.get(1).copied().flatten().unwrap_or_default();
        *found = Some(Secret::parse(secret).ok());
    }

    /// auth_query is through.
    pub(crate) fn auth_query_done(&mut self, now: Time, id: ClientId, server_id: ServerId) {
        self.release(now, server_id);
        self.client_mut(id).pool = None;
        let Some(Stage::AuthQuery(auth, found)) = self.login_mut(id).and_then(|l| l.stage.take()) else {
            return;
        };
        let secret = found.flatten();
        self.note_kind_of_secret(secret.as_ref());
        if let Some(login) = self.login_mut(id) {
            login.found = secret.clone();
        }
        self.secret_known(now, id, auth, secret);
        self.shared.requests.push_back(Request::Resume(id.into()));
    }

    /// A server has said what it makes of startup parameters.
    pub(crate) fn login_validated(
        &mut self,
        now: Time,
        id: ClientId,
        server_id: ServerId,
        refused: Option<(String, String)>,
    ) {
        let Some(login) = self.login_mut(id) else { return };
        let returned = std::mem::take(&mut login.server_returns);
        if let (true, Some(Stage::Welcome(unknown))) = (returned, &login.stage) {
            let set = as_changes(unknown);
            if refused.is_none() {
                return self.try_startup_values(now, id, server_id, &set);
            }
            // The values have not been tried: another server tells what it makes of them.
            self.client_mut(id).waiting = Waiting::No;
            self.close_linked(now, id, server_id, NOT_RESTORED);
            self.acquire(now, id);
            return;
        }
        let Some(Stage::Welcome(unknown)) = self.login_mut(id).and_then(|l| l.stage.take()) else {
            return;
        };
        self.client_mut(id).waiting = Waiting::No;
        let server = self.server_mut(server_id);
        let (after, pool_id) = (server.shape.clone(), server.pool);
        if refused.is_none() {
            let brought = self.brought_by_role(pool_id, &after, &unknown);
            for (name, value) in &unknown {
                let mut reported = Vec::new();
                if let Some(setting) = after.get(name).filter(|s| s.reported) {
                    reported.push((setting.name.clone(), setting.value.clone()));
                }
                if is_role(name) {
                    reported.extend(brought.iter().cloned());
                }
                self.pool_mut(pool_id).remember_startup_value(name, value, reported);
            }
        }
        if self.server_mut(server_id).close_reason == Some(NOT_RESTORED) {
            self.close_linked(now, id, server_id, NOT_RESTORED);
        } else {
            self.release(now, server_id);
        }
        match refused {
            None => self.welcome_late(now, id),
            // Nothing was judged: a limit that the server's user has by default has ended the wait for a lock.
            Some((sqlstate, _)) if TIME_LIMITS.contains(&&*sqlstate) => {
                if let Some(login) = self.login_mut(id) {
                    login.stage = Some(Stage::Welcome(unknown));
                }
                self.acquire(now, id);
            }
            Some((sqlstate, message)) => {
                let row = Trouble::BadStartupParameter.row();
                let sqlstate = if sqlstate.len() == 5 { &*sqlstate } else { row.sqlstate };
                let text = pgweir_wire::write::ErrorText {
                    severity: row.severity,
                    sqlstate,
                    message: &message,
                    detail: "",
                    hint: "",
                };
                self.send(id, |w| w.error(&text));
                self.close_client(now, id, &message);
            }
        }
    }

    /// What a server reports otherwise than a new one, though nobody asked for it: a role changes `is_superuser`.
    fn brought_by_role(
        &self,
        pool_id: PoolId,
        after: &Shape,
        wished: &[(String, String)],
    ) -> Vec<(Arc<str>, Arc<str>)> {
        let Some(welcome) = &self.pool(pool_id).welcome else {
            return Vec::new();
        };
        let is_wished = |name: &str| wished.iter().any(|(n, _)| n.eq_ignore_ascii_case(name));
        after
            .settings()
            .iter()
            .filter(|s| s.reported && !is_wished(&s.name) && BROUGHT_BY_ROLE.contains(&&*s.name))
            .filter(|s| welcome.get(&s.name).is_none_or(|w| w.value != s.value))
            .map(|s| (s.name.clone(), s.value.clone()))
            .collect()
    }

    /// Welcomes a client that had to wait for it, and takes up what it has sent meanwhile.
    fn welcome_late(&mut self, now: Time, id: ClientId) {
        self.welcome(now, id);
        self.shared.requests.push_back(Request::Resume(id.into()));
    }

    /// AuthenticationOk, ParameterStatus, BackendKeyData, ReadyForQuery: the client is in.
    fn welcome(&mut self, _now: Time, id: ClientId) {
        let client = self.clients.get_mut(id.0).expect("looked up by the caller");
        let ClientPhase::Login(login) = std::mem::replace(&mut client.phase, ClientPhase::Session) else {
            return;
        };
        let pool = self.pools[client.pool.expect("set when authenticated") as usize]
            .as_mut()
            .expect("a client's pool lives");
        pool.stats.client_login_count += 1;
        let welcome = pool.welcome.clone().expect("the caller checked");
        let mut changes: Vec<(String, String, bool)> = Vec::new();
        for (name, value) in &login.wishes.settings {
            match pool
                .known_startup_values
                .get(&(name.as_str().into(), value.as_str().into()))
            {
                Some(reported) if !reported.is_empty() => {
                    if !reported.iter().any(|(n, _)| n.eq_ignore_ascii_case(name)) {
                        changes.push((name.clone(), value.clone(), false));
                    }
                    changes.extend(reported.iter().map(|(n, v)| (n.to_string(), v.to_string(), true)));
                }
                _ => changes.push((name.clone(), value.clone(), false)),
            }
        }
        let changes = changes.iter().map(|(n, v, reported)| (&**n, Some(&**v), *reported));
        client.shape = self.shared.shapes.change(&welcome, changes);
        client.base = client.shape.clone();
        let (shape, bytes, status) = (client.shape.clone(), client.cancel_key_bytes, client.idle_status());
        self.give_process_id(id);
        let key = self.cancel_key_of(id, bytes);
        let notify = self.shared.settings.login_notify_message.clone();
        self.shared.outbox.insert(id.into(), |to| {
            let mut w = Writer::new(to);
            if let Some(closing) = &login.closing {
                w.authentication(closing);
            }
            w.authentication(&0u32.to_be_bytes());
            for setting in shape.settings().iter().filter(|s| s.reported) {
                w.parameter_status(setting.name.as_bytes(), setting.value.as_bytes());
            }
            w.backend_key_data(key.process_id, &key.secret);
            if !notify.is_empty() {
                let (severity, sqlstate, message) = ("NOTICE", "00000", &*notify);
                w.notice(&pgweir_wire::write::ErrorText {
                    severity,
                    sqlstate,
                    message,
                    detail: "",
                    hint: "",
                });
            }
            w.ready_for_query(status);
        });
    }
}

/// SQLSTATEs of statements that lock_timeout, statement_timeout or a cancel has ended.
const TIME_LIMITS: [&str; 2] = ["55P03", "57014"];

/// What a role or a session authorization changes beside itself.
const BROUGHT_BY_ROLE: [&str; 2] = ["is_superuser", "session_authorization"];

/// Settings to make, as a server is sent them.
fn as_changes(wished: &[(String, String)]) -> Vec<Change> {
    let set = |(name, value): &(String, String)| (name.as_str().into(), Some(value.as_str().into()));
    wished.iter().map(set).collect()
}

fn is_role(name: &str) -> bool {
    name.eq_ignore_ascii_case("role") || name.eq_ignore_ascii_case("session_authorization")
}

/// Settings that take any text of printable ASCII, and report it as it is: no server need be asked.
fn is_free_text(name: &str, value: &str) -> bool {
    name.eq_ignore_ascii_case("application_name") && value.bytes().all(|b| (32..127).contains(&b))
}
