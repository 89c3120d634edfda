//! Lines for the members of roles: what must be known, and what happens if it is.

use pgweir_hba::{Connection, Found, Level, Machine, Method, Origin, Problem, Rules};
use std::io;

fn read(text: &str) -> (Rules, Vec<Problem>) {
    let text = text.to_owned();
    let files = move |_: &str| -> io::Result<Vec<u8>> { Ok(text.clone().into_bytes()) };
    let (rules, problems) = Rules::read("hba", &files);
    (rules.unwrap_or_else(|| panic!("{problems:?}")), problems)
}

fn connection<'a>(database: &'a str, user: &'a str) -> Connection<'a> {
    Connection {
        origin: Origin::UnixSocket,
        database,
        user,
        is_physical_replication: false,
    }
}

/// The first rule for a user who is a member of `roles`, and of no other one.
fn member<'a>(rules: &'a Rules, connection: &Connection<'a>, roles: &[&str]) -> Found<'a> {
    rules.find(connection, &Machine::default(), &|role| Some(roles.contains(&role)))
}

/// The first rule if nothing is known.
fn unknown<'a>(rules: &'a Rules, connection: &Connection<'a>) -> Found<'a> {
    rules.find(connection, &Machine::default(), &|_| None)
}

fn line(found: Found<'_>) -> u32 {
    match found {
        Found::Rule(rule) => rule.place.line,
        Found::Nothing => 0,
        Found::Depends(roles) => panic!("{roles:?}"),
    }
}

#[test]
fn the_first_line_of_a_role_decides_about_its_members() {
    let (rules, problems) = read(
        "local all +banned,mallory reject\n\
         local shop,mall +staff,carol trust\n\
         local samerole all md5\n\
         local samegroup all password\n\
         local all \"+staff\" peer\n",
    );
    assert_eq!(problems, []);
    for (database, user, roles, expected) in [
        ("shop", "alice", &["staff"][..], 2),
        ("shop", "alice", &["staff", "banned"], 1),
        ("shop", "mallory", &[], 1),
        ("shop", "carol", &[], 2),
        ("shop", "carol", &["banned"], 1),
        ("other", "alice", &["staff"], 0),
        ("other", "alice", &["other"], 3),
        ("shop", "alice", &["shop"], 3),
        ("shop", "alice", &[], 0),
        ("shop", "+staff", &[], 5),
    ] {
        let found = member(&rules, &connection(database, user), roles);
        assert_eq!(line(found), expected, "{database} {user} {roles:?}");
    }
}

/// Only what can decide is asked for: a line that surely matches, or surely does not, needs no answer.
#[test]
fn only_roles_that_can_decide_are_asked_for() {
    let (rules, _) = read(
        "host all +tcp all trust\n\
         local other +others trust\n\
         local mine alice md5\n\
         local all bob,+staff,+admins reject\n\
         local samerole /^a trust\n\
         local samerole all trust\n\
         local all all scram-sha-256\n\
         local all +late trust\n",
    );
    assert!(!rules.problems_without_roles().is_empty());
    let roles = |database, user| match unknown(&rules, &connection(database, user)) {
        Found::Depends(roles) => roles,
        found => panic!("{found:?}"),
    };
    assert_eq!(line(unknown(&rules, &connection("mine", "alice"))), 3);
    assert_eq!(line(unknown(&rules, &connection("mine", "bob"))), 4);
    assert_eq!(roles("mine", "carol"), ["admins", "mine", "staff"]);
    assert_eq!(roles("other", "alice"), ["admins", "other", "others", "staff"]);
    assert_eq!(roles("other", "bob"), ["others"], "a line behind bob's does not count");
}

/// As in PostgreSQL, a connection for physical replication has no database that a role could be named after.
#[test]
fn physical_replication_asks_for_its_own_lines_only() {
    let (rules, _) = read("local samerole all trust\nlocal all +a trust\nlocal replication +b md5\n");
    let connection = Connection {
        is_physical_replication: true,
        ..connection("shop", "alice")
    };
    assert_eq!(unknown(&rules, &connection), Found::Depends(vec!["b"]));
    assert_eq!(line(member(&rules, &connection, &["a", "b", "shop"])), 3);
}

