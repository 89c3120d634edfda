//! Authentication of the pooler at a server.

use std::fmt;
use std::sync::Arc;

use crate::auth_request::AuthRequest;
use crate::error::{AskedMethod, ServerAuthError, shown};
use crate::md5::Md5Secret;
use crate::password_message::{SaslInitialResponse, password_payload};
use crate::scram::client::{AwaitServerFinal, AwaitServerFirst, Challenge};
use crate::scram::messages::Gs2;
use crate::scram::{
    Derivation, ITERATIONS_AT_ONCE_MAX, NONCE_RAW_BYTES, SCRAM_SHA_256, SCRAM_SHA_256_PLUS, ScramKeyCache, ScramKeys,
    nonce_text,
};
use crate::secret::{Password, Secret};

/// The secret that the pooler can log in with.
#[derive(Debug, Clone, PartialEq, Eq, pgweir_freeze::Freeze)]
pub enum Credential {
    /// Nothing: the server must not ask (`trust`, `peer`, `cert`).
    Nothing,
    /// The password: for every method.
    Password(Password),
    /// The hash for this user name: only for MD5.
    Md5(Md5Secret),
    /// Keys from a client's SCRAM proof: only for SCRAM, if the server has the same verifier.
    ScramKeys(ScramKeys),
}

impl Credential {
    /// The credential that a stored secret gives by itself. A verifier alone cannot log in: the client's proof is
    /// needed, see [`Learned::ScramKeys`](crate::Learned::ScramKeys).
    pub fn from_secret(secret: &Secret) -> Self {
        match secret {
            Secret::Plain(password) if !password.is_empty() => Self::Password(password.clone()),
            Secret::Md5(hash) => Self::Md5(hash.clone()),
            Secret::Plain(_) | Secret::Scram(_) => Self::Nothing,
        }
    }

    /// The kind, in words for a log line.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Nothing => "none",
            Self::Password(_) => "a plain text password",
            Self::Md5(_) => "an MD5 hash",
            Self::ScramKeys(_) => "SCRAM keys",
        }
    }
}

/// What the caller does next.
#[derive(Debug, PartialEq, Eq)]
pub enum ServerStep {
    /// Send these bytes as the payload of a message with tag `p`, and wait for the server's next Authentication
    /// message.
    Send(Vec<u8>),
    /// Derive these keys, and give them to [`ServerAuth::handle_keys`].
    Derive(Derivation),
    /// There is nothing to send; wait for the server's next message.
    Wait,
    /// AuthenticationOk: ParameterStatus, BackendKeyData and ReadyForQuery follow.
    Authenticated,
}

/// The pooler's login to one server, from the server's first Authentication message to AuthenticationOk.
///
/// Each message is accepted only in its turn. In particular, once SCRAM has begun, AuthenticationOk is accepted only
/// from a server that has proved that it knows the secret, and the server may not ask for a weaker method any more.
#[derive(pgweir_freeze::Freeze)]
pub struct ServerAuth {
    user: Vec<u8>,
    credential: Credential,
    nonce: [u8; NONCE_RAW_BYTES],
    /// Hash of the server's certificate, if the exchange can be bound to it.
    end_point: Option<Arc<[u8]>>,
    state: State,
}

#[derive(pgweir_freeze::Freeze)]
enum State {
    /// The server has not asked for anything yet.
    Start,
    /// SCRAM: the client-first-message has been sent.
    AwaitServerFirst(AwaitServerFirst),
    /// SCRAM: the caller derives the keys for the proof.
    AwaitKeys(Challenge),
    /// SCRAM: the proof has been sent.
    AwaitServerFinal(AwaitServerFinal),
    /// The exchange is complete; only AuthenticationOk can follow.
    AwaitOk,
    Finished,
}

