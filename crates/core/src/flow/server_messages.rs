//! A logged-in server's messages, on their way to a client.
//!
//! This is half of the forwarding path (the other half is [`crate::flow::client_messages`]). Each reply is matched with the
//! front of the reply queue, which says who gets it. A server goes back to its pool only at a ReadyForQuery that says
//! idle, empties the queue, and that no byte of a further message follows.

use crate::base::errors::{TRANSACTION_FAILED, Trouble};
use crate::base::ids::{ClientId, ServerId};
use crate::base::reasons::{Dropping, Passed, Passing, Waiting};
use crate::base::request::{LogLevel, Request};
use crate::base::secret_names::PREFIX;
use crate::base::settings::PoolMode;
use crate::base::time::Time;
use crate::client::{Client, ClientPhase};
use crate::pooler::Pooler;
use crate::server::Server;
use crate::server_side::ServerSide;
use crate::session::restoration::NOT_RESTORED;
use crate::statements::held::Rows;
use crate::statements::prepared::OWN_ID_MAX;
use crate::upstream::phase::ServerPhase;
use crate::upstream::reply_queue::{Entry, Expect, Instead, Ready, To};
use pgweir_wire::write::ErrorText;
use pgweir_wire::{BackendTag, ErrorFields, HEADER_BYTES, Header, TransactionStatus, Writer, backend};

/// The longest message that must be seen whole: ParameterStatus, CommandComplete and the like, bytes.
const SEEN_WHOLE_BYTES_MAX: usize = 1024 * 1024;

/// Bytes of an ErrorResponse that are looked at: its severity and SQLSTATE come first.
const ERROR_BYTES_SEEN_MAX: usize = 16 * 1024;

/// Why a server is not used again after [`Server::sync_among_copy_data`].
const SYNC_AMONG_COPY_DATA: &str = "Sync among the data of a copy that failed";

impl ServerSide<'_> {
    /// Gives the linked client the replies that the server was not asked for.
    #[inline]
    pub(crate) fn give_fakes(&mut self) {
        if self.server.queue.fake_in_front() {
            self.give_fakes_in_front();
        }
    }

    #[cold]
    fn give_fakes_in_front(&mut self) {
        while self.server.queue.fake_in_front() {
            let entry = self.server.queue.pop().expect("looked at above");
            if let (Some(tag), Some(client)) = (entry.expect.fake_tag(), self.server.link) {
                let outbox = &mut self.shared.outbox;
                outbox.insert(client.into(), |bytes| Writer::new(bytes).empty(tag));
            }
        }
    }
}

impl Pooler {
    pub(crate) fn reply_bytes(&mut self, now: Time, id: ServerId, input: &[u8]) -> usize {
        let mut at = 0;
        // The run of bytes that are forwarded but not yet handed to the outbox.
        let mut run = 0..0;
        while at < input.len() {
            let Some(server) = self.servers.get_mut(id.0) else {
                return input.len();
            };
            match server.passing {
                Passing::None => {}
                Passing::Forward(left) | Passing::Skip(left) => {
                    let bytes = (input.len() - at).min(left as usize);
                    let rest = left - bytes as u32;
                    let forward = matches!(server.passing, Passing::Forward(_)) && server.link.is_some();
                    server.passing = match (rest, forward) {
                        (0, _) => Passing::None,
                        (_, true) => Passing::Forward(rest),
                        (_, false) => Passing::Skip(rest),
                    };
                    at += bytes;
                    if !forward {
                        run = at..at;
                    }
                    continue;
                }
            }
            let header = match Header::read(&input[at..]) {
                Ok(Some(header)) => header,
                Ok(None) => break,
                Err(error) => {
                    run.end = at;
                    self.flush_run(id, &mut run);
                    self.server_misbehaves(now, id, &error.to_string());
                    return input.len();
                }
            };
            let total = header.message_bytes as usize;
            let end = input.len().min(at + total);
            let whole = end == at + total;
            // Nearly all traffic decides nothing.
            if server.passes_plainly(header.tag, &input[at..end], whole) {
                if !whole {
                    server.passing = Passing::Forward((total - (end - at)) as u32);
                }
                at = end;
                continue;
            }
            if matches!(header.tag, b'D' | b'd') && !server.queue.fake_in_front() && !server.queue.is_empty() {
                let forward = server.link.is_some() && forwards(server);
                if !forward {
                    if server.queue.probe_in_front() {
                        if !whole && total <= SEEN_WHOLE_BYTES_MAX {
                            break;
                        }
                        self.probe_row(id, &input[at..end]);
                    } else {
                        self.captured_row(id, &input[at..end], whole);
                    }
                    run.end = at;
                    self.flush_run(id, &mut run);
                    run = end..end;
                }
                if !whole {
                    let left = (total - (end - at)) as u32;
                    self.server_mut(id).passing = if forward {
                        Passing::Forward(left)
                    } else {
                        Passing::Skip(left)
                    };
                }
                at = end;
                continue;
            }
            // Asynchronous messages, too, come of something behind it: of the next request, or of the segment's end.
            if server.queue.fake_in_front() {
                run.end = at;
                self.flush_run(id, &mut run);
                run = at..at;
                self.give_fakes(id);
            }
            let bytes = &input[at..end];
            run.end = at;
            let passed = match header.tag {
                b'Z' if whole => self.ready(now, id, &bytes[HEADER_BYTES..], &mut run),
                _ => self.reply(now, id, header, bytes, whole, &mut run),
            };
            match passed {
                Passed::NeedBytes => break,
                Passed::Closed => return input.len(),
                passed @ (Passed::Forward | Passed::ForwardAndRelease) => {
                    if self.servers.get(id.0).is_none_or(|s| s.link.is_none()) {
                        run = end..end;
                    }
                    if !whole {
                        self.server_mut(id).passing = Passing::Forward((total - bytes.len()) as u32);
                    }
                    at = end;
                    if passed == Passed::ForwardAndRelease {
                        run.end = at;
                        self.flush_run(id, &mut run);
                        run = at..at;
                        if let Some(server) = self.servers.get(id.0) {
                            // Bytes behind a final ReadyForQuery are asynchronous messages of this same client's time.
                            debug_assert!(server.queue.is_empty());
                            self.release(now, id);
                        }
                    }
                }
                passed @ (Passed::Skip | Passed::SkipAndRelease) => {
                    run.end = at;
                    self.flush_run(id, &mut run);
                    if !whole {
                        let server = self.server_mut(id);
                        if server.link.is_none() && server.queue.is_empty() {
                            // It would be idle in the middle of a message.
                            self.server_misbehaves(now, id, "a long message that nothing asked for");
                            return input.len();
                        }
                        server.passing = Passing::Skip((total - bytes.len()) as u32);
                    }
                    at = end;
                    run = at..at;
                    if passed == Passed::SkipAndRelease {
                        self.server_finished(now, id);
                    }
                }
            }
        }
        run.end = at;
        self.flush_run(id, &mut run);
        // What is answered now may have stood before a Flush.
        self.give_fakes(id);
        at
    }

