//! The end of a flight: its client goes on, and the link moves to the client whose flight is next.

use crate::base::close_reason::CloseReason;
use crate::base::ids::{ClientId, ServerId};
use crate::base::pool_id::PoolId;
use crate::base::reasons::{Passed, Passing, Waiting};
use crate::base::request::Request;
use crate::base::state_stats::StateStats;
use crate::base::time::Time;
use crate::base::weakness::Weakness;
use crate::exchange::Exchange;
use crate::pooler::Pooler;
use crate::pools::pool::Pool;
use crate::reply::Reply;
use crate::upstream::flight::Form;
use crate::upstream::flights::{Flights, Landed};
use crate::upstream::phase::ServerPhase;
use pgweir_wire::TransactionStatus;

impl Flights {
    /// The server has not ended the flight at the front. If that has been at work for long, flights of its class are
    /// sent behind no others, and none behind them. The clients that wait behind it are counted.
    pub(crate) fn front_is_at_work(&mut self, now: Time, pool: &mut Pool, stats: &mut StateStats) {
        let Some(class) = self.front().map(|front| front.flight().class()) else {
            return;
        };
        stats.flights_late += self.count_late(now);
        pool.classes_mut().learn_at_least(class, self.at_work_us(now));
    }
}

impl Reply<'_> {
    /// The ReadyForQuery of a flight.
    #[cold]
    pub(crate) fn flight_ends(&mut self, status: TransactionStatus) -> Passed {
        if status != TransactionStatus::Idle {
            // A flight opens no transaction block.
            return self.misbehaves("a transaction block that nothing has begun".into());
        }
        self.note_part_of_flight();
        Passed::ForwardAndTurn
    }

    /// A part of the reply to a flight has come.
    #[cold]
    pub(crate) fn note_part_of_flight(&mut self) {
        let run_bytes = self.run.len();
        if let Some(flights) = &mut self.server.flights {
            flights.note_reply(run_bytes);
        }
    }
}

impl Exchange<'_> {
    /// The server begins the flight of this client, which was sent earlier.
    fn flight_begins(&mut self, since: Time) {
        let (client, server) = (&mut *self.client, &mut *self.server);
        server.phase = ServerPhase::Linked;
        server.link = Some(self.id);
        server.held.awaits_nothing();
        client.link = Some(self.server_id);
        client.xact_start = since;
        server.asked = Some(since);
        if let Some(front) = server.flights.as_ref().and_then(|flights| flights.front())
            && let Form::Parse(statement) = front.flight().form()
        {
            client.statements.replace_unnamed(Some(statement.clone()));
        }
        self.counts_visit();
        self.pool.stats_mut().wait_time += self.now.us_since(since);
        self.pool.stats_mut().server_assignment_count += 1;
    }
}

impl Pooler {
    /// The flight at the front has been answered: it is the turn of the next one, or the server is free.
    pub(crate) fn turn(&mut self, now: Time, id: ServerId) {
        self.charge_later(now, id);
        let Some(server) = self.servers.get_mut(id.0) else {
            return;
        };
        let pool_id = server.pool;
        let Some(flights) = &mut server.flights else {
            return self.release_if_clean(now, id);
        };
        self.shared.state_stats.flights_late += flights.count_late(now);
        let Some(landed) = flights.land(now) else {
            return self.release_if_clean(now, id);
        };
        self.shared.catalogs.publications_mut().flight_has_ended();
        let has_next = server.flies();
        let trusts = self.shared.is_weak(Weakness::TrustsFirstFlights);
        if let Some(client_id) = server.link.take()
            && let Some(client) = self.clients.get_mut(client_id.0)
        {
            client.link = None;
            client.request_time = now;
            if !client.session.leaves_nothing() && !trusts {
                debug_assert!(false, "a flight has left something in the session");
                server.close_reason.get_or_insert(CloseReason::StateUnknown);
            }
            self.flies_no_more(client_id, &landed);
        }
        self.learn(pool_id, &landed);
        self.flight_worked(now, id, landed.flight().class(), landed.took_us(), has_next);
        if !has_next {
            return self.release(now, id);
        }
        self.begin_next(now, id);
        self.fill(now, pool_id, id);
    }

    /// The only flight of a server, if it has one, no longer counts as a flight: its client goes on as one that has the
    /// server for itself. What the client sends meanwhile is read, and so is its Terminate.
    pub(crate) fn is_no_flight(&mut self, now: Time, id: ServerId) {
        let Some(server) = self.servers.get_mut(id.0) else {
            return;
        };
        let (pool_id, link) = (server.pool, server.link);
        let landed = server.flights.as_mut().and_then(|flights| flights.land(now));
        if let (Some(landed), Some(client_id)) = (landed, link) {
            self.flies_no_more(client_id, &landed);
            self.learn(pool_id, &landed);
        }
    }

    /// The client's flight will not be sent again, so its bytes, which were kept for that, are skipped.
    fn flies_no_more(&mut self, id: ClientId, landed: &Landed) {
        let client = self.client_mut(id);
        client.waiting = Waiting::No;
        client.passing = Passing::Skip(landed.flight().bytes().len() as u32);
        self.shared.requests.push_back(Request::Resume(id.into()));
    }

    fn learn(&mut self, pool_id: PoolId, landed: &Landed) {
        let classes = self.pool_mut(pool_id).classes_mut();
        let (class, took_us) = (landed.flight().class(), landed.took_us());
        match landed.ran_to_its_end() {
            true => classes.learn(class, took_us, landed.reply_bytes()),
            // Without the cancel it would have taken longer.
            false => classes.learn_at_least(class, took_us),
        }
    }

    /// The server begins the flight at the front.
    pub(super) fn begin_next(&mut self, now: Time, id: ServerId) {
        let Some(server) = self.servers.get_mut(id.0) else {
            return;
        };
        let Some(front) = server.flights.as_ref().and_then(|flights| flights.front()) else {
            return;
        };
        let (client, since, is_cancelled) = (front.client(), front.since(), front.is_cancelled());
        server.since = now;
        server.conversation.is_idle_from(now);
        match client {
            Some(client) => {
                self.between(now, client, id).flight_begins(since);
                if is_cancelled {
                    self.at(id).cancel_request();
                }
            }
            None => server.phase = ServerPhase::Draining,
        }
    }
}