impl ServerAuth {
    /// `nonce` must be random and drawn anew for each exchange. It is used if the server asks for SCRAM.
    pub fn new(user: &[u8], credential: Credential, nonce: [u8; NONCE_RAW_BYTES]) -> Self {
        Self {
            user: user.to_vec(),
            credential,
            nonce,
            end_point: None,
            state: State::Start,
        }
    }

    /// The secret that it logs in with.
    pub fn credential(&self) -> &Credential {
        &self.credential
    }

    /// Uses SCRAM-SHA-256-PLUS where the server offers it: the connection is secured by TLS, and `end_point` is the
    /// `tls-server-end-point` (RFC 5929) of the certificate that the server has shown.
    pub fn bind_to(mut self, end_point: Arc<[u8]>) -> Self {
        self.end_point = Some(end_point);
        self
    }

    /// Handles the payload of an Authentication message (tag `R`). After an error the connection must be closed. With
    /// `keys`, the connections of a pool need only one derivation.
    pub fn handle_message(&mut self, payload: &[u8], keys: &mut ScramKeyCache) -> Result<ServerStep, ServerAuthError> {
        let state = std::mem::replace(&mut self.state, State::Finished);
        let (state, step) = match (state, AuthRequest::parse(payload)?) {
            (State::Start | State::AwaitOk, AuthRequest::Ok) => (State::Finished, ServerStep::Authenticated),
            (State::Start, AuthRequest::CleartextPassword) => self.answer_cleartext()?,
            (State::Start, AuthRequest::Md5Password { salt }) => self.answer_md5(salt)?,
            (State::Start, AuthRequest::Sasl { mechanisms }) => self.begin_scram(&mechanisms)?,
            (State::AwaitServerFirst(waiting), AuthRequest::SaslContinue(message)) => {
                self.answer_scram(waiting.read(&message)?, keys)?
            }
            (State::AwaitServerFinal(waiting), AuthRequest::SaslFinal(message)) => {
                waiting.read(&message)?;
                (State::AwaitOk, ServerStep::Wait)
            }
            (state, request) => {
                return Err(ServerAuthError::OutOfTurn {
                    got: request.name(),
                    expected: state.expected(),
                });
            }
        };
        self.state = state;
        Ok(step)
    }

    /// The keys that the caller derives.
    pub fn keys_being_derived(&self) -> Option<Derivation> {
        match (&self.state, &self.credential) {
            (State::AwaitKeys(challenge), Credential::Password(password)) => Some(Derivation {
                password: password.clone(),
                salt: challenge.salt().to_vec(),
                iterations: challenge.iterations(),
            }),
            _ => None,
        }
    }

    /// The caller has derived the keys of [`ServerStep::Derive`]. `None` if nobody waits for them.
    pub fn handle_keys(&mut self, derived: ScramKeys, cache: &mut ScramKeyCache) -> Option<ServerStep> {
        let awaited = self.keys_being_derived()?;
        if !derived.belong_to(&awaited.salt, awaited.iterations) {
            return None;
        }
        match std::mem::replace(&mut self.state, State::Finished) {
            State::AwaitKeys(challenge) => {
                let (waiting, message) = challenge.answer(&derived);
                cache.keep(awaited.password.as_bytes(), derived);
                self.state = State::AwaitServerFinal(waiting);
                Some(ServerStep::Send(message))
            }
            _ => unreachable!("looked at above"),
        }
    }

    fn answer_cleartext(&self) -> Result<(State, ServerStep), ServerAuthError> {
        match &self.credential {
            Credential::Password(password) => {
                Ok((State::AwaitOk, ServerStep::Send(password_payload(password.as_bytes()))))
            }
            _ => Err(self.cannot_answer(AskedMethod::Password, "a plain text password")),
        }
    }

