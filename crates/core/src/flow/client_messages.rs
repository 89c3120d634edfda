//! A logged-in client's messages, on their way to a server.
//!
//! This is half of the forwarding path (the other half is [`crate::flow::server_messages`]): it walks message headers, leaves
//! an entry in the server's reply queue for each request, and forwards ranges of the input. Only Parse, Bind, Describe
//! and Close of prepared statements and short simple queries are looked into.

use crate::base::errors::Trouble;
use crate::base::ids::{ClientId, ServerId};
use crate::base::message::{Message, Step};
use crate::base::reasons::{Acquired, Dropping, Passing, Waiting};
use crate::base::settings::PoolMode;
use crate::base::time::Time;
use crate::base::weakness::Weakness;
use crate::client::Client;
use crate::exchange::{Exchange, Granted, Wish};
use crate::flow::link::Linked;
use crate::flow::requests::Stopped;
use crate::pooler::Pooler;
use crate::server::Server;
use crate::upstream::phase::Intake;
use crate::upstream::reply_queue::{Effect, Entry, Expect, To};
use crate::upstream::requests::Requests;
use pgweir_sql::Effects;
use pgweir_wire::{FrontendTag, HEADER_BYTES, Header, TransactionStatus};

/// What a function may do that is called by its number.
const CALLED: Effects = pgweir_sql::UNREAD.union(Effects::SERVER_BOUND).union(Effects::SEQUENCE);

