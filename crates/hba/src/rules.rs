//! A whole HBA file.

use crate::address::Machine;
use crate::files::{Files, Reader};
use crate::names::Match;
use crate::problem::{Fault, Level, Place, Problem};
use crate::rule::Rule;
use std::collections::BTreeSet;
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

/// What decides about a connection.
#[derive(Debug, PartialEq)]
pub enum Found<'a> {
    /// This rule.
    Rule(&'a Rule),
    /// No rule matches: the client is refused.
    Nothing,
    /// It depends on whether the user is a member of these roles, of which it is not known.
    Depends(Vec<&'a str>),
}

/// The rules of a file, in their order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rules {
    rules: Vec<Rule>,
    asks_for_machine: bool,
    are_safe_without_roles: bool,
}

impl Rules {
    /// Reads the file `name` and the files that it includes. Returns no rules if a problem is an error. A file without
    /// a rule is an error, as in PostgreSQL: it would refuse every client.
    pub fn read(name: &str, files: &dyn Files) -> (Option<Rules>, Vec<Problem>) {
        let mut reader = Reader::read("hba", name, files);
        let mut problems = std::mem::take(&mut reader.problems);
        let mut rules = Vec::new();
        for (place, line) in reader.lines {
            match Rule::parse(&place, line.fields, &mut problems) {
                Ok(rule) => rules.extend(rule),
                Err(fault) => problems.push(fault.at(&place, Level::Error)),
            }
        }
        let are_warnings = |problems: &[Problem]| problems.iter().all(|problem| problem.level == Level::Warning);
        if rules.is_empty() && are_warnings(&problems) {
            let fault = Fault::new("the file contains no entries").hint("nobody could log in");
            let place = Place {
                file: name.into(),
                line: 0,
            };
            problems.push(fault.at(&place, Level::Error));
        }
        let is_good = are_warnings(&problems);
        let asks_for_machine = rules.iter().any(Rule::asks_for_machine);
        let mut rules = Rules {
            rules,
            asks_for_machine,
            are_safe_without_roles: false,
        };
        let unsafe_one = |problem: &Problem| problem.level == Level::Error;
        rules.are_safe_without_roles = !rules.problems_without_roles().iter().any(unsafe_one);
        (is_good.then_some(rules), problems)
    }

    /// The first rule that matches a connection. `is_member` says whether its user is a member of a role, directly or
    /// indirectly, or is that role; `None` if this is not known.
    pub fn find<'a>(
        &'a self,
        connection: &Connection<'a>,
        machine: &Machine,
        is_member: &dyn Fn(&str) -> Option<bool>,
    ) -> Found<'a> {
        let mut roles = BTreeSet::new();
        for rule in &self.rules {
            match rule.matches(connection, machine, is_member) {
                Match::No => {}
                Match::Depends(more) => roles.extend(more),
                Match::Yes if roles.is_empty() => return Found::Rule(rule),
                Match::Yes => break,
            }
        }
        match roles.is_empty() {
            true => Found::Nothing,
            false => Found::Depends(roles.into_iter().collect()),
        }
    }

    /// Whether nobody gets in by less than the rules demand if those for members of roles match no client.
    pub fn are_safe_without_roles(&self) -> bool {
        self.are_safe_without_roles
    }

    /// What is wrong with the rules for members of roles, if nobody can tell who they are: such rules match no client.
    pub fn problems_without_roles(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        for (at, rule) in self.rules.iter().enumerate() {
            if let Some(word) = rule.word_for_role() {
                problems.push(rule.matches_nobody(&word));
                let mut later = self.rules[at + 1..].iter();
                problems.extend(later.find_map(|later| rule.is_passed_by(later, &word)));
            }
        }
        problems
    }

    /// The first rule for members of a role that may decide about clients of this database. If a rule in front of it
    /// names the database, that one is assumed to decide.
    pub fn first_for_roles(&self, database: &str) -> Option<&Rule> {
        let rules = self.iter().filter(|rule| rule.may_match_database(database));
        let mut rules = rules.take_while(|rule| rule.word_for_role().is_some() || !rule.names_database(database));
        rules.find(|rule| rule.word_for_role().is_some())
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
