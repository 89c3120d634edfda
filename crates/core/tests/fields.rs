//! State is changed only where it lives: a struct of a folder that holds data keeps its fields to that folder.
//!
//! Other folders call methods, so each change of state is in one place. `base` is not among these folders: it holds
//! plain values. `Client` and `Server` are in no folder: they are composed of the folders' structs.
#![expect(clippy::disallowed_methods, reason = "the source is what is tested")]

mod source;

use source::{sources, without_tests};
use std::collections::BTreeSet;

/// The folders that keep this rule: all but `base`.
const FINISHED: [&str; 13] = [
    "flow",
    "operator",
    "listening",
    "preparing",
    "session",
    "catalog",
    "console",
    "login",
    "notify",
    "pools",
    "state",
    "statements",
    "upstream",
];

/// Structs of these folders that are plain values, as `file struct`, with what they are. One layer makes such a value
/// and another one reads it; neither keeps it as a state that changes.
const VALUES: [(&str, &str); 18] = [
    (
        "flow/piece.rs Piece",
        "a part of a message that passes while it arrives",
    ),
    ("listening/mod.rs Listening", "a context: borrows for one call"),
    (
        "preparing/client_named.rs Mentioned",
        "what a text may do because of the statements that it names",
    ),
    ("session/catalogs.rs CatalogNews", "a context: borrows for one call"),
    ("catalog/reading.rs Told", "what a reading of a catalog has told"),
    ("login/login_step.rs Destination", "the pool that a client asks for"),
    ("login/lookups.rs AskedAt", "where auth_query runs for a client"),
    ("login/method.rs Encryption", "the facts of a client's encryption"),
    ("login/rejection.rs Rejection", "the error for a client that is refused"),
    ("login/startup.rs Wishes", "a startup packet that has been read"),
    ("login/welcome.rs Welcome", "the end of a login, about to be written"),
    ("notify/channels.rs Notification", "a message that has been read"),
    (
        "pools/wait_queue.rs Who",
        "what the order of the queue must know of a client",
    ),
    (
        "statements/client_statements.rs Bound",
        "a portal, when a Describe of it is about to be sent",
    ),
    (
        "statements/internal.rs InternalStatements",
        "the pooler's own statements, made once",
    ),
    (
        "statements/prepared.rs Statement",
        "a text with what was read in it: shared by all, changed by nobody",
    ),
    (
        "upstream/entry.rs Effect",
        "what a request changes: its sender says so, and whoever undoes it reads it",
    ),
    ("upstream/flight.rs Again", "a flight on its way to another server"),
];

/// How many folders and files deep a file's module is: 1 for `state/mod.rs`, 2 for `state/shape.rs`.
fn depth(file: &str) -> usize {
    let module = file.trim_end_matches(".rs").trim_end_matches("/mod");
    module.split('/').count()
}

/// Whether a field of this visibility is seen outside the folder. `depth` is that of the module that has the field.
fn is_seen_outside(visibility: &str, folder: &str, depth: usize) -> bool {
    match visibility {
        "" | "pub(self)" => false,
        "pub(super)" => depth < 2,
        _ => {
            let inside = visibility
                .strip_prefix("pub(in crate::")
                .and_then(|path| path.strip_suffix(')'));
            inside.is_none_or(|path| path.split("::").next() != Some(folder))
        }
    }
}

/// The visibility with which a line of a struct begins, and what follows it.
fn visibility(line: &str) -> (&str, &str) {
    let Some(rest) = line.strip_prefix("pub").filter(|rest| rest.starts_with([' ', '('])) else {
        return ("", line);
    };
    let length = match rest.starts_with('(') {
        true => rest.find(')').map_or(rest.len(), |at| at + 1),
        false => 0,
    };
    (&line[..3 + length], rest[length..].trim_start())
}

/// The structs of a source text with the fields that are seen outside its folder, each as `struct field`.
fn seen_outside(text: &str, folder: &str, depth: usize) -> Vec<String> {
    let text = without_tests(text);
    let mut found = Vec::new();
    let mut of: Option<&str> = None;
    for line in text.lines() {
        let (_, item) = visibility(line);
        if let Some(rest) = item.strip_prefix("struct ") {
            let end = rest
                .find(|c: char| !c.is_alphanumeric() && c != '_')
                .unwrap_or(rest.len());
            let (name, fields) = rest.split_at(end);
            of = line.ends_with('{').then_some(name);
            // `struct Pins(pub(crate) u16);`: the fields have numbers.
            let tuple = fields.split_once('(').map_or("", |(_, fields)| fields);
            for (at, field) in tuple.split(", ").filter(|field| !field.is_empty()).enumerate() {
                if is_seen_outside(visibility(field).0, folder, depth) {
                    found.push(format!("{name} {at}"));
                }
            }
        } else if line.starts_with('}') {
            of = None;
        } else if let Some(name) = of {
            let (visibility, field) = visibility(line.trim_start());
            if is_seen_outside(visibility, folder, depth) {
                let field = field.split(':').next().unwrap();
                found.push(format!("{name} {field}"));
            }
        }
    }
    found
}

#[test]
fn structs_keep_their_fields_to_their_folder() {
    let all = sources();
    let known = BTreeSet::from(VALUES.map(|(of, _)| of.to_string()));
    let (mut seen, mut fields) = (BTreeSet::new(), Vec::new());
    for finished in FINISHED {
        let folder = finished.split('/').next().unwrap();
        let of_folder = |file: &str| file == finished || file.starts_with(&format!("{finished}/"));
        for (file, text) in all.iter().filter(|(file, _)| of_folder(file)) {
            for field in seen_outside(text, folder, depth(file)) {
                let of = format!("{file} {}", field.split(' ').next().unwrap());
                if !known.contains(&of) {
                    fields.push(format!("{file}: {field}"));
                }
                seen.insert(of);
            }
        }
    }
    assert!(fields.is_empty(), "give these fields methods: {fields:#?}");
    let kept: Vec<_> = known.difference(&seen).collect();
    assert!(kept.is_empty(), "take these lines out of VALUES: {kept:#?}");
}

#[test]
fn every_way_to_show_a_field_is_found() {
    let text = "pub(crate) struct A {\n    pub(crate) a: u8,\n    b: u8,\n    pub c: u8,\n    pub(super) d: u8,\n    publishes: u8,\n    \
                pub(in crate::pools) e: u8,\n    pub(in crate::state) f: u8,\n}\nstruct B(u8, pub(crate) u8);\n\
                impl A {\n    pub(crate) fn f(&self) {}\n}\n";
    let of_file = ["A a", "A c", "A e", "B 1"];
    assert_eq!(seen_outside(text, "state", depth("state/pins.rs")), of_file);
    let of_folder = ["A a", "A c", "A d", "A e", "B 1"];
    assert_eq!(seen_outside(text, "state", depth("state/mod.rs")), of_folder);
}
