//! A server lets us in: what each of its messages means, up to its first ReadyForQuery.

use crate::base::pool_id::LoginFailure;
use pgweir_auth::{ScramKeyCache, ServerAuth, ServerStep};
use pgweir_wire::{BackendTag, CancelKey, ErrorFields, HEADER_BYTES, Header, TransactionStatus};

/// The longest message a server may send before it has let us in, bytes.
pub(crate) const LOGIN_MESSAGE_BYTES_MAX: u32 = 64 * 1024;

/// SQLSTATE of a login that we gave up by ourselves: invalid_authorization_specification.
const NOT_AUTHORIZED: &str = "28000";

/// SQLSTATEs of a server that starts, ends or is full: trying again later may help.
const TEMPORARY: [&str; 4] = ["57P03", "53300", "57P01", "57P02"];

/// Where the login stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, pgweir_freeze::Freeze)]
enum Progress {
    /// The server asks who we are.
    Authenticating,
    /// AuthenticationOk has come.
    LetIn,
}

/// A login to a server.
#[derive(Debug, pgweir_freeze::Freeze)]
pub(crate) struct ServerLogin {
    auth: ServerAuth,
    progress: Progress,
}

/// What is to be done next.
#[derive(Debug)]
pub(crate) enum ServerLoginStep<'i> {
    /// More bytes must come first.
    NeedBytes,
    /// Nothing; there may be another message.
    Nothing,
    /// This is sent as a message tagged `p`.
    Send(Vec<u8>),
    /// The body of a ParameterStatus is taken to heart.
    ParameterStatus(&'i [u8]),
    /// What a cancel must name; `None`: it cannot be cancelled.
    CancelKey(Option<CancelKey>),
    /// We cannot answer what the server asks.
    GiveUp(LoginFailure),
    /// The server says why it does not let us in.
    Refused { failure: LoginFailure, severity: String },
    /// The first ReadyForQuery.
    Welcome,
    /// Bytes that no PostgreSQL sends. What was wrong, for the log.
    Misbehaves(String),
}

impl ServerLogin {
    pub(crate) fn new(auth: ServerAuth) -> Self {
        ServerLogin {
            auth,
            progress: Progress::Authenticating,
        }
    }

    /// The next message of the server, if it is there. Returns how many bytes it had, too.
    pub(crate) fn handle_bytes<'i>(
        &mut self,
        input: &'i [u8],
        keys: &mut ScramKeyCache,
    ) -> (usize, ServerLoginStep<'i>) {
        let header = match Header::read(input) {
            Ok(Some(header)) => header,
            Ok(None) => return (0, ServerLoginStep::NeedBytes),
            Err(error) => return (input.len(), ServerLoginStep::Misbehaves(error.to_string())),
        };
        if header.message_bytes > LOGIN_MESSAGE_BYTES_MAX {
            let what = format!("a message of {} bytes during login", header.message_bytes);
            return (input.len(), ServerLoginStep::Misbehaves(what));
        }
        let bytes = header.message_bytes as usize;
        match input.get(HEADER_BYTES..bytes) {
            Some(body) => (bytes, self.message(header.tag, body, keys)),
            None => (0, ServerLoginStep::NeedBytes),
        }
    }

    fn message<'i>(&mut self, tag: u8, body: &'i [u8], keys: &mut ScramKeyCache) -> ServerLoginStep<'i> {
        match BackendTag::from_byte(tag) {
            Some(BackendTag::Authentication) => self.authentication(body, keys),
            Some(BackendTag::ParameterStatus) => ServerLoginStep::ParameterStatus(body),
            Some(BackendTag::BackendKeyData) => ServerLoginStep::CancelKey(CancelKey::read(body).ok()),
            Some(BackendTag::NoticeResponse | BackendTag::NegotiateProtocolVersion) => ServerLoginStep::Nothing,
            Some(BackendTag::ErrorResponse) => refused(body),
            Some(BackendTag::ReadyForQuery)
                if self.progress == Progress::LetIn
                    && TransactionStatus::read(body) == Some(TransactionStatus::Idle) =>
            {
                ServerLoginStep::Welcome
            }
            _ => ServerLoginStep::Misbehaves(format!("message {:?} during login", char::from(tag))),
        }
    }

    fn authentication(&mut self, body: &[u8], keys: &mut ScramKeyCache) -> ServerLoginStep<'static> {
        match self.auth.handle_message(body, keys) {
            Ok(ServerStep::Send(payload)) => ServerLoginStep::Send(payload),
            Ok(ServerStep::Wait) => ServerLoginStep::Nothing,
            Ok(ServerStep::Authenticated) => {
                self.progress = Progress::LetIn;
                ServerLoginStep::Nothing
            }
            Err(error) => ServerLoginStep::GiveUp(LoginFailure {
                sqlstate: NOT_AUTHORIZED.into(),
                message: format!("cannot log in to the server: {error}"),
                temporary: false,
            }),
        }
    }
}

