//! Clients join the queue of their pool, and are charged for the servers that they have used: see
//! [`crate::pools::wait_queue`].

use crate::base::ids::{ClientId, ServerId};
use crate::base::pool_id::PoolId;
use crate::base::reasons::Waiting;
use crate::base::time::Time;
use crate::base::weakness::Weakness;
use crate::client::Client;
use crate::pooler::Pooler;
use crate::pools::fair::flow::Flow;
use crate::pools::pool::Pool;
use crate::pools::wait_queue::{WaitQueue, Who};
use pgweir_config::{Config, FairBy};

/// Calls `act` with the queue of a pool, what the order must know of the client, and what the client has used.
fn in_queue<T>(
    config: &Config,
    pool: &mut Pool,
    client: &mut Client,
    act: impl FnOnce(&mut WaitQueue, &Who<'_>, &mut Flow) -> T,
) -> T {
    let servers = pool.servers();
    let (queue, user) = pool.queue_and_user();
    let user = client.login_user.as_deref().unwrap_or(user);
    let by = queue.fair_by();
    let application = match by {
        FairBy::Application => client.session.shape().get("application_name").map_or("", |s| s.value()),
        FairBy::Client | FairBy::User | FairBy::Off => "",
    };
    let who = Who {
        user,
        application,
        weight: if by == FairBy::Off { 1 } else { config.user_weight(user) },
        servers,
    };
    act(queue, &who, &mut client.used)
}

impl Pooler {
    /// A client joins the queue of its pool. Returns its ticket.
    pub(crate) fn joins_queue(&mut self, now: Time, id: ClientId, pool_id: PoolId) -> u64 {
        if self.is_weak(Weakness::ServesNewestFirst) {
            return self.pool_mut(pool_id).waiting_mut().push_front(id, now);
        }
        let client = self.clients.get_mut(id.0).expect("the caller looked it up");
        let pool = self.pools[pool_id as usize].as_mut().expect("the caller looked it up");
        let paused_us = now.us_since(client.request_time);
        in_queue(&self.shared.config, pool, client, |queue, who, used| {
            queue.push(id, now, who, used, paused_us)
        })
    }

    /// The client of a server, its pool, and since when it has had the server, if clients are charged.
    fn charged(&mut self, id: ServerId) -> Option<(&Config, &mut Pool, ClientId, &mut Client, Time)> {
        let server = self.servers.get(id.0)?;
        let pool = self.pools[server.pool as usize].as_mut()?;
        let client_id = server.link?;
        let client = self.clients.get_mut(client_id.0)?;
        let is_charged = !pool.waiting().is_empty() && !self.shared.is_weak(Weakness::ForgetsToCharge);
        is_charged.then_some((&self.shared.config, pool, client_id, client, server.since))
    }

    /// Charges a server's client for its time on the server, if other clients wait. Time that was charged before does
    /// not count again.
    pub(crate) fn charge(&mut self, now: Time, server_id: ServerId) {
        if let Some((config, pool, _, client, since)) = self.charged(server_id) {
            in_queue(config, pool, client, |queue, who, used| {
                let us = used.take_uncharged_us(since, now);
                queue.charge(who, used, us);
            });
        }
    }

    /// A flight has been answered. Notes the time of its client on the server for [`Pooler::charge_together`], if other
    /// clients wait.
    pub(crate) fn charge_later(&mut self, now: Time, server_id: ServerId) {
        if let Some((_, pool, id, client, since)) = self.charged(server_id) {
            let us = client.used.take_uncharged_us(since, now);
            pool.waiting_mut().together_mut().add(id, us);
        }
    }

    /// An input with the answers to flights has been handled. Charges their clients.
    pub(crate) fn charge_together(&mut self, pool_id: PoolId) {
        let Some(pool) = self.pools.get_mut(pool_id as usize).and_then(Option::as_mut) else {
            return;
        };
        let (clients, us) = pool.waiting_mut().together_mut().take_shares();
        for id in clients {
            if let Some(client) = self.clients.get_mut(id.0) {
                in_queue(&self.shared.config, pool, client, |queue, who, used| {
                    queue.charge(who, used, us);
                });
            }
        }
    }

    /// The order of a pool's queue, or the weights of users, may have changed: all waiting clients take their places
    /// again.
    pub(crate) fn reorder_waiters(&mut self, pool_id: PoolId) {
        let pool = self.pool_mut(pool_id);
        let fair_by = pool.settings().fair_by;
        let all = pool.waiting_mut().reorder(fair_by);
        for (id, since, is_in_front) in all {
            let (Some(client), Some(pool)) = (self.clients.get_mut(id.0), self.pools[pool_id as usize].as_mut()) else {
                continue;
            };
            let place = in_queue(
                &self.shared.config,
                pool,
                client,
                |queue, who, used| match is_in_front {
                    true => queue.push_last_in_front(id, since),
                    false => queue.push(id, since, who, used, 0),
                },
            );
            if let Waiting::ForServer { ticket, .. } = &mut client.waiting {
                *ticket = place;
            }
        }
    }
}
