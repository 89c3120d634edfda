//! `pg_terminate_backend()` and `pg_cancel_backend()` with the process id that a client was told at login.
//!
//! No server process has that id, so the pooler acts on the client itself if the statement consists of the call alone.
//! The server only gives the answer: it gets `SELECT true` under the function's name instead of the call. The same
//! login user, acting as itself, and superusers may do it. In every other case the call goes to the server unchanged;
//! the server knows no such process, warns and returns false.

use crate::base::errors::Trouble;
use crate::base::ids::{CLIENT_IDS_FROM, ClientId, ServerId};
use crate::base::message::{Message, Step};
use crate::base::reasons::Waiting;
use crate::base::time::Time;
use crate::flow::logins::admitting;
use crate::pooler::Pooler;
use crate::statements::prepared::Statement;
use crate::statements::unnamed::Unnamed;
use crate::upstream::entry::{Entry, Expect, To};
use pgweir_sql::{Signal, SignalTarget, signal_call};
use pgweir_wire::frontend::BindNames;
use pgweir_wire::{FrontendTag, Reader, TransactionStatus, Writer};

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

impl Pooler {
    /// Whether a call must wait for replies: the client's privileges are known only when its earlier requests and the
    /// probes of its session have been answered.
    fn waits_to_signal(&mut self, id: ClientId, server_id: ServerId, process_id: u32) -> bool {
        let server = self.server_mut(server_id);
        let is_answered = server.session.probe.is_none() && !server.conversation.queue.client_segment_outstanding();
        let waits = process_id >= CLIENT_IDS_FROM && !is_answered;
        if waits {
            self.client_mut(id).waiting = Waiting::ForReplies;
        }
        waits
    }

    /// A Query, or a Bind of a statement, that may be such a call. `None`: it is handled as any other.
    #[cold]
    pub(crate) fn call(&mut self, now: Time, id: ClientId, server_id: ServerId, message: &Message<'_>) -> Option<Step> {
        let step = if message.tag == FrontendTag::Query {
            let text = message.body().strip_suffix(&[0])?;
            self.call_by_query(now, id, server_id, message, text)?
        } else {
            let names = BindNames::read(message.body()).ok()?;
            let statement = self.client_mut(id).statements.meaning_of(names.statement)?.clone();
            self.call_by_bind(now, id, server_id, message, &statement, &names)?
        };
        if let Step::Progress(_) = step {
            self.at(server_id).pool.stats.bytes_received += message.bytes.len() as u64;
        }
        Some(step)
    }

    /// A Query that may be such a call. `None`: it is handled as any other.
    fn call_by_query(
        &mut self,
        now: Time,
        id: ClientId,
        server_id: ServerId,
        message: &Message<'_>,
        text: &[u8],
    ) -> Option<Step> {
        let call = signal_call(text)?;
        let SignalTarget::ProcessId(process_id) = call.target else {
            return None;
        };
        if self.server_mut(server_id).conversation.queue.in_pipeline() {
            return None;
        }
        if self.waits_to_signal(id, server_id, process_id) {
            return Some(Step::Wait);
        }
        let target = self.may_signal(id, server_id, process_id)?;
        if let Some(ended) = self.signal(now, id, call.kind, target) {
            return Some(ended);
        }
        self.client_mut(id).statements.unnamed = None;
        let server = self.server_mut(server_id);
        server.held.unnamed = Unnamed::Nothing;
        self.at(server_id).asks(To::Forward, |r| r.query(call.kind.answer()));
        Some(self.client_mut(id).drop_message(message))
    }

    /// A Bind of a statement that may be such a call. `None`: it is handled as any other.
    fn call_by_bind(
        &mut self,
        now: Time,
        id: ClientId,
        server_id: ServerId,
        message: &Message<'_>,
        statement: &Statement,
        names: &BindNames<'_>,
    ) -> Option<Step> {
        let call = signal_call(&statement.query)?;
        if !message.is_whole() {
            return Some(Step::NeedBytes);
        }
        let (first, results) = first_parameter(message.body(), names)?;
        let process_id = match call.target {
            SignalTarget::ProcessId(number) => number,
            SignalTarget::Parameter => first?,
        };
        if self.waits_to_signal(id, server_id, process_id) {
            return Some(Step::Wait);
        }
        let target = self.may_signal(id, server_id, process_id)?;
        if let Some(ended) = self.signal(now, id, call.kind, target) {
            return Some(ended);
        }
        let settings = self.client_mut(id).session.shape.parse_settings().clone();
        let answer = self.shared.statements.intern(call.kind.answer(), &[0, 0], &settings);
        self.at(server_id).prepare(&answer);
        self.server_mut(server_id)
            .conversation
            .queue
            .push(Entry::forward(Expect::Bind));
        let (portal, name) = (names.portal, answer.server_name());
        self.shared.outbox.insert(server_id.into(), |bytes| {
            Writer::new(bytes).message(b'B', |to| {
                for name in [portal, name] {
                    to.extend_from_slice(name);
                    to.push(0);
                }
                to.extend([0, 0, 0, 0]);
                to.extend(((results.len() / 2) as u16).to_be_bytes());
                to.extend_from_slice(results);
            });
        });
        Some(self.client_mut(id).drop_message(message))
    }

    /// The client to be signalled, if this client may do it and its call will certainly run.
    fn may_signal(&mut self, id: ClientId, server_id: ServerId, process_id: u32) -> Option<ClientId> {
        if process_id < CLIENT_IDS_FROM {
            return None;
        }
        let server = self.servers.get(server_id.0)?;
        if server.conversation.status == TransactionStatus::Failed || !server.conversation.queue.only_prepares() {
            return None;
        }
        let mut named = admitting::clients_of_process(&self.process_ids, &self.clients, process_id);
        let target = named.next()?;
        if named.next().is_some() {
            return None;
        }
        drop(named);
        let (by, of) = (self.clients.get(id.0)?, self.clients.get(target.0)?);
        let user = |client: &crate::client::Client| {
            let pool_user = client.pool.map(|p| self.pool(p).key.user.clone());
            client.login_user.as_deref().map(Into::into).or(pool_user)
        };
        let says = |name: &str, value: &str| by.session.shape.get(name).is_some_and(|s| *s.value == *value);
        let as_itself = by.session.shape.get("role").is_none() || says("role", "none");
        let same_user = as_itself && user(by).is_some() && user(by) == user(of);
        (of.is_session() && (says("is_superuser", "on") || same_user)).then_some(target)
    }

    /// Acts on a client. Returns a step if the target was the caller itself.
    fn signal(&mut self, now: Time, by: ClientId, kind: Signal, target: ClientId) -> Option<Step> {
        match kind {
            Signal::Cancel if by == target => {}
            Signal::Cancel => self.cancel_client(now, target),
            Signal::Terminate => {
                let message = "terminating connection due to administrator command";
                self.fail_client(now, target, Trouble::Killed, message, "", "");
            }
        }
        self.clients.get(by.0).is_none().then_some(Step::Closed)
    }
}