fn refused(body: &[u8]) -> ServerLoginStep<'static> {
    let fields = ErrorFields::read_prefix(body);
    let text = |b: &[u8]| String::from_utf8_lossy(b).into_owned();
    let sqlstate = text(fields.sqlstate);
    let failure = LoginFailure {
        temporary: TEMPORARY.contains(&&*sqlstate),
        sqlstate,
        message: text(fields.message),
    };
    ServerLoginStep::Refused {
        failure,
        severity: text(fields.severity),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pgweir_auth::{Credential, Password};
    use pgweir_wire::Writer;
    use pgweir_wire::write::ErrorText;

    struct Rig {
        login: ServerLogin,
        keys: ScramKeyCache,
    }

    impl Rig {
        fn new() -> Rig {
            let credential = Credential::Password(Password::from("right"));
            Rig {
                login: ServerLogin::new(ServerAuth::new(b"alice", credential, [9; 18])),
                keys: ScramKeyCache::new(4),
            }
        }

        /// What one message means.
        fn hears(&mut self, write: impl FnOnce(&mut Writer<'_>)) -> String {
            let mut bytes = Vec::new();
            write(&mut Writer::new(&mut bytes));
            let (taken, step) = self.login.handle_bytes(&bytes, &mut self.keys);
            assert_eq!(taken, bytes.len());
            format!("{step:?}")
        }
    }

    const OK: [u8; 4] = [0; 4];
    const CLEARTEXT: [u8; 4] = [0, 0, 0, 3];

    #[test]
    fn a_server_asks_for_the_password_and_lets_us_in() {
        let mut rig = Rig::new();
        assert!(rig.hears(|w| w.authentication(&CLEARTEXT)).starts_with("Send"));
        assert_eq!(rig.hears(|w| w.authentication(&OK)), "Nothing");
        assert!(
            rig.hears(|w| w.parameter_status(b"a", b"b"))
                .starts_with("ParameterStatus")
        );
        assert!(
            rig.hears(|w| w.backend_key_data(7, &[1, 2, 3, 4]))
                .contains("process_id: 7")
        );
        assert_eq!(rig.hears(|w| w.ready_for_query(TransactionStatus::Idle)), "Welcome");
    }

    #[test]
    fn ready_for_query_before_authentication_ok_is_no_welcome() {
        let mut rig = Rig::new();
        let step = rig.hears(|w| w.ready_for_query(TransactionStatus::Idle));
        assert_eq!(step, "Misbehaves(\"message 'Z' during login\")");
    }

    #[test]
    fn a_welcome_is_outside_a_transaction() {
        let mut rig = Rig::new();
        rig.hears(|w| w.authentication(&OK));
        let step = rig.hears(|w| w.ready_for_query(TransactionStatus::InTransaction));
        assert!(step.starts_with("Misbehaves"), "{step}");
    }

    #[test]
    fn we_give_up_where_the_server_asks_out_of_turn() {
        let mut rig = Rig::new();
        rig.hears(|w| w.authentication(&OK));
        let step = rig.hears(|w| w.authentication(&CLEARTEXT));
        assert!(step.starts_with("GiveUp") && step.contains("28000"), "{step}");
    }

    #[test]
    fn a_full_server_is_only_a_matter_of_time_and_a_wrong_password_is_not() {
        for (sqlstate, temporary) in [("53300", true), ("57P03", true), ("28P01", false), ("3D000", false)] {
            let error = ErrorText {
                severity: "FATAL",
                sqlstate,
                message: "no",
                detail: "",
                hint: "",
            };
            let step = Rig::new().hears(|w| w.error(&error));
            assert!(step.contains(&format!("temporary: {temporary}")), "{step}");
            assert!(step.contains("severity: \"FATAL\""), "{step}");
        }
    }

    #[test]
    fn a_message_is_taken_when_it_is_whole_and_never_when_it_is_too_long() {
        let mut rig = Rig::new();
        let mut ok = Vec::new();
        Writer::new(&mut ok).authentication(&OK);
        for cut in 0..ok.len() {
            let (taken, step) = rig.login.handle_bytes(&ok[..cut], &mut rig.keys);
            assert!(
                taken == 0 && matches!(step, ServerLoginStep::NeedBytes),
                "{cut} {step:?}"
            );
        }
        let mut long = vec![b'S'];
        long.extend_from_slice(&LOGIN_MESSAGE_BYTES_MAX.to_be_bytes());
        let (_, step) = rig.login.handle_bytes(&long, &mut rig.keys);
        assert!(matches!(step, ServerLoginStep::Misbehaves(_)), "{step:?}");
    }
}
