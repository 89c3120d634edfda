//! Whole files, and which of their lines decide.

use pgweir_hba::{ClientCert, Connection, Found, IdentMaps, Interface, Level, Machine, Method, Origin, Rules};
use proptest::prelude::*;
use std::collections::HashMap;
use std::io;

fn files(named: &[(&str, &str)]) -> impl Fn(&str) -> io::Result<Vec<u8>> + use<> {
    let named: HashMap<String, Vec<u8>> = named
        .iter()
        .map(|(n, t)| (n.to_string(), t.as_bytes().to_vec()))
        .collect();
    move |name: &str| {
        named
            .get(name)
            .cloned()
            .ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))
    }
}

fn rules(text: &str) -> Rules {
    let (rules, problems) = Rules::read("hba", &files(&[("hba", text)]));
    rules.unwrap_or_else(|| panic!("{problems:?}"))
}

fn tcp(peer: &str) -> Origin {
    Origin::Tcp {
        peer: peer.parse().unwrap(),
        is_tls: false,
    }
}

fn tls(peer: &str) -> Origin {
    Origin::Tcp {
        peer: peer.parse().unwrap(),
        is_tls: true,
    }
}

fn method(rules: &Rules, origin: Origin, database: &str, user: &str) -> Option<Method> {
    let connection = Connection {
        origin,
        database,
        user,
        is_physical_replication: false,
    };
    decided(rules, &connection, &Machine::default())
}

/// The method of the rule that decides about a member of no role.
fn decided(rules: &Rules, connection: &Connection<'_>, machine: &Machine) -> Option<Method> {
    match rules.find(connection, machine, &|_| Some(false)) {
        Found::Rule(rule) => Some(rule.method.clone()),
        Found::Nothing => None,
        Found::Depends(roles) => panic!("{roles:?} are known"),
    }
}

#[test]
fn the_first_line_that_fits_decides() {
    let rules = rules(
        "local   all all                  peer\n\
         host    shop alice 10.0.0.0/8    reject\n\
         hostssl all all    0.0.0.0/0     scram-sha-256\n\
         hostnossl all all  127.0.0.1/32  md5\n\
         host    all all    ::1 ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff password\n",
    );
    let method = |origin, database, user| method(&rules, origin, database, user);
    assert_eq!(method(Origin::UnixSocket, "x", "y"), Some(Method::Peer { map: None }));
    assert_eq!(method(tls("10.1.1.1"), "shop", "alice"), Some(Method::Reject));
    assert_eq!(method(tls("10.1.1.1"), "shop", "bob"), Some(Method::ScramSha256));
    assert_eq!(method(tcp("10.1.1.1"), "shop", "bob"), None);
    assert_eq!(method(tcp("127.0.0.1"), "shop", "bob"), Some(Method::Md5));
    assert_eq!(method(tcp("::1"), "shop", "bob"), Some(Method::Password));
    assert_eq!(method(tls("::2"), "shop", "bob"), None);
}

#[test]
fn words_of_the_name_columns() {
    let rules = rules(
        "local sameuser all trust\n\
         local \"all\" \"sameuser\" reject\n\
         local \"/^prod_[0-9]{1,2}$\" /^app md5\n\
         local a,b , c \"two words\" scram-sha-256\n\
         local replication all password\n",
    );
    let method = |database, user| method(&rules, Origin::UnixSocket, database, user);
    assert_eq!(method("alice", "alice"), Some(Method::Trust));
    assert_eq!(method("all", "sameuser"), Some(Method::Reject));
    assert_eq!(method("anything", "sameuser"), None);
    assert_eq!(method("prod_12", "app_1"), Some(Method::Md5));
    assert_eq!(method("prod_123", "app_1"), None);
    assert_eq!(method("c", "two words"), Some(Method::ScramSha256));
    assert_eq!(method("replication", "x"), None, "a database of this name is not meant");
}

#[test]
fn physical_replication_matches_its_keyword_alone() {
    let rules = rules("local all all trust\nlocal sameuser,/.* all md5\nlocal replication all reject\n");
    let connection = Connection {
        origin: Origin::UnixSocket,
        database: "a",
        user: "a",
        is_physical_replication: true,
    };
    let found = decided(&rules, &connection, &Machine::default());
    assert_eq!(found, Some(Method::Reject));
}

