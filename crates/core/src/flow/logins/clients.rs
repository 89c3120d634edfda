//! A client's login, from the first packet to the end of authentication.

use crate::base::access::Access;
use crate::base::ids::ClientId;
use crate::base::request::{LogLevel, Request};
use crate::base::time::Time;
use crate::base::verification::Verification;
use crate::base::weakness::Weakness;
use crate::client::{Client, ClientPhase};
use crate::flow::logins::arrival::{Arrival, Next};
use crate::login::admission;
use crate::login::cancel_keys::KeyForm;
use crate::login::client_login::Login;
use crate::login::login_step::{LoginStep, SecretSource};
use crate::login::lookups::NoLookup;
use crate::login::rejection::Rejection;
use crate::login::startup::{FirstPacket, Wishes, negotiation};
use crate::pooler::Pooler;
use pgweir_auth::{ClientAuth, ClientAuthError, ClientAuthMethod, ClientAuthNonces, ClientAuthRules, Secret};
use pgweir_config::CONSOLE_DATABASE;
use pgweir_wire::ProtocolVersion;
use rand_core::RngCore;

const _: () = assert!(
    pgweir_config::SCRAM_ITERATIONS_MAX == pgweir_auth::ITERATIONS_MAX,
    "the pooler can use the verifiers that it makes"
);

impl Pooler {
    /// A client has connected.
    pub(crate) fn arrived(&mut self, now: Time, id: ClientId) {
        let places = self.shared.settings.max_client_conn.saturating_sub(self.client_count);
        let clients = &self.clients;
        let is_arriving = |id: ClientId| clients.get(id.0).is_some_and(Client::is_arriving);
        let slowest = self.arrivals.come(id, places, is_arriving);
        if let Some(slowest) = slowest.filter(|_| !self.shared.is_weak(Weakness::ForgetsStrangers)) {
            self.login_goes_on(now, slowest, Next::Reject(Rejection::too_slow()));
        }
    }

    pub(crate) fn startup_bytes(&mut self, now: Time, id: ClientId, input: &[u8]) -> usize {
        let Some(mut arrival) = self.arrival(id) else {
            return input.len();
        };
        let (bytes, next) = match FirstPacket::read(input) {
            FirstPacket::NeedBytes => return 0,
            FirstPacket::Ssl(bytes) => (bytes, arrival.encryption_requested(true)),
            FirstPacket::GssEncryption(bytes) => (bytes, arrival.encryption_requested(false)),
            FirstPacket::DirectTls if arrival.offers_tls() => {
                arrival.begin_handshake(true);
                return 0;
            }
            FirstPacket::DirectTls => (input.len(), Next::Close("bad packet header")),
            FirstPacket::Cancel(key) => (input.len(), Next::Cancel(key)),
            FirstPacket::Startup {
                bytes,
                version,
                parameters,
            } => {
                let next = arrival.startup(version, &parameters);
                self.login_goes_on(now, id, next);
                if bytes < input.len() {
                    self.shared.requests.push_back(Request::Resume(id.into()));
                }
                return bytes;
            }
            FirstPacket::Rejected(why) => (input.len(), Next::Reject(why)),
        };
        self.login_goes_on(now, id, next);
        bytes
    }

    pub(crate) fn login_bytes(&mut self, now: Time, id: ClientId, input: &[u8]) -> usize {
        let mut at = 0;
        while let Some((bytes, step)) = self.arrival(id).and_then(|mut arrival| arrival.message(&input[at..])) {
            at += bytes;
            let Some(step) = step else { return at };
            self.login_goes_on(now, id, step);
            self.settle(now);
        }
        if self.clients.get(id.0).is_none() {
            return input.len();
        }
        // The login ended inside the input: the rest belongs to the session.
        if at < input.len() {
            self.shared.requests.push_back(Request::Resume(id.into()));
        }
        at
    }

