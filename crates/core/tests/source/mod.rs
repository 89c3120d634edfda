//! The source of the core, for tests that read it.

use std::fs;
use std::path::Path;

/// All Rust files below a folder, as paths from `src`.
pub fn files(folder: &Path, inside: &str, found: &mut Vec<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        let path = format!("{inside}{name}");
        if entry.file_type().unwrap().is_dir() {
            files(&entry.path(), &format!("{path}/"), found);
        } else if name.ends_with(".rs") {
            found.push(path);
        }
    }
}

/// A source text up to its unit tests.
pub fn without_tests(text: &str) -> &str {
    text.split("#[cfg(test)]\nmod tests").next().unwrap()
}