/// As in PostgreSQL. In PgBouncer such a line matches nobody, not even to reject.
#[test]
fn bits_outside_a_mask_do_not_count() {
    for network in ["10.1.2.3/8", "10.1.2.3 255.0.0.0"] {
        let text = format!("host all alice {network} reject\nhost all all {network} trust\n");
        let (rules, problems) = Rules::read("hba", &files(&[("hba", &text)]));
        let rules = rules.unwrap();
        assert_eq!(method(&rules, tcp("10.9.9.9"), "shop", "alice"), Some(Method::Reject));
        assert_eq!(method(&rules, tcp("10.9.9.9"), "shop", "bob"), Some(Method::Trust));
        assert_eq!(method(&rules, tcp("11.1.2.3"), "shop", "bob"), None);
        let expected = "address does not match mask: 10.1.2.3 / 255.0.0.0 stands for all addresses of 10.0.0.0";
        let shown: Vec<String> = problems.iter().map(ToString::to_string).collect();
        assert!(
            shown.len() == 2 && shown.iter().all(|p| p.contains(expected)),
            "{shown:?}"
        );
        assert!(problems.iter().all(|problem| problem.level == Level::Warning));
    }
}

#[test]
fn no_connection_is_encrypted_by_gssapi() {
    let text = "hostgssenc all all all trust\nhostgssenc all all 10.0.0.0 255.0.0.0 gss include_realm=0\nhostnogssenc all bob all md5\n";
    let (rules, problems) = Rules::read("hba", &files(&[("hba", text)]));
    let rules = rules.unwrap();
    assert_eq!(method(&rules, tcp("10.9.9.9"), "shop", "alice"), None);
    for origin in [tcp("10.9.9.9"), tls("10.9.9.9")] {
        assert_eq!(method(&rules, origin, "shop", "bob"), Some(Method::Md5));
    }
    assert_eq!(method(&rules, Origin::UnixSocket, "shop", "bob"), None);
    let shown: Vec<String> = problems.iter().map(ToString::to_string).collect();
    assert!(
        shown.len() == 2 && shown[0].starts_with("hba:1: this line matches no connection"),
        "{shown:?}"
    );
    let (none, problems) = Rules::read("hba", &files(&[("hba", "hostgssenc all all all trust\n")]));
    assert!(none.is_none() && problems.iter().any(|p| p.message.contains("contains no entries")));
}

#[test]
fn samehost_and_samenet_ask_the_machine() {
    let rules = rules("host all all samehost trust\nhost all all samenet md5\n");
    assert!(rules.ask_for_machine());
    let interface = Interface {
        address: "192.0.2.7".parse().unwrap(),
        mask: "255.255.255.0".parse().unwrap(),
    };
    let machine = Machine {
        interfaces: vec![interface],
    };
    let method = |peer| {
        let connection = Connection {
            origin: tcp(peer),
            database: "a",
            user: "a",
            is_physical_replication: false,
        };
        decided(&rules, &connection, &machine)
    };
    assert_eq!(method("192.0.2.7"), Some(Method::Trust));
    assert_eq!(method("192.0.2.9"), Some(Method::Md5));
    assert_eq!(method("192.0.3.9"), None);
}

#[test]
fn files_include_others_relative_to_their_folder() {
    let files = files(&[
        (
            "/etc/p/hba",
            "include more\ninclude_if_exists none\nlocal @dbs \"@x\",@/lists/users md5\n",
        ),
        ("/etc/p/more", "local first all trust\n"),
        ("/etc/p/dbs", "a b # comment\n@sub/more\n"),
        ("/etc/p/sub/more", "\"c d\",all\n"),
        ("/lists/users", "u\n"),
    ]);
    let (rules, problems) = Rules::read("/etc/p/hba", &files);
    let rules = rules.unwrap_or_else(|| panic!("{problems:?}"));
    let method = |database, user| method(&rules, Origin::UnixSocket, database, user);
    assert_eq!(method("first", "z"), Some(Method::Trust));
    for (database, user, fits) in [
        ("b", "u", true),
        ("c d", "u", true),
        ("zzz", "u", true),
        ("a", "@x", true),
        ("a", "v", false),
    ] {
        assert_eq!(method(database, user).is_some(), fits, "{database} {user}");
    }
}

#[test]
fn endless_includes_and_missing_files_are_refused() {
    for text in [
        "include hba\n",
        "local @hba all trust\n",
        "include none\n",
        "local @none all trust\n",
        "include a b\n",
    ] {
        let (rules, problems) = Rules::read("hba", &files(&[("hba", text)]));
        assert!(rules.is_none() && !problems.is_empty(), "{text}");
    }
    let bomb = "include x\n".repeat(50);
    let (rules, _) = Rules::read("hba", &files(&[("hba", &bomb), ("x", &bomb)]));
    assert!(rules.is_none());
}

