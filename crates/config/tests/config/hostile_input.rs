//! No input causes a panic, and the parser can read what it prints.

use std::io;

use pgweir_config::{Severity, load};
use proptest::prelude::*;

/// Bytes that are likely to be configuration: words of the format, with noise between them.
fn almost_configuration() -> impl Strategy<Value = Vec<u8>> {
    let words = prop::sample::select(vec![
        "[pgbouncer]",
        "[databases]",
        "[users]",
        "[peers]",
        "\n",
        "\n",
        "\n",
        " ",
        "=",
        "=",
        "'",
        "''",
        "\"",
        "\"\"",
        ";",
        "#",
        "%include f\n",
        "%include ",
        "listen_port",
        "pool_mode",
        "pool_size",
        "host",
        "port",
        "dbname",
        "user",
        "password",
        "auth_type",
        "auth_file",
        "query_timeout",
        "1",
        "0",
        "-1",
        "0777",
        "0x",
        "9999999999999999999",
        "1e9",
        "1e999",
        "0.5",
        "session",
        "any",
        "*",
        "@",
        "/",
        "::1",
        ",",
        "\t",
        "\r",
        "\0",
        "\u{e9}",
        "\u{feff}",
        "md5",
        "SCRAM-SHA-256$1:a$b:c",
        "x",
    ]);
    let noise = prop::collection::vec(any::<u8>(), 0..4);
    prop::collection::vec(
        prop_oneof![9 => words.prop_map(|word| word.as_bytes().to_vec()), 1 => noise],
        0..60,
    )
    .prop_map(|parts| parts.concat())
}

/// Every file has these bytes.
fn load_bytes(bytes: &[u8]) {
    let files = |name: &str| -> io::Result<Vec<u8>> {
        if name.contains('/') {
            Err(io::ErrorKind::NotFound.into())
        } else {
            Ok(bytes.to_vec())
        }
    };
    match load("f0", &files) {
        Ok(loaded) => {
            assert!(
                loaded
                    .warnings
                    .iter()
                    .all(|problem| problem.severity == Severity::Warning)
            );
            for row in loaded.config.rows() {
                assert!(!row.key.is_empty());
            }
            for database in loaded.config.databases.values() {
                assert!(database.port > 0);
                let size = loaded.config.pool_size(database, "x");
                assert!(size.is_none_or(|size| loaded.config.min_pool_size(database, "x") <= size));
            }
        }
        Err(problems) => assert!(problems.iter().any(|problem| problem.severity == Severity::Error)),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes_are_answered(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        load_bytes(&bytes);
    }

    #[test]
    fn almost_configurations_are_answered(bytes in almost_configuration()) {
        load_bytes(&bytes);
    }

    #[test]
    fn any_bytes_are_answered_in_a_password_file(bytes in prop::collection::vec(any::<u8>(), 0..200), quoted in ".{0,20}") {
        let users = [b"\"a\" \"".as_slice(), quoted.as_bytes(), b"\"\n\"", &bytes].concat();
        let files = move |name: &str| -> io::Result<Vec<u8>> {
            Ok(if name == "u" { users.clone() } else { b"[databases]\n*=\n[pgbouncer]\nauth_file=u\n".to_vec() })
        };
        prop_assert!(load("f", &files).is_ok());
    }

    #[test]
    fn names_and_values_come_back_when_quoted(name in "[^\n\r\0]{1,20}", value in "[^\n\r\0]{1,20}") {
        prop_assume!(name != "pgbouncer" && name != "*");
        let text = format!(
            "[pgbouncer]\nauth_file=u\n[databases]\n\"{}\" = dbname='{}'\n", name.replace('"', "\"\""), value.replace('\'', "''"),
        );
        let config = load("f", &move |_: &str| Ok(text.clone().into_bytes())).unwrap().config;
        let database = config.database(&name).unwrap();
        prop_assert_eq!(database.server_dbname(), value);
    }

    #[test]
    fn what_show_config_prints_loads_again(pool in 0u32..100_000, seconds in 0u64..10_000_000, mode in 0usize..3) {
        let mode = ["session", "transaction", "statement"][mode];
        let text = format!("[databases]\n*=\n[pgbouncer]\nauth_user=x\ndefault_pool_size={pool}\nquery_timeout={seconds}.5\npool_mode={mode}\n");
        let first = load("f", &move |_: &str| Ok(text.clone().into_bytes())).unwrap().config;
        let printed: String = first.rows().filter_map(|row| Some(format!("{} = {}\n", row.key, row.value?))).collect();
        let again = format!("[databases]\n*=\n[pgbouncer]\n{printed}");
        let second = load("f", &move |_: &str| Ok(again.clone().into_bytes())).unwrap().config;
        let values = |config: &pgweir_config::Config| config.rows().map(|row| row.value).collect::<Vec<_>>();
        prop_assert_eq!(values(&first), values(&second));
    }
}
