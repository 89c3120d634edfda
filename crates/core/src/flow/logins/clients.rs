//! Carries out the steps of a client's login, from the first packet to the end of authentication.

use crate::base::access::Access;
use crate::base::ids::ClientId;
use crate::base::request::{LogLevel, Request};
use crate::base::time::Time;
use crate::base::verification::Verification;
use crate::client::{Client, ClientPhase};
use crate::login::admission;
use crate::login::cancel_keys::KeyForm;
use crate::login::client_login::{Login, LoginStep, SecretSource};
use crate::login::lookups::NoLookup;
use crate::login::rejection::Rejection;
use crate::login::startup::{FirstPacket, Wishes, negotiation};
use crate::pooler::Pooler;
use pgweir_auth::{ClientAuth, ClientAuthMethod, ClientAuthNonces, ClientAuthRules, Secret};
use pgweir_config::CONSOLE_DATABASE;
use pgweir_wire::ProtocolVersion;
use rand_core::RngCore;

impl Pooler {
    /// A client has connected.
    pub(crate) fn arrived(&mut self, now: Time, id: ClientId) {
        let places = self.shared.settings.max_client_conn.saturating_sub(self.client_count);
        let clients = &self.clients;
        let is_arriving = |id: ClientId| clients.get(id.0).is_some_and(Client::is_arriving);
        if let Some(slowest) = self.arrivals.come(id, places, is_arriving) {
            self.reject(now, slowest, &Rejection::too_slow());
        }
    }

    /// Tells a client why it is refused.
    pub(crate) fn reject(&mut self, now: Time, id: ClientId, why: &Rejection) {
        self.fail_client(now, id, why.trouble, &why.message, &why.detail, why.hint);
    }

    pub(crate) fn login_mut(&mut self, id: ClientId) -> Option<&mut Login> {
        self.clients.get_mut(id.0)?.login_mut()
    }

    pub(crate) fn startup_bytes(&mut self, now: Time, id: ClientId, input: &[u8]) -> usize {
        match FirstPacket::read(input) {
            FirstPacket::NeedBytes => return 0,
            FirstPacket::Ssl(bytes) => {
                self.encryption_requested(now, id, true);
                return bytes;
            }
            FirstPacket::GssEncryption(bytes) => {
                self.encryption_requested(now, id, false);
                return bytes;
            }
            FirstPacket::DirectTls if self.offers_tls(id) => {
                let request = Request::SecureClient {
                    client: id,
                    direct: true,
                };
                self.shared.requests.push_back(request);
                return 0;
            }
            FirstPacket::DirectTls => self.close_client(now, id, "bad packet header"),
            FirstPacket::Cancel(key) => self.cancel_request(now, id, &key),
            FirstPacket::Startup {
                bytes,
                version,
                parameters,
            } => {
                self.startup(now, id, version, &parameters);
                if bytes < input.len() {
                    self.shared.requests.push_back(Request::Resume(id.into()));
                }
                return bytes;
            }
            FirstPacket::Rejected(why) => self.reject(now, id, &why),
            FirstPacket::Foreign => self.close_client(now, id, "bad packet header"),
        }
        input.len()
    }

    fn startup(&mut self, now: Time, id: ClientId, version: ProtocolVersion, parameters: &[(&[u8], &[u8])]) {
        if let Some((newest, unknown)) = negotiation(version, parameters) {
            self.send(id, |w| w.negotiate_protocol_version(newest, &unknown));
        }
        let client = self.client_mut(id);
        client.key_form = if version >= ProtocolVersion::V3_2 {
            KeyForm::Long
        } else {
            KeyForm::Short
        };
        let peer = client.accepted.peer;
        let tls = client.tls.as_ref().map_or("no".to_string(), |tls| tls.to_string());
        if self.must_use_tls(id) {
            return self.reject(now, id, &Rejection::needs_tls());
        }
        let wishes = match Wishes::read(parameters, &self.shared.settings, peer) {
            Ok(wishes) => wishes,
            Err(why) => return self.reject(now, id, &why),
        };
        if self.shared.settings.log_connections {
            let (database, user, replication) = (&wishes.database, &wishes.user, wishes.replication_word());
            let text = format!(
                "{id}: {database}/{user}@{peer} login attempt: db={database} user={user} tls={tls} replication={replication}"
            );
            self.log(LogLevel::Log, text);
        }
        if let Some(why) = self.refuses_at_once(&wishes) {
            return self.reject(now, id, &why);
        }
        let login = Login::new(wishes, version);
        self.client_mut(id).phase = ClientPhase::Login(Box::new(login));
        self.begin_authentication(now, id);
    }

