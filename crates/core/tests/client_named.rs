//! SQL that names prepared statements: one namespace with Parse, on shared servers.

mod rig;

use pgweir_core::{ClientId, ServerId};
use pgweir_wire::TransactionStatus::{self, Failed, Idle, InTransaction};
use rig::{Rig, error};
use std::collections::{HashMap, HashSet};

fn one_server() -> (Rig, ClientId, ClientId) {
    let mut rig = Rig::new("session_state = full\ndefault_pool_size = 1");
    let (a, b) = (rig.client(), rig.client());
    rig.told(a);
    rig.told(b);
    (rig, a, b)
}

fn asks(rig: &mut Rig, client: ClientId, text: &str, tag: &str) -> Vec<String> {
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

fn prepares(rig: &mut Rig, client: ClientId, name: &[u8], text: &[u8]) {
    rig.says(client, |w| {
        w.parse(name, text, &[0, 0]);
        w.sync();
    });
    let server = rig.server_of(client).expect("linked");
    rig.serves(server, "");
    rig.told(client);
}

#[test]
fn execute_finds_what_parse_has_prepared() {
    let (mut rig, a, _) = one_server();
    prepares(&mut rig, a, b"s", b"select 1");
    let told = asks(&mut rig, a, "EXECUTE S", "SELECT 1");
    assert_eq!(told, ["Close Ss", "Parse s select 1", "Sync", "Query EXECUTE S"]);
    assert_eq!(rig.told(a), ["CommandComplete SELECT 1", "ReadyForQuery I"]);
    assert_eq!(rig.server_of(a), None, "it keeps no server");
    assert_eq!(
        asks(&mut rig, a, "execute s", "SELECT 1"),
        ["Query execute s"],
        "it is there"
    );
}

/// Guards against a client that can run or see another client's statements on the same server.
#[test]
fn what_is_lent_is_closed_in_front_of_the_next_client() {
    let (mut rig, a, b) = one_server();
    asks(&mut rig, a, "prepare s as select 'a'", "PREPARE");
    assert_eq!(rig.server_of(a), None, "PREPARE alone keeps no server");
    let told = asks(&mut rig, b, "execute s", "SELECT 1");
    assert_eq!(told[0], "Close Ss");
    assert!(told.contains(&"Query execute s".to_string()), "{told:?}");
    let told = asks(&mut rig, a, "execute s", "SELECT 1");
    let made = told
        .iter()
        .position(|l| l == "Parse pgweir_preparing prepare s as select 'a'");
    assert!(
        made.is_some_and(|at| told[at..].iter().any(|l| l.starts_with("Execute"))),
        "{told:?}"
    );
    assert_eq!(told.last().unwrap(), "Query execute s");
}

/// Clients of one program use the same names for the same statements: the next one need not prepare them again, unless
/// DDL may have changed them meanwhile.
#[test]
fn the_same_statement_under_the_same_name_is_there_for_the_next_client() {
    let (mut rig, a, b) = one_server();
    asks(&mut rig, a, "prepare s as select 1", "PREPARE");
    assert_eq!(
        asks(&mut rig, b, "prepare s as select 1", "PREPARE"),
        ["Close Ss", "Sync", "Query prepare s as select 1"],
        "b has no such name yet"
    );
    assert_eq!(
        asks(&mut rig, a, "execute s", "SELECT 1"),
        ["Query execute s"],
        "made after a has prepared it"
    );
    asks(&mut rig, a, "deallocate s", "DEALLOCATE");
    asks(&mut rig, a, "prepare s as select 1", "PREPARE");
    assert_eq!(asks(&mut rig, b, "execute s", "SELECT 1"), ["Query execute s"]);
    rig.told(a);
    rig.says(a, |w| w.query(b"set datestyle = 'ISO, DMY'"));
    let server = rig.server_of(a).unwrap();
    rig.told(server);
    rig.says(server, |w| {
        w.command_complete("SET");
        w.parameter_status(b"DateStyle", b"ISO, DMY");
        w.ready_for_query(Idle);
    });
    rig.serves(server, "");
    let told = asks(&mut rig, a, "execute s", "SELECT 1");
    assert!(told.len() > 1, "under other settings it is a's alone: {told:?}");
}

#[test]
fn a_prepare_that_the_server_refuses_gives_no_name() {
    let (mut rig, a, b) = one_server();
    rig.says(a, |w| w.query(b"prepare s as selec"));
    let server = rig.server_of(a).unwrap();
    rig.told(server);
    rig.says(server, |w| {
        w.error(&error("42601", "syntax error"));
        w.ready_for_query(Idle);
    });
    asks(&mut rig, b, "select 1", "SELECT 1");
    assert_eq!(asks(&mut rig, a, "execute s", "x"), ["Query execute s"]);
    rig.told(a);
    rig.says(a, |w| {
        w.parse(b"s", b"select 2", &[0, 0]);
        w.sync();
    });
    assert_eq!(rig.told(server)[0], "Parse pgweir_11 select 2", "the name is free");
}

/// Guards against "prepared statement does not exist" where the statement's table does not exist.
#[test]
fn what_cannot_be_made_again_is_the_error_of_its_execute() {
    for in_block in [false, true] {
        let (mut rig, a, b) = one_server();
        asks(&mut rig, a, "prepare s as select * from gone", "PREPARE");
        asks(&mut rig, b, "select 1", "SELECT 1");
        rig.told(a);
        let mut status = Idle;
        if in_block {
            rig.says(a, |w| w.query(b"begin isolation level serializable"));
            let server = rig.server_of(a).unwrap();
            begins(&mut rig, server);
            status = Failed;
            rig.told(a);
        }
        rig.says(a, |w| w.query(b"execute s"));
        let server = rig.server_of(a).unwrap();
        let told = rig.told(server);
        assert_eq!(told.last().unwrap(), "Query execute s");
        rig.says(server, |w| {
            if !in_block {
                w.empty(b'3');
            }
            w.empty(b'3');
            w.empty(b'1');
            w.empty(b'2');
            w.error(&error("42P01", "relation \"gone\" does not exist"));
            w.ready_for_query(status);
            let (sqlstate, message) = if in_block {
                ("25P02", "aborted")
            } else {
                ("26000", "no such")
            };
            w.error(&error(sqlstate, message));
            w.ready_for_query(status);
        });
        let heard = rig.told(a);
        assert!(heard[0].contains("42P01"), "{heard:?}");
        assert_eq!(heard.len(), 2, "{heard:?}");
    }
}

/// The server reports that a transaction block is open.
fn begins(rig: &mut Rig, server: ServerId) {
    rig.told(server);
    rig.says(server, |w| {
        w.command_complete("BEGIN");
        w.ready_for_query(InTransaction);
    });
}

/// Guards against an internal PREPARE that runs in a failed transaction, or is taken for data of a COPY.
#[test]
fn nothing_is_lent_behind_a_segment_that_is_not_answered() {
    type Sends = fn(&mut pgweir_wire::Writer<'_>);
    let ways: [(Sends, &str); 4] = [
        (|w| w.query(b"select 1; execute s"), "Query select 1; execute s"),
        (|w| w.parse(b"", b"execute s", &[0, 0]), "Parse  execute s"),
        (|w| w.parse(b"t", b"execute s", &[0, 0]), "execute s"),
        (|w| w.query(b"select 1; deallocate s"), "Query select 1; deallocate s"),
    ];
    for (sends, sent) in ways {
        let (mut rig, a, _) = one_server();
        prepares(&mut rig, a, b"s", b"select 1");
        rig.says(a, |w| {
            w.query(b"begin isolation level serializable");
            w.query(b"select 1/0");
            sends(w);
            w.sync();
        });
        let server = rig.server_of(a).unwrap();
        begins(&mut rig, server);
        let told = rig.told(server);
        assert!(
            !told.iter().any(|l| l.ends_with("select 1") || l.contains("Parse s")),
            "{told:?}"
        );
        rig.says(server, |w| {
            w.error(&error("22012", "division by zero"));
            w.ready_for_query(pgweir_wire::TransactionStatus::Failed);
        });
        let told = rig.told(server);
        assert!(
            told[0].ends_with(sent),
            "in a failed transaction nothing can be made: {told:?}"
        );
    }
}

/// Guards against names that come back although they were never made, because an Execute of DEALLOCATE ALL fails.
#[test]
fn deallocate_all_in_a_pipeline_waits_for_the_parse_in_front_of_it() {
    let (mut rig, a, _) = one_server();
    asks(&mut rig, a, "begin isolation level serializable", "BEGIN");
    rig.says(a, |w| {
        w.parse(b"", b"deallocate all", &[0, 0]);
        w.bind_text(b"", &[]);
        w.sync();
    });
    let server = rig.server_of(a).unwrap();
    rig.told(server);
    rig.says(server, |w| {
        w.empty(b'1');
        w.empty(b'2');
        w.ready_for_query(InTransaction);
    });
    rig.says(a, |w| {
        w.parse(b"b", b"selec", &[0, 0]);
        w.sync();
        w.execute();
        w.sync();
    });
    let told = rig.told(server);
    assert!(
        told[0].ends_with("selec") && told[1] == "Sync" && told.len() == 2,
        "{told:?}"
    );
    rig.says(server, |w| {
        w.error(&error("42601", "syntax error"));
        w.ready_for_query(pgweir_wire::TransactionStatus::Failed);
    });
    assert_eq!(rig.told(server), ["Execute", "Sync"]);
    rig.says(server, |w| {
        w.error(&error("25P02", "aborted"));
        w.ready_for_query(pgweir_wire::TransactionStatus::Failed);
    });
    rig.told(a);
    asks(&mut rig, a, "rollback", "ROLLBACK");
    rig.told(a);
    rig.says(a, |w| {
        w.parse(b"b", b"select 1", &[0, 0]);
        w.sync();
    });
    let told = rig.told(server);
    assert!(
        told.iter().any(|l| l.ends_with("select 1")),
        "the name is free: {told:?}"
    );
}

#[test]
fn deallocate_among_other_statements_ends_the_name() {
    let (mut rig, a, _) = one_server();
    prepares(&mut rig, a, b"s", b"select 1");
    prepares(&mut rig, a, b"t", b"select 2");
    rig.says(a, |w| w.query(b"select 1; deallocate s; deallocate t"));
    let server = rig.server_of(a).unwrap();
    rig.told(server);
    rig.says(server, |w| {
        for _ in 0..2 {
            w.empty(b'3');
            w.empty(b'1');
            w.ready_for_query(Idle);
        }
        w.command_complete("SELECT 1");
        w.command_complete("DEALLOCATE");
        w.error(&error("57014", "canceled"));
        w.ready_for_query(Idle);
    });
    rig.told(server);
    for (name, bound) in [(b"s", "Bind  s"), (b"t", "Bind  pgweir_11")] {
        rig.says(a, |w| w.bind_text(name, &[]));
        let server = rig.server_of(a).unwrap();
        let told = rig.told(server);
        assert_eq!(told.last().unwrap(), bound, "{told:?}");
        rig.says(a, |w| w.sync());
    }
}

#[test]
fn the_view_shows_the_clients_names() {
    let (mut rig, a, b) = one_server();
    prepares(&mut rig, b, b"other", b"select 'b'");
    prepares(&mut rig, a, b"s", b"select 1");
    let told = asks(&mut rig, a, "table pg_prepared_statements", "SELECT 1");
    for wanted in ["Close Spgweir_10", "Close Spgweir_11", "Parse s select 1"] {
        assert!(told.iter().any(|l| l == wanted), "{wanted} in {told:?}");
    }
    assert!(!told.iter().any(|l| l.contains("other")), "{told:?}");
}

/// Guards against another client's text in the view: a failed internal PREPARE leaves its statement.
#[test]
fn the_view_does_not_show_what_a_prepare_of_ours_has_left() {
    let (mut rig, a, b) = one_server();
    asks(&mut rig, a, "prepare s as select * from gone", "PREPARE");
    let told = asks(&mut rig, b, "table pg_prepared_statements", "SELECT 0");
    assert!(told.iter().any(|l| l == "Close Spgweir_preparing"), "{told:?}");
}

/// Guards against an internal empty statement in the view: a Parse of a name that is taken leaves it.
#[test]
fn the_view_does_not_show_what_made_a_parse_fail() {
    let (mut rig, a, b) = one_server();
    prepares(&mut rig, a, b"s", b"select 1");
    rig.says(a, |w| {
        w.parse(b"s", b"select 2", &[0, 0]);
        w.sync();
    });
    let server = rig.server_of(a).unwrap();
    let told = rig.told(server);
    assert_eq!(
        told,
        ["Close Spgweir_b", "Parse pgweir_b ", "Parse pgweir_b select 2", "Sync"]
    );
    let taken = rig.error_about("42P05", "prepared statement \"pgweir_b\" already exists");
    rig.says(server, |w| {
        w.empty(b'3');
        w.empty(b'1');
        w.error(&taken);
        w.ready_for_query(Idle);
    });
    assert_eq!(rig.server_of(a), None);
    let told = asks(&mut rig, b, "table pg_prepared_statements", "SELECT 0");
    assert!(told.iter().any(|l| l == "Close Spgweir_b"), "{told:?}");
}

/// Guards against two statements of one name: until it is known what a text has prepared, the server decides.
#[test]
fn a_parse_behind_a_prepare_among_other_statements_goes_under_the_clients_name() {
    let (mut rig, a, _) = one_server();
    rig.says(a, |w| w.query(b"select 1; prepare s as select 2"));
    let server = rig.server_of(a).unwrap();
    rig.told(server);
    rig.says(server, |w| {
        w.command_complete("SELECT 1");
        w.command_complete("PREPARE");
        w.ready_for_query(Idle);
    });
    rig.told(server);
    rig.says(a, |w| {
        w.parse(b"s", b"select 3", &[0, 0]);
        w.sync();
    });
    assert_eq!(rig.told(server), ["Parse s select 3", "Sync"]);
}

/// Guards against a second statement of a name whose first cannot be prepared again, because its table is gone.
#[test]
fn a_name_that_cannot_be_made_again_is_taken() {
    let (mut rig, a, server) = with_one_gone();
    rig.says(a, |w| w.query(b"prepare s as select 2"));
    assert_eq!(
        rig.told(server),
        ["Close Ss", "Parse s ", "Sync", "Query prepare s as select 2"]
    );
    rig.says(server, |w| {
        w.empty(b'3');
        w.empty(b'1');
        w.ready_for_query(Idle);
        w.error(&error("42P05", "prepared statement \"s\" already exists"));
        w.ready_for_query(Idle);
    });
    let mut postgres = Scripted::new();
    postgres.answers(&mut rig, server);
    rig.says(a, |w| w.query(b"execute s"));
    let told = postgres.answers(&mut rig, server);
    assert!(
        runs(&told, "prepare s as select * from gone") < told.len() - 1,
        "{told:?}"
    );
    // In the extended protocol, too.
    rig.says(a, |w| {
        w.parse(b"", b"prepare s as select 3", &[0, 0]);
        w.bind_text(b"", &[]);
    });
    let told = rig.told(server);
    assert!(!told.iter().any(|l| l.contains("gone")), "{told:?}");
    assert!(told.contains(&"Parse s ".to_string()), "{told:?}");
}

/// A server on which a table is gone; it follows the rules of transaction blocks.
struct Scripted {
    status: TransactionStatus,
    /// The texts of its statements, by name.
    statements: HashMap<String, String>,
    /// The text of the portal that was bound last.
    bound: String,
    portals: HashSet<String>,
    /// Everything is ignored up to the next Sync.
    ignores: bool,
}

impl Scripted {
    fn new() -> Self {
        Scripted {
            status: Idle,
            statements: HashMap::new(),
            bound: String::new(),
            portals: HashSet::new(),
            ignores: false,
        }
    }

    /// Answers everything that the server was sent, and what follows from the answers; returns all of it.
    fn answers(&mut self, rig: &mut Rig, server: ServerId) -> Vec<String> {
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

    fn answer(&mut self, rig: &mut Rig, server: ServerId, line: &str) {
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
                self.bound = self.statements[statement].clone();
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

    fn execute(&mut self, rig: &mut Rig, server: ServerId) {
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

    fn fails(&mut self, rig: &mut Rig, server: ServerId, sqlstate: &'static str, message: &'static str) {
        if self.status != Idle {
            self.status = Failed;
        }
        self.ignores = true;
        rig.says(server, |w| w.error(&error(sqlstate, message)));
    }

    fn query(&mut self, rig: &mut Rig, server: ServerId, text: &str) {
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
fn with_one_gone() -> (Rig, ClientId, ServerId) {
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
fn runs(told: &[String], text: &str) -> usize {
    let parse = format!("Parse pgweir_preparing {text}");
    let found = told.iter().position(|l| *l == parse);
    found.unwrap_or_else(|| panic!("{text} in {told:?}"))
}

/// Guards against a transaction that fails because of a statement that it does not use: the table is gone.
#[test]
fn what_only_code_may_use_fails_no_transaction() {
    for text in ["do $$begin end$$", "call p()", "table pg_prepared_statements"] {
        let (mut rig, a, server) = with_one_gone();
        let mut postgres = Scripted::new();
        rig.says(a, |w| w.query(b"begin isolation level serializable"));
        postgres.answers(&mut rig, server);
        assert_eq!(rig.told(a), ["CommandComplete BEGIN", "ReadyForQuery T"]);
        rig.says(a, |w| w.query(text.as_bytes()));
        let told = postgres.answers(&mut rig, server);
        let verb = text.split(' ').next().unwrap().to_uppercase();
        assert_eq!(
            rig.told(a),
            [&format!("CommandComplete {verb}"), "ReadyForQuery T"],
            "{told:?}"
        );
        let at = [
            runs(&told, "SAVEPOINT pgweir_savepoint"),
            runs(&told, "prepare s as select * from gone"),
            runs(&told, "ROLLBACK TO pgweir_savepoint"),
            runs(&told, "RELEASE pgweir_savepoint"),
            runs(&told, "prepare t as select 1"),
            told.iter().position(|l| *l == format!("Query {text}")).unwrap(),
        ];
        assert!(at.is_sorted(), "{told:?}");
        rig.says(a, |w| w.query(b"commit"));
        postgres.answers(&mut rig, server);
        assert_eq!(rig.told(a), ["CommandComplete COMMIT", "ReadyForQuery I"]);
    }
}

/// The same after a deferred BEGIN.
#[test]
fn behind_a_deferred_begin_names_are_lent_when_it_is_answered() {
    let (mut rig, a, server) = with_one_gone();
    let mut postgres = Scripted::new();
    rig.says(a, |w| {
        w.query(b"begin");
        w.query(b"do $$begin end$$");
    });
    let told = postgres.answers(&mut rig, server);
    let synced = told.iter().position(|l| l == "Sync").unwrap();
    assert!(synced < runs(&told, "SAVEPOINT pgweir_savepoint"), "{told:?}");
    assert!(runs(&told, "prepare t as select 1") < told.len() - 1, "{told:?}");
    assert_eq!(told.last().unwrap(), "Query do $$begin end$$");
    let heard = rig.told(a);
    assert_eq!(
        heard,
        [
            "CommandComplete BEGIN",
            "ReadyForQuery T",
            "CommandComplete DO",
            "ReadyForQuery T"
        ]
    );
}

/// PREPARE takes a snapshot. Guards against 25001, and against a snapshot from before a lock.
#[test]
fn nothing_is_lent_in_front_of_what_needs_no_snapshot() {
    let (mut rig, a, server) = with_one_gone();
    let mut postgres = Scripted::new();
    // From now on any statement may run code.
    rig.says(a, |w| {
        w.query(b"create function f() returns int language plpgsql as 'begin return 1; end'")
    });
    postgres.answers(&mut rig, server);
    rig.says(a, |w| w.query(b"begin read write"));
    postgres.answers(&mut rig, server);
    for text in [
        "show transaction_isolation",
        "set transaction isolation level serializable",
        "lock u",
    ] {
        rig.says(a, |w| w.query(text.as_bytes()));
        assert_eq!(postgres.answers(&mut rig, server), [format!("Query {text}")]);
    }
}
