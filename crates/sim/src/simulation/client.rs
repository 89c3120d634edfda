//! One client: several sessions in turn, several flights in each.

use super::flight::{Author, Flight};
use super::oracle::{Oracle, Verdict};
use super::topology::{Mode, Topology};
use crate::model::audit::Ran;
use crate::random::Random;
use crate::transcript::{backend_to_text, frontend_to_text, split_messages};
use pgweir_wire::{CancelKey, ErrorFields, Header, ProtocolVersion, StartupPacket};

/// The state of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Between sessions.
    Offline,
    /// The startup packet is on its way.
    LoggingIn,
    /// Thinks.
    Idle,
    /// Waits for the answers to its flight.
    Busy,
    /// The pooler has sent the error with which it closes the connection; nothing else may follow.
    Refused,
    /// Has sent Terminate or vanished.
    Gone,
}

/// What the client does next.
#[derive(Debug, PartialEq, Eq)]
pub enum Wish {
    /// Nothing: it waits.
    Nothing,
    /// It acts after a time to think.
    Think,
    /// It sends the next stage of its flight.
    NextStage,
    /// It vanishes: its answers cannot be checked any more.
    Leave,
}

/// A client.
#[derive(Debug)]
pub struct Client {
    /// The client's number.
    pub number: u64,
    /// Its own random numbers.
    pub random: Random,
    /// Its state.
    pub phase: Phase,
    /// The number of its connection in the world.
    pub connection: Option<u64>,
    /// Sessions still to come.
    pub sessions_left: u64,
    /// Flights of this session still to come.
    pub flights_left: u64,
    /// The number of this session in the whole run.
    pub session_number: u64,
    /// Its cancel key.
    pub key: Option<CancelKey>,
    /// Sends rubbish in this session. Its answers are checked only for other clients' tokens.
    pub rubbish: bool,
    /// Sends whatever might harm other clients.
    pub hostile: bool,
    /// It has already stopped in the midst of a message.
    has_stalled: bool,
    /// It will go away while it logs in.
    pub abandons: bool,
    /// Number of flights sent in all sessions: identifies a flight for later events.
    pub flights_sent: u64,
    /// Number of segments answered completely, in all sessions.
    pub answered: u64,
    received: Vec<u8>,
    oracle: Option<Oracle>,
    author: Option<Author>,
    flight: Flight,
    stage: usize,
    /// Bytes of the stage that are still to be sent.
    unsent_bytes: usize,
    ready_seen: usize,
    /// Statements of this flight that its servers have run.
    ran: Vec<Ran>,
    /// No transaction was open when this flight began.
    begins_idle: bool,
    /// Nor does its text change settings.
    leaves_settings: bool,
    settings: Vec<(&'static str, String)>,
}

/// What is kept of a client that has left in the midst of a flight.
#[derive(Debug)]
pub struct Retired {
    oracle: Oracle,
    reported: bool,
}

impl Retired {
    /// The error, if a server ran this statement of the client's under wrong settings.
    pub fn judge(&self, ran: &Ran) -> Option<String> {
        self.oracle.judge(ran, self.reported)
    }
}

/// Additional startup parameters of logins that are abandoned: values that other clients use, too, and some that every
/// server refuses.
const STRANGE: [(&str, &[&str]); 5] = [
    ("search_path", &["public", "a"]),
    ("IntervalStyle", &["iso_8601"]),
    ("extra_float_digits", &["0", "99", "3"]),
    ("work_mem", &["4MB", "1MB", "much"]),
    ("role", &["none"]),
];

/// How long a client stays that breaks the protocol, or has stopped in the midst of a message, microseconds.
pub const STAYS_US_MAX: u64 = 100_000;
const STALLS_US_MAX: u64 = 40_000_000;

/// Whether an unexpected message is allowed.
fn allowed_refusal(topology: &Topology, fields: &ErrorFields<'_>, body: &[u8]) -> bool {
    let faulty = topology.servers_may_die();
    // docs/differences.md: it is not known which Syncs the server has swallowed.
    let detail = b"DSync among the data of a copy that failed\0";
    let copy_in_doubt = body.windows(detail.len()).any(|w| w == detail);
    match fields.sqlstate {
        // A client that has vanished counts until the pooler notices.
        b"53300" => topology.max_client_conn <= topology.clients,
        b"57014" => topology.query_wait_timeout_ms > 0 && fields.message == b"query_wait_timeout",
        b"57P05" => topology.pin_idle_timeout_ms > 0,
        // Several servers in a row have refused the settings.
        b"55000" => {
            (topology.refusal_percent > 0
                || topology.has_unseen_limits()
                || topology.reserved_names && is_of_reserved_name(body))
                && fields.message == b"cannot restore the session's settings"
        }
        b"08006" if copy_in_doubt => true,
        b"08006" | b"08001" | b"57P01" | b"57P03" | b"08P01" => faulty,
        _ => false,
    }
}

/// Whether a message says that too many clients wait for a server (queue_target).
fn is_refused_early(message: &[u8]) -> bool {
    let text = b"too many clients wait for a server";
    message.first() == Some(&b'E') && message.windows(text.len()).any(|w| w == text)
}

/// Whether a message is about a name under a prefix that a library has reserved.
fn is_of_reserved_name(body: &[u8]) -> bool {
    let name = b"invalid configuration parameter name \"plpgsql.";
    body.windows(name.len()).any(|w| w == name)
}

impl Client {
    /// A client that has not connected yet.
    pub fn new(number: u64, random: Random, topology: &Topology) -> Self {
        Client {
            number,
            random,
            phase: Phase::Offline,
            connection: None,
            sessions_left: topology.sessions,
            flights_left: 0,
            session_number: 0,
            key: None,
            rubbish: false,
            hostile: false,
            has_stalled: false,
            abandons: false,
            flights_sent: 0,
            answered: 0,
            received: Vec::new(),
            oracle: None,
            author: None,
            flight: Flight::default(),
            stage: 0,
            unsent_bytes: 0,
            ready_seen: 0,
            ran: Vec::new(),
            begins_idle: false,
            leaves_settings: false,
            settings: Vec::new(),
        }
    }

