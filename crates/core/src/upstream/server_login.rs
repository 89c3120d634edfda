//! The login to a server: what each of its messages means, up to its first ReadyForQuery.

use crate::base::pool_id::LoginFailure;
use crate::upstream::standing::{Judgement, QUESTION, Standing};
use pgweir_auth::{Derivation, ScramKeyCache, ScramKeys, ServerAuth, ServerStep};
use pgweir_config::TargetSessionAttrs;
use pgweir_wire::{BackendTag, CancelKey, ErrorFields, HEADER_BYTES, Header, TransactionStatus, backend};

/// The longest message that a server may send during the login, bytes.
pub(crate) const LOGIN_MESSAGE_BYTES_MAX: u32 = 64 * 1024;

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
    /// The pooler cannot answer the server's authentication request.
    GiveUp(LoginFailure),
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
        }
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
            _ => ServerLoginStep::Misbehaves(format!("message {:?} during login", char::from(tag))),
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
            Err(error) => gave_up(&error.to_string()),
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
            Err(why) => Some(gave_up(&why)),
            Ok(derived) => match self.auth.handle_keys(derived, keys)? {
                ServerStep::Send(payload) => Some(ServerLoginStep::Send(payload)),
                _ => None,
            },
        }
    }
}

fn gave_up(why: &str) -> ServerLoginStep<'static> {
    ServerLoginStep::GiveUp(LoginFailure {
        sqlstate: Some(NOT_AUTHORIZED.into()),
        message: format!("cannot log in to the server: {why}"),
        temporary: false,
    })
}

fn refused(body: &[u8]) -> ServerLoginStep<'static> {
    let fields = ErrorFields::read_prefix(body);
    let text = |b: &[u8]| String::from_utf8_lossy(b).into_owned();
    let sqlstate = text(fields.sqlstate);
    let failure = LoginFailure {
        temporary: TEMPORARY.contains(&&*sqlstate),
        sqlstate: Some(sqlstate),
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
            Rig::that_wants(TargetSessionAttrs::Any)
        }

        fn that_wants(wanted: TargetSessionAttrs) -> Rig {
            let credential = Credential::Password(Password::from("right"));
            Rig {
                login: ServerLogin::new(ServerAuth::new(b"alice", credential, [9; 18]), wanted),
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
        assert_eq!(
            rig.hears(|w| w.ready_for_query(TransactionStatus::Idle)),
            "Welcome(None)"
        );
    }

    /// The outcome of a login to a server that reports these settings.
    fn login(wanted: TargetSessionAttrs, reports: &[(&str, &str)]) -> (Rig, String) {
        let mut rig = Rig::that_wants(wanted);
        rig.hears(|w| w.authentication(&OK));
        for (name, value) in reports {
            rig.hears(|w| w.parameter_status(name.as_bytes(), value.as_bytes()));
        }
        let step = rig.hears(|w| w.ready_for_query(TransactionStatus::Idle));
        (rig, step)
    }

    #[test]
    fn a_server_that_says_what_it_is_is_not_asked() {
        let standby = [("in_hot_standby", "on"), ("default_transaction_read_only", "off")];
        let (_, step) = login(TargetSessionAttrs::ReadWrite, &standby);
        assert_eq!(step, "Unwanted(\"session is read-only\")");
        let (_, step) = login(TargetSessionAttrs::Standby, &standby);
        assert_eq!(step, "Welcome(None)");
        let (_, step) = login(TargetSessionAttrs::PreferStandby, &[("in_hot_standby", "off")]);
        assert_eq!(step, "Welcome(Some(\"server is not in hot standby mode\"))");
    }

    /// PostgreSQL 13 and older, and poolers.
    #[test]
    fn a_server_that_does_not_say_is_asked_once() {
        for (answer, expected) in [
            (["f", "off"], "Welcome(None)"),
            (["f", "on"], "Unwanted(\"session is read-only\")"),
            (["t", "on"], "Unwanted(\"session is read-only\")"),
        ] {
            let (mut rig, step) = login(TargetSessionAttrs::ReadWrite, &[]);
            assert!(
                step.starts_with("Ask(\"SELECT pg_catalog.pg_is_in_recovery()"),
                "{step}"
            );
            rig.hears(|w| w.data_row(2, answer.map(|value| Some(value.as_bytes()))));
            assert_eq!(rig.hears(|w| w.command_complete("SELECT 1")), "Nothing");
            let step = rig.hears(|w| w.ready_for_query(TransactionStatus::Idle));
            assert_eq!(step, expected);
        }
        let (mut rig, _) = login(TargetSessionAttrs::ReadWrite, &[]);
        let step = rig.hears(|w| w.ready_for_query(TransactionStatus::Idle));
        assert!(step.starts_with("Unwanted"), "no answer: {step}");
        let (mut rig, _) = login(TargetSessionAttrs::Any, &[]);
        let step = rig.hears(|w| w.data_row(1, [Some(&b"f"[..])]));
        assert!(step.starts_with("Misbehaves"), "an answer to no question: {step}");
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
