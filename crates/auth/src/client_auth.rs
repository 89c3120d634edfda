//! Authentication of a client by the pooler.

mod cleartext;
mod scram;

use std::fmt;
use std::sync::Arc;

use crate::auth_request::AuthRequest;
use crate::client_auth_method::ClientAuthMethod;
use crate::client_proof::judge_md5;
use crate::client_step::{Accepted, ClientStep, Learned, Refused};
use crate::error::ClientAuthError;
use crate::md5::{MD5_SALT_BYTES, MD5_SECRET_BYTES, Md5Secret};
use crate::mock::{MockKey, MockSecret};
use crate::password_message::parse_password;
use crate::scram::{NONCE_RAW_BYTES, ScramKeyCache, ScramVerifier};
use crate::secret::{Password, Secret};
use scram::{ScramKeysAwaited, ScramProof, ScramSide};

/// The random bytes of one exchange. They must be drawn anew for each, from a source that nobody can predict.
#[derive(Clone, Copy, pgweir_freeze::Freeze)]
pub struct ClientAuthNonces {
    /// Salt of an MD5 challenge.
    pub md5_salt: [u8; MD5_SALT_BYTES],
    /// The server's half of the SCRAM nonce.
    pub scram: [u8; NONCE_RAW_BYTES],
}

/// The rules that all exchanges share.
#[derive(Debug, Clone, Copy, pgweir_freeze::Freeze)]
pub struct ClientAuthRules {
    /// The source of mock secrets.
    pub mock_key: MockKey,
    /// The kind of mock secrets.
    pub mock_secret: MockSecret,
    /// The iteration count for plain-text secrets, and for strangers if no user has a verifier: setting `scram_iterations`.
    pub scram_iterations: u32,
    /// Some users may have a plain-text secret. Then every SCRAM exchange that fails takes as long as if the keys of
    /// such a secret were derived for it.
    pub plain_secrets: bool,
}

/// One client's exchange, from the first challenge to the verdict.
///
/// ```text
/// new -> AwaitSecret --handle_secret--> Ask(cleartext)     --handle_message--> Accepted | Refused
///                                    -> Ask(MD5)           --handle_message--> Accepted | Refused
///                                    -> Ask(SASL)          --handle_message--> Ask(SASLContinue) ...
///                                    -> Ask(cleartext)     --handle_message--> Judge --handle_verdict--> Accepted | Refused
///                                    -> Accepted | Refused
/// ```
///
/// If a user does not exist, has no password, or has a secret that cannot be used for the method, the conversation is
/// the same, with a mock secret, and ends with a refusal. Malformed messages are found before the secret is used, so
/// they reveal nothing either.
#[derive(pgweir_freeze::Freeze)]
pub struct ClientAuth {
    method: ClientAuthMethod,
    user: Vec<u8>,
    nonces: ClientAuthNonces,
    rules: ClientAuthRules,
    /// Hash of the certificate that the client has seen, if channel binding is offered.
    end_point: Option<Arc<[u8]>>,
    state: State,
}

/// The state of an exchange. A doom is the reason for which the exchange will fail, whatever the client answers.
#[derive(pgweir_freeze::Freeze)]
enum State {
    AwaitSecret,
    AwaitCleartext {
        secret: Secret,
        doom: Option<ClientAuthError>,
    },
    /// The client has been asked for a password that the caller will check.
    AwaitPassword,
    AwaitVerdict {
        password: Password,
    },
    /// The client has sent its password. The caller derives the keys, which are then compared with the verifier.
    AwaitKeys {
        password: Password,
        verifier: ScramVerifier,
        doom: Option<ClientAuthError>,
    },
    AwaitMd5 {
        expected: [u8; MD5_SECRET_BYTES],
        doom: Option<ClientAuthError>,
    },
    AwaitSaslInitial {
        side: ScramSide,
    },
    /// The client has chosen its mechanism without sending the first SCRAM message, and has been asked for it.
    AwaitScramFirst {
        side: ScramSide,
    },
    AwaitScramFinal(ScramProof),
    /// The client has sent its proof, and the caller derives keys.
    AwaitScramKeys(ScramKeysAwaited),
    Finished,
}

const TOLD_PASSWORD: &str = "password authentication failed";

/// The text for a client that has sent an empty password in clear text; it is the same for every user.
const TOLD_EMPTY: &str = "empty password returned by client";
/// The text for a client that has chosen a mechanism of SASL that was not offered.
const TOLD_MECHANISM: &str = "client selected an invalid SASL authentication mechanism";
const TOLD_SASL: &str = "SASL authentication failed";