    /// Begins a session; returns the startup packet.
    pub fn connect(&mut self, topology: &Topology, session_number: u64, connection: u64) -> Vec<u8> {
        self.connection = Some(connection);
        self.session_number = session_number;
        self.sessions_left -= 1;
        self.flights_left = topology.flights;
        self.phase = Phase::LoggingIn;
        self.key = None;
        self.rubbish = self.random.below(100) < topology.rubbish_percent;
        self.hostile = topology.hostile_percent > 0 && self.random.below(100) < topology.hostile_percent;
        self.rubbish |= self.hostile;
        self.received.clear();
        self.author = Some(Author::new(self.random.split(), topology, session_number));
        let database = format!("db{}", self.random.below(topology.databases));
        let user = format!("user{}", self.number % topology.users);
        self.settings = Vec::new();
        if topology.startup_settings {
            for (name, value) in [
                ("application_name", format!("client tok{session_number}x")),
                ("DateStyle", "ISO, DMY".into()),
                ("TimeZone", "Asia/Tokyo".into()),
                ("work_mem", "2MB".into()),
                ("app.user", format!("user tok{session_number}x")),
            ] {
                if self.random.percent(50) {
                    self.settings.push((name, value));
                }
            }
        }
        // If the startup packet names a role, the current role is another one, and RESET ALL does not change it.
        let has_roles = topology.role_defaults.iter().any(|d| d.name == "role");
        if topology.startup_settings && has_roles && self.random.percent(40) {
            self.settings.push(("role", "captain".into()));
        }
        self.abandons = topology.startup_settings && self.random.below(100) < topology.abandoned_percent;
        if self.abandons {
            self.rubbish = true;
            for (name, values) in STRANGE {
                if self.random.percent(50) {
                    self.settings.push((name, self.random.pick(values).to_string()));
                }
            }
        }
        let mut packet = Vec::new();
        let fixed = [("user", user), ("database", database)];
        let parameters = fixed.iter().chain(&self.settings);
        StartupPacket::write_startup(
            &mut packet,
            ProtocolVersion::V3_0,
            parameters.map(|(n, v)| (n.as_bytes(), v.as_bytes())),
        );
        let mut oracle = Oracle::new(topology, &packet);
        // The client's own values take precedence.
        let named = |name: &str| self.settings.iter().any(|(n, _)| n.eq_ignore_ascii_case(name));
        for setting in topology.connect_settings.iter().filter(|(name, _)| !named(name)) {
            oracle.connect_query(&topology.connect_statement(setting));
        }
        self.oracle = Some(oracle);
        packet
    }

