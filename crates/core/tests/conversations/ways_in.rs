//! Logins by `auth_hba_file`, LDAP and PAM: who is let in, who is not, and what others are asked meanwhile.

use crate::rig::{Rig, configuration_with_files, fatal};
use pgweir_core::{Accepted, Address, ClientId, LogLevel, ReloadOutcome, Verification, Verified};
use std::sync::Arc;
use std::time::Duration;

const USERS: &str = "\"alice\" \"secret\"\n\"bob\" \"secret\"\n";

fn hba(rules: &str, ident: &str) -> Rig {
    let files = [("hba", rules), ("ident", ident), ("users.txt", USERS)];
    Rig::with_files(SETTINGS, &files)
}

const SETTINGS: &str = "auth_type = hba\nauth_hba_file = hba\nauth_ident_file = ident\nauth_file = users.txt";

fn tcp(rig: &mut Rig, user: &str, address: [u8; 4]) -> ClientId {
    let peer = Address::Tcp((address, 5000).into());
    let accepted = Accepted {
        peer,
        local: peer,
        peer_uid: None,
    };
    rig.client_begins_at(accepted, &[("user", user), ("database", "db")])
}

fn local(rig: &mut Rig, user: &str) -> ClientId {
    let peer = Address::Unix { port: 6432, pid: None };
    let accepted = Accepted {
        peer,
        local: peer,
        peer_uid: Some(1000),
    };
    rig.client_begins_at(accepted, &[("user", user), ("database", "db")])
}

fn gets_in(rig: &mut Rig, id: ClientId) -> bool {
    rig.servers_log_in();
    rig.told(id).last().is_some_and(|line| line == "ReadyForQuery I")
}

/// The driver reports this system user for the client's process.
fn is_system_user(rig: &mut Rig, id: ClientId, name: Option<&str>) {
    let (asked, question) = rig.questions.pop_front().expect("a question");
    assert_eq!((asked, question), (id, Verification::SystemUser { uid: 1000 }));
    rig.verified(id, Verified::SystemUser(name.map(str::to_owned)));
}

fn logged(rig: &Rig, text: &str) -> bool {
    rig.log
        .iter()
        .any(|(level, line)| *level <= LogLevel::Log && line.contains(text))
}

#[test]
fn the_first_rule_that_fits_decides() {
    let mut rig = hba("host db bob 10.0.0.0/8 reject\nhost db all 10.0.0.0/8 trust\n", "");
    let alice = tcp(&mut rig, "alice", [10, 1, 1, 1]);
    assert!(gets_in(&mut rig, alice));
    let bob = tcp(&mut rig, "bob", [10, 1, 1, 1]);
    assert_eq!(rig.told(bob), ["Error 28000 login rejected"]);
    assert!(
        logged(&rig, "db/bob@10.1.1.1:5000 login failed: rejected by hba:1"),
        "{:?}",
        rig.log
    );
    let stranger = tcp(&mut rig, "alice", [11, 1, 1, 1]);
    assert_eq!(rig.told(stranger), ["Error 28000 no authentication method is found"]);
    assert!(logged(
        &rig,
        "login failed: no rule of auth_hba_file matches host \"11.1.1.1\", user \"alice\""
    ));
    // A rule alone does not let a user in who does not exist.
    let nobody = tcp(&mut rig, "nobody", [10, 1, 1, 1]);
    assert_eq!(rig.told(nobody), ["Error 28P01 \"trust\" authentication failed"]);
    assert!(logged(&rig, "db/nobody@10.1.1.1:5000 login failed: no such user"));
}

/// The answer must not reveal who may log in: a user who does not exist is asked like one who does.
#[test]
fn methods_of_rules_ask_known_and_unknown_users_alike() {
    for method in [
        "password",
        "md5",
        "scram-sha-256",
        "ldap ldapserver=a ldapprefix=b",
        "pam",
    ] {
        let mut rig = hba(&format!("host all all all {method}\n"), "");
        let [known, unknown] = ["alice", "mallory"].map(|user| {
            let id = tcp(&mut rig, user, [127, 0, 0, 1]);
            rig.hears(id)
                .iter()
                .map(|(tag, body)| (*tag, body.len()))
                .collect::<Vec<_>>()
        });
        assert_eq!(known, unknown, "{method}");
        assert_eq!(known.len(), 1);
    }
}

