//! The login to a server: what each of its messages means, up to its first ReadyForQuery.

use crate::base::errors::Trouble;
use crate::base::pool_id::LoginFailure;
use crate::upstream::standing::{Judgement, QUESTION, Standing};
use pgweir_auth::{Credential, Derivation, ScramKeyCache, ScramKeys, ServerAuth, ServerAuthError, ServerStep};
use pgweir_config::TargetSessionAttrs;
use pgweir_wire::{BackendTag, CancelKey, ErrorFields, HEADER_BYTES, Header, TransactionStatus, backend};

/// The longest message that a server may send during the login, bytes.
pub(crate) const LOGIN_MESSAGE_BYTES_MAX: u32 = 1024 * 1024;

/// The most messages that a server may send during the login. PostgreSQL sends some twenty, and notices.
const LOGIN_MESSAGES_MAX: u32 = 1024;

/// The most bytes of these messages. PostgreSQL sends less than a kilobyte, and notices.
const LOGIN_BYTES_MAX: u32 = 2 * 1024 * 1024;

/// SQLSTATE of a login that the pooler gave up: invalid_authorization_specification.
const NOT_AUTHORIZED: &str = "28000";

/// SQLSTATEs of a server that is starting, shutting down or full: another try may succeed.
const TEMPORARY: [&str; 4] = ["57P03", "53300", "57P01", "57P02"];

/// How far the login has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, pgweir_freeze::Freeze)]
enum Progress {
    /// The server is authenticating the pooler.
    Authenticating,
    /// AuthenticationOk has come.
    LetIn,
    /// It was asked for its state: see [`QUESTION`].
    Asked,
}

/// A login to a server.
#[derive(Debug, pgweir_freeze::Freeze)]
pub(crate) struct ServerLogin {
    auth: ServerAuth,
    progress: Progress,
    wanted: TargetSessionAttrs,
    standing: Standing,
    /// The messages that have come.
    messages: u32,
    /// Their bytes.
    message_bytes: u32,
}

/// What the caller must do next.
#[derive(Debug)]
pub(crate) enum ServerLoginStep<'i> {
    /// More bytes must come first.
    NeedBytes,
    /// Nothing; there may be another message.
    Nothing,
    /// This is sent as a message tagged `p`.
    Send(Vec<u8>),
    /// These keys are derived elsewhere, for [`ServerLogin::keys_derived`].
    Derive(Derivation),
    /// This query is sent.
    Ask(&'static str),
    /// The body of a ParameterStatus, to be recorded.
    ParameterStatus(&'i [u8]),
    /// The key for cancel requests; `None`: the server cannot be cancelled.
    CancelKey(Option<CancelKey>),
    /// The pooler cannot answer the server's authentication request, with a line for the log.
    GiveUp { failure: LoginFailure, log: String },
    /// The server has refused the login.
    Refused { failure: LoginFailure, severity: String },
    /// It is ready, and it is what the configuration wants. `Some`: only if there is no better server, with the reason.
    Welcome(Option<&'static str>),
    /// It is not what the configuration wants, with the reason.
    Unwanted(&'static str),
    /// Bytes that no PostgreSQL sends, with a description for the log.
    Misbehaves(String),
}

impl ServerLogin {
    pub(crate) fn new(auth: ServerAuth, wanted: TargetSessionAttrs) -> Self {
        ServerLogin {
            auth,
            progress: Progress::Authenticating,
            wanted,
            standing: Standing::default(),
            messages: 0,
            message_bytes: 0,
        }
    }

    /// The credential that the server is given.
    pub(crate) fn credential(&self) -> &Credential {
        self.auth.credential()
    }

    /// The next message of the server, if it has come, and how many bytes it had.
    pub(crate) fn handle_bytes<'i>(
        &mut self,
        input: &'i [u8],
        keys: &mut ScramKeyCache,
    ) -> (usize, ServerLoginStep<'i>) {
        let header = match Header::read(input) {
            Ok(Some(header)) => header,
            Ok(None) => return (0, ServerLoginStep::NeedBytes),
            Err(error) => {
                return (
                    input.len(),
                    ServerLoginStep::Misbehaves(format!("bad pkt header: {error}")),
                );
            }
        };
        if header.message_bytes > LOGIN_MESSAGE_BYTES_MAX {
            let what = format!("a message of {} bytes during login", header.message_bytes);
            return (input.len(), ServerLoginStep::Misbehaves(what));
        }
        let bytes = header.message_bytes as usize;
        match input.get(HEADER_BYTES..bytes) {
            Some(_) if self.says_too_much(header.message_bytes) => {
                let what =
                    format!("more than {LOGIN_MESSAGES_MAX} messages or {LOGIN_BYTES_MAX} bytes before it is ready");
                (input.len(), ServerLoginStep::Misbehaves(what))
            }
            Some(body) => (bytes, self.message(header.tag, body, keys)),
            None => (0, ServerLoginStep::NeedBytes),
        }
    }

    /// A message of this length has come: whether it is more than a server may send before it is ready.
    fn says_too_much(&mut self, bytes: u32) -> bool {
        self.messages += 1;
        self.message_bytes += bytes;
        self.messages > LOGIN_MESSAGES_MAX || self.message_bytes > LOGIN_BYTES_MAX
    }

    fn message<'i>(&mut self, tag: u8, body: &'i [u8], keys: &mut ScramKeyCache) -> ServerLoginStep<'i> {
        match BackendTag::from_byte(tag) {
            Some(BackendTag::Authentication) => self.authentication(body, keys),
            Some(BackendTag::ParameterStatus) => {
                if let Ok((name, value)) = backend::parameter_status(body) {
                    self.standing.note(name, value);
                }
                ServerLoginStep::ParameterStatus(body)
            }
            Some(BackendTag::BackendKeyData) => ServerLoginStep::CancelKey(CancelKey::read(body).ok()),
            Some(BackendTag::NoticeResponse | BackendTag::NegotiateProtocolVersion) => ServerLoginStep::Nothing,
            Some(BackendTag::ErrorResponse) => refused(body),
            Some(BackendTag::ReadyForQuery)
                if self.progress != Progress::Authenticating
                    && TransactionStatus::read(body) == Some(TransactionStatus::Idle) =>
            {
                self.judge()
            }
            Some(BackendTag::RowDescription | BackendTag::CommandComplete) if self.progress == Progress::Asked => {
                ServerLoginStep::Nothing
            }
            Some(BackendTag::DataRow) if self.progress == Progress::Asked => self.answered(body),
            _ => ServerLoginStep::Misbehaves(format!("unknown pkt from server: {:?}", char::from(tag))),
        }
    }

    /// The server is ready: decides whether it is wanted.
    fn judge(&mut self) -> ServerLoginStep<'static> {
        match self.standing.judge(self.wanted) {
            Judgement::Wanted => ServerLoginStep::Welcome(None),
            Judgement::SecondChoice(why) => ServerLoginStep::Welcome(Some(why)),
            Judgement::Unwanted(why) => ServerLoginStep::Unwanted(why),
            Judgement::Unknown if self.progress == Progress::LetIn => {
                self.progress = Progress::Asked;
                ServerLoginStep::Ask(QUESTION)
            }
            Judgement::Unknown => ServerLoginStep::Unwanted("server does not tell whether it is read-only"),
        }
    }

    /// The answer to [`QUESTION`].
    fn answered(&mut self, body: &[u8]) -> ServerLoginStep<'static> {
        let Ok(row) = backend::data_row(body) else {
            return ServerLoginStep::Misbehaves("a row that cannot be read during login".into());
        };
        let value = |at: usize| row.get(at).copied().flatten().unwrap_or_default();
        self.standing = Standing::answered(value(0), value(1));
        ServerLoginStep::Nothing
    }

    fn authentication(&mut self, body: &[u8], keys: &mut ScramKeyCache) -> ServerLoginStep<'static> {
        match self.auth.handle_message(body, keys) {
            Ok(ServerStep::Send(payload)) => ServerLoginStep::Send(payload),
            Ok(ServerStep::Derive(derivation)) => ServerLoginStep::Derive(derivation),
            Ok(ServerStep::Wait) => ServerLoginStep::Nothing,
            Ok(ServerStep::Authenticated) => {
                self.progress = Progress::LetIn;
                ServerLoginStep::Nothing
            }
            Err(error) => cannot_answer(&error),
        }
    }

    /// The keys that the driver is deriving.
    pub(crate) fn keys_being_derived(&self) -> Option<Derivation> {
        self.auth.keys_being_derived()
    }

    /// The driver has derived the keys, or could not. `None` if nobody waits for them.
    pub(crate) fn keys_derived(
        &mut self,
        derived: Result<ScramKeys, String>,
        keys: &mut ScramKeyCache,
    ) -> Option<ServerLoginStep<'static>> {
        self.keys_being_derived()?;
        match derived {
            Err(why) => Some(gave_up(&why, why.clone())),
            Ok(derived) => match self.auth.handle_keys(derived, keys)? {
                ServerStep::Send(payload) => Some(ServerLoginStep::Send(payload)),
                _ => None,
            },
        }
    }
}

