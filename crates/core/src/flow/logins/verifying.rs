//! The choice of a client's authentication method, and questions to others about the client.

use crate::base::ids::ClientId;
use crate::base::request::{LogLevel, Request};
use crate::base::time::Time;
use crate::base::verification::{Verification, Verified};
use crate::login::client_login::LoginStep;
use crate::login::method::{self, Way};
use crate::login::rejection::Rejection;
use crate::pooler::Pooler;
use pgweir_auth::{ClientAuthMethod, Password, ScramKeys};

/// The reason for which the log names the user.
const NO_SUCH_USER: &str = "no such user";

impl Pooler {
    /// By `auth_type`, or by the first rule of `auth_hba_file` that fits.
    pub(crate) fn choose_way(&mut self, now: Time, id: ClientId) {
        let config = self.shared.config.clone();
        let Some(client) = self.clients.get(id.0) else { return };
        let Some(login) = client.login() else { return };
        let way = method::way(&config, &client.accepted, client.encryption(), &login.wishes);
        match way {
            Way::Exchange(method, judge) => {
                if let Some(login) = self.login_mut(id) {
                    login.judge = judge;
                }
                self.begin_exchange(now, id, method);
            }
            Way::BeSystemUser { uid, map } => {
                if let Some(login) = self.login_mut(id) {
                    login.await_system_user(map);
                }
                self.ask_others(id, Verification::SystemUser { uid });
            }
            Way::Refused(why, log) => {
                self.log_failed_login(id, &log);
                self.reject(now, id, &why);
            }
        }
    }

    /// Asks the login's judge (PAM or LDAP) about the client's password.
    pub(crate) fn have_judged(&mut self, id: ClientId, password: Password) {
        let client = self.client_mut(id);
        let peer = client.accepted.peer;
        let Some(login) = client.login_mut() else { return };
        let user = login.user().to_string();
        if let Some(judge) = &login.judge {
            let question = judge.question(&user, peer, password);
            self.ask_others(id, question);
        }
    }

    /// Another process has asked about this client, and has got the answer: asks again.
    pub(crate) fn ask_others_again(&mut self, id: ClientId) {
        let Some(client) = self.clients.get(id.0) else { return };
        let Some(login) = client.login() else { return };
        if let Some(password) = login.password_being_judged() {
            self.have_judged(id, password);
        } else if let Some(derivation) = login.keys_being_derived() {
            self.ask_others(id, Verification::Keys(derivation));
        } else if let (true, Some(uid)) = (login.awaits_system_user(), client.accepted.peer_uid) {
            self.ask_others(id, Verification::SystemUser { uid });
        }
    }

    pub(crate) fn ask_others(&mut self, client: ClientId, question: Verification) {
        let question = Box::new(question);
        self.shared.requests.push_back(Request::Verify { client, question });
    }

    /// The answer about a client has come. The client may have disconnected.
    pub(crate) fn verified(&mut self, now: Time, id: ClientId, answer: Verified) {
        let Some(login) = self.login_mut(id) else { return };
        match answer {
            Verified::SystemUser(name) => {
                if let Some(map) = login.system_user_known() {
                    self.system_user_known(now, id, map.as_deref(), name.as_deref());
                }
            }
            Verified::Right => self.password_judged(now, id, Ok(())),
            Verified::Keys(derived) => self.keys_derived(now, id, derived),
            Verified::Wrong(why) => self.password_judged(now, id, Err(why)),
        }
    }

    fn system_user_known(&mut self, now: Time, id: ClientId, map: Option<&str>, name: Option<&str>) {
        let Some(login) = self.login_mut(id) else { return };
        let user = login.user().to_string();
        let ident = &self.shared.config.login_rules.ident;
        match name {
            Some(name) if ident.allows(map, name, &user) => self.begin_exchange(now, id, ClientAuthMethod::Peer),
            _ => {
                let name = name.unwrap_or("(none)").escape_default();
                self.log_failed_login(id, &format!("system user \"{name}\" may not log in as \"{user}\""));
                self.reject(now, id, &Rejection::not_peer());
            }
        }
        self.shared.requests.push_back(Request::Resume(id.into()));
    }

    fn password_judged(&mut self, now: Time, id: ClientId, verdict: Result<(), String>) {
        let step = self.login_mut(id).and_then(|login| login.password_judged(verdict));
        self.login_goes_on(now, id, step);
    }

    fn keys_derived(&mut self, now: Time, id: ClientId, derived: ScramKeys) {
        let login = self.clients.get_mut(id.0).and_then(|client| client.login_mut());
        let step = login.and_then(|login| login.keys_derived(derived, &mut self.scram_keys));
        self.login_goes_on(now, id, step);
    }

    fn login_goes_on(&mut self, now: Time, id: ClientId, step: Option<LoginStep>) {
        if let Some(step) = step {
            self.follow_login(now, id, step);
            self.shared.requests.push_back(Request::Resume(id.into()));
        }
    }

    /// Logs the reason for the operator; the client is told less.
    pub(crate) fn log_failed_login(&mut self, id: ClientId, reason: &str) {
        if let Some(client) = self.clients.get(id.0) {
            let mut text = format!("{} login failed: {reason}", client.label(id, &self.pools));
            if let (NO_SUCH_USER, Some(login)) = (reason, client.login()) {
                text += &format!(": {}", login.wishes.user);
            }
            self.log(LogLevel::Log, text);
        }
    }
}
