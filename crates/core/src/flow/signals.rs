//! `pg_terminate_backend()` and `pg_cancel_backend()` with the process id that a client was told at login.
//!
//! No server process has that id, so the pooler acts on the client itself, where the statement is nothing but the call, and
//! the server is asked for the answer only: it gets `SELECT true` under the function's name in the place of the call. Who
//! may do it: the same login user, acting as itself, and superusers. In every other case the call goes to the server as it
//! is, which knows no such process: it warns and says false.

use crate::base::errors::Trouble;
use crate::base::ids::{ClientId, ServerId};
use crate::base::time::Time;
use crate::client::Waiting;
use crate::flow::client_messages::{Message, Step};
use crate::login::process_ids::CLIENT_IDS_FROM;
use crate::pooler::Pooler;
use crate::server::Unnamed;
use crate::statements::prepared::Statement;
use crate::upstream::reply_queue::{Entry, Expect};
use pgweir_wire::frontend::BindNames;
use pgweir_wire::{Reader, TransactionStatus, Writer};

/// The longest statement that is taken for such a call, bytes.
const CALL_BYTES_MAX: usize = 128;

/// What a call does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Terminate,
    Cancel,
}

impl Kind {
    /// The statement that answers in its place.
    fn answer(self) -> &'static [u8] {
        match self {
            Kind::Terminate => b"SELECT true AS pg_terminate_backend",
            Kind::Cancel => b"SELECT true AS pg_cancel_backend",
        }
    }
}

/// Whom a call names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Target {
    ProcessId(u32),
    /// `$1`.
    Parameter,
}

/// A statement that is nothing but such a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Call {
    kind: Kind,
    target: Target,
}

/// Whether a text may be such a call: a look at its eighth letter and those behind.
#[inline]
pub(crate) fn may_be_call(text: &[u8]) -> bool {
    text.get(7..10) == Some(b"pg_")
}

/// Whether a text is such a call.
pub(crate) fn is_call(text: &[u8]) -> bool {
    may_be_call(text) && read(text).is_some()
}

fn read(text: &[u8]) -> Option<Call> {
    let text = std::str::from_utf8(text).ok().filter(|t| t.len() <= CALL_BYTES_MAX)?;
    let text = text.trim();
    let text = text.strip_suffix(';').unwrap_or(text).trim_end().to_ascii_lowercase();
    let call = text.strip_prefix("select ")?;
    let call = call.strip_prefix("pg_catalog.").unwrap_or(call);
    let (kind, rest) = if let Some(rest) = call.strip_prefix("pg_terminate_backend") {
        (Kind::Terminate, rest)
    } else {
        (Kind::Cancel, call.strip_prefix("pg_cancel_backend")?)
    };
    let arguments = rest.trim_start().strip_prefix('(')?.strip_suffix(')')?;
    let mut arguments = arguments.split(',').map(str::trim);
    let (first, second) = (arguments.next()?, arguments.next());
    let timeout_allowed = kind == Kind::Terminate;
    if arguments.next().is_some() || second.is_some_and(|s| !timeout_allowed || s.parse::<u32>().is_err()) {
        return None;
    }
    let bare = ["::int", "::int4", "::integer"]
        .iter()
        .find_map(|cast| first.strip_suffix(cast))
        .unwrap_or(first);
    let target = match bare {
        "$1" => Target::Parameter,
        number if number.bytes().all(|b| b.is_ascii_digit()) => Target::ProcessId(number.parse().ok()?),
        _ => return None,
    };
    Some(Call { kind, target })
}

