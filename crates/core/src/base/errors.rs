//! Everything that can go wrong with a connection, sorted by blame, with its consequences in one table.

use pgweir_wire::write::ErrorText;

/// Who can do something about an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Blame {
    /// The client sent what it must not send.
    Client,
    /// The server failed or is away.
    Server,
    /// A limit that an operator set, or a time that ran out.
    Limit,
    /// The configuration.
    Configuration,
    /// An operator's order.
    Operator,
}

/// What becomes of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It stays open.
    Kept,
    /// It is closed.
    Closed,
    /// Its query is cancelled, its replies are drained, its transaction is rolled back, and it is used
    /// again. If that cannot be done, it is closed.
    Recovered,
    /// There is no connection of this kind.
    None,
}

/// The kinds of errors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Trouble {
    /// Bytes that are no message of the protocol, or a message at the wrong time.
    ProtocolViolation,
    /// Bytes behind an SSLRequest or GSSENCRequest before its answer.
    BytesBeforeEncryption,
    /// A startup packet of a protocol version that is not supported.
    UnsupportedVersion,
    /// Authentication failed; the message is the same for every reason.
    AuthenticationFailed,
    /// A connection that no rule of auth_hba_file matches, or that one rejects.
    LoginRejected,
    /// A user who is not allowed to connect; this is checked after authentication.
    NotAllowed,
    /// No such database.
    NoSuchDatabase,
    /// The database is disabled by an operator.
    DatabaseDisabled,
    /// A setting in the startup packet that the server refuses.
    BadStartupParameter,
    /// A setting in the startup packet that does not exist.
    NoSuchSetting,
    /// `options` in the startup packet that cannot be read.
    BadOptions,
    /// max_client_conn or a similar limit is reached.
    TooManyClients,
    /// Waited longer than query_wait_timeout for a server.
    QueryWaitTimeout,
    /// Refused because clients would wait longer than queue_target for a server.
    QueueTooLong,
    /// One request took longer than query_timeout.
    QueryTimeout,
    /// One transaction ran longer than transaction_timeout.
    TransactionTimeout,
    /// Idle in a transaction longer than idle_transaction_timeout.
    IdleTransactionTimeout,
    /// Idle longer than client_idle_timeout.
    ClientIdleTimeout,
    /// Pinned to its server and idle longer than pin_idle_timeout.
    PinIdleTimeout,
    /// No login within client_login_timeout.
    ClientLoginTimeout,
    /// A transaction block in statement pooling mode.
    TransactionInStatementMode,
    /// A client has cancelled its query, which waited for a server.
    CancelledWhileWaiting,
    /// The linked server's connection broke.
    ServerConnectionLost,
    /// No server could be reached or logged in to.
    ServerUnavailable,
    /// The server refused settings that a server had accepted before.
    RestorationRefused,
    /// More notifications wait for the client than may be kept.
    NotificationsUnread,
    /// The pooler shuts down.
    ShuttingDown,
    /// KILL, KILL_CLIENT, server_fast_close, pg_terminate_backend() of another client, or a database that was taken out
    /// of the configuration.
    Killed,
}

/// One row of the table. The pooler acts on `sqlstate`, `severity` and `client`; the other columns tell the readers of
/// docs/errors.md what to expect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Row {
    /// Who can do something about it.
    pub blame: Blame,
    /// SQLSTATE the client sees.
    pub sqlstate: &'static str,
    /// Severity the client sees.
    pub severity: &'static str,
    /// What becomes of the client connection.
    pub client: Fate,
    /// What becomes of the linked server connection.
    pub server: Fate,
    /// Whether the same request may succeed later without a change.
    pub retry: bool,
}

impl Trouble {
    /// Every kind, in the order of the documentation.
    pub const ALL: [Trouble; 28] = [
        Trouble::ProtocolViolation,
        Trouble::BytesBeforeEncryption,
        Trouble::UnsupportedVersion,
        Trouble::AuthenticationFailed,
        Trouble::LoginRejected,
        Trouble::NotAllowed,
        Trouble::NoSuchDatabase,
        Trouble::DatabaseDisabled,
        Trouble::BadStartupParameter,
        Trouble::NoSuchSetting,
        Trouble::BadOptions,
        Trouble::TooManyClients,
        Trouble::QueryWaitTimeout,
        Trouble::QueueTooLong,
        Trouble::QueryTimeout,
        Trouble::TransactionTimeout,
        Trouble::IdleTransactionTimeout,
        Trouble::ClientIdleTimeout,
        Trouble::PinIdleTimeout,
        Trouble::ClientLoginTimeout,
        Trouble::TransactionInStatementMode,
        Trouble::CancelledWhileWaiting,
        Trouble::ServerConnectionLost,
        Trouble::ServerUnavailable,
        Trouble::RestorationRefused,
        Trouble::NotificationsUnread,
        Trouble::ShuttingDown,
        Trouble::Killed,
    ];