    /// Hands the run to the outbox; it is empty afterwards.
    #[inline(always)]
    fn flush_run(&mut self, id: ServerId, run: &mut std::ops::Range<usize>) {
        let handed_out = std::mem::replace(run, run.end..run.end);
        if !handed_out.is_empty() {
            self.hand_out(id, handed_out);
        }
    }

    fn hand_out(&mut self, id: ServerId, handed_out: std::ops::Range<usize>) {
        let Some(server) = self.servers.get(id.0) else { return };
        let Some(client) = server.link else { return };
        let pool = self.pools[server.pool as usize]
            .as_mut()
            .expect("a server's pool lives");
        pool.stats.bytes_sent += handed_out.len() as u64;
        self.shared.outbox.forward(client.into(), handed_out);
    }

    /// One message that [`Server::passes_plainly`] has not settled, and that is no whole ReadyForQuery. `run` has not been
    /// handed out yet: whoever writes to the client must hand it out first.
    fn reply(
        &mut self,
        now: Time,
        id: ServerId,
        header: Header,
        bytes: &[u8],
        whole: bool,
        run: &mut std::ops::Range<usize>,
    ) -> Passed {
        let Some(tag) = BackendTag::from_byte(header.tag) else {
            self.flush_run(id, run);
            self.server_misbehaves(now, id, &format!("unknown message type {}", header.tag));
            return Passed::Closed;
        };
        let linked = self.servers.get(id.0).is_some_and(|s| s.link.is_some());
        let must_be_whole = matches!(
            tag,
            BackendTag::CommandComplete
                | BackendTag::ReadyForQuery
                | BackendTag::ParameterStatus
                | BackendTag::NotificationResponse
        ) || !linked && tag == BackendTag::NoticeResponse;
        let describes = matches!(tag, BackendTag::RowDescription | BackendTag::ParameterDescription)
            && self
                .servers
                .get(id.0)
                .is_some_and(|s| s.queue.front().is_some_and(|e| e.uses > 0));
        if describes && !whole && header.message_bytes as usize <= SEEN_WHOLE_BYTES_MAX {
            return Passed::NeedBytes;
        }
        if must_be_whole && !whole {
            if header.message_bytes as usize <= SEEN_WHOLE_BYTES_MAX {
                return Passed::NeedBytes;
            }
            self.flush_run(id, run);
            self.server_misbehaves(now, id, &format!("message {tag:?} of {} bytes", header.message_bytes));
            return Passed::Closed;
        }
        let body = &bytes[HEADER_BYTES.min(bytes.len())..];
        let server = self.servers.get_mut(id.0).expect("looked up by the caller");
        let forward = if server.link.is_some() && forwards(server) {
            Passed::Forward
        } else {
            Passed::Skip
        };
        let front = server.queue.front().map(|e| e.expect);
        match (tag, front) {
            (BackendTag::ReadyForQuery, _) => unreachable!("the caller deals with it when it is whole"),
            (BackendTag::BindComplete, Some(Expect::Bind))
            | (BackendTag::ParseComplete, Some(Expect::Parse | Expect::ParseUnnamed))
            | (BackendTag::CloseComplete, Some(Expect::Close))
            | (BackendTag::RowDescription | BackendTag::NoData, Some(Expect::Describe))
            | (BackendTag::EmptyQueryResponse | BackendTag::PortalSuspended, Some(Expect::Execute)) => {
                let entry = server.queue.pop().expect("looked at above");
                if tag == BackendTag::ParseComplete && matches!(&entry.to, To::Replace(r) if r.sqlstate == *b"42P05") {
                    // It should have failed: what the server holds is not what we believe.
                    server.close_reason.get_or_insert("prepared statements out of step");
                }
                if front == Some(Expect::Describe) && entry.uses > 0 {
                    let rows = match tag {
                        BackendTag::NoData => Rows::NONE,
                        _ if whole => Rows::read(body).unwrap_or(Rows::UNREAD),
                        _ => Rows::UNREAD,
                    };
                    self.described(id, entry, rows);
                }
                forward
            }
            (BackendTag::ParameterDescription, Some(Expect::Describe)) => {
                if whole && server.queue.front().is_some_and(|e| e.uses > 0) {
                    self.types_described(id, body);
                }
                forward
            }
            (BackendTag::CommandComplete, Some(Expect::Execute | Expect::Query)) => {
                let rolls_back = body.starts_with(b"ROLLBACK") && !server.is_guarded();
                match body.first() {
                    Some(b'D') => self.command_complete(id, body),
                    Some(b'C') if body.starts_with(b"COMMIT") => self.committed(now, id),
                    Some(b'R') if rolls_back => self.rolled_back(id),
                    Some(b'B') if server.begin_owed => self.begun(now, id),
                    _ => {}
                }
                let server = self.server_mut(id);
                server.held.committed = body.starts_with(b"COMMIT");
                server.held.rolled_back |= rolls_back;
                server.sync_among_copy_data = false;
                if front == Some(Expect::Execute) {
                    server.queue.pop();
                }
                forward
            }
            (BackendTag::ErrorResponse, _) => {
                if !whole
                    && bytes.len() < ERROR_BYTES_SEEN_MAX
                    && (header.message_bytes as usize) < SEEN_WHOLE_BYTES_MAX
                {
                    return Passed::NeedBytes;
                }
                self.error_reply(now, id, bytes, whole, run)
            }
            (BackendTag::ParameterStatus, _) => self.parameter_status(id, body),
            (BackendTag::NotificationResponse, _) if matches!(server.phase, ServerPhase::Listening) => {
                self.listener_hears(now, id, bytes);
                Passed::Skip
            }
            (BackendTag::NotificationResponse, _) if server.link.is_some() => {
                self.flush_run(id, run);
                let session =
                    server_link(self, id).is_some_and(|c| self.clients.get(c.0).is_some_and(|c| c.is_session()));
                if session && self.own_server_notifies(now, id, bytes) {
                    Passed::Forward
                } else {
                    Passed::Skip
                }
            }
            // Nobody listens on a server without a client.
            (BackendTag::NotificationResponse, _) => Passed::Skip,
            (BackendTag::NoticeResponse, _) => match forward {
                // The client has heard what its own Parse had to say; and whoever is not logged in yet hears nothing.
                Passed::Skip => Passed::Skip,
                _ if server
                    .link
                    .is_some_and(|c| self.clients.get(c.0).is_some_and(|c| c.is_session())) =>
                {
                    Passed::Forward
                }
                _ => Passed::Skip,
            },
            (BackendTag::CopyInResponse, Some(Expect::Query | Expect::Execute)) => {
                self.replies_came(id);
                let server = self.server_mut(id);
                let begun = server.queue.enter_copy_in();
                server.copy_in = !begun.ended;
                server.sync_among_copy_data = begun.sync_among_data;
                if begun.interrupted {
                    self.flush_run(id, run);
                    self.copy_interrupted(now, id);
                    return Passed::Closed;
                }
                if matches!(server.phase, ServerPhase::Draining) {
                    self.end_what_client_began(id);
                }
                forward
            }
            (BackendTag::CopyBothResponse, Some(Expect::Query | Expect::Execute)) => {
                server.copy_both = true;
                forward
            }
            (BackendTag::CopyInResponse | BackendTag::CopyBothResponse, _) => {
                self.flush_run(id, run);
                self.server_misbehaves(now, id, "a copy that nothing asked for");
                Passed::Closed
            }
            // Parts of a reply: RowDescription of a Query, ParameterDescription, CopyOutResponse, CopyDone, ...
            (_, Some(_)) => forward,
            (_, None) => {
                self.flush_run(id, run);
                self.server_misbehaves(now, id, &format!("message {tag:?} that nothing asked for"));
                Passed::Closed
            }
        }
    }

