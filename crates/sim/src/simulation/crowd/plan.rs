//! What a seed decides about a crowd.

use crate::random::Random;

/// The largest weight of a user. Shares are compared in parts of it.
pub(super) const WEIGHT_MAX: u64 = 6;

/// One client.
#[derive(Debug)]
pub(super) struct ClientPlan {
    pub(super) user: usize,
    pub(super) application: usize,
    /// The weight of its user.
    weight: u64,
    /// How long its transactions take.
    pub(super) least_us: u64,
    pub(super) most_us: u64,
    /// How long it pauses between two requests; 0: it asks again at once.
    pub(super) pause_us: u64,
}

impl ClientPlan {
    /// Its weight among the clients that it is compared with.
    pub(super) fn weight_in(&self, plan: &Plan) -> u64 {
        match plan.fair_by {
            "client" => self.weight,
            _ => 1,
        }
    }
}

/// What a seed decides.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) seed: u64,
    pub(super) fair_by: &'static str,
    pub(super) servers: u64,
    /// The weight of each user.
    pub(super) users: Vec<u64>,
    pub(super) clients: Vec<ClientPlan>,
    pub(super) transactions: u64,
    /// queue_target; 0 is off.
    pub(super) target_us: u64,
}

impl Plan {
    pub(super) fn new(seed: u64) -> Self {
        let mut r = Random::new(seed ^ 0xc0a7_d000);
        let servers = r.between(1, 4);
        let fair_by = *r.pick(&["client", "client", "client", "user", "user", "application", "off"]);
        let weights: &[u64] = if r.percent(70) { &[1, 2, 3] } else { &[1] };
        let users: Vec<u64> = (0..r.between(1, 3)).map(|_| *r.pick(weights)).collect();
        let mut clients = Vec::new();
        for (user, &weight) in users.iter().enumerate() {
            let applications = r.between(1, 2) as usize;
            for application in 0..applications {
                let longest = *r.pick(&[200, 1_000, 3_000]);
                // Each group always has a client that waits, and nobody's share is more than a part of one server.
                for _ in 0..r.between(servers * 6, servers * 6 + 4) {
                    clients.push(ClientPlan {
                        user,
                        application,
                        weight,
                        least_us: longest / 2,
                        most_us: longest,
                        pause_us: 0,
                    });
                }
            }
        }
        if r.percent(50) {
            clients.push(ClientPlan {
                user: 0,
                application: 0,
                weight: users[0],
                least_us: 50,
                most_us: 100,
                pause_us: r.between(20_000, 60_000),
            });
        }
        let target_us = if r.percent(25) { r.between(1, 400) * 1000 } else { 0 };
        Plan {
            seed,
            fair_by,
            servers,
            users,
            clients,
            transactions: 3000,
            target_us,
        }
    }

    /// A client that pauses for 50 ms, behind many that pause for a little or not at all.
    #[cfg(test)]
    pub(super) fn of_calm_client(crowd: u64, servers: u64, (least_us, most_us): (u64, u64), pause_us: u64) -> Self {
        let client = |pause_us| ClientPlan {
            user: 0,
            application: 0,
            weight: 1,
            least_us,
            most_us,
            pause_us,
        };
        let mut clients: Vec<ClientPlan> = (0..crowd).map(|_| client(pause_us)).collect();
        clients.push(client(50_000));
        Plan {
            seed: 1,
            fair_by: "client",
            servers,
            users: vec![1],
            clients,
            transactions: 0,
            target_us: 0,
        }
    }

    /// The longest transaction.
    pub(super) fn longest_us(&self) -> u64 {
        self.clients.iter().map(|c| c.most_us).max().unwrap_or(0)
    }

    /// The most server time that may be used before any of it is charged: it is charged when its use ends.
    pub(super) fn slack_us(&self) -> u64 {
        (self.servers + 1) * self.longest_us()
    }

    /// The longest wait of a client that pauses: until a server is free, and perhaps behind one more that has used
    /// little.
    pub(super) fn calm_wait_us(&self) -> u64 {
        self.longest_us() * 2
    }

    /// How long the last of the queue waits at most, if all clients wait.
    pub(super) fn queue_us(&self) -> u64 {
        self.clients.iter().map(|c| c.most_us).sum::<u64>() / self.servers
    }

    /// Whether two clients are compared with each other alone.
    pub(super) fn is_one_group(&self, a: &ClientPlan, b: &ClientPlan) -> bool {
        match self.fair_by {
            "client" => true,
            "user" => a.user == b.user,
            _ => (a.user, a.application) == (b.user, b.application),
        }
    }

    /// The name under which a client's use is counted, and its weight.
    pub(super) fn account_of(&self, number: usize, client: &ClientPlan) -> (String, u64) {
        let (user, application) = (client.user, client.application);
        let name = match self.fair_by {
            "client" => format!("client {number}"),
            "user" => format!("user {user}"),
            _ => format!("user {user}, application {application}"),
        };
        (name, client.weight)
    }

    pub(super) fn ini(&self) -> String {
        let users = self.users.iter().enumerate();
        let users: String = users
            .map(|(n, weight)| format!("user{n} = weight={weight}\n"))
            .collect();
        format!(
            "[databases]\ndb = host=127.0.0.1 port=5432 user=all\n[users]\n{users}[pgbouncer]\nlisten_addr = 127.0.0.1\n\
             auth_type = trust\nauth_file = users\npool_mode = transaction\nsession_state = pgbouncer\n\
             server_tls_sslmode = disable\nserver_check_query =\nquery_wait_timeout = 0\nmax_client_conn = 100000\n\
             default_pool_size = {}\nfair_by = {}\nqueue_target = {:.3}\n",
            self.servers,
            self.fair_by,
            self.target_us as f64 / 1e6
        )
    }

    pub(super) fn users_file(&self) -> String {
        (0..self.users.len()).map(|n| format!("\"user{n}\" \"\"\n")).collect()
    }
}
