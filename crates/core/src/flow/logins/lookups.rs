//! auth_query for clients that are logging in.

use crate::base::ids::{ClientId, ServerId};
use crate::base::pool_id::{PoolId, PoolKind};
use crate::base::request::{LogLevel, Request};
use crate::base::time::Time;
use crate::login::lookups::{AskedAt, BadAuthDatabase, NoLookup};
use crate::pooler::Pooler;
use crate::server_side::ServerSide;
use crate::statements::unnamed::Unnamed;
use crate::upstream::entry::To;

impl ServerSide<'_> {
    /// Runs auth_query for a user.
    pub(crate) fn ask_secret(&mut self, query: &str, user: &str) {
        self.server.held.unnamed = Unnamed::Foreign;
        self.asks(To::Skip, |r| {
            r.parse(b"", query.as_bytes(), &[0, 0]);
            r.bind(b"", b"", &[Some(user.as_bytes())]);
            r.execute(b"");
            r.sync();
        });
    }
}

impl Pooler {
    /// The pool that auth_query runs in for a user who is not in auth_file.
    pub(crate) fn auth_query_pool(&mut self, now: Time, database: &str, user: &str) -> Result<PoolId, NoLookup> {
        let asked_at = AskedAt::new(&self.shared.config, database, user).ok_or(NoLookup::Nowhere)?;
        let is_disabled = self.databases.disabled.contains(asked_at.database.as_str());
        if let Some(fault) = asked_at.fault(&self.shared.config, is_disabled, database) {
            return Err(NoLookup::Misconfigured(fault));
        }
        if asked_at.is_made {
            let has_pool = self.pool_index.contains_key(&asked_at.pool_key());
            let pools = self.pools.iter().flatten();
            self.lookups.may_try(now, &asked_at.database, has_pool, pools)?;
        }
        let (database, auth_user) = (&asked_at.database, &asked_at.auth_user);
        let pool = self.pool_for(now, database, auth_user, PoolKind::AuthQuery);
        pool.ok_or(NoLookup::Nowhere)
    }

    /// `auth_dbname` cannot be used. The client must not learn that, because it would show who is in auth_file.
    pub(crate) fn log_bad_auth_database(&mut self, id: ClientId, database: &str, fault: BadAuthDatabase) {
        let Some(client) = self.clients.get(id.0) else { return };
        let config = &self.shared.config;
        let entry = config.database(database);
        let named = entry.as_ref().and_then(|entry| config.auth_dbname(entry));
        let name = named.or(config.global.auth_dbname.as_deref()).unwrap_or(database);
        let text = format!("{} {}", client.label(id, &self.pools), fault.text(name));
        self.log(LogLevel::Error, text);
    }

    /// auth_query has finished.
    pub(crate) fn auth_query_done(&mut self, now: Time, id: ClientId, server_id: ServerId) {
        self.release(now, server_id);
        let client = self.client_mut(id);
        client.pool = None;
        let Some(login) = client.login_mut() else { return };
        let Some(step) = login.lookup_over() else { return };
        if let Some(secret) = self.clients.get_mut(id.0).and_then(|c| c.login_mut()?.found()) {
            self.lookups.note_kind_of_secret(secret);
        }
        self.follow_login(now, id, step);
        self.shared.requests.push_back(Request::Resume(id.into()));
    }

    /// The user cannot be looked up at present.
    pub(crate) fn lookup_failed(&mut self, now: Time, id: ClientId, why: &str) {
        let Some(client) = self.clients.get_mut(id.0) else {
            return;
        };
        client.pool = None;
        let Some(step) = client.login_mut().and_then(|login| login.lookup_failed()) else {
            return;
        };
        let label = self.clients.get(id.0).map(|c| c.label(id, &self.pools));
        let text = format!("{} cannot look up the user: {why}", label.unwrap_or_default());
        self.log(LogLevel::Warning, text);
        self.follow_login(now, id, step);
        self.shared.requests.push_back(Request::Resume(id.into()));
    }
}
