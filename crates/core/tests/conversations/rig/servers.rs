//! The servers of a test: they log in, answer and die.

use super::Rig;
use super::transcript::{line, messages};
use pgweir_core::{Address, Connected, ServerId};
use pgweir_wire::write::ErrorText;
use pgweir_wire::{TransactionStatus, Writer};

/// What every server of these tests reports at login.
pub const REPORTED: [(&str, &str); 5] = [
    ("application_name", ""),
    ("client_encoding", "UTF8"),
    ("DateStyle", "ISO, MDY"),
    ("server_version", "15.1"),
    ("TimeZone", "UTC"),
];

/// The beginning of the question for the number of connections that a server allows, and the answer.
const LIMIT_QUESTION: &str = "Query SELECT pg_catalog.current_setting('max_connections')";

const CONNECTIONS_ALLOWED: u32 = 97;

/// The first question to a new server.
pub const NATURE_QUESTION: &str = "SELECT pg_catalog.pg_backend_pid()";

impl Rig {
    /// A server completes a simple query.
    pub fn completes(&mut self, server: ServerId, tag: &str) {
        self.says(server, |w| {
            w.command_complete(tag);
            w.ready_for_query(TransactionStatus::Idle);
        });
    }

    /// auth_query's answer about a user: this secret, or no row.
    pub fn auth_query_finds(&mut self, server: ServerId, user: &str, secret: Option<&str>) {
        self.says(server, |w| {
            w.empty(b'1');
            w.empty(b'2');
            if let Some(secret) = secret {
                w.data_row(2, [Some(user.as_bytes()), Some(secret.as_bytes())]);
            }
            w.command_complete("SELECT");
            w.ready_for_query(TransactionStatus::Idle);
        });
    }

    pub fn connect_fails(&mut self, id: ServerId) {
        self.closed.insert(id.into());
        self.pooler.handle_server_connect_failed(self.now, id, "connect failed");
        self.settle(&[]);
    }

    /// Every server that the pooler wants logs in.
    pub fn servers_log_in(&mut self) -> Vec<ServerId> {
        let mut up = Vec::new();
        while let Some(id) = self.connects.pop_front() {
            if !self.closed.contains(&id.into()) {
                self.server_logs_in(id);
                up.push(id);
            }
        }
        up
    }

    pub fn server_connects(&mut self, id: ServerId) {
        self.server_connects_at(id, [127, 0, 0, 1]);
    }

    /// A server is reached at this address.
    pub fn server_connects_at(&mut self, id: ServerId, address: [u8; 4]) {
        let local = Address::Tcp(([127, 0, 0, 1], 5432).into());
        let remote = Address::Tcp((address, 5432).into());
        self.pooler
            .handle_server_connected(self.now, id, Connected { remote, local });
        self.settle(&[]);
        self.written.remove(&id.into());
    }

    pub fn server_logs_in(&mut self, id: ServerId) {
        self.server_logs_in_with(id, &[]);
    }

    /// A server accepts the login and reports these settings, too.
    pub fn server_logs_in_with(&mut self, id: ServerId, reports: &[(&str, &str)]) {
        self.server_connects(id);
        self.server_welcomes(id, reports);
    }

    /// A server that has been reached accepts the login and reports these settings, too.
    pub fn server_welcomes(&mut self, id: ServerId, reports: &[(&str, &str)]) {
        self.says(id, |w| {
            w.authentication(&0u32.to_be_bytes());
            for (name, value) in REPORTED.iter().chain(reports) {
                w.parameter_status(name.as_bytes(), value.as_bytes());
            }
            w.backend_key_data(process_id(id), b"key!");
            w.ready_for_query(TransactionStatus::Idle);
        });
        self.answers_questions_at_login(id);
    }

    /// A new server answers what it is asked before its first client gets it.
    pub fn answers_questions_at_login(&mut self, id: ServerId) {
        if self.is_asked(id, &format!("Query {NATURE_QUESTION}")) {
            self.tells_process_id(id, process_id(id));
        }
        if self.is_asked_for_limit(id) {
            self.tells_process_id(id, CONNECTIONS_ALLOWED);
        }
        if self.is_asked(id, "Bind  pgweir_7") {
            self.tells_rows(id, |_| vec![vec![Some(b"role"), Some(b"none"), Some(b"f")]]);
        }
        if self.is_asked(id, "Bind  pgweir_9") && self.catalogs_are_empty {
            self.tells_catalog(id, &[], &[]);
        }
    }

