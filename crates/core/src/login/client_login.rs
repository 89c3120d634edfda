//! A client's login, message by message.
//!
//! ```text
//!  ┌──── HBA line for a role ──> AskingRoles ──> (New again)
//! New ── secret known ────────────────────────> Answering <─┐ next question
//!  ├──── secret unknown ──> LookingUp ────────>   │ │    ───┘
//!  └──── peer ──> SystemUser ──> (one of these)   │ └──> Judging (LDAP, PAM) ──┐
//!                                                 ├─>  Over, Proven ──> Trial ──> (the client's session begins)
//!                                                                        a server's settings are needed, or
//!                                                                        its answer about startup parameters
//! ```
//!
//! A [`Login`] knows no connection, no pool and no limit. It returns a [`LoginStep`], which says what must be done
//! next. The caller does that and returns with the outcome.

use crate::base::address::Address;
use crate::base::time::Time;
use crate::base::verification::Verification;
use crate::login::backend_start;
use crate::login::client_login::looking_up::Lookup;
use crate::login::login_step::{Destination, LoginStep, SecretSource, ServerUse};
use crate::login::membership::{Membership, RoleQuestion};
use crate::login::method::Judge;
use crate::login::rejection::Rejection;
use crate::login::startup::Wishes;
use crate::login::trial::Trial;
use pgweir_auth::{ClientAuth, ClientStep, Derivation, Password, ScramKeyCache, ScramKeys, Secret};
use pgweir_wire::{HEADER_BYTES, Header, ProtocolVersion};

mod looking_up;

/// The longest message of a client that is not authenticated, bytes; passwords of 65,530 bytes must fit.
pub(crate) const LOGIN_MESSAGE_BYTES_MAX: u32 = 66_000;

/// The state of a login.
#[derive(pgweir_freeze::Freeze)]
enum Stage {
    /// The client has named its user and database.
    New,
    /// The client has been asked a question; its next message is the answer.
    Answering(Box<ClientAuth>),
    /// The driver looks up the name of the client's system user. This map, if given, says whether that user may be the
    /// database user.
    SystemUser(Option<Box<str>>),
    /// PAM or a directory checks the client's password.
    Judging(Box<ClientAuth>),
    /// A server says whether the user is a member of these roles.
    AskingRoles(RoleQuestion),
    /// auth_query is looking up the user's secret; this is what it has found so far.
    LookingUp(Box<ClientAuth>, Lookup),
    /// The client is authenticated.
    Proven,
    /// A server must answer before the client can be welcomed.
    Trial(Trial),
    /// The client is being closed.
    Over,
}