    fn ready(&mut self, now: Time, id: ServerId, body: &[u8], run: &mut std::ops::Range<usize>) -> Passed {
        let server = self.servers.get_mut(id.0).expect("looked up by the caller");
        let status = TransactionStatus::read(body);
        let expected = server.queue.front().is_some_and(|e| e.expect.ends_with_ready());
        let (Some(status), true) = (status, expected) else {
            self.flush_run(id, run);
            self.server_misbehaves(now, id, "ReadyForQuery that nothing asked for");
            return Passed::Closed;
        };
        let entry = server.queue.pop().expect("checked above");
        let in_block = std::mem::replace(&mut server.status, status) != TransactionStatus::Idle;
        let has_failed = server.held.take_segment_failed();
        let undone = entry.ready == Ready::Decides && (status == TransactionStatus::Failed || !in_block && has_failed);
        let mut fails_next = false;
        if server.queue.is_empty() {
            let between = status == TransactionStatus::Idle;
            // A Sync of the client's ends what a Query in a pipeline may have left open.
            let was_queried = server.queried_in_pipeline;
            server.queried_in_pipeline &= !between && entry.expect != Expect::Sync;
            fails_next = was_queried && between && server.link.is_some();
            server.settings_in_doubt = false;
            server.local_in_doubt &= !between;
            server.held.note_ready(self.shared.statements.now(), between, in_block);
            if between && server.held.take_doubt_at_end() {
                server.held.doubt_for_good(self.shared.statements.tick());
            }
        }
        server.copy_in = false;
        server.copy_both = false;
        let worked = now.us_since(server.request_time);
        let defined = server.defines && status == TransactionStatus::Idle;
        server.ready_time = now;
        server.request_time = now;
        let is_usual = server.is_usual() && entry.to == To::Forward && entry.ready == Ready::Passes;
        let link = server.link;
        if defined {
            self.note_definitions(now, id);
        }
        if let Some(client) = link {
            self.replies_came_for(client);
        }
        if fails_next {
            self.absorb_failure(id);
        }
        if !is_usual && let Some(passed) = self.ready_unusually(now, id, entry, undone, run) {
            return passed;
        }
        let server = self.servers.get_mut(id.0).expect("looked up above");
        let pool = self.pools[server.pool as usize]
            .as_mut()
            .expect("a server's pool lives");
        pool.stats.query_count += 1;
        pool.stats.query_time += worked;
        let client = server.link.and_then(|c| self.clients.get(c.0));
        if status == TransactionStatus::Idle {
            pool.stats.xact_count += 1;
            pool.stats.xact_time += client.map_or(0, |c| now.us_since(c.xact_start));
        }
        let Some(client) = client else {
            return skip_and_release_if(server.queue.is_empty());
        };
        if pool.settings.mode == PoolMode::Statement && status != TransactionStatus::Idle {
            let client = server.link.expect("checked above");
            self.flush_run(id, run);
            let message = "transaction blocks not allowed in statement pooling mode";
            self.fail_client(
                now,
                client,
                Trouble::TransactionInStatementMode,
                message,
                "",
                "Use pool_mode = transaction.",
            );
            return if self.servers.get(id.0).is_some() {
                Passed::Skip
            } else {
                Passed::Closed
            };
        }
        let linked = server.link;
        let mut rest = Rest::of(server, client);
        let (listens, creates) = (client.channels.is_some(), client.shape.creates_temporary());
        if let (true, Some(client)) = (creates, linked) {
            self.suspect_creation(now, client, id);
            rest.suspected |= self.keeps_session(client);
        }
        if let (true, TransactionStatus::Idle, Some(client)) = (listens, status, linked) {
            self.flush_run(id, run);
            if self.transaction_ended(now, client, id) {
                return Passed::Skip;
            }
            let server = self.servers.get(id.0).expect("looked up above");
            rest = Rest::of(server, self.clients.get(client.0).expect("looked up above"));
        }
        if !rest.is_done {
            return Passed::Forward;
        }
        if self.shared.settings.probe_always
            && let Some(client) = linked.and_then(|c| self.clients.get_mut(c.0))
        {
            client.used_server = true;
        }
        if !self.shared.settings.probe_always && !rest.suspected {
            // Nothing has changed.
        } else if self.probe(now, id) {
            return Passed::Forward;
        } else if let Some(client) = linked.and_then(|c| self.clients.get(c.0)) {
            rest.pinned = !client.pins.is_empty();
        }
        if rest.pinned {
            self.move_on(now, id);
            Passed::Forward
        } else {
            Passed::ForwardAndRelease
        }
    }

