//! Each layer of the core imports only layers below it, whether by `use` or by a path in the code.
//!
//! Files that still break the rule are listed in `layers-to-untie.txt`; the list may only become shorter.
#![expect(clippy::disallowed_methods, reason = "the source is what is tested")]

mod source;

use source::{sources, without_tests};
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

/// How many modules a file is below the crate's root: 1 for `client.rs` and `flow/mod.rs`, 2 for `flow/link.rs`. The
/// tests of `flow/link.rs` stand in `flow/link_tests.rs`, and are a module of their own in it.
fn depth(file: &str) -> usize {
    let module = file.trim_end_matches(".rs").trim_end_matches("/mod");
    module.split('/').count() + usize::from(module.ends_with("_tests"))
}

fn is_of_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// The members of a group of imports whose brace has been opened: `a, b::{c, d}}` has two.
fn members(group: &str) -> Vec<&str> {
    let (mut members, mut begin, mut open) = (Vec::new(), 0, 0);
    for (at, c) in group.char_indices() {
        match c {
            '{' => open += 1,
            '}' if open > 0 => open -= 1,
            ',' if open == 0 => {
                members.push(&group[begin..at]);
                begin = at + 1;
            }
            '}' => {
                members.push(&group[begin..at]);
                break;
            }
            _ => {}
        }
    }
    members
}

/// Adds the names at the crate's root through which a path goes. The path begins in a module that is `depth` modules
/// below the root.
fn add_roots<'t>(path: &'t str, depth: usize, found: &mut BTreeSet<&'t str>) {
    let path = path.trim_start();
    if let Some(path) = path.strip_prefix("crate::") {
        add_roots(path, 0, found);
    } else if let Some(path) = path.strip_prefix("super::") {
        add_roots(path, depth.saturating_sub(1), found);
    } else if let Some(group) = path.strip_prefix('{') {
        members(group).iter().for_each(|member| add_roots(member, depth, found));
    } else if depth == 0 {
        found.extend(path.split(|c| !is_of_name(c)).next().filter(|name| !name.is_empty()));
    }
}

/// The names at the crate's root that a source text uses outside comments and unit tests; `depth` is that of its module.
fn named(code: &str, depth: usize) -> BTreeSet<&str> {
    let mut found = BTreeSet::new();
    for root in ["crate::", "super::"] {
        for (at, _) in code.match_indices(root) {
            if !code[..at].ends_with(is_of_name) {
                add_roots(&code[at..], depth, &mut found);
            }
        }
    }
    found
}

/// A source text without comments and unit tests.
fn code_of(text: &str) -> String {
    let lines = without_tests(text).lines();
    let code = lines.filter(|line| !line.trim_start().starts_with("//"));
    code.collect::<Vec<_>>().join("\n")
}

/// Imports that break the rule, as lines `file module`.
fn against_the_order() -> BTreeSet<String> {
    let mut wrong = BTreeSet::new();
    for (file, text) in sources().iter().filter(|(file, _)| file != "lib.rs") {
        let own = file.split(['/', '.']).next().unwrap();
        let of_file = rank(own).unwrap_or_else(|| panic!("{file} is in no layer"));
        let code = code_of(text);
        // What is no layer is a name that `lib.rs` gives to something of a layer: it would hide which one.
        let is_below = |name: &&str| rank(name).is_some_and(|layer| layer <= of_file);
        let above = named(&code, depth(file)).into_iter().filter(|name| !is_below(name));
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
    assert_eq!(named(&code_of(text), 1), BTreeSet::from(["base", "pools"]));
}

#[test]
fn an_import_is_found_however_it_is_written() {
    let grouped = "use crate::{\n    base::{ids, slab},\n    server::Server,\n};";
    assert_eq!(named(grouped, 2), BTreeSet::from(["base", "server"]));
    let relative = "use super::super::flow::link;\nfn f() { super::sibling::g(super::super::Pooler::h()) }";
    assert_eq!(
        named(relative, depth("pools/pool.rs")),
        BTreeSet::from(["Pooler", "flow"])
    );
    assert_eq!(named(relative, depth("pools/fair/heap.rs")), BTreeSet::new());
    let group_above = "use super::{super::{session::probe, state}, pool};";
    assert_eq!(
        named(group_above, depth("pools/idle_list.rs")),
        BTreeSet::from(["session", "state"])
    );
    assert_eq!(
        named("use super::client;", depth("server.rs")),
        BTreeSet::from(["client"])
    );
    assert_eq!(
        named("use super::super::x;", depth("flow/link_tests.rs")),
        BTreeSet::new()
    );
}
