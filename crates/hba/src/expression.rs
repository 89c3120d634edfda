//! Regular expressions, which must mean what they mean in PostgreSQL, or be refused.
//!
//! The crate `regex` differs from PostgreSQL in three ways that could let in another user. Its `.` leaves out newlines:
//! that can be set. Some of its syntax means something else in PostgreSQL: [`Shape::of`] refuses it. And of several
//! matches it takes the one of the first alternative, PostgreSQL the longest one: [`Capture`] finds that.

use crate::problem::Fault;
use regex::{Regex, RegexBuilder};
use regex_syntax::ast::parse::Parser;
use regex_syntax::ast::{
    self, AssertionKind, Ast, ClassSetBinaryOp, ClassSetItem, Flag, Flags, FlagsItemKind, GroupKind, Literal,
    LiteralKind, Visitor,
};

/// The most bytes that a compiled regular expression may take.
const REGEX_BYTES_MAX: usize = 1 << 20;

/// The most bytes of a name of which a part can be taken for `\1`. It bounds the work of [`Capture::of`].
const CAPTURED_FROM_BYTES_MAX: usize = 256;

/// Compiles what follows the slash of a word.
pub(crate) fn compile(text: &str) -> Result<Regex, Fault> {
    let regex = build(text).map_err(|e| {
        let why = e.to_string();
        let why = why.lines().last().unwrap_or_default().trim_start_matches("error: ");
        invalid(text, why)
    })?;
    Shape::of(text)?;
    Ok(regex)
}

fn build(text: &str) -> Result<Regex, regex::Error> {
    // As in PostgreSQL, `.` is any character.
    let mut builder = RegexBuilder::new(text);
    builder.dot_matches_new_line(true).size_limit(REGEX_BYTES_MAX).build()
}

fn invalid(text: &str, why: &str) -> Fault {
    Fault::new(format!("invalid regular expression \"{text}\": {why}"))
}

/// What matters of an expression beyond what it matches.
#[derive(Default)]
struct Shape {
    is_lazy: bool,
    assertions: usize,
}

impl Shape {
    /// An error if PostgreSQL understands the expression in another way.
    fn of(text: &str) -> Result<(Ast, Shape), Fault> {
        let tree = Parser::new()
            .parse(text)
            .map_err(|e| invalid(text, &e.kind().to_string()))?;
        let shape = ast::visit(&tree, Shape::default())
            .map_err(|what| invalid(text, &format!("{what} have another meaning in PostgreSQL")))?;
        Ok((tree, shape))
    }
}

impl Visitor for Shape {
    type Output = Shape;
    type Err = &'static str;

    fn finish(self) -> Result<Shape, &'static str> {
        Ok(self)
    }

    fn visit_pre(&mut self, tree: &Ast) -> Result<(), &'static str> {
        match tree {
            Ast::Assertion(assertion) => {
                use AssertionKind::{EndLine, EndText, StartLine, StartText};
                let (StartLine | StartText | EndLine | EndText) = assertion.kind else {
                    return Err("word boundaries such as \\b");
                };
                self.assertions += 1;
            }
            Ast::Flags(set) => check_flags(&set.flags)?,
            Ast::Group(group) => {
                if let GroupKind::NonCapturing(flags) = &group.kind {
                    check_flags(flags)?;
                }
            }
            Ast::Repetition(repetition) => self.is_lazy |= !repetition.greedy,
            Ast::Literal(literal) => check_literal(literal)?,
            _ => {}
        }
        Ok(())
    }

    fn visit_class_set_item_pre(&mut self, item: &ClassSetItem) -> Result<(), &'static str> {
        match item {
            ClassSetItem::Bracketed(_) => Err("brackets inside of brackets"),
            ClassSetItem::Literal(literal) => check_literal(literal),
            ClassSetItem::Range(range) => check_literal(&range.start).and_then(|()| check_literal(&range.end)),
            _ => Ok(()),
        }
    }

    fn visit_class_set_binary_op_pre(&mut self, _: &ClassSetBinaryOp) -> Result<(), &'static str> {
        Err("&&, -- and ~~ in brackets")
    }
}