#[derive(pgweir_freeze::Freeze)]
pub(crate) struct Login {
    wishes: Wishes,
    version: ProtocolVersion,
    stage: Stage,
    /// What is known of the user's roles.
    membership: Membership,
    /// The secret from auth_query, which may also serve to log in to servers.
    found: Option<Secret>,
    /// When what it proves was known to be right: when its secret was looked up, or its password checked.
    known_as_of: Time,
    /// Who checks passwords of methods `ldap` and `pam`.
    judge: Option<Judge>,
    /// AuthenticationSASLFinal, to be sent before AuthenticationOk.
    closing: Option<Vec<u8>>,
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
            stage: Stage::New,
            membership: Membership::default(),
            found: None,
            known_as_of: Time(0),
            judge: None,
            closing: None,
        }
    }

    /// Whether the client's next message may be read.
    pub(crate) fn reads(&self) -> bool {
        matches!(self.stage, Stage::Answering(_))
    }

    /// Whether auth_user's server must answer first, about its roles or its secret.
    pub(crate) fn awaits_auth_query(&self) -> bool {
        matches!(self.stage, Stage::AskingRoles(_) | Stage::LookingUp(..))
    }

    pub(crate) fn user(&self) -> &str {
        &self.wishes.user
    }

    pub(crate) fn database(&self) -> &str {
        &self.wishes.database
    }

    /// What the startup packet asks for.
    pub(crate) fn wishes(&self) -> &Wishes {
        &self.wishes
    }

    /// Passwords of the client are checked by this judge.
    pub(crate) fn is_judged_by(&mut self, judge: Option<Judge>) {
        self.judge = judge;
    }

    /// The question about a password of the client, if somebody else checks it.
    pub(crate) fn question_about(&self, peer: Address, password: Password) -> Option<Verification> {
        let judge = self.judge.as_ref()?;
        Some(judge.question(&self.wishes.user, peer, password))
    }

    /// A setting of the startup packet.
    pub(crate) fn setting(&self, name: &str) -> Option<&str> {
        let mut settings = self.wishes.settings.iter().rev();
        let found = settings.find(|(n, _)| n.eq_ignore_ascii_case(name));
        found.map(|(_, value)| &**value)
    }

    /// The pool that the client asks for. Removes from the login the settings with which the servers must be started.
    pub(crate) fn destination(&mut self) -> Destination {
        let start = match self.wishes.kind.is_replication() {
            true => backend_start::take_all(&mut self.wishes.settings),
            false => backend_start::take_from(&mut self.wishes.settings),
        };
        Destination {
            database: self.wishes.database.clone(),
            user: self.wishes.user.clone(),
            kind: self.wishes.kind,
            start,
        }
    }

    /// Returns the message that must be sent before AuthenticationOk.
    pub(crate) fn take_closing(&mut self) -> Option<Vec<u8>> {
        self.closing.take()
    }

    /// When what the client proves was known to be right.
    pub(crate) fn known_as_of(&self) -> Time {
        self.known_as_of
    }

    /// Its secret is looked up now, or the judge's answer has come.
    pub(crate) fn is_known_as_of(&mut self, now: Time) {
        self.known_as_of = now;
    }

    /// The secret from auth_query.
    pub(crate) fn found(&self) -> Option<&Secret> {
        self.found.as_ref()
    }

    pub(crate) fn begin(&mut self, auth: ClientAuth, secret: SecretSource) -> LoginStep {
        let auth = Box::new(auth);
        match secret {
            SecretSource::Known(secret) => self.secret_known(auth, secret),
            SecretSource::Kept(kept) => {
                self.known_as_of = kept.as_of();
                self.found = Some(kept.secret().clone());
                self.secret_known(auth, self.found.clone())
            }
            SecretSource::AuthQuery => {
                self.stage = Stage::LookingUp(auth, Lookup::Nothing);
                LoginStep::LookUp
            }
        }
    }

    /// The driver has been asked for the client's system user.
    pub(crate) fn await_system_user(&mut self, map: Option<Box<str>>) {
        self.stage = Stage::SystemUser(map);
    }

    /// Whether the driver's answer about the client's system user is awaited.
    pub(crate) fn awaits_system_user(&self) -> bool {
        matches!(self.stage, Stage::SystemUser(_))
    }

    /// The password that PAM or a directory is checking.
    pub(crate) fn password_being_judged(&self) -> Option<Password> {
        match &self.stage {
            Stage::Judging(auth) => auth.password_being_judged().cloned(),
            _ => None,
        }
    }

    /// The system user is known. Returns the ident map in which it must be looked up, if there is one. The outer
    /// `None`: no system user was asked for.
    pub(crate) fn system_user_known(&mut self) -> Option<Option<Box<str>>> {
        match std::mem::replace(&mut self.stage, Stage::New) {
            Stage::SystemUser(map) => Some(map),
            other => {
                self.stage = other;
                None
            }
        }
    }

    /// The keys that the driver is deriving.
    pub(crate) fn keys_being_derived(&self) -> Option<Derivation> {
        match &self.stage {
            Stage::Judging(auth) => auth.keys_being_derived(),
            _ => None,
        }
    }

    pub(crate) fn keys_derived(&mut self, derived: ScramKeys, keys: &mut ScramKeyCache) -> Option<LoginStep> {
        self.goes_on(|auth| auth.handle_keys(derived, keys))
    }

    /// PAM or a directory has checked the client's password.
    pub(crate) fn password_judged(&mut self, verdict: Result<(), String>) -> Option<LoginStep> {
        self.goes_on(|auth| auth.handle_verdict(verdict))
    }

    /// The awaited answer has come.
    fn goes_on(&mut self, with: impl FnOnce(&mut ClientAuth) -> ClientStep) -> Option<LoginStep> {
        match std::mem::replace(&mut self.stage, Stage::Over) {
            Stage::Judging(mut auth) => {
                let step = with(&mut auth);
                Some(self.judged(auth, step))
            }
            other => {
                self.stage = other;
                None
            }
        }
    }

    fn secret_known(&mut self, mut auth: Box<ClientAuth>, secret: Option<Secret>) -> LoginStep {
        let step = auth.handle_secret(secret);
        self.judged(auth, step)
    }

    fn judged(&mut self, auth: Box<ClientAuth>, step: ClientStep) -> LoginStep {
        match step {
            ClientStep::Ask(request) => {
                self.stage = Stage::Answering(auth);
                LoginStep::Ask(request)
            }
            ClientStep::Judge(password) => {
                self.stage = Stage::Judging(auth);
                LoginStep::Judge(password)
            }
            ClientStep::Derive(derivation) => {
                self.stage = Stage::Judging(auth);
                LoginStep::Derive(derivation)
            }
            ClientStep::Refused(refused) => {
                self.stage = Stage::Over;
                LoginStep::Refuse(refused)
            }
            ClientStep::Accepted(accepted) => {
                self.stage = Stage::Proven;
                self.closing = accepted.closing.map(|request| request.payload());
                LoginStep::Accept(accepted.learned)
            }
        }
    }

    /// Handles the next message of the client, if it has arrived. Returns the number of its bytes, too.
    pub(crate) fn handle_bytes(&mut self, input: &[u8], keys: &mut ScramKeyCache) -> (usize, LoginStep) {
        let Stage::Answering(_) = &self.stage else {
            return (0, LoginStep::Wait);
        };
        let bytes = match password_message(input) {
            Ok(Some(bytes)) => bytes,
            Ok(None) => return (0, LoginStep::Wait),
            Err(step) => return (input.len(), step),
        };
        let Stage::Answering(mut auth) = std::mem::replace(&mut self.stage, Stage::Over) else {
            unreachable!("looked at above");
        };
        let step = auth.handle_message(&input[HEADER_BYTES..bytes], keys);
        (bytes, self.judged(auth, step))
    }

    /// A server must answer before the client can be welcomed.
    pub(crate) fn begin_trial(&mut self, trial: Trial) {
        self.stage = Stage::Trial(trial);
    }

    /// What a server must answer.
    pub(crate) fn trial(&self) -> Option<&Trial> {
        match &self.stage {
            Stage::Trial(trial) => Some(trial),
            _ => None,
        }
    }

    pub(crate) fn trial_mut(&mut self) -> Option<&mut Trial> {
        match &mut self.stage {
            Stage::Trial(trial) => Some(trial),
            _ => None,
        }
    }

    /// What the login does with a server that it has been given.
    pub(crate) fn server_use(&self) -> ServerUse<'_> {
        match &self.stage {
            Stage::AskingRoles(question) => ServerUse::AskRoles {
                user: &self.wishes.user,
                roles: question.roles(),
            },
            Stage::LookingUp(..) => ServerUse::AskSecret {
                user: &self.wishes.user,
                database: &self.wishes.database,
            },
            Stage::Trial(trial) if !trial.waits_for_welcome() => ServerUse::TryValues,
            _ => ServerUse::Nothing,
        }
    }
}

/// Length of the client's next message, which must be of the kind for passwords; `None` if it has not arrived
/// completely.
fn password_message(input: &[u8]) -> Result<Option<usize>, LoginStep> {
    let Some(first) = input.first_chunk::<HEADER_BYTES>() else {
        return Ok(None);
    };
    let header = match Header::read(first) {
        Ok(Some(header)) => header,
        Ok(None) => return Ok(None),
        Err(error) => return Err(LoginStep::Reject(Rejection::bad_header(first, error.to_string()))),
    };
    if header.tag == b'X' {
        return Err(LoginStep::Leave);
    }
    if header.tag != b'p' || header.message_bytes > LOGIN_MESSAGE_BYTES_MAX {
        return Err(LoginStep::Reject(Rejection::no_answer(*first)));
    }
    let bytes = header.message_bytes as usize;
    Ok((bytes <= input.len()).then_some(bytes))
}

#[cfg(test)]
#[path = "client_login_tests.rs"]
mod tests;
