//! Answers a Parse of a client that would have to wait for a server.
//!
//! Load generators and drivers prepare a statement and wait for the answer while other connections of theirs hold every
//! server of the pool: then none of them goes on. So a Parse with nothing but Sync or Flush behind it is answered
//! without a server if a server of the pool has prepared the same text before. If parameter types are left open, or the
//! text may name types, a server parses the statement for this client before its first use, so that the types are those
//! of that moment.

use crate::base::ids::ClientId;
use crate::base::message::{Message, Step};
use crate::base::pool_id::PoolId;
use crate::base::reasons::Dropping;
use crate::base::settings::PoolMode;
use crate::client::Client;
use crate::pooler::Pooler;
use crate::statements::meaning::Meaning;
use crate::statements::prepared::Statement;
use pgweir_wire::TransactionStatus;
use pgweir_wire::frontend::Parse;

/// Sync and Flush as messages.
const ENDS: [&[u8]; 2] = [b"S\0\0\0\x04", b"H\0\0\0\x04"];

/// The most servers that are looked at for a statement.
const SERVERS_LOOKED_AT_MAX: usize = 256;

/// Whether nothing in a client's session matters for a Parse, except its names for statements.
fn is_usual(client: &Client) -> bool {
    let session = &client.session;
    client.is_session()
        && client.dropping == Dropping::Nothing
        && client.channels.is_none()
        && !client.statements.may_be_lent()
        && !client.statements.has_careful_portals()
        && session.suspicion().is_none()
        && session.pins().is_empty()
        && !session.awaits_reset()
        && !session.minds_traces()
        && session.shape().is_usual()
        // A transaction that has failed refuses a Parse.
        && session.idle_status() != TransactionStatus::Failed
}

impl Pooler {
    /// Answers a Parse of a client without a server. `None`: the Parse needs a server, or a server
    /// is idle.
    #[cold]
    pub(crate) fn parse_without_server(&mut self, id: ClientId, message: &Message<'_>) -> Option<Step> {
        let settings = &self.shared.settings;
        if !settings.parse_without_server
            || settings.max_prepared_statements == 0
            || !ENDS.contains(&message.behind)
            || !message.is_whole()
        {
            return None;
        }
        let client = self.clients.get(id.0).filter(|client| is_usual(client))?;
        let pool_id = client.pool.filter(|&pool| !self.refuses_waiters(pool))?;
        let pool = self.pool(pool_id);
        if pool.settings().mode == PoolMode::Session || pool.idle().iter().next().is_some() {
            return None;
        }
        let parse = Parse::read(message.body()).ok()?;
        let is_new = !parse.name.is_empty()
            && client.statements.meaning_of(parse.name).is_none()
            && client.statements.has_room_for(parse.query);
        if !is_new || pgweir_sql::belongs_to_session(parse.query) {
            return None;
        }
        let parse_settings = client.session.shape().parse_settings();
        let statement = self.shared.statements.intern(parse.query, parse.types, parse_settings);
        if !statement.effects.is_empty()
            || statement.is_client_named()
            || statement.reads_clock
            || !self.is_proven(pool_id, &statement)
        {
            return None;
        }
        let names_moved = self.pool(pool_id).names_moved();
        let mut meaning = Meaning::new(statement, self.shared.statements.tick(), names_moved);
        meaning.is_parsed_by_nobody();
        let stats = self.pool_mut(pool_id).stats_mut();
        stats.client_parse_count += 1;
        stats.bytes_received += message.total as u64;
        self.send(id, |w| w.empty(b'1'));
        let client = self.client_mut(id);
        client.statements.names_mut().set(parse.name, Some(meaning));
        Some(client.drop_message(message))
    }

    /// Whether a server of the pool has surely prepared this statement, and names mean the same objects since.
    fn is_proven(&self, pool: PoolId, statement: &Statement) -> bool {
        let pool = self.pool(pool);
        let some = pool.members().iter().take(SERVERS_LOOKED_AT_MAX);
        some.filter_map(|id| self.servers.get(id.0))
            .any(|server| server.held.has_proven(statement, pool.names_moved()))
    }
}