/// Of a Bind, behind its names: the first parameter as a process id, and the formats of the results, as they stand there.
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
    /// A Query that may be such a call. `None`: it goes on as any other.
    #[cold]
    pub(crate) fn call_by_query(
        &mut self,
        now: Time,
        id: ClientId,
        server_id: ServerId,
        message: &Message<'_>,
        text: &[u8],
    ) -> Option<Step> {
        let call = read(text)?;
        let Target::ProcessId(process_id) = call.target else {
            return None;
        };
        if self.server_mut(server_id).queue.in_pipeline() {
            return None;
        }
        if self.waits_to_signal(id, server_id, process_id) {
            return Some(Step::Wait);
        }
        let target = self.may_signal(id, server_id, process_id)?;
        if let Some(ended) = self.signal(now, id, call.kind, target) {
            return Some(ended);
        }
        self.client_mut(id).unnamed = None;
        let server = self.server_mut(server_id);
        server.unnamed = Unnamed::Nothing;
        server.queue.push(Entry::forward(Expect::Query));
        self.send(server_id, |w| w.query(call.kind.answer()));
        Some(self.drop_message(id, message))
    }

    /// A Bind of what may be such a call. `None`: it goes on as any other.
    #[cold]
    pub(crate) fn call_by_bind(
        &mut self,
        now: Time,
        id: ClientId,
        server_id: ServerId,
        message: &Message<'_>,
        statement: &Statement,
        names: &BindNames<'_>,
    ) -> Option<Step> {
        let call = read(&statement.query)?;
        if !message.is_whole() {
            return Some(Step::NeedBytes);
        }
        let (first, results) = first_parameter(message.body(), names)?;
        let process_id = match call.target {
            Target::ProcessId(number) => number,
            Target::Parameter => first?,
        };
        if self.waits_to_signal(id, server_id, process_id) {
            return Some(Step::Wait);
        }
        let target = self.may_signal(id, server_id, process_id)?;
        if let Some(ended) = self.signal(now, id, call.kind, target) {
            return Some(ended);
        }
        let settings = self.client_mut(id).shape.parse_settings().clone();
        let answer = self.statements.intern(call.kind.answer(), &[0, 0], &settings);
        self.ensure_held(server_id, &answer);
        self.server_mut(server_id).queue.push(Entry::forward(Expect::Bind));
        let (portal, name) = (names.portal, answer.server_name());
        self.outbox.insert(server_id.into(), |bytes| {
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
        Some(self.drop_message(id, message))
    }

    /// Whether a call has to wait for answers: what the client may do is known when its earlier requests, and what the
    /// pooler has asked of its session, have been answered.
    fn waits_to_signal(&mut self, id: ClientId, server_id: ServerId, process_id: u32) -> bool {
        let server = self.server_mut(server_id);
        let is_answered = server.probe.is_none() && !server.queue.client_segment_outstanding();
        let waits = process_id >= CLIENT_IDS_FROM && !is_answered;
        if waits {
            self.client_mut(id).waiting = Waiting::ForReplies;
        }
        waits
    }

    /// The client that is to be signalled, where this one may do it and its call will surely be run.
    fn may_signal(&mut self, id: ClientId, server_id: ServerId, process_id: u32) -> Option<ClientId> {
        if process_id < CLIENT_IDS_FROM {
            return None;
        }
        let server = self.servers.get(server_id.0)?;
        if server.status == TransactionStatus::Failed || !server.queue.only_prepares() {
            return None;
        }
        let target = self.client_of_process(process_id)?;
        let (by, of) = (self.clients.get(id.0)?, self.clients.get(target.0)?);
        let user = |client: &crate::client::Client| {
            let pool_user = client.pool.map(|p| self.pool(p).key.user.clone());
            client.login_user.as_deref().map(Into::into).or(pool_user)
        };
        let says = |name: &str, value: &str| by.shape.get(name).is_some_and(|s| *s.value == *value);
        let as_itself = by.shape.get("role").is_none() || says("role", "none");
        let same_user = as_itself && user(by).is_some() && user(by) == user(of);
        (of.is_session() && (says("is_superuser", "on") || same_user)).then_some(target)
    }

    /// Acts on a client; says whether that was the caller's own end.
    fn signal(&mut self, now: Time, by: ClientId, kind: Kind, target: ClientId) -> Option<Step> {
        match kind {
            Kind::Cancel if by == target => {}
            Kind::Cancel => self.cancel_client(now, target),
            Kind::Terminate => {
                let message = "terminating connection due to administrator command";
                self.fail_client(now, target, Trouble::Killed, message, "", "");
            }
        }
        self.clients.get(by.0).is_none().then_some(Step::Closed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_statement_that_is_nothing_but_the_call_is_one() {
        let call = |kind, target| Some(Call { kind, target });
        use Target::{Parameter, ProcessId};
        for (text, expected) in [
            (
                "SELECT pg_terminate_backend(5000000)",
                call(Kind::Terminate, ProcessId(5_000_000)),
            ),
            (
                "select pg_catalog.pg_cancel_backend ( $1 );",
                call(Kind::Cancel, Parameter),
            ),
            (
                "select pg_terminate_backend($1::int, 1000)",
                call(Kind::Terminate, Parameter),
            ),
            ("select pg_cancel_backend(5000000, 1)", None),
            ("select pg_terminate_backend(pid) from pg_stat_activity", None),
            ("select pg_terminate_backend(5000000), 1", None),
            ("select pg_terminate_backend(5000000) where false", None),
            ("select pg_terminate_backend(5000000) or pg_cancel_backend(1)", None),
            ("select pg_terminate_backend($2)", None),
            ("select pg_backend_pid()", None),
        ] {
            assert_eq!(read(text.as_bytes()), expected, "{text}");
        }
    }
}
