//! Guards against an HBA file, ident file or LDAP option that makes the reader panic or loop, against files that are
//! refused without an error or accepted with one, and against rules that match connections of another kind.
//!
//! The input is up to three files with `0xff` bytes between them: the HBA file, the ident file, a file `f` to include.
#![no_main]

use pgweir_hba::{Connection, Found, IdentMaps, LdapOptions, Level, Machine, Method, Origin, Problem, Rules};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let mut files = bytes.splitn(3, |byte| *byte == 0xff);
    let mut file = || files.next().unwrap_or_default();
    let (hba, ident, included) = (file(), file(), file());
    let files = |name: &str| -> io::Result<Vec<u8>> {
        match name {
            "hba" => Ok(hba.to_vec()),
            "ident" => Ok(ident.to_vec()),
            "f" => Ok(included.to_vec()),
            _ => Err(io::ErrorKind::NotFound.into()),
        }
    };
    let (rules, problems) = Rules::read("hba", &files);
    assert_eq!(rules.is_some(), is_good(&problems));
    if let Some(rules) = rules {
        ask(&rules);
    }
    let (maps, problems) = IdentMaps::read("ident", &files);
    assert_eq!(maps.is_some(), is_good(&problems));
    if let Some(maps) = maps {
        assert!(maps.allows(None, "a", "a") && !maps.allows(None, "a", "b"));
        assert!(!maps.allows(Some("no such map"), "a", "a"));
        maps.allows(Some("m"), "a@b", "a");
    }
    if let Ok(text) = std::str::from_utf8(hba)
        && let Ok(options) = LdapOptions::parse(text)
    {
        assert!(!options.servers.is_empty());
    }
});

fn is_good(problems: &[Problem]) -> bool {
    problems.iter().all(|problem| problem.level == Level::Warning)
}

fn ask(rules: &Rules) {
    let unix = Origin::UnixSocket;
    let v4 = |is_tls| Origin::Tcp {
        peer: IpAddr::V4(Ipv4Addr::LOCALHOST),
        is_tls,
    };
    let v6 = Origin::Tcp {
        peer: IpAddr::V6(Ipv6Addr::LOCALHOST),
        is_tls: false,
    };
    for origin in [unix, v4(false), v4(true), v6] {
        for is_physical_replication in [false, true] {
            let connection = Connection {
                origin,
                database: "shop",
                user: "alice",
                is_physical_replication,
            };
            let machine = Machine::default();
            // What is known about roles must never be asked for, and what is decided without it must stay so.
            let unknown = rules.find(&connection, &machine, &|_| None);
            for is_member in [false, true] {
                let known = rules.find(&connection, &machine, &|_| Some(is_member));
                assert!(!matches!(known, Found::Depends(_)));
                assert!(matches!(unknown, Found::Depends(_)) || known == unknown);
            }
            let Found::Rule(rule) = rules.find(&connection, &machine, &|_| Some(false)) else {
                continue;
            };
            assert!(!matches!(rule.method, Method::Peer { .. }) || origin == unix);
            assert!(!matches!(rule.method, Method::Cert { .. }) || origin == v4(true));
        }
    }
}
