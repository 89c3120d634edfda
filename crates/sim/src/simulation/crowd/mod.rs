//! A crowd: one pool, few servers, and clients that wait for them all the time.
//!
//! The other simulation lets everything go wrong, and its clients seldom wait for long. Here nothing goes wrong:
//! servers answer after the time that a statement says, and the network takes none. From one seed come the servers, the
//! users with their weights, the clients and how long their transactions take. The checkers watch who is served:
//!
//! - nobody starves: while a client waits, each other client of its group gets servers for a bounded time only; in
//!   order of arrival, each is served once at most;
//! - server time goes by weights: clients that wait all the time get server time in proportion to their weights, up to
//!   a difference that does not grow;
//! - a client that asks now and then waits for little more than what runs already;
//! - with `queue_target`, clients are refused only if they would wait longer than that, and ask again.

mod driver;
mod plan;

use super::canary::Canary;
use driver::Driver;
use plan::{ClientPlan, Plan};
use std::collections::BTreeMap;

/// How often each client has got a server, and for how long in sum, microseconds.
type Served = Vec<(u64, u64)>;

/// One run.
struct Crowd {
    plan: Plan,
    driver: Driver,
    /// When each waiting client began to wait, and what all had got then.
    waits: BTreeMap<usize, (u64, Served)>,
    /// When each client that has a server got it.
    holds: BTreeMap<usize, u64>,
    /// What all have got until now.
    served: Served,
    /// How often each client has waited.
    waited: Vec<u64>,
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
        holds: BTreeMap::new(),
        served: vec![(0, 0); clients],
        waited: vec![0; clients],
    };
    let wrong = crowd.run().err()?;
    Some(format!("{wrong}\n{:#?}", crowd.plan))
}

impl Crowd {
    fn run(&mut self) -> Result<(), String> {
        let transactions = self.plan.transactions;
        let mut ended = 0;
        let mut begun: Option<Served> = None;
        while ended < transactions {
            let Some(happened) = self.driver.next() else {
                return Err(format!("nothing happens any more after {ended} transactions"));
            };
            if let driver::Happened::Asks(client) = happened {
                self.waits.insert(client, (self.driver.now_us, self.served.clone()));
            }
            if let driver::Happened::Ends(client) = happened {
                ended += 1;
                let since = self.holds.remove(&client).ok_or("an answer without a server")?;
                self.served[client].1 += self.driver.now_us - since;
            }
            if let driver::Happened::Refused(client) = happened {
                self.waits
                    .remove(&client)
                    .ok_or("a client is refused that does not wait")?;
                if self.plan.target_us == 0 || self.plan.queue_us() < self.plan.target_us {
                    return Err(format!("client {client} is refused, although the queue is short"));
                }
            }
            self.note_links()?;
            // At first not all clients have come.
            if begun.is_none() && ended > transactions / 4 {
                begun = Some(self.served.clone());
            }
            if ended % 64 == 0 {
                self.driver.check()?;
            }
        }
        self.check_shares(&begun.unwrap_or_default())
    }

    /// Clients that have got servers.
    fn note_links(&mut self) -> Result<(), String> {
        for client in self.driver.newly_linked() {
            let Some((since, before)) = self.waits.remove(&client) else {
                continue;
            };
            self.holds.insert(client, self.driver.now_us);
            let waited_us = self.driver.now_us - since;
            self.check_wait(client, waited_us, &before)?;
            self.served[client].0 += 1;
            self.waited[client] += u64::from(waited_us > 0);
        }
        Ok(())
    }

    /// Checks what other clients got while this one waited. `before`: what they had got when it began to wait.
    fn check_wait(&self, client: usize, waited_us: u64, before: &Served) -> Result<(), String> {
        let plan = &self.plan;
        let own = &plan.clients[client];
        // Each of the two looks at all clients of the plan.
        let (longest_us, slack_us) = (plan.longest_us(), plan.slack_us());
        // The client may have used this much more than its share when it came.
        let debt_us = longest_us / own.weight_in(plan);
        let in_order = plan.fair_by == "off";
        for (other, they) in plan.clients.iter().enumerate() {
            let (now, before) = (self.served[other], before[other]);
            let (times, us) = (now.0 - before.0, now.1 - before.1);
            let bound_us = (debt_us + longest_us) * they.weight_in(plan) + slack_us;
            let starves = match in_order {
                true => times > 1,
                // A client that pauses, or that was refused and asks again, may go ahead.
                false => us > bound_us && plan.is_one_group(own, they) && they.pause_us == 0 && plan.target_us == 0,
            };
            if starves {
                return Err(format!(
                    "while client {client} waited for {waited_us} us, client {other} was served {times} times, for {us} us; \
                     the bound is {bound_us} us"
                ));
            }
        }
        let is_calm = own.pause_us > 0 && self.waited[client] > 0 && plan.fair_by == "client" && plan.target_us == 0;
        if is_calm && waited_us > plan.calm_wait_us() {
            return Err(format!("client {client} pauses, and waited for {waited_us} us"));
        }
        Ok(())
    }

    /// Checks the shares of the clients that wait all the time, since `begun`.
    fn check_shares(&self, begun: &Served) -> Result<(), String> {
        let plan = &self.plan;
        // A client that is refused does not wait all the time.
        if plan.fair_by == "off" || plan.target_us > 0 {
            return Ok(());
        }
        let mut shares: BTreeMap<String, u64> = BTreeMap::new();
        // Server time of a client that pauses counts for its group.
        let counts = |client: &ClientPlan| client.pause_us == 0 || plan.fair_by != "client";
        let always = plan.clients.iter().enumerate().filter(|(_, c)| counts(c));
        for (number, client) in always {
            let (name, weight) = plan.account_of(number, client);
            let us = self.served[number].1 - begun.get(number).map_or(0, |begun| begun.1);
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

#[cfg(test)]
mod tests {
    use super::*;

    /// The waits of a client that asks every 50 ms among so many that always ask, in order, microseconds.
    fn calm_waits(crowd: u64, servers: u64, us: (u64, u64), pause_us: u64) -> Vec<u64> {
        let plan = Plan::of_calm_client(crowd, servers, us, pause_us);
        let calm = plan.clients.len() - 1;
        let mut driver = Driver::new(&plan, None);
        let (mut asked_at, mut waits) = (0, Vec::new());
        while waits.len() < 100 {
            if driver.next().expect("something happens") == driver::Happened::Asks(calm) {
                asked_at = driver.now_us;
            }
            if driver.newly_linked().contains(&calm) {
                waits.push(driver.now_us - asked_at);
            }
        }
        // A new connection has no advantage.
        waits.remove(0);
        waits.sort_unstable();
        waits
    }

    #[test]
    fn one_that_asks_now_and_then_waits_for_no_crowd() {
        for (crowd, servers, us, pause_us) in [
            (1000, 2, (30, 60), 3_000),
            (1000, 20, (200, 2_000), 10_000),
            (1000, 20, (5_000, 20_000), 0),
            (4000, 2, (1_000, 3_000), 0),
            (19_000, 4, (50, 150), 8_000),
        ] {
            let waits = calm_waits(crowd, servers, us, pause_us);
            let p99_us = waits[waits.len() * 99 / 100 - 1];
            assert!(p99_us < 5_000, "{crowd} on {servers}: {p99_us} us");
        }
    }
}