    /// A server answers internal requests, and no Query.
    pub fn answers(&mut self, server: ServerId, told: &[String], reports: &[(&str, &str)]) {
        self.says(server, |w| {
            for line in told {
                match line.split_once(' ').map_or(&**line, |(word, _)| word) {
                    "Parse" => w.empty(b'1'),
                    "Bind" => w.empty(b'2'),
                    "Close" => w.empty(b'3'),
                    "Execute" => w.command_complete("SELECT 1"),
                    "Sync" => {
                        for (name, value) in reports {
                            w.parameter_status(name.as_bytes(), value.as_bytes());
                        }
                        w.ready_for_query(TransactionStatus::Idle);
                    }
                    _ => {}
                }
            }
        });
    }

    /// A server answers the question for its process id.
    pub fn tells_process_id(&mut self, id: ServerId, process_id: u32) {
        self.written.remove(&id.into());
        self.says(id, |w| {
            w.data_row(1, [Some(process_id.to_string().as_bytes())]);
            w.command_complete("SELECT 1");
            w.ready_for_query(TransactionStatus::Idle);
        });
    }

    /// Whether a server was asked how many connections it allows.
    fn is_asked_for_limit(&self, id: ServerId) -> bool {
        let written = self.written.get(&id.into()).map_or(&[][..], Vec::as_slice);
        let asks = |(tag, body): (u8, &[u8])| line(true, tag, body).starts_with(LIMIT_QUESTION);
        messages(written).into_iter().any(asks)
    }

    /// Whether a server has been sent a message that the test has not looked at.
    pub fn is_asked(&self, id: ServerId, what: &str) -> bool {
        messages(self.written.get(&id.into()).map_or(&[], Vec::as_slice))
            .iter()
            .any(|(tag, body)| line(true, *tag, body) == what)
    }

    /// A server answers the segment that reads the catalog.
    pub fn tells_catalog(&mut self, id: ServerId, objects: &[[&str; 4]], sources: &[[&str; 3]]) {
        fn row<'a>(values: &[&'a str]) -> Vec<Option<&'a [u8]>> {
            values.iter().map(|v| Some(v.as_bytes())).collect()
        }
        self.tells_rows(id, |statement| match statement {
            "pgweir_3" => vec![row(&["a_setting", "before", "after"])],
            "pgweir_b" => vec![row(&["0"])],
            "pgweir_9" => objects.iter().map(|r| row(r)).collect(),
            "pgweir_a" => sources.iter().map(|r| [row(r), vec![None]].concat()).collect(),
            other => panic!("{other} is no part of it"),
        });
    }

    /// A server tells whether it is a standby, and its position in the write-ahead log.
    pub(super) fn tells_position(&mut self, id: ServerId) {
        let (in_recovery, lsn) = self.replayed.get(&id).map_or((&b"f"[..], 1), |lsn| (b"t", *lsn));
        self.says(id, |w| {
            w.data_row(2, [Some(in_recovery), Some(format!("0/{lsn:X}").as_bytes())]);
            w.command_complete("SELECT 1");
        });
    }

    /// A server answers the question for its settings.
    pub fn tells_settings(&mut self, id: ServerId, settings: &[(&str, &str)]) {
        self.tells_rows(id, |_| {
            let rows = settings.iter();
            rows.map(|(name, value)| vec![Some(name.as_bytes()), Some(value.as_bytes()), Some(b"f")])
                .collect()
        });
    }

    /// A server answers a segment of internal statements, each with these rows.
    fn tells_rows<'r>(&mut self, id: ServerId, rows_of: impl Fn(&str) -> Vec<Vec<Option<&'r [u8]>>>) {
        let told = self.told(id);
        assert!(!told.iter().any(|line| line.starts_with("Query")), "{told:?}");
        self.replies(id, &told, None, |w, statement| {
            for row in rows_of(statement.trim()) {
                w.data_row(row.len(), row);
            }
            w.command_complete("SELECT 1");
        });
    }

    pub fn server_dies(&mut self, id: ServerId) {
        self.closed.insert(id.into());
        self.pooler.handle_server_closed(self.now, id);
        self.settle(&[]);
    }
}

/// The process id of a server.
pub fn process_id(server: ServerId) -> u32 {
    4711 + server.0.index
}

/// An ERROR from a server.
pub fn error(sqlstate: &'static str, message: &'static str) -> ErrorText<'static> {
    ErrorText {
        severity: "ERROR",
        sqlstate,
        message,
        detail: "",
        hint: "",
    }
}

/// A FATAL from a server.
pub fn fatal(sqlstate: &'static str, message: &'static str) -> ErrorText<'static> {
    ErrorText {
        severity: "FATAL",
        ..error(sqlstate, message)
    }
}