#[test]
fn a_unix_socket_tells_who_the_client_is() {
    let mut rig = hba("local all all peer map=m\n", "m root alice\nm /^(.*)-x$ \\1\n");
    for (system_user, user, fits) in [
        (Some("root"), "alice", true),
        (Some("bob-x"), "bob", true),
        (Some("alice"), "alice", false),
        (Some("root"), "bob", false),
        (Some("mallory-x"), "mallory", false),
        (None, "alice", false),
    ] {
        let id = local(&mut rig, user);
        assert_eq!(rig.told(id), [""; 0], "nothing is said before it is known");
        is_system_user(&mut rig, id, system_user);
        if fits {
            assert!(gets_in(&mut rig, id), "{system_user:?} as {user}");
        } else {
            assert_eq!(
                rig.told(id),
                ["Error 28P01 unix socket login rejected"],
                "{system_user:?} as {user}"
            );
        }
    }
    assert!(logged(&rig, "system user \"root\" may not log in as \"bob\""));
}

#[test]
fn whoever_talks_before_its_system_user_is_known_is_not_heard() {
    let mut rig = hba("local all all peer\n", "");
    let id = local(&mut rig, "alice");
    assert!(!rig.pooler.may_read(id.into()));
    is_system_user(&mut rig, id, Some("mallory"));
    assert_eq!(rig.told(id), ["Error 28P01 unix socket login rejected"]);
}

#[test]
fn a_certificate_is_wanted_where_there_is_none() {
    let rules = "hostssl all all all cert\nhost all all all trust\n";
    let mut rig = hba(rules, "");
    let id = tcp(&mut rig, "alice", [127, 0, 0, 1]);
    assert!(
        gets_in(&mut rig, id),
        "the rule for TLS does not fit a plain connection"
    );
    let mut rig = hba("hostssl all all all trust clientcert=verify-ca\n", "");
    let id = tcp(&mut rig, "alice", [127, 0, 0, 1]);
    assert_eq!(rig.told(id), ["Error 28000 no authentication method is found"]);
}

/// The client sends a password, which PAM or a directory will check.
fn sends_password(rig: &mut Rig, id: ClientId, password: &str) {
    rig.told(id);
    rig.comes(id, &pgweir_message(password));
}

fn pgweir_message(password: &str) -> Vec<u8> {
    let length = u32::try_from(password.len() + 5).unwrap();
    [b"p".as_slice(), &length.to_be_bytes(), password.as_bytes(), b"\0"].concat()
}

fn pam() -> Rig {
    Rig::with_files("auth_type = pam", &[])
}

#[test]
fn others_judge_the_password_and_the_user_need_not_be_known() {
    let mut rig = pam();
    let id = tcp(&mut rig, "carol", [127, 0, 0, 1]);
    sends_password(&mut rig, id, "sesame");
    let (asked, question) = rig.questions.pop_front().unwrap();
    assert_eq!(asked, id);
    let Verification::Pam {
        service, user, peer, ..
    } = question
    else {
        panic!("{question:?}")
    };
    assert_eq!(
        (&*service, &*user, peer.host().as_str()),
        ("pgbouncer", "carol", "127.0.0.1")
    );
    assert!(!rig.pooler.may_read(id.into()), "nothing is read while it is judged");
    rig.verified(id, Verified::Right);
    assert!(gets_in(&mut rig, id));
    let other = tcp(&mut rig, "carol", [127, 0, 0, 1]);
    sends_password(&mut rig, other, "wrong");
    rig.verified(other, Verified::Wrong("the modules say no".into()));
    assert_eq!(rig.told(other), ["Error 28P01 PAM authentication failed"]);
    assert!(logged(&rig, "db/carol@127.0.0.1:5000 login failed: the modules say no"));
}

#[test]
fn an_empty_password_reaches_nobody() {
    let mut rig = Rig::with_files("auth_type = ldap\nauth_ldap_options = ldapserver=a ldapprefix=b", &[]);
    let id = tcp(&mut rig, "carol", [127, 0, 0, 1]);
    sends_password(&mut rig, id, "");
    assert_eq!(rig.told(id), ["Error 28P01 empty password returned by client"]);
    assert!(rig.questions.is_empty());
    assert!(logged(&rig, "login failed: empty password returned by client"));
}

