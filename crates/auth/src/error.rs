//! Errors of an authentication exchange, sorted by who is to blame.
//!
//! No message here contains a secret: passwords, hashes, keys and proofs are described only by kind and length.

/// Who must change something so that the next attempt can succeed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Blame {
    /// The client: wrong password, or a message that breaks the protocol.
    Client,
    /// The server that the pooler logs in to: a message that breaks the protocol, or a method that the pooler does not
    /// support.
    Server,
    /// The operator: the stored secret cannot be used for the requested method.
    Configuration,
}

/// A text that is not a secret in the form of `pg_authid` or `auth_file`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SecretError {
    /// It begins like a SCRAM verifier but is not one.
    #[error(
        "malformed SCRAM secret: {problem}, expected SCRAM-SHA-256$<iterations>:<salt>$<stored key>:<server key> \
         in base64"
    )]
    MalformedVerifier {
        /// What was wrong with it, without its content.
        problem: &'static str,
    },
}

/// A SCRAM message that breaks RFC 5802, section 7 ("Formal Syntax"), or the pooler's limits. Either side may have sent
/// it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, pgweir_freeze::Freeze)]
pub enum ScramFault {
    /// Empty, or longer than [`SCRAM_MESSAGE_BYTES_MAX`](crate::SCRAM_MESSAGE_BYTES_MAX).
    #[error("SCRAM message of {got} bytes, expected 1 to {max}")]
    Length {
        /// Length as received, bytes.
        got: usize,
        /// The largest allowed length, bytes.
        max: usize,
    },
    /// A zero byte inside the message.
    #[error("SCRAM message contains a zero byte")]
    ZeroByte,
    /// Attributes must come in a fixed order.
    #[error("malformed SCRAM message (attribute \"{expected}\" expected): got {got}")]
    Attribute {
        /// Letter of the attribute that should have come.
        expected: char,
        /// What came instead: a letter, or "end of message".
        got: String,
    },
    /// `m=`: an extension that the sender requires.
    #[error("client requires an unsupported SCRAM extension: \"m=\"")]
    MandatoryExtension,
    /// `a=`: acting as another user.
    #[error("client uses authorization identity, but it is not supported: \"a=\"")]
    AuthorizationIdentity,
    /// The first letter of a client's first message is the channel binding flag.
    #[error("malformed SCRAM message (unexpected channel-binding flag \"'{got}'\"): expected \"n\", \"y\" or \"p\"")]
    ChannelBindingFlag {
        /// The letter as received.
        got: String,
    },
    /// `p=` with another name than that of the certificate's hash.
    #[error("SCRAM channel binding type \"tls-server-end-point\" expected, got \"{got}\"")]
    ChannelBindingType {
        /// The name as received, shortened and escaped.
        got: String,
    },
    /// `p=`: the client binds to a TLS channel although it has chosen a mechanism without channel binding.
    #[error("SCRAM channel binding data in a message of SCRAM-SHA-256, which has none")]
    ChannelBindingNotChosen,
    /// The client has chosen the mechanism with channel binding and does not bind.
    #[error("SCRAM-SHA-256-PLUS was chosen, but the message has no channel binding data")]
    ChannelBindingMissing,
    /// `y`: the client believes that no channel binding was offered, but it was: somebody has changed the offer.
    #[error("the client supports SCRAM channel binding but thinks that it was not offered, although it was")]
    ChannelBindingDowngraded,
    /// The `c=` attribute does not repeat the header of the first message, or names another certificate than ours:
    /// somebody else has terminated the client's TLS.
    #[error("SCRAM channel binding check failed")]
    ChannelBindingMismatch,
    /// Nonces are printable ASCII without commas, and not empty.
    #[error("non-printable characters in SCRAM nonce, or none at all")]
    Nonce,
    /// A server's nonce does not begin with ours.
    #[error("invalid SCRAM response (nonce mismatch)")]
    NonceMismatch,
    /// A client's nonce is not its own followed by ours.
    #[error("invalid SCRAM response (nonce does not match)")]
    ClientNonceMismatch,
    /// Not canonical base64 with padding.
    #[error("malformed SCRAM message ({}): attribute \"{attribute}\" is not valid base64", bad_value(*attribute))]
    Base64 {
        /// Letter of the attribute.
        attribute: char,
    },
    /// Valid base64 of the wrong size.
    #[error(
        "malformed SCRAM message ({}): attribute \"{attribute}\" holds {got} bytes, expected {expected}",
        bad_value(*attribute)
    )]
    DecodedLength {
        /// Letter of the attribute.
        attribute: char,
        /// Bytes decoded.
        got: usize,
        /// Bytes required, as words for the log.
        expected: &'static str,
    },
    /// Not a decimal number within the limit.
    #[error("malformed SCRAM message (invalid iteration count): expected a number from 1 to {max}")]
    Iterations {
        /// The limit, [`ITERATIONS_MAX`](crate::ITERATIONS_MAX).
        max: u32,
    },
    /// Bytes after the last attribute.
    #[error("malformed SCRAM message (garbage at {place})")]
    Trailing {
        /// The end of which message.
        place: &'static str,
    },
}