    /// The next flight, or `None` if the session ends with Terminate. The first stage is sent at once.
    pub fn next_flight(&mut self, topology: &Topology) -> Option<()> {
        if self.flights_left == 0 {
            return None;
        }
        self.flights_left -= 1;
        self.flights_sent += 1;
        let author = self.author.as_mut()?;
        self.flight = if self.flights_left == 0 {
            author.last_flight()
        } else {
            author.flight()
        };
        self.stage = 0;
        self.ready_seen = 0;
        self.phase = Phase::Busy;
        let oracle = self.oracle.as_mut()?;
        oracle.cancelled = false;
        if topology.mode != Mode::Session {
            oracle.fall_into_step();
        }
        let bytes = self.flight.stages.concat();
        let changes = |word: &[u8]| bytes.windows(word.len()).any(|w| w.eq_ignore_ascii_case(word));
        self.begins_idle = oracle.is_idle();
        self.leaves_settings = self.begins_idle && ![&b"set"[..], b"discard"].into_iter().any(changes);
        self.ran.clear();
        oracle.forget_flight();
        oracle.begin(&self.flight.segments);
        Some(())
    }

    /// Bytes of the next stage.
    pub fn next_stage(&mut self) -> Vec<u8> {
        let bytes = self.flight.stages[self.stage].clone();
        self.stage += 1;
        self.unsent_bytes = bytes.len();
        bytes
    }

    /// Bytes that are not the protocol at all.
    pub fn some_rubbish(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for _ in 0..self.random.between(1, 5) {
            match self.random.below(4) {
                0 => bytes.extend((0..self.random.between(1, 40)).map(|_| self.random.next() as u8)),
                1 => {
                    // A known tag, a right length, a malformed body.
                    let body: Vec<u8> = (0..self.random.below(20)).map(|_| self.random.next() as u8).collect();
                    let tag = *self.random.pick(b"QPBEDCSHFdcfXp");
                    pgweir_wire::Writer::new(&mut bytes).message(tag, |b| b.extend_from_slice(&body));
                }
                2 => {
                    // A message that is never finished.
                    bytes.push(*self.random.pick(b"QPBd"));
                    bytes.extend((self.random.below(1 << 20) as u32).to_be_bytes());
                }
                _ => {
                    if let Some(author) = &mut self.author {
                        bytes.extend(author.flight().stages.concat());
                    }
                }
            }
        }
        bytes
    }

    /// Messages of the protocol that no driver sends, and how long the client stays afterwards at most, microseconds.
    pub fn some_hostility(&mut self) -> (Vec<u8>, u64) {
        let mut bytes = Vec::new();
        for _ in 0..self.random.between(1, 3) {
            match self.random.below(3) {
                0 => self.flood(&mut bytes),
                1 => self.guess_names(&mut bytes),
                _ => bytes.extend(
                    self.author
                        .iter_mut()
                        .flat_map(|author| author.flight().stages.concat()),
                ),
            }
        }
        if self.has_stalled || self.random.percent(40) {
            return (bytes, STAYS_US_MAX);
        }
        // It stops at a point where other clients may have to wait for it.
        self.has_stalled = true;
        let mut w = pgweir_wire::Writer::new(&mut bytes);
        let mut tag = *self.random.pick(b"QPBDE");
        match self.random.below(4) {
            0 => w.query(b"begin"),
            1 => {
                w.query(b"copy kv from stdin");
                // Another message would wait for replies that the COPY delays (seeds-that-failed.txt).
                tag = b'd';
            }
            2 => w.parse(b"", b"select 1", &[0, 0]),
            _ => {}
        }
        let mut message = Vec::new();
        pgweir_wire::Writer::new(&mut message).message(tag, |b| b.resize(200, b' '));
        let sent = self.random.below(message.len() as u64) as usize;
        bytes.extend_from_slice(&message[..sent]);
        (bytes, STALLS_US_MAX)
    }

