//! Counters of one pool; SHOW STATS adds them up by database.

/// Counts since the start, times in microseconds. Field names are those of SHOW STATS_TOTALS.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stats {
    /// Servers handed to clients.
    pub server_assignment_count: u64,
    /// Transactions, single statements included.
    pub xact_count: u64,
    /// Queries: one for each ReadyForQuery a client got.
    pub query_count: u64,
    /// Bytes from clients.
    pub bytes_received: u64,
    /// Bytes to clients.
    pub bytes_sent: u64,
    /// Time clients held servers in transactions.
    pub xact_time: u64,
    /// Time servers worked on queries.
    pub query_time: u64,
    /// Time clients waited for servers.
    pub wait_time: u64,
    /// Named prepared statements clients made.
    pub client_parse_count: u64,
    /// Prepared statements made on servers.
    pub server_parse_count: u64,
    /// Bind messages for named prepared statements.
    pub bind_count: u64,
    /// Logins.
    pub client_login_count: u64,
}

impl Stats {
    /// Number of counters.
    pub const FIELDS: usize = 12;

    /// All counters in the order of the console's columns.
    pub fn values(&self) -> [u64; Self::FIELDS] {
        [
            self.server_assignment_count,
            self.xact_count,
            self.query_count,
            self.bytes_received,
            self.bytes_sent,
            self.xact_time,
            self.query_time,
            self.wait_time,
            self.client_parse_count,
            self.server_parse_count,
            self.bind_count,
            self.client_login_count,
        ]
    }

    /// Counters from values in the order of [`Stats::values`].
    pub fn from_values(v: [u64; Self::FIELDS]) -> Self {
        let [
            server_assignment_count,
            xact_count,
            query_count,
            bytes_received,
            bytes_sent,
            xact_time,
            query_time,
            wait_time,
            client_parse_count,
            server_parse_count,
            bind_count,
            client_login_count,
        ] = v;
        Stats {
            server_assignment_count,
            xact_count,
            query_count,
            bytes_received,
            bytes_sent,
            xact_time,
            query_time,
            wait_time,
            client_parse_count,
            server_parse_count,
            bind_count,
            client_login_count,
        }
    }

    /// Both together.
    pub fn plus(&self, other: &Stats) -> Stats {
        self.zip(other, |a, b| a + b)
    }

    /// What has come since `earlier`.
    pub fn since(&self, earlier: &Stats) -> Stats {
        self.zip(earlier, u64::saturating_sub)
    }

    fn zip(&self, other: &Stats, f: impl Fn(u64, u64) -> u64) -> Stats {
        let (a, b) = (self.values(), other.values());
        Stats::from_values(std::array::from_fn(|i| f(a[i], b[i])))
    }
}
