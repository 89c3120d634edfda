//! auth_query for clients that are logging in.

use crate::base::consequence::Consequence;
use crate::base::ids::{ClientId, ServerId};
use crate::base::pool_id::{PoolId, PoolKind};
use crate::base::reasons::Waiting;
use crate::base::request::LogLevel;
use crate::base::time::Time;
use crate::client::Client;
use crate::flow::logins::arrival::{Arrival, Next};
use crate::login::admission;
use crate::login::client_login::Login;
use crate::login::login_step::SecretSource;
use crate::login::lookups::{AskedAt, BadAuthDatabase, NoLookup};
use crate::pooler::Pooler;
use crate::server_side::ServerSide;
use crate::statements::unnamed::Unnamed;
use crate::upstream::entry::To;

impl ServerSide<'_> {
    /// Runs auth_query for a user.
    pub(crate) fn ask_secret(&mut self, query: &str, user: &str) {
        self.server.held.unnamed_becomes(Unnamed::Foreign);
        self.asks(To::Skip, |r| {
            r.parse(b"", query.as_bytes(), &[0, 0]);
            r.bind(b"", b"", &[Some(user.as_bytes())]);
            r.execute(b"");
            r.sync();
        });
    }
}

impl Pooler {
    /// The secret of a user who is not in auth_file: a kept one, or the client gets a place in the pool that auth_query
    /// runs in.
    pub(super) fn secret_from_auth_query(
        &mut self,
        now: Time,
        id: ClientId,
        database: &str,
        user: &str,
    ) -> Result<SecretSource, NoLookup> {
        let asked_at = AskedAt::new(&self.shared.config, database, user).ok_or(NoLookup::Nowhere)?;
        self.can_be_asked(now, database, &asked_at)?;
        if let Some(kept) = self.lookups.kept(now, &self.shared.config, database, user) {
            return Ok(SecretSource::Kept(kept));
        }
        self.client_mut(id).pool = Some(self.pool_to_ask(now, id, &asked_at)?);
        Ok(SecretSource::AuthQuery)
    }

    /// The pool of the servers that are asked about a client.
    pub(super) fn pool_to_ask(&mut self, now: Time, id: ClientId, asked_at: &AskedAt) -> Result<PoolId, NoLookup> {
        let (database, auth_user, kind) = (&asked_at.database, &asked_at.auth_user, PoolKind::AuthQuery);
        let pool = self.pool_started_with(now, Some(id), database, auth_user, kind, Box::default());
        pool.map_err(|_| NoLookup::Nowhere)
    }

    /// Whether servers may be asked about a client of `database`.
    pub(super) fn can_be_asked(&mut self, now: Time, database: &str, asked_at: &AskedAt) -> Result<(), NoLookup> {
        let is_disabled = self.databases.is_disabled(asked_at.database.as_str());
        if let Some(fault) = asked_at.fault(&self.shared.config, is_disabled, database) {
            return Err(NoLookup::Misconfigured(fault));
        }
        if asked_at.is_made && self.lookups.is_absent(now, &asked_at.database) {
            return Err(NoLookup::Nowhere);
        }
        Ok(())
    }

    /// auth_query has finished.
    pub(crate) fn auth_query_done(&mut self, now: Time, id: ClientId, server_id: ServerId) {
        self.release(now, server_id);
        let next = self.arrival(id).and_then(|mut arrival| arrival.lookup_over(now));
        self.login_resumes(now, id, next);
    }

    /// Whether auth_query runs for a client that is logging in, or is about to.
    pub(crate) fn awaits_auth_query(&self, id: ClientId) -> bool {
        let login = self.clients.get(id.0).and_then(Client::login);
        login.is_some_and(Login::awaits_auth_query)
    }

    /// auth_query cannot be run, or cannot end, for this client. Nothing of the reason may reach the client.
    pub(crate) fn give_up_lookup(&mut self, now: Time, id: ClientId, why: &str) {
        self.stop_waiting(id);
        if let Some(server_id) = self.clients.get(id.0).and_then(|client| client.link) {
            self.charge(now, server_id);
            self.unlink(id, server_id);
            let client = self.client_mut(id);
            client.waiting = Waiting::No;
            let passing = client.passing;
            let server = server_id;
            self.consequences.push_back(Consequence::ClientLeft { server, passing });
        }
        let why = why.into();
        self.consequences
            .push_back(Consequence::LookupFailed { client: id, why });
    }

    /// The user cannot be looked up at present.
    pub(crate) fn lookup_failed(&mut self, now: Time, id: ClientId, why: &str) {
        let next = self.arrival(id).and_then(|mut arrival| arrival.lookup_failed(now, why));
        self.login_resumes(now, id, next);
    }
}

impl Arrival<'_> {
    /// `auth_dbname` cannot be used. The client must not learn that, because it would show who is in auth_file.
    pub(super) fn log_bad_auth_database(&mut self, database: &str, fault: BadAuthDatabase) {
        let config = &self.shared.config;
        let entry = config.database(database);
        let named = entry.as_ref().and_then(|entry| config.auth_dbname(entry));
        let name = named.or(config.global.auth_dbname.as_deref()).unwrap_or(database);
        let text = fault.text(name);
        self.log(LogLevel::Error, &text);
    }

    fn lookup_over(&mut self, now: Time) -> Option<Next> {
        self.client.pool = None;
        let login = self.client.login_mut()?;
        if let Some(is_answered) = login.roles_told() {
            return Some(self.roles_told(now, is_answered));
        }
        if let Some(why) = login.fault_of_lookup() {
            return self.lookup_failed(now, &why);
        }
        let step = match admission::is_too_long_user(&self.shared.config, login.database(), login.user()) {
            true => login.lookup_failed()?,
            false => login.lookup_over()?,
        };
        if let Some(secret) = login.found() {
            self.lookups.note_plain_secret(secret);
        }
        Some(self.follow(step))
    }

    fn lookup_failed(&mut self, now: Time, why: &str) -> Option<Next> {
        self.client.pool = None;
        let login = self.client.login_mut()?;
        if login.role_question_failed() {
            return Some(self.roles_unknown(now, why));
        }
        let step = login.lookup_failed()?;
        self.log(LogLevel::Warning, &format!("cannot look up the user: {why}"));
        Some(self.follow(step))
    }
}
