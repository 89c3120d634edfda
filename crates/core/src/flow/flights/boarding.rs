//! Sending flights: to a server that is free, and to one that works for others.

use crate::base::ids::{ClientId, ServerId};
use crate::base::pin_reason::Cleanup;
use crate::base::pool_id::PoolId;
use crate::base::reasons::{Passing, Waited, Waiting};
use crate::base::request::Request;
use crate::base::settings::Settings;
use crate::base::time::Time;
use crate::base::weakness::Weakness;
use crate::exchange::Exchange;
use crate::flow::binding::write_bind;
use crate::flow::flights::recognizing::{first_message, may_fly};
use crate::flow::requests::Stopped;
use crate::pooler::Pooler;
use crate::pools::pool::Pool;
use crate::preparing::replanning::{Need, expected_rows, need_of};
use crate::server::Server;
use crate::state::shape::Shape;
use crate::statements::prepared::Statement;
use crate::statements::unnamed::Unnamed;
use crate::upstream::entry::{Entry, Expect};
use crate::upstream::flight::{Flight, Form};
use crate::upstream::flights::{DEPTH_MAX, Flights, LATE_US};
use crate::upstream::phase::{Begin, Intake, ServerPhase};
use pgweir_config::PipelineDepth;
use pgweir_wire::frontend::BindNames;
use pgweir_wire::{HEADER_BYTES, TransactionStatus};
use std::sync::Arc;

impl Flights {
    /// Whether one more flight is allowed.
    fn are_below(&self, settings: &Settings, waiting: usize) -> bool {
        match settings.pipeline_depth {
            PipelineDepth::AtMost(most) => self.len() < most as usize,
            PipelineDepth::Auto => self.needs_more(waiting) || settings.link_adversarial && self.len() < DEPTH_MAX,
        }
    }
}

impl Server {
    /// Whether the server works on flights alone, nothing is unusual about it, and nothing prevents further flights.
    fn takes_flights(&self, now: Time) -> bool {
        let (conversation, session) = (&self.conversation, &self.session);
        matches!(self.phase, ServerPhase::Linked)
            && !self.cancels.are_under_way()
            && self.close_reason.is_none()
            && !self.is_expired(now)
            && conversation.begin() == Begin::Settled
            && conversation.intake() == Intake::Requests
            && conversation.status() == TransactionStatus::Idle
            && conversation.fatal().is_none()
            && !conversation.is_queried_in_pipeline()
            && !conversation.queue().segment_open()
            && session.restoration().is_none()
            && session.probe().is_none()
            && !session.settings_in_doubt()
            && !session.local_in_doubt()
            && !session.leaves_traces()
            && !session.is_notable()
            && self.held.lends_to().is_none()
    }
}

/// Whether a flight is known to be short. With `link = adversarial`, for tests, all flights count as short.
fn is_short(settings: &Settings, pool: &Pool, flight: &Flight) -> bool {
    let is_known = || pool.knows_to_be_short(flight.class());
    settings.link_adversarial || is_known()
}

