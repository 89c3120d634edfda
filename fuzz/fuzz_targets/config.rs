//! Guards against a configuration file, included file or password file that makes the loader panic or loop, against a
//! configuration that is accepted with an error or refused without one, and against rows of SHOW CONFIG that do not
//! load again as the same configuration.
//!
//! The input is up to three files with `0xff` bytes between them: the configuration, a file `f` to include, a file `u`
//! of passwords.
#![no_main]

use pgweir_config::{Config, Loaded, Problem, Severity, load};
use std::io;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let mut files = bytes.splitn(3, |byte| *byte == 0xff);
    let mut file = || files.next().unwrap_or_default();
    let (ini, included, users) = (file(), file(), file());
    let Ok(loaded) = read(ini, included, users) else { return };
    let mut config = loaded.config;
    for database in config.databases.values().chain(&config.autodb) {
        assert!(database.port > 0);
        let size = config.pool_size(database, "x");
        assert!(size.is_none_or(|size| config.min_pool_size(database, "x") <= size));
    }
    assert!(config.database(pgweir_config::CONSOLE_DATABASE).is_none());
    rows_load_again(&config, users);
    rows_can_be_set(&mut config);
});

fn read(ini: &[u8], included: &[u8], users: &[u8]) -> Result<Loaded, Vec<Problem>> {
    let files = |name: &str| -> io::Result<Vec<u8>> {
        match name {
            "pgweir.ini" => Ok(ini.to_vec()),
            "f" => Ok(included.to_vec()),
            "u" => Ok(users.to_vec()),
            _ => Err(io::ErrorKind::NotFound.into()),
        }
    };
    let result = load("pgweir.ini", &files);
    match &result {
        Ok(loaded) => assert!(loaded.warnings.iter().all(|w| w.severity == Severity::Warning)),
        Err(problems) => assert!(problems.iter().any(|p| p.severity == Severity::Error)),
    }
    let problems = match &result {
        Ok(loaded) => &loaded.warnings,
        Err(problems) => problems,
    };
    for problem in problems {
        assert!(!problem.to_string().is_empty());
    }
    result
}

fn values(config: &Config) -> Vec<(&'static str, Option<String>)> {
    config.rows().map(|row| (row.key, row.value)).collect()
}

/// The rows of SHOW CONFIG, written into a file, are the same configuration. This would also show a value that cannot
/// be in a line of a file.
fn rows_load_again(config: &Config, users: &[u8]) {
    let shown = values(config);
    let mut ini = String::from("[databases]\n* =\n[pgbouncer]\n");
    for (key, value) in &shown {
        if let Some(value) = value {
            ini.push_str(&format!("{key} = {value}\n"));
        }
    }
    match read(ini.as_bytes(), b"", users) {
        Ok(again) => assert_eq!(values(&again.config), shown),
        Err(problems) => panic!("SHOW CONFIG does not load again:\n{ini}\n{problems:?}"),
    }
}

/// SET accepts the values that SHOW CONFIG prints.
fn rows_can_be_set(config: &mut Config) {
    let before = values(config);
    for row in config.rows().collect::<Vec<_>>() {
        let (Some(value), true) = (&row.value, row.changeable) else {
            continue;
        };
        if let Err(problem) = config.set(row.key, value) {
            panic!("SET {} = '{value}' is refused: {problem}", row.key);
        }
    }
    assert_eq!(values(config), before);
}
