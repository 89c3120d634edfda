//! SHUTDOWN, in its three ways.

use crate::base::consequence::Consequence;
use crate::base::errors::Trouble;
use crate::base::failure::Failure;
use crate::base::ids::{ClientId, ServerId};
use crate::base::reasons::Waiting;
use crate::base::request::{LogLevel, Request};
use crate::base::slab::Slab;
use crate::base::time::Time;
use crate::client::{Client, ClientPhase};
use crate::console::orders::Ending;
use crate::pooler::Pooler;
use crate::server::Server;
use crate::upstream::phase::ServerPhase;
use pgweir_config::CONSOLE_DATABASE;

/// The message to clients when the process ends, in PgBouncer's words.
const SHUTTING_DOWN: &str = "server shutting down";

impl Pooler {
    /// SHUTDOWN, in one of its three ways. A later command replaces an earlier one.
    pub(crate) fn shutdown(&mut self, now: Time, how: Ending) {
        if self.admin.is_ending() {
            return;
        }
        if how == Ending::Immediate {
            return self.exit_now(now);
        }
        if self.admin.shut_down(how) {
            self.shared.requests.push_back(Request::StopListening);
        }
        if self.admin.end_suspension() {
            self.read_everyone(now);
        }
        for slot in self.clients.slots() {
            let client = self.clients.get(slot);
            let waiting = client.filter(|client| matches!(client.waiting, Waiting::ForServer { .. }));
            let pool = waiting.and_then(|client| client.pool);
            if pool.is_some_and(|pool| self.refuses_waiters(pool)) {
                self.refuse_for_shutdown(now, ClientId(slot));
            }
        }
        self.shutdown_progress();
    }

    /// Clients that have not sent their startup packet: no shutdown waits for them.
    pub fn clients_at_startup(&self) -> Vec<ClientId> {
        let clients = self.clients.iter();
        let silent = clients.filter(|(_, c)| matches!(c.phase, ClientPhase::Startup(_)));
        silent.map(|(slot, _)| ClientId(slot)).collect()
    }

    pub(crate) fn refuse_for_shutdown(&mut self, now: Time, id: ClientId) {
        self.fail_client(now, id, Failure::new(Trouble::ShuttingDown, SHUTTING_DOWN));
    }

    /// A client has been closed. If SHUTDOWN waits for that, the process ends with this turn. (For the end of a server it
    /// waits like PAUSE: [`Pooler::pause_progress`].)
    pub(crate) fn shutdown_progress(&mut self) {
        if self.admin.is_shutting_down() {
            self.admin.becomes_due();
        }
    }

    /// Ends the process if nothing is left that SHUTDOWN waits for.
    pub(super) fn end_if_due(&mut self, now: Time) {
        let text = match self.admin.ending() {
            Ending::WaitForClients if self.client_count == 0 && !any_login(&self.clients) => {
                "client connections dropped, exiting"
            }
            Ending::WaitForServers if !any_server_in_use(&self.servers) => "server connections dropped, exiting",
            _ => return,
        };
        self.log(LogLevel::Log, text.into());
        self.exit_now(now);
    }

    /// Sends every client an error and every server Terminate, and ends the process.
    pub(super) fn exit_now(&mut self, now: Time) {
        if self.admin.is_ending() {
            return;
        }
        if self.admin.shut_down(Ending::Immediate) {
            self.shared.requests.push_back(Request::StopListening);
        }
        for slot in self.clients.slots() {
            match self.clients.get(slot).map(|c| &c.phase) {
                Some(ClientPhase::Startup(_) | ClientPhase::Cancelling { .. }) => {
                    self.close_client(now, ClientId(slot), SHUTTING_DOWN)
                }
                Some(_) => self.refuse_for_shutdown(now, ClientId(slot)),
                None => {}
            }
        }
        self.consequences.push_back(Consequence::EndProcess);
    }

    /// The clients have left.
    pub(crate) fn end_process(&mut self, now: Time) {
        for slot in self.servers.slots() {
            self.close_server(now, ServerId(slot), SHUTTING_DOWN);
        }
        self.shared.requests.push_back(Request::Exit);
    }
}

/// Whether clients other than the console's are logging in.
fn any_login(clients: &Slab<Client>) -> bool {
    let mut logins = clients.iter().filter_map(|(_, client)| client.login());
    logins.any(|login| login.database() != CONSOLE_DATABASE)
}

fn any_server_in_use(servers: &Slab<Server>) -> bool {
    servers.iter().any(|(_, server)| {
        !matches!(
            server.phase,
            ServerPhase::Connecting
                | ServerPhase::Securing
                | ServerPhase::Login(_)
                | ServerPhase::ConnectQuery
                | ServerPhase::Idle
                | ServerPhase::Listening
        )
    })
}
