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
use crate::base::reasons::{Acquired, Passed};
use crate::base::settings::PoolMode;
use crate::base::time::Time;
use crate::client::Client;
use crate::client_side::ClientSide;
use crate::exchange::Exchange;
use crate::pooler::Pooler;
use crate::server_side::ServerSide;
use crate::state::deferred_begin::{By, DeferredBegin};
use crate::upstream::entry::To;
use crate::upstream::nature::Nature;
use crate::upstream::phase::{Begin, Intake};
use pgweir_sql::Statement;
use pgweir_sql::statement::STATEMENT_BYTES_MAX;
use pgweir_wire::frontend::{BindNames, Named, Parse, Target};
use pgweir_wire::{FrontendTag, HEADER_BYTES, TransactionStatus};

/// A portal that does not exist: Describe of it fails, and so does the transaction.
const NO_PORTAL: &[u8] = b"the transaction has failed";

/// A segment of the extended protocol that consists of one BEGIN, COMMIT or ROLLBACK.
struct Segment<'a> {
    parse: Option<Parse<'a>>,
    verdict: Statement,
    described: bool,
    bytes: usize,
}

impl ClientSide<'_> {
    /// Answers a message that needs no server, for a client without one. `None`: it needs one.
    pub(crate) fn without_server(&mut self, message: &Message<'_>, input: &[u8]) -> Option<Step> {
        let client = &mut *self.client;
        // A server says what is wrong with a Sync or Flush that has a body; behind a BEGIN the transaction fails.
        let is_empty = message.total == HEADER_BYTES;
        match message.tag {
            FrontendTag::Sync | FrontendTag::Flush if !is_empty => None,
            // The server ignores copy messages outside of a copy ("COPY Operations"), and so does the pooler.
            tag if tag.asks_nothing() => Some(client.drop_message(message)),
            FrontendTag::Sync => {
                let status = client.session.idle_status();
                let step = client.drop_message(message);
                self.answer(message.total, |w| w.ready_for_query(status));
                self.pool.stats_mut().query_count += 1;
                Some(step)
            }
            _ => self.deferred(message, input),
        }
    }

    /// Answers a message of an unlinked client if no server is needed for that.
    fn deferred(&mut self, message: &Message<'_>, input: &[u8]) -> Option<Step> {
        if !self.shared.settings.tracks_statements_of(self.pool.settings()) {
            return None;
        }
        match message.tag {
            FrontendTag::Query => self.deferred_query(message),
            FrontendTag::Parse | FrontendTag::Bind => self.deferred_segment(message, input),
            FrontendTag::Close if message.is_whole() => self.close_without_server(message),
            _ => None,
        }
    }

    fn deferred_query(&mut self, message: &Message<'_>) -> Option<Step> {
        if message.total > HEADER_BYTES + STATEMENT_BYTES_MAX + 1 {
            return None;
        }
        if !message.is_whole() {
            return Some(Step::NeedBytes);
        }
        let [text @ .., 0] = message.body() else { return None };
        let verdict = pgweir_sql::classify(text);
        if !is_read_alike(&verdict, text) {
            return None;
        }
        let reply = self.run_deferred(&verdict, By::Query)?;
        self.client.statements.replace_unnamed(None);
        let status = self.client.session.idle_status();
        self.answer(message.total, |w| {
            w.command_complete(reply);
            w.ready_for_query(status);
        });
        Some(Step::Progress(message.total))
    }

    /// Begins or ends a transaction that no server knows. Returns its command tag, or `None` if a server must be asked.
    fn run_deferred(&mut self, verdict: &Statement, by: By) -> Option<&'static str> {
        let allowed = self.shared.settings.deferred_begin.is_some();
        let is_console = self.pool.nature() == Nature::Console;
        let transaction_mode = self.pool.settings().mode == PoolMode::Transaction && !is_console;
        let client = &mut *self.client;
        let begun = Some(DeferredBegin::new(self.now, by));
        let (begin, tag) = match (verdict, client.session.deferred_begin()) {
            (Statement::Begin, None) if allowed && transaction_mode => (begun, "BEGIN"),
            (Statement::StartTransaction, None) if allowed && transaction_mode => (begun, "START TRANSACTION"),
            (Statement::Commit, Some(begin)) if !begin.has_failed() => (None, "COMMIT"),
            // COMMIT of a failed transaction rolls back.
            (Statement::Commit, Some(_)) => (None, "ROLLBACK"),
            (Statement::Rollback, Some(_)) => (None, "ROLLBACK"),
            _ => return None,
        };
        client.request_time = self.now;
        client.session.take_deferred_begin();
        // Its portal takes the place of the one that the client has bound.
        client.statements.take_untold_portal();
        if let Some(begin) = begin {
            client.session.defers(begin);
            self.deferred.push_back((self.id, self.now));
        }
        let stats = self.pool.stats_mut();
        stats.query_count += 1;
        stats.xact_count += u64::from(begin.is_none());
        Some(tag)
    }

    fn deferred_segment(&mut self, message: &Message<'_>, input: &[u8]) -> Option<Step> {
        let segment = read_segment(self.client, &input[message.at..])?;
        let tag = self.run_deferred(&segment.verdict, By::Portal)?;
        let client = &mut *self.client;
        if let Some(parse) = segment.parse {
            let settings = client.session.shape().parse_settings();
            let unnamed = self.shared.statements.intern(parse.query, parse.types, settings);
            client.statements.replace_unnamed(Some(unnamed));
        }
        let status = client.session.idle_status();
        self.answer(segment.bytes, |w| {
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

    /// Closes a statement of an unlinked client; no server is concerned.
    fn close_without_server(&mut self, message: &Message<'_>) -> Option<Step> {
        let Ok(Named {
            target: Target::Statement,
            name,
        }) = Named::read(message.body())
        else {
            return None;
        };
        if !name.is_empty() {
            self.client.forget_name(name)?;
        } else {
            self.client.forget_name(name);
        }
        self.answer(message.total, |w| w.empty(b'3'));
        Some(Step::Progress(message.total))
    }
}

/// Whether a text is a statement with a verdict, which every server reads alike. Bytes beyond ASCII are refused if they
/// are no characters in client_encoding, also in a comment. A vertical tab is white space only since PostgreSQL 16.
fn is_read_alike(verdict: &Statement, text: &[u8]) -> bool {
    let is_plain = |byte: &u8| byte.is_ascii() && !matches!(byte, b'\0' | b'\x0b');
    *verdict != Statement::Other && text.iter().all(is_plain)
}

/// Reads `[Parse] Bind [Describe] Execute Sync` of the unnamed portal, all of it present. `None`: it is something else, or
/// a message is not formed exactly as it must be. A server refuses such messages.
fn read_segment<'a>(client: &Client, bytes: &'a [u8]) -> Option<Segment<'a>> {
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
    if !names.bind_nothing(body) {
        return None;
    }
    let (verdict, text) = match (parse, names.statement) {
        (Some(parse), b"") => (pgweir_sql::classify(parse.query), parse.query),
        (None, name) => {
            let meaning = client.statements.meaning_of(name)?;
            if *meaning.types != [0, 0] {
                return None;
            }
            (meaning.verdict.clone(), &*meaning.query)
        }
        _ => return None,
    };
    if !is_read_alike(&verdict, text) {
        return None;
    }
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
    // The unnamed portal, and any number of rows.
    let executes = tag == b'E' && body.len() == 1 + 4 && body[0] == 0;
    let (tag, body) = rest.next()?;
    if !executes || tag != b'S' || !body.is_empty() {
        return None;
    }
    Some(Segment {
        parse,
        verdict,
        described,
        bytes: rest.read_bytes(),
    })
}

