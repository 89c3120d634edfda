//! Files and functions of the core are small enough to read. Unit tests count for the files only.
#![expect(clippy::disallowed_methods, reason = "the source is what is tested")]

mod source;

use source::{sources, without_tests};

/// The longest file, in lines.
const FILE_LINES_MAX: usize = 400;

/// The longest function, in lines, unless the comment in front of it says why it is longer.
const FUNCTION_LINES_MAX: usize = 60;

/// How the reason begins.
const REASON: &str = "It is long because";

/// A function, with its comment.
struct Function<'t> {
    name: &'t str,
    lines: usize,
    comment: String,
}

/// The name of the function that begins in this line.
fn function(line: &str) -> Option<&str> {
    let (before, rest) = line.split_once("fn ")?;
    let is_plain = |word: &str| matches!(word, "const" | "async" | "unsafe") || word.starts_with("pub");
    let name = rest.split(['(', '<']).next()?;
    before.split_whitespace().all(is_plain).then_some(name)
}

/// All functions of a source text.
fn functions(text: &str) -> Vec<Function<'_>> {
    let lines: Vec<&str> = text.lines().collect();
    let mut found = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let Some(name) = function(line) else { continue };
        let indent = line.len() - line.trim_start().len();
        let is_end = |line: &&str| line.len() == indent + 1 && line.ends_with('}');
        let is_one_line = line.ends_with('}');
        let end = lines[at..].iter().position(is_end).filter(|_| !is_one_line);
        let is_in_front = |line: &&&str| line.trim_start().starts_with("///") || line.trim_start().starts_with("#[");
        let in_front: Vec<&str> = lines[..at].iter().rev().take_while(is_in_front).copied().collect();
        let words = in_front
            .iter()
            .rev()
            .map(|line| line.trim_start().trim_start_matches('/').trim());
        let comment = words.collect::<Vec<_>>().join(" ");
        found.push(Function {
            name,
            lines: end.unwrap_or_default() + 1,
            comment,
        });
    }
    found
}

#[test]
fn files_and_functions_are_small() {
    let mut wrong = Vec::new();
    for (file, text) in sources() {
        let lines = text.lines().count();
        if lines > FILE_LINES_MAX {
            wrong.push(format!(
                "{file} has {lines} lines, at most {FILE_LINES_MAX} were expected"
            ));
        }
        for Function { name, lines, comment } in functions(without_tests(&text)) {
            if lines > FUNCTION_LINES_MAX && !comment.contains(REASON) {
                wrong.push(format!(
                    "{name} in {file} has {lines} lines, and no comment in front of it says \"{REASON} ..\""
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn functions_are_measured() {
    let text = "
/// Does it.
/// It is long
/// because it does much.
#[inline]
pub(crate) fn does<T>(
    it: T,
) {
    if it {
    }
}

impl It {
    fn short(&self) {}

    const fn other(&self) -> bool {
        true
    }
}
";
    let found: Vec<(&str, usize)> = functions(text).iter().map(|f| (f.name, f.lines)).collect();
    assert_eq!(found, [("does", 6), ("short", 1), ("other", 3)]);
    assert!(functions(text)[0].comment.contains(REASON));
    assert!(!functions(text)[2].comment.contains(REASON));
}