    /// Does what a login needs next.
    pub(super) fn login_goes_on(&mut self, now: Time, id: ClientId, mut next: Next) {
        loop {
            next = match next {
                Next::Authenticate(method) => self.begin_exchange(now, id, method),
                Next::AskRoles(roles) => self.ask_roles(now, id, roles),
                Next::Admit(learned) => self.admit(now, id, learned),
                Next::Nothing => return,
                Next::Reject(why) => {
                    return self.fail_in_any_state(now, id, why.failure());
                }
                Next::Close(reason) => return self.close_client(now, id, reason),
                Next::Cancel(key) => return self.cancel_request(now, id, &key),
                Next::OpenConsole(access) => return self.open_console(now, id, access),
                Next::GetServer => {
                    self.acquire(now, id);
                    return;
                }
            }
        }
    }

    /// Does what the login of a client needs next, after an answer for which the client waited. The client's next bytes
    /// are read again.
    pub(super) fn login_resumes(&mut self, now: Time, id: ClientId, next: Option<Next>) {
        if let Some(next) = next {
            self.login_goes_on(now, id, next);
            self.shared.requests.push_back(Request::Resume(id.into()));
        }
    }

    /// Begins the client's authentication by this method.
    fn begin_exchange(&mut self, now: Time, id: ClientId, method: ClientAuthMethod) -> Next {
        let mut nonces = ClientAuthNonces {
            md5_salt: [0; 4],
            scram: [0; 18],
        };
        self.random.fill_bytes(&mut nonces.md5_salt);
        self.random.fill_bytes(&mut nonces.scram);
        let source = self.source_of_secret(now, id, method);
        let arrival = self.arrival(id);
        arrival.map_or(Next::Nothing, |mut arrival| {
            if let Some(login) = arrival.client.login_mut() {
                login.is_known_as_of(now);
            }
            arrival.begin_exchange(method, nonces, source)
        })
    }

    /// Where a user's secret comes from. While auth_query runs, the client belongs to its pool.
    fn source_of_secret(&mut self, now: Time, id: ClientId, method: ClientAuthMethod) -> SecretSource {
        let Some(login) = self.clients.get(id.0).and_then(Client::login) else {
            return SecretSource::Known(None);
        };
        let (user, database) = (login.user().to_string(), login.database().to_string());
        if login.membership().is_in_vain() {
            return SecretSource::Known(None);
        }
        let is_too_long = admission::is_too_long_user(&self.shared.config, &database, &user);
        if let Some(secret) = self.shared.config.auth_users.get(&user) {
            let secret = Secret::parse(secret.text().as_bytes()).ok();
            return SecretSource::Known(secret.filter(|_| !is_too_long));
        }
        if method.needs_no_user() {
            return SecretSource::Known(None);
        }
        // A name that is too long is looked up, too: only where the database has a forced user it may exist, and nobody
        // may learn which databases have one by the time of an answer.
        match self.secret_from_auth_query(now, id, &database, &user) {
            Ok(SecretSource::Kept(_)) if is_too_long => SecretSource::Known(None),
            Ok(source) => source,
            Err(NoLookup::Nowhere) => SecretSource::Known(None),
            Err(NoLookup::Misconfigured(fault)) => {
                if let Some(mut arrival) = self.arrival(id) {
                    arrival.log_bad_auth_database(&database, fault);
                }
                SecretSource::Known(None)
            }
        }
    }
}

