//! What always holds between the calls of a driver, whatever clients and servers do.
//!
//! State that is kept twice, for speed, is compared here: links with links, phases with lists, tickets with the queue,
//! counters with a recount. The simulation and the fuzzer call this after their steps.

mod counts;
mod listeners;
mod lists;

use crate::base::close_reason::CloseReason;
use crate::base::ids::{ClientId, ServerId};
use crate::base::pool_id::PoolId;
use crate::base::reasons::{Passing, Waiting};
use crate::base::weakness::Weakness;
use crate::client::{Client, ClientPhase};
use crate::pooler::Pooler;
use crate::pools::pool;
use crate::server::Server;
use crate::upstream::phase::{Begin, Intake, ServerPhase};

impl Pooler {
    /// The first violation found, if any. All requests must have been polled.
    pub fn check_invariants(&self) -> Result<(), String> {
        for (slot, server) in self.servers.iter() {
            let id = ServerId(slot);
            self.check_server(id, server)
                .map_err(|wrong| format!("{id}: {wrong}"))?;
        }
        for (slot, client) in self.clients.iter() {
            let id = ClientId(slot);
            self.check_client(id, client)
                .map_err(|wrong| format!("{id}: {wrong}"))?;
        }
        for (id, pool) in pool::live(&self.pools) {
            let (database, user) = (&pool.key().database, &pool.key().user);
            self.check_pool(id)
                .map_err(|wrong| format!("pool {database}/{user}: {wrong}"))?;
        }
        self.check_sizings()?;
        self.check_counts()?;
        self.check_places()?;
        self.check_lists()?;
        self.check_listeners()
    }

    fn check_server(&self, id: ServerId, server: &Server) -> Result<(), String> {
        server.conversation.queue().check()?;
        if let Some(client) = server.link {
            let link = self.clients.get(client.0).map(|c| c.link);
            must(link == Some(Some(id)), || {
                format!("linked to {client}, which is linked to {link:?}")
            })?;
        }
        let borrower = server.held.lends_to().and_then(|client| self.clients.get(client.0));
        must(borrower.is_none_or(|client| client.statements.may_be_lent()), || {
            format!("lends to {:?}, which does not know it", server.held.lends_to())
        })?;
        for aboard in server.flights.iter().flat_map(|flights| flights.iter()) {
            let waits = |client: &ClientId| self.clients.get(client.0).map(|c| c.waiting);
            let flies = aboard.client().as_ref().map(waits);
            must(
                flies.is_none_or(|waits| waits == Some(Waiting::Flying { server: id })),
                || format!("has a flight of {:?}, which waits so: {flies:?}", aboard.client()),
            )?;
        }
        let left = |client: ClientId| self.clients.get(client.0).is_some_and(|c| !c.session.leaves_nothing());
        let trusts = self.is_weak(Weakness::TrustsFirstFlights);
        must(trusts || !server.flies() || !server.link.is_some_and(left), || {
            "a flight may leave something in the session".into()
        })?;
        check_own_questions(server)?;
        let flights = server.flights.as_ref().map_or(0, |flights| flights.len());
        must(
            flights == 0 || server.conversation.queue().ends_owed() >= flights,
            || format!("{flights} flights, and fewer segments are owed"),
        )?;
        let is_linked = matches!(server.phase, ServerPhase::Linked);
        must(is_linked == server.link.is_some(), || {
            format!("{:?} with the link {:?}", server.phase, server.link)
        })?;
        let pool = self.pools[server.pool as usize].as_ref().ok_or("its pool has gone")?;
        let places = pool.idle().iter().filter(|i| **i == id).count();
        must(places == usize::from(server.is_idle()), || {
            format!("{:?}, and {places} times in the idle list", server.phase)
        })?;
        if server.is_idle() {
            must(server.is_clean(), || "idle and not clean".into())?;
            must(server.session.restoration().is_none(), || {
                "idle with a restoration that is not answered".into()
            })?;
            must(server.session.probe().is_none(), || {
                "idle with a probe that is not answered".into()
            })?;
            must(!server.cancels.may_hit(), || "idle with a cancel on its way".into())?;
            must(server.conversation.begin() == Begin::Settled, || {
                format!("idle with a BEGIN that is {:?}", server.conversation.begin())
            })?;
        }
        Ok(())
    }

    fn check_client(&self, id: ClientId, client: &Client) -> Result<(), String> {
        let server = self.check_link(id, client)?;
        match client.waiting {
            Waiting::No => {
                let asked = |s: &Server| s.close_reason == Some(CloseReason::Reconnect) && s.session.probe().is_some();
                let has_begun = server.is_some_and(Server::owes_client) || client.passing != Passing::None;
                let stays = has_begun || client.session.awaits_reset();
                must(stays || !server.is_some_and(asked), || {
                    "may begin a transaction on a server from before RECONNECT".into()
                })?;
            }
            Waiting::ForServer { ticket, .. } => {
                must(server.is_none(), || "waits for a server and has one".into())?;
                let pool = client.pool.ok_or("waits for a server of no pool")?;
                let holder = self.pool(pool).waiting().holder(ticket);
                must(holder == Some(id), || {
                    format!("its place in the queue is held by {holder:?}")
                })?;
            }
            Waiting::Flying { server } => self.check_rider(id, client, server)?,
            Waiting::ForRestoration => {
                let server = server.ok_or("waits for settings without a server")?;
                must(!server.conversation.queue().is_empty(), || {
                    "waits for settings, and nothing is asked".into()
                })?;
            }
            Waiting::ForProbe => {
                let server = server.ok_or("waits for a probe without a server")?;
                let asked = server.session.probe().is_some()
                    || !server.conversation.queue().is_empty()
                    || server.cancels.may_hit()
                    || ends(server);
                must(asked, || "waits for a probe, and nothing is asked".into())?;
            }
            Waiting::ForReplies => {
                let server = server.ok_or("waits for replies without a server")?;
                // Only the server ends a DISCARD SEQUENCES; one that breaks the protocol may never confirm it.
                let said = server.conversation.intake() == Intake::ToSync || server.session.is_forgetting();
                let owed = !server.conversation.queue().is_empty() || server.cancels.may_hit() || said || ends(server);
                must(owed, || "waits for replies, and none is owed".into())?;
            }
            Waiting::ToDefine => self.check_definer(id)?,
            Waiting::ForListener { .. } => {
                must(client.channels.is_some(), || {
                    "waits for a listener and has no channels".into()
                })?;
            }
        }
        let waits = matches!(client.waiting, Waiting::ForServer { .. });
        must(waits || client.flight.is_none(), || {
            format!("has a flight, and waits so: {:?}", client.waiting)
        })?;
        let is_session = matches!(client.phase, ClientPhase::Session);
        must(!is_session || client.pool.is_some(), || {
            "a session without a pool".into()
        })
    }