    /// Administrators can log in to the console even when all places are taken or the pooler is shutting down.
    fn refuses_at_once(&self, wishes: &Wishes) -> Option<Rejection> {
        let max_client_conn = self.shared.settings.max_client_conn;
        if wishes.database == CONSOLE_DATABASE {
            None
        } else if self.admin.refuses_logins() {
            Some(Rejection::shutting_down())
        } else {
            (self.client_count >= max_client_conn).then(|| Rejection::no_place(max_client_conn))
        }
    }

    fn begin_authentication(&mut self, now: Time, id: ClientId) {
        let own_uid = self.surroundings.own_uid;
        let client = self.client_mut(id);
        let accepted = client.accepted;
        let Some(login) = client.login_mut() else { return };
        if admission::is_own_user(&login.wishes, &accepted, own_uid) {
            let user = login.user().to_string();
            return self.open_console(now, id, &user, Access::Admin);
        }
        self.choose_way(now, id);
    }

    /// Begins the client's authentication by this method.
    pub(crate) fn begin_exchange(&mut self, now: Time, id: ClientId, method: ClientAuthMethod) {
        let mut nonces = ClientAuthNonces {
            md5_salt: [0; 4],
            scram: [0; 18],
        };
        self.random.fill_bytes(&mut nonces.md5_salt);
        self.random.fill_bytes(&mut nonces.scram);
        let Some(login) = self.login_mut(id) else { return };
        let (user, database) = (login.user().to_string(), login.database().to_string());
        let source = match self.source_of_secret(now, id, &database, &user, method) {
            Ok(source) => source,
            Err(why) => return self.reject(now, id, &why),
        };
        let by_query = matches!(source, SecretSource::AuthQuery);
        let config = &self.shared.config;
        let rules = ClientAuthRules {
            mock_key: self.mock_key,
            mock_secret: self.lookups.mock_secret(config, &self.mock_key, &user, by_query),
            scram_iterations: config.global.scram_iterations,
        };
        let mut auth = ClientAuth::new(method, user.as_bytes(), nonces, rules);
        if let Some(end_point) = self.client_mut(id).tls.as_ref().and_then(|tls| tls.end_point.clone()) {
            auth = auth.offer_channel_binding(end_point);
        }
        if let Some(login) = self.login_mut(id) {
            let step = login.begin(auth, source);
            self.follow_login(now, id, step);
        }
    }

    /// Where a user's secret comes from. While auth_query runs, the client belongs to its pool.
    fn source_of_secret(
        &mut self,
        now: Time,
        id: ClientId,
        database: &str,
        user: &str,
        method: ClientAuthMethod,
    ) -> Result<SecretSource, Rejection> {
        let config = &self.shared.config;
        if let Some(secret) = config.auth_users.get(user) {
            return Ok(SecretSource::Known(Secret::parse(secret.text().as_bytes()).ok()));
        }
        if method.needs_no_user() {
            return Ok(SecretSource::Known(None));
        }
        match self.auth_query_pool(now, database, user) {
            Ok(pool) => {
                self.client_mut(id).pool = Some(pool);
                Ok(SecretSource::AuthQuery)
            }
            Err(NoLookup::Nowhere) => Ok(SecretSource::Known(None)),
            Err(NoLookup::Misconfigured(fault)) => {
                self.log_bad_auth_database(id, database, fault);
                Ok(SecretSource::Known(None))
            }
            Err(NoLookup::TooManyDatabases) => Err(Rejection::too_many_unknown_databases()),
        }
    }

    pub(crate) fn login_bytes(&mut self, now: Time, id: ClientId, input: &[u8]) -> usize {
        let mut at = 0;
        while let Some(login) = self.clients.get_mut(id.0).and_then(|c| c.login_mut()) {
            let (bytes, step) = login.handle_bytes(&input[at..], &mut self.scram_keys);
            at += bytes;
            let waits = step == LoginStep::Wait;
            self.follow_login(now, id, step);
            if waits {
                return at;
            }
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

    /// Carries out a step of a login.
    pub(crate) fn follow_login(&mut self, now: Time, id: ClientId, step: LoginStep) {
        match step {
            LoginStep::Wait => {}
            LoginStep::Ask(request) => {
                let payload = request.payload();
                self.send(id, |w| w.authentication(&payload));
            }
            LoginStep::LookUp => drop(self.acquire(now, id)),
            LoginStep::Judge(password) => self.have_judged(id, password),
            LoginStep::Derive(derivation) => self.ask_others(id, Verification::Keys(derivation)),
            LoginStep::Accept(learned) => self.admit(now, id, learned),
            LoginStep::Refuse(refused) => {
                self.log_failed_login(id, &refused.reason.to_string());
                self.reject(now, id, &Rejection::not_authenticated(&refused));
            }
            LoginStep::Reject(why) => self.reject(now, id, &why),
            LoginStep::Leave => self.close_client(now, id, "client close request"),
        }
    }
}