impl Exchange<'_> {
    /// A message for a linked server.
    pub(crate) fn request(&mut self, message: &Message<'_>) -> Step {
        let client = &mut *self.client;
        let server = &mut *self.server;
        if server.conversation.intake == Intake::ToSync && message.tag != FrontendTag::Sync {
            return client.drop_message(message);
        }
        if server.conversation.intake == Intake::CopyIn && is_request(message.tag) {
            let message = format!(
                "unexpected message type 0x{:02X} during COPY from stdin",
                message.tag as u8
            );
            return self.fails(message, "expected CopyData, CopyDone or CopyFail".into());
        }
        let pool = &mut *self.pool;
        let tracked = pool.settings.mode != PoolMode::Session && self.shared.settings.max_prepared_statements > 0;
        if tracked
            && server.conversation.queue.segment_outstanding()
            && (touches_statements(message.tag)
                // What a pipelined ROLLBACK ends cannot be prepared in before.
                && (server.conversation.queue.statements_in_doubt()
                    || server.conversation.status == TransactionStatus::Failed && server.conversation.queue.client_segment_outstanding())
                || message.tag == FrontendTag::Parse && server.awaits_settings())
        {
            return self.waits_for_replies();
        }
        pool.stats.bytes_received += message.bytes.len() as u64;
        let step = match message.tag {
            FrontendTag::Query => self.query(message, tracked),
            FrontendTag::Parse if tracked => self.parse(message),
            FrontendTag::Bind if tracked => self.bind(message),
            FrontendTag::Describe if tracked => self.describe(message),
            FrontendTag::Close if tracked => self.close(message),
            FrontendTag::Execute => self.execute(message),
            FrontendTag::Parse => self.parse_untracked(message),
            FrontendTag::Bind => self.bind_untracked(message),
            FrontendTag::Describe => self.plain(message, Expect::Describe),
            FrontendTag::Close => self.close_untracked(message),
            FrontendTag::FunctionCall => self.function_call(message, tracked),
            FrontendTag::Sync => {
                if server.conversation.intake == Intake::CopyIn {
                    server.conversation.sync_among_copy_data = true;
                    self.forward(message)
                } else {
                    server.conversation.intake = Intake::Requests;
                    self.plain(message, Expect::Sync)
                }
            }
            // An error follows, and then the server ignores everything up to Sync: it must not be taken for free.
            FrontendTag::Flush if message.total > HEADER_BYTES && server.conversation.intake != Intake::CopyIn => {
                self.plain(message, Expect::MalformedFlush)
            }
            FrontendTag::Flush => {
                let step = self.forward(message);
                // What need not wait for the server is said now.
                self.to().give_fakes();
                step
            }
            FrontendTag::CopyData | FrontendTag::CopyDone | FrontendTag::CopyFail
                if !server.conversation.may_copy() =>
            {
                client.drop_message(message)
            }
            FrontendTag::CopyData => {
                if server.conversation.intake != Intake::CopyIn {
                    server.conversation.queue.copy_data_sent();
                }
                self.forward(message)
            }
            FrontendTag::CopyDone | FrontendTag::CopyFail => {
                if server.conversation.intake == Intake::CopyIn {
                    server.conversation.intake = Intake::Requests;
                    self.forward(message)
                } else {
                    self.plain(message, Expect::CopyEnd)
                }
            }
            FrontendTag::Terminate | FrontendTag::Password => unreachable!("dealt with before the link"),
        };
        if let Step::NeedBytes | Step::Wait = step {
            // It comes again, whole.
            self.pool.stats.bytes_received -= message.bytes.len() as u64;
        }
        step
    }

    #[cold]
    fn function_call(&mut self, message: &Message<'_>, tracked: bool) -> Step {
        if !message.is_whole() && message.body().len() < size_of::<u32>() {
            return Step::NeedBytes;
        }
        if self.keeps_session()
            && let Some(step) = self.uses_sequences(Effects::CODE, message)
        {
            return step;
        }
        if self.keeps_session() && !crate::session::inspection::calls_large_objects(message.body()) {
            let hidden = self.settings_of_functions();
            self.suspect(CALLED, b"function call", hidden);
        }
        if tracked {
            self.to().doubt_statements();
        }
        self.plain(message, Expect::FunctionCall)
    }

    /// A message that goes through as it is and is answered in its turn.
    #[inline]
    pub(crate) fn plain(&mut self, message: &Message<'_>, expect: Expect) -> Step {
        self.pass_request(message, Entry::forward(expect))
    }

    /// A message that goes through as it is, and what is known of its reply.
    #[inline]
    pub(crate) fn pass_request(&mut self, message: &Message<'_>, entry: Entry) -> Step {
        self.server.conversation.queue.push(entry);
        self.forward(message)
    }

    /// A message that the pooler answers itself in its turn: [`To::Fake`].
    ///
    /// [`To::Fake`]: crate::upstream::reply_queue::To::Fake
    pub(crate) fn answers_in_turn(&mut self, message: &Message<'_>, expect: Expect, effect: Effect) -> Step {
        self.server.conversation.queue.push(Entry::fake(expect).with(effect));
        self.client.drop_message(message)
    }

    /// Requests of our own in place of the client's message, whose replies the client gets.
    pub(crate) fn asks_instead(&mut self, message: &Message<'_>, write: impl FnOnce(&mut Requests<'_>)) -> Step {
        self.to().asks(To::Forward, write);
        self.client.drop_message(message)
    }

    /// Forwards as much of a message as is there; the rest follows by itself.
    #[inline]
    pub(crate) fn forward(&mut self, message: &Message<'_>) -> Step {
        self.forward_rest(message, 0)
    }

    /// Forwards a message from its byte `from` on.
    #[inline]
    pub(crate) fn forward_rest(&mut self, message: &Message<'_>, from: usize) -> Step {
        let have = message.bytes.len();
        self.shared
            .outbox
            .forward(self.server_id.into(), message.at + from..message.at + have);
        if have < message.total {
            let client = &mut *self.client;
            client.passing = Passing::Forward((message.total - have) as u32);
        }
        Step::Progress(have)
    }
}

