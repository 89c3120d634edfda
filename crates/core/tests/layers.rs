//! Each layer of the core imports only layers below it.
//!
//! Files that still break the rule are listed in `layers-to-untie.txt`; the list may only become shorter.
#![expect(clippy::disallowed_methods, reason = "the source is what is tested")]

mod source;

use source::{files, without_tests};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// From the lowest to the highest. `client` and `server` are composed of structs of the layers below them.
const LAYERS: [&[&str]; 15] = [
    &["base"],
    &["statements"],
    &["upstream"],
    &["state"],
    &["catalog", "notify"],
    &["pools"],
    &["login", "console"],
    &[
        "alone",
        "client",
        "client_side",
        "exchange",
        "reply",
        "server",
        "server_side",
        "shared",
    ],
    &["preparing"],
    &["session"],
    &["listening"],
    &["contexts", "pooler"],
    &["flow", "operator"],
    &["frozen"],
    &["invariants", "weaknesses"],
];

fn rank(module: &str) -> Option<usize> {
    LAYERS.iter().position(|layer| layer.contains(&module))
}

/// The modules of the crate that a source text names outside comments and unit tests.
fn named(text: &str) -> BTreeSet<&str> {
    let text = without_tests(text);
    let lines = text.lines().filter(|line| !line.trim_start().starts_with("//"));
    let paths = lines.flat_map(|line| line.split("crate::").skip(1));
    let modules = paths.map(|path| path.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap());
    modules.filter(|module| rank(module).is_some()).collect()
}

/// Imports that break the rule, as lines `file module`.
fn against_the_order() -> BTreeSet<String> {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut all = Vec::new();
    files(&src, "", &mut all);
    let mut wrong = BTreeSet::new();
    for file in all.iter().filter(|file| *file != "lib.rs") {
        let own = file.split(['/', '.']).next().unwrap();
        let of_file = rank(own).unwrap_or_else(|| panic!("{file} is in no layer"));
        let text = fs::read_to_string(src.join(file)).unwrap();
        let above = named(&text).into_iter().filter(|module| rank(module) > Some(of_file));
        wrong.extend(above.map(|module| format!("{file} {module}")));
    }
    wrong
}

#[test]
fn layers_import_only_what_is_below_them() {
    let list = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/layers-to-untie.txt");
    let list = fs::read_to_string(list).unwrap();
    let known: BTreeSet<String> = list
        .lines()
        .filter(|l| !l.starts_with('#'))
        .map(str::to_string)
        .collect();
    let wrong = against_the_order();
    let new: Vec<_> = wrong.difference(&known).collect();
    assert!(new.is_empty(), "import a layer above their own: {new:#?}");
    let untied: Vec<_> = known.difference(&wrong).collect();
    assert!(
        untied.is_empty(),
        "take these lines out of layers-to-untie.txt: {untied:#?}"
    );
}

#[test]
fn an_import_is_found_wherever_it_stands() {
    let text = "//! crate::flow\nuse crate::base::{ids};\nfn f(x: crate::pools::pool::Pool) {}\n#[cfg(test)]\nmod tests { use crate::flow; }";
    assert_eq!(named(text), BTreeSet::from(["base", "pools"]));
}