    /// What a ReadyForQuery means that is not merely the end of a client's request, or that something has waited for. `None`:
    /// the client's request has ended as well.
    #[cold]
    fn ready_unusually(
        &mut self,
        now: Time,
        id: ServerId,
        entry: Entry,
        undone: bool,
        run: &mut std::ops::Range<usize>,
    ) -> Option<Passed> {
        let server = self.servers.get_mut(id.0).expect("looked up by the caller");
        if matches!(server.phase, ServerPhase::Listening) {
            self.listener_answered(now, id);
            return Some(match self.servers.get(id.0) {
                Some(_) => Passed::Skip,
                None => Passed::Closed,
            });
        }
        if server.cancel_wanted.is_some() {
            self.cancel_what_was_wanted(now, id);
        }
        let server = self.servers.get_mut(id.0).expect("still there");
        if server.begin_refused && (entry.to == To::Forward || entry.to == To::Skip && server.queue.is_empty()) {
            server.begin_refused = false;
            self.flush_run(id, run);
            return Some(self.transaction_never_began(now, id, entry.to == To::Forward));
        }
        let server = self.servers.get_mut(id.0).expect("still there");
        if matches!(entry.to, To::Skip) {
            if server.restoration.is_some() {
                self.flush_run(id, run);
                self.restored(now, id);
                return Some(match self.servers.get(id.0) {
                    Some(server) if server.link.is_none() && server.is_clean() => Passed::SkipAndRelease,
                    Some(_) => Passed::Skip,
                    None => Passed::Closed,
                });
            }
            return Some(skip_and_release_if(server.queue.is_empty()));
        }
        if matches!(entry.to, To::Probe) {
            self.flush_run(id, run);
            if server_probes(self, id) {
                self.probed(now, id);
            // A Query on a client's server is a `query_for_nothing`.
            } else if entry.expect != Expect::Query || server_link(self, id).is_none() {
                self.move_answered(now, id);
            }
            return Some(self.after_probe(now, id));
        }
        match entry.ready {
            Ready::Passes => {}
            Ready::Decides => {
                self.flush_run(id, run);
                if self.decide_on_reset(now, id, undone) {
                    return Some(Passed::Skip);
                }
            }
            Ready::Makes => {
                self.flush_run(id, run);
                self.make_what_was_reset(now, id);
                return Some(Passed::Skip);
            }
            Ready::Told => {
                self.flush_run(id, run);
                if let Some(client) = server_link(self, id) {
                    self.tell_differences(client, id);
                }
            }
        }
        None
    }

