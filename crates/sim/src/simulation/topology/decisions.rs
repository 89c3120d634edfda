//! How a seed decides its topology.

use super::files::FAIR_BY;
use super::{Hostility, Mode, Topology};
use crate::model::{RoleDefault, Version};
use crate::random::Random;

/// Settings that connect_query may set. None has a value that clients give at startup.
const CONNECT_SETTINGS: [(&str, &str); 5] = [
    ("work_mem", "3MB"),
    ("app.pool", "pool"),
    ("app.tenant", "nobody"),
    ("TimeZone", "Europe/Paris"),
    ("search_path", "pool"),
];

/// How many internal statements in a hundred wait for locks, and the longest wait, microseconds.
const CATALOG_LOCKS: [(u64, u64); 6] = [
    (1, 8_000_000),
    (5, 3_000_000),
    (20, 1_000_000),
    (20, 8_000_000),
    (70, 500_000),
    (70, 500_000),
];

/// Possible default settings of roles and databases. PostgreSQL's defaults are among them, and values that clients give
/// at startup.
const ROLE_DEFAULTS: [(&str, &str); 19] = [
    ("role", "team"),
    ("role", "team"),
    ("role", "team"),
    ("role", "team"),
    ("role", "none"),
    ("app.tenant", "the role's"),
    ("app.user", "the role's"),
    ("application_name", "the role's"),
    ("DateStyle", "ISO, DMY"),
    ("DateStyle", "SQL, YMD"),
    ("IntervalStyle", "iso_8601"),
    ("TimeZone", "Asia/Tokyo"),
    ("TimeZone", "UTC"),
    ("work_mem", "2MB"),
    ("extra_float_digits", "0"),
    ("search_path", "a"),
    ("statement_timeout", "6s"),
    ("lock_timeout", "5s"),
    ("default_transaction_deferrable", "on"),
];

impl Topology {
    /// The topology of a seed.
    pub fn new(seed: u64) -> Self {
        // Later additions draw from another source, so that earlier decisions of a seed stay the same.
        let mut added = Random::new(seed ^ 0xadde_d000);
        let mut topology = Topology::first(seed, &mut added);
        if topology.reserved_names {
            topology.reserve_names(&mut added);
        }
        // With session_state = pgbouncer, a RESET removes these settings for all later clients.
        if topology.keeps_sessions && added.percent(15) {
            topology.choose_connect_query(&mut added);
        }
        if added.percent(10) {
            topology.hostile_percent = added.between(10, 50);
            // No well-behaved client takes that long.
            topology.client_limits_s = *added.pick(&[0, 20]);
        }
        if added.percent(3) {
            topology.choose_long_messages();
        }
        if added.percent(20) {
            if added.percent(50) {
                topology.take_turns();
            }
            topology.role_defaults = topology.some_role_defaults(&mut added);
        }
        if added.percent(20) {
            (topology.lock_percent, topology.lock_us_max) = *added.pick(&CATALOG_LOCKS);
        }
        topology.stray_copies = added.percent(10);
        if added.percent(40) {
            topology.pipeline_depth = added.pick::<&str>(&["auto", "2", "5", "64"]);
            if added.percent(60) {
                topology.share_flights(&mut added);
            }
        }
        topology.choose_sizing(Random::new(seed ^ 0x512e_d000));
        topology.choose_queue(Random::new(seed ^ 0xfa19_0000));
        topology.choose_hostility(Random::new(seed ^ 0xc0de_0000), Random::new(seed ^ 0x4057_0000));
        topology.choose_views(Random::new(seed ^ 0x71e3_0000));
        topology.choose_sequences(Random::new(seed ^ 0x5e9e_0000));
        topology.choose_left_behind(Random::new(seed ^ 0x1ef7_0000));
        topology.choose_plans_beside_tables(Random::new(seed ^ 0xbe51_de00));
        topology.choose_encodings(Random::new(seed ^ 0xe4c0_0000));
        topology.choose_hosts(Random::new(seed ^ 0x4057_a000));
        topology.choose_replicas(Random::new(seed ^ 0x4e91_0000));
        topology.choose_reloads(Random::new(seed ^ 0x4e10_ad00));
        topology.choose_successors(Random::new(seed ^ 0x5cce_5500));
        topology.choose_refused_texts(Random::new(seed ^ 0x4ef0_5ed0));
        topology.choose_changed_types(Random::new(seed ^ 0x7e9e_0000));
        topology.choose_idle_limits(Random::new(seed ^ 0x1d1e_0000));
        topology.choose_entries(Random::new(seed ^ 0xe412_0000));
        topology.choose_untracked(Random::new(seed ^ 0x0a7e_0000));
        topology.choose_signals(Random::new(seed ^ 0x519a_0000));
        topology.choose_visitors(Random::new(seed ^ 0x7151_0000));
        topology.choose_failing_commits(Random::new(seed ^ 0xc033_0000));
        topology.choose_odd_names(Random::new(seed ^ 0x0dd0_0000));
        // Where clients share a server at one time, a late cancel may hit any of them.
        topology.late_cancels = topology.pipeline_depth == "1" && Random::new(seed ^ 0x1a7e_0000).percent(20);
        topology
    }