/// Answers about clients that are gone, or that were not asked for, change nothing.
#[test]
fn an_answer_too_late_or_too_many() {
    let mut rig = pam();
    let gone = tcp(&mut rig, "carol", [127, 0, 0, 1]);
    sends_password(&mut rig, gone, "sesame");
    rig.pooler.handle_client_closed(rig.now, gone);
    rig.settle(&[]);
    rig.verified(gone, Verified::Right);
    let early = tcp(&mut rig, "carol", [127, 0, 0, 1]);
    rig.verified(early, Verified::Right);
    rig.verified(early, Verified::SystemUser(Some("carol".into())));
    assert!(!gets_in(&mut rig, early));
    sends_password(&mut rig, early, "sesame");
    rig.verified(early, Verified::SystemUser(Some("carol".into())));
    assert!(!gets_in(&mut rig, early));
    rig.verified(early, Verified::Right);
    assert!(gets_in(&mut rig, early));
}

#[test]
fn whoever_is_judged_for_too_long_is_closed() {
    let mut rig = Rig::with_files("auth_type = pam\nclient_login_timeout = 5", &[]);
    let id = tcp(&mut rig, "carol", [127, 0, 0, 1]);
    sends_password(&mut rig, id, "sesame");
    rig.wait(Duration::from_secs(6));
    assert!(rig.told(id).iter().any(|line| line.contains("client_login_timeout")));
    rig.verified(id, Verified::Right);
    assert!(rig.closed.contains(&id.into()));
}

/// The log says that auth_query cannot run; the client gets the error for a user who does not exist.
#[test]
fn auth_dbname_must_be_a_database_that_can_be_used() {
    for (name, words) in [
        (
            "pgbouncer",
            "cannot use the reserved \"pgbouncer\" database as an auth_dbname",
        ),
        ("none", "authentication database \"none\" is not configured."),
    ] {
        let line = format!("[databases]\ndb = host=127.0.0.1 auth_dbname={name}");
        let settings = format!("auth_type = trust\nauth_user = looker\n{line}");
        let mut rig = Rig::with_files(&settings, &[]);
        let id = tcp(&mut rig, "alice", [127, 0, 0, 1]);
        assert_eq!(rig.told(id), ["Error 28P01 \"trust\" authentication failed"]);
        let is_error = |(level, line): &(LogLevel, String)| *level == LogLevel::Error && line.contains(words);
        assert!(rig.log.iter().any(is_error), "{:?}", rig.log);
        assert!(rig.connects.is_empty());
    }
}

#[test]
fn auth_dbname_must_not_be_disabled() {
    let settings = "auth_type = trust\nauth_user = looker\nauth_dbname = lookups\nadmin_users = boss\n\
                    auth_file = users.txt\n[databases]\nlookups = host=127.0.0.1";
    let mut rig = Rig::with_files(settings, &[("users.txt", "\"boss\" \"\"\n")]);
    let boss = rig.console();
    rig.query(boss, "DISABLE lookups");
    let id = tcp(&mut rig, "alice", [127, 0, 0, 1]);
    assert_eq!(rig.told(id), ["Error 28P01 \"trust\" authentication failed"]);
    let words = "authentication database \"lookups\" is disabled";
    assert!(logged(&rig, words), "{:?}", rig.log);
    assert!(rig.connects.is_empty(), "auth_query does not run there");
    rig.query(boss, "ENABLE lookups");
    tcp(&mut rig, "alice", [127, 0, 0, 1]);
    assert_eq!(rig.connects.len(), 1, "now it does");
}

/// The rules of a RELOAD count from then on; without a usable file no client is let in.
#[test]
fn a_reload_brings_other_rules() {
    let mut rig = hba("host all all all trust\n", "");
    let files = [
        ("hba", "host all all all reject\n"),
        ("ident", ""),
        ("users.txt", USERS),
    ];
    let config = configuration_with_files(SETTINGS, &files);
    rig.pooler
        .handle_reload(rig.now, None, ReloadOutcome::New(Arc::new(config), Vec::new()));
    rig.settle(&[]);
    assert!(logged(&rig, "RELOAD: changed rules for logins"), "{:?}", rig.log);
    let id = tcp(&mut rig, "alice", [127, 0, 0, 1]);
    assert_eq!(rig.told(id), ["Error 28000 login rejected"]);
}

/// PostgreSQL answers that a server's database does not exist.
fn has_no_such_database(rig: &mut Rig, server: pgweir_core::ServerId) {
    rig.server_connects(server);
    rig.says(server, |w| w.error(&fatal("3D000", "database does not exist")));
    rig.server_dies(server);
}

