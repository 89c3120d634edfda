//! Which segments are flights: whole transactions that only read and surely leave nothing behind.

use crate::base::ids::ClientId;
use crate::base::message::{INSPECT_BYTES_MAX, Message};
use crate::base::pool_id::PoolKind;
use crate::base::reasons::{Dropping, Passing, Waiting};
use crate::base::settings::Settings;
use crate::base::weakness::Weakness;
use crate::client::Client;
use crate::pooler::Pooler;
use crate::pools::pool::Pool;
use crate::shared::Shared;
use crate::statements::prepared::Statement;
use crate::upstream::flight::{Flight, Form};
use pgweir_config::PipelineDepth;
use pgweir_wire::frontend::{BindNames, Parse};
use pgweir_wire::{FrontendTag, Header};

/// The longest flight, bytes.
const FLIGHT_BYTES_MAX: usize = INSPECT_BYTES_MAX;

/// Execute of the unnamed portal, to its end.
const EXECUTE_ALL: [u8; 5] = [0; 5];

/// Describe of the unnamed portal.
const DESCRIBE_PORTAL: [u8; 2] = [b'P', 0];

/// A whole segment, as far as its messages tell.
struct Segment<'i> {
    bytes: &'i [u8],
    says: Says<'i>,
}

enum Says<'i> {
    Query(&'i [u8]),
    Bind(BindNames<'i>),
    Parse(Parse<'i>),
}

/// The whole message at the front.
pub(super) fn first_message(bytes: &[u8]) -> Option<Message<'_>> {
    let header = Header::read(bytes).ok()??;
    let tag = FrontendTag::from_byte(header.tag)?;
    Some(Message::new(tag, header, bytes, 0)).filter(Message::is_whole)
}

impl<'i> Segment<'i> {
    /// The segment at the front of what a client has sent, if all of it is there and nothing about it is unusual.
    fn read(input: &'i [u8]) -> Option<Self> {
        let input = &input[..input.len().min(FLIGHT_BYTES_MAX)];
        let first = first_message(input)?;
        let mut rest = first.behind;
        let says = match first.tag {
            FrontendTag::Query => Says::Query(first.body().strip_suffix(&[0])?),
            FrontendTag::Parse => {
                let parse = Parse::read(first.body()).ok().filter(|p| p.name.is_empty())?;
                let bind = first_message(rest).filter(|m| m.tag == FrontendTag::Bind)?;
                let names = BindNames::read(bind.body()).ok()?;
                rest = bind.behind;
                (names.statement.is_empty() && names.portal.is_empty()).then_some(Says::Parse(parse))?
            }
            FrontendTag::Bind => {
                let names = BindNames::read(first.body()).ok()?;
                (!names.statement.is_empty() && names.portal.is_empty()).then_some(Says::Bind(names))?
            }
            _ => return None,
        };
        if !matches!(says, Says::Query(_)) {
            rest = behind_sync(rest)?;
        }
        let bytes = &input[..input.len() - rest.len()];
        Some(Segment { bytes, says })
    }
}

/// The bytes behind an optional Describe of the portal, Execute and Sync.
fn behind_sync(rest: &[u8]) -> Option<&[u8]> {
    let mut next = first_message(rest)?;
    if next.tag == FrontendTag::Describe && *next.body() == DESCRIBE_PORTAL {
        next = first_message(next.behind)?;
    }
    let executes = next.tag == FrontendTag::Execute && *next.body() == EXECUTE_ALL;
    let sync = first_message(next.behind).filter(|m| executes && m.tag == FrontendTag::Sync)?;
    sync.body().is_empty().then_some(sync.behind)
}

/// Whether several clients of a pool may share a server at the same time.
pub(super) fn may_fly(settings: &Settings, pool: &Pool) -> bool {
    settings.pipeline_depth != PipelineDepth::AtMost(1)
        && !settings.probe_always
        && !settings.server_reset_query_always
        && settings.tracks_statements_of(pool.settings())
        && pool.key().kind == PoolKind::Clients
        && pool.nature().is_postgresql()
        && !pool.ties_clients()
}

/// Whether nothing is unusual about a client that waits for a server.
fn is_usual(client: &Client) -> bool {
    let session = &client.session;
    client.is_session()
        && client.link.is_none()
        && matches!(client.waiting, Waiting::ForServer { .. })
        && client.passing == Passing::None
        && client.dropping == Dropping::Nothing
        && !client.attends()
        && !client.statements.has_careful_portals()
        && !client.statements.may_be_lent()
        && session.leaves_nothing()
        && session.shape().is_usual()
}

/// Whether a statement leaves nothing behind.
fn leaves_nothing(statement: &Statement) -> bool {
    statement.only_reads && statement.effects.is_empty() && !statement.ends_some() && !statement.is_client_named()
}

/// Reads a segment as a flight. `None`: it is not one.
fn flight_of(client: &Client, shared: &mut Shared, segment: &Segment<'_>) -> Option<Flight> {
    let parse_settings = client.session.shape().parse_settings();
    let (form, class) = match &segment.says {
        Says::Query(text) => {
            let is_plain =
                client.statements.unnamed().is_none() && !shared.settings.disable_pqexec && pgweir_sql::is_plain(text);
            match pgweir_sql::class_of_read(text).filter(|_| is_plain) {
                Some(class) => (Form::Query, class),
                None => shared.is_weak(Weakness::SharesAnything).then_some((Form::Query, 0))?,
            }
        }
        Says::Bind(names) => {
            let meaning = client.statements.named(names.statement)?;
            let statement = &**meaning.statement();
            meaning.told()?;
            let flies = leaves_nothing(statement) && statement.settings.is_surely(parse_settings);
            flies.then_some((Form::Bind, statement.id))?
        }
        Says::Parse(parse) => {
            if pgweir_sql::belongs_to_session(parse.query) {
                return None;
            }
            let known = client.statements.unnamed();
            let statement = match known.filter(|s| s.matches(parse.query, parse.types, parse_settings)) {
                Some(statement) => statement.clone(),
                None => shared.statements.intern(parse.query, parse.types, parse_settings),
            };
            let class = statement.id;
            leaves_nothing(&statement).then_some((Form::Parse(statement), class))?
        }
    };
    Some(Flight::new(segment.bytes, form, class))
}

impl Pooler {
    /// A client waits for a server, and has sent `input`: if that begins with a flight, the flight may be sent to a
    /// server that works for others.
    #[inline]
    pub(crate) fn waits_to_fly(&mut self, id: ClientId, input: &[u8]) {
        if self.shared.settings.pipeline_depth != PipelineDepth::AtMost(1) {
            self.hands_over_flight(id, input);
        }
    }

    fn hands_over_flight(&mut self, id: ClientId, input: &[u8]) {
        let Some(client) = self.clients.get_mut(id.0).filter(|client| is_usual(client)) else {
            return;
        };
        let Some(pool_id) = client.pool else { return };
        let pool = self.pools[pool_id as usize].as_mut().expect("a client's pool lives");
        if !may_fly(&self.shared.settings, pool) {
            return;
        }
        let Some(segment) = Segment::read(input) else { return };
        if segment.bytes.len() > self.shared.settings.max_packet_bytes as usize {
            return;
        }
        client.flight = flight_of(client, &mut self.shared, &segment).map(Box::new);
        if client.flight.is_some() && pool.may_have_room() && self.boarding.last() != Some(&pool_id) {
            self.boarding.push(pool_id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pgweir_wire::Writer;

    fn written(write: impl FnOnce(&mut Writer<'_>)) -> Vec<u8> {
        let mut bytes = Vec::new();
        write(&mut Writer::new(&mut bytes));
        bytes
    }

    fn flies(bytes: &[u8]) -> Option<usize> {
        Segment::read(bytes).map(|s| s.bytes.len())
    }

    #[test]
    fn a_flight_is_one_whole_segment() {
        let query = written(|w| w.query(b"select 1"));
        assert_eq!(flies(&query), Some(query.len()));
        assert_eq!(flies(&query[..query.len() - 1]), None);
        let two = [&query[..], &query[..]].concat();
        assert_eq!(flies(&two), Some(query.len()));

        let bind = written(|w| w.bind_portal(b"", b"s", &[Some(b"1")]));
        let execute = written(|w| w.execute_portal(b""));
        let sync = written(|w| w.sync());
        let describe = written(|w| w.describe(b'P', b""));
        let prepared = [&bind[..], &execute, &sync].concat();
        assert_eq!(flies(&prepared), Some(prepared.len()));
        let described = [&bind[..], &describe, &execute, &sync].concat();
        assert_eq!(flies(&described), Some(described.len()));
        for end in 1..described.len() {
            assert_eq!(flies(&described[..end]), None, "{end}");
        }
        let parse = written(|w| w.parse(b"", b"select 1", &[0, 0]));
        let unnamed = written(|w| w.bind_portal(b"", b"", &[]));
        let extended = [&parse[..], &unnamed, &describe, &execute, &sync].concat();
        assert_eq!(flies(&extended), Some(extended.len()));
    }

    #[test]
    fn what_is_more_than_that_is_none() {
        let bind = written(|w| w.bind_portal(b"", b"s", &[]));
        let elsewhere = written(|w| w.bind_portal(b"portal", b"s", &[]));
        let execute = written(|w| w.execute_portal(b""));
        let some_rows = [&b"E\0\0\0\x09\0"[..], &[0, 0, 0, 5]].concat();
        let sync = written(|w| w.sync());
        let flush = b"H\0\0\0\x04".to_vec();
        let parse = written(|w| w.parse(b"named", b"select 1", &[0, 0]));
        let unnamed = written(|w| w.bind_portal(b"", b"", &[]));
        for odd in [
            [&bind[..], &execute, &execute, &sync].concat(),
            [&bind[..], &some_rows, &sync].concat(),
            [&bind[..], &execute, &flush, &sync].concat(),
            [&elsewhere[..], &execute, &sync].concat(),
            [&parse[..], &unnamed, &execute, &sync].concat(),
            [&unnamed[..], &execute, &sync].concat(),
            [&bind[..], &sync].concat(),
            sync.clone(),
        ] {
            assert_eq!(flies(&odd), None);
        }
    }
}