/// The beginning of both texts is PgBouncer's.
fn cannot_answer(error: &ServerAuthError) -> ServerLoginStep<'static> {
    let why = match error {
        ServerAuthError::CredentialCannotAnswer { .. } => "wrong password type",
        ServerAuthError::NoCommonMechanism { .. } => {
            "none of the server's SASL authentication mechanisms are supported"
        }
        ServerAuthError::ServerSignature => "invalid server signature",
        _ => return gave_up(&error.to_string(), error.to_string()),
    };
    let log = match error {
        ServerAuthError::CredentialCannotAnswer { asked, .. } => {
            format!("cannot do {} authentication: {why}: {error}", asked.name())
        }
        _ => format!("{why}: {error}"),
    };
    gave_up(&format!("{why}: {error}"), log)
}

fn gave_up(why: &str, log: String) -> ServerLoginStep<'static> {
    ServerLoginStep::GiveUp {
        failure: LoginFailure {
            sqlstate: Some(NOT_AUTHORIZED.into()),
            message: format!("server login failed: {why}"),
            temporary: false,
        },
        log,
    }
}

fn refused(body: &[u8]) -> ServerLoginStep<'static> {
    let fields = ErrorFields::read_prefix(body);
    let text = |b: &[u8]| String::from_utf8_lossy(b).into_owned();
    // Clients rely on both, which a server that is not PostgreSQL may leave out.
    let sqlstate = match fields.sqlstate.len() {
        5 => text(fields.sqlstate),
        _ => Trouble::ServerUnavailable.row().sqlstate.into(),
    };
    let message = match fields.message {
        [] => "the server gives no reason".into(),
        message => text(message),
    };
    let failure = LoginFailure {
        temporary: TEMPORARY.contains(&&*sqlstate),
        sqlstate: Some(sqlstate),
        message,
    };
    ServerLoginStep::Refused {
        failure,
        severity: text(fields.severity),
    }
}

#[cfg(test)]
#[path = "server_login_tests.rs"]
mod tests;