    /// Clients whose sessions are kept may have any encoding.
    fn choose_encodings(&mut self, mut r: Random) {
        self.beyond_ascii = self.keeps_sessions && self.reader_percent == 0 && r.percent(8);
        if self.beyond_ascii && r.percent(60) {
            self.take_turns();
        }
    }

    /// Where servers may die, the hosts that lead to them may fail, too.
    fn choose_hosts(&mut self, mut r: Random) {
        if !self.servers_may_die() || r.percent(60) {
            return;
        }
        self.hosts = r.between(2, 4);
        self.host_faults = r.between(1, 6);
        self.load_balance_hosts = *r.pick(&["round-robin", "disable"]);
        // Older servers do not report what they are.
        self.hosts_differ = self.version.major() >= 14 && r.percent(50);
    }

    /// Where clients replace code, all hosts but the first may be replicas that have the new code later.
    fn choose_replicas(&mut self, mut r: Random) {
        if self.hostility != Hostility::Code || self.hosts_differ || r.percent(85) {
            return;
        }
        self.replica_lag = *r.pick(&[20, 200, 2_000]);
        if self.hosts == 1 {
            self.hosts = r.between(2, 3);
            self.load_balance_hosts = "round-robin";
        }
        self.pool_size = self.pool_size.max(2);
    }

    /// Clients that take turns on servers must not see each other's values.
    fn choose_sequences(&mut self, mut r: Random) {
        self.sequences = self.reader_percent == 0 && r.percent(15);
        if self.sequences && r.percent(50) {
            self.take_turns();
        }
    }

    /// Sometimes many clients are hostile in the same way.
    fn choose_hostility(&mut self, mut r: Random, mut added: Random) {
        let all_may_come = self.max_client_conn >= 100;
        if !self.shares_sessions() || !all_may_come {
            return;
        }
        if r.percent(50) {
            self.hostility = Hostility::Code;
        } else if added.percent(60) {
            self.hostility = *added.pick(&[Hostility::Names, Hostility::Stalls]);
            (self.users, self.pool_size) = (1, 1);
            self.max_prepared_statements = 200;
        } else {
            return;
        }
        self.databases = 1;
        (self.clients, self.sessions) = (r.between(4, 10), r.between(2, 6));
        self.hostile_percent = r.between(30, 80);
        self.client_limits_s = *r.pick(&[0, 20]);
        // A guess must hit a statement that another client uses at that moment, and a replaced function a call that runs.
        match self.hostility {
            Hostility::Names => self.sessions += added.between(6, 12),
            Hostility::Code => self.sessions += added.between(3, 6),
            _ => {}
        }
    }