    /// Its consequences.
    pub const fn row(self) -> Row {
        use Blame::*;
        use Fate::*;
        const fn row(blame: Blame, sqlstate: &'static str, client: Fate, server: Fate, retry: bool) -> Row {
            let severity = if matches!(client, Fate::Kept) { "ERROR" } else { "FATAL" };
            Row {
                blame,
                sqlstate,
                severity,
                client,
                server,
                retry,
            }
        }
        match self {
            Trouble::ProtocolViolation => row(Client, "08P01", Closed, Recovered, false),
            Trouble::BytesBeforeEncryption => row(Client, "08P01", Closed, None, false),
            Trouble::UnsupportedVersion => row(Client, "0A000", Closed, None, false),
            Trouble::AuthenticationFailed => row(Client, "28P01", Closed, None, false),
            Trouble::LoginRejected => row(Client, "28000", Closed, None, false),
            Trouble::NotAllowed => row(Client, "28000", Closed, None, false),
            Trouble::NoSuchDatabase => row(Configuration, "3D000", Closed, None, false),
            Trouble::DatabaseDisabled => row(Operator, "57P03", Closed, None, true),
            Trouble::BadStartupParameter => row(Client, "22023", Closed, Kept, false),
            Trouble::NoSuchSetting => row(Client, "42704", Closed, None, false),
            Trouble::BadOptions => row(Client, "42601", Closed, None, false),
            Trouble::TooManyClients => row(Limit, "53300", Closed, None, true),
            Trouble::QueryWaitTimeout => row(Limit, "57014", Closed, None, true),
            Trouble::QueueTooLong => row(Limit, "53300", Kept, None, true),
            Trouble::QueryTimeout => row(Limit, "57014", Closed, Recovered, true),
            Trouble::TransactionTimeout => row(Limit, "25P04", Closed, Recovered, true),
            Trouble::IdleTransactionTimeout => row(Limit, "25P03", Closed, Recovered, true),
            Trouble::ClientIdleTimeout => row(Limit, "57P05", Closed, Recovered, true),
            Trouble::PinIdleTimeout => row(Limit, "57P05", Closed, Recovered, true),
            Trouble::ClientLoginTimeout => row(Limit, "57014", Closed, None, true),
            Trouble::TransactionInStatementMode => row(Client, "0A000", Closed, Recovered, false),
            Trouble::CancelledWhileWaiting => row(Client, "57014", Kept, None, true),
            Trouble::ServerConnectionLost => row(Server, "08006", Closed, Closed, true),
            Trouble::ServerUnavailable => row(Server, "08001", Closed, Closed, true),
            Trouble::RestorationRefused => row(Server, "55000", Closed, Closed, true),
            Trouble::NotificationsUnread => row(Limit, "53400", Closed, Recovered, true),
            Trouble::ShuttingDown => row(Operator, "57P01", Closed, Closed, true),
            Trouble::Killed => row(Operator, "57P01", Closed, Closed, true),
        }
    }

