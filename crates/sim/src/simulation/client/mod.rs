//! One client: several sessions in turn, several flights in each.

mod answers;
mod hostility;
mod judgement;
mod refusals;
pub(super) mod tokens;

use super::flight::signal::SignalCall;
use super::flight::{Author, Flight};
use super::oracle::Oracle;
use super::topology::{Mode, Topology};
use crate::model::audit::Ran;
use crate::random::Random;
use crate::transcript::{frontend_to_text, split_messages};
pub use hostility::STAYS_US_MAX;
pub use judgement::Retired;
use pgweir_wire::{CancelKey, ProtocolVersion, StartupPacket};

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
    /// The client's random numbers.
    pub random: Random,
    /// Its state.
    pub phase: Phase,
    /// Since when it has had a server for which the checks know no reason, microseconds.
    pub held_since_us: Option<u64>,
    /// When its login or its latest flight began, microseconds.
    pub asked_us: u64,
    /// How long ago that was when the last bytes came, microseconds.
    pub waited_us: u64,
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
    /// pg_terminate_backend() may have been called with its process id.
    pub may_be_ended: bool,
    /// That call has returned true. The pooler must not answer what the client sends afterwards.
    pub is_ended: bool,
    /// It has sent something afterwards.
    goes_on: bool,
    /// How often it has tried to give its server back in a row.
    pub given_back: u64,
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
    runs: judgement::Runs,
    /// No transaction was open when this flight began.
    begins_idle: bool,
    /// No transaction was open when this flight began, and its text changes no settings.
    leaves_settings: bool,
    settings: Vec<(&'static str, String)>,
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

/// The same where values are not ASCII.
const STRANGE_ENCODINGS: [(&str, &[&str]); 2] = [
    ("client_encoding", &["LATIN1", "nope", "nope"]),
    ("app.tenant", &["nobody \u{fc}"]),
];

impl Client {
    /// A client that has not connected yet.
    pub fn new(number: u64, random: Random, topology: &Topology) -> Self {
        Client {
            number,
            random,
            phase: Phase::Offline,
            held_since_us: None,
            asked_us: 0,
            waited_us: 0,
            connection: None,
            sessions_left: topology.sessions,
            flights_left: 0,
            session_number: 0,
            key: None,
            rubbish: false,
            hostile: false,
            has_stalled: false,
            abandons: false,
            may_be_ended: false,
            is_ended: false,
            goes_on: false,
            given_back: 0,
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
            runs: judgement::Runs::default(),
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
        (self.may_be_ended, self.is_ended, self.goes_on, self.given_back) = (false, false, false, 0);
        self.rubbish = self.random.below(100) < topology.rubbish_percent;
        self.hostile = topology.hostile_percent > 0 && self.random.below(100) < topology.hostile_percent;
        self.rubbish |= self.hostile;
        self.received.clear();
        self.author = Some(Author::new(self.random.split(), topology, session_number));
        let database = format!("db{}", self.random.below(topology.databases));
        let user = self.user(topology);
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
        if topology.beyond_ascii && topology.startup_settings {
            for (name, value) in [
                ("client_encoding", "LATIN1".to_string()),
                ("app.tenant", format!("tenant tok{session_number}x\u{fc}")),
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
            let encodings = STRANGE_ENCODINGS.iter().filter(|_| topology.beyond_ascii);
            for (name, values) in STRANGE.iter().chain(encodings) {
                if self.random.percent(50) {
                    self.settings.push((name, self.random.pick::<&str>(values).to_string()));
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
        // The values in the client's startup packet take precedence.
        let named = |name: &str| self.settings.iter().any(|(n, _)| n.eq_ignore_ascii_case(name));
        for setting in topology.connect_settings.iter().filter(|(name, _)| !named(name)) {
            oracle.connect_query(&topology.connect_statement(setting));
        }
        self.oracle = Some(oracle);
        packet
    }

    /// Whether the call of pg_cancel_backend() or pg_terminate_backend() in its flight has returned true.
    pub fn has_signalled(&self) -> bool {
        self.oracle.as_ref().is_some_and(|oracle| oracle.signalled)
    }

    /// Its user.
    pub fn user(&self, topology: &Topology) -> String {
        format!("user{}", self.number % topology.users)
    }

    /// The next flight, or `None` if the session ends with Terminate. The first stage is sent at once. `call`: it is this
    /// call. `may_be_hit`: the calls of others may cancel it.
    pub fn next_flight(&mut self, topology: &Topology, call: Option<SignalCall>, may_be_hit: bool) -> Option<()> {
        if self.flights_left == 0 {
            return None;
        }
        self.flights_sent += 1;
        self.goes_on = self.is_ended;
        let author = self.author.as_mut()?;
        self.flight = if may_be_hit {
            author.gives_back()
        } else {
            self.flights_left -= 1;
            match call {
                _ if self.flights_left == 0 => author.last_flight(),
                Some(call) => author.signal(call),
                None => author.flight(),
            }
        };
        self.stage = 0;
        self.ready_seen = 0;
        self.phase = Phase::Busy;
        let oracle = self.oracle.as_mut()?;
        (oracle.cancelled, oracle.signals, oracle.signalled) = (may_be_hit, call.is_some(), false);
        if topology.mode != Mode::Session {
            oracle.fall_into_step();
        }
        let bytes = self.flight.stages.concat();
        let changes = |word: &[u8]| bytes.windows(word.len()).any(|w| w.eq_ignore_ascii_case(word));
        self.begins_idle = oracle.is_idle();
        self.leaves_settings = self.begins_idle && ![&b"set"[..], b"discard"].into_iter().any(changes);
        oracle.may_set(!self.leaves_settings);
        oracle.forget_flight();
        oracle.begin(&self.flight.segments);
        self.forget_runs();
        Some(())
    }

    /// From now on it may be refused at any moment, and does not come back.
    pub fn expects_nothing_more(&mut self) {
        self.rubbish = true;
        self.sessions_left = 0;
        self.forget_runs();
    }

    /// Bytes of the next stage.
    pub fn next_stage(&mut self) -> Vec<u8> {
        let bytes = self.flight.stages[self.stage].clone();
        self.stage += 1;
        self.unsent_bytes = bytes.len();
        bytes
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

    fn label(&self) -> String {
        format!("client {} in session {}", self.number, self.session_number)
    }
}