    /// The decisions that are older than all others. What later decisions concern is switched off.
    fn first(seed: u64, added: &mut Random) -> Topology {
        let mut r = Random::new(seed);
        let mode = *r.pick(&[
            Mode::Transaction,
            Mode::Transaction,
            Mode::Transaction,
            Mode::Session,
            Mode::Statement,
        ]);
        let clients = r.between(1, 10);
        let pool_size = r.between(1, 4);
        let quiet = r.percent(30);
        let percent = |r: &mut Random, most: u64| if quiet { 0 } else { r.below(most + 1) };
        Topology {
            seed,
            version: *r.pick(&[Version::V15, Version::V18]),
            mode,
            keeps_sessions: r.percent(85),
            probe: r.pick::<&str>(&["suspected", "suspected", "suspected", "always", "always_locks"]),
            link: r.pick::<&str>(&["matching", "adversarial"]),
            pin_idle_timeout_ms: *r.pick(&[0, 0, 0, 0, 0, 0, 0, 200]),
            databases: r.between(1, 2),
            users: r.between(1, 2),
            pool_size,
            pool_size_max: None,
            min_pool_size: r.below(2),
            reserve_pool_size: *r.pick(&[0, 0, 1, 2]),
            reserve_pool_timeout_ms: *r.pick(&[0, 100, 5000]),
            max_db_connections: *r.pick(&[0, 0, 0, 1, 3]),
            max_user_connections: *r.pick(&[0, 0, 0, 2, 3]),
            clients,
            max_client_conn: if r.percent(20) { r.between(1, clients) } else { 100 },
            sessions: r.between(1, 3),
            flights: r.between(1, 10),
            max_prepared_statements: match mode {
                Mode::Session => *r.pick(&[0, 200]),
                _ => *r.pick(&[1, 2, 5, 200]),
            },
            deferred_begin_ms: *r.pick(&[0, 50, 1000, 1000]),
            query_wait_timeout_ms: if quiet { 0 } else { *r.pick(&[0, 0, 300, 5000]) },
            server_lifetime_s: *r.pick(&[1, 1, 3600]),
            server_idle_timeout_s: *r.pick(&[1, 600]),
            server_check_delay_ms: *r.pick(&[0, 100, 30_000]),
            round_robin: r.percent(30),
            reset_always: r.percent(10),
            startup_settings: r.percent(40),
            latency_us_max: *r.pick(&[10, 500, 20_000]),
            chunk_bytes_max: *r.pick(&[1, 7, 100, 4096, 65536]),
            held_back_bytes: *r.pick(&[1, 500, 20_000, 256 * 1024]),
            slow_percent: *r.pick(&[0, 0, 3, 30]),
            slow_us_max: *r.pick(&[500, 20_000, 100_000]),
            large_rows_max: *r.pick(&[20, 100]),
            vanish_percent: percent(&mut r, 15),
            cancel_percent: percent(&mut r, 30),
            rubbish_percent: percent(&mut r, 10),
            abandoned_percent: percent(&mut r, 60),
            server_faults: percent(&mut r, 4),
            hosts: 1,
            beyond_ascii: false,
            hosts_differ: false,
            replica_lag: 0,
            host_faults: 0,
            reloads: 0,
            successors_differ: false,
            load_balance_hosts: "round-robin",
            calm_at_us: r.between(500_000, 5_000_000),
            refusal_percent: percent(&mut r, 10),
            reserved_names: added.percent(10),
            connect_settings: Vec::new(),
            connects_by_function: false,
            lock_percent: 0,
            lock_us_max: 0,
            role_defaults: Vec::new(),
            hostile_percent: 0,
            hostility: Hostility::Anything,
            client_limits_s: 0,
            long_messages: false,
            stray_copies: false,
            sequences: false,
            leave_behind: false,
            plans_beside_tables: false,
            refuses_texts: false,
            changes_types: false,
            idle_limits: false,
            signals: false,
            commits_fail: false,
            odd_names: false,
            visitors: false,
            one_database: false,
            reader_percent: 0,
            calls_by_view: false,
            code_sets_at_first: false,
            late_cancels: false,
            pipeline_depth: "1",
            fair_by: "client",
            weight: 1,
            queue_target_ms: 0,
        }
    }

