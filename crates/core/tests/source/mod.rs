//! The source of the core, for tests that read it.

use std::fs;
use std::path::Path;

/// All Rust files below a folder, as paths from `src`.
fn files(folder: &Path, inside: &str, found: &mut Vec<String>) {
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

/// All Rust files of the core, as paths from `src`, with their texts.
pub fn sources() -> Vec<(String, String)> {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut all = Vec::new();
    files(&src, "", &mut all);
    let with_text = |file: String| {
        let text = fs::read_to_string(src.join(&file)).unwrap();
        (file, text)
    };
    all.into_iter().map(with_text).collect()
}

/// A source text up to its unit tests.
pub fn without_tests(text: &str) -> &str {
    text.split("#[cfg(test)]\nmod tests").next().unwrap()
}
