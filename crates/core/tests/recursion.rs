//! No method of the pooler runs inside itself, neither directly nor through others.
//!
//! A method that changed another connection while one is being handled would have to look up again, after each call,
//! whether its own connection is still there. So what an input means for other connections is put into a queue:
//! `src/base/consequence.rs`. A method that calls itself through others shows that this was bypassed.
//!
//! A method that closes a client and one that closes the client's server would call each other, for example.
#![expect(clippy::disallowed_methods, reason = "the source is what is tested")]

mod source;

use source::{sources, without_tests};
use std::collections::{BTreeMap, BTreeSet};

/// The names of the methods that each method calls.
type Calls = BTreeMap<String, BTreeSet<String>>;

fn is_of_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// The name that a text begins with.
fn name_of(text: &str) -> &str {
    text.split(|c| !is_of_name(c)).next().unwrap()
}

/// The name of the method that begins in this line of an `impl` block.
fn method(line: &str) -> Option<&str> {
    let rest = line.strip_prefix("    ").filter(|rest| !rest.starts_with(' '))?;
    let (visibility, rest) = rest.split_once("fn ")?;
    let is_plain = |word: &str| word == "const" || word.starts_with("pub");
    visibility.split_whitespace().all(is_plain).then(|| name_of(rest))
}

/// The methods that a line of code calls on the pooler itself. Where a call is broken into lines, `before` is the line
/// before.
fn called<'t>(line: &'t str, before: &str) -> Vec<&'t str> {
    let mut found = Vec::new();
    if let Some(chained) = line.trim_start().strip_prefix('.')
        && before.trim_end().ends_with("self")
    {
        found.push(name_of(chained));
    }
    for receiver in ["self.", "pooler.", "Self::", "Pooler::"] {
        for (at, _) in line.match_indices(receiver) {
            if !line[..at].ends_with(|c| is_of_name(c) || c == '.') {
                found.push(name_of(&line[at + receiver.len()..]));
            }
        }
    }
    found
}

/// Adds the methods in the blocks `impl Pooler` of a source text.
fn add_methods(text: &str, calls: &mut Calls) {
    let (mut in_block, mut current, mut before) = (false, None, "");
    for line in without_tests(text).lines() {
        match line {
            "impl Pooler {" => in_block = true,
            "}" => in_block = false,
            _ => {}
        }
        if in_block && !line.trim_start().starts_with("//") {
            if let Some(name) = method(line) {
                assert!(!calls.contains_key(name), "two methods of Pooler are called {name}");
                calls.insert(name.to_string(), BTreeSet::new());
                current = Some(name.to_string());
            } else if let Some(calls) = current.as_ref().and_then(|name| calls.get_mut(name)) {
                calls.extend(called(line, before).into_iter().map(String::from));
            }
        }
        before = line;
    }
}

/// A chain of calls that leads from a method to itself, if there is one.
fn circle(calls: &Calls) -> Option<Vec<&str>> {
    calls.keys().find_map(|from| way_back(calls, from))
}

/// The shortest chain of calls from a method to itself.
fn way_back<'c>(calls: &'c Calls, from: &'c str) -> Option<Vec<&'c str>> {
    let mut ways = vec![vec![from]];
    let mut seen = BTreeSet::new();
    let mut at = 0;
    while let Some(way) = ways.get(at).cloned() {
        let called = calls.get(*way.last().unwrap()).into_iter().flatten();
        for next in called.filter(|next| calls.contains_key(*next)) {
            let longer = [way.clone(), vec![next]].concat();
            if next == from {
                return Some(longer);
            }
            if seen.insert(next) {
                ways.push(longer);
            }
        }
        at += 1;
    }
    None
}

#[test]
fn no_method_of_the_pooler_runs_inside_itself() {
    let mut calls = Calls::new();
    for (_, text) in sources() {
        add_methods(&text, &mut calls);
    }
    assert!(calls.len() > 300, "only {} methods were found", calls.len());
    let found = circle(&calls);
    assert!(
        found.is_none(),
        "{} calls itself. Put what follows for other connections into the queue (base/consequence.rs).",
        found.unwrap_or_default().join(" calls ")
    );
}

#[test]
fn circles_are_found() {
    let text = "
impl Pooler {
    pub(crate) fn close_client(&mut self, now: Time) {
        let server = self.at(id);
        self.abandon(now, id);
    }

    /// self.close_client() in a comment is no call.
    fn abandon(&mut self, now: Time) {
        let lost = self
            .server_lost(now);
        server.close_client(now);
    }

    const fn server_lost(&mut self) {
        Pooler::close_client(self);
    }
}
";
    let mut calls = Calls::new();
    add_methods(text, &mut calls);
    let names: Vec<&str> = calls.keys().map(String::as_str).collect();
    assert_eq!(names, ["abandon", "close_client", "server_lost"]);
    assert_eq!(
        circle(&calls),
        Some(vec!["abandon", "server_lost", "close_client", "abandon"])
    );
    calls.get_mut("server_lost").unwrap().clear();
    assert_eq!(circle(&calls), None);
}