    /// One client's code must run on a server with another client's setting.
    fn reserve_names(&mut self, added: &mut Random) {
        self.mode = Mode::Transaction;
        self.keeps_sessions = true;
        self.clients = self.clients.max(4);
        self.max_client_conn = 100;
        self.pool_size = self.pool_size.max(2);
        self.flights = self.flights.max(6);
        self.server_lifetime_s = 1;
        self.max_prepared_statements = self.max_prepared_statements.max(1);
        if added.percent(50) {
            self.link = "adversarial";
        }
    }

    /// There is a connect_query.
    fn choose_connect_query(&mut self, added: &mut Random) {
        let (first, second) = (*added.pick(&CONNECT_SETTINGS), *added.pick(&CONNECT_SETTINGS));
        self.connect_settings = vec![first];
        if first.0 != second.0 {
            self.connect_settings.push(second);
        }
        self.connects_by_function = added.percent(30);
    }

    /// Clients send long messages.
    fn choose_long_messages(&mut self) {
        self.long_messages = true;
        // Byte by byte they would take longer than everything else.
        self.chunk_bytes_max = self.chunk_bytes_max.max(4096);
        self.held_back_bytes = self.held_back_bytes.max(20_000);
        self.latency_us_max = self.latency_us_max.min(500);
    }

    /// Clients that take turns on servers must not notice each other's changes to the defaults of roles.
    pub(super) fn take_turns(&mut self) {
        self.mode = Mode::Transaction;
        self.keeps_sessions = true;
        self.max_prepared_statements = self.max_prepared_statements.max(1);
        self.clients = self.clients.max(4);
        self.flights = self.flights.max(6);
        self.max_client_conn = 100;
    }

    /// Many clients that look alike, and few servers.
    fn share_flights(&mut self, added: &mut Random) {
        self.mode = Mode::Transaction;
        self.keeps_sessions = true;
        self.link = "adversarial";
        self.probe = "suspected";
        self.reset_always = false;
        self.max_prepared_statements = self.max_prepared_statements.max(5);
        self.clients = self.clients.max(6);
        self.max_client_conn = 100;
        self.flights = self.flights.max(12);
        self.pool_size = self.pool_size.min(2);
        self.reserve_pool_size = 0;
        (self.databases, self.users) = (1, 1);
        self.reserved_names = false;
        self.reader_percent = *added.pick(&[60, 90, 100]);
        if added.percent(60) {
            self.cancel_percent = self.cancel_percent.max(40);
            self.latency_us_max = 20_000;
            // A signal overtakes the end of what it is meant for.
            (self.slow_percent, self.slow_us_max) = (30, 100_000);
        }
        if added.percent(30) {
            self.server_faults = self.server_faults.max(4);
        }
    }

    /// The sizes of pools may be automatic.
    fn choose_sizing(&mut self, mut sized: Random) {
        if sized.percent(20) {
            // Each pool may have one server, so that none waits for ever while others keep min_pool_size.
            let least = self.databases * self.users;
            self.pool_size_max = Some(
                sized
                    .pick(&[None, Some(0), Some(1), Some(3)])
                    .map_or(0, |more| least + more),
            );
        }
    }

    /// Who gets the next server.
    fn choose_queue(&mut self, mut queue: Random) {
        self.fair_by = queue.pick::<&str>(&FAIR_BY);
        self.weight = *queue.pick(&[1, 1, 5, 1000]);
        if queue.percent(10) && !self.reserved_names {
            self.queue_target_ms = queue.between(1, 200);
            self.pool_size = 1;
        }
    }

    /// At most one for each setting and each user, database, or user in a database.
    fn some_role_defaults(&self, r: &mut Random) -> Vec<RoleDefault> {
        let mut all: Vec<RoleDefault> = Vec::new();
        for _ in 0..r.between(1, 4) {
            let (name, value) = *r.pick(&ROLE_DEFAULTS);
            let (user, database) = *r.pick(&[(true, false), (true, false), (false, true), (true, true)]);
            let (user_number, database_number) = (r.below(self.users), r.below(self.databases));
            let default = RoleDefault {
                user: user.then(|| format!("user{user_number}")),
                database: database.then(|| format!("db{database_number}")),
                name,
                value,
            };
            all.retain(|d| (d.name, &d.user, &d.database) != (name, &default.user, &default.database));
            all.push(default);
        }
        all
    }
}
