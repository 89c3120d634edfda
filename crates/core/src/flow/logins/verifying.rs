//! The choice of a client's authentication method, and questions to others about the client.

use crate::base::ids::ClientId;
use crate::base::request::Request;
use crate::base::time::Time;
use crate::base::verification::{Verification, Verified};
use crate::flow::logins::arrival::{Arrival, Next};
use crate::login::admission;
use crate::login::client_login::Login;
use crate::login::login_step::LoginStep;
use crate::login::method::{self, Way};
use crate::login::rejection::Rejection;
use crate::pooler::Pooler;
use pgweir_auth::{ClientAuthMethod, Password};
use pgweir_config::AuthType;
use pgweir_config::hba::Machine;
use std::sync::Arc;

impl Pooler {
    /// Whether the rules for logins depend on the addresses of this machine.
    pub fn asks_for_machine(&self) -> bool {
        let config = &self.shared.config;
        let rules = config.login_rules.hba.as_ref();
        config.global.auth_type == AuthType::Hba && rules.is_some_and(|rules| rules.ask_for_machine())
    }

    /// This machine has these addresses now.
    pub fn handle_machine(&mut self, machine: Machine) {
        if self.shared.config.login_rules.machine != machine {
            Arc::make_mut(&mut self.shared.config).login_rules.machine = machine;
        }
    }

    /// The answer about a client has come. The client may have disconnected.
    pub(crate) fn verified(&mut self, now: Time, id: ClientId, answer: Verified) {
        let next = self.arrival(id).and_then(|mut arrival| arrival.verified(now, answer));
        self.login_resumes(now, id, next);
    }

    /// Another process has asked about this client, and has got the answer: asks again.
    pub(crate) fn ask_others_again(&mut self, id: ClientId) {
        if let Some(mut arrival) = self.arrival(id) {
            arrival.ask_others_again();
        }
    }
}

impl Arrival<'_> {
    /// Chooses the method: by `auth_type`, or by the first rule of `auth_hba_file` that fits.
    pub(super) fn choose_way(&mut self) -> Next {
        let Some(login) = self.client.login() else {
            return Next::Nothing;
        };
        let (accepted, encryption) = (&self.client.accepted, self.client.encryption());
        let (wishes, membership) = (login.wishes(), login.membership());
        let way = method::way(&self.shared.config, accepted, encryption, wishes, membership);
        match (way, self.client.login_mut()) {
            (Way::Exchange(method, judge), Some(login)) => {
                login.is_judged_by(judge);
                Next::Authenticate(method)
            }
            (Way::BeSystemUser { uid, map }, Some(login)) => {
                login.await_system_user(map);
                self.ask_others(Verification::SystemUser { uid });
                Next::Nothing
            }
            (Way::AskRoles(roles), _) => Next::AskRoles(roles),
            (Way::Refused(why, log), _) => {
                self.log_failed_login(&log);
                Next::Reject(why)
            }
            (_, None) => Next::Nothing,
        }
    }

    /// Asks the login's judge (PAM or LDAP) about the client's password.
    pub(super) fn have_judged(&mut self, password: Password) {
        let Some(login) = self.client.login() else { return };
        if let Some(question) = login.question_about(self.client.accepted.peer, password) {
            self.ask_others(question);
        }
    }

    fn ask_others_again(&mut self) {
        let Some(login) = self.client.login() else { return };
        if let Some(password) = login.password_being_judged() {
            self.have_judged(password);
        } else if let Some(derivation) = login.keys_being_derived() {
            self.ask_others(Verification::Keys(derivation));
        } else if let (true, Some(uid)) = (login.awaits_system_user(), self.client.accepted.peer_uid) {
            self.ask_others(Verification::SystemUser { uid });
        }
    }

    pub(super) fn ask_others(&mut self, question: Verification) {
        let (asker, question) = (self.id.into(), Box::new(question));
        self.shared.requests.push_back(Request::Verify { asker, question });
    }

    /// `None` if nobody waits for this answer.
    fn verified(&mut self, now: Time, answer: Verified) -> Option<Next> {
        let login: &mut Login = self.client.login_mut()?;
        let step: LoginStep = match answer {
            Verified::SystemUser(name) => {
                let map = login.system_user_known()?;
                return Some(self.system_user_known(map.as_deref(), name.as_deref()));
            }
            Verified::Right => {
                login.is_known_as_of(now);
                let is_too_long = admission::is_too_long_user(&self.shared.config, login.database(), login.user());
                login.password_judged(match login.membership().is_in_vain() {
                    true => Err("the database does not exist".into()),
                    false if is_too_long => Err("the name of the user is longer than 63 bytes".into()),
                    false => Ok(()),
                })?
            }
            Verified::Wrong(why) => login.password_judged(Err(why))?,
            Verified::Keys(derived) => login.keys_derived(derived, self.scram_keys)?,
        };
        Some(self.follow(step))
    }

    fn system_user_known(&mut self, map: Option<&str>, name: Option<&str>) -> Next {
        let Some(login) = self.client.login() else {
            return Next::Nothing;
        };
        let ident = &self.shared.config.login_rules.ident;
        match name {
            Some(name) if ident.allows(map, name, login.user()) => Next::Authenticate(ClientAuthMethod::Peer),
            _ => {
                let name = name.unwrap_or("(none)").escape_default();
                let user = login.user();
                let why = match map {
                    // PgBouncer's words.
                    Some(map) => format!(
                        "ident map {map} cannot be matched: system user \"{name}\" may not log in as \"{user}\""
                    ),
                    None => format!("system user \"{name}\" may not log in as \"{user}\""),
                };
                self.log_failed_login(&why);
                Next::Reject(Rejection::not_peer())
            }
        }
    }
}
