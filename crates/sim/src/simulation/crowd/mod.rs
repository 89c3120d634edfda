//! A crowd: one pool, few servers, and clients that wait for them all the time.
//!
//! The other simulation lets everything go wrong, and its clients seldom wait for long. Here nothing goes wrong: servers answer
//! after the time that a statement says, and the network takes none. From one seed come the servers, the users with their
//! weights, the clients and how long their transactions take. The checkers watch who is served:
//!
//! - nobody starves: while a client waits, each other one of its group gets servers for a bounded time, and in order of arrival each
//!   is served once at most;
//! - work goes by weights: those that wait all the time have used servers for equal times by their weights, but for a bound
//!   that does not grow;
//! - a client that asks now and then waits for little more than what runs already.

mod driver;
mod plan;

use super::canary::Canary;
use driver::Driver;
use plan::Plan;
use std::collections::BTreeMap;

/// What was seen while one client waited: how often and how long each other client got a server.
type Seen = BTreeMap<usize, (u64, u64)>;

/// One run.
struct Crowd {
    plan: Plan,
    driver: Driver,
    /// What each waiting client has seen.
    waits: BTreeMap<usize, (u64, Seen)>,
    /// When each client that is served got its server.
    served: BTreeMap<usize, u64>,
    /// Time that each client has used servers for, microseconds.
    used_us: Vec<u64>,
    /// Requests that each client has begun.
    requests: Vec<u64>,
}

/// Runs the crowd of a seed. Returns the first violation.
pub fn run(seed: u64, canary: Option<Canary>) -> Option<String> {
    let plan = Plan::new(seed);
    let driver = Driver::new(&plan, canary);
    let clients = plan.clients.len();
    let mut crowd = Crowd {
        plan,
        driver,
        waits: BTreeMap::new(),
        served: BTreeMap::new(),
        used_us: vec![0; clients],
        requests: vec![0; clients],
    };
    let wrong = crowd.run().err()?;
    Some(format!("{wrong}\n{:#?}", crowd.plan))
}

impl Crowd {
    fn run(&mut self) -> Result<(), String> {
        let transactions = self.plan.transactions;
        let mut ended = 0;
        let mut begun: Option<Vec<u64>> = None;
        while ended < transactions {
            let Some(happened) = self.driver.next() else {
                return Err(format!("nothing happens any more after {ended} transactions"));
            };
            if let driver::Happened::Asks(client) = happened {
                self.requests[client] += 1;
                self.waits.insert(client, (self.driver.now_us, Seen::new()));
            }
            if let driver::Happened::Ends(client) = happened {
                ended += 1;
                let since = self.served.remove(&client).ok_or("an answer without a server")?;
                self.note_use(client, self.driver.now_us - since);
            }
            self.note_links()?;
            // At first not all have come.
            if begun.is_none() && ended > transactions / 4 {
                begun = Some(self.used_us.clone());
            }
            if ended % 64 == 0 {
                self.driver.check()?;
            }
        }
        self.check_shares(&begun.unwrap_or_default())
    }

    fn note_use(&mut self, client: usize, us: u64) {
        self.used_us[client] += us;
        for (_, seen) in self.waits.values_mut() {
            seen.entry(client).or_default().1 += us;
        }
    }

    /// Clients that have got servers.
    fn note_links(&mut self) -> Result<(), String> {
        for client in self.driver.newly_linked() {
            let Some((since, seen)) = self.waits.remove(&client) else {
                continue;
            };
            for (_, seen) in self.waits.values_mut() {
                seen.entry(client).or_default().0 += 1;
            }
            self.served.insert(client, self.driver.now_us);
            self.check_wait(client, self.driver.now_us - since, &seen)?;
        }
        Ok(())
    }

    /// What a client has seen while it waited.
    fn check_wait(&self, client: usize, waited_us: u64, seen: &Seen) -> Result<(), String> {
        let plan = &self.plan;
        let own = &plan.clients[client];
        // It may have used so much more than its share when it came.
        let debt_us = self.plan.longest_us() / own.weight_in(plan);
        for (&other, &(times, us)) in seen {
            let they = &plan.clients[other];
            let bound_us = (debt_us + plan.longest_us()) * they.weight_in(plan) + plan.slack_us();
            let starves = match plan.fair_by {
                "off" => times > 1,
                _ => plan.is_one_group(own, they) && they.pause_us == 0 && us > bound_us,
            };
            if starves {
                return Err(format!(
                    "while client {client} waited for {waited_us} us, client {other} was served {times} times, for {us} us; \
                     the bound is {bound_us} us"
                ));
            }
        }
        let is_calm = own.pause_us > 0 && self.requests[client] > 1 && plan.fair_by == "client";
        if is_calm && waited_us > plan.calm_wait_us() {
            return Err(format!("client {client} pauses, and waited for {waited_us} us"));
        }
        Ok(())
    }

    /// Shares of those that wait all the time, since `begun`.
    fn check_shares(&self, begun: &[u64]) -> Result<(), String> {
        let plan = &self.plan;
        if plan.fair_by == "off" {
            return Ok(());
        }
        let mut shares: BTreeMap<String, u64> = BTreeMap::new();
        let always = plan.clients.iter().enumerate().filter(|(_, c)| c.pause_us == 0);
        for (number, client) in always {
            let (name, weight) = plan.account_of(number, client);
            let us = self.used_us[number] - begun.get(number).copied().unwrap_or(0);
            *shares.entry(name).or_default() += us * plan::WEIGHT_MAX / weight;
        }
        let least = shares.iter().min_by_key(|(_, us)| **us);
        let most = shares.iter().max_by_key(|(_, us)| **us);
        let (Some((poor, least)), Some((rich, most))) = (least, most) else {
            return Ok(());
        };
        let bound = (plan.longest_us() + plan.slack_us()) * plan::WEIGHT_MAX * 2;
        match most - least <= bound {
            true => Ok(()),
            false => Err(format!(
                "for its weight {rich} has used {most}, {poor} {least}; the bound is {bound}"
            )),
        }
    }
}
