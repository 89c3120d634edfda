//! `pg_terminate_backend()` and `pg_cancel_backend()` with the process id that a client was told at login.
//!
//! No server process has that id, so the pooler acts on the client itself if the statement consists of the call alone.
//! The server only gives the answer: it gets `SELECT true` under the function's name instead of the call. The same
//! login user, acting as itself, and superusers may do it, and only to clients of the same PostgreSQL: a role of one
//! PostgreSQL says nothing about another. In every other case the call goes to the server unchanged; the server
//! knows no such process, warns and returns false.
//!
//! Only the server knows what the name means under the client's search_path, and whether the client's role may call the
//! function. So it is asked first, and the message waits. In front of a Query the question is a segment of its own. In
//! front of a Bind it is a part of the client's segment, which its Sync would end too early; an error of the question
//! then fails the segment, and the client gets it. If the answer is not yes, the call goes to the server unchanged.

use crate::base::errors::Trouble;
use crate::base::failure::Failure;
use crate::base::ids::{CLIENT_IDS_FROM, ClientId, ServerId};
use crate::base::message::{INSPECT_BYTES_MAX, Message, Step};
use crate::base::time::Time;
use crate::base::weakness::Weakness;
use crate::exchange::Exchange;
use crate::flow::logins::admitting;
use crate::pooler::Pooler;
use crate::state::asked_right::AskedRight;
use crate::statements::unnamed::Unnamed;
use crate::upstream::entry::To;
use crate::upstream::job::Job;
use crate::upstream::phase::Begin;
use pgweir_sql::{Signal, SignalCall, SignalTarget, is_signal, signal_call};
use pgweir_wire::frontend::BindNames;
use pgweir_wire::{FrontendTag, Reader, TransactionStatus};

/// Reads from a Bind, after its names, the first parameter as a process id, and the formats of the results as they are.
fn first_parameter<'a>(body: &'a [u8], names: &BindNames<'_>) -> Option<(Option<u32>, &'a [u8])> {
    let mut reader = Reader::new(body.get(names.wire_bytes()..)?);
    let formats = usize::try_from(reader.i16().ok()?).ok()?;
    let formats = reader.bytes(formats * 2).ok()?;
    let is_binary = formats.get(1) == Some(&1);
    let values = reader.i16().ok()?;
    let mut first = None;
    for at in 0..values {
        let Ok(length) = usize::try_from(reader.i32().ok()?) else {
            continue;
        };
        let value = reader.bytes(length).ok()?;
        if at == 0 && is_binary {
            first = value.try_into().ok().map(u32::from_be_bytes);
        } else if at == 0 {
            first = std::str::from_utf8(value).ok().and_then(|v| v.trim().parse().ok());
        }
    }
    let results = usize::try_from(reader.i16().ok()?).ok()?;
    let results = reader.bytes(results * 2).ok()?;
    Some((first, results))
}

/// A call, as far as the client's message shows it.
enum Called<'m> {
    /// It is not known yet what it does: the message is looked at again.
    Later(Step),
    Call(Call<'m>),
}

struct Call<'m> {
    of: SignalCall,
    process_id: u32,
    /// The portal and the formats of the results, if it is called by a Bind.
    bound: Option<(&'m [u8], &'m [u8])>,
}

/// Whether the server would carry out the call as well.
enum Right {
    Granted,
    Refused,
    /// It is being asked.
    NotKnown(Step),
}