    /// Behind a Query in a pipeline PostgreSQL 18 fails the next command with XX000, whoever sends it: the pooler's own, to
    /// restore or to ask, would be as good as any. This one means nothing. A client that keeps no server leaves this one,
    /// which is closed.
    #[cold]
    fn absorb_failure(&mut self, id: ServerId) {
        let client = server_link(self, id).and_then(|c| self.clients.get(c.0));
        if client.is_some_and(|c| !c.pins.is_empty()) {
            self.at(id).query_for_nothing(b"");
        }
    }

    /// What a probe found is known: where nothing ties the client to the server, it goes back.
    fn after_probe(&mut self, now: Time, id: ServerId) -> Passed {
        let Some(server) = self.servers.get(id.0) else {
            return Passed::Closed;
        };
        if server.link.is_none() {
            return skip_and_release_if(server.queue.is_empty());
        }
        let client = server.link;
        self.release_if_clean(now, id);
        if let Some(server) = self.servers.get(id.0) {
            // Kept, but not as the client wants it.
            if let (true, true, Some(client)) = (server.link == client, server.is_clean(), client) {
                self.restore(now, client, id);
            }
            Passed::Skip
        } else {
            Passed::Closed
        }
    }

    /// A client that held back a message until it knew what the message means may look at it again.
    pub(crate) fn replies_came(&mut self, id: ServerId) {
        if let Some(client_id) = self.servers.get(id.0).and_then(|s| s.link) {
            self.replies_came_for(client_id);
        }
    }

    #[inline]
    fn replies_came_for(&mut self, client_id: ClientId) {
        if let Some(client) = self.clients.get_mut(client_id.0)
            && client.waiting == Waiting::ForReplies
            && client.reset_among.is_none()
        {
            client.waiting = Waiting::No;
            self.shared.requests.push_back(Request::Resume(client_id.into()));
        }
    }

    /// The server has answered everything the pooler asked of it on its own behalf.
    fn server_finished(&mut self, now: Time, id: ServerId) {
        let Some(server) = self.servers.get(id.0) else { return };
        match server.phase {
            ServerPhase::Draining => self.drained(now, id),
            ServerPhase::Resetting => self.reset_done(now, id),
            ServerPhase::LiftingLimit => self.idle_limit_lifted(now, id),
            ServerPhase::Testing => self.server_is_free(now, id),
            ServerPhase::Reading => self.catalog_read(now, id),
            ServerPhase::ConnectQuery => self.login_finished(now, id),
            ServerPhase::Linked => {
                let client = server.link;
                let auth_query = client
                    .and_then(|c| self.clients.get(c.0))
                    .is_some_and(|c| matches!(c.phase, ClientPhase::Login(_)));
                if let (true, Some(client)) = (auth_query, client) {
                    self.auth_query_done(now, client, id);
                }
            }
            _ => {}
        }
    }

    /// DEALLOCATE ALL and DISCARD ALL, seen by their tags where their text did not show them; and DEALLOCATE among other
    /// statements of a Query.
    fn command_complete(&mut self, id: ServerId, body: &[u8]) {
        let tag = match backend::command_tag(body) {
            Ok(b"DEALLOCATE") => return self.deallocated(id),
            Ok(b"DISCARD SEQUENCES") => return self.forgot_sequences(id),
            Ok(tag @ (b"DEALLOCATE ALL" | b"DISCARD ALL")) => tag,
            _ => return,
        };
        let server = self.servers.get_mut(id.0).expect("looked up by the caller");
        let seen_coming = server
            .queue
            .front()
            .is_some_and(|e| e.effect.as_ref().is_some_and(|f| f.server_lost_all.is_some()));
        if tag == b"DISCARD ALL" {
            let server = self.server_mut(id);
            server.discarded_in = Some(server.queue.segments_answered());
            self.forgot_sequences(id);
            self.forget_explicit_settings(id);
        }
        if seen_coming {
            return;
        }
        let server = self.servers.get_mut(id.0).expect("looked up by the caller");
        let Some(later) = server.queue.all_ended_in_front() else {
            return;
        };
        server.held.keep_only(&later.statements);
        let client = server.link.and_then(|c| self.clients.get_mut(c.0));
        if let Some(names) = client.and_then(|c| c.names.as_mut()) {
            names.keep_only(&later.names);
        }
    }

    fn deallocated(&mut self, id: ServerId) {
        let server = self.servers.get_mut(id.0).expect("looked up by the caller");
        let effect = server.queue.front_mut().and_then(|e| e.effect.as_mut());
        let name = effect.and_then(|e| e.deallocates.pop_front());
        let client = server.link.and_then(|c| self.clients.get_mut(c.0));
        if let (Some(name), Some(client)) = (name, client)
            && let Some(meaning) = client.names.as_mut().and_then(|names| names.set(&name, None))
        {
            meaning.as_own().iter().for_each(|own| server.held.remove(own.id));
        }
    }