/// PgBouncer's words for a value that cannot be decoded.
fn bad_value(attribute: char) -> &'static str {
    match attribute {
        's' => "invalid salt",
        'p' => "malformed proof in client-final-message",
        'v' => "malformed server signature",
        _ => "malformed value",
    }
}

/// Why a client may not log in: for the log. The client gets [`Refused::told`](crate::Refused::told), which must not
/// say more than "no".
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, pgweir_freeze::Freeze)]
pub enum ClientAuthError {
    /// There is no such user, or it may not log in.
    #[error("no such user")]
    UnknownUser,
    /// The user exists and has an empty password. Nobody can log in with it, as in PostgreSQL and PgBouncer.
    #[error("user has no password")]
    NoPassword,
    /// The stored secret cannot be used for the method in the settings.
    #[error("method {method} needs a plain text or SCRAM secret, the user has {have}")]
    SecretCannotServe {
        /// The method, as in `auth_type`.
        method: &'static str,
        /// Kind of the stored secret.
        have: &'static str,
    },
    /// The answer was well-formed, but wrong.
    #[error("wrong password")]
    WrongPassword,
    /// A directory or PAM has refused the password.
    #[error("{why}")]
    JudgedWrong {
        /// Why.
        why: String,
    },
    /// The client sent an empty password.
    #[error("empty password returned by client")]
    EmptyPassword,
    /// A PasswordMessage that is not one string with its terminator, or is too long.
    #[error("malformed PasswordMessage: {problem}")]
    MalformedPasswordMessage {
        /// What was wrong with it.
        problem: &'static str,
    },
    /// A SASLInitialResponse whose lengths do not match.
    #[error("malformed SASLInitialResponse: {problem}")]
    MalformedSaslInitialResponse {
        /// What was wrong with it.
        problem: &'static str,
    },
    /// The client chose a mechanism that was not offered.
    #[error("SASL mechanism \"{got}\" was not offered, expected {}", crate::SCRAM_SHA_256)]
    MechanismNotOffered {
        /// The client's choice, shortened and escaped.
        got: String,
    },
    /// A malformed SCRAM message.
    #[error(transparent)]
    Scram(#[from] ScramFault),
    /// A message although nothing was asked, or after the end.
    #[error("message out of turn: no answer was expected")]
    NotAsked,
}

impl ClientAuthError {
    /// Who must change something.
    pub fn blame(&self) -> Blame {
        match self {
            Self::SecretCannotServe { .. } | Self::NoPassword => Blame::Configuration,
            Self::UnknownUser
            | Self::WrongPassword
            | Self::JudgedWrong { .. }
            | Self::EmptyPassword
            | Self::MalformedPasswordMessage { .. }
            | Self::MalformedSaslInitialResponse { .. }
            | Self::MechanismNotOffered { .. }
            | Self::Scram(_)
            | Self::NotAsked => Blame::Client,
        }
    }
}

/// Why we could not log in to a server.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ServerAuthError {
    /// The server wants a method that no credential could answer.
    #[error("unknown/unsupported auth method: {code} (the server asks for {name} authentication)")]
    UnsupportedMethod {
        /// Name in the manual, section "Message Formats".
        name: &'static str,
        /// Code of the Authentication message.
        code: i32,
    },
    /// The server offers SASL mechanisms, none of which is supported.
    #[error(
        "server offers SASL mechanisms {offered}, expected {} among them",
        crate::SCRAM_SHA_256
    )]
    NoCommonMechanism {
        /// The offer, separated by commas, shortened and escaped.
        offered: String,
    },
    /// An Authentication message whose parts do not add up.
    #[error("malformed Authentication message: {problem}")]
    Malformed {
        /// What was wrong with it.
        problem: &'static str,
    },
    /// Longer than [`AUTH_REQUEST_BYTES_MAX`](crate::AUTH_REQUEST_BYTES_MAX).
    #[error("Authentication message of {got} bytes, expected at most {max}")]
    TooLong {
        /// Bytes that came.
        got: usize,
        /// Bytes allowed.
        max: usize,
    },
    /// A message that has no place at this point: a second question, or an early AuthenticationOk from a server that
    /// has not yet proved that it knows the secret.
    #[error("{}server sent {got}, expected {expected}", out_of_turn(got, expected))]
    OutOfTurn {
        /// Name of the message that came.
        got: &'static str,
        /// What could have come.
        expected: &'static str,
    },
    /// A malformed SCRAM message.
    #[error(transparent)]
    Scram(#[from] ScramFault),
    /// `e=`: the server ends the exchange with an error of RFC 5802's list.
    #[error("server ended SCRAM authentication: {error}")]
    Rejected {
        /// The server's word, shortened and escaped.
        error: String,
    },
    /// The server's signature is wrong: the server does not know the secret.
    #[error("server's SCRAM signature is wrong: it does not know the user's secret")]
    ServerSignature,
    /// The server's method needs another kind of credential.
    #[error("server asks for {}, which needs {need}; the user has {have}", asked.text())]
    CredentialCannotAnswer {
        /// The server's method.
        asked: AskedMethod,
        /// Kinds that would do.
        need: &'static str,
        /// Kind at hand.
        have: &'static str,
    },
    /// Passed-through SCRAM keys belong to another verifier than the server's.
    #[error("the SCRAM secret the client logged in with is not the one the server has: salt or iteration count differ")]
    VerifierMismatch,
}

