//! What clients send.

mod changed_types;
mod idle_limit;
mod left_behind;
mod messages;
mod odd_names;
mod refused;
mod segments;
mod session_statements;
pub mod signal;
mod special;
mod statements;

use crate::random::Random;
use crate::simulation::topology::{Hostility, Mode, Topology};
use crate::transcript::frontend_from_text;
use session_statements::ROLE;

/// One exchange: bytes to send, and what answers them.
#[derive(Debug, Default)]
pub struct Flight {
    /// Parts that are sent one after the other. A part is sent when all answers to the part before it have come.
    pub stages: Vec<Vec<u8>>,
    /// Lengths of the segments: each has exactly one ReadyForQuery, unless `certain`.
    pub segments: Vec<usize>,
    /// No cancel may be sent: the segments may have more or less than one ReadyForQuery each.
    pub certain: bool,
}

/// Makes the flights of one session.
#[derive(Debug)]
pub struct Author {
    random: Random,
    mode: Mode,
    tracked_statements: bool,
    resets_settings: bool,
    keeps_sessions: bool,
    startup_settings: bool,
    /// It uses session state that outlives its transactions.
    has_session: bool,
    /// It only reads.
    reads: bool,
    /// It executes the same prepared statement again and again, among other things.
    repeats: bool,
    /// It has prepared the statement that it repeats.
    has_prepared: bool,
    /// At present it uses no session state.
    plain: bool,
    /// It has used session state, and may be pinned to its server.
    may_be_tied: bool,
    large_rows_max: u64,
    reserved_names: bool,
    /// It runs no code, so that its servers may stay without loaded libraries.
    avoids_code: bool,
    /// A setting that it sets first, and that is restored from then on.
    begins_with: Option<String>,
    /// It has sent its first flight.
    has_begun: bool,
    /// There is a connect_query.
    connect_query: bool,
    /// Settings for which roles and databases have defaults.
    defaults: Vec<&'static str>,
    /// Messages longer than 64 KiB that it may still send.
    long_messages: u64,
    /// It draws values from a sequence, and asks for them.
    sequences: bool,
    /// It does only what leaves something behind that no view shows.
    leaves_behind: bool,
    /// It only calls the function that keeps a plan, and makes temporary tables.
    plans_beside_tables: bool,
    /// It sends only texts that servers refuse, and others that leave nothing behind.
    is_refused: bool,
    /// It prepares statements that no other server may be able to prepare.
    odd_names: bool,
    /// The type of a column that its prepared statements depend on, if it changes that type.
    number: Option<changed_types::Number>,
    /// Some of its transactions fail when they commit.
    commits_fail: bool,
    /// It sets idle_session_timeout.
    idle_limits: bool,
    /// It sends messages of a COPY when there is none.
    stray_copies: bool,
    /// Its values are not ASCII, and it changes client_encoding.
    beyond_ascii: bool,
    /// The first of the keys that this session uses.
    keys: u64,
    token: String,
    count: u64,
    lines: Vec<String>,
}

/// The number of keys of one session.
const KEYS: u64 = 10;

impl Author {
    /// For the session with this number in the whole run.
    pub fn new(mut random: Random, topology: &Topology, session_number: u64) -> Self {
        let defaults: Vec<&str> = topology.role_defaults.iter().map(|d| d.name).collect();
        let begins_with = match session_number % 3 {
            0 if defaults.contains(&ROLE) => Some("set role none".into()),
            1 if topology.lock_percent > 0 => Some(format!(
                "set lock_timeout = '200ms'; set app.user = 'tok{session_number}x'"
            )),
            _ => None,
        };
        let reads = topology.reader_percent > 0 && random.percent(topology.reader_percent);
        Author {
            reads,
            repeats: topology.hostility == Hostility::Names,
            has_prepared: false,
            random,
            mode: topology.mode,
            tracked_statements: topology.max_prepared_statements > 0,
            resets_settings: topology.keeps_sessions || !topology.startup_settings,
            keeps_sessions: topology.keeps_sessions,
            startup_settings: topology.startup_settings,
            has_session: topology.has_sessions() && topology.reader_percent == 0,
            plain: false,
            may_be_tied: false,
            large_rows_max: topology.large_rows_max,
            reserved_names: topology.reserved_names,
            avoids_code: topology.reserved_names && !session_number.is_multiple_of(3),
            begins_with: begins_with.filter(|_| topology.has_sessions() && topology.reader_percent == 0),
            has_begun: false,
            connect_query: !topology.connect_settings.is_empty(),
            defaults,
            long_messages: if topology.long_messages { 2 } else { 0 },
            sequences: topology.sequences,
            leaves_behind: topology.leave_behind,
            plans_beside_tables: topology.plans_beside_tables,
            is_refused: topology.refuses_texts,
            odd_names: topology.odd_names,
            number: topology
                .changes_types
                .then(|| changed_types::Number::of_session(session_number)),
            commits_fail: topology.commits_fail,
            idle_limits: topology.limits_idle_time(session_number),
            stray_copies: topology.stray_copies,
            beyond_ascii: topology.beyond_ascii,
            keys: session_number * KEYS,
            token: format!("tok{session_number}x"),
            count: 0,
            lines: Vec::new(),
        }
    }

    /// The token that every value of this session contains.
    pub fn token(&self) -> &str {
        &self.token
    }

    fn pick(&mut self, list: &[&str]) -> String {
        self.random.pick(list).to_string()
    }

    fn value(&mut self) -> String {
        self.count += 1;
        let letter = match self.beyond_ascii && self.random.percent(50) {
            true => "\u{fc}",
            false => "",
        };
        format!("{}{}{letter}", self.token, self.count)
    }