    /// Hundreds of messages together.
    fn flood(&mut self, bytes: &mut Vec<u8>) {
        let mut w = pgweir_wire::Writer::new(bytes);
        w.parse(b"", b"select 1", &[0, 0]);
        let kind = self.random.below(4);
        for _ in 0..self.random.between(100, 300) {
            match kind {
                0 => w.sync(),
                1 => w.flush(),
                2 => w.bind_text(b"", &[]),
                _ => {
                    w.bind_text(b"", &[]);
                    w.execute();
                    w.sync();
                }
            }
        }
        w.sync();
    }

    /// Names that the pooler may use for internal statements and for those of its clients.
    fn guess_names(&mut self, bytes: &mut Vec<u8>) {
        let mut w = pgweir_wire::Writer::new(bytes);
        for _ in 0..self.random.between(3, 30) {
            let number = self.random.below(48);
            let name = match self.random.below(3) {
                0 => format!("pgweir_{number}"),
                1 => format!("pgweir_{number:x}"),
                _ => format!("pgweir_{number:x}_"),
            };
            match self.random.below(8) {
                0..=1 => w.close(b'S', name.as_bytes()),
                2 => w.query(format!("deallocate {name}").as_bytes()),
                3 => w.query(format!("do $$begin execute 'deallocate {name}'; end$$").as_bytes()),
                4 => w.query(format!("execute {name}").as_bytes()),
                5 => w.parse(
                    name.as_bytes(),
                    b"select set_config('work_mem', '64kB', false)",
                    &[0, 0],
                ),
                6 => w.query(format!("prepare {name} as select set_config('app.user', 'evil', false)").as_bytes()),
                _ => {
                    w.bind_text(name.as_bytes(), &[]);
                    w.execute();
                }
            }
            w.sync();
        }
    }

    /// These bytes of the flight are being sent.
    pub fn sent(&mut self, bytes: &[u8]) {
        self.unsent_bytes -= bytes.len();
        if let Some(oracle) = &mut self.oracle {
            oracle.sent(bytes);
            if self.flight.certain {
                oracle.feed_all();
            }
        }
    }

    /// Whether a statement of the flight changes a setting and takes long.
    pub fn sets_and_sleeps(&self) -> bool {
        let bytes = self.flight.stages.concat();
        let contains = |words: &[u8]| bytes.windows(words.len()).any(|bytes| bytes == words);
        contains(b"set ") && contains(b"'; select pg_sleep(")
    }

    /// A server has run a statement of this session.
    pub fn has_run(&mut self, ran: Ran) {
        self.ran.push(ran);
    }

    /// Checks everything that servers have run of a flight that is over.
    fn judge_flight(&mut self, topology: &Topology) -> Result<(), String> {
        let ran = std::mem::take(&mut self.ran);
        let Some(oracle) = self.oracle.as_ref().filter(|_| !self.rubbish) else {
            return Ok(());
        };
        let wrong = ran.iter().find_map(|ran| oracle.judge(ran, !topology.keeps_sessions));
        match wrong {
            Some(wrong) => Err(format!(
                "{}: {wrong}\n    flight: {}",
                self.label(),
                self.describe_flight()
            )),
            None => Ok(()),
        }
    }

    /// The client leaves. What its servers have run is checked. Returns what is needed to check the rest of its flight,
    /// if the settings for that are certain.
    pub fn retire(&mut self, topology: &Topology) -> Result<Option<Retired>, String> {
        // With queue_target any of its requests may have been refused; those behind it run without it, as behind any error.
        // Whether a server refuses a reserved name depends on what it has loaded.
        let tells_sets = topology.queue_target_ms == 0 && !topology.reserved_names && self.sets_and_sleeps();
        let tells_settings = self.leaves_settings || self.begins_idle && tells_sets;
        let is_certain = tells_settings && !self.rubbish && self.phase == Phase::Busy;
        let Some(mut oracle) = self.oracle.take().filter(|oracle| is_certain && !oracle.cancelled) else {
            self.ran.clear();
            return Ok(None);
        };
        oracle.feed_all();
        self.oracle = Some(oracle);
        self.judge_flight(topology)?;
        Ok(self.oracle.take().map(|oracle| Retired {
            oracle,
            reported: !topology.keeps_sessions,
        }))
    }

    /// Whether a cancel may be sent now.
    pub fn may_cancel(&self) -> bool {
        let under_way = self.phase == Phase::Busy && !self.flight.certain;
        (under_way || self.phase == Phase::Idle) && self.key.is_some() && !self.rubbish
    }