impl Exchange<'_> {
    /// Sends a flight to a server that works for others. `false`: the server does not suit, and nothing was done.
    fn boards(&mut self, flight: &Flight) -> bool {
        let sent = match flight.form() {
            Form::Query => self.boards_query(flight),
            Form::Bind => self.boards_bind(flight),
            Form::Parse(statement) => self.boards_parse(flight, statement),
        };
        if sent {
            self.pool.stats_mut().bytes_received += flight.bytes().len() as u64;
            self.shared.state_stats.flights_shared += 1;
        }
        sent
    }

    /// Whether the text of a flight mentions no name with effects, as far as an up-to-date catalog shows.
    fn flight_mentions_nothing(&mut self, flight: &Flight) -> bool {
        match flight.form() {
            Form::Query => self.to().mentions_nothing(&flight.bytes()[HEADER_BYTES..]),
            Form::Parse(statement) => self.to().mentions_nothing_in(statement),
            Form::Bind => {
                let names = first_message(flight.bytes()).and_then(|bind| BindNames::read(bind.body()).ok());
                let meaning = names.and_then(|names| self.client.statements.named(names.statement));
                let statement = meaning.map(|meaning| meaning.statement().clone());
                statement.is_some_and(|statement| self.to().mentions_nothing_in(&statement))
            }
        }
    }

    /// Whether the client's requests that were sent surely leave nothing in the session.
    fn leaves_nothing(&self) -> bool {
        let (client, session) = (&self.client.session, &self.server.session);
        client.leaves_nothing()
            && session.probe().is_none()
            && session.cleanup() == Cleanup::Nothing
            && !session.parses_in_doubt()
    }

    fn send_kept(&mut self, bytes: &[u8]) {
        self.shared
            .outbox
            .insert(self.server_id.into(), |to| to.extend_from_slice(bytes));
    }

    fn boards_query(&mut self, flight: &Flight) -> bool {
        if !self.to().mentions_nothing(&flight.bytes()[HEADER_BYTES..]) {
            return false;
        }
        self.server.held.unnamed_becomes(Unnamed::Nothing);
        self.server.conversation.queue_mut().push_end(Expect::Query);
        self.send_kept(flight.bytes());
        true
    }

    fn boards_bind(&mut self, flight: &Flight) -> bool {
        let Some(bind) = first_message(flight.bytes()) else {
            return false;
        };
        let Ok(names) = BindNames::read(bind.body()) else {
            return false;
        };
        let Some(meaning) = self.client.statements.named(names.statement) else {
            return false;
        };
        // The Parse of this statement in front of another client's flight may fail, for example because of a cancel:
        // then the server does not hold the statement.
        if self.server.held.may_refuse(meaning.statement().id) {
            return false;
        }
        let statement = meaning.statement().clone();
        if !self.to().mentions_nothing_in(&statement) {
            return false;
        }
        let Some(meaning) = self.client.statements.named(names.statement) else {
            return false;
        };
        let told = expected_rows(meaning, &bind, names.portal);
        if need_of(meaning, self.server, told, self.shared.statements.now()) != Need::Nothing {
            return false;
        }
        write_bind(&mut self.shared.outbox, self.server_id, &bind, &names, &statement);
        let uses = statement.id;
        self.send_kept(&flight.bytes()[HEADER_BYTES + names.wire_bytes()..]);
        self.server.conversation.queue_mut().push_part(Expect::Bind, uses);
        self.expects_rest(bind.behind);
        true
    }

    fn boards_parse(&mut self, flight: &Flight, statement: &Arc<Statement>) -> bool {
        if !self.to().mentions_nothing_in(statement) {
            return false;
        }
        self.server.held.unnamed_becomes(Unnamed::Statement(statement.id));
        // The client's unnamed statement changes when the server begins the client's flight: until then the flight may
        // move elsewhere or be cancelled.
        self.server
            .conversation
            .queue_mut()
            .push(Entry::forward(Expect::ParseUnnamed));
        self.server.conversation.queue_mut().push_part(Expect::Bind, 0);
        self.send_kept(flight.bytes());
        let behind_parse = first_message(flight.bytes()).map_or(&[][..], |parse| parse.behind);
        self.expects_rest(first_message(behind_parse).map_or(&[], |bind| bind.behind));
        true
    }

    /// Adds the entries for the messages behind a Bind: Describe of its portal, if it is there, Execute and Sync.
    fn expects_rest(&mut self, rest: &[u8]) {
        let queue = self.server.conversation.queue_mut();
        if rest.first() == Some(&b'D') {
            queue.push_part(Expect::Describe, 0);
        }
        queue.push_part(Expect::Execute, 0);
        queue.push_end(Expect::Sync);
        self.client.statements.take_untold_portal();
        self.pool.stats_mut().bind_count += 1;
    }
}

impl Pooler {
    /// Whether a server may get another flight.
    fn has_room(&self, now: Time, id: ServerId) -> bool {
        let Some(server) = self.servers.get(id.0) else {
            return false;
        };
        let Some(flights) = server.flights.as_ref() else {
            return false;
        };
        let pool = self.pool(server.pool);
        let settings = &self.shared.settings;
        flights
            .front()
            .is_some_and(|front| is_short(settings, pool, front.flight()) && !front.flight().runs_again())
            && flights.are_below(settings, pool.waiting().len())
            && (flights.at_work_us(now) <= LATE_US || settings.link_adversarial)
            && !flights.has_exposed()
            && server.takes_flights(now)
            && pool.reading_due().is_none_or(|at| at > now)
            && may_fly(settings, pool)
            && !self.shared.catalogs.publications().concern(server.pool)
            && !self.pool_takes_no_clients_now(server.pool)
    }