    fn key(&mut self) -> u64 {
        self.keys + self.random.below(KEYS)
    }

    fn push(&mut self, line: impl Into<String>) {
        self.lines.push(line.into());
    }

    fn take_bytes(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for line in self.lines.drain(..) {
            frontend_from_text(&line, &mut bytes).unwrap_or_else(|e| panic!("{line}: {e}"));
        }
        bytes
    }

    /// The statement that the session begins with.
    fn first_statement(&mut self) -> Option<String> {
        if let Some(text) = self.begins_with.take() {
            return Some(text);
        }
        if !self.reserved_names {
            return None;
        }
        let value = self.value();
        Some(match self.avoids_code {
            true => format!("set plpgsql.no_such = '{value}'"),
            false => format!("do $$begin raise notice '{value}'; end$$"),
        })
    }

    /// Whether another flight may be sent before the last one is answered. A plan may have constants that were read under
    /// the settings in front of a SET in the same pipeline (docs/differences.md). If several texts may have had an effect,
    /// the pooler does not know which one of them is refused.
    pub fn may_pipeline_flights(&self) -> bool {
        !self.leaves_behind && !self.plans_beside_tables && !self.is_refused
    }

    /// The next flight.
    pub fn flight(&mut self) -> Flight {
        if self.reads {
            let count = *self.random.pick(&[1, 1, 1, 2, 4]);
            return Flight::of((0..count).map(|_| self.read()).collect());
        }
        if !std::mem::replace(&mut self.has_begun, true)
            && let Some(text) = self.first_statement()
        {
            self.may_be_tied = true;
            self.push(format!("Query \"{text}\""));
            return Flight::of(vec![self.take_bytes()]);
        }
        if self.plans_beside_tables {
            return Flight::of(self.plans_beside_tables());
        }
        if self.leaves_behind {
            return Flight::of(self.left_behind());
        }
        if self.is_refused {
            return self.refused();
        }
        if self.idle_limits && self.random.percent(70) {
            return self.with_idle_limit();
        }
        if self.number.is_some() && self.random.percent(70) {
            return self.with_changed_types();
        }
        if self.odd_names && self.random.percent(70) {
            return self.with_odd_names();
        }
        if self.long_messages > 0 && self.random.percent(25) {
            self.long_messages -= 1;
            return self.long_flight();
        }
        let transactions = self.mode != Mode::Statement;
        if self.commits_fail && self.keeps_sessions && self.tracked_statements && self.random.percent(10) {
            return self.deallocates_in_vain();
        }
        if self.has_session && self.random.percent(4) {
            return self.prepared_on_gone();
        }
        if self.has_session && self.tracked_statements && !self.avoids_code && self.random.percent(2) {
            return Flight::of(self.nested_execute());
        }
        if self.has_session && self.tracked_statements && transactions && self.random.percent(4) {
            return Flight::in_stages(self.as_another_role());
        }
        if self.has_session && !self.tracked_statements && transactions && self.random.percent(8) {
            return Flight::in_stages(self.uses_no_statement());
        }
        if self.has_session && self.tracked_statements && transactions && self.random.percent(2) {
            return Flight::in_stages(self.described_execute());
        }
        // A list lacks statements that cannot be prepared: see docs/differences.md.
        let may_list = self.has_session && self.keeps_sessions && self.tracked_statements && !self.odd_names;
        if may_list && transactions && self.random.percent(3) {
            return Flight::in_stages(self.lists_later());
        }
        if self.beyond_ascii && self.tracked_statements && self.random.percent(8) {
            return self.bound_behind_set();
        }
        if self.repeats && self.random.percent(60) {
            return Flight::of(vec![self.repeated()]);
        }
        match self.random.below(20) {
            0..=6 => Flight::of(vec![self.segment(true)]),
            7..=10 => {
                let count = self.random.between(2, 5);
                Flight::of((0..count).map(|_| self.segment(true)).collect())
            }
            11..=13 if transactions => Flight::of(self.transaction()),
            14..=16 if transactions => {
                // The same with one round trip each: the client thinks in between, while the server waits.
                Flight::in_stages(self.transaction())
            }
            17 => self.flushed(),
            // A client that keeps its server gets PostgreSQL 18's error, as on a private server; other clients do not.
            18 if transactions && !self.may_be_tied => self.query_without_sync(),
            _ => {
                // All kinds together: the number of ReadyForQuery depends on what fails.
                for _ in 0..self.random.between(1, 4) {
                    self.extended(true);
                    if self.random.percent(50) {
                        self.push("Sync");
                    }
                }
                self.push("Sync");
                let mut flight = Flight::of(vec![self.take_bytes()]);
                flight.certain = true;
                flight
            }
        }
    }

    /// The end of a session: no transaction may be open, and everything that was written must exist.
    pub fn last_flight(&mut self) -> Flight {
        let mut segments = Vec::new();
        self.push("Query \"rollback\"");
        segments.push(self.take_bytes());
        for key in self.keys..self.keys + 3 {
            self.push(format!("Query \"select k, v from kv where k = {key}\""));
            segments.push(self.take_bytes());
        }
        let mut flight = Flight::of(segments);
        flight.certain = true;
        flight
    }
}

impl Flight {
    fn of(segments: Vec<Vec<u8>>) -> Flight {
        Flight {
            segments: segments.iter().map(Vec::len).collect(),
            stages: vec![segments.concat()],
            certain: false,
        }
    }

    /// Each segment is sent when the one before it has been answered.
    fn in_stages(segments: Vec<Vec<u8>>) -> Flight {
        Flight {
            segments: segments.iter().map(Vec::len).collect(),
            stages: segments,
            certain: true,
        }
    }
}
