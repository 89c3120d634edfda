//! A transaction of a client that uses no feature allocates nothing in the core.
//!
//! The settings are those of production.

#[path = "conversations/rig/mod.rs"]
mod rig;

use pgweir_core::{ClientId, ServerId};
use pgweir_wire::TransactionStatus::Idle;
use pgweir_wire::Writer;
use rig::Rig;
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// Counts the allocations of a thread while counting is switched on.
struct Counting;

thread_local! {
    static COUNTED: Cell<Option<u64>> = const { Cell::new(None) };
}

fn count() {
    COUNTED.with(|counted| counted.set(counted.get().map(|n| n + 1)));
}

// SAFETY: everything is passed on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller's duties are those of the system's allocator.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: it was allocated by `alloc` or `realloc` above.
        unsafe { System.dealloc(at, layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        count();
        // SAFETY: it was allocated by `alloc` or `realloc` above.
        unsafe { System.realloc(at, layout, bytes) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Transactions before anything is counted: buffers have grown to their size by then.
const WARM_UP: usize = 50;

/// Transactions that are counted.
const COUNTED_TRANSACTIONS: usize = 100;

struct Transaction {
    request: Vec<u8>,
    reply: Vec<u8>,
}

impl Transaction {
    fn of(request: impl FnOnce(&mut Writer<'_>), reply: impl FnOnce(&mut Writer<'_>)) -> Self {
        let mut transaction = Transaction {
            request: Vec::new(),
            reply: Vec::new(),
        };
        request(&mut Writer::new(&mut transaction.request));
        reply(&mut Writer::new(&mut transaction.reply));
        transaction
    }

    fn runs(&self, rig: &mut Rig, client: ClientId, server: ServerId) {
        let consumed = rig.pooler.handle_client_bytes(rig.now, client, &self.request);
        assert_eq!(consumed, self.request.len());
        assert_eq!(rig.server_of(client), Some(server));
        rig.pooler.outbox().clear();
        let consumed = rig.pooler.handle_server_bytes(rig.now, server, &self.reply);
        assert_eq!(consumed, self.reply.len());
        rig.pooler.outbox().clear();
        assert_eq!(rig.server_of(client), None);
        assert!(rig.pooler.poll_request().is_none());
    }

    /// The number of allocations in [`COUNTED_TRANSACTIONS`] transactions.
    fn allocations(&self, rig: &mut Rig, client: ClientId, server: ServerId) -> u64 {
        for _ in 0..WARM_UP {
            self.runs(rig, client, server);
        }
        COUNTED.with(|counted| counted.set(Some(0)));
        for _ in 0..COUNTED_TRANSACTIONS {
            self.runs(rig, client, server);
        }
        COUNTED.with(|counted| counted.take().unwrap_or_default())
    }
}

/// A client, and a server of its pool that no other client uses.
fn client_and_server() -> (Rig, ClientId, ServerId) {
    let mut rig = Rig::new("default_pool_size = 1");
    let client = rig.client();
    rig.says(client, |w| w.query(b"select 1"));
    let server = rig.server_of(client).unwrap();
    rig.completes(server, "SELECT 1");
    (rig, client, server)
}

fn rows(w: &mut Writer<'_>) {
    w.data_row(1, [Some(&b"42"[..])]);
    w.command_complete("SELECT 1");
    w.ready_for_query(Idle);
}

#[test]
fn a_query_allocates_nothing() {
    let (mut rig, client, server) = client_and_server();
    let transaction = Transaction::of(
        |w| w.query(b"select abalance from pgbench_accounts where aid = 1"),
        rows,
    );
    assert_eq!(transaction.allocations(&mut rig, client, server), 0);
}

#[test]
fn a_prepared_statement_allocates_nothing() {
    let (mut rig, client, server) = client_and_server();
    rig.says(client, |w| {
        w.parse(b"s", b"select abalance from pgbench_accounts where aid = $1", &[0, 0]);
        w.sync();
    });
    // The pooler describes the statement after the Parse, to learn its types.
    let asked = rig.told(server);
    assert_eq!(asked[asked.len() - 2..], ["Describe Spgweir_11", "Sync"]);
    rig.says(server, |w| {
        w.empty(b'1');
        w.message(b't', |b| b.extend([0, 1, 0, 0, 0, 23]));
        w.empty(b'n');
        w.ready_for_query(Idle);
    });
    assert_eq!(rig.told(client).last().unwrap(), "ReadyForQuery I");
    let executes = |w: &mut Writer<'_>| {
        w.bind_text(b"s", &[Some(&b"1"[..])]);
        w.execute();
        w.sync();
    };
    let transaction = Transaction::of(executes, |w| {
        w.empty(b'2');
        rows(w);
    });
    assert_eq!(transaction.allocations(&mut rig, client, server), 0);
}

#[test]
fn the_unnamed_statement_allocates_nothing_once_its_text_is_known() {
    let (mut rig, client, server) = client_and_server();
    let parses = |w: &mut Writer<'_>| {
        w.parse(b"", b"select abalance from pgbench_accounts where aid = $1", &[0, 0]);
        w.bind_text(b"", &[Some(&b"1"[..])]);
        w.describe(b'P', b"");
        w.execute();
        w.sync();
    };
    let transaction = Transaction::of(parses, |w| {
        w.empty(b'1');
        w.empty(b'2');
        w.empty(b'n');
        rows(w);
    });
    assert_eq!(transaction.allocations(&mut rig, client, server), 0);
}