#[test]
fn a_bad_line_refuses_the_file_and_names_its_place() {
    for (line, expected) in [
        (
            "hots all all all trust",
            "expected local, host, hostssl, hostnossl, hostgssenc or hostnogssenc, got \"hots\"",
        ),
        ("hostgssenc all all all", "expected an authentication method"),
        ("hostgssenc all all nowhere gss", "expected an IP address"),
        (
            "hostnogssenc all all all gss",
            "unsupported authentication method \"gss\"",
        ),
        ("hostnogssenc all all all cert", "only supported on hostssl"),
        ("host all all 127.1/32 trust", "expected an IP address"),
        (
            "host all all SAMEHOST trust",
            "write all, samehost and samenet in small letters",
        ),
        ("local all", "expected a user name, got the end of the line"),
        ("local all all", "expected an authentication method"),
        ("host all all trust", "got \"trust\""),
        ("host all all 127.0.0.1 trust", "invalid IP mask \"trust\""),
        ("host all all example.com trust", "expected an IP address"),
        (
            "host all all 127.0.0.0/8 gss",
            "unsupported authentication method \"gss\", expected trust",
        ),
        ("host all all 127.0.0.0/8 any", "unsupported authentication method"),
        (
            "host all all 127.0.0.0/8 peer",
            "peer authentication is only supported on local sockets",
        ),
        ("host all all 127.0.0.0/8 cert", "only supported on hostssl"),
        (
            "host all all all trust clientcert=verify-ca",
            "can only be configured for \"hostssl\"",
        ),
        ("hostssl all all all trust clientcert=1", "invalid value for clientcert"),
        (
            "hostssl all all all cert clientname=DN",
            "clientname=DN is not supported",
        ),
        (
            "local all all trust map=x",
            "unrecognized authentication option name \"map\"",
        ),
        ("local all all peer map=x map=y", "given twice"),
        ("local all all peer x", "name=value"),
        ("local all all pam pamservice=../../x", "without a slash"),
        ("local all all ldap", "requires argument \"ldapserver\""),
        ("local /( all trust", "invalid regular expression"),
        ("local all \"all trust", "closing quote"),
        ("include_dir x", "include_dir is not supported"),
    ] {
        let text = format!("# first\nlocal all all trust\n{line}\n");
        let (rules, problems) = Rules::read("hba", &files(&[("hba", &text)]));
        let shown: Vec<String> = problems.iter().map(ToString::to_string).collect();
        assert!(rules.is_none(), "{line}");
        assert!(
            shown.iter().any(|p| p.starts_with("hba:3: ") && p.contains(expected)),
            "{line}: {shown:?}"
        );
    }
}

#[test]
fn options_of_methods() {
    let rules = rules(
        "hostssl all a all cert map=m\n\
         hostssl all b all scram-sha-256 clientcert=verify-full map=n\n\
         hostssl all c all md5 clientcert=verify-ca\n\
         local all d pam pamservice=mine pam_use_hostname=0\n\
         local all e ldap ldapserver=dir ldapprefix=\"uid=\" ldapsuffix=\",ou=people\"\n",
    );
    let all: Vec<_> = rules.iter().collect();
    assert_eq!((all[0].map(), &all[0].client_cert), (Some("m"), &ClientCert::Any));
    assert_eq!(all[1].map(), Some("n"));
    assert_eq!(all[1].client_cert, ClientCert::VerifyFull { map: Some("n".into()) });
    assert_eq!(all[2].client_cert, ClientCert::VerifyCa);
    assert_eq!(
        all[3].method,
        Method::Pam {
            service: Some("mine".into())
        }
    );
    assert!(matches!(&all[4].method, Method::Ldap(options) if options.servers == [("dir".to_string(), 389)]));
}

/// Guards against a user whose name has a newline, and whom a line that rejects does not match.
#[test]
fn a_dot_is_any_character() {
    let rules = rules("host all \"/^evil.*$\" all reject\nhost all all all trust\n");
    assert_eq!(
        method(&rules, tcp("127.0.0.1"), "a", "evil\nx"),
        method(&rules, tcp("127.0.0.1"), "a", "evily")
    );
    assert_ne!(
        method(&rules, tcp("127.0.0.1"), "a", "alice"),
        method(&rules, tcp("127.0.0.1"), "a", "evily")
    );
}

proptest! {
    /// Every file is read without a panic, and the rules that were read decide about every connection.
    #[test]
    fn any_bytes_are_read(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let files = move |_: &str| Ok(bytes.clone());
        let (rules, _) = Rules::read("a", &files);
        if let Some(rules) = rules {
            let _ = method(&rules, Origin::UnixSocket, "a", "b");
        }
        let _ = IdentMaps::read("a", &files);
    }

    /// Words between quotes match themselves and nothing else.
    #[test]
    fn quoted_names_match_themselves(name in "[^\0/\n\r\"][^\0\n\r]{0,20}", other in "[a-z@+ ,#]{1,20}") {
        prop_assume!(!name.ends_with('\\'));
        let quoted = name.replace('"', "\"\"");
        let rules = rules(&format!("local \"{quoted}\" all trust\n"));
        prop_assert!(method(&rules, Origin::UnixSocket, &name, "u").is_some());
        prop_assert_eq!(method(&rules, Origin::UnixSocket, &other, "u").is_some(), name == other);
    }
}