fn check_flags(flags: &Flags) -> Result<(), &'static str> {
    let is_same = |kind| {
        matches!(
            kind,
            FlagsItemKind::Flag(Flag::CaseInsensitive | Flag::DotMatchesNewLine)
        )
    };
    match flags.items.iter().all(|item| is_same(item.kind.clone())) {
        true => Ok(()),
        false => Err("options other than (?i) and (?s)"),
    }
}

/// In PostgreSQL, `\x` takes all hexadecimal digits that follow.
fn check_literal(literal: &Literal) -> Result<(), &'static str> {
    match literal.kind {
        LiteralKind::HexFixed(ast::HexLiteralKind::X) | LiteralKind::HexBrace(_) => Err("escapes such as \\x41"),
        _ => Ok(()),
    }
}

/// Finds the text that the first group of an expression has matched.
///
/// As in PostgreSQL, the match is the longest of those that begin first. In it, what stands before the group takes as
/// much as it can, and then the group does.
#[derive(Clone, Debug)]
pub(crate) struct Capture {
    /// Where the match begins.
    regex: Regex,
    /// All of the expression, and its parts: what stands before the group, the group, and what stands behind it. Each
    /// must match all of a text.
    whole: Regex,
    before: Regex,
    group: Regex,
    behind: Regex,
    /// The expression ends with `$`.
    to_end: bool,
}

impl Capture {
    /// `regex` is the expression that [`compile`] has made.
    pub(crate) fn new(regex: &Regex) -> Result<Capture, Fault> {
        let text = regex.as_str();
        let unclear = |why: &str| {
            let text = format!("cannot take \"\\1\" from regular expression \"{text}\": {why}");
            Fault::new(text).hint("write it as ^...(...)...$, with the group outside of all other parentheses and of |")
        };
        let (tree, shape) = Shape::of(text)?;
        let mut items = match &tree {
            Ast::Concat(concat) => concat.asts.as_slice(),
            other => std::slice::from_ref(other),
        };
        let mut flags = "";
        if let [Ast::Flags(set), rest @ ..] = items {
            flags = &text[set.span.start.offset..set.span.end.offset];
            items = rest;
        }
        let is_any = |tree: &Ast, kinds: [AssertionKind; 2]| matches!(tree, Ast::Assertion(assertion) if kinds.contains(&assertion.kind));
        let mut assertions = 0;
        if let [first, rest @ ..] = items
            && is_any(first, [AssertionKind::StartLine, AssertionKind::StartText])
        {
            assertions += 1;
            items = rest;
        }
        let mut to_end = false;
        if let [rest @ .., last] = items
            && is_any(last, [AssertionKind::EndLine, AssertionKind::EndText])
        {
            assertions += 1;
            to_end = true;
            items = rest;
        }
        let group = items.iter().find_map(|item| match item {
            Ast::Group(group) if group.capture_index() == Some(1) => Some(group),
            _ => None,
        });
        let Some(group) = group else {
            return Err(unclear(
                "the group is optional, repeated, or one of several alternatives",
            ));
        };
        if shape.is_lazy {
            return Err(unclear("it has a non-greedy quantifier"));
        }
        if shape.assertions > assertions {
            return Err(unclear("it has ^ or $ in its middle"));
        }
        if items.iter().any(|item| matches!(item, Ast::Flags(_))) {
            return Err(unclear("it has an option in its middle"));
        }
        let start = items.first().map_or(0, |first| first.span().start.offset);
        let end = items.last().map_or(0, |last| last.span().end.offset);
        let (group_start, group_end) = (group.span.start.offset, group.span.end.offset);
        let part = |from: usize, to: usize| {
            build(&format!("{flags}\\A(?:{})\\z", &text[from..to])).map_err(|e| unclear(&e.to_string()))
        };
        Ok(Capture {
            regex: regex.clone(),
            whole: part(start, end)?,
            before: part(start, group_start)?,
            group: part(group_start, group_end)?,
            behind: part(group_end, end)?,
            to_end,
        })
    }