    /// Its error message, with this text, detail and hint.
    pub fn text<'a>(self, message: &'a str, detail: &'a str, hint: &'a str) -> ErrorText<'a> {
        let row = self.row();
        ErrorText {
            severity: row.severity,
            sqlstate: row.sqlstate,
            message,
            detail,
            hint,
        }
    }

    /// What it means, for the documentation.
    pub const fn meaning(self) -> &'static str {
        match self {
            Trouble::ProtocolViolation => "bytes that are no protocol message, or one at the wrong time",
            Trouble::BytesBeforeEncryption => "bytes behind an SSLRequest or GSSENCRequest before its answer",
            Trouble::UnsupportedVersion => "a protocol version other than 3.x",
            Trouble::AuthenticationFailed => "authentication failed, for whatever reason",
            Trouble::LoginRejected => "a connection that no rule of `auth_hba_file` fits, or that one rejects",
            Trouble::NotAllowed => "an authenticated user that may not do this",
            Trouble::NoSuchDatabase => "a database that is neither configured nor covered by `*`",
            Trouble::DatabaseDisabled => "a database under DISABLE",
            Trouble::BadStartupParameter => "a startup parameter that the server refuses",
            Trouble::NoSuchSetting => {
                "a setting in the startup packet that has the name of a keyword of the packet, such as `-c user=x`"
            }
            Trouble::BadOptions => "`options` in the startup packet that set nothing, such as `-c x` or `-p 5432`",
            Trouble::TooManyClients => {
                "`max_client_conn`, `max_db_client_connections` or `max_user_client_connections` is reached"
            }
            Trouble::QueryWaitTimeout => "no server became free within `query_wait_timeout`",
            Trouble::QueueTooLong => "clients would wait longer than `queue_target` for a server",
            Trouble::QueryTimeout => "a request took longer than `query_timeout`, with its wait for a server",
            Trouble::TransactionTimeout => "a transaction ran longer than `transaction_timeout`",
            Trouble::IdleTransactionTimeout => "idle in a transaction longer than `idle_transaction_timeout`",
            Trouble::ClientIdleTimeout => "idle longer than `client_idle_timeout`",
            Trouble::PinIdleTimeout => "pinned to its server and idle longer than `pin_idle_timeout`",
            Trouble::ClientLoginTimeout => "no login within `client_login_timeout`",
            Trouble::TransactionInStatementMode => "a transaction block in statement pooling mode",
            Trouble::CancelledWhileWaiting => "a query cancelled while it waited for a server",
            Trouble::ServerConnectionLost => "the server's connection broke while the client was linked to it",
            Trouble::ServerUnavailable => "no server can be reached or logged in to",
            Trouble::RestorationRefused => "the server refused settings that it had accepted before",
            Trouble::NotificationsUnread => {
                "more bytes of notifications than `max_notification_backlog` wait for a client that listens"
            }
            Trouble::ShuttingDown => "the pooler shuts down",
            Trouble::Killed => {
                "KILL, KILL_CLIENT, `server_fast_close`, or a database taken out of the configuration; also \
                 `pg_terminate_backend()` by another client, but then the server is recovered"
            }
        }
    }
}

/// The table as Markdown, for docs/errors.md.
pub fn errors_markdown() -> String {
    let mut text = String::from(
        "# Errors and their consequences\n\n\
         Generated from `crates/core/src/base/errors.rs` (`cargo run -p pgweir-core --example errors_doc > docs/errors.md`).\n\n\
         SQLSTATE and severity are what the client sees. The other columns say what to do about an error, and what it\n\
         costs:\n\n\
         - *blame*: who can do something about it: the client's program, the server, whoever set a limit, the\n  \
         configuration, or an operator, whose command it follows.\n\
         - *client* and *server*: what becomes of the client's connection, and of the server connection that it uses or\n  \
         waits for. *Kept*: it stays open. *Recovered*: the server's query is cancelled, its replies are drained, its\n  \
         transaction is rolled back, and it is used again; where that cannot be done it is closed. *None*: there is no\n  \
         such connection.\n\
         - *retry*: whether a program that sends the same request again, unchanged, may succeed later. If the error came\n  \
         after a COMMIT was sent, first check whether it took effect.\n\n\
         | what happened | blame | SQLSTATE | severity | client | server | retry |\n|---|---|---|---|---|---|---|\n",
    );
    for trouble in Trouble::ALL {
        let Row {
            blame,
            sqlstate,
            severity,
            client,
            server,
            retry,
        } = trouble.row();
        let retry = if retry { "yes" } else { "no" };
        let line = format!(
            "| {} | {blame:?} | {sqlstate} | {severity} | {client:?} | {server:?} | {retry} |\n",
            trouble.meaning()
        );
        text.push_str(&line);
    }
    text
}

/// PostgreSQL's error in a failed transaction.
pub(crate) const TRANSACTION_FAILED: ErrorText<'static> = ErrorText {
    severity: "ERROR",
    sqlstate: "25P02",
    message: "current transaction is aborted, commands ignored until end of transaction block",
    detail: "",
    hint: "",
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_total_and_consistent() {
        for trouble in Trouble::ALL {
            let row = trouble.row();
            assert_eq!(row.sqlstate.len(), 5, "{trouble:?}");
            assert_eq!(row.severity == "ERROR", row.client == Fate::Kept, "{trouble:?}");
            assert!(!trouble.meaning().is_empty());
        }
        let mut all = Trouble::ALL.to_vec();
        all.dedup();
        assert_eq!(all.len(), Trouble::ALL.len());
    }
}
