//! Flights that call pg_cancel_backend() and pg_terminate_backend().

use super::{Author, Flight};

/// What a client asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SignalCall {
    /// It calls pg_terminate_backend().
    pub ends: bool,
    /// The process id that it names.
    pub process_id: u32,
}

impl Author {
    /// Calls one of these functions, in one of the forms that clients use.
    pub(in crate::simulation) fn signal(&mut self, call: SignalCall) -> Flight {
        let schema = self.pick(&["", "pg_catalog."]);
        let name = match call.ends {
            true => "pg_terminate_backend",
            false => "pg_cancel_backend",
        };
        let id = call.process_id;
        if self.random.percent(50) {
            self.push(format!("Query \"select {schema}{name}({id})\""));
        } else {
            self.push(format!("Parse \"\" \"select {schema}{name}($1)\""));
            self.push(format!("Bind \"\" \"\" values \"{id}\""));
            self.push("Execute \"\" 0");
            self.push("Sync");
        }
        Flight::of(vec![self.take_bytes()])
    }

    /// What a client sends that may be cancelled by others and must give back its server, if it can.
    pub(in crate::simulation) fn gives_back(&mut self) -> Flight {
        Flight::of(self.queries(&["rollback"]))
    }
}