    /// `None` if the expression does not match `name`.
    pub(crate) fn of<'a>(&self, name: &'a str) -> Option<&'a str> {
        if name.len() > CAPTURED_FROM_BYTES_MAX {
            return None;
        }
        let rest = &name[self.regex.find(name)?.start()..];
        let found = match self.to_end {
            true => rest,
            false => longest(rest)
                .find(|end| self.whole.is_match(&rest[..*end]))
                .map(|end| &rest[..end])?,
        };
        let ends: Vec<usize> = longest(found)
            .filter(|end| self.behind.is_match(&found[*end..]))
            .collect();
        let mut starts = longest(found).filter(|start| self.before.is_match(&found[..*start]));
        starts.find_map(|start| {
            let mut ends = ends.iter().filter(|end| **end >= start);
            ends.find(|end| self.group.is_match(&found[start..**end]))
                .map(|end| &found[start..*end])
        })
    }
}

/// The ends of all beginnings of `text`, the longest first.
fn longest(text: &str) -> impl Iterator<Item = usize> {
    (0..=text.len()).rev().filter(|end| text.is_char_boundary(*end))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn captured(expression: &str, name: &str) -> Option<String> {
        let capture = Capture::new(&compile(expression).unwrap()).unwrap();
        capture.of(name).map(str::to_owned)
    }

    /// The right column is what `regexp_match` of PostgreSQL 15 returns.
    #[test]
    fn the_longest_match_counts() {
        for (expression, name, expected) in [
            ("^(admin|administrator)", "administrator", Some("administrator")),
            ("^(admin|administrator)", "admin", Some("admin")),
            ("(a|ab)(c|bcd)(d*)", "xabcd", Some("ab")),
            ("^(a?)(ab)?", "ab", Some("")),
            ("^(a?)(ab)?$", "ab", Some("")),
            ("^(a|ab)(c|bcd)?", "abcd", Some("a")),
            ("^(.*)@.*$", "a@b@c", Some("a@b")),
            ("^.*@(.*)$", "a@b@c", Some("c")),
            ("^(?:a|ab)(b?c?)d$", "abcd", Some("c")),
            ("([a-z]+)", "42alice7bob", Some("alice")),
            ("(?i)^([a-z]+)$", "ALICE", Some("ALICE")),
            ("^([^x]*)$", "a\nb", Some("a\nb")),
            ("^(.*)é(.*)$", "aéb", Some("a")),
            ("^(x)$", "x\n", None),
            ("(.*)", "", Some("")),
        ] {
            assert_eq!(captured(expression, name).as_deref(), expected, "{expression} {name:?}");
        }
        assert_eq!(captured("^(.*)$", &"x".repeat(CAPTURED_FROM_BYTES_MAX + 1)), None);
    }

    #[test]
    fn where_the_group_is_not_clear_the_expression_is_refused() {
        for expression in [
            "^(a)$|^(b)$",
            "^(a)?b",
            "^(?:x(a))",
            "^(a+?)b",
            "^(a)*$",
            "^a^(b)",
            "^(a)$b",
            "^a(?i)(b)",
        ] {
            assert!(Capture::new(&compile(expression).unwrap()).is_err(), "{expression}");
        }
    }

    #[test]
    fn what_means_something_else_in_postgresql_is_refused() {
        for expression in [
            "\\bx",
            "\\Bx",
            "\\<x",
            "[a&&b]",
            "[a--b]",
            "[a~~b]",
            "[[a]b]",
            "[[.a.]]",
            "(?m)^a",
            "(?U)a*",
            "(?-s:.)",
            "\\x414",
            "\\x{41}",
            "[\\x41]",
            "[\\x41-z]",
            "(?x)a b",
        ] {
            assert!(compile(expression).is_err(), "{expression}");
        }
        for expression in [
            "^[]a]$",
            "^[^a-d]*$",
            "(?i)a",
            "\\d\\w\\s",
            "[[:alpha:]_]",
            "a{2,3}",
            "\\.",
            "a|b",
            "^$",
            "\\u0041",
        ] {
            assert!(compile(expression).is_ok(), "{expression}");
        }
        assert!(compile("^evil.*$").unwrap().is_match("evil\nx"));
        assert!(!compile("^evil$").unwrap().is_match("evil\n"));
        assert!(!compile("^evil").unwrap().is_match("x\nevil"));
    }
}
