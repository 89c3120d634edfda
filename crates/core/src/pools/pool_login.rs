//! What the servers of a pool are logged in to with, and which knowledge of that is newer.

use crate::base::time::Time;
use pgweir_auth::Credential;

/// The credential for the servers of a pool. Clients' logins teach it, and a login may take long: what was right when it
/// began may be wrong when it ends.
#[derive(Debug, pgweir_freeze::Freeze)]
pub(crate) struct PoolLogin {
    credential: Credential,
    /// When the credential was known to be right.
    as_of: Time,
    /// A server has refused it.
    is_refused: bool,
    /// The credential before, if a server has refused that one.
    refused_before: Option<Credential>,
}

impl PoolLogin {
    pub(crate) fn new(credential: Credential, as_of: Time) -> PoolLogin {
        PoolLogin {
            credential,
            as_of,
            is_refused: false,
            refused_before: None,
        }
    }

    pub(crate) fn credential(&self) -> &Credential {
        &self.credential
    }

    pub(crate) fn as_of(&self) -> Time {
        self.as_of
    }

    /// A client has logged in with this credential, which was right at `as_of`. Returns whether servers are logged in to
    /// with another one from now on. A credential that was refused comes back only if the one after it was refused, too.
    pub(crate) fn learn(&mut self, credential: Credential, as_of: Time) -> bool {
        let is_old = as_of < self.as_of;
        let is_refused = !self.is_refused && self.refused_before.as_ref() == Some(&credential);
        if is_old || is_refused {
            return false;
        }
        self.as_of = as_of;
        if self.credential == credential {
            return false;
        }
        let before = std::mem::replace(&mut self.credential, credential);
        if std::mem::take(&mut self.is_refused) {
            self.refused_before = Some(before);
        }
        true
    }

    /// A server has refused this credential. Returns whether it is the one that the next server would be given.
    pub(crate) fn is_refused(&mut self, credential: &Credential) -> bool {
        let is_present = self.credential == *credential;
        self.is_refused |= is_present;
        is_present
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pgweir_auth::Password;

    fn password(text: &str) -> Credential {
        Credential::Password(Password::from(text))
    }

    #[test]
    fn what_was_known_earlier_teaches_nothing() {
        let mut login = PoolLogin::new(Credential::Nothing, Time(0));
        assert!(login.learn(password("second"), Time(5)));
        assert!(!login.learn(password("first"), Time(4)));
        assert_eq!(*login.credential(), password("second"));
        assert!(!login.learn(password("second"), Time(6)), "it is the same");
        assert!(!login.learn(password("first"), Time(5)));
    }

    #[test]
    fn a_refused_credential_comes_back_when_the_next_one_was_refused_too() {
        let mut login = PoolLogin::new(password("first"), Time(0));
        assert!(login.is_refused(&password("first")));
        assert!(login.learn(password("second"), Time(1)));
        assert!(!login.is_refused(&password("first")), "an attempt that began earlier");
        assert!(!login.learn(password("first"), Time(2)));
        assert!(login.is_refused(&password("second")));
        assert!(login.learn(password("first"), Time(3)));
    }
}