/// PgBouncer's words for a message of the server that has no place, before our own.
fn out_of_turn(got: &str, expected: &str) -> &'static str {
    match (got, expected) {
        ("AuthenticationSASL", _) => "protocol error: duplicate AuthenticationSASL message from server: ",
        ("AuthenticationSASLContinue", "AuthenticationSASLFinal") => {
            "SCRAM exchange protocol error: received second AuthenticationSASLContinue: "
        }
        ("AuthenticationSASLContinue", _) => {
            "protocol error: AuthenticationSASLContinue without prior AuthenticationSASL: "
        }
        ("AuthenticationSASLFinal", _) => {
            "protocol error: AuthenticationSASLFinal without prior AuthenticationSASLContinue: "
        }
        _ => "",
    }
}

/// A method of a server that the pooler knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AskedMethod {
    /// AuthenticationCleartextPassword.
    Password,
    /// AuthenticationMD5Password.
    Md5,
    /// SCRAM-SHA-256, with or without channel binding.
    Scram,
}

impl AskedMethod {
    /// Its short name.
    pub fn name(self) -> &'static str {
        match self {
            AskedMethod::Password => "password",
            AskedMethod::Md5 => "MD5",
            AskedMethod::Scram => "SCRAM",
        }
    }

    fn text(self) -> &'static str {
        match self {
            AskedMethod::Password => "a clear text password",
            AskedMethod::Md5 => "an MD5 password",
            AskedMethod::Scram => crate::SCRAM_SHA_256,
        }
    }
}

impl ServerAuthError {
    /// Who must change something.
    pub fn blame(&self) -> Blame {
        match self {
            Self::CredentialCannotAnswer { .. } | Self::VerifierMismatch => Blame::Configuration,
            Self::UnsupportedMethod { .. }
            | Self::NoCommonMechanism { .. }
            | Self::Malformed { .. }
            | Self::TooLong { .. }
            | Self::OutOfTurn { .. }
            | Self::Scram(_)
            | Self::Rejected { .. }
            | Self::ServerSignature => Blame::Server,
        }
    }
}

/// The most bytes of a peer's text that [`shown`] puts into a log line.
const SHOWN_BYTES_MAX: usize = 64;

/// A peer's bytes for a log line: escaped and shortened.
pub(crate) fn shown(bytes: &[u8]) -> String {
    let mut text = bytes[..bytes.len().min(SHOWN_BYTES_MAX)].escape_ascii().to_string();
    if bytes.len() > SHOWN_BYTES_MAX {
        text.push_str("...");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peers_bytes_reach_the_log_short_and_escaped() {
        assert_eq!(shown(b"a\nb\"\xff"), "a\\nb\\\"\\xff");
        let long = shown(&[b'x'; 1000]);
        assert_eq!(long.len(), SHOWN_BYTES_MAX + 3);
        assert!(long.ends_with("..."));
    }

    #[test]
    fn blame_follows_who_can_mend_it() {
        assert_eq!(ClientAuthError::WrongPassword.blame(), Blame::Client);
        assert_eq!(
            ClientAuthError::SecretCannotServe {
                method: "scram-sha-256",
                have: "an MD5 hash"
            }
            .blame(),
            Blame::Configuration
        );
        assert_eq!(ServerAuthError::ServerSignature.blame(), Blame::Server);
        assert_eq!(ServerAuthError::VerifierMismatch.blame(), Blame::Configuration);
    }
}