    /// A cancel request is being sent, whether something is running or not.
    pub fn cancelling(&mut self) {
        if let Some(oracle) = &mut self.oracle
            && self.phase == Phase::Busy
        {
            oracle.cancelled = true;
        }
    }

    /// The contents of the flight, for the trace.
    pub fn describe_flight(&self) -> String {
        let bytes = self.flight.stages.concat();
        let lines: Vec<String> = split_messages(&bytes).into_iter().map(frontend_to_text).collect();
        lines.join(" | ")
    }

    /// Bytes from the pooler. The error is a violation.
    pub fn receive(&mut self, topology: &Topology, bytes: &[u8]) -> Result<Wish, String> {
        if self.phase == Phase::Gone {
            return Ok(Wish::Nothing);
        }
        self.received.extend_from_slice(bytes);
        let mut wish = Wish::Nothing;
        loop {
            let length = match Header::read(&self.received) {
                Ok(Some(header)) if header.message_bytes as usize <= self.received.len() => {
                    header.message_bytes as usize
                }
                Ok(_) => return Ok(wish),
                Err(e) => return Err(format!("{}: {e}", self.label())),
            };
            let message: Vec<u8> = self.received.drain(..length).collect();
            match self.message(topology, &message)? {
                Wish::Nothing => {}
                Wish::Leave => return Ok(Wish::Leave),
                other => wish = other,
            }
        }
    }

    fn label(&self) -> String {
        format!("client {} in session {}", self.number, self.session_number)
    }

    fn message(&mut self, topology: &Topology, message: &[u8]) -> Result<Wish, String> {
        self.check_tokens(message)?;
        let body = &message[5..];
        if message[0] == b'N'
            && (self.is_queue_notice(body) || topology.listeners_may_die() && self.is_gap_notice(body))
        {
            return Ok(Wish::Nothing);
        }
        match self.phase {
            Phase::LoggingIn => match message[0] {
                b'R' | b'S' | b'N' => Ok(Wish::Nothing),
                b'K' => {
                    self.key = CancelKey::read(body).ok();
                    Ok(Wish::Nothing)
                }
                b'Z' => {
                    self.phase = Phase::Idle;
                    Ok(Wish::Think)
                }
                b'E' => self.refused(topology, body),
                _ => Err(format!("{}: at login came {}", self.label(), backend_to_text(message))),
            },
            _ if self.rubbish => Ok(Wish::Nothing),
            Phase::Refused | Phase::Gone | Phase::Offline => Err(format!(
                "{}: after its end came {}",
                self.label(),
                backend_to_text(message)
            )),
            Phase::Idle | Phase::Busy => self.answer(topology, message),
        }
    }

    fn answer(&mut self, topology: &Topology, message: &[u8]) -> Result<Wish, String> {
        let label = self.label();
        let Some(oracle) = &mut self.oracle else {
            return Err(format!("{label}: has no oracle"));
        };
        let fields = ErrorFields::read(&message[5..]).unwrap_or_default();
        if message[0] == b'E' && fields.is_fatal() {
            // A private server would send this only to a client that breaks the protocol.
            if oracle.compare(message) == Verdict::Right {
                self.phase = Phase::Refused;
                return Ok(Wish::Nothing);
            }
            return self.refused(topology, &message[5..]);
        }
        let verdict = match is_refused_early(message) && topology.queue_target_ms > 0 {
            // The private server has run it.
            true if self.flight.certain => Verdict::CannotDescribe,
            true => oracle.refused(),
            false => oracle.compare(message),
        };
        if let Some(wish) = self.accept(verdict, message)? {
            return Ok(wish);
        }
        if message[0] == b'Z' {
            self.ready_seen += 1;
            self.answered += 1;
        }
        if self.phase != Phase::Busy {
            return Err(format!("{label}: while idle came {}", backend_to_text(message)));
        }
        self.progress(topology)
    }

    /// Handles the verdict on a message; a right one has no consequences.
    fn accept(&mut self, verdict: Verdict, message: &[u8]) -> Result<Option<Wish>, String> {
        match verdict {
            Verdict::Right | Verdict::CancelledWhileWaiting => Ok(None),
            Verdict::CannotDescribe => {
                self.rubbish = true;
                Ok(Some(Wish::Leave))
            }
            Verdict::Wrong(expected) => {
                let expected = expected.map_or("nothing".into(), |e| backend_to_text(&e));
                Err(format!(
                    "{}: expected {expected}\n    got {}\n    flight: {}",
                    self.label(),
                    backend_to_text(message),
                    self.describe_flight()
                ))
            }
        }
    }