impl Arrival<'_> {
    fn startup(&mut self, version: ProtocolVersion, parameters: &[(&[u8], &[u8])]) -> Next {
        if let Some((newest, unknown)) = negotiation(version, parameters) {
            self.tell(|w| w.negotiate_protocol_version(newest, &unknown));
        }
        self.client.key_form = if version >= ProtocolVersion::V3_2 {
            KeyForm::Long
        } else {
            KeyForm::Short
        };
        if self.must_use_tls() {
            return Next::Reject(Rejection::needs_tls());
        }
        let peer = self.client.accepted.peer;
        let wishes = match Wishes::read(parameters, &self.shared.settings, peer, &self.surroundings.host_name) {
            Ok(wishes) => wishes,
            Err(why) => return Next::Reject(why),
        };
        if self.shared.settings.log_connections {
            let tls = self.client.tls.as_ref();
            let tls = tls.map_or("no".to_string(), |tls| tls.to_string());
            let (id, database, user) = (self.id, &wishes.database, &wishes.user);
            let replication = wishes.replication_word();
            let text = format!(
                "{id}: {database}/{user}@{peer} login attempt: db={database} user={user} tls={tls} replication={replication}"
            );
            self.shared.log(LogLevel::Log, text);
        }
        if let Some(why) = self.refuses_at_once(&wishes) {
            return Next::Reject(why);
        }
        let is_own_user = admission::is_own_user(&wishes, &self.client.accepted, self.surroundings.own_uid);
        self.client.phase = ClientPhase::Login(Box::new(Login::new(wishes, version)));
        match is_own_user {
            true => Next::OpenConsole(Access::Admin),
            false => self.choose_way(),
        }
    }

    /// Administrators can log in to the console even when all places are taken or the pooler is shutting down.
    fn refuses_at_once(&self, wishes: &Wishes) -> Option<Rejection> {
        let max_client_conn = self.shared.settings.max_client_conn;
        if wishes.database == CONSOLE_DATABASE {
            None
        } else if self.orders.is_shutting_down() {
            Some(Rejection::shutting_down())
        } else {
            (self.client_count >= max_client_conn).then(|| Rejection::no_place(max_client_conn))
        }
    }

    fn begin_exchange(&mut self, method: ClientAuthMethod, nonces: ClientAuthNonces, source: SecretSource) -> Next {
        let end_point = self.client.tls.as_ref().and_then(|tls| tls.end_point.clone());
        let Some(login) = self.client.login_mut() else {
            return Next::Nothing;
        };
        let by_query = !matches!(source, SecretSource::Known(_));
        let (config, secrets) = (&self.shared.config, self.shared.settings.secrets);
        let rules = ClientAuthRules {
            mock_key: self.lookups.mock_key(self.mock_key, by_query),
            mock_secret: self.lookups.mock_secret(secrets, self.mock_key, login.user(), by_query),
            scram_iterations: config.global.scram_iterations,
            plain_secrets: self.lookups.are_some_plain(secrets),
        };
        let mut auth = ClientAuth::new(method, login.user().as_bytes(), nonces, rules);
        if let Some(end_point) = end_point {
            auth = auth.offer_channel_binding(end_point);
        }
        let step = login.begin(auth, source);
        self.follow(step)
    }

    /// The next message of its login: how many bytes it had, and what comes next, or `None` if it has not arrived.
    /// The outer `None`: it is not logging in.
    fn message(&mut self, input: &[u8]) -> Option<(usize, Option<Next>)> {
        let (bytes, step) = self.client.login_mut()?.handle_bytes(input, self.scram_keys);
        let next = (step != LoginStep::Wait).then(|| self.follow(step));
        Some((bytes, next))
    }

    /// Carries out a step of a login.
    pub(super) fn follow(&mut self, step: LoginStep) -> Next {
        match step {
            LoginStep::Wait => {}
            LoginStep::Ask(request) => {
                let payload = request.payload();
                self.tell(|w| w.authentication(&payload));
            }
            LoginStep::Judge(password) => self.have_judged(password),
            LoginStep::Derive(derivation) => self.ask_others(Verification::Keys(derivation)),
            LoginStep::Refuse(refused) => {
                if let Some(login) = self.client.login() {
                    self.lookups.forget_user(login.user());
                }
                let mut reason = refused.reason.to_string();
                if let (ClientAuthError::UnknownUser, Some(login)) = (&refused.reason, self.client.login()) {
                    reason = format!("{reason}: {}", login.user());
                }
                self.log_failed_login(&reason);
                return Next::Reject(Rejection::not_authenticated(&refused));
            }
            LoginStep::LookUp => return Next::GetServer,
            LoginStep::Accept(learned) => return Next::Admit(learned),
            LoginStep::Reject(why) => return Next::Reject(why),
            LoginStep::Leave => return Next::Close("client close request"),
        }
        Next::Nothing
    }
}