#[test]
fn a_plus_in_the_column_of_databases_is_a_part_of_the_name() {
    let (rules, problems) = read("local +staff all trust\nlocal \"+staff\" all reject\n");
    let found: Vec<_> = problems.iter().map(|p| (p.place.line, p.level)).collect();
    assert_eq!(found, [(1, Level::Warning)], "{problems:?}");
    assert_eq!(line(unknown(&rules, &connection("+staff", "alice"))), 1);
    assert_eq!(line(unknown(&rules, &connection("shop", "alice"))), 0);
}

/// If nobody can be asked, a line for a role matches no client; its author gets a warning.
#[test]
fn without_an_answer_lines_of_roles_match_nobody() {
    for (text, expected) in [
        (
            "local all +staff trust\nlocal samerole all trust\nlocal all \"+staff\" md5\n",
            &[(1, Level::Warning), (2, Level::Warning)][..],
        ),
        ("local all all trust\nlocal all +staff reject\n", &[(2, Level::Error)]),
        ("local all all trust\nlocal samerole all reject\n", &[(2, Level::Error)]),
    ] {
        let (rules, _) = read(text);
        let problems = rules.problems_without_roles();
        let found: Vec<_> = problems.iter().map(|p| (p.place.line, p.level)).collect();
        assert_eq!(found, expected, "{problems:?}");
        assert_eq!(rules.are_safe_without_roles(), expected[0].1 == Level::Warning);
    }
}

/// Members of the role would enter by the later line, and prove less than their own line demands.
#[test]
fn without_an_answer_a_line_for_a_role_is_not_passed_by_a_weaker_one() {
    for (text, is_good) in [
        ("host all +dba all scram-sha-256\nhost all all all trust\n", false),
        ("host samerole all all scram-sha-256\nhost all all all trust\n", false),
        (
            "host all +dba,eve all scram-sha-256\nlocal all all peer\nhostssl all all all trust\n",
            false,
        ),
        ("hostssl all +dba all cert\nhostssl all all all scram-sha-256\n", false),
        (
            "hostssl all +dba all md5 clientcert=verify-ca\nhostssl all all all md5\n",
            false,
        ),
        ("host all +dba all scram-sha-256\nhost all all all md5\n", true),
        (
            "host all +dba all scram-sha-256\nhost all all all reject\nlocal all all trust\n",
            true,
        ),
        ("hostssl all +dba all cert\nhostnossl all all all trust\n", true),
        ("host all +dba all trust\nhost all all all scram-sha-256\n", true),
    ] {
        let (rules, _) = read(text);
        assert_eq!(rules.are_safe_without_roles(), is_good, "{text}");
        let shown: Vec<String> = rules.problems_without_roles().iter().map(ToString::to_string).collect();
        let told = |p: &String| p.starts_with("hba:1: ") && p.contains("cannot be used in front of hba:");
        assert_eq!(shown.iter().any(told), !is_good, "{shown:?}");
    }
}

/// Databases whose clients are refused at a line for a role, if nobody can be asked about them.
#[test]
fn the_first_line_that_needs_an_answer_for_a_database() {
    for (text, expected) in [
        ("local all +a trust\n", Some(1)),
        ("local shop all trust\nlocal all +a trust\n", None),
        ("local mall all trust\nlocal all +a trust\n", Some(2)),
        ("local mall +a trust\nlocal samerole all trust\n", Some(2)),
        ("local mall,replication +a trust\nlocal all all trust\n", None),
        ("local shop +a trust\nlocal shop all trust\n", Some(1)),
    ] {
        let (rules, _) = read(text);
        assert_eq!(
            rules.first_for_roles("shop").map(|rule| rule.place.line),
            expected,
            "{text}"
        );
    }
    let (rules, _) = read("local all all trust\n");
    assert!(rules.problems_without_roles().is_empty() && rules.are_safe_without_roles());
    assert!(matches!(unknown(&rules, &connection("a", "a")), Found::Rule(rule) if rule.method == Method::Trust));
}