impl Exchange<'_> {
    /// Sends a deferred BEGIN ahead of the client's first real request.
    pub(crate) fn send_deferred_begin(&mut self) {
        let Some(begin) = self.client.session.take_deferred_begin() else {
            return;
        };
        self.client.xact_start = begin.since();
        let statement = self.shared.internal.begin.clone();
        self.to().prepare(&statement);
        self.server.conversation.begin_is_sent();
        self.to().asks(To::Skip, |r| {
            r.bind(b"", statement.server_name(), &[]);
            r.execute(b"");
            if begin.by() == By::Query {
                r.close(b'P', b"");
            }
        });
        if begin.has_failed() {
            self.to().fail_transaction();
        }
    }

    /// Sends a deferred BEGIN and a Sync, for a client that has sent nothing else yet.
    pub(crate) fn begin_alone(&mut self) {
        self.send_deferred_begin();
        let server = &mut *self.server;
        server.conversation.query_begins(self.now);
        if server.conversation.queue().segment_open() {
            self.to().asks(To::Skip, |r| r.sync());
        }
    }
}

impl ServerSide<'_> {
    /// Makes the transaction that has just begun a failed one, because the client was told that it has failed.
    fn fail_transaction(&mut self) {
        self.fail_segment();
        self.asks(To::Skip, |r| r.sync());
    }

    /// Makes the open segment fail, and with it its transaction.
    pub(crate) fn fail_segment(&mut self) {
        self.asks(To::Swallow, |r| r.describe(b'P', NO_PORTAL));
    }
}

impl Pooler {
    /// The ReadyForQuery behind a deferred BEGIN that the server has refused: the client believes that it is in a
    /// transaction, and is told that the transaction has failed. If the ReadyForQuery answers an internal request, the
    /// client is told when it asks for something.
    #[cold]
    pub(crate) fn transaction_never_began(&mut self, now: Time, server_id: ServerId, of_client: bool) -> Passed {
        let link = self.server_mut(server_id).link;
        let Some(id) = link.filter(|id| self.clients.get(id.0).is_some()) else {
            return Passed::skip_and_release_if(self.server_mut(server_id).conversation.queue().is_empty());
        };
        self.client_mut(id).session.defers(DeferredBegin::of_failed(now));
        if let Some(mut side) = self.client_side(now, id).filter(|_| of_client) {
            side.is_ready(TransactionStatus::Failed);
        }
        self.release_if_clean(now, server_id);
        match self.servers.get(server_id.0) {
            Some(_) => Passed::Skip,
            None => Passed::Closed,
        }
    }

    /// Whether a message must wait for replies: see [`crate::server::Server::holds_back`]. A server that has refused a
    /// BEGIN in front of a segment ignores everything up to the Sync, so nothing waits for it but a Query or
    /// FunctionCall, and for these the pooler sends the Sync.
    pub(crate) fn holds_back(&mut self, server_id: ServerId, tag: FrontendTag) -> bool {
        let server = self.servers.get_mut(server_id.0).expect("a linked server lives");
        let conversation = &mut server.conversation;
        let ignores = conversation.begin() == Begin::Refused && conversation.intake() == Intake::ToSync;
        if !ignores || server.cancels.may_hit() {
            return server.holds_back();
        }
        let is_request = matches!(tag, FrontendTag::Query | FrontendTag::FunctionCall);
        if is_request {
            conversation.takes_requests_from_here();
            self.at(server_id).asks(To::Skip, |r| r.sync());
        }
        is_request
    }

    /// The deferral is over: the BEGIN goes to a server alone.
    pub(crate) fn deferral_expired(&mut self, now: Time, id: ClientId) {
        self.client_mut(id).session.deferral_expires();
        if let Acquired::Server(server_id) = self.acquire(now, id) {
            self.between(now, id, server_id).begin_alone();
        }
    }
}