    fn error_reply(
        &mut self,
        now: Time,
        id: ServerId,
        bytes: &[u8],
        whole: bool,
        run: &mut std::ops::Range<usize>,
    ) -> Passed {
        let body = &bytes[HEADER_BYTES.min(bytes.len())..];
        let fields = read_fields(body);
        let server = self.servers.get_mut(id.0).expect("looked up by the caller");
        let client = server.link;
        if fields.is_fatal() {
            return self.fatal_reply(now, id, fields, whole);
        }
        if server.queue.is_empty() {
            // An error outside any request: what the server makes of its next one is not known.
            let text = format!(
                "{id}: error outside a query: {}",
                String::from_utf8_lossy(fields.message)
            );
            server.close_reason.get_or_insert("error outside a query");
            self.log(LogLevel::Warning, text);
            if client.is_none() {
                self.flush_run(id, run);
                self.server_misbehaves(now, id, "an error that nothing asked for");
                return Passed::Closed;
            }
            let session = client.is_some_and(|c| self.clients.get(c.0).is_some_and(|c| c.is_session()));
            return if session { Passed::Forward } else { Passed::Skip };
        }
        if fields.is_refusal() {
            self.text_refused(id, &fields);
        }
        let guarded = self.server_mut(id).is_guarded();
        if !guarded {
            self.rolled_back(id);
        }
        let server = self.servers.get_mut(id.0).expect("looked up by the caller");
        let own = |e: &Entry| e.to == To::Skip && e.expect != Expect::Sync;
        server.begin_refused |= std::mem::take(&mut server.begin_owed) && server.queue.front().is_some_and(own);
        let copy_in_doubt = std::mem::take(&mut server.sync_among_copy_data);
        if copy_in_doubt && fields.sqlstate == b"57014" && client.is_some() {
            // CopyFail, as a rule: everything in front of it had been swallowed. If it was a cancel, nobody else suffers.
            server.close_reason.get_or_insert(SYNC_AMONG_COPY_DATA);
        } else if copy_in_doubt {
            let text = format!("{id}: a copy failed: {}", String::from_utf8_lossy(fields.message));
            self.log(LogLevel::Warning, text);
            self.flush_run(id, run);
            self.shared.requests.push_back(Request::Close(id.into()));
            self.server_lost(now, id, SYNC_AMONG_COPY_DATA, None);
            return Passed::Closed;
        }
        let server = self.servers.get_mut(id.0).expect("not lost");
        let front = server.queue.front().expect("looked at above");
        let uses = front.uses;
        server.held.note_error(self.shared.statements.now());
        if uses > 0 {
            self.at(id).note_refusal(fields.sqlstate);
        }
        let server = self.servers.get_mut(id.0).expect("not lost");
        let front = server.queue.front().expect("looked at above");
        if front.to == To::Check {
            self.at(id).check_failed(fields.sqlstate);
            return Passed::Skip;
        }
        let gains = front.effect.as_ref().and_then(|e| e.server_gains.as_ref());
        if fields.sqlstate == b"42P05" && gains.is_some_and(|s| !s.is_own()) {
            // It holds a statement that we believed it does not: what else it holds is not known either.
            server.close_reason.get_or_insert("prepared statements out of step");
        }
        let front = server.queue.front().expect("looked at above");
        let skipped = matches!(front.to, To::Skip);
        let probe = matches!(front.to, To::Probe);
        let means_nothing = probe && front.expect == Expect::Query && server.link.is_some();
        let swallowed = matches!(front.to, To::Swallow);
        let replaced = match &front.to {
            To::Replace(r) if fields.sqlstate == r.sqlstate => match &r.instead {
                Instead::Error(reply) => Some(reply.clone()),
                Instead::Named { ours, theirs } if whole => renamed(bytes, ours, theirs),
                Instead::Named { ours, theirs } => renamed(&in_short(&fields), ours, theirs),
            },
            _ => None,
        };
        let mut not_forgotten = false;
        if front.expect.ends_with_ready() {
            let entry = server.queue.front_mut().expect("looked at above");
            let (expect, effect) = (entry.expect, entry.effect.take());
            if expect.is_whole_request() {
                server.copy_in = false;
            }
            self.undo_refused(client, id, expect, effect);
        } else {
            server.copy_in = false;
            let discarded = server.discarded_in == Some(server.queue.segments_answered());
            let taken = server.queue.take_to_sync();
            server.ignoring_to_sync = server.queue.is_empty();
            not_forgotten = server.forgets_sequences && !server.queue.executes_ours();
            server.forgets_sequences &= !not_forgotten;
            // A Query behind a deferred BEGIN that failed: the client waits for a ReadyForQuery of its own.
            let begin_failed = skipped && server.ignoring_to_sync && taken.iter().any(|e| e.expect.is_whole_request());
            let decides = taken.iter().any(|e| e.ready == Ready::Decides);
            if let Some(client) = client.filter(|_| decides).and_then(|c| self.clients.get_mut(c.0)) {
                // The server passes over the RESET: nothing is to be made again, and nothing waits for that.
                client.reset_among = None;
            }
            self.undo(client, id, taken);
            if let Some(client) = client.filter(|_| discarded) {
                self.between(now, client, id).makes_startup_values_later();
            }
            let server = self.server_mut(id);
            // What is wrong with statements of our own, or with the transaction, is no answer to a Query.
            let of_statement = !matches!(fields.sqlstate, b"26000" | b"25P02");
            let in_block = server.status != TransactionStatus::Idle && of_statement && !guarded;
            let queue = &mut server.queue;
            let error = || if whole { bytes.to_vec() } else { in_short(&fields) };
            if queue.replace_behind_own_parse(in_block, error) {
                return Passed::Skip;
            }
            // The ReadyForQuery that a held-back message waited for may have been among what was taken.
            let server = self.server_mut(id);
            if !server.begin_refused || not_forgotten && server.ignoring_to_sync {
                self.replies_came(id);
            }
            if begin_failed {
                self.sync_after_failed_begin(id);
            }
            let server = self.server_mut(id);
            if server.ignoring_to_sync && matches!(server.phase, ServerPhase::Draining) {
                // Its client has left before the error came: nobody else sends the Sync that the server waits for.
                self.end_what_client_began(id);
            }
        }
        if swallowed {
            return Passed::Skip;
        }
        let server = self.servers.get_mut(id.0).expect("still there");
        if skipped && server.queue.front().is_some_and(|e| e.ready == Ready::Told) {
            // In a failed transaction nothing was reset, so there is nothing to make again. Otherwise a probe finds out.
            let asks = client.is_some_and(|c| self.client_mut(c).suspicion.is_some());
            if fields.sqlstate != b"25P02" && !asks {
                self.server_mut(id).close_reason.get_or_insert(NOT_RESTORED);
            }
            return Passed::Skip;
        }
        let server = self.servers.get_mut(id.0).expect("still there");
        let alone = server.restoration.is_none() && server.queue.own_sync_in_front();
        if skipped && alone && not_forgotten {
            self.flush_run(id, run);
            return self.answers_waiting_request(id, client, &fields, bytes);
        }
        if server.restoration.is_some() {
            self.at(id).restoration_refused(fields.sqlstate, fields.message);
            return Passed::Skip;
        }
        if probe {
            if !means_nothing {
                self.at(id).probe_failed(&fields);
            }
            return Passed::Skip;
        }
        match (client, replaced) {
            (Some(client), Some(reply)) => {
                self.flush_run(id, run);
                self.shared
                    .outbox
                    .insert(client.into(), |to| to.extend_from_slice(&reply));
                Passed::Skip
            }
            (Some(client), None) if self.is_login(client) => {
                let text = format!("error in auth_query: {}", String::from_utf8_lossy(fields.message));
                self.log(LogLevel::Error, format!("{id}: {text}"));
                Passed::Skip
            }
            (Some(client), None) if skipped && self.misses_own_statement(id, &fields) => {
                self.flush_run(id, run);
                self.send(client, |w| w.error(&TRANSACTION_FAILED));
                Passed::Skip
            }
            (Some(client), None) => match self.in_clients_words(client, uses, bytes, whole) {
                Some(reply) => {
                    self.flush_run(id, run);
                    self.shared
                        .outbox
                        .insert(client.into(), |to| to.extend_from_slice(&reply));
                    Passed::Skip
                }
                None => Passed::Forward,
            },
            (None, _) => {
                self.own_query_failed(now, id, &fields);
                if self.servers.get(id.0).is_some() {
                    Passed::Skip
                } else {
                    Passed::Closed
                }
            }
        }
    }

