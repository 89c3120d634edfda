//! A password that has come in clear text: compared with the secret, or its keys with those of the verifier.

use subtle::ConstantTimeEq;

use super::{ClientAuth, State, TOLD_PASSWORD};
use crate::client_proof::verdict;
use crate::client_step::{ClientStep, Learned};
use crate::error::ClientAuthError;
use crate::md5::Md5Secret;
use crate::scram::{Derivation, ITERATIONS_MAX, ScramKeyCache, ScramKeys, ScramVerifier, sha256};
use crate::secret::{Password, Secret};

impl ClientAuth {
    /// The keys that the caller derives for this client.
    pub fn keys_being_derived(&self) -> Option<Derivation> {
        match &self.state {
            State::AwaitKeys { password, verifier, .. } => Some(Derivation {
                password: password.clone(),
                salt: verifier.salt.clone(),
                iterations: verifier.iterations,
            }),
            State::AwaitScramKeys(awaited) => Some(awaited.derivation()),
            _ => None,
        }
    }

    /// The caller has derived the keys of [`ClientStep::Derive`].
    pub fn handle_keys(&mut self, derived: ScramKeys, keys: &mut ScramKeyCache) -> ClientStep {
        let (password, verifier, doom) = match std::mem::replace(&mut self.state, State::Finished) {
            State::AwaitKeys {
                password,
                verifier,
                doom,
            } => (password, verifier, doom),
            State::AwaitScramKeys(awaited) => return self.scram_keys_derived(awaited, derived, keys),
            _ => return self.refuse(ClientAuthError::NotAsked, TOLD_PASSWORD),
        };
        let is_right = verifier.is_of(&derived);
        if is_right && doom.is_none() {
            keys.keep(password.as_bytes(), derived);
        }
        self.judged_cleartext(is_right, doom, password)
    }

    pub(super) fn judge_cleartext(
        &mut self,
        given: &[u8],
        secret: Secret,
        doom: Option<ClientAuthError>,
        keys: &ScramKeyCache,
    ) -> ClientStep {
        let password = Password::from(given);
        let is_right = match secret {
            Secret::Plain(known) => bool::from(sha256(given).ct_eq(&sha256(known.as_bytes()))),
            Secret::Md5(hash) => Md5Secret::derive(given, &self.user) == hash,
            Secret::Scram(verifier) if verifier.iterations > ITERATIONS_MAX => false,
            Secret::Scram(verifier) => match keys.known(given, &verifier) {
                Some(keys) => verifier.is_of(keys),
                None => return self.have_keys_derived(password, verifier, doom),
            },
        };
        self.judged_cleartext(is_right, doom, password)
    }

    fn have_keys_derived(
        &mut self,
        password: Password,
        verifier: ScramVerifier,
        doom: Option<ClientAuthError>,
    ) -> ClientStep {
        self.state = State::AwaitKeys {
            password,
            verifier,
            doom,
        };
        ClientStep::Derive(self.keys_being_derived().expect("set above"))
    }

    fn judged_cleartext(&mut self, is_right: bool, doom: Option<ClientAuthError>, password: Password) -> ClientStep {
        match verdict(is_right, doom) {
            Ok(()) => self.accept(None, Learned::Password(password)),
            Err(reason) => self.refuse(reason, TOLD_PASSWORD),
        }
    }
}
