//! HBA lines for the members of roles: the pooler asks a server, and a client of which nobody can tell is refused.

use crate::rig::{Rig, configuration_with_files, error};
use crate::taking_over::take_over;
use pgweir_core::{Accepted, Address, ClientId, LogLevel, ReloadOutcome, ServerId, Verified};
use pgweir_wire::TransactionStatus::Idle;
use std::sync::Arc;
use std::time::Duration;

const USERS: &str = "\"alice\" \"secret\"\n\"looker\" \"\"\n\"boss\" \"secret\"\n";

const RULES: &str = "local db boss trust\n\
                     local all +banned reject\n\
                     local all +dba,+\\q\"\"\"x\" password\n\
                     local samerole all scram-sha-256\n\
                     local all all trust\n";

fn settings(more: &str) -> String {
    format!("auth_type = hba\nauth_hba_file = hba\nauth_file = users.txt\nadmin_users = boss\n{more}")
}

const ASKING: &str = "auth_user = looker\n";

fn files(rules: &str) -> [(&str, &str); 2] {
    [("hba", rules), ("users.txt", USERS)]
}

fn rig(more: &str) -> Rig {
    Rig::with_files(&settings(more), &files(RULES))
}

fn local(rig: &mut Rig, user: &str, database: &str) -> ClientId {
    let peer = Address::Unix { port: 6432, pid: None };
    let accepted = Accepted {
        peer,
        local: peer,
        peer_uid: Some(1000),
    };
    rig.client_begins_at(accepted, &[("user", user), ("database", database)])
}

/// A client about whose roles a server is asked.
fn asked_about(rig: &mut Rig, user: &str) -> (ClientId, ServerId) {
    let client = local(rig, user, "db");
    rig.servers_log_in();
    let server = rig.server_of(client).expect("a server is asked");
    assert!(rig.told(client).is_empty(), "nothing is said before it is known");
    assert!(!rig.pooler.may_read(client.into()));
    (client, server)
}

fn answers(rig: &mut Rig, server: ServerId, letters: &str) {
    rig.told(server);
    rig.says(server, |w| {
        w.empty(b'1');
        w.empty(b'2');
        w.data_row(1, [Some(letters.as_bytes())]);
        w.command_complete("SELECT 1");
        w.ready_for_query(Idle);
    });
}

fn fails(rig: &mut Rig, server: ServerId) {
    rig.told(server);
    rig.says(server, |w| {
        w.error(&error("42501", "permission denied for table pg_auth_members"));
        w.ready_for_query(Idle);
    });
}

/// The method by which the client is asked, or what else it is told last.
fn asks(rig: &mut Rig, client: ClientId) -> String {
    let (tag, body) = rig.hears(client).pop().expect("it is told something");
    match (tag, &*body) {
        (b'R', [_, _, _, method, ..]) => format!("Authentication {method}"),
        (b'Z', _) => "ReadyForQuery".into(),
        (_, text) => String::from_utf8_lossy(text).replace('\0', " "),
    }
}

fn logged(rig: &Rig, text: &str) -> bool {
    rig.log
        .iter()
        .any(|(level, line)| *level <= LogLevel::Log && line.contains(text))
}

/// The client is refused as if no rule matched, and learns no reason.
fn is_refused(rig: &mut Rig, client: ClientId, why: &str) {
    assert_eq!(
        rig.told(client),
        ["Error 28000 no authentication method is found"],
        "{why}"
    );
    assert!(rig.is_closed(client));
    let line = format!("login failed: cannot find out the roles of the user: {why}");
    assert!(logged(rig, &line), "{why}: {:?}", rig.log);
}