    /// What others have drawn from sequences was not forgotten in front of the client's request, which has not been sent and
    /// waits: the error is its answer, as a time limit or a cancel is meant for it. In a transaction that had failed before,
    /// the request gets an answer of its own.
    #[cold]
    fn answers_waiting_request(
        &mut self,
        id: ServerId,
        client: Option<ClientId>,
        fields: &ErrorFields<'_>,
        bytes: &[u8],
    ) -> Passed {
        let Some(client) = client.filter(|_| fields.sqlstate != b"25P02") else {
            return Passed::Skip;
        };
        self.client_mut(client).dropping = Dropping::Request;
        if !mentions_ours(bytes) {
            return Passed::Forward;
        }
        self.server_mut(id)
            .close_reason
            .get_or_insert("prepared statements out of step");
        self.send(client, |w| w.error(&TRANSACTION_FAILED));
        Passed::Skip
    }

    /// Whether a failed transaction has kept the server from preparing a statement of the pooler's: its name is not for
    /// clients.
    fn misses_own_statement(&self, id: ServerId, fields: &ErrorFields<'_>) -> bool {
        let failed = |s: &Server| s.status == TransactionStatus::Failed;
        let prefix = crate::base::secret_names::PREFIX.as_bytes();
        fields.sqlstate == b"26000"
            && self.servers.get(id.0).is_some_and(failed)
            && fields.message.windows(prefix.len()).any(|w| w == prefix)
    }

    /// An error that names a prepared statement by our name for it, with the client's own name instead.
    fn in_clients_words(&self, id: ClientId, uses: u64, bytes: &[u8], whole: bool) -> Option<Vec<u8>> {
        if uses <= OWN_ID_MAX || !whole || !mentions_ours(bytes) {
            return None;
        }
        let client = self.clients.get(id.0)?;
        let present = client.names.as_ref().and_then(|names| names.name_of(uses));
        // It may have closed the statement meanwhile.
        let queue = &self.servers.get(client.link?.0)?.queue;
        let (name, statement) = present.or_else(|| queue.name_given_up(uses))?;
        renamed(bytes, statement.server_name(), name)
    }

