//! BEGIN without a server.
//!
//! The pooler answers a bare BEGIN or START TRANSACTION itself and sends it, in one write, with the first statement
//! that needs a server. The one visible effect is that now() is taken when that statement comes; `deferred_begin`
//! limits the delay. A COMMIT or ROLLBACK that follows immediately never needs a server.
//!
//! The deferred BEGIN is a Bind and Execute of a named statement without a Sync: if it fails, the server ignores
//! everything up to the next Sync, so no message of the client can run outside the transaction it asked for.

use crate::base::ids::{ClientId, ServerId};
use crate::base::message::{Message, Messages, Step};
use crate::base::reasons::Passed;
use crate::base::settings::PoolMode;
use crate::base::time::Time;
use crate::pooler::Pooler;
use crate::state::deferred_begin::{By, DeferredBegin};
use crate::upstream::entry::To;
use crate::upstream::nature::Nature;
use crate::upstream::phase::Begin;
use pgweir_sql::Statement;
use pgweir_sql::statement::STATEMENT_BYTES_MAX;
use pgweir_wire::frontend::{BindNames, Named, Parse, Target};
use pgweir_wire::{FrontendTag, HEADER_BYTES, Reader};

/// A portal that does not exist: Describe of it fails, and so does the transaction.
const NO_PORTAL: &[u8] = b"the transaction has failed";

/// A segment of the extended protocol that consists of one BEGIN, COMMIT or ROLLBACK.
struct Segment<'a> {
    parse: Option<Parse<'a>>,
    verdict: Statement,
    described: bool,
    bytes: usize,
}

impl Pooler {
    /// Answers a message of an unlinked client if no server is needed for that.
    pub(crate) fn deferred(&mut self, now: Time, id: ClientId, message: &Message<'_>, input: &[u8]) -> Option<Step> {
        let pool = self.clients.get(id.0)?.pool?;
        let tracked =
            self.pool(pool).settings.mode != PoolMode::Session && self.shared.settings.max_prepared_statements > 0;
        if !tracked {
            return None;
        }
        match message.tag {
            FrontendTag::Query => self.deferred_query(now, id, message),
            FrontendTag::Parse | FrontendTag::Bind => self.deferred_segment(now, id, message, input),
            FrontendTag::Close if message.is_whole() => self.close_without_server(id, message),
            _ => None,
        }
    }

    fn deferred_query(&mut self, now: Time, id: ClientId, message: &Message<'_>) -> Option<Step> {
        if message.total > HEADER_BYTES + STATEMENT_BYTES_MAX + 1 {
            return None;
        }
        if !message.is_whole() {
            return Some(Step::NeedBytes);
        }
        let [text @ .., 0] = message.body() else { return None };
        let verdict = pgweir_sql::classify(text);
        if let Statement::Other = verdict {
            return None;
        }
        let reply = self.run_deferred(now, id, &verdict, By::Query)?;
        self.client_mut(id).statements.unnamed = None;
        let status = self.client_mut(id).session.idle_status();
        self.send(id, |w| {
            w.command_complete(reply);
            w.ready_for_query(status);
        });
        Some(Step::Progress(message.total))
    }

