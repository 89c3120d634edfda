//! The peer of a server connection: it answers as PostgreSQL would, or nearly so.

use crate::client::QUERIES;
use crate::framing::{Framing, Message};
use crate::internal;
use crate::story::Story;
use pgweir_auth::{
    AuthRequest, ClientAuth, ClientAuthMethod, ClientAuthNonces, ClientAuthRules, ClientStep, MockKey, MockSecret,
    ScramKeyCache, Secret,
};
use pgweir_core::{Endpoint, ServerId};
use pgweir_wire::write::{Column, ErrorText};
use pgweir_wire::{CancelKey, StartupPacket, TransactionStatus, Writer};
use std::collections::{HashMap, VecDeque};

/// The process id of every server. New servers are asked for it.
const PROCESS_ID: u32 = 4711;

/// How a request is answered; the digits of a story.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    Good,
    Error,
    /// ParameterStatus, a notice and a notification before the answer.
    Chatty,
    ManyRows,
    Fatal,
    CopyIn,
    CopyOut,
    CopyBoth,
    /// ReadyForQuery with an invalid status.
    WrongStatus,
    Empty,
}

const ANSWERS: [Answer; 10] = [
    Answer::Good,
    Answer::Error,
    Answer::Chatty,
    Answer::ManyRows,
    Answer::Fatal,
    Answer::CopyIn,
    Answer::CopyOut,
    Answer::CopyBoth,
    Answer::WrongStatus,
    Answer::Empty,
];

/// A copy-in; whether a simple query has begun it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CopyIn {
    Simple,
    Extended,
}

/// The purpose of a server connection: its user, and its `replication` parameter.
pub type Purpose = (Vec<u8>, Vec<u8>);

/// A server.
pub struct Server {
    pub id: ServerId,
    pub endpoint: Endpoint,
    /// The driver may still use its id.
    pub alive: bool,
    /// Its socket is open.
    pub connected: bool,
    pub kept: Vec<u8>,
    /// Bytes that the server has sent and the driver has not read.
    pub outgoing: Vec<u8>,
    pub framing: Framing,
    /// Known from its startup packet on.
    pub purpose: Option<Purpose>,
    pub key: Option<CancelKey>,
    /// It has sent only messages that PostgreSQL would send.
    pub sound: bool,
    /// Its TLS handshake is under way.
    pub securing: bool,
    requests: VecDeque<Message>,
    auth: Option<ClientAuth>,
    /// The texts of its prepared statements.
    texts: HashMap<Vec<u8>, Vec<u8>>,
    /// The text and the parameters of the unnamed portal.
    bound: (Vec<u8>, Vec<Option<Vec<u8>>>),
    status: TransactionStatus,
    ignores_to_sync: bool,
    copy_in: Option<CopyIn>,
    copy_both: bool,
}

impl Server {
    pub fn new(id: ServerId, endpoint: Endpoint) -> Self {
        Server {
            id,
            endpoint,
            alive: true,
            connected: false,
            kept: Vec::new(),
            outgoing: Vec::new(),
            framing: Framing::with_startup_packet(),
            purpose: None,
            key: None,
            sound: true,
            securing: false,
            requests: VecDeque::new(),
            auth: None,
            texts: HashMap::new(),
            bound: (Vec::new(), Vec::new()),
            status: TransactionStatus::Idle,
            ignores_to_sync: false,
            copy_in: None,
            copy_both: false,
        }
    }

    /// The port it listens on.
    pub fn port(&self) -> u16 {
        match self.endpoint {
            Endpoint::Tcp { port, .. } | Endpoint::Unix { port, .. } => port,
        }
    }

    /// Reads the pooler's messages.
    pub fn hear(&mut self, messages: Vec<Message>) {
        for (tag, body) in &messages {
            if is_ssl_request(*tag, body) {
                self.framing.unframed += 1;
            } else if *tag == 0
                && let Ok(StartupPacket::Startup { parameters, .. }) = StartupPacket::read(body)
            {
                let value = |name: &[u8]| {
                    parameters
                        .iter()
                        .find(|(n, _)| *n == name)
                        .map(|(_, v)| v.to_vec())
                        .unwrap_or_default()
                };
                self.purpose = Some((value(b"user"), value(b"replication")));
            }
        }
        self.requests.extend(messages);
    }

    pub fn owes(&self) -> bool {
        !self.requests.is_empty()
    }

