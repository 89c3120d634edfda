//! The example files load, are complete, and show the right defaults.

use std::io;

use pgweir_config::{CATALOGUE, Secret, load};

const INI: &str = include_str!("../../../../examples/pgweir.ini");
const USERS: &str = include_str!("../../../../examples/userlist.txt");

fn files(name: &str) -> io::Result<Vec<u8>> {
    match name {
        "pgweir.ini" => Ok(INI.into()),
        "/etc/pgweir/userlist.txt" => Ok(USERS.into()),
        _ => Err(io::ErrorKind::NotFound.into()),
    }
}

#[test]
fn the_example_loads_without_a_word() {
    let loaded = load("pgweir.ini", &files).unwrap();
    assert_eq!(loaded.warnings, []);
    assert!(loaded.config.database("app").is_some());
    assert!(matches!(loaded.config.auth_users["app"], Secret::Scram(_)));
    assert_eq!(loaded.config.auth_users["monitor"].text(), "change \"me\" too");
}

#[test]
fn the_example_names_every_setting_and_the_right_default() {
    for setting in CATALOGUE {
        let line = |prefix: &str| {
            let start = format!("{prefix}{} =", setting.name);
            INI.lines()
                .find(|line| line.starts_with(&start))
                .map(|line| line[start.len()..].trim())
        };
        match (line(""), line(";")) {
            (Some(_), None) => {}
            (None, Some(text)) => assert_eq!(text, setting.default.unwrap_or(""), "{}", setting.name),
            both => panic!("{}: {both:?}", setting.name),
        }
    }
}

#[test]
fn what_the_example_has_commented_out_is_right_too() {
    // Lines of sections such as `;reports = host=...` and settings, but not prose and not the include.
    let uncommented: String = INI
        .lines()
        .map(|line| match line.strip_prefix(';') {
            Some(rest) if rest.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '*') => format!("{rest}\n"),
            _ => format!("{line}\n"),
        })
        .collect();
    let result = load("x", &move |name: &str| {
        if name == "x" {
            Ok(uncommented.clone().into_bytes())
        } else {
            files(name)
        }
    });
    let config = result.unwrap().config;
    assert!(
        ["reports", "shop", "readonly"]
            .iter()
            .all(|name| config.databases.contains_key(*name))
    );
    assert_eq!(
        (config.autodb.is_some(), config.users.len(), config.peers.len()),
        (true, 1, 2)
    );
}

#[test]
fn the_example_of_an_hba_file_can_be_used() {
    let text = include_str!("../../../../examples/hba.conf");
    let (rules, problems) = pgweir_config::hba::Rules::read("hba.conf", &|_: &str| Ok(text.into()));
    assert_eq!((rules.map(|rules| rules.iter().count()), problems), (Some(6), vec![]));
}
