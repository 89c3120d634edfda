//! PostgreSQL's authentication exchanges as state machines: of clients with the pooler, and of the pooler with servers.
//!
//! [`ClientAuth`] authenticates a client connection, and [`ServerAuth`] logs the pooler in on a server connection; they
//! mirror each other. Input and output are the *payload* of a message: the bytes after its tag and its length. The
//! caller does the framing.
//!
//! **This crate deliberately knows no socket, no clock and no random source: nonces and salts are arguments.** It does
//! not know where secrets come from (`auth_file`, `auth_query`), nor which user may use which method.
//!
//! | direction | message | here |
//! |---|---|---|
//! | we ask a client | Authentication* (`R`) | [`AuthRequest::payload`] |
//! | a client answers | PasswordMessage, SASLInitialResponse, SASLResponse (`p`) | [`ClientAuth::handle_message`] |
//! | a server asks us | Authentication* (`R`) | [`ServerAuth::handle_message`] |
//! | we answer a server | the same `p` messages | [`ServerStep::Send`] |
//!
//! PBKDF2 is slow on purpose (milliseconds for each new password, salt and iteration count). So both exchanges take a
//! [`ScramKeyCache`], which the caller keeps as long as it runs.
//!
//! # Seams
//!
//! * HBA and ident rules are another crate's; the caller chooses a [`ClientAuthMethod`] before [`ClientAuth::new`].
//!   `cert` and `peer` ask the client nothing: the caller has looked at the certificate, or asked the operating system.
//! * A secret that must be fetched first: an exchange starts out waiting, and [`ClientAuth::handle_secret`] begins it.
//! * LDAP and PAM ask for a clear text password, which the caller has others check: [`ClientStep::Judge`],
//!   [`ClientAuth::handle_verdict`]. [`DirectoryAnswers`] bounds what a directory answers.
//! * Channel binding (`SCRAM-SHA-256-PLUS`, tls-server-end-point) is a property of the TLS connection: the hash of the
//!   certificate is an argument of both exchanges, [`ClientAuth::offer_channel_binding`] and [`ServerAuth::bind_to`].
#![forbid(unsafe_code)]

mod auth_request;
mod client_auth;
mod client_auth_method;
mod client_proof;
mod client_step;
mod directory_answers;
mod directory_shapes;
mod error;
mod md5;
mod mock;
mod mock_counts;
mod password_message;
mod saslprep;
mod scram;
mod secret;
mod server_auth;

pub use auth_request::{AUTH_REQUEST_BYTES_MAX, AuthRequest};
pub use client_auth::{ClientAuth, ClientAuthNonces, ClientAuthRules};
pub use client_auth_method::ClientAuthMethod;
pub use client_step::{Accepted, ClientStep, Learned, Refused};
pub use directory_answers::{AnswerFault, DirectoryAnswers};
pub use error::{AskedMethod, Blame, ClientAuthError, ScramFault, SecretError, ServerAuthError};
pub use md5::{MD5_SALT_BYTES, MD5_SECRET_BYTES, Md5Secret};
pub use mock::{MockKey, MockSecret};
pub use mock_counts::IterationCounts;
pub use password_message::PASSWORD_MESSAGE_BYTES_MAX;
pub use scram::{
    Derivation, ITERATIONS_AT_ONCE_MAX, ITERATIONS_MAX, KEY_BYTES, NONCE_RAW_BYTES, SALT_BYTES,
    SCRAM_MESSAGE_BYTES_MAX, SCRAM_SHA_256, SCRAM_SHA_256_PLUS, ScramKeyCache, ScramKeys, ScramVerifier,
};
pub use secret::{Password, Secret};
pub use server_auth::{Credential, ServerAuth, ServerStep};
