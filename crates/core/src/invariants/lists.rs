//! Lists and tables of connections and pools, compared with the connections and pools themselves.

use super::{is_count, must};
use crate::base::ids::{ClientId, ServerId};
use crate::base::reasons::Waiting;
use crate::client::ClientPhase;
use crate::pooler::Pooler;
use crate::pools::pool;

impl Pooler {
    pub(super) fn check_lists(&self) -> Result<(), String> {
        let arriving = self.clients.iter().filter(|(_, c)| c.is_arriving()).count();
        is_count("connections that log in", self.arrivals.count(), arriving)?;
        let cancelling = self
            .clients
            .iter()
            .filter(|(_, c)| matches!(c.phase, ClientPhase::Cancelling { has_place: true }));
        is_count(
            "cancel requests with a place",
            self.arrivals.cancels(),
            cancelling.count(),
        )?;
        self.check_process_ids()?;
        self.check_deferred()?;
        self.check_pool_index()?;
        self.check_catalogs()
    }

    /// Each client is found by its process id.
    fn check_process_ids(&self) -> Result<(), String> {
        let told: Vec<_> = self.clients.iter().filter(|(_, c)| c.process_id != 0).collect();
        is_count("process ids", self.process_ids.len() as u32, told.len())?;
        for (slot, client) in told {
            let id_at = |place| self.clients.at_index(place).map_or(0, |(_, client)| client.process_id);
            let mut places = self.process_ids.places_of(client.process_id, id_at);
            must(places.any(|place| place == slot.index), || {
                format!("{} is not found by its process id", ClientId(slot))
            })?;
        }
        Ok(())
    }

    /// Each BEGIN that is deferred, and that no request has followed, is in the list that its timer reads. Once a
    /// request has followed, its client waits, has a server, or has lost one and goes to another.
    fn check_deferred(&self) -> Result<(), String> {
        for (slot, client) in self.clients.iter() {
            let id = ClientId(slot);
            let begin = client.session.deferred_begin();
            let begin = begin.filter(|begin| !begin.has_failed() && !begin.has_expired());
            let goes_on = client.waiting != Waiting::No || client.link.is_some() || client.session.went_elsewhere();
            let Some(begin) = begin.filter(|_| !goes_on) else {
                continue;
            };
            let listed = self.deferred.contains(&(id, begin.since()));
            must(listed, || format!("{id}: its deferred BEGIN has no timer"))?;
        }
        Ok(())
    }

    fn check_pool_index(&self) -> Result<(), String> {
        is_count("pools", self.pool_index.len() as u32, pool::live(&self.pools).count())?;
        for (id, pool) in pool::live(&self.pools) {
            let found = self.pool_index.get(pool.key());
            must(found == Some(id), || format!("pool {id} is found as {found:?}"))?;
        }
        Ok(())
    }

    /// What is remembered of all pools' catalogs together.
    fn check_catalogs(&self) -> Result<(), String> {
        let catalogs = &self.shared.catalogs;
        for (database, state) in catalogs.all() {
            let reads = |id: &ServerId| self.servers.get(id.0).is_some_and(|s| s.reading.is_some());
            // When the pooler ends, it is no longer noted that a reader is lost.
            must(
                state.reader().as_ref().is_none_or(reads) || self.admin.is_ending(),
                || {
                    format!(
                        "the catalog of {database} is read by {:?}, which does not read",
                        state.reader()
                    )
                },
            )?;
        }
        let due = self.pools.iter().flatten().any(|p| p.reading_due().is_some());
        must(catalogs.is_any_due() == due, || {
            format!("that a reading of a catalog is due is {due}, and noted as {}", !due)
        })?;
        must(catalogs.are_listed(), || {
            "a database is not listed by its name and identity".into()
        })?;
        for (id, pool) in pool::live(&self.pools) {
            must(catalogs.pools_of(pool.catalog_key()).contains(&id), || {
                format!("pool {id} is not known to use its database")
            })?;
        }
        let defines = |(_, s): &(_, &crate::server::Server)| s.session.has_definitions();
        let defining = self.servers.iter().filter(defines).map(|(slot, _)| ServerId(slot));
        must(defining.eq(catalogs.defining()), || {
            "other servers work on definitions than those that are known to".into()
        })?;
        let hidden = |(_, s): (_, &crate::server::Server)| s.session.may_publish() && !s.session.has_definitions();
        must(!self.servers.iter().any(hidden), || {
            "a server may commit definitions, and has none".into()
        })?;
        let known =
            self.pools.iter().flatten().any(|p| p.catalog_matters()) || self.servers.iter().any(|s| defines(&s));
        must(catalogs.may_know_names() || !known, || {
            "texts must be searched for names, and are not".into()
        })
    }
}