impl Exchange<'_> {
    /// A Query, or a Bind of a statement, that may be a call of one of these functions. `None`: the message is no such
    /// call.
    fn called<'m>(&mut self, message: &Message<'m>) -> Option<Called<'m>> {
        if message.tag == FrontendTag::Query {
            return self.called_by_query(message.body().strip_suffix(&[0])?);
        }
        let body = message.body();
        let names = BindNames::read(body).ok()?;
        let call = signal_call(&self.client.statements.meaning_of(names.statement)?.query)?;
        if !message.is_whole() {
            return (message.total <= INSPECT_BYTES_MAX).then_some(Called::Later(Step::NeedBytes));
        }
        let (first, results) = first_parameter(body, &names)?;
        let process_id = match call.target {
            SignalTarget::ProcessId(number) => number,
            SignalTarget::Parameter => first?,
        };
        Some(self.calls_or_waits(call, process_id, Some((names.portal, results))))
    }

    fn called_by_query<'m>(&mut self, text: &[u8]) -> Option<Called<'m>> {
        let call = signal_call(text)?;
        let SignalTarget::ProcessId(process_id) = call.target else {
            return None;
        };
        if self.server.conversation.queue().in_pipeline() {
            return None;
        }
        Some(self.calls_or_waits(call, process_id, None))
    }

    /// A call waits for replies: the client's privileges are known only when its earlier requests, the probes of its
    /// session and the question about its right have been answered.
    fn calls_or_waits<'m>(
        &mut self,
        of: SignalCall,
        process_id: u32,
        bound: Option<(&'m [u8], &'m [u8])>,
    ) -> Called<'m> {
        let server = &mut *self.server;
        let queue = server.conversation.queue();
        let is_answered =
            server.session.probe().is_none() && !queue.client_segment_outstanding() && !queue.owes_job(Job::AskRight);
        if process_id >= CLIENT_IDS_FROM && !is_answered {
            return Called::Later(self.waits_for_replies());
        }
        Called::Call(Call { of, process_id, bound })
    }

    /// What the server has said about this call; if it has not been asked, it is.
    fn right_to(&mut self, call: &Call<'_>) -> Right {
        let segment = self.server.conversation.queue().segments_sent();
        let asked = self.client.session.take_asked_right();
        match asked.filter(|asked| asked.is_about(call.of, self.server_id, segment)) {
            Some(asked) if asked.is_granted() => Right::Granted,
            Some(_) => Right::Refused,
            None => self.asks_right_to(call),
        }
    }

    fn asks_right_to(&mut self, call: &Call<'_>) -> Right {
        if self.server.conversation.only_begins() {
            return Right::NotKnown(self.settle_begin());
        }
        let conversation = &self.server.conversation;
        let by_query = call.bound.is_none();
        // If the BEGIN were refused, nobody would end the segment in which the message waits.
        if conversation.begin() == Begin::Owed {
            return Right::Refused;
        }
        if by_query && (conversation.queue().segment_open() || conversation.is_queried_in_pipeline()) {
            return Right::Refused;
        }
        self.to().asks_right(call.of);
        match by_query {
            true => self.to().sync_for(Job::AskRight),
            false => self.asks_for_replies(),
        }
        let segment = self.server.conversation.queue().segments_sent();
        let asked = AskedRight::new(call.of, self.server_id, segment);
        self.client.session.asks_right(asked);
        Right::NotKnown(self.waits_for_replies())
    }

    /// A Parse of such a call behind a deferred BEGIN: the BEGIN gets a segment of its own, so that the Bind can wait in
    /// the client's segment.
    pub(crate) fn settles_begin_before(&mut self, text: &[u8]) -> Option<Step> {
        (self.server.conversation.only_begins() && is_signal(text)).then(|| self.settle_begin())
    }

    fn settle_begin(&mut self) -> Step {
        self.to().asks(To::Skip, |r| r.sync());
        self.waits_for_replies()
    }

    /// Has the server answer a call that the pooler has carried out.
    /// `own`: the client has named itself.
    fn answer_call(&mut self, message: &Message<'_>, call: &Call<'_>, own: bool) -> Step {
        let text = call.of.kind.answer(own);
        match call.bound {
            None => {
                self.client.statements.replace_unnamed(None);
                self.server.held.unnamed_becomes(Unnamed::Nothing);
                self.to().asks(To::Forward, |r| r.query(text));
            }
            Some((portal, results)) => self.answer_bind(text, portal, results),
        }
        let step = self.client.drop_message(message);
        if let Step::Progress(_) = step {
            self.pool.stats_mut().bytes_received += message.bytes.len() as u64;
        }
        step
    }

    fn answer_bind(&mut self, text: &'static [u8], portal: &[u8], results: &[u8]) {
        let settings = self.client.session.shape().parse_settings();
        let answer = self.shared.statements.intern(text, &[0, 0], settings);
        self.to().prepare(&answer);
        let name = answer.server_name();
        self.to()
            .asks(To::Forward, |r| r.bind_with_formats(portal, name, results));
    }
}

impl Pooler {
    /// A message that may be a call of one of these functions. `None`: it is handled as any other.
    #[cold]
    pub(crate) fn call(&mut self, now: Time, id: ClientId, server_id: ServerId, message: &Message<'_>) -> Option<Step> {
        let call = match self.between(now, id, server_id).called(message)? {
            Called::Later(step) => return Some(step),
            Called::Call(call) => call,
        };
        let target = self.may_signal(id, server_id, call.process_id)?;
        match self.between(now, id, server_id).right_to(&call) {
            Right::Granted => {}
            Right::Refused => return None,
            Right::NotKnown(step) => return Some(step),
        }
        if let Some(ended) = self.signal(now, id, call.of.kind, target) {
            return Some(ended);
        }
        Some(
            self.between(now, id, server_id)
                .answer_call(message, &call, target == id),
        )
    }

    /// The client to be signalled, if this client may do it and its call will certainly run.
    fn may_signal(&self, id: ClientId, server_id: ServerId, process_id: u32) -> Option<ClientId> {
        if process_id < CLIENT_IDS_FROM {
            return None;
        }
        let server = self.servers.get(server_id.0)?;
        if server.conversation.status() == TransactionStatus::Failed || !server.conversation.queue().only_prepares() {
            return None;
        }
        let mut named = admitting::clients_of_process(&self.process_ids, &self.clients, process_id);
        let target = named.next()?;
        if named.next().is_some() {
            return None;
        }
        drop(named);
        let (by, of) = (self.clients.get(id.0)?, self.clients.get(target.0)?);
        let (here, there) = (self.pool(by.pool?), self.pool(of.pool?));
        if !here.is_of_same_postgresql(there) {
            return None;
        }
        // Both log in as themselves, but their entries may give them different roles on the server.
        let same_role = here.settings().server_user == there.settings().server_user;
        let user = |client: &crate::client::Client| {
            let pool_user = client.pool.map(|p| self.pool(p).key().user.clone());
            client.login_user.as_deref().map(Into::into).or(pool_user)
        };
        let says = |name: &str, value: &str| by.session.shape().get(name).is_some_and(|s| *s.value() == *value);
        let has_no_role = by.session.shape().get("role").is_none() || says("role", "none");
        let as_itself = has_no_role && by.session.shape().home() == server.session.base().home();
        let is_same = same_role && user(by).is_some() && user(by) == user(of);
        let same_user = as_itself && (is_same || self.is_weak(Weakness::SignalsAnyone));
        (of.is_session() && (says("is_superuser", "on") || same_user)).then_some(target)
    }

    /// Acts on a client. Returns a step if the target was the caller itself.
    fn signal(&mut self, now: Time, by: ClientId, kind: Signal, target: ClientId) -> Option<Step> {
        match kind {
            Signal::Cancel if by == target => {}
            Signal::Cancel => {
                self.cancel_client(now, target);
            }
            Signal::Terminate => {
                let message = "terminating connection due to administrator command";
                self.fail_client(now, target, Failure::new(Trouble::Killed, message));
            }
        }
        self.clients.get(by.0).is_none().then_some(Step::Closed)
    }
}
