//! What happens to a client when its server has answered restored settings.

use crate::base::close_reason::CloseReason;
use crate::base::errors::Trouble;
use crate::base::failure::Failure;
use crate::base::ids::{ClientId, ServerId};
use crate::base::reasons::{Acquired, Waiting};
use crate::base::request::{LogLevel, Request};
use crate::base::time::Time;
use crate::base::weakness::Weakness;
use crate::client::Client;
use crate::exchange::Exchange;
use crate::pooler::Pooler;
use crate::state::difference::{Change, difference, difference_on};
use crate::state::restoration::RefusedSettings;
use crate::state::shape::Shape;
use crate::upstream::nature::{Nature, is_kept_by_poolers};
use pgweir_wire::TransactionStatus;
use std::sync::Arc;

/// The number of servers on which a client's settings are tried before the client is told that they cannot be restored,
/// if the reason may be the server: see [`Blame::Server`].
const SERVERS_TRIED_MAX: u8 = 3;

/// The SQLSTATE for names of custom settings that a library has reserved.
const INVALID_NAME: &str = "42602";

/// The setting `name`, if the client itself has set it and a server that is a pooler would not keep it.
fn lost_behind_pooler(name: &Arc<str>, wanted: &Shape) -> Option<Arc<str>> {
    let made = wanted.get(name).is_some_and(|setting| !setting.is_reported());
    (made && !is_kept_by_poolers(name)).then(|| name.clone())
}

/// Why a server has refused a client's settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Blame {
    /// It refused to undo what another client had left. That says nothing about the client, and each such server is
    /// tried once.
    Others,
    /// A reason that other servers may not have: a library that it has loaded, a cancel.
    Server,
    /// The client has a value that every server would refuse: a role was revoked, or an object dropped.
    Client,
}

/// Whether a server looks like its client.
enum Restoring {
    Done,
    /// It has been sent settings, and must confirm them.
    Asked,
    /// The client cannot be served: this setting would be lost, or reach other clients.
    Refused(Arc<str>),
}

impl Exchange<'_> {
    /// Makes the server look like its client.
    fn restore(&mut self) -> Restoring {
        let wanted = self.client.session.shape().clone();
        let session = &self.server.session;
        let mut set = difference_on(session.shape(), &wanted, &session.base().home());
        let nature = self.pool.nature();
        if self.pool.key().kind.is_replication() || nature == Nature::Console {
            // A walsender was started with its client's settings and cannot change them; a console has no settings.
            set.clear();
        }
        if nature == Nature::Pooler {
            if let Some(name) = set.iter().find_map(|(name, _)| lost_behind_pooler(name, &wanted)) {
                return Restoring::Refused(name);
            }
            set.retain(|(name, _)| is_kept_by_poolers(name));
        }
        if set.is_empty() {
            self.tell_differences();
            if self.server.conversation.queue().segment_open() {
                let shape = self.server.session.shape().clone();
                self.confirm_first(Vec::new(), shape);
                return Restoring::Asked;
            }
            return Restoring::Done;
        }
        // Settings that nobody can set keep the server's values: see tell_differences.
        let shape = self.server.session.shape();
        let target = if shape.same_fixed(&wanted) && nature.is_postgresql() {
            wanted
        } else {
            self.shared.shape_with(shape, &set)
        };
        self.shared.state_stats.restorations += 1;
        self.shared.state_stats.settings_sent += set.len() as u64;
        self.confirm_first(set, target);
        if self.shared.is_weak(Weakness::SharesUnconfirmed) {
            self.client.waiting = Waiting::No;
            return Restoring::Done;
        }
        Restoring::Asked
    }

    /// The server has confirmed the client's settings.
    fn settings_confirmed(&mut self) {
        self.tell_differences();
        let waited = self.client.waiting == Waiting::ForRestoration;
        self.client.session.restoration_confirmed(waited);
        if waited {
            self.client.waiting = Waiting::No;
            self.shared.requests.push_back(Request::Resume(self.id.into()));
        }
    }
}

impl Pooler {
    /// Restores the session state of a client that was just linked to a server.
    #[inline]
    pub(crate) fn restore(&mut self, now: Time, id: ClientId, server_id: ServerId) -> Acquired {
        match self.between(now, id, server_id).restore() {
            Restoring::Done => Acquired::Server(server_id),
            Restoring::Asked => Acquired::Wait,
            Restoring::Refused(name) => self.refuse_behind_pooler(now, id, &name),
        }
    }