impl Pooler {
    pub(crate) fn session_bytes(&mut self, now: Time, id: ClientId, input: &[u8]) -> usize {
        let mut at = 0;
        if input.is_empty() {
            self.linked_without_request(now, id);
        }
        while at < input.len() {
            let Some(client) = self.clients.get_mut(id.0) else {
                return input.len();
            };
            match client.passing {
                Passing::None => {}
                Passing::Forward(_) | Passing::Skip(_) => {
                    at += self.pass_on(now, id, at, &input[at..]);
                    continue;
                }
            }
            if client.waiting != Waiting::No {
                return at;
            }
            let link = client.link;
            let exchange = match link {
                Some(server_id) => Some(self.between(now, id, server_id)),
                None => match self.takes_plainly(now, id, &input[at..]) {
                    Some(server_id) => {
                        let mut exchange = self.between(now, id, server_id);
                        if exchange.link() != Linked::Ready {
                            self.restore(now, id, server_id);
                            continue;
                        }
                        Some(exchange)
                    }
                    None => None,
                },
            };
            if let Some(mut exchange) = exchange {
                let before = at;
                match exchange.pass(input, &mut at) {
                    Stopped::Done => return at,
                    Stopped::CatalogTold { goes_on } => {
                        self.tell_untold_pools();
                        if goes_on {
                            continue;
                        }
                        return at;
                    }
                    // It may wait now, or be in the midst of a message.
                    Stopped::Rare if at > before || link.is_none() => continue,
                    Stopped::Rare => {}
                }
            }
            let message = match self.read_message(now, id, input, at) {
                Ok(message) => message,
                Err(consumed) => return consumed,
            };
            match self.client_message(now, id, &message, input) {
                Step::Progress(bytes) => at += bytes,
                Step::NeedBytes => {
                    if let Some(client) = self.clients.get_mut(id.0) {
                        client.needs_whole(message.tag, message.total);
                    }
                    return at;
                }
                Step::Wait => return at,
                Step::Closed => return input.len(),
            }
        }
        at
    }

