//! Asking a server about the roles of a client's user, where lines of `auth_hba_file` match the members of roles.
//!
//! If nobody can answer, the client is refused: a line that rejects it, or that demands more of it, might be passed over.

use crate::base::ids::ClientId;
use crate::base::request::LogLevel;
use crate::base::time::Time;
use crate::flow::logins::arrival::{Arrival, Next};
use crate::login::lookups::{AskedAt, NoLookup};
use crate::login::{membership, method};
use crate::pooler::Pooler;
use crate::server_side::ServerSide;
use crate::statements::unnamed::Unnamed;
use crate::upstream::entry::To;
use pgweir_config::CONSOLE_DATABASE;

impl ServerSide<'_> {
    /// Asks whether a user is a member of roles; `roles` is an array.
    pub(crate) fn ask_roles(&mut self, user: &str, roles: &str) {
        self.server.held.unnamed_becomes(Unnamed::Foreign);
        self.asks(To::Skip, |r| {
            r.parse(b"", membership::QUERY.as_bytes(), &[0, 0]);
            r.bind(b"", b"", &[Some(user.as_bytes()), Some(roles.as_bytes())]);
            r.execute(b"");
            r.sync();
        });
    }
}

impl Pooler {
    /// Has a server asked about these roles. The client belongs to that server's pool meanwhile.
    pub(super) fn ask_roles(&mut self, now: Time, id: ClientId, roles: Vec<Box<str>>) -> Next {
        let Some(mut arrival) = self.arrival(id) else {
            return Next::Nothing;
        };
        let Some(login) = arrival.client.login() else {
            return Next::Nothing;
        };
        let database = login.database().to_string();
        let Some(asked_at) = AskedAt::about_roles(&arrival.shared.config, &database) else {
            return arrival.roles_unknown(now, "there is no auth_user for the database");
        };
        let may_ask = self.can_be_asked(now, &database, &asked_at);
        let answer = may_ask.and_then(|()| self.pool_to_ask(now, id, &asked_at));
        let Some(mut arrival) = self.arrival(id) else {
            return Next::Nothing;
        };
        match (answer, arrival.client.login_mut()) {
            (Ok(pool), Some(login)) => {
                login.ask_roles(roles);
                arrival.client.pool = Some(pool);
                Next::GetServer
            }
            (Err(NoLookup::Misconfigured(fault)), _) => {
                arrival.log_bad_auth_database(&database, fault);
                arrival.roles_unknown(now, "auth_dbname cannot be used")
            }
            (Err(NoLookup::Nowhere), _) => arrival.roles_unknown(now, "there is no database to ask in"),
            (Ok(_), None) => Next::Nothing,
        }
    }
}

impl Arrival<'_> {
    /// The server has answered, perhaps with an error.
    pub(super) fn roles_told(&mut self, now: Time, is_answered: bool) -> Next {
        match is_answered {
            true => self.choose_way(),
            false => self.roles_unknown(now, "the server has not answered the question"),
        }
    }

    /// Nobody can tell the roles of the user. The reason must not reach the client. If the database does not exist, the
    /// client is treated like a user who does not exist, so that strangers cannot tell which databases exist.
    pub(super) fn roles_unknown(&mut self, now: Time, why: &str) -> Next {
        let why = format!("cannot find out the roles of the user: {why}");
        let Some(login) = self.client.login() else {
            return Next::Nothing;
        };
        let database = login.database().to_string();
        if self.is_no_database(now, &database) {
            self.log(LogLevel::Log, &why);
            if let Some(login) = self.client.login_mut() {
                login.is_in_vain();
            }
            return self.choose_way();
        }
        self.log_failed_login(&why);
        let Some(login) = self.client.login() else {
            return Next::Nothing;
        };
        let (accepted, encryption) = (&self.client.accepted, self.client.encryption());
        Next::Reject(method::no_rule(accepted, encryption, login.wishes()))
    }

    /// Whether a database is not configured, or a server has said that it has none of this name.
    fn is_no_database(&mut self, now: Time, database: &str) -> bool {
        let config = &self.shared.config;
        let is_made = !config.databases.contains_key(database);
        let is_unknown = config.database(database).is_none() && database != CONSOLE_DATABASE;
        is_unknown || is_made && self.lookups.is_absent(now, database)
    }
}