    /// The client has a setting that would be lost, or reach other clients, behind another pooler. No request of the
    /// client has run.
    fn refuse_behind_pooler(&mut self, now: Time, id: ClientId, name: &str) -> Acquired {
        let message = "cannot restore the session's settings";
        let detail = format!("the server is another pooler, which does not keep \"{name}\" for its clients");
        let hint = "Set it for a transaction (SET LOCAL), or connect to PostgreSQL itself.";
        let failure = Failure::new(Trouble::RestorationRefused, message)
            .with_detail(&detail)
            .with_hint(hint);
        self.fail_client(now, id, failure);
        Acquired::Closed
    }

    /// The server has answered a segment of restored settings.
    pub(crate) fn restored(&mut self, now: Time, server_id: ServerId) {
        let server = self.server_mut(server_id);
        let Some(restoration) = server.session.restoration_ends() else {
            return;
        };
        let is_one_transaction = restoration.is_one_transaction();
        let (target, refused) = restoration.ends();
        let (link, idle) = (server.link, server.conversation.status() == TransactionStatus::Idle);
        let is_one_transaction = is_one_transaction || self.is_weak(Weakness::TrustsHalves);
        // A login's values are refused because they are invalid: the whole transaction that tried them is rolled back.
        let are_tried =
            idle && is_one_transaction && link.is_some_and(|id| self.clients.get(id.0).is_some_and(Client::is_login));
        let trusts = link.is_none() && self.is_weak(Weakness::TrustsAbandoned);
        let server = self.server_mut(server_id);
        let blame = refused
            .as_ref()
            .map(|refused| blame(server.session.shape(), &target, refused));
        // The server has rolled back all of it: it has the settings that it had before.
        let is_rolled_back =
            idle && is_one_transaction && blame == Some(Blame::Client) && server.nature.is_postgresql();
        if refused.is_none() || trusts {
            server.session.has_settings(target);
        } else if !are_tried && !is_rolled_back {
            server.close_reason.get_or_insert(CloseReason::NotRestored);
        }
        if let Some(refused) = &refused {
            self.shared.state_stats.refused += 1;
            let text = format!(
                "{server_id}: server refused restored settings: {} {}",
                refused.sqlstate(),
                refused.message()
            );
            self.log(LogLevel::Warning, text);
        }
        let Some(id) = link else { return };
        if self.clients.get(id.0).is_some_and(Client::is_login) {
            return self.login_validated(now, id, server_id, refused);
        }
        match refused {
            None => self.between(now, id, server_id).settings_confirmed(),
            Some(refused) => {
                self.settings_refused(now, id, server_id, refused.message(), blame.expect("it was refused"));
            }
        }
    }

    /// No request of the client has run. Unless the reason is the client itself, its server is closed, and it tries
    /// another one.
    fn settings_refused(&mut self, now: Time, id: ClientId, server_id: ServerId, message: &str, blame: Blame) {
        let client = self.client_mut(id);
        let servers_max = match blame {
            Blame::Others => u8::MAX,
            Blame::Server => SERVERS_TRIED_MAX,
            Blame::Client => 0,
        };
        // A pin means that the client needs this server.
        let elsewhere = client.session.restoration_refused(servers_max);
        if elsewhere && client.waiting == Waiting::ForRestoration {
            client.waiting = Waiting::No;
            self.close_linked(now, id, server_id, CloseReason::NotRestored.text());
            if let Acquired::Server(_) = self.acquire(now, id) {
                self.shared.requests.push_back(Request::Resume(id.into()));
            }
            return;
        }
        let hint = "The setting was accepted when the client made it. Since then a role may have been revoked, or an \
            object dropped. Connect again.";
        let text = "cannot restore the session's settings";
        let failure = Failure::new(Trouble::RestorationRefused, text)
            .with_detail(message)
            .with_hint(hint);
        self.fail_client(now, id, failure);
    }
}

/// Why a server with this shape has refused a client's settings.
fn blame(server: &Shape, client: &Shape, refused: &RefusedSettings) -> Blame {
    let (sqlstate, message) = (refused.sqlstate(), refused.message());
    let changes = difference(server, client);
    let is_own = |(name, value): &Change| value.is_some() && client.value(name) == value.as_ref();
    let named = changes
        .iter()
        .find(|(name, _)| message.contains(&format!("\"{name}\"")));
    let is_of_others = match named {
        Some(change) => !is_own(change),
        None => !changes.iter().any(is_own),
    };
    // Only some servers have loaded the library that judges a custom setting.
    let is_of_custom = changes
        .iter()
        .any(|(name, _)| name.contains('.') && message.contains(&**name));
    // Class 22: data exception. Class 42: syntax error or access rule violation. A library may refuse a name, too.
    let is_of_value = sqlstate.starts_with("22") || sqlstate.starts_with("42") && sqlstate != INVALID_NAME;
    match is_of_others {
        true => Blame::Others,
        false if is_of_value && !is_of_custom => Blame::Client,
        false => Blame::Server,
    }
}