    /// The message that begins at `at`; or how much of the input is consumed, where it has not come or breaks the protocol.
    fn read_message<'m>(&mut self, now: Time, id: ClientId, input: &'m [u8], at: usize) -> Result<Message<'m>, usize> {
        let limit = self.shared.settings.max_packet_bytes;
        let trouble = match Header::read(&input[at..]) {
            Ok(None) => return Err(at),
            Ok(Some(header)) if header.message_bytes > limit => {
                let detail = format!("expected at most {limit}, got {}", header.message_bytes);
                (
                    "bad packet header: message is too long".into(),
                    detail,
                    "See max_packet_size.",
                )
            }
            Ok(Some(header)) => match FrontendTag::from_byte(header.tag) {
                Some(tag) => return Ok(Message::new(tag, header, input, at)),
                None => {
                    let message = format!("unknown pkt: invalid frontend message type {}", header.tag);
                    (message, String::new(), "")
                }
            },
            Err(error) => (error.to_string(), String::new(), ""),
        };
        let (message, detail, hint) = trouble;
        self.fail_client(now, id, Trouble::ProtocolViolation, &message, &detail, hint);
        Err(input.len())
    }

    /// A client that got a server and has nothing to send to it: a deferred BEGIN whose time was up.
    fn linked_without_request(&mut self, now: Time, id: ClientId) {
        let Some(client) = self.clients.get(id.0) else { return };
        if let (Some(server_id), Some(_), Waiting::No) = (client.link, client.session.deferred_begin, client.waiting) {
            self.begin_alone(now, id, server_id);
        }
    }

    /// The rest of a message that was begun earlier.
    fn pass_on(&mut self, now: Time, id: ClientId, at: usize, available: &[u8]) -> usize {
        let client = self.clients.get_mut(id.0).expect("the caller looked it up");
        let (Passing::Forward(left) | Passing::Skip(left)) = client.passing else {
            return 0;
        };
        let bytes = available.len().min(left as usize);
        let rest = left - bytes as u32;
        if let Passing::Forward(_) = client.passing {
            client.passing = if rest == 0 {
                Passing::None
            } else {
                Passing::Forward(rest)
            };
            if let Some(server_id) = client.link {
                let pool = client.pool;
                if let Some(text) = &mut client.long_text {
                    text.feed(&available[..bytes]);
                    if rest == 0 {
                        self.between(now, id, server_id).long_text_ends();
                        self.tell_untold_pools();
                    }
                }
                self.shared.outbox.forward(server_id.into(), at..at + bytes);
                self.pool_mut(pool.expect("a linked client has a pool"))
                    .stats
                    .bytes_received += bytes as u64;
                if rest == 0 {
                    self.release_if_clean(now, server_id);
                }
            }
        } else {
            client.passing = if rest == 0 { Passing::None } else { Passing::Skip(rest) };
        }
        bytes
    }

    fn client_message(&mut self, now: Time, id: ClientId, message: &Message<'_>, input: &[u8]) -> Step {
        let client = self.clients.get_mut(id.0).expect("the caller looked it up");
        if client.dropping != Dropping::Nothing && message.tag != FrontendTag::Terminate {
            return self.dropped(id, message);
        }
        match message.tag {
            FrontendTag::Terminate => {
                self.close_client(now, id, "client close request");
                return Step::Closed;
            }
            FrontendTag::Password => {
                let message = "unexpected password message";
                self.fail_client(
                    now,
                    id,
                    Trouble::ProtocolViolation,
                    message,
                    "expected a query, got message 'p'",
                    "",
                );
                return Step::Closed;
            }
            FrontendTag::Query if self.shared.settings.disable_pqexec => {
                let hint = "The setting disable_pqexec allows the extended query protocol only.";
                self.fail_client(now, id, Trouble::ProtocolViolation, "PQexec disallowed", "", hint);
                return Step::Closed;
            }
            _ => {}
        }
        let Some(mut server_id) = client.link else {
            return self.takes_server(now, id, message, input);
        };
        let attends = client.attends();
        if self.servers.get(server_id.0).is_some_and(|s| s.session.has_traces()) {
            if let Some(step) = self.mind_traces(now, id, server_id, message) {
                return step;
            }
            server_id = self.clients.get(id.0).and_then(|c| c.link).unwrap_or(server_id);
        }
        if attends {
            if let Some(step) = self.mind_channels(now, id, server_id, message) {
                return step;
            }
            if self
                .clients
                .get(id.0)
                .is_some_and(|c| c.session.deferred_begin.is_some())
            {
                match message.is_whole() {
                    true => self.send_deferred_begin(id, server_id),
                    // Where it is refused, nothing of ours can be said in the midst of the message.
                    false => self.begin_alone(now, id, server_id),
                }
            }
        }
        let sends_on = self.is_weak(Weakness::ClosesCancelEarly);
        let server = self.servers.get_mut(server_id.0).expect("a linked server lives");
        if server.holds_back() && !sends_on {
            self.client_mut(id).waiting = Waiting::ForReplies;
            return Step::Wait;
        }
        let mut exchange = self.between(now, id, server_id);
        let step = exchange.begins_request(message);
        match exchange.wish.take() {
            None => step,
            Some(wish) => self.grant(now, id, server_id, message, wish, step),
        }
    }

    /// A message of a client without a server: it is answered, or looked at again when the client has one.
    fn takes_server(&mut self, now: Time, id: ClientId, message: &Message<'_>, input: &[u8]) -> Step {
        if let Some(step) = self.without_server(now, id, message, input) {
            return step;
        }
        if !message.may_take_server() {
            return Step::NeedBytes;
        }
        match self.acquire(now, id) {
            Acquired::Server(_) => Step::Progress(0),
            Acquired::Wait => Step::Wait,
            Acquired::Closed => Step::Closed,
        }
    }

    /// Does what a message needs of other connections, and deals with the message then. `step` is what has come of it.
    #[cold]
    fn grant(
        &mut self,
        now: Time,
        id: ClientId,
        server_id: ServerId,
        message: &Message<'_>,
        mut wish: Wish,
        mut step: Step,
    ) -> Step {
        let mut granted = Granted::default();
        loop {
            self.tell_untold_pools();
            match wish {
                Wish::CatalogRead => return step,
                Wish::Fail { message, detail } => {
                    self.fail_client(now, id, Trouble::ProtocolViolation, &message, &detail, "");
                    return Step::Closed;
                }
                Wish::Signal => {
                    if let Some(step) = self.call(now, id, server_id, message) {
                        return step;
                    }
                    granted.signal = true;
                }
                Wish::DatabaseAlone(database) => {
                    self.clear_database(now, id, &database);
                    granted.database_alone = true;
                }
                Wish::OwnServer => {
                    if self.goes_to_own_server(now, id, server_id) {
                        return Step::Wait;
                    }
                    granted.own_server = true;
                }
            }
            let mut exchange = self.between(now, id, server_id);
            exchange.granted = granted;
            step = exchange.request(message);
            match exchange.wish.take() {
                None => return step,
                Some(next) => wish = next,
            }
        }
    }

    /// A message that an error of our own has answered already.
    pub(crate) fn dropped(&mut self, id: ClientId, message: &Message<'_>) -> Step {
        let client = self.clients.get_mut(id.0).expect("looked up by the caller");
        let (step, ends) = client.drop_answered(message);
        if ends {
            let server = client.link.and_then(|s| self.servers.get(s.0));
            let status = server.map_or_else(|| client.session.idle_status(), |s| s.conversation.status);
            self.send(id, |w| w.ready_for_query(status));
        }
        step
    }

    #[inline]
    pub(crate) fn server_mut(&mut self, id: ServerId) -> &mut Server {
        self.servers.get_mut(id.0).expect("a linked server lives")
    }

    #[inline]
    pub(crate) fn client_mut(&mut self, id: ClientId) -> &mut Client {
        self.clients.get_mut(id.0).expect("the caller looked it up")
    }

    /// Answers a message that needs no server, where there is none. `None`: it needs one.
    fn without_server(&mut self, now: Time, id: ClientId, message: &Message<'_>, input: &[u8]) -> Option<Step> {
        let client = self.clients.get_mut(id.0).expect("looked up by the caller");
        match message.tag {
            // Copy messages outside a copy are ignored, as the server does ("COPY Operations").
            FrontendTag::CopyData | FrontendTag::CopyDone | FrontendTag::CopyFail | FrontendTag::Flush => {
                Some(client.drop_message(message))
            }
            FrontendTag::Sync => {
                let status = client.session.idle_status();
                let step = client.drop_message(message);
                self.send(id, |w| w.ready_for_query(status));
                Some(step)
            }
            _ => self.deferred(now, id, message, input),
        }
    }

    /// Gives back a server whose client is between messages, unless there is something to ask it first.
    pub(crate) fn release_if_clean(&mut self, now: Time, server_id: ServerId) {
        let Some(server) = self.servers.get(server_id.0) else {
            return;
        };
        let Some(client) = server.link.and_then(|c| self.clients.get(c.0)) else {
            return;
        };
        let resets = client.session.reset_among.is_some();
        if !server.is_clean() || client.passing != Passing::None || server.session.restoration.is_some() || resets {
            return;
        }
        let (client_id, mut pinned) = (server.link, !client.session.pins.is_empty());
        let suspected = client.session.suspicion.is_some() || self.shared.settings.probe_always;
        if suspected {
            let exchange = client_id.map(|id| self.between(now, id, server_id));
            if exchange.is_some_and(|mut exchange| exchange.probe()) {
                return;
            }
            pinned = client_id
                .and_then(|c| self.clients.get(c.0))
                .is_some_and(|c| !c.session.pins.is_empty());
        }
        if pinned {
            self.move_on(now, server_id);
        } else {
            self.release(now, server_id);
        }
    }
}

/// Whether a message asks for something: it ends a copy-in by an error.
fn is_request(tag: FrontendTag) -> bool {
    use FrontendTag::{Bind, Close, Describe, Execute, FunctionCall, Parse, Query};
    matches!(tag, Query | Parse | Bind | Describe | Execute | Close | FunctionCall)
}

/// Whether a message uses or changes prepared statements; a Query destroys the unnamed one.
fn touches_statements(tag: FrontendTag) -> bool {
    use FrontendTag::{Bind, Close, Describe, Parse, Query};
    matches!(tag, Parse | Bind | Describe | Close | Query)
}