    /// Sends the flight of the first waiting client to this server. `false`: that client needs a server for itself.
    /// This includes a client whose flight was hit by another client's cancel: if a second 57014 came behind others,
    /// nobody could tell for whom. A flight at the front is hit only by its own client's cancels.
    fn boards_next(&mut self, now: Time, pool_id: PoolId, id: ServerId) -> bool {
        let pool = self.pool(pool_id);
        let Some((client_id, since)) = pool.waiting().front() else {
            return false;
        };
        let (Some(client), Some(server)) = (self.clients.get_mut(client_id.0), self.servers.get(id.0)) else {
            return false;
        };
        if !Shape::same(client.session.shape(), server.session.shape()) {
            return false;
        }
        let pool = self.pools[pool_id as usize].as_ref().expect("a server's pool lives");
        let settings = &self.shared.settings;
        let boards = |flight: &Flight| !flight.runs_again() && is_short(settings, pool, flight);
        let Some(flight) = client.flight.take_if(|flight| boards(flight)) else {
            return false;
        };
        let mut exchange = self.between(now, client_id, id);
        if !exchange.boards(&flight) {
            exchange.client.flight = Some(flight);
            return false;
        }
        exchange.pool.waiting_mut().pop();
        let notified = matches!(exchange.client.waiting, Waiting::ForServer { notified: true, .. });
        exchange.client.waiting = Waiting::Flying { server: id };
        if let Some(flights) = &mut exchange.server.flights {
            flights.push(now, client_id, flight, Waited { since, notified });
        }
        true
    }

    /// Sends flights of waiting clients to a server, as long as it has room.
    pub(super) fn fill(&mut self, now: Time, pool_id: PoolId, id: ServerId) {
        while self.has_room(now, id) {
            if !self.boards_next(now, pool_id, id) {
                return self.list_with_room(pool_id, id);
            }
        }
    }

    fn list_with_room(&mut self, pool_id: PoolId, id: ServerId) {
        if self.flights_of(id).is_some_and(Flights::enter_list) {
            self.pool_mut(pool_id).list_with_room(id);
        }
    }

    /// Sends the flights of clients that have begun to wait.
    pub(crate) fn board_all(&mut self, now: Time) {
        let mut pools = std::mem::take(&mut self.boarding);
        for pool_id in pools.drain(..) {
            if let Some(Some(_)) = self.pools.get(pool_id as usize) {
                self.board_waiters(now, pool_id);
            }
        }
        self.boarding = pools;
    }

    /// Clients have begun to wait: sends their flights to servers that have room, one to each in turn.
    pub(super) fn board_waiters(&mut self, now: Time, pool_id: PoolId) {
        while let Some(id) = self.pool_mut(pool_id).next_with_room() {
            if let Some(flights) = self.flights_of(id) {
                flights.leave_list();
            }
            if !self.has_room(now, id) {
                continue;
            }
            let boarded = self.boards_next(now, pool_id, id);
            if self.has_room(now, id) {
                self.list_with_room(pool_id, id);
            }
            if !boarded {
                return;
            }
        }
    }

    /// A client that has waited with a flight is linked to a server that looks like it: the flight begins. Messages of
    /// the flight that cannot be sent now are read again from the bytes that the client has sent. If the catalog shows
    /// that the flight may leave something behind, it is no flight, and the client gets the server for itself.
    pub(crate) fn takes_off(&mut self, now: Time, id: ClientId, server_id: ServerId, flight: Box<Flight>, since: Time) {
        let mentions_nothing = self.between(now, id, server_id).flight_mentions_nothing(&flight);
        self.shared.outbox.begins_kept(flight.bytes());
        let mut at = 0;
        let stopped = self.between(now, id, server_id).pass(flight.bytes(), &mut at);
        self.shared.outbox.ends_kept();
        if let Stopped::CatalogTold { .. } = stopped {
            self.tell_catalog_news(now);
        }
        let trusts = self.is_weak(Weakness::TrustsFirstFlights);
        let exchange = self.between(now, id, server_id);
        let leaves_nothing = mentions_nothing && exchange.leaves_nothing() || trusts;
        let (client, server) = (exchange.client, exchange.server);
        let pool_id = server.pool;
        let is_sent = at == flight.bytes().len() && client.waiting == Waiting::No && client.passing == Passing::None;
        if is_sent && leaves_nothing {
            client.waiting = Waiting::Flying { server: server_id };
            let waited = Waited { since, notified: false };
            server.flights.get_or_insert_default().push(now, id, flight, waited);
            return self.fill(now, pool_id, server_id);
        }
        if at > 0 {
            client.passing = Passing::Skip(at as u32);
        }
        if client.waiting == Waiting::No {
            self.shared.requests.push_back(Request::Resume(id.into()));
        }
    }
}