    fn answer_md5(&self, salt: [u8; 4]) -> Result<(State, ServerStep), ServerAuthError> {
        let answer = match &self.credential {
            Credential::Password(password) => Md5Secret::derive(password.as_bytes(), &self.user).answer(salt),
            Credential::Md5(hash) => hash.answer(salt),
            _ => return Err(self.cannot_answer(AskedMethod::Md5, "a plain text password or an MD5 hash")),
        };
        Ok((State::AwaitOk, ServerStep::Send(password_payload(&answer))))
    }

    fn begin_scram(&self, mechanisms: &[Vec<u8>]) -> Result<(State, ServerStep), ServerAuthError> {
        let offers = |mechanism: &str| mechanisms.iter().any(|name| name == mechanism.as_bytes());
        let end_point = self.end_point.as_deref().unwrap_or_default();
        let (mechanism, gs2) = match &self.end_point {
            Some(_) if offers(SCRAM_SHA_256_PLUS) => (SCRAM_SHA_256_PLUS, Gs2::EndPoint),
            // Tells the server that this side saw no offer. If the server made one, it knows that someone has removed
            // it.
            Some(_) => (SCRAM_SHA_256, Gs2::NotOffered),
            None => (SCRAM_SHA_256, Gs2::NotSupported),
        };
        if !offers(mechanism) {
            return Err(ServerAuthError::NoCommonMechanism {
                offered: shown(&mechanisms.join(b", ".as_slice())),
            });
        }
        if !matches!(self.credential, Credential::Password(_) | Credential::ScramKeys(_)) {
            return Err(self.cannot_answer(
                AskedMethod::Scram,
                "a plain text password, or a client that logged in by SCRAM",
            ));
        }
        let (waiting, message) = AwaitServerFirst::start(b"", nonce_text(&self.nonce), gs2, end_point);
        let payload = SaslInitialResponse::payload(mechanism.as_bytes(), &message);
        Ok((State::AwaitServerFirst(waiting), ServerStep::Send(payload)))
    }

    fn answer_scram(
        &self,
        challenge: Challenge,
        cache: &mut ScramKeyCache,
    ) -> Result<(State, ServerStep), ServerAuthError> {
        let (salt, iterations) = (challenge.salt(), challenge.iterations());
        let keys = match &self.credential {
            Credential::Password(password) => match cache.find(password.as_bytes(), salt, iterations) {
                Some(keys) => keys.clone(),
                None if iterations > ITERATIONS_AT_ONCE_MAX => {
                    let derivation = Derivation {
                        password: password.clone(),
                        salt: salt.to_vec(),
                        iterations,
                    };
                    return Ok((State::AwaitKeys(challenge), ServerStep::Derive(derivation)));
                }
                None => cache.keys(password.as_bytes(), salt, iterations),
            },
            Credential::ScramKeys(keys) if keys.belong_to(salt, iterations) => keys.clone(),
            Credential::ScramKeys(_) => return Err(ServerAuthError::VerifierMismatch),
            Credential::Nothing | Credential::Md5(_) => unreachable!("begin_scram has refused these"),
        };
        let (waiting, message) = challenge.answer(&keys);
        Ok((State::AwaitServerFinal(waiting), ServerStep::Send(message)))
    }

    fn cannot_answer(&self, asked: AskedMethod, need: &'static str) -> ServerAuthError {
        ServerAuthError::CredentialCannotAnswer {
            asked,
            need,
            have: self.credential.kind(),
        }
    }
}

impl State {
    fn expected(&self) -> &'static str {
        match self {
            Self::Start => "an authentication request or AuthenticationOk",
            Self::AwaitServerFirst(_) => "AuthenticationSASLContinue",
            Self::AwaitKeys(_) => "no message before the proof",
            Self::AwaitServerFinal(_) => "AuthenticationSASLFinal",
            Self::AwaitOk => "AuthenticationOk",
            Self::Finished => "no more Authentication messages",
        }
    }
}

/// Prints which message is expected next, and no secret.
impl fmt::Debug for ServerAuth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerAuth")
            .field("expected", &self.state.expected())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
#[path = "server_auth_tests.rs"]
mod tests;
