//! The bytes of a client that has logged in: message by message, with its server or without one.

use crate::base::errors::Trouble;
use crate::base::failure::Failure;
use crate::base::ids::{ClientId, ServerId};
use crate::base::message::{INSPECT_BYTES_MAX, Message, Step, bad_header};
use crate::base::reasons::{Acquired, Dropping, Passing, Waiting};
use crate::base::time::Time;
use crate::base::weakness::Weakness;
use crate::exchange::{Granted, Wish};
use crate::flow::link::Linked;
use crate::flow::requests::Stopped;
use crate::pooler::Pooler;
use crate::state::deferred_begin::DeferredBegin;
use pgweir_wire::{FrontendTag, HEADER_BYTES, Header};

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
                    at += match self.pass_on(now, id, at, &input[at..]) {
                        0 => return at,
                        passed => passed,
                    };
                    self.settle(now);
                    continue;
                }
            }
            if client.waiting != Waiting::No {
                client.session.may_ask_for_itself(&input[at..]);
                return at;
            }
            let link = client.link;
            let server_id = link.or_else(|| self.takes_plainly(now, id, &input[at..]));
            if let Some(server_id) = server_id {
                let mut exchange = self.between(now, id, server_id);
                if link.is_none() && exchange.link() != Linked::Ready {
                    self.restore(now, id, server_id);
                    self.settle(now);
                    continue;
                }
                if exchange.pool.share().is_some() {
                    exchange.works(&input[at..]);
                }
                let before = at;
                match exchange.pass(input, &mut at) {
                    Stopped::Done => return at,
                    Stopped::CatalogTold { goes_on } => {
                        self.tell_catalog_news(now);
                        if goes_on {
                            continue;
                        }
                        return at;
                    }
                    // The client may wait now, or be inside a message.
                    Stopped::Rare if at > before || link.is_none() => continue,
                    Stopped::Rare => {}
                }
            }
            let next = self.next_with_care(now, id, input, at);
            self.settle(now);
            match next {
                Ok(next) => at = next,
                Err(consumed) => return consumed,
            }
        }
        at
    }

    /// Handles the message that begins at `at`, whatever it is. Returns where the next one begins, or how much of the
    /// input is consumed if it cannot be handled now.
    #[inline(never)]
    fn next_with_care(&mut self, now: Time, id: ClientId, input: &[u8], at: usize) -> Result<usize, usize> {
        let message = match self.read_message(now, id, input, at) {
            Ok(message) => message,
            Err(consumed) => {
                self.linked_without_request(now, id);
                return Err(consumed);
            }
        };
        match self.client_message(now, id, &message, input) {
            Step::Progress(bytes) => Ok(at + bytes),
            Step::NeedBytes => {
                if let Some(client) = self.clients.get_mut(id.0) {
                    client.needs_more(&message);
                }
                self.linked_without_request(now, id);
                Err(at)
            }
            Step::Wait => Err(at),
            Step::Closed => Err(input.len()),
        }
    }

    /// The message that begins at `at`. If it is incomplete or breaks the protocol: how much of the input is consumed.
    pub(crate) fn read_message<'m>(
        &mut self,
        now: Time,
        id: ClientId,
        input: &'m [u8],
        at: usize,
    ) -> Result<Message<'m>, usize> {
        let limit = self.shared.settings.max_packet_bytes;
        let (message, detail) = match Header::read_of_client(&input[at..]) {
            Ok(None) => return Err(at),
            Ok(Some(header)) if header.message_bytes > limit => {
                self.message_is_too_long(now, id, "bad packet header", header.message_bytes);
                return Err(input.len());
            }
            Ok(Some(header)) => match FrontendTag::from_byte(header.tag) {
                Some(tag) => return Ok(Message::new(tag, header, input, at)),
                None => {
                    self.refuse_packet(now, id, header.tag);
                    return Err(input.len());
                }
            },
            Err(error) => (bad_header(&input[at..at + HEADER_BYTES]), error.to_string()),
        };
        let failure = Failure::new(Trouble::ProtocolViolation, &message).with_detail(&detail);
        self.fail_client(now, id, failure);
        Err(input.len())
    }

    /// A message of the client, or for it, is longer than `max_packet_size`. `words`: PgBouncer's.
    pub(crate) fn message_is_too_long(&mut self, now: Time, id: ClientId, words: &str, bytes: u32) {
        let limit = self.shared.settings.max_packet_bytes;
        let detail = format!("expected at most {limit}, got {bytes}");
        let message = format!("{words}: message is too long");
        let failure = Failure::new(Trouble::ProtocolViolation, &message)
            .with_detail(&detail)
            .with_hint("See max_packet_size.");
        self.fail_client(now, id, failure);
    }

    /// A client got a server and has no complete message to send: the deferral of its BEGIN is over.
    pub(crate) fn linked_without_request(&mut self, now: Time, id: ClientId) {
        let Some(client) = self.clients.get(id.0) else { return };
        if let (Some(server_id), Some(_), Waiting::No) = (client.link, client.session.deferred_begin(), client.waiting)
        {
            self.between(now, id, server_id).begin_alone();
        }
    }

    /// The rest of a message whose beginning was handled before. Returns how much of it is consumed: 0 if its last byte
    /// must wait.
    pub(crate) fn pass_on(&mut self, now: Time, id: ClientId, at: usize, available: &[u8]) -> usize {
        let client = self.clients.get(id.0).expect("the caller looked it up");
        let (Passing::Forward(left) | Passing::Skip(left)) = client.passing else {
            return 0;
        };
        let mut bytes = available.len().min(left as usize);
        if bytes == left as usize && client.long_text.is_some() && self.last_byte_waits(now, id) {
            bytes -= 1;
        }
        let client = self.clients.get_mut(id.0).expect("looked up above");
        let rest = left - bytes as u32;
        if let Passing::Forward(_) = client.passing {
            client.passing = if rest == 0 {
                Passing::None
            } else {
                Passing::Forward(rest)
            };
            if let Some(server_id) = client.link {
                let pool = client.pool;
                let mut may_run = true;
                if let Some(text) = &mut client.long_text {
                    text.feed(&available[..bytes]);
                    if rest == 0 {
                        let concerns = self.listen(now, |listening| listening.mind_long_text(id, server_id));
                        may_run = self.between(now, id, server_id).sent_text_ends(concerns);
                        self.tell_catalog_news(now);
                    }
                }
                let end = at + bytes - usize::from(!may_run);
                self.shared.outbox.forward(server_id.into(), at..end);
                if !may_run {
                    self.shared.outbox.insert(server_id.into(), |bytes| bytes.push(b'!'));
                }
                self.pool_mut(pool.expect("a linked client has a pool"))
                    .stats_mut()
                    .bytes_received += bytes as u64;
                if rest == 0 {
                    self.release_if_clean(now, server_id);
                }
            }
        } else {
            client.passing = if rest == 0 { Passing::None } else { Passing::Skip(rest) };
            // The server may have become free in the midst of the message.
            if let Some(server_id) = client.link.filter(|_| rest == 0) {
                self.release_if_clean(now, server_id);
            }
        }
        bytes
    }

    pub(crate) fn client_message(&mut self, now: Time, id: ClientId, message: &Message<'_>, input: &[u8]) -> Step {
        let client = self.clients.get_mut(id.0).expect("the caller looked it up");
        if client.dropping != Dropping::Nothing && message.tag != FrontendTag::Terminate {
            return self.dropped(now, id, message);
        }
        match message.tag {
            FrontendTag::Terminate => {
                self.close_client(now, id, "client close request");
                return Step::Closed;
            }
            FrontendTag::Password => {
                self.refuse_packet(now, id, b'p');
                return Step::Closed;
            }
            FrontendTag::Query if self.shared.settings.disable_pqexec => {
                self.refuse_pqexec(now, id);
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
            if let Some(step) = self.listen(now, |listening| listening.mind_channels(id, server_id, message)) {
                return step;
            }
            let client = self.clients.get(id.0);
            if client.is_some_and(|c| c.session.deferred_begin().is_some()) {
                match message.is_whole() {
                    true => self.between(now, id, server_id).send_deferred_begin(),
                    // If the BEGIN is refused, the pooler can send no error inside the message.
                    false => self.between(now, id, server_id).begin_alone(),
                }
            }
        }
        let sends_on = self.is_weak(Weakness::ClosesCancelEarly);
        if !sends_on && self.holds_back(server_id, message.tag) {
            self.client_mut(id).waiting = Waiting::ForReplies;
            return Step::Wait;
        }
        let mut exchange = self.between(now, id, server_id);
        let step = exchange.begins_request_with_care(message);
        match exchange.wish.take() {
            None => step,
            Some(wish) => self.grant(now, id, server_id, message, wish, step),
        }
    }

    /// A message of a client without a server: it is answered, or handled again when the client has a server.
    pub(crate) fn takes_server(&mut self, now: Time, id: ClientId, message: &Message<'_>, input: &[u8]) -> Step {
        let answered = self
            .client_side(now, id)
            .and_then(|mut side| side.without_server(message, input));
        if let Some(step) = answered {
            return step;
        }
        if !message.may_take_server() && !self.is_weak(Weakness::TakesServerEarly) {
            return Step::NeedBytes;
        }
        if message.tag == FrontendTag::Parse
            && let Some(step) = self.parse_without_server(id, message)
        {
            return step;
        }
        match self.acquire(now, id) {
            Acquired::Server(_) => Step::Progress(0),
            Acquired::Wait => {
                self.waits_to_fly(id, &input[message.at..]);
                Step::Wait
            }
            Acquired::Closed => Step::Closed,
        }
    }

    /// Does what a message needs from other connections, and then handles the message. `step`: the result of the first
    /// attempt.
    #[cold]
    pub(crate) fn grant(
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
            self.tell_catalog_news(now);
            match wish {
                Wish::CatalogNews => return step,
                Wish::Fail { message, detail } => {
                    let failure = Failure::new(Trouble::ProtocolViolation, &message).with_detail(&detail);
                    self.fail_client(now, id, failure);
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
                Wish::Definition => {
                    if self.waits_to_define(now, id, server_id) {
                        return Step::Wait;
                    }
                    granted.definition = true;
                }
                Wish::Publication => {
                    if self.waits_to_publish(now, id, server_id) {
                        return Step::Wait;
                    }
                    granted.publication = true;
                }
            }
            let mut exchange = self.between(now, id, server_id);
            exchange.granted = granted;
            step = exchange.request_with_care(message);
            match exchange.wish.take() {
                None => return step,
                Some(next) => wish = next,
            }
        }
    }

    /// A message that the pooler has already answered with an error.
    pub(crate) fn dropped(&mut self, now: Time, id: ClientId, message: &Message<'_>) -> Step {
        let client = self.clients.get_mut(id.0).expect("looked up by the caller");
        let tells_begin = matches!(message.tag, FrontendTag::Query | FrontendTag::Parse | FrontendTag::Bind);
        if client.may_begin_block() && tells_begin && !message.is_whole() && message.total <= INSPECT_BYTES_MAX {
            return Step::NeedBytes;
        }
        let dropped = client.drop_answered(message);
        if dropped.begins_block {
            client.session.defers(DeferredBegin::of_failed(now));
        }
        if dropped.ends {
            let server = client.link.and_then(|s| self.servers.get(s.0));
            let status = server.map_or_else(|| client.session.idle_status(), |s| s.conversation.status());
            if let Some(mut side) = self.client_side(now, id) {
                side.is_ready(status);
            }
        }
        dropped.step
    }

    /// Gives back a server whose client is between messages, unless the server must be asked something first.
    pub(crate) fn release_if_clean(&mut self, now: Time, server_id: ServerId) {
        let Some(server) = self.servers.get(server_id.0) else {
            return;
        };
        let Some(client) = server.link.and_then(|c| self.clients.get(c.0)) else {
            return;
        };
        let resets = client.session.awaits_reset();
        if !server.is_clean() || client.passing != Passing::None || server.session.restoration().is_some() || resets {
            return;
        }
        let (client_id, mut pinned) = (server.link, !client.session.pins().is_empty());
        let suspected = client.session.suspicion().is_some() || self.shared.settings.probe_always;
        if suspected {
            let exchange = client_id.map(|id| self.between(now, id, server_id));
            if exchange.is_some_and(|mut exchange| exchange.probe()) {
                return;
            }
            pinned = client_id
                .and_then(|c| self.clients.get(c.0))
                .is_some_and(|c| !c.session.pins().is_empty());
        }
        if pinned {
            self.listen(now, |listening| listening.move_on(server_id));
        } else {
            self.release(now, server_id);
        }
    }
}
