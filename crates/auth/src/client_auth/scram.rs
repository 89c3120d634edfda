//! A SCRAM exchange with a client. Nothing slow is computed here: the caller derives keys on another thread, when the
//! client has sent its proof.

use super::{ClientAuth, State, TOLD_SASL};
use crate::auth_request::AuthRequest;
use crate::client_proof::{ScramEnd, judge_scram};
use crate::client_step::ClientStep;
use crate::error::{ClientAuthError, shown};
use crate::password_message::SaslInitialResponse;
use crate::scram::server::{AwaitClientFinal, AwaitClientFirst, Claim, Offer};
use crate::scram::{
    Derivation, SCRAM_SHA_256, SCRAM_SHA_256_PLUS, ScramKeyCache, ScramKeys, ScramVerifier, nonce_text,
};
use crate::secret::{Password, Secret};

#[derive(pgweir_freeze::Freeze)]
pub(super) struct ScramSide {
    secret: Secret,
    /// The client has chosen the mechanism with channel binding.
    binds: bool,
    end: ScramEnd,
}

/// The client has been told salt and count, and must prove that it knows the secret.
#[derive(pgweir_freeze::Freeze)]
pub(super) struct ScramProof {
    waiting: AwaitClientFinal,
    secret: Secret,
    end: ScramEnd,
}

/// The keys that the caller derives, and what follows.
#[derive(pgweir_freeze::Freeze)]
pub(super) struct ScramKeysAwaited {
    password: Password,
    salt: Vec<u8>,
    iterations: u32,
    then: Then,
}

#[derive(pgweir_freeze::Freeze)]
enum Then {
    /// The proof is checked with these keys.
    Check { claim: Claim, end: ScramEnd },
    /// The exchange has failed, and takes as long as one whose keys were not known yet.
    Refuse(ClientAuthError),
}

impl ScramKeysAwaited {
    pub(super) fn derivation(&self) -> Derivation {
        Derivation {
            password: self.password.clone(),
            salt: self.salt.clone(),
            iterations: self.iterations,
        }
    }
}

impl ClientAuth {
    pub(super) fn ask_scram(&self, secret: Secret, doom: Option<ClientAuthError>) -> (State, AuthRequest) {
        let keys_pass_through = matches!(secret, Secret::Scram(_));
        let side = ScramSide {
            secret,
            binds: false,
            end: ScramEnd {
                doom,
                keys_pass_through,
            },
        };
        let plus = self.end_point.is_some().then(|| SCRAM_SHA_256_PLUS.into());
        let mechanisms = plus.into_iter().chain([SCRAM_SHA_256.into()]).collect();
        (State::AwaitSaslInitial { side }, AuthRequest::Sasl { mechanisms })
    }

    pub(super) fn choose_mechanism(
        &mut self,
        payload: &[u8],
        mut side: ScramSide,
    ) -> Result<AuthRequest, ClientAuthError> {
        let response = SaslInitialResponse::parse(payload)?;
        side.binds = self.end_point.is_some() && response.mechanism == SCRAM_SHA_256_PLUS.as_bytes();
        if !side.binds && response.mechanism != SCRAM_SHA_256.as_bytes() {
            return Err(ClientAuthError::MechanismNotOffered {
                got: shown(response.mechanism),
            });
        }
        match response.data {
            Some(message) => self.begin_scram(message, side),
            None => {
                self.state = State::AwaitScramFirst { side };
                Ok(AuthRequest::SaslContinue(Vec::new()))
            }
        }
    }

    /// Tells the client salt and count, for which no keys are needed. So this takes equally long for every name.
    pub(super) fn begin_scram(&mut self, message: &[u8], side: ScramSide) -> Result<AuthRequest, ClientAuthError> {
        let secret = match side.secret {
            Secret::Md5(_) => Secret::Scram(self.mock_verifier()),
            secret => secret,
        };
        let (salt, iterations) = match &secret {
            Secret::Scram(verifier) => (verifier.salt.clone(), verifier.iterations),
            _ => self.own_salt(),
        };
        let offer = match &self.end_point {
            None => Offer::None,
            Some(hash) if side.binds => Offer::Taken(hash),
            Some(_) => Offer::Declined,
        };
        let start = AwaitClientFirst::new(salt, iterations, nonce_text(&self.nonces.scram), offer);
        let (waiting, server_first) = start.read(message)?;
        self.state = State::AwaitScramFinal(ScramProof {
            waiting,
            secret,
            end: side.end,
        });
        Ok(AuthRequest::SaslContinue(server_first))
    }

    /// Salt and count for a user without a verifier.
    fn own_salt(&self) -> (Vec<u8>, u32) {
        let salt = self.rules.mock_key.salt(&self.user);
        (salt.to_vec(), self.rules.scram_iterations)
    }

    /// Handles the client-final-message.
    pub(super) fn judge_proof(&mut self, message: &[u8], proof: ScramProof, keys: &ScramKeyCache) -> ClientStep {
        let claim = match proof.waiting.read(message) {
            Ok(claim) => claim,
            Err(fault) => return self.refuse(fault.into(), TOLD_SASL),
        };
        let verifier = match proof.secret {
            Secret::Scram(verifier) => verifier,
            Secret::Plain(password) => {
                let (salt, iterations) = self.own_salt();
                match keys.find(password.as_bytes(), &salt, iterations) {
                    Some(keys) => ScramVerifier::from(keys),
                    None => {
                        let end = proof.end;
                        return self.await_scram_keys(password, Then::Check { claim, end });
                    }
                }
            }
            Secret::Md5(_) => self.mock_verifier(),
        };
        match judge_scram(&claim, &verifier, proof.end) {
            Ok((closing, learned)) => self.accept(Some(closing), learned),
            // If only users with a plain-text secret had to wait for a derivation, the time would tell who they are.
            Err(reason) if self.rules.plain_secrets => {
                self.await_scram_keys(Password::from(b"".as_slice()), Then::Refuse(reason))
            }
            Err(reason) => self.refuse(reason, TOLD_SASL),
        }
    }

    fn await_scram_keys(&mut self, password: Password, then: Then) -> ClientStep {
        let (salt, iterations) = self.own_salt();
        let awaited = ScramKeysAwaited {
            password,
            salt,
            iterations,
            then,
        };
        let derivation = awaited.derivation();
        self.state = State::AwaitScramKeys(awaited);
        ClientStep::Derive(derivation)
    }

    /// The caller has derived the keys. Those of a password of the settings are kept.
    pub(super) fn scram_keys_derived(
        &mut self,
        awaited: ScramKeysAwaited,
        derived: ScramKeys,
        keys: &mut ScramKeyCache,
    ) -> ClientStep {
        let (claim, end) = match awaited.then {
            Then::Check { claim, end } => (claim, end),
            Then::Refuse(reason) => return self.refuse(reason, TOLD_SASL),
        };
        let judged = judge_scram(&claim, &ScramVerifier::from(&derived), end);
        keys.keep(awaited.password.as_bytes(), derived);
        match judged {
            Ok((closing, learned)) => self.accept(Some(closing), learned),
            Err(reason) => self.refuse(reason, TOLD_SASL),
        }
    }
}