    /// What follows after something has been received or sent. The error is a violation.
    pub fn progress(&mut self, topology: &Topology) -> Result<Wish, String> {
        let Some(oracle) = &mut self.oracle else {
            return Ok(Wish::Nothing);
        };
        if self.phase != Phase::Busy || self.unsent_bytes > 0 {
            return Ok(Wish::Nothing);
        }
        if let Some(early) = oracle.next_early() {
            let verdict = oracle.compare_early();
            if let Some(wish) = self.accept(verdict, &early)? {
                return Ok(wish);
            }
        }
        let wish = self.wish_when_sent();
        if wish == Wish::Think {
            self.judge_flight(topology)?;
        }
        Ok(wish)
    }

    fn wish_when_sent(&mut self) -> Wish {
        let Some(oracle) = &self.oracle else {
            return Wish::Nothing;
        };
        let all_sent = self.stage == self.flight.stages.len();
        let answered = if self.flight.certain {
            oracle.is_settled()
        } else {
            self.ready_seen == self.flight.segments.len()
        };
        match (answered, all_sent) {
            (true, true) => {
                self.phase = Phase::Idle;
                Wish::Think
            }
            (true, false) => Wish::NextStage,
            (false, _) => Wish::Nothing,
        }
    }

    fn refused(&mut self, topology: &Topology, body: &[u8]) -> Result<Wish, String> {
        let fields = ErrorFields::read(body).unwrap_or_default();
        if !self.rubbish && !allowed_refusal(topology, &fields, body) {
            return Err(format!(
                "{}: refused without a reason: {} {}\n    flight: {}",
                self.label(),
                String::from_utf8_lossy(fields.sqlstate),
                String::from_utf8_lossy(fields.message),
                self.describe_flight()
            ));
        }
        self.phase = Phase::Refused;
        Ok(Wish::Nothing)
    }

    /// The notice after the loss of a listener may come at any point, too.
    fn is_gap_notice(&self, body: &[u8]) -> bool {
        ErrorFields::read(body).is_ok_and(|f| f.message == b"notifications may have been lost")
    }

    /// The notice of query_wait_notify may come at any point.
    fn is_queue_notice(&self, body: &[u8]) -> bool {
        ErrorFields::read(body).is_ok_and(|f| f.message.starts_with(b"No server connection available"))
    }

    /// Every token in a message must be this session's.
    fn check_tokens(&self, message: &[u8]) -> Result<(), String> {
        // Process ids and secrets are random, and now and then look like a token.
        if message.first() == Some(&b'K') {
            return Ok(());
        }
        let own = self.author.as_ref().map_or("", |a| a.token()).as_bytes();
        for at in memmem(message, b"tok") {
            if is_token(&message[at..]) && !message[at..].starts_with(own) {
                return Err(format!(
                    "{}: bytes of another: {}",
                    self.label(),
                    backend_to_text(message)
                ));
            }
        }
        Ok(())
    }

    /// The pooler has closed the connection. The error is a violation.
    pub fn closed(&mut self, topology: &Topology) -> Result<(), String> {
        let phase = std::mem::replace(&mut self.phase, Phase::Offline);
        self.connection = None;
        match phase {
            Phase::Refused | Phase::Gone => Ok(()),
            _ if self.rubbish || topology.servers_may_die() => Ok(()),
            phase => Err(format!(
                "{}: closed without a word while {phase:?}\n    flight: {}",
                self.label(),
                self.describe_flight()
            )),
        }
    }
}

/// Whether a text begins with a session's token, such as `tok12x`. The random part of an internal name may spell `tok`.
fn is_token(text: &[u8]) -> bool {
    let digits = text[3..].iter().take_while(|b| b.is_ascii_digit()).count();
    digits > 0 && text.get(3 + digits) == Some(&b'x')
}

fn memmem(haystack: &[u8], needle: &[u8]) -> Vec<usize> {
    haystack
        .windows(needle.len())
        .enumerate()
        .filter(|(_, window)| *window == needle)
        .map(|(at, _)| at)
        .collect()
}