    /// Answers the oldest request as the story demands.
    pub fn answer(&mut self, story: &mut Story<'_>, cache: &mut ScramKeyCache) {
        let answer = story.one_of(&ANSWERS);
        self.answer_by(answer, cache);
    }

    /// Answers the oldest request as PostgreSQL would if nothing is wrong.
    pub fn answer_well(&mut self, cache: &mut ScramKeyCache) {
        self.answer_by(Answer::Good, cache);
    }

    fn answer_by(&mut self, answer: Answer, cache: &mut ScramKeyCache) {
        let Some((tag, body)) = self.requests.pop_front() else {
            return;
        };
        match tag {
            0 if is_ssl_request(tag, &body) => self.answer_ssl_request(answer),
            0 => self.begin_login(answer),
            b'p' => self.judge(&body, cache),
            _ if self.ignores_to_sync && tag != b'S' => {}
            _ if self.copy_in.is_some() => self.copy_message(tag),
            b'Q' => self.query(&body, answer),
            b'F' => {
                if answer == Answer::Error {
                    self.error("ERROR");
                } else {
                    self.w().message(b'V', |b| b.extend([0xff; 4]));
                }
                self.ready(answer);
            }
            b'S' => {
                self.ignores_to_sync = false;
                self.ready(answer);
            }
            b'P' | b'B' | b'C' | b'D' | b'E' => self.extended(tag, &body, answer),
            b'c' if self.copy_both => {
                self.copy_both = false;
                let mut w = self.w();
                w.empty(b'c');
                w.command_complete("COPY 0");
                self.ready(Answer::Good);
            }
            _ => {}
        }
    }

