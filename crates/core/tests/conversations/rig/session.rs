//! Servers that answer the pooler's own requests, and its questions about their sessions.

use super::{Rig, error};
use pgweir_core::ServerId;
use pgweir_wire::TransactionStatus::{Failed, Idle};
use pgweir_wire::Writer;

/// So often a server answers before its questions count as endless.
const ANSWERS_MAX: usize = 100;

/// The session of a server, as its answers to the pooler's questions show it.
#[derive(Clone, Copy)]
pub struct Session<'s> {
    pub temporary: bool,
    /// There is a schema for temporary objects, as on every server that has had some.
    pub schema: bool,
    pub locks: bool,
    /// There are prepared statements that need a pin.
    pub prepared: bool,
    pub settings: &'s [(&'s str, &'s str)],
    /// Those of the settings that the user who logs in may not set.
    pub guarded: &'s [&'s str],
}

pub const NOTHING: Session<'static> = Session {
    temporary: false,
    schema: false,
    locks: false,
    prepared: false,
    settings: &[],
    guarded: &[],
};

pub const LOCKED: Session<'static> = Session { locks: true, ..NOTHING };

pub const TEMPORARY: Session<'static> = Session {
    temporary: true,
    schema: true,
    ..NOTHING
};

/// The last temporary object has been dropped.
pub const EMPTIED: Session<'static> = Session {
    schema: true,
    ..NOTHING
};

impl Session<'_> {
    /// The same with these settings.
    pub fn with<'s>(self, settings: &'s [(&'s str, &'s str)]) -> Session<'s> {
        Session {
            temporary: self.temporary,
            schema: self.schema,
            locks: self.locks,
            prepared: self.prepared,
            settings,
            guarded: &[],
        }
    }

    /// What an Execute of a statement gives.
    fn executes(&self, w: &mut Writer<'_>, statement: &str) {
        if statement.ends_with("pgweir_c") {
            return w.command_complete("DISCARD SEQUENCES");
        }
        if statement.ends_with("pgweir_6") {
            let bit = |is: bool| Some(if is { &b"t"[..] } else { b"f" });
            let others = bit(false);
            let row = [
                bit(self.temporary),
                bit(self.locks),
                others,
                others,
                bit(self.prepared),
                bit(self.schema),
            ];
            w.data_row(row.len(), row);
        } else if statement.ends_with("pgweir_7") {
            for (name, value) in self.settings {
                let guarded = if self.guarded.contains(name) { b"t" } else { b"f" };
                w.data_row(3, [Some(name.as_bytes()), Some(value.as_bytes()), Some(&guarded[..])]);
            }
        } else if statement.contains("pgweir_") && !statement.ends_with("pgweir_3") && !statement.ends_with("pgweir_0")
        {
            w.data_row(1, [Some(&b""[..])]);
        }
        w.command_complete("SELECT 1");
    }
}

impl Rig {
    /// A server answers these messages without an error: an Execute by `executes`, which gets the portal and the
    /// statement of the Bind in front of it, and each Query with this command tag, if there is one.
    pub fn replies(
        &mut self,
        server: ServerId,
        told: &[String],
        query_tag: Option<&str>,
        mut executes: impl FnMut(&mut Writer<'_>, &str),
    ) {
        let mut bound = "";
        for line in told {
            let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
            match word {
                "Parse" => self.says(server, |w| w.empty(b'1')),
                "Bind" => {
                    bound = rest;
                    self.says(server, |w| w.empty(b'2'));
                }
                "Close" => self.says(server, |w| w.empty(b'3')),
                "Execute" if bound.trim() == "pgweir_10" => self.tells_position(server),
                "Execute" => self.says(server, |w| executes(w, bound)),
                "Describe" => self.says(server, |w| {
                    if rest.starts_with('S') {
                        w.message(b't', |body| body.extend([0, 0]));
                    }
                    w.empty(b'n');
                }),
                "Sync" => self.says(server, |w| w.ready_for_query(Idle)),
                "Query" => {
                    if let Some(tag) = query_tag {
                        self.completes(server, tag);
                    }
                }
                "Flush" | "Terminate" => {}
                other => panic!("nobody answers {other}"),
            }
        }
    }

    /// The server was told to begin a block that has failed: a BEGIN, and a Describe of a portal that does not exist. It
    /// answers both.
    pub fn fails_begin(&mut self, server: ServerId, told: &[String]) {
        let fails = told.iter().position(|l| l.starts_with("Describe P"));
        let Some(fails) = fails else {
            panic!("nothing makes the block fail: {told:?}")
        };
        assert_eq!(
            told[fails + 1..],
            ["Sync"],
            "what follows waits until the block has failed"
        );
        self.replies(server, &told[..fails], None, |w, _| w.command_complete("BEGIN"));
        self.says(server, |w| {
            w.error(&error("34000", "portal \"the transaction has failed\" does not exist"));
            w.ready_for_query(Failed);
        });
    }

    /// A server answers everything that it was sent without an error, each Query and Execute with this command tag;
    /// returns what it was sent.
    pub fn serves(&mut self, server: ServerId, tag: &str) -> Vec<String> {
        let told = self.told(server);
        self.replies(server, &told, Some(tag), |w, _| w.command_complete(tag));
        told
    }

    /// A server with this session answers these messages, and no Query.
    pub fn replies_about(&mut self, server: ServerId, told: &[String], session: Session<'_>) {
        self.replies(server, told, None, |w, statement| session.executes(w, statement));
    }

    /// A server with this session answers everything that it was sent; returns that.
    pub fn answers_about(&mut self, server: ServerId, session: Session<'_>) -> Vec<String> {
        let told = self.told(server);
        let executes = |w: &mut Writer<'_>, statement: &str| session.executes(w, statement);
        self.replies(server, &told, Some("DONE"), executes);
        told
    }

    /// A server with this session answers until it is sent nothing more.
    pub fn answers_all_about(&mut self, server: ServerId, session: Session<'_>) -> Vec<String> {
        let mut all = Vec::new();
        for _ in 0..ANSWERS_MAX {
            let told = self.answers_about(server, session);
            if told.is_empty() {
                return all;
            }
            all.extend(told);
        }
        panic!("the server is asked without end: {:?}", &all[..ANSWERS_MAX])
    }
}

impl Rig {
    /// The server was told DISCARD ALL, a new seed for random(), and the question for a temporary schema.
    pub fn is_told_to_discard(&mut self, server: ServerId) {
        self.is_told_to_discard_and(server, "");
    }

    /// The same, with these words behind the question.
    pub fn is_told_to_discard_and(&mut self, server: ServerId, behind: &str) {
        let told = self.told(server);
        let [discards, asks] = &told[..] else {
            panic!("{told:?}")
        };
        assert_eq!(discards, "Query DISCARD ALL");
        let question = format!("); SELECT pg_catalog.pg_my_temp_schema() OPERATOR(pg_catalog.<>) 0{behind}");
        assert!(
            asks.starts_with("Query SELECT pg_catalog.setseed(0.") && asks.ends_with(&question),
            "{asks}"
        );
    }
}