impl ClientAuth {
    /// An exchange that waits for the user's secret. Call [`ClientAuth::handle_secret`] next, as soon as the secret is
    /// known.
    pub fn new(method: ClientAuthMethod, user: &[u8], nonces: ClientAuthNonces, rules: ClientAuthRules) -> Self {
        Self {
            method,
            user: user.to_vec(),
            nonces,
            rules,
            end_point: None,
            state: State::AwaitSecret,
        }
    }

    /// Offers SCRAM-SHA-256-PLUS too: the client is connected by TLS, and `end_point` is the `tls-server-end-point`
    /// (RFC 5929) of the certificate that it was shown.
    pub fn offer_channel_binding(mut self, end_point: Arc<[u8]>) -> Self {
        self.end_point = Some(end_point);
        self
    }

    /// Whether the exchange still waits for the secret. Until then the client's messages must wait too.
    pub fn needs_secret(&self) -> bool {
        matches!(self.state, State::AwaitSecret)
    }

    /// Gives the user's secret: `None` for a user who does not exist, an empty plain text for a user without a
    /// password. Call it once; later calls are errors.
    pub fn handle_secret(&mut self, secret: Option<Secret>) -> ClientStep {
        if !self.needs_secret() {
            return self.refuse(ClientAuthError::NotAsked, TOLD_PASSWORD);
        }
        match (self.method, secret) {
            (ClientAuthMethod::Any, _) => self.accept(None, Learned::Nothing),
            (ClientAuthMethod::Trust | ClientAuthMethod::Peer | ClientAuthMethod::Cert, secret) => match secret {
                Some(_) => self.accept(None, Learned::Nothing),
                None => self.refuse(ClientAuthError::UnknownUser, self.method.told()),
            },
            (ClientAuthMethod::Ldap | ClientAuthMethod::Pam, _) => {
                self.state = State::AwaitPassword;
                ClientStep::Ask(AuthRequest::CleartextPassword)
            }
            (_, None) => self.ask(self.mock_secret(), Some(ClientAuthError::UnknownUser)),
            (_, Some(Secret::Plain(password))) if password.is_empty() => {
                self.ask(self.mock_secret(), Some(ClientAuthError::NoPassword))
            }
            (_, Some(secret)) => self.ask(secret, None),
        }
    }

    /// Handles the payload of a message with tag `p`. With `keys`, users with a plain-text secret need no new
    /// derivation at each login.
    pub fn handle_message(&mut self, payload: &[u8], keys: &mut ScramKeyCache) -> ClientStep {
        match std::mem::replace(&mut self.state, State::Finished) {
            State::AwaitPassword => match parse_password(payload) {
                Ok(given) => {
                    let password = Password::from(given);
                    self.state = State::AwaitVerdict {
                        password: password.clone(),
                    };
                    ClientStep::Judge(password)
                }
                Err(ClientAuthError::EmptyPassword) => self.refuse(ClientAuthError::EmptyPassword, TOLD_EMPTY),
                Err(reason) => self.refuse(reason, self.method.told()),
            },
            State::AwaitSecret
            | State::AwaitVerdict { .. }
            | State::AwaitKeys { .. }
            | State::AwaitScramKeys(_)
            | State::Finished => self.refuse(ClientAuthError::NotAsked, TOLD_PASSWORD),
            State::AwaitCleartext { secret, doom } => match parse_password(payload) {
                Ok(given) => self.judge_cleartext(given, secret, doom, keys),
                Err(ClientAuthError::EmptyPassword) => self.refuse(ClientAuthError::EmptyPassword, TOLD_EMPTY),
                Err(reason) => self.refuse(reason, TOLD_PASSWORD),
            },
            State::AwaitMd5 { expected, doom } => match judge_md5(payload, &expected, doom) {
                Ok(()) => self.accept(None, Learned::Nothing),
                Err(ClientAuthError::EmptyPassword) => self.refuse(ClientAuthError::EmptyPassword, TOLD_EMPTY),
                Err(reason) => self.refuse(reason, TOLD_PASSWORD),
            },
            State::AwaitSaslInitial { side } => match self.choose_mechanism(payload, side) {
                Ok(request) => ClientStep::Ask(request),
                Err(reason @ ClientAuthError::MechanismNotOffered { .. }) => self.refuse(reason, TOLD_MECHANISM),
                Err(reason) => self.refuse(reason, TOLD_SASL),
            },
            State::AwaitScramFirst { side } => match self.begin_scram(payload, side) {
                Ok(request) => ClientStep::Ask(request),
                Err(reason) => self.refuse(reason, TOLD_SASL),
            },
            State::AwaitScramFinal(proof) => self.judge_proof(payload, proof, keys),
        }
    }