    fn w(&mut self) -> Writer<'_> {
        Writer::new(&mut self.outgoing)
    }

    fn error(&mut self, severity: &str) {
        if self.status == TransactionStatus::InTransaction {
            self.status = TransactionStatus::Failed;
        }
        self.w().error(&ErrorText {
            severity,
            sqlstate: "42P05",
            message: "the model says no",
            detail: "",
            hint: "",
        });
    }

    fn chat(&mut self) {
        let mut w = self.w();
        w.parameter_status(b"application_name", b"chatty");
        w.parameter_status(b"TimeZone", b"mars");
        w.notice(&ErrorText {
            severity: "NOTICE",
            sqlstate: "00000",
            message: "hello",
            detail: "",
            hint: "",
        });
        w.message(b'A', |b| b.extend(b"\0\0\0\x01channel\0payload\0"));
    }

    /// A message that was not asked for.
    pub fn speak_unasked(&mut self, story: &mut Story<'_>) {
        match story.pick(3) {
            0 => self.chat(),
            1 => self.w().notice(&ErrorText {
                severity: "WARNING",
                sqlstate: "01000",
                message: "unasked",
                detail: "",
                hint: "",
            }),
            _ => self.error("FATAL"),
        }
    }

    /// Any bytes, or any message at any time.
    pub fn speak_nonsense(&mut self, story: &mut Story<'_>) {
        self.sound = false;
        match story.pick(3) {
            0 => {
                let bytes = story.raw(60);
                self.outgoing.extend(bytes);
            }
            1 => {
                let tag = story.one_of(b"RK23CWdcGHDIEVvnNAtS1sZT");
                let body = story.raw(20);
                self.w().message(tag, |b| b.extend(body));
            }
            _ => {
                self.outgoing.push(story.one_of(b"RKCdcGDENtSZT"));
                let length: u32 = story.one_of(&[0, 3, 4, 5, 9, 100, 20_000, 2_000_000, 0x3fff_fffe, u32::MAX]);
                self.outgoing.extend(length.to_be_bytes());
                let bytes = story.raw(20);
                self.outgoing.extend(bytes);
            }
        }
    }

    fn answer_ssl_request(&mut self, answer: Answer) {
        match answer {
            Answer::Error => self.outgoing.push(b'N'),
            Answer::Fatal => self.error("FATAL"),
            // Bytes in the clear that TLS does not protect.
            Answer::Chatty => {
                self.outgoing.push(b'S');
                self.welcome();
            }
            Answer::ManyRows => {
                self.outgoing.push(b'N');
                self.welcome();
            }
            Answer::WrongStatus => self.outgoing.push(b'G'),
            _ => self.outgoing.push(b'S'),
        }
    }

    fn begin_login(&mut self, answer: Answer) {
        let method = match answer {
            Answer::Error => return self.error("FATAL"),
            Answer::Chatty => ClientAuthMethod::ScramSha256,
            Answer::ManyRows => ClientAuthMethod::Md5,
            Answer::CopyIn => ClientAuthMethod::Plain,
            _ => return self.welcome(),
        };
        let user = self.purpose.clone().unwrap_or_default().0;
        let nonces = ClientAuthNonces {
            md5_salt: [1; 4],
            scram: [2; 18],
        };
        let rules = ClientAuthRules {
            mock_key: MockKey::new([9; 32]),
            mock_secret: MockSecret::Scram,
            scram_iterations: 1,
            plain_secrets: false,
        };
        let mut auth = ClientAuth::new(method, &user, nonces, rules);
        let step = auth.handle_secret(Some(Secret::Plain("pw".into())));
        self.auth = Some(auth);
        self.login_step(step);
    }

    fn judge(&mut self, payload: &[u8], cache: &mut ScramKeyCache) {
        if let Some(auth) = &mut self.auth {
            let step = auth.handle_message(payload, cache);
            self.login_step(step);
        }
    }

    fn login_step(&mut self, step: ClientStep) {
        match step {
            ClientStep::Ask(request) => self.w().authentication(&request.payload()),
            ClientStep::Refused(_) => self.error("FATAL"),
            ClientStep::Derive(derivation) => {
                let cache = &mut ScramKeyCache::new(0);
                let step = self
                    .auth
                    .as_mut()
                    .map(|auth| auth.handle_keys(derivation.derive(), cache));
                if let Some(step) = step {
                    self.login_step(step);
                }
            }
            ClientStep::Judge(_) => unreachable!("this server asks nobody else about passwords"),
            ClientStep::Accepted(accepted) => {
                if let Some(closing) = accepted.closing {
                    self.w().authentication(&closing.payload());
                }
                self.welcome();
            }
        }
    }

    fn welcome(&mut self) {
        let key = CancelKey {
            process_id: PROCESS_ID,
            secret: Box::from([1, 2, 3, 4]),
        };
        let mut w = self.w();
        w.authentication(&AuthRequest::Ok.payload());
        for (name, value) in [
            ("server_version", "18.0"),
            ("client_encoding", "UTF8"),
            ("DateStyle", "ISO, MDY"),
            ("TimeZone", "UTC"),
            ("standard_conforming_strings", "on"),
            ("application_name", ""),
            ("search_path", "public"),
        ] {
            w.parameter_status(name.as_bytes(), value.as_bytes());
        }
        w.backend_key_data(key.process_id, &key.secret);
        w.ready_for_query(TransactionStatus::Idle);
        self.key = Some(key);
    }

    fn ready(&mut self, answer: Answer) {
        let mut status = self.status;
        if answer == Answer::WrongStatus {
            status = match status {
                TransactionStatus::Idle => TransactionStatus::InTransaction,
                _ => TransactionStatus::Idle,
            };
            self.status = status;
        }
        self.w().ready_for_query(status);
    }

    fn query(&mut self, body: &[u8], answer: Answer) {
        let text = body.strip_suffix(b"\0").unwrap_or(body);
        match answer {
            Answer::Fatal => return self.error("FATAL"),
            Answer::Error => {
                self.error("ERROR");
                return self.ready(answer);
            }
            Answer::Chatty => self.chat(),
            _ => {}
        }
        if answer == Answer::CopyIn || text.starts_with(b"copy t from") {
            self.copy_in = Some(CopyIn::Simple);
            return self.w().message(b'G', |b| b.extend([0, 0, 0]));
        }
        if matches!(answer, Answer::Good | Answer::Chatty)
            && let Some(outcomes) = internal::of_query(text, PROCESS_ID)
        {
            for outcome in outcomes {
                outcome.write(&mut self.w());
            }
            return self.ready(answer);
        }
        if answer == Answer::CopyBoth {
            self.copy_both = true;
            return self.w().message(b'W', |b| b.extend([0, 0, 0]));
        }
        self.run(text, answer, true);
        self.ready(answer);
    }

    /// The messages of a statement before ReadyForQuery.
    fn run(&mut self, text: &[u8], answer: Answer, describes: bool) {
        if answer == Answer::Empty || text.is_empty() {
            return self.w().empty(b'I');
        }
        if answer == Answer::CopyOut || text.starts_with(b"copy t to") {
            let mut w = self.w();
            w.message(b'H', |b| b.extend([0, 0, 0]));
            w.message(b'd', |b| b.extend(b"1\n"));
            w.empty(b'c');
            return w.command_complete("COPY 1");
        }
        let word = text.split(|b| !b.is_ascii_alphabetic()).next().unwrap_or_default();
        let tag = match &*word.to_ascii_lowercase() {
            b"begin" => {
                self.status = TransactionStatus::InTransaction;
                "BEGIN"
            }
            b"commit" | b"end" => {
                self.status = TransactionStatus::Idle;
                "COMMIT"
            }
            b"rollback" => {
                self.status = TransactionStatus::Idle;
                "ROLLBACK"
            }
            b"deallocate" if text.ends_with(b"all") => "DEALLOCATE ALL",
            b"deallocate" => "DEALLOCATE",
            b"discard" => "DISCARD ALL",
            b"set" => {
                self.w().parameter_status(b"search_path", text);
                "SET"
            }
            _ => {
                let rows = if answer == Answer::ManyRows { 40 } else { 1 };
                let mut w = self.w();
                if describes {
                    let column = |name| Column {
                        name,
                        type_oid: 25,
                        type_bytes: -1,
                    };
                    w.row_description(&[column("a"), column("b")]);
                }
                for _ in 0..rows {
                    w.data_row(2, [Some(&b"eve"[..]), Some(b"pw")]);
                }
                "SELECT 1"
            }
        };
        self.w().command_complete(tag);
    }

    fn extended(&mut self, tag: u8, body: &[u8], answer: Answer) {
        match answer {
            Answer::Fatal => return self.error("FATAL"),
            Answer::Error => {
                self.ignores_to_sync = true;
                return self.error("ERROR");
            }
            Answer::Chatty => self.chat(),
            _ => {}
        }
        match tag {
            b'P' => {
                self.prepare(body);
                self.w().empty(b'1');
            }
            b'B' => {
                self.bind(body);
                self.w().empty(b'2');
            }
            b'C' => self.w().empty(b'3'),
            b'D' => {
                let mut w = self.w();
                if body.first() == Some(&b'S') {
                    w.message(b't', |b| b.extend([0, 0]));
                }
                w.empty(b'n');
            }
            _ => match answer {
                Answer::CopyIn => {
                    self.copy_in = Some(CopyIn::Extended);
                    self.w().message(b'G', |b| b.extend([0, 0, 0]));
                }
                Answer::ManyRows => self.w().empty(b's'),
                Answer::WrongStatus => self.run(QUERIES[1].as_bytes(), Answer::Good, false),
                Answer::Good | Answer::Chatty => self.execute(answer),
                other => self.run(b"select 1", other, false),
            },
        }
    }

    fn prepare(&mut self, body: &[u8]) {
        let mut parts = body.splitn(3, |b| *b == 0).map(<[u8]>::to_vec);
        let (name, text) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        self.texts.insert(name, text);
    }

    fn bind(&mut self, body: &[u8]) {
        let name = body.split(|b| *b == 0).nth(1).unwrap_or_default();
        let text = self.texts.get(name).cloned().unwrap_or_default();
        self.bound = (text, internal::parameters(body).unwrap_or_default());
    }

    /// Runs the unnamed portal.
    fn execute(&mut self, answer: Answer) {
        let (text, values) = self.bound.clone();
        match std::str::from_utf8(&text) {
            Ok(text) if text.contains("pg_catalog.") => {
                internal::of_statement(text, &values, PROCESS_ID).write(&mut self.w());
            }
            _ => self.run(&text, answer, false),
        }
    }

    fn copy_message(&mut self, tag: u8) {
        match tag {
            b'd' | b'H' | b'S' => {}
            b'c' => {
                self.w().command_complete("COPY 1");
                if self.copy_in.take() == Some(CopyIn::Simple) {
                    self.ready(Answer::Good);
                }
            }
            // CopyFail, and messages that may not come here.
            _ => {
                self.error("ERROR");
                match self.copy_in.take() {
                    Some(CopyIn::Simple) => self.ready(Answer::Good),
                    _ => self.ignores_to_sync = true,
                }
            }
        }
    }
}

fn is_ssl_request(tag: u8, packet: &[u8]) -> bool {
    tag == 0 && matches!(StartupPacket::read(packet), Ok(StartupPacket::SslRequest))
}
