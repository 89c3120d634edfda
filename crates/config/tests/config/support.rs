//! Files in memory, and short ways to load them.

use std::io;

use pgweir_config::{Config, Loaded, Problem, Severity, load};

/// Loads `pgbouncer.ini` from a list of name and content.
pub fn load_files(files: &[(&str, &str)]) -> Result<Loaded, Vec<Problem>> {
    load("pgbouncer.ini", &|name: &str| -> io::Result<Vec<u8>> {
        match files.iter().find(|(file, _)| *file == name) {
            Some((_, text)) => Ok(text.as_bytes().to_vec()),
            None => Err(io::Error::new(io::ErrorKind::NotFound, "no such file")),
        }
    })
}

pub fn load_text(text: &str) -> Result<Loaded, Vec<Problem>> {
    load_files(&[("pgbouncer.ini", text), ("users.txt", "\"app\" \"secret\"\n")])
}

/// A configuration that must load, whatever the warnings.
pub fn config(text: &str) -> Config {
    match load_text(text) {
        Ok(loaded) => loaded.config,
        Err(problems) => panic!("{}", lines(&problems).join("\n")),
    }
}

/// The settings `text` added to a configuration without problems.
pub fn sound(text: &str) -> String {
    format!("[databases]\napp = host=127.0.0.1\n[pgbouncer]\nauth_file = users.txt\n{text}\n")
}

/// All problems as text, one each, hints included.
pub fn lines(problems: &[Problem]) -> Vec<String> {
    problems.iter().map(Problem::to_string).collect()
}

/// The problems of a configuration that loads.
pub fn warnings(text: &str) -> Vec<String> {
    match load_text(text) {
        Ok(loaded) => {
            assert!(
                loaded
                    .warnings
                    .iter()
                    .all(|warning| warning.severity == Severity::Warning)
            );
            lines(&loaded.warnings)
        }
        Err(problems) => panic!("{}", lines(&problems).join("\n")),
    }
}

/// The problems of a configuration that must not load.
pub fn errors(text: &str) -> Vec<String> {
    let problems = load_text(text).expect_err(text);
    assert!(problems.iter().any(|problem| problem.severity == Severity::Error));
    lines(&problems)
}

/// Asserts that there is exactly one text and that it contains every part.
#[track_caller]
pub fn assert_one(texts: &[String], parts: &[&str]) {
    assert_eq!(texts.len(), 1, "{texts:#?}");
    for part in parts {
        assert!(texts[0].contains(part), "{part:?} is not in {:?}", texts[0]);
    }
}
