//! Internal requests: each is written together with the entry that says who gets its reply.

use crate::base::ids::ServerId;
use crate::base::outbox::Outbox;
use crate::upstream::entry::{Effect, Entry, Expect, To};
use crate::upstream::reply_queue::ReplyQueue;
use pgweir_wire::Writer;

/// Writes requests to one server.
#[derive(Debug)]
pub(crate) struct Requests<'a> {
    writer: Writer<'a>,
    queue: &'a mut ReplyQueue,
    to: To,
    /// The special facts of the next request.
    next: Option<Entry>,
}

impl ReplyQueue {
    /// Writes requests to the server with this queue, whose replies go to `to`.
    pub(crate) fn ask(&mut self, server: ServerId, outbox: &mut Outbox, to: To, write: impl FnOnce(&mut Requests<'_>)) {
        outbox.insert(server.into(), |bytes| {
            write(&mut Requests {
                writer: Writer::new(bytes),
                queue: self,
                to,
                next: None,
            });
        });
    }
}

impl Requests<'_> {
    /// The next request gets this entry, with the `expect` of the request itself.
    pub(crate) fn special(&mut self, entry: Entry) -> &mut Self {
        self.next = Some(entry);
        self
    }

    /// The next request has this effect if it succeeds.
    pub(crate) fn with(&mut self, effect: Effect) -> &mut Self {
        let entry = self.take_next().with(effect);
        self.special(entry)
    }

    /// The next request uses the prepared statement with this id.
    pub(crate) fn using(&mut self, statement: u64) -> &mut Self {
        let entry = self.take_next().using(statement);
        self.special(entry)
    }

    /// The special entry of the next request, or the usual one.
    fn take_next(&mut self) -> Entry {
        let usual = || Entry::skip(Expect::default()).answered_to(self.to);
        self.next.take().unwrap_or_else(usual)
    }

    fn push(&mut self, expect: Expect) {
        let mut entry = self.take_next();
        entry.expect = expect;
        self.queue.push(entry);
    }

    /// Query.
    pub(crate) fn query(&mut self, text: &[u8]) {
        self.push(Expect::Query);
        self.writer.query(text);
    }

    /// Parse; `types` is the count and the OIDs as in the message.
    pub(crate) fn parse(&mut self, name: &[u8], query: &[u8], types: &[u8]) {
        self.push(if name.is_empty() {
            Expect::ParseUnnamed
        } else {
            Expect::Parse
        });
        self.writer.parse(name, query, types);
    }

    /// Bind to a portal with text parameters and text results; `None` is NULL.
    pub(crate) fn bind(&mut self, portal: &[u8], statement: &[u8], values: &[Option<&[u8]>]) {
        self.push(Expect::Bind);
        self.writer.bind_portal(portal, statement, values);
    }

    /// Bind to an unnamed or named portal without parameters. `formats`: the format codes of the results as in the
    /// message, without their number.
    pub(crate) fn bind_with_formats(&mut self, portal: &[u8], statement: &[u8], formats: &[u8]) {
        self.push(Expect::Bind);
        self.writer.message(b'B', |to| {
            for name in [portal, statement] {
                to.extend_from_slice(name);
                to.push(0);
            }
            to.extend([0, 0, 0, 0]);
            to.extend(((formats.len() / 2) as u16).to_be_bytes());
            to.extend_from_slice(formats);
        });
    }

    /// Describe a statement (`b'S'`) or portal (`b'P'`).
    pub(crate) fn describe(&mut self, what: u8, name: &[u8]) {
        self.push(Expect::Describe);
        self.writer.describe(what, name);
    }

    /// Execute a portal to its end.
    pub(crate) fn execute(&mut self, portal: &[u8]) {
        self.push(Expect::Execute);
        self.writer.execute_portal(portal);
    }

    /// Bind to a portal, Execute it to its end, and Close it.
    pub(crate) fn run_in(&mut self, portal: &[u8], statement: &[u8], values: &[Option<&[u8]>]) {
        self.bind(portal, statement, values);
        self.execute(portal);
        self.close(b'P', portal);
    }

    /// Close a statement (`b'S'`) or portal (`b'P'`).
    pub(crate) fn close(&mut self, what: u8, name: &[u8]) {
        self.push(Expect::Close);
        self.writer.close(what, name);
    }

    /// Flush, which has no reply.
    pub(crate) fn flush(&mut self) {
        self.writer.flush();
    }

    /// Sync.
    pub(crate) fn sync(&mut self) {
        self.push(Expect::Sync);
        self.writer.sync();
    }
}