/// The roles are asked for in alphabetical order: `\q"x`, banned, db, dba.
#[test]
fn the_answer_decides_which_line_counts() {
    for (letters, expected) in [
        ("fftf", "Authentication 10"),
        ("fftt", "Authentication 3"),
        ("tfff", "Authentication 3"),
        ("tttt", "login rejected"),
        ("ffff", "ReadyForQuery"),
    ] {
        let mut rig = rig(ASKING);
        let (client, server) = asked_about(&mut rig, "alice");
        let asked = rig.values_bound(server);
        assert_eq!(asked.last().unwrap(), &["alice", r#"{"\\q\"x","banned","db","dba"}"#]);
        answers(&mut rig, server, letters);
        rig.servers_log_in();
        let told = asks(&mut rig, client);
        assert!(told.contains(expected), "{letters}: {told}, not {expected}");
    }
}

/// The line in front of those for roles decides about this user.
#[test]
fn nobody_is_asked_if_the_answer_cannot_matter() {
    let mut rig = rig(ASKING);
    let client = local(&mut rig, "boss", "db");
    rig.servers_log_in();
    assert_eq!(rig.told(client).last().map(String::as_str), Some("ReadyForQuery I"));
}

/// A user who does not exist, and the secret from auth_query: the second question goes to the same server.
#[test]
fn the_secret_is_looked_up_behind_the_roles() {
    let mut told = Vec::new();
    for (user, is_found) in [("stranger", true), ("nobody", false)] {
        let mut rig = rig(ASKING);
        let (client, server) = asked_about(&mut rig, user);
        answers(&mut rig, server, "ffff");
        assert_eq!(rig.server_of(client), Some(server), "auth_query runs");
        assert_eq!(rig.values_bound(server), [[user]]);
        rig.told(server);
        rig.auth_query_finds(server, user, is_found.then_some("secret"));
        rig.servers_log_in();
        told.push(rig.told(client).last().unwrap().clone());
    }
    assert_eq!(told, ["ReadyForQuery I", "Error 28P01 \"trust\" authentication failed"]);
}

/// A line that rejects, or that demands more, must not be passed over.
#[test]
fn without_an_answer_the_client_is_refused() {
    for letters in ["", "fff", "fffff", "ffxf"] {
        let mut rig = rig(ASKING);
        let (client, server) = asked_about(&mut rig, "alice");
        answers(&mut rig, server, letters);
        is_refused(&mut rig, client, "the server has not answered the question");
    }
    let mut rig = self::rig(ASKING);
    let (client, server) = asked_about(&mut rig, "alice");
    fails(&mut rig, server);
    is_refused(&mut rig, client, "the server has not answered the question");
    assert!(logged(
        &rig,
        "error in the question about roles: ERROR: permission denied"
    ));
    let (client, server) = asked_about(&mut rig, "alice");
    rig.server_dies(server);
    is_refused(&mut rig, client, "server conn crashed?");
    let client = local(&mut rig, "alice", "db");
    let server = rig.connects.pop_front().expect("a server is wanted");
    rig.connect_fails(server);
    is_refused(&mut rig, client, "connect failed");
}

#[test]
fn time_limits_refuse_the_client() {
    let mut rig = rig("auth_user = looker\nquery_timeout = 2");
    let (client, server) = asked_about(&mut rig, "alice");
    rig.wait(Duration::from_secs(5));
    assert_eq!(rig.cancels.len(), 1, "the server does not work on for nobody");
    assert_eq!(rig.cancels[0].0, server);
    is_refused(&mut rig, client, "query timeout");
    let mut rig = self::rig("auth_user = looker\ndefault_pool_size = 1\nquery_wait_timeout = 2");
    asked_about(&mut rig, "alice");
    let late = local(&mut rig, "alice", "db");
    rig.wait(Duration::from_secs(3));
    is_refused(&mut rig, late, "query_wait_timeout");
    let mut rig = self::rig("auth_user = looker\nclient_login_timeout = 5");
    let (client, _) = asked_about(&mut rig, "alice");
    rig.wait(Duration::from_secs(6));
    assert!(rig.is_closed(client));
}

/// The server of a client that has left answers nobody, and serves the next login.
#[test]
fn a_client_that_leaves_takes_no_answer_along() {
    let mut rig = rig("auth_user = looker\ndefault_pool_size = 1");
    let (client, server) = asked_about(&mut rig, "alice");
    rig.client_leaves(client);
    let next = local(&mut rig, "stranger", "db");
    answers(&mut rig, server, "tttt");
    if !rig.cancels.is_empty() {
        rig.cancel_arrives(server);
    }
    rig.told(server);
    if rig.server_of(next).is_none() {
        rig.servers_log_in();
    }
    let server = rig.server_of(next).expect("it is asked about");
    assert!(rig.told(next).is_empty(), "the answer was about another client");
    answers(&mut rig, server, "ftff");
    assert_eq!(rig.told(next), ["Error 28000 login rejected"]);
}

/// Where there is no auth_user, or it cannot be used, a line for a role refuses. A line in front of it still decides.
#[test]
fn a_database_without_auth_user_is_refused() {
    let other =
        "auth_dbname = nowhere\n[databases]\nother = host=127.0.0.1 user=u auth_user=looker auth_dbname=other\n";
    let mut rig = rig(other);
    let client = local(&mut rig, "alice", "db");
    is_refused(&mut rig, client, "there is no auth_user for the database");
    let console = local(&mut rig, "boss", "pgbouncer");
    is_refused(&mut rig, console, "there is no auth_user for the database");
    let boss = local(&mut rig, "boss", "db");
    rig.servers_log_in();
    assert_eq!(rig.told(boss).last().map(String::as_str), Some("ReadyForQuery I"));
    let asked = local(&mut rig, "alice", "other");
    rig.servers_log_in();
    let server = rig.server_of(asked).expect("a server is asked");
    answers(&mut rig, server, "tfff");
    assert!(asks(&mut rig, asked) == "Authentication 3");
    let mut rig = self::rig("auth_user = looker\nauth_dbname = nowhere");
    let client = local(&mut rig, "alice", "db");
    is_refused(&mut rig, client, "auth_dbname cannot be used");
    assert!(logged(&rig, "authentication database \"nowhere\" is not configured."));
}

/// With auth_dbname, the roles of the console's users can be asked for.
#[test]
fn the_console_has_roles_with_auth_dbname() {
    let mut rig = rig("auth_user = looker\nauth_dbname = db");
    let console = local(&mut rig, "boss", "pgbouncer");
    rig.servers_log_in();
    let server = rig.server_of(console).expect("a server is asked");
    answers(&mut rig, server, "ffff");
    assert_eq!(rig.told(console).last().map(String::as_str), Some("ReadyForQuery I"));
}

/// The answer must not tell which databases exist: the client is asked for its password, in vain, even if it is right.
#[test]
fn a_database_that_does_not_exist_is_like_a_user_who_does_not() {
    let rules = "local all +dba trust\nlocal all all password\n";
    let mut rig = Rig::with_files(&settings(ASKING), &files(rules));
    let absent = local(&mut rig, "alice", "absent");
    let (nobody, server) = asked_about(&mut rig, "nobody");
    answers(&mut rig, server, "f");
    rig.told(server);
    rig.says(server, |w| {
        w.empty(b'1');
        w.empty(b'2');
        w.command_complete("SELECT 0");
        w.ready_for_query(Idle);
    });
    let mut told = Vec::new();
    for client in [absent, nobody] {
        rig.says(client, |w| w.password(b"secret\0"));
        told.push(rig.told(client));
        assert!(rig.is_closed(client));
    }
    assert_eq!(told[0], told[1], "{:?}", rig.log);
    assert!(told[0][1].starts_with("Error 28P01"), "{told:?}");
}

/// PAM and directories know nothing of databases: their verdict lets nobody into one that may exist a moment later.
#[test]
fn a_judge_lets_nobody_into_a_database_that_does_not_exist() {
    let rules = "local all +dba reject\nlocal all all pam\n";
    let mut rig = Rig::with_files(&settings(ASKING), &files(rules));
    let client = local(&mut rig, "alice", "absent");
    rig.says(client, |w| w.password(b"secret\0"));
    rig.questions.pop_front().expect("PAM is asked, as about others");
    rig.verified(client, Verified::Right);
    assert!(rig.told(client).last().unwrap().starts_with("Error 28P01"));
    assert!(logged(&rig, "login failed: the database does not exist"));
}

/// The rules that count are those at the moment of the answer. If they name roles that were not asked for, the server
/// is asked once more, and what it has said before is not forgotten.
#[test]
fn rules_that_change_during_the_question() {
    let reload = |rig: &mut Rig, rules: &str| {
        let config = Arc::new(configuration_with_files(&settings(ASKING), &files(rules)));
        rig.pooler
            .handle_reload(rig.now, None, ReloadOutcome::New(config, Vec::new()));
        rig.settle(&[]);
    };
    let mut rig = rig(ASKING);
    let (client, server) = asked_about(&mut rig, "alice");
    reload(&mut rig, "local all +banned trust\n");
    answers(&mut rig, server, "ftff");
    rig.servers_log_in();
    assert_eq!(rig.told(client).last().map(String::as_str), Some("ReadyForQuery I"));
    let mut rig = self::rig(ASKING);
    let (client, server) = asked_about(&mut rig, "alice");
    reload(&mut rig, "local all +new trust\nlocal all +banned password\n");
    answers(&mut rig, server, "ftff");
    assert!(rig.told(client).is_empty());
    let server = rig.server_of(client).expect("it is asked again");
    assert_eq!(rig.values_bound(server).last().unwrap(), &["alice", "{\"new\"}"]);
    answers(&mut rig, server, "f");
    assert!(asks(&mut rig, client) == "Authentication 3");
}

/// `SET auth_user` cannot make the lines of roles match nobody, if that would let somebody in by less.
#[test]
fn rules_that_need_answers_are_not_evaluated_without() {
    let mut config = configuration_with_files(&settings(ASKING), &files(RULES));
    config.global.auth_user = None;
    let mut rig = rig(ASKING);
    rig.reloads(config);
    let client = local(&mut rig, "alice", "db");
    is_refused(&mut rig, client, "there is no auth_user for the database");
}

/// Without any auth_user, lines of roles match nobody, as long as nobody gets in by less.
#[test]
fn harmless_lines_match_nobody_without_auth_user() {
    let rules = "local all +dba trust\nlocal all all password\n";
    let mut rig = Rig::with_files(&settings(""), &files(rules));
    let client = local(&mut rig, "alice", "db");
    assert!(asks(&mut rig, client) == "Authentication 3");
}

#[test]
fn another_process_gets_the_answer() {
    let mut rig = rig(ASKING);
    let (client, server) = asked_about(&mut rig, "alice");
    take_over(
        &mut rig,
        configuration_with_files(&settings(ASKING), &files(RULES)),
        |_| true,
    );
    answers(&mut rig, server, "tfff");
    assert!(asks(&mut rig, client) == "Authentication 3");
    let (client, server) = asked_about(&mut rig, "alice");
    take_over(
        &mut rig,
        configuration_with_files(&settings(ASKING), &files(RULES)),
        |id| id != server.into(),
    );
    is_refused(&mut rig, client, "");
}
