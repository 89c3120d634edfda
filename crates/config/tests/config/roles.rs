//! Lines of an HBA file for the members of roles, and who can be asked about them.

use crate::support::{assert_one, lines, load_files};
use pgweir_config::{Loaded, Problem};

const REJECTS: &str = "local all +banned reject\nlocal all all trust\n";

fn with(databases: &str, settings: &str, hba: &str) -> Result<Loaded, Vec<Problem>> {
    let ini = format!(
        "[databases]\napp = host=h\n{databases}\n[pgbouncer]\nauth_file = users.txt\nauth_type = hba\nauth_hba_file = hba.conf\n{settings}\n"
    );
    load_files(&[("pgbouncer.ini", &ini), ("users.txt", "\"a\" \"x\""), ("hba.conf", hba)])
}

fn warnings(databases: &str, settings: &str, hba: &str) -> Vec<String> {
    lines(&with(databases, settings, hba).unwrap().warnings)
}

#[test]
fn without_auth_user_lines_that_need_an_answer_are_errors() {
    let problems = lines(&with("", "", REJECTS).unwrap_err());
    assert_eq!(problems.len(), 2, "{problems:?}");
    for (problem, what) in problems
        .iter()
        .zip(["in a line that rejects", "in front of hba.conf:2"])
    {
        let told = format!("hba.conf:1: error: \"+banned\" cannot be used {what}");
        assert!(problem.starts_with(&told), "{problem}");
    }
    let found = warnings("", "", "local all +dba md5\nlocal all all md5\n");
    assert_one(&found, &["hba.conf:1: warning: \"+dba\" matches nobody"]);
}

#[test]
fn with_auth_user_they_pass() {
    let both = "auth_user = a\nauth_dbname = app";
    assert_eq!(warnings("", both, REJECTS), [""; 0]);
    let console_first = format!("local pgbouncer all trust\n{REJECTS}");
    assert_eq!(warnings("", "auth_user = a", &console_first), [""; 0]);
    assert_eq!(warnings("", both, "local all all trust\n"), [""; 0]);
}

/// Their clients are refused, so the operator hears of it first.
#[test]
fn databases_that_nobody_can_be_asked_about_are_named() {
    let told = |database: &str| {
        format!(
            "hba.conf:1: warning: this line refuses clients of database \"{database}\": it needs to know who is in a role (\"+banned\")"
        )
    };
    let found = warnings("", "auth_user = a", REJECTS);
    assert_one(&found, &[told("pgbouncer").as_str()]);
    let found = warnings("shop = host=h auth_user=a\n* = host=h", "", REJECTS);
    assert_eq!(found.len(), 3, "{found:?}");
    for (found, database) in found.iter().zip(["*", "app", "pgbouncer"]) {
        assert!(found.starts_with(&told(database)), "{found}");
    }
    let found = warnings(
        "shop = host=h auth_user=a",
        "",
        "local pgbouncer,app all trust\nlocal all +banned reject\n",
    );
    assert_eq!(found, [""; 0]);
}
