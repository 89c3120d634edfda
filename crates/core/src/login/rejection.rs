//! The error for a client that is refused: one entry for each reason.

use crate::base::errors::Trouble;
use crate::base::failure::Failure;
use crate::base::message::bad_header;
use crate::pools::databases::START_POOLS_MAX;
use pgweir_auth::Refused;
use pgweir_wire::{HEADER_BYTES, StartupPacket};
use std::borrow::Cow;

/// PgBouncer's words for `auth_type = any` and a database without a forced user.
pub(crate) const NEEDS_FORCED_USER: &str = "auth_type=any requires forced user";

/// The text for one client. `trouble` determines the consequences.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Rejection {
    pub(crate) trouble: Trouble,
    pub(crate) message: Cow<'static, str>,
    pub(crate) detail: Cow<'static, str>,
    pub(crate) hint: &'static str,
}

impl Rejection {
    pub(crate) fn new(trouble: Trouble, message: impl Into<Cow<'static, str>>, hint: &'static str) -> Self {
        Rejection {
            trouble,
            message: message.into(),
            detail: Cow::Borrowed(""),
            hint,
        }
    }

    /// What the client is told.
    pub(crate) fn failure(&self) -> Failure<'_> {
        Failure::new(self.trouble, &self.message)
            .with_detail(&self.detail)
            .with_hint(self.hint)
    }

    fn with_detail(self, detail: impl Into<Cow<'static, str>>) -> Self {
        Rejection {
            detail: detail.into(),
            ..self
        }
    }

    /// Bytes that are no message of the protocol, or a message at the wrong time.
    pub(crate) fn protocol(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(Trouble::ProtocolViolation, message, "")
    }

    /// Bytes that begin no packet.
    pub(crate) fn bad_header(header: &[u8], why: impl Into<Cow<'static, str>>) -> Self {
        Self::protocol(bad_header(header)).with_detail(why)
    }

    /// A password without the startup packet that says whose it is.
    pub(crate) fn password_first(why: impl Into<Cow<'static, str>>) -> Self {
        Self::protocol("client password pkt before startup packet").with_detail(why)
    }

    /// A first packet that cannot be read. `input` begins with it.
    pub(crate) fn bad_layout(input: &[u8], why: impl Into<Cow<'static, str>>) -> Self {
        let message = match StartupPacket::is_cancel(input) {
            true => "bad cancel request",
            false => "invalid startup packet layout: expected terminator as last byte",
        };
        Self::protocol(message).with_detail(why)
    }

    /// Anything but the answer to a request for authentication; `header` are its first bytes.
    pub(crate) fn no_answer(header: [u8; HEADER_BYTES]) -> Self {
        let message = match header {
            // A length, and the beginning of a version; codes such as that of an SSLRequest begin with 4.
            [0, 0, _, _, 0] => "client re-sent startup pkt",
            _ => "bad packet",
        };
        Self::protocol(message).with_detail(format!("expected password response, got message type {}", header[0]))
    }

    /// Bytes behind a request for encryption: somebody between client and pooler may have inserted them (CVE-2021-23214
    /// and similar).
    pub(crate) fn bytes_before_encryption(is_tls: bool) -> Self {
        let hint = "This could be either a client-software bug or evidence of an attempted man-in-the-middle attack.";
        let message = match is_tls {
            true => "received unencrypted data after SSL request",
            false => "received unencrypted data after GSSAPI encryption request",
        };
        Self::new(Trouble::BytesBeforeEncryption, message, hint)
    }

    /// `client_tls_sslmode` is `require` or more.
    pub(crate) fn needs_tls() -> Self {
        let hint = "Connect with sslmode=require, or allow plain connections by client_tls_sslmode.";
        Self::new(Trouble::NotAllowed, "SSL required", hint).with_detail("The connection is not encrypted.")
    }

    /// A second SSLRequest or GSSENCRequest, in PostgreSQL's words: it takes this for the number of a version.
    pub(crate) fn asked_twice(is_tls: bool) -> Self {
        let version = if is_tls { "1234.5679" } else { "1234.5680" };
        let text = format!("unsupported frontend protocol {version}: server supports 3.0 to 3.2");
        Self::new(Trouble::UnsupportedVersion, text, "")
    }

    /// A request for encryption on an encrypted connection.
    pub(crate) fn encrypted_twice() -> Self {
        Self::protocol("SSL req inside SSL")
    }

    /// Authentication has failed. The text depends on the conversation only, so it does not reveal whether the user
    /// exists.
    pub(crate) fn not_authenticated(refused: &Refused) -> Self {
        Self::new(Trouble::AuthenticationFailed, refused.told, "")
    }

    /// A startup parameter that cannot be used.
    pub(super) fn bad_parameter(message: String) -> Self {
        Self::new(Trouble::BadStartupParameter, message, "")
    }

    /// A user name that is longer than any may be. The same in every database, so it shows none.
    pub(super) fn too_long_user(bytes_max: usize) -> Self {
        let detail = format!("expected at most {bytes_max} bytes");
        Self::protocol("username too long").with_detail(detail)
    }

    /// `options` that cannot be read.
    pub(super) fn bad_options(message: String) -> Self {
        Self::new(Trouble::BadOptions, message, "")
    }

    /// A setting of this name cannot exist.
    pub(crate) fn no_such_setting(name: &str) -> Self {
        let message = format!("unrecognized configuration parameter \"{name}\"");
        Self::new(Trouble::NoSuchSetting, message, "")
    }

    /// No rule matches the connection. `detail` contains only what the client knows itself.
    pub(crate) fn no_rule(detail: impl Into<Cow<'static, str>>) -> Self {
        Self::new(Trouble::LoginRejected, "no authentication method is found", "").with_detail(detail)
    }

    /// A rule rejects the connection. `detail` contains only what the client knows itself.
    pub(crate) fn login_rejected(detail: impl Into<Cow<'static, str>>) -> Self {
        Self::new(Trouble::LoginRejected, "login rejected", "").with_detail(detail)
    }

    /// The client's system user may not be this user. The text is that for a user who does not exist.
    pub(crate) fn not_peer() -> Self {
        Self::new(Trouble::AuthenticationFailed, "unix socket login rejected", "")
    }

    /// The client's certificate is not accepted. The text is that for a user who does not exist.
    pub(crate) fn certificate_refused() -> Self {
        Self::new(Trouble::AuthenticationFailed, "certificate authentication failed", "")
    }

    /// SHUTDOWN has been ordered.
    pub(crate) fn shutting_down() -> Self {
        let message = "the pooler is shutting down";
        Self::new(Trouble::ShuttingDown, message, "Try again in a moment.")
    }

    /// All places of `max_client_conn` are taken.
    pub(crate) fn no_place(max_client_conn: u32) -> Self {
        let message = "no more connections allowed (max_client_conn)";
        let hint = "Close idle clients, or raise max_client_conn.";
        Self::new(Trouble::TooManyClients, message, hint).with_detail(format!("max_client_conn is {max_client_conn}"))
    }

    /// The connection was the oldest when too many were logging in: see [`crate::login::arrivals`].
    pub(crate) fn too_slow() -> Self {
        let message = "no more connections allowed (max_client_conn)";
        let hint = "Log in without delay, or raise max_client_conn.";
        let detail = "more connections came than may be logging in, and this one has taken longest";
        Self::new(Trouble::TooManyClients, message, hint).with_detail(detail)
    }

    /// A limit on clients is reached; `limit` is its setting.
    pub(crate) fn limit_reached(trouble: Trouble, limit: &str) -> Self {
        // PgBouncer's text for each limit.
        let message = match limit {
            "max_client_conn" => format!("no more connections allowed ({limit})"),
            _ => format!("client connections exceeded ({limit})"),
        };
        Self::new(trouble, message, "Close idle clients, or raise the limit.")
    }

    /// A user who may not use the console.
    pub(crate) fn not_on_console() -> Self {
        let hint = "Add the user to admin_users or stats_users.";
        Self::new(Trouble::NotAllowed, "not allowed", hint)
    }

    pub(crate) fn no_such_database(database: &str) -> Self {
        Self::new(Trouble::NoSuchDatabase, format!("no such database: {database}"), "")
    }

    /// The server has no such database. The text is PostgreSQL's.
    pub(crate) fn absent_database(database: &str) -> Self {
        let message = format!("database \"{database}\" does not exist");
        Self::new(Trouble::NoSuchDatabase, message, "")
    }

    /// A database under DISABLE.
    pub(crate) fn database_disabled(database: &str) -> Self {
        let message = format!("database \"{database}\" is disabled");
        Self::new(Trouble::DatabaseDisabled, message, "").with_detail("An administrator has disabled it.")
    }

    /// With `auth_type = any` a name proves nothing, so the configuration must name the user for servers.
    pub(crate) fn needs_forced_user() -> Self {
        Self::new(
            Trouble::NotAllowed,
            "bouncer config error",
            "Add user= to the database's line.",
        )
        .with_detail(NEEDS_FORCED_USER)
    }

    /// See [`START_POOLS_MAX`].
    pub(crate) fn too_many_starts() -> Self {
        let message = "too many different values of settings that only a new connection can have";
        let hint = "Leave settings such as log_connections and post_auth_delay out of the startup packet.";
        let detail = format!("At most {START_POOLS_MAX} combinations are allowed for a database and user.");
        Self::new(Trouble::BadStartupParameter, message, hint).with_detail(detail)
    }
}
