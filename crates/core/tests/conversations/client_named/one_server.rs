//! Two clients of one server, and a server that follows the rules of transaction blocks.

use crate::rig::{Rig, error};
use pgweir_core::{ClientId, ServerId};
use pgweir_wire::TransactionStatus;
use pgweir_wire::TransactionStatus::{Failed, Idle, InTransaction};
use std::collections::{HashMap, HashSet};

pub fn one_server() -> (Rig, ClientId, ClientId) {
    let mut rig = Rig::new("default_pool_size = 1");
    let (a, b) = (rig.client(), rig.client());
    rig.told(a);
    rig.told(b);
    (rig, a, b)
}

pub fn asks(rig: &mut Rig, client: ClientId, text: &str, tag: &str) -> Vec<String> {
    rig.says(client, |w| w.query(text.as_bytes()));
    let server = rig.server_of(client).expect("linked");
    let mut told = rig.serves(server, tag);
    while !told.iter().any(|l| l.starts_with("Query")) {
        told.extend(rig.serves(server, tag));
    }
    // A probe.
    rig.serves(server, tag);
    told
}

pub fn prepares(rig: &mut Rig, client: ClientId, name: &[u8], text: &[u8]) {
    rig.says(client, |w| {
        w.parse(name, text, &[0, 0]);
        w.sync();
    });
    let server = rig.server_of(client).expect("linked");
    rig.serves(server, "");
    rig.told(client);
}

/// The server reports that a transaction block is open.
pub fn begins(rig: &mut Rig, server: ServerId) {
    rig.told(server);
    rig.says(server, |w| {
        w.command_complete("BEGIN");
        w.ready_for_query(InTransaction);
    });
}

/// A server on which a table is gone; it follows the rules of transaction blocks.
pub struct Scripted {
    pub status: TransactionStatus,
    /// The texts of its statements, by name.
    pub statements: HashMap<String, String>,
    /// The text of the portal that was bound last.
    pub bound: String,
    pub portals: HashSet<String>,
    /// Everything is ignored up to the next Sync.
    pub ignores: bool,
}

impl Scripted {
    pub fn new() -> Self {
        Scripted {
            status: Idle,
            statements: HashMap::new(),
            bound: String::new(),
            portals: HashSet::new(),
            ignores: false,
        }
    }

    /// Answers everything that the server was sent, and what follows from the answers; returns all of it.
    pub fn answers(&mut self, rig: &mut Rig, server: ServerId) -> Vec<String> {
        let mut all = Vec::new();
        loop {
            let told = rig.told(server);
            if told.is_empty() {
                return all;
            }
            for line in &told {
                self.answer(rig, server, line);
            }
            all.extend(told);
        }
    }

    pub fn answer(&mut self, rig: &mut Rig, server: ServerId, line: &str) {
        let words: Vec<&str> = line.splitn(3, ' ').collect();
        match words[..] {
            ["Sync"] => {
                self.ignores = false;
                if self.status == Idle {
                    self.portals.clear();
                }
                let status = self.status;
                rig.says(server, |w| w.ready_for_query(status));
            }
            _ if self.ignores => {}
            ["Query", ..] => self.query(rig, server, &line["Query ".len()..]),
            ["Parse", name, text] => {
                self.statements.insert(name.into(), text.to_lowercase());
                rig.says(server, |w| w.empty(b'1'));
            }
            ["Bind", portal, _] if !portal.is_empty() && !self.portals.insert(portal.into()) => {
                self.fails(rig, server, "42P03", "cursor already exists");
            }
            ["Bind", _, statement] => {
                self.bound = self.statements.get(statement).cloned().unwrap_or_default();
                rig.says(server, |w| w.empty(b'2'));
            }
            ["Close", name] => {
                self.portals.remove(name.strip_prefix('P').unwrap_or_default());
                rig.says(server, |w| w.empty(b'3'));
            }
            ["Execute", ..] => self.execute(rig, server),
            _ => panic!("nobody answers {line}"),
        }
    }

    pub fn execute(&mut self, rig: &mut Rig, server: ServerId) {
        let text = self.bound.clone();
        if text == "begin" || text.starts_with("rollback to") {
            self.status = InTransaction;
        }
        if self.status == Failed || text.contains("gone") {
            let aborted = ("25P02", "aborted");
            let gone = ("42P01", "relation \"gone\" does not exist");
            let (sqlstate, message) = if self.status == Failed { aborted } else { gone };
            return self.fails(rig, server, sqlstate, message);
        }
        let tag = match text.split_once(' ') {
            Some((verb, _)) if verb != "discard" => verb,
            _ => &text,
        };
        rig.says(server, |w| w.command_complete(&tag.to_uppercase()));
    }

    pub fn fails(&mut self, rig: &mut Rig, server: ServerId, sqlstate: &'static str, message: &'static str) {
        if self.status != Idle {
            self.status = Failed;
        }
        self.ignores = true;
        rig.says(server, |w| w.error(&error(sqlstate, message)));
    }

    pub fn query(&mut self, rig: &mut Rig, server: ServerId, text: &str) {
        let verb = text.split(' ').next().unwrap_or_default();
        match verb {
            "begin" => self.status = InTransaction,
            "rollback" => self.status = Idle,
            "commit" if self.status == InTransaction => self.status = Idle,
            _ => {}
        }
        let (failed, status) = (self.status == Failed, self.status);
        rig.says(server, |w| {
            match failed {
                true => w.error(&error("25P02", "aborted")),
                false => w.command_complete(&verb.to_uppercase()),
            }
            w.ready_for_query(status);
        });
    }
}

/// A client with two statements, of which only one can be prepared again, and a server that holds neither.
pub fn with_one_gone() -> (Rig, ClientId, ServerId) {
    let (mut rig, a, b) = one_server();
    asks(&mut rig, a, "prepare s as select * from gone", "PREPARE");
    asks(&mut rig, a, "prepare t as select 1", "PREPARE");
    asks(&mut rig, b, "select 1", "SELECT 1");
    rig.told(a);
    rig.says(b, |w| w.query(b"select 1"));
    let server = rig.server_of(b).unwrap();
    rig.serves(server, "SELECT 1");
    (rig, a, server)
}

/// How often the internal statement runs `text`.
pub fn runs(told: &[String], text: &str) -> usize {
    let parse = format!("Parse pgweir_preparing {text}");
    let found = told.iter().position(|l| *l == parse);
    found.unwrap_or_else(|| panic!("{text} in {told:?}"))
}