/// Guards against refusing everybody after 32 such names, which also told who is in auth_file.
#[test]
fn invented_names_of_databases_lock_nobody_out() {
    let settings = "auth_type = scram-sha-256\nauth_user = looker\nmax_client_conn = 1000";
    let mut rig = Rig::with("* = host=127.0.0.1", settings);
    let invented: Vec<ClientId> = (0..100)
        .map(|n| rig.client_begins(&[("user", "mallory"), ("database", &format!("invented{n}"))]))
        .collect();
    assert_eq!(rig.connects.len(), 32, "servers are opened for so many names at a time");
    let bob = rig.client_begins(&[("user", "bob"), ("database", "real")]);
    let mut asked = None;
    let mut answered = 0;
    while asked.is_none() {
        let server = rig
            .connects
            .pop_front()
            .expect("each answer makes room for another name");
        assert!(rig.connects.len() < 32);
        // The last name is the one that exists.
        if answered == invented.len() {
            rig.server_logs_in(server);
            asked = Some(server);
        } else {
            has_no_such_database(&mut rig, server);
            answered += 1;
        }
    }
    assert!(
        rig.told(asked.unwrap()).iter().any(|line| line.starts_with("Bind")),
        "auth_query runs"
    );
    assert!(rig.told(bob).is_empty());
    let heard: Vec<Vec<String>> = invented.iter().map(|id| rig.told(*id)).collect();
    assert!(
        heard[0][0].starts_with("Authentication") && heard.iter().all(|h| *h == heard[0]),
        "{heard:?}"
    );
}

/// What is known to be absent is not asked for again, up to a number of names.
#[test]
fn absent_databases_are_remembered_for_a_while() {
    let settings = "auth_type = scram-sha-256\nauth_user = looker\nmax_client_conn = 10000";
    let mut rig = Rig::with("* = host=127.0.0.1", settings);
    let asks = |rig: &mut Rig, n: usize| {
        let id = rig.client_begins(&[("user", "mallory"), ("database", &format!("invented{n}"))]);
        let server = rig.connects.pop_front();
        if let Some(server) = server {
            has_no_such_database(rig, server);
        }
        assert!(rig.told(id)[0].starts_with("Authentication"));
        rig.client_leaves(id);
        server.is_some()
    };
    assert!(asks(&mut rig, 0) && !asks(&mut rig, 0));
    rig.wait(Duration::from_millis(1));
    for n in 1..1025 {
        assert!(asks(&mut rig, n), "{n}");
    }
    rig.wait(Duration::from_secs(1));
    assert!(!asks(&mut rig, 1024), "the newest");
    assert!(asks(&mut rig, 0), "the oldest was forgotten");
}

/// The salts of users who do not exist are as stable as those of users who do: over a restart, and for processes that
/// serve one address.
#[test]
fn every_process_has_the_same_salts_for_users_who_do_not_exist() {
    const SCRAM: &str = "SCRAM-SHA-256$4096:c2FsdHNhbHRzYWx0c2FsdA==$\
                         AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=";
    let salt = |users: &str, seed: u8| {
        let files = [("users.txt", users)];
        let mut rig = Rig::with_files("auth_type = scram-sha-256\nauth_file = users.txt", &files);
        let config = configuration_with_files("auth_type = scram-sha-256\nauth_file = users.txt", &files);
        let surroundings = pgweir_core::Surroundings {
            seed: [seed; 32],
            wall: pgweir_core::WallClock { unix_us: 0 },
            own_uid: 0,
            host_name: "here".into(),
            open_files_max: 1000,
        };
        rig.pooler = pgweir_core::Pooler::new(Arc::new(config), surroundings, pgweir_core::Time(0));
        let id = tcp(&mut rig, "nobody", [127, 0, 0, 1]);
        rig.says(id, |w| {
            w.message(b'p', |to| {
                let first = b"n,,n=,r=0123456789abcdefghijklmn";
                to.extend(b"SCRAM-SHA-256\0");
                to.extend((first.len() as u32).to_be_bytes());
                to.extend(first);
            })
        });
        let heard = rig.hears(id);
        let told = String::from_utf8_lossy(&heard.last().unwrap().1).into_owned();
        told.split(',')
            .find(|part| part.starts_with("s="))
            .expect("a salt")
            .to_string()
    };
    let verifier = format!("\"alice\" \"{SCRAM}\"\n\"bob\" \"secret\"\n");
    assert_eq!(salt(&verifier, 1), salt(&verifier, 2));
    let other = verifier.replace("c2Fsd", "d2Fsd");
    assert_ne!(salt(&verifier, 1), salt(&other, 1));
    // From a salt that was made of a password, the password could be found out by trial.
    assert_ne!(salt("\"bob\" \"secret\"\n", 1), salt("\"bob\" \"secret\"\n", 2));
}
