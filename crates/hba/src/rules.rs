//! A whole HBA file.

use crate::address::Machine;
use crate::files::{Files, Reader};
use crate::problem::{Fault, Level, Place, Problem};
use crate::rule::Rule;
use std::net::IpAddr;

/// How a client is connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// By a Unix-domain socket.
    UnixSocket,
    /// By TCP.
    Tcp {
        /// The client's address.
        peer: IpAddr,
        /// The connection is encrypted.
        is_tls: bool,
    },
}

/// The facts of a connection that rules look at.
#[derive(Clone, Copy, Debug)]
pub struct Connection<'a> {
    /// How the client is connected.
    pub origin: Origin,
    /// The database that it asks for.
    pub database: &'a str,
    /// The user that it asks for.
    pub user: &'a str,
    /// Whether it asks for physical replication.
    pub is_physical_replication: bool,
}

/// The rules of a file, in their order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rules {
    rules: Vec<Rule>,
    asks_for_machine: bool,
}

impl Rules {
    /// Reads the file `name` and the files that it includes. Returns no rules if a problem is an error. A file without
    /// a rule is an error, as in PostgreSQL: it would refuse every client.
    pub fn read(name: &str, files: &dyn Files) -> (Option<Rules>, Vec<Problem>) {
        let mut reader = Reader::read(name, files);
        let mut problems = std::mem::take(&mut reader.problems);
        let mut rules = Vec::new();
        for (place, line) in reader.lines {
            match Rule::parse(&place, line.fields, &mut problems) {
                Ok(rule) => rules.push(rule),
                Err(fault) => problems.push(fault.at(&place, Level::Error)),
            }
        }
        for (at, rule) in rules.iter().enumerate() {
            if let Some(word) = rule.unanswerable() {
                let passed = rules[at + 1..].iter().find_map(|later| rule.is_passed_by(later, word));
                problems.extend(passed.map(|fault| fault.at(&rule.place, Level::Error)));
            }
        }
        if rules.is_empty() && problems.is_empty() {
            let fault = Fault::new("the file contains no entries").hint("nobody could log in");
            let place = Place {
                file: name.into(),
                line: 0,
            };
            problems.push(fault.at(&place, Level::Error));
        }
        let is_good = problems.iter().all(|problem| problem.level == Level::Warning);
        let asks_for_machine = rules.iter().any(Rule::asks_for_machine);
        let rules = Rules {
            rules,
            asks_for_machine,
        };
        (is_good.then_some(rules), problems)
    }

    /// The first rule that matches a connection. If there is none the client is refused.
    pub fn find(&self, connection: &Connection<'_>, machine: &Machine) -> Option<&Rule> {
        self.rules.iter().find(|rule| rule.matches(connection, machine))
    }

    /// Whether a rule depends on the addresses of this machine: `samehost`, `samenet`.
    pub fn ask_for_machine(&self) -> bool {
        self.asks_for_machine
    }

    /// All rules.
    pub fn iter(&self) -> impl Iterator<Item = &Rule> {
        self.rules.iter()
    }
}