    fn check_definer(&self, id: ClientId) -> Result<(), String> {
        let catalogs = &self.shared.catalogs;
        let awaits_flights = catalogs.publications().waiting().any(|(client, _)| client == id);
        must(awaits_flights || catalogs.definers().contains(&id), || {
            "waits to define, and nobody wakes it".into()
        })
    }

    /// The server that a client is linked to.
    fn check_link(&self, id: ClientId, client: &Client) -> Result<Option<&Server>, String> {
        let Some(link) = client.link else { return Ok(None) };
        let server = self.servers.get(link.0);
        let server = server.ok_or_else(|| format!("linked to {link}, which has gone"))?;
        must(server.link == Some(id), || {
            format!("linked to {link}, which is linked to {:?}", server.link)
        })?;
        must(Some(server.pool) == client.pool || !client.is_session(), || {
            "linked to another pool".into()
        })?;
        Ok(Some(server))
    }

    /// A client whose flight is outstanding on this server.
    fn check_rider(&self, id: ClientId, client: &Client, at: ServerId) -> Result<(), String> {
        let flights = self.servers.get(at.0).and_then(|s| s.flights.as_ref());
        let flights = flights.ok_or("flies on a server without flights")?;
        let places: Vec<_> = flights
            .iter()
            .enumerate()
            .filter(|(_, a)| a.client() == Some(id))
            .collect();
        must(places.len() == 1, || format!("has {} flights on {at}", places.len()))?;
        let linked = client.link == Some(at);
        must(linked == (places[0].0 == 0), || {
            format!(
                "its flight stands at {}, and it is linked to {:?}",
                places[0].0, client.link
            )
        })
    }

    fn check_pool(&self, id: PoolId) -> Result<(), String> {
        let pool = self.pool(id);
        for server in pool.idle().iter() {
            let lives = self.servers.get(server.0).is_some_and(|s| s.pool == id && s.is_idle());
            must(lives, || format!("{server} is in the idle list, and is not idle here"))?;
        }
        for (client, _) in pool.waiting().iter() {
            let waits = self.clients.get(client.0).map(|c| &c.waiting);
            let in_queue = matches!(waits, Some(Waiting::ForServer { .. }));
            must(in_queue, || {
                format!("{client} is in the queue, and waits so: {waits:?}")
            })?;
        }
        pool.waiting().check()?;
        let own = || self.servers.iter().filter(|(_, s)| s.pool == id);
        let opens = |s: &Server| {
            matches!(
                s.phase,
                ServerPhase::Connecting | ServerPhase::Securing | ServerPhase::Login(_)
            )
        };
        is_count("servers", pool.servers(), own().count())?;
        is_count("connecting", pool.connecting(), own().filter(|(_, s)| opens(s)).count())?;
        is_count("in doubt", pool.in_doubt(), own().filter(|(_, s)| s.in_doubt).count())?;
        for (slot, server) in own() {
            let id = ServerId(slot);
            let listed = server.flights.as_ref().is_some_and(|flights| flights.is_listed());
            let places = pool.with_room().filter(|other| **other == id).count();
            must(places == usize::from(listed), || {
                format!("{id} is {places} times among the servers with room, and listed: {listed}")
            })?;
        }
        let soon_free = own().filter(|(_, s)| s.is_soon_free()).count();
        is_count(
            "soon free",
            crate::flow::logins::opening::servers_soon_free(&self.servers, pool) as u32,
            soon_free,
        )?;
        let counted = |c: &Client| c.counted && c.pool == Some(id);
        is_count(
            "clients",
            pool.clients(),
            self.clients.iter().filter(|(_, c)| counted(c)).count(),
        )
    }
}

/// What the pooler has asked the server for itself.
fn check_own_questions(server: &Server) -> Result<(), String> {
    let owes = !server.conversation.queue().is_empty();
    must(owes || server.session.probe().is_none(), || {
        "a probe is under way, and nothing is owed".into()
    })?;
    must(owes || server.session.restoration().is_none(), || {
        "settings are being restored, and nothing is owed".into()
    })?;
    let reads = matches!(server.phase, ServerPhase::Reading);
    must(reads == server.reading.is_some(), || {
        format!(
            "{:?}, and reads the catalog: {}",
            server.phase,
            server.reading.is_some()
        )
    })
}

/// The server has said a FATAL error. Its connection ends, and with it the client's.
fn ends(server: &Server) -> bool {
    server.conversation.fatal().is_some()
}

fn must(holds: bool, wrong: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(wrong()) }
}

fn is_count(of: &str, counted: u32, there: usize) -> Result<(), String> {
    must(counted as usize == there, || {
        format!("{counted} {of} counted, {there} there")
    })
}