    /// Begins or ends a transaction that no server knows. Returns its command tag, or `None` if a server must be asked.
    fn run_deferred(&mut self, now: Time, id: ClientId, verdict: &Statement, by: By) -> Option<&'static str> {
        let allowed = self.shared.settings.deferred_begin.is_some();
        let pool = self.client_mut(id).pool?;
        let pool_of_it = self.pool(pool);
        let is_console = pool_of_it.nature == Nature::Console;
        let transaction_mode = pool_of_it.settings.mode == PoolMode::Transaction && !is_console;
        let client = self.client_mut(id);
        let begun = Some(DeferredBegin {
            since: now,
            by,
            failed: false,
            expired: false,
        });
        let (begin, tag) = match (verdict, client.session.deferred_begin) {
            (Statement::Begin, None) if allowed && transaction_mode => (begun, "BEGIN"),
            (Statement::StartTransaction, None) if allowed && transaction_mode => (begun, "START TRANSACTION"),
            (Statement::Commit, Some(begin)) if !begin.failed => (None, "COMMIT"),
            // COMMIT of a failed transaction rolls back.
            (Statement::Commit, Some(_)) => (None, "ROLLBACK"),
            (Statement::Rollback, Some(_)) => (None, "ROLLBACK"),
            _ => return None,
        };
        client.session.deferred_begin = begin;
        client.request_time = now;
        if begin.is_some() {
            self.deferred.push_back((id, now));
        }
        let stats = &mut self.pool_mut(pool).stats;
        stats.query_count += 1;
        stats.xact_count += u64::from(begin.is_none());
        Some(tag)
    }

    fn deferred_segment(&mut self, now: Time, id: ClientId, message: &Message<'_>, input: &[u8]) -> Option<Step> {
        let segment = self.read_segment(id, &input[message.at..])?;
        let tag = self.run_deferred(now, id, &segment.verdict, By::Portal)?;
        let client = self.clients.get_mut(id.0)?;
        if let Some(parse) = segment.parse {
            client.statements.unnamed = Some(self.shared.statements.intern(
                parse.query,
                parse.types,
                client.session.shape.parse_settings(),
            ));
        }
        let status = client.session.idle_status();
        self.send(id, |w| {
            if segment.parse.is_some() {
                w.empty(b'1');
            }
            w.empty(b'2');
            if segment.described {
                w.empty(b'n');
            }
            w.command_complete(tag);
            w.ready_for_query(status);
        });
        Some(Step::Progress(segment.bytes))
    }

    /// Reads `[Parse] Bind [Describe] Execute Sync` of the unnamed portal, all of it present.
    fn read_segment<'a>(&self, id: ClientId, bytes: &'a [u8]) -> Option<Segment<'a>> {
        let client = self.clients.get(id.0)?;
        let mut rest = Messages::new(bytes);
        let (mut tag, mut body) = rest.next()?;
        let mut parse = None;
        if tag == b'P' {
            let p = Parse::read(body)
                .ok()
                .filter(|p| p.name.is_empty() && p.types == [0, 0])?;
            parse = Some(p);
            (tag, body) = rest.next()?;
        }
        let names = BindNames::read(body)
            .ok()
            .filter(|n| tag == b'B' && n.portal.is_empty())?;
        let mut values = Reader::new(&body[names.wire_bytes()..]);
        let formats = values.i16().ok()?;
        values.bytes(usize::try_from(formats).ok()? * 2).ok()?;
        if values.i16() != Ok(0) {
            return None;
        }
        let verdict = match (parse, names.statement) {
            (Some(parse), b"") => pgweir_sql::classify(parse.query),
            (None, name) => client.statements.meaning_of(name)?.verdict.clone(),
            _ => return None,
        };
        (tag, body) = rest.next()?;
        let described = tag == b'D';
        if described {
            Named::read(body).ok().filter(|n| {
                *n == Named {
                    target: Target::Portal,
                    name: b"",
                }
            })?;
            (tag, body) = rest.next()?;
        }
        let mut execute = Reader::new(body);
        if tag != b'E' || !execute.cstr().is_ok_and(<[u8]>::is_empty) || rest.next()?.0 != b'S' {
            return None;
        }
        Some(Segment {
            parse,
            verdict,
            described,
            bytes: rest.read_bytes(),
        })
    }

    /// Closes a statement of an unlinked client; no server is concerned.
    fn close_without_server(&mut self, id: ClientId, message: &Message<'_>) -> Option<Step> {
        let Ok(Named {
            target: Target::Statement,
            name,
        }) = Named::read(message.body())
        else {
            return None;
        };
        if !name.is_empty() {
            self.client_mut(id).forget_name(name)?;
        } else {
            self.client_mut(id).forget_name(name);
        }
        self.send(id, |w| w.empty(b'3'));
        Some(Step::Progress(message.total))
    }

    /// Sends a deferred BEGIN ahead of the client's first real request.
    pub(crate) fn send_deferred_begin(&mut self, id: ClientId, server_id: ServerId) {
        let Some(begin) = self.client_mut(id).session.deferred_begin.take() else {
            return;
        };
        self.client_mut(id).xact_start = begin.since;
        let statement = self.shared.internal.begin.clone();
        self.at(server_id).prepare(&statement);
        self.server_mut(server_id).conversation.begin = Begin::Owed;
        self.at(server_id).asks(To::Skip, |r| {
            r.bind(b"", statement.server_name(), &[]);
            r.execute(b"");
            if begin.by == By::Query {
                r.close(b'P', b"");
            }
        });
        if begin.failed {
            self.fail_transaction(server_id);
        }
    }

    /// The ReadyForQuery behind a deferred BEGIN that the server has refused: the client believes that it is in a
    /// transaction, and is told that the transaction has failed. If the ReadyForQuery answers an internal request, the
    /// client is told when it asks for something.
    #[cold]
    pub(crate) fn transaction_never_began(&mut self, now: Time, server_id: ServerId, of_client: bool) -> Passed {
        let link = self.server_mut(server_id).link;
        let Some(id) = link.filter(|id| self.clients.get(id.0).is_some()) else {
            return Passed::skip_and_release_if(self.server_mut(server_id).conversation.queue.is_empty());
        };
        self.client_mut(id).session.deferred_begin = Some(DeferredBegin {
            since: now,
            by: By::Query,
            failed: true,
            expired: false,
        });
        if of_client {
            self.is_ready(id, pgweir_wire::TransactionStatus::Failed);
        }
        self.release_if_clean(now, server_id);
        match self.servers.get(server_id.0) {
            Some(_) => Passed::Skip,
            None => Passed::Closed,
        }
    }

    /// Makes the transaction that has just begun a failed one, as the client believes.
    fn fail_transaction(&mut self, server_id: ServerId) {
        self.at(server_id).asks(To::Swallow, |r| {
            r.describe(b'P', NO_PORTAL);
            r.answered_to(To::Skip).sync();
        });
    }

    /// The deferral is over: the BEGIN goes to a server alone.
    pub(crate) fn deferral_expired(&mut self, now: Time, id: ClientId) {
        if let Some(begin) = &mut self.client_mut(id).session.deferred_begin {
            begin.expired = true;
        }
        if let crate::base::reasons::Acquired::Server(server_id) = self.acquire(now, id) {
            self.begin_alone(now, id, server_id);
        }
    }

    /// Sends a deferred BEGIN with its own Sync, for a client that has sent nothing else yet.
    pub(crate) fn begin_alone(&mut self, now: Time, id: ClientId, server_id: ServerId) {
        self.send_deferred_begin(id, server_id);
        let server = self.server_mut(server_id);
        server.conversation.request_time = now;
        if server.conversation.queue.segment_open() {
            self.at(server_id).asks(To::Skip, |r| r.sync());
        }
    }
}
