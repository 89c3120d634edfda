//! What the commands on caches have in common: a connection that waits for nobody, and a signal that ends them.

use super::extension;
use super::survey::ServerFacts;
use crate::Result;
use crate::interrupt::Interrupt;
use crate::server::{Server, ServerArguments};
use postgres::Client;

/// Longest wait for somebody else's lock on a table.
const SESSION: &str =
    "set lock_timeout = '2s'; set statement_timeout = '5min'; set default_transaction_read_only = off";

/// Connects and acts. After a signal the running query is cancelled, and the outcome is the signal's error.
pub(super) fn with_server(
    arguments: &ServerArguments,
    act: impl FnOnce(Client, ServerFacts, &Interrupt) -> Result<()>,
) -> Result<()> {
    let server = Server::from_arguments(arguments)?;
    let mut client = connect(&server)?;
    // Not before: nothing looks for signals while a connection is opened, so they end the process then.
    let interrupt = Interrupt::install()?;
    let _cancel = server.cancel_on_signal(&client, &interrupt)?;
    let outcome = ServerFacts::ask(&mut client, &server).and_then(|facts| act(client, facts, &interrupt));
    interrupt.instead_of(outcome)
}

/// A connection that waits for nobody's locks.
pub(super) fn connect(server: &Server) -> Result<Client> {
    let mut client = server.connect()?;
    client.batch_execute(SESSION).map_err(|e| extension::failed(&e))?;
    Ok(client)
}