    /// The password that the caller is checking.
    pub fn password_being_judged(&self) -> Option<&Password> {
        match &self.state {
            State::AwaitVerdict { password } => Some(password),
            _ => None,
        }
    }

    /// The caller has checked the password of [`ClientStep::Judge`], or could not derive the keys of
    /// [`ClientStep::Derive`].
    pub fn handle_verdict(&mut self, verdict: Result<(), String>) -> ClientStep {
        match (std::mem::replace(&mut self.state, State::Finished), verdict) {
            (State::AwaitVerdict { password }, Ok(())) => self.accept(None, Learned::Password(password)),
            (State::AwaitVerdict { .. } | State::AwaitKeys { .. }, Err(why)) => {
                self.refuse(ClientAuthError::JudgedWrong { why }, self.method.told())
            }
            (State::AwaitScramKeys(_), Err(why)) => self.refuse(ClientAuthError::JudgedWrong { why }, TOLD_SASL),
            _ => self.refuse(ClientAuthError::NotAsked, self.method.told()),
        }
    }

    fn ask(&mut self, secret: Secret, doom: Option<ClientAuthError>) -> ClientStep {
        let (state, request) = match (self.method, &secret) {
            (ClientAuthMethod::Plain, _) => (State::AwaitCleartext { secret, doom }, AuthRequest::CleartextPassword),
            (ClientAuthMethod::Md5, Secret::Plain(password)) => {
                self.ask_md5(&Md5Secret::derive(password.as_bytes(), &self.user), doom)
            }
            (ClientAuthMethod::Md5, Secret::Md5(hash)) => self.ask_md5(hash, doom),
            (ClientAuthMethod::ScramSha256, Secret::Md5(_)) => {
                let cannot = ClientAuthError::SecretCannotServe {
                    method: self.method.name(),
                    have: secret.kind(),
                };
                self.ask_scram(Secret::Scram(self.mock_verifier()), Some(doom.unwrap_or(cannot)))
            }
            (_, Secret::Plain(_) | Secret::Scram(_)) => self.ask_scram(secret, doom),
            (_, Secret::Md5(_)) => unreachable!("handle_secret has answered methods that ask for no secret"),
        };
        self.state = state;
        ClientStep::Ask(request)
    }

    fn ask_md5(&self, hash: &Md5Secret, doom: Option<ClientAuthError>) -> (State, AuthRequest) {
        let salt = self.nonces.md5_salt;
        (
            State::AwaitMd5 {
                expected: hash.answer(salt),
                doom,
            },
            AuthRequest::Md5Password { salt },
        )
    }

    fn mock_secret(&self) -> Secret {
        match self.rules.mock_secret {
            MockSecret::Md5 => Secret::Md5(self.rules.mock_key.md5(&self.user)),
            MockSecret::Scram => Secret::Scram(self.mock_verifier()),
        }
    }

    fn mock_verifier(&self) -> ScramVerifier {
        let key = &self.rules.mock_key;
        let iterations = key.iterations(&self.user, self.method, self.rules.scram_iterations);
        key.verifier(&self.user, iterations)
    }

    fn accept(&mut self, closing: Option<AuthRequest>, learned: Learned) -> ClientStep {
        self.state = State::Finished;
        ClientStep::Accepted(Accepted { closing, learned })
    }

    fn refuse(&mut self, reason: ClientAuthError, told: &'static str) -> ClientStep {
        self.state = State::Finished;
        ClientStep::Refused(Refused { reason, told })
    }
}

/// Prints the name of the state, and no secret.
impl fmt::Debug for ClientAuth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match self.state {
            State::AwaitSecret => "AwaitSecret",
            State::AwaitCleartext { .. } => "AwaitCleartext",
            State::AwaitPassword => "AwaitPassword",
            State::AwaitVerdict { .. } => "AwaitVerdict",
            State::AwaitKeys { .. } => "AwaitKeys",
            State::AwaitMd5 { .. } => "AwaitMd5",
            State::AwaitSaslInitial { .. } => "AwaitSaslInitial",
            State::AwaitScramFirst { .. } => "AwaitScramFirst",
            State::AwaitScramFinal(_) => "AwaitScramFinal",
            State::AwaitScramKeys(_) => "AwaitScramKeys",
            State::Finished => "Finished",
        };
        let method = self.method.name();
        f.debug_struct("ClientAuth")
            .field("method", &method)
            .field("state", &state)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
#[path = "client_auth_tests.rs"]
mod tests;
