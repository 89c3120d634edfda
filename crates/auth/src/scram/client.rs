//! The client's side: the pooler logs in to a server.

use subtle::ConstantTimeEq;

use super::messages::{Gs2, ServerFinal, ServerFirst};
use super::{Key, ScramKeys, auth_message, encode, hmac, sha256, xor};
use crate::error::{ScramFault, ServerAuthError, shown};

/// Waits for the server-first-message.
#[derive(pgweir_freeze::Freeze)]
pub struct AwaitServerFirst {
    /// What `c=` will hold.
    channel_binding: Vec<u8>,
    client_first_bare: Vec<u8>,
    /// The client's half of the nonce, printable.
    nonce: Vec<u8>,
}

impl AwaitServerFirst {
    /// Returns the first state and the client-first-message. PostgreSQL ignores the user name in this message, because
    /// the startup packet contains it, and libpq sends none. A name with `,` or `=` in it would have to be escaped.
    /// `end_point` is the hash of the server's certificate, where `gs2` says that we bind to it.
    pub fn start(user: &[u8], nonce: Vec<u8>, gs2: Gs2, end_point: &[u8]) -> (Self, Vec<u8>) {
        let client_first_bare = [b"n=".as_slice(), user, b",r=", &nonce].concat();
        let message = [gs2.header(), &client_first_bare].concat();
        (
            Self {
                channel_binding: gs2.channel_binding(end_point),
                client_first_bare,
                nonce,
            },
            message,
        )
    }

    pub fn read(self, message: &[u8]) -> Result<Challenge, ScramFault> {
        let first = ServerFirst::parse(message)?;
        match first.nonce.strip_prefix(self.nonce.as_slice()) {
            None | Some(b"") => return Err(ScramFault::NonceMismatch),
            Some(_) => {}
        }
        let nonce = first.nonce.to_vec();
        Ok(Challenge {
            salt: first.salt,
            iterations: first.iterations,
            channel_binding: self.channel_binding,
            client_first_bare: self.client_first_bare,
            server_first: message.to_vec(),
            nonce,
        })
    }
}

/// The server has sent salt and iteration count; the caller must give the keys for them.
#[derive(pgweir_freeze::Freeze)]
pub struct Challenge {
    salt: Vec<u8>,
    iterations: u32,
    channel_binding: Vec<u8>,
    client_first_bare: Vec<u8>,
    server_first: Vec<u8>,
    /// Both halves of the nonce.
    nonce: Vec<u8>,
}

impl Challenge {
    pub fn salt(&self) -> &[u8] {
        &self.salt
    }

    pub fn iterations(&self) -> u32 {
        self.iterations
    }

    /// Returns the next state and the client-final-message.
    pub fn answer(self, keys: &ScramKeys) -> (AwaitServerFinal, Vec<u8>) {
        let without_proof = [b"c=".as_slice(), &encode(&self.channel_binding), b",r=", &self.nonce].concat();
        let auth_message = auth_message(&self.client_first_bare, &self.server_first, &without_proof);
        let proof = xor(keys.client_key, &hmac(&sha256(&keys.client_key), &auth_message));
        let expected = hmac(&keys.server_key, &auth_message);
        let message = [without_proof.as_slice(), b",p=", &encode(&proof)].concat();
        (AwaitServerFinal { expected }, message)
    }
}

/// Waits for the server-final-message.
#[derive(pgweir_freeze::Freeze)]
pub struct AwaitServerFinal {
    /// The signature that a server can make only if it knows the secret.
    expected: Key,
}

impl AwaitServerFinal {
    pub fn read(self, message: &[u8]) -> Result<(), ServerAuthError> {
        match ServerFinal::parse(message)? {
            ServerFinal::Signature(signature) if bool::from(signature.ct_eq(&self.expected)) => Ok(()),
            ServerFinal::Signature(_) => Err(ServerAuthError::ServerSignature),
            ServerFinal::Error(error) => Err(ServerAuthError::Rejected { error: shown(error) }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(message: &str) -> Result<Challenge, ScramFault> {
        AwaitServerFirst::start(b"", b"abc".to_vec(), Gs2::NotSupported, b"")
            .0
            .read(message.as_bytes())
    }

    #[test]
    fn the_servers_nonce_must_extend_ours() {
        assert!(read("r=abcX,s=AA==,i=1").is_ok());
        for message in [
            "r=abc,s=AA==,i=1",
            "r=abX,s=AA==,i=1",
            "r=X,s=AA==,i=1",
            "r=Xabc,s=AA==,i=1",
        ] {
            assert_eq!(read(message).err(), Some(ScramFault::NonceMismatch), "{message}");
        }
    }

    /// PgBouncer CVE-2026-6665: a long server nonce overran a buffer.
    #[test]
    fn a_long_server_nonce_is_carried_or_refused_whole() {
        let long = "x".repeat(900);
        let (_, answer) = read(&format!("r=abc{long},s=AA==,i=1"))
            .unwrap()
            .answer(&ScramKeys::derive(b"", b"\0", 1));
        assert!(String::from_utf8(answer).unwrap().contains(&format!(",r=abc{long},p=")));
        assert!(matches!(
            read(&format!("r=abc{},s=AA==,i=1", "x".repeat(100_000))).err(),
            Some(ScramFault::Length { .. })
        ));
    }

    #[test]
    fn a_server_that_does_not_know_the_secret_is_found_out() {
        let keys = ScramKeys::derive(b"sesame", b"\0", 1);
        let waiting = || read("r=abcX,s=AA==,i=1").unwrap().answer(&keys).0;
        let wrong = format!("v={}", String::from_utf8(encode(&[7; 32])).unwrap());
        assert_eq!(waiting().read(wrong.as_bytes()), Err(ServerAuthError::ServerSignature));
        assert_eq!(
            waiting().read(b"e=invalid-proof"),
            Err(ServerAuthError::Rejected {
                error: "invalid-proof".to_owned()
            })
        );
    }
}