    /// FATAL and PANIC: the server says why it closes. Its client hears it; then both connections end.
    fn fatal_reply(&mut self, now: Time, id: ServerId, fields: ErrorFields<'_>, whole: bool) -> Passed {
        let text = String::from_utf8_lossy(fields.message).into_owned();
        let server = self.servers.get_mut(id.0).expect("looked up by the caller");
        match server.link.filter(|c| {
            self.clients
                .get(c.0)
                .is_some_and(|c| c.is_session() && !c.may_go_elsewhere())
        }) {
            Some(_) if whole => {
                // The connection's end follows; it closes the client behind this message.
                let server = self.servers.get_mut(id.0).expect("still there");
                server.fatal = Some(text.into());
                Passed::Forward
            }
            _ => {
                self.server_lost(now, id, &text, None);
                self.shared
                    .requests
                    .push_back(crate::base::request::Request::Close(id.into()));
                Passed::Closed
            }
        }
    }

    fn sync_after_failed_begin(&mut self, id: ServerId) {
        let server = self.server_mut(id);
        server.ignoring_to_sync = false;
        server.queue.push(Entry::forward(Expect::Sync));
        self.send(id, |w| w.sync());
    }

    #[inline]
    fn give_fakes(&mut self, id: ServerId) {
        if self.servers.get(id.0).is_some_and(|s| s.queue.fake_in_front()) {
            self.at(id).give_fakes();
        }
    }

    pub(crate) fn is_login(&self, id: ClientId) -> bool {
        self.clients
            .get(id.0)
            .is_some_and(|c| matches!(c.phase, ClientPhase::Login(_)))
    }

    /// A request was sent in front of the data of a copy, which the server takes for part of that. Which request is answered
    /// by what is not known any more.
    #[cold]
    fn copy_interrupted(&mut self, now: Time, id: ServerId) {
        if let Some(client) = server_link(self, id) {
            let detail = "expected CopyData, CopyDone or CopyFail, got a request";
            let message = "unexpected message during COPY from stdin";
            self.fail_client(now, client, Trouble::ProtocolViolation, message, detail, "");
        }
        if self.servers.get(id.0).is_some() {
            self.close_server(now, id, "a request among the data of a copy");
        }
    }

    /// Bytes that no PostgreSQL sends: nothing on this connection can be trusted any more.
    pub(crate) fn server_misbehaves(&mut self, now: Time, id: ServerId, what: &str) {
        self.log(
            LogLevel::Error,
            format!("{id}: protocol violation by the server: {what}"),
        );
        self.shared
            .requests
            .push_back(crate::base::request::Request::Close(id.into()));
        self.server_lost(now, id, "bad packet from server", None);
    }
}

/// What is left of a transaction whose ReadyForQuery has come.
struct Rest {
    /// Nothing is owed any more, by either side.
    is_done: bool,
    pinned: bool,
    suspected: bool,
}

impl Rest {
    #[inline(always)]
    fn of(server: &Server, client: &Client) -> Self {
        Rest {
            is_done: server.is_clean() && client.passing == Passing::None,
            pinned: !client.pins.is_empty(),
            suspected: client.suspicion.is_some(),
        }
    }
}

/// Something of no client's concern has come; whether nothing more is owed.
pub(crate) fn skip_and_release_if(is_done: bool) -> Passed {
    match is_done {
        true => Passed::SkipAndRelease,
        false => Passed::Skip,
    }
}

fn server_probes(pooler: &Pooler, id: ServerId) -> bool {
    pooler.servers.get(id.0).is_some_and(|s| s.probe.is_some())
}

fn server_link(pooler: &Pooler, id: ServerId) -> Option<ClientId> {
    pooler.servers.get(id.0).and_then(|s| s.link)
}

/// Whether the reply that is due goes to the client.
#[inline]
fn forwards(server: &Server) -> bool {
    match server.queue.front() {
        Some(entry) => !matches!(entry.to, To::Skip | To::Probe | To::Check | To::Swallow),
        // Asynchronous messages between requests.
        None => true,
    }
}

/// The fields of an error that may be cut off: what stands in front of the cut.
fn read_fields(body: &[u8]) -> ErrorFields<'_> {
    ErrorFields::read_prefix(body)
}

/// Whether an error may speak of a statement by the pooler's name for it.
fn mentions_ours(message: &[u8]) -> bool {
    message.windows(PREFIX.len()).any(|w| w == PREFIX.as_bytes())
}

/// An error with a statement's name on servers, in whatever quotes, replaced by its client's name for it.
fn renamed(message: &[u8], ours: &[u8], theirs: &[u8]) -> Option<Vec<u8>> {
    let body = &message[HEADER_BYTES..];
    let is_ours = |at: &usize| {
        let rest = body[*at..].strip_prefix(ours);
        rest.is_some_and(|r| r.first().is_some_and(|b| !b.is_ascii_alphanumeric()))
    };
    let at = (0..body.len()).find(is_ours)?;
    let mut reply = Vec::new();
    Writer::new(&mut reply).message(message[0], |to| {
        to.extend_from_slice(&body[..at]);
        to.extend_from_slice(theirs);
        to.extend_from_slice(&body[at + ours.len()..]);
    });
    Some(reply)
}

/// An error that is too long to be kept.
fn in_short(fields: &ErrorFields<'_>) -> Vec<u8> {
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    let mut reply = Vec::new();
    Writer::new(&mut reply).error(&ErrorText {
        severity: "ERROR",
        sqlstate: &text(fields.sqlstate),
        message: &text(fields.message),
        detail: "",
        hint: "",
    });
    reply
}
