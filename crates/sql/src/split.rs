//! A text, statement by statement.

use crate::lexer::{Lexer, Token};
use crate::search::contains;
use crate::statement::{Statement, classify};

/// The statements of a Query. `None` if the session's settings decide where they end, or if the text ends within one.
pub fn statements(text: &[u8]) -> Option<Vec<&[u8]>> {
    let mut statements = Statements::new(text, false);
    let found = statements.by_ref().collect();
    (!statements.is_ambiguous() && !statements.is_unterminated()).then_some(found)
}

/// The words with which statements begin that may end a transaction block.
const ENDS_OF_BLOCKS: [&[&str]; 5] = [
    &["commit"],
    &["end"],
    &["prepare", "transaction"],
    &["rollback"],
    &["abort"],
];

/// Whether a Query inside a transaction block may end the block, and so commit what came before it.
pub fn may_end_block(text: &[u8]) -> bool {
    statements(text).is_none_or(|all| all.iter().any(|s| ends_block(s)))
}

/// Whether a statement may end a transaction block, or go back to a savepoint of it.
pub(crate) fn ends_block(statement: &[u8]) -> bool {
    ENDS_OF_BLOCKS.iter().any(|words| begins(statement, words))
}

/// Whether a text, as a whole, leaves a transaction block open that it has begun.
pub fn leaves_block_open(text: &[u8]) -> bool {
    readings(text).any(leave_block_open)
}

fn leave_block_open(statements: Statements<'_>) -> bool {
    let mut is_open = false;
    for statement in statements {
        if begins(statement, &["begin"]) || begins(statement, &["start", "transaction"]) {
            is_open = true;
        } else if ["commit", "end", "rollback", "abort"]
            .iter()
            .any(|verb| begins(statement, &[verb]))
        {
            let mut words = Lexer::new(statement);
            is_open &= words.any(|word| word.is("to") || word.is("chain"));
        } else if begins(statement, &["prepare", "transaction"]) {
            is_open = false;
        }
    }
    is_open
}

/// Whether one of a text's statements is PREPARE TRANSACTION.
pub fn prepares_transaction(text: &[u8]) -> bool {
    any_begins(text, ["prepare", "transaction"])
}

/// Whether one of a text's statements is COMMIT PREPARED.
pub fn commits_prepared(text: &[u8]) -> bool {
    any_begins(text, ["commit", "prepared"])
}

/// Whether a text begins with COMMIT, and one of its statements is COMMIT PREPARED.
pub fn is_commit_prepared(text: &[u8]) -> bool {
    let verb = text.get(..6).is_some_and(|word| word.eq_ignore_ascii_case(b"commit"));
    verb && commits_prepared(text)
}

fn any_begins(text: &[u8], words: [&str; 2]) -> bool {
    let mut may_run = readings(text).filter_map(|mut statements| {
        let begins = statements.by_ref().fold(false, |any, s| any | begins(s, &words));
        (!statements.is_unterminated()).then_some(begins)
    });
    // PostgreSQL refuses a text without an end. If there is no other reading, the text may be only the beginning of one.
    may_run.next().is_none_or(|first| first || may_run.any(|begins| begins))
}

/// The statements of a text under each setting of `standard_conforming_strings` under which it may be another one.
fn readings(text: &[u8]) -> impl Iterator<Item = Statements<'_>> {
    let escaped = text.contains(&b'\\').then(|| Statements::new(text, true));
    [Statements::new(text, false)].into_iter().chain(escaped)
}

fn begins(statement: &[u8], words: &[&str]) -> bool {
    let mut lexer = Lexer::new(statement);
    words
        .iter()
        .all(|word| lexer.next().is_some_and(|token| token.is(word)))
}

/// The prepared statements that a text deallocates one by one, in order. A name that cannot be read is empty. None, if
/// the session's settings decide which: the server then tells that one has ended that was not expected.
pub fn deallocated<C: FromIterator<Box<[u8]>>>(text: &[u8]) -> C {
    let plain = deallocated_under(text, false);
    let names = match deallocated_under(text, text.contains(&b'\\')) {
        escaped if escaped == plain || plain.is_empty() => escaped,
        escaped if escaped.is_empty() => plain,
        _ => Vec::new(),
    };
    names.into_iter().collect()
}

fn deallocated_under(text: &[u8], backslashes: bool) -> Vec<Box<[u8]>> {
    let name = |statement: &[u8]| match classify(statement) {
        Statement::Deallocate(name) => Some(name),
        Statement::DeallocateAll => None,
        _ => begins(statement, &["deallocate"]).then(Box::default),
    };
    Statements::new(text, backslashes).filter_map(name).collect()
}

/// Whether a text may end with DEALLOCATE ALL behind other statements. The server answers the last statement of a text
/// only when it has committed. So if the commit fails, no command tag shows that the statements are gone.
pub fn may_end_with_deallocate_all(text: &[u8]) -> bool {
    let ends = |all: Vec<&[u8]>| all.len() > 1 && all.last().is_some_and(|s| classify(s) == Statement::DeallocateAll);
    contains(text, b"deallocate") && statements(text).is_none_or(ends)
}

/// How many statements a text has in front of a DEALLOCATE that ends it. `None`: it does not end so, or has no others.
pub fn statements_before_deallocate(text: &[u8]) -> Option<u32> {
    let all = contains(text, b"deallocate").then(|| statements(text)).flatten()?;
    let (last, others) = all.split_last()?;
    let deallocates = matches!(classify(last), Statement::Deallocate(_) | Statement::DeallocateAll);
    (deallocates && !others.is_empty()).then_some(others.len() as u32)
}

/// The statements of a text, each without the semicolon that ends it and without white space and comments around it;
/// empty ones are left out.
///
/// The server parses a whole text before it runs any of it. So a text that is split at a wrong place here is one that
/// the server refuses.
#[derive(Debug, Clone)]
pub(crate) struct Statements<'a> {
    text: &'a [u8],
    lexer: Lexer<'a>,
    unterminated: bool,
}

impl<'a> Statements<'a> {
    pub(crate) fn new(text: &'a [u8], backslashes: bool) -> Self {
        Statements {
            text,
            lexer: Lexer::with_backslashes(text, backslashes),
            unterminated: false,
        }
    }

    /// Whether the tokens read so far depend on `standard_conforming_strings`.
    pub(crate) fn is_ambiguous(&self) -> bool {
        self.lexer.is_ambiguous()
    }

    /// Whether the text ends within a comment, a string, a quoted identifier or parentheses. It is known at the end of
    /// the text.
    pub(crate) fn is_unterminated(&self) -> bool {
        self.unterminated
    }
}

impl<'a> Iterator for Statements<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        loop {
            // A comment without an end counts as a statement, because its contents are not known.
            self.lexer.skip_space();
            let start = self.lexer.position();
            let mut nesting = Nesting::default();
            loop {
                let end = self.lexer.position();
                match self.lexer.next() {
                    Some(Token::Byte(b';')) if nesting.is_outermost() => {
                        if start == end {
                            break;
                        }
                        return Some(&self.text[start..end]);
                    }
                    Some(token) => {
                        self.unterminated |= token == Token::Unterminated;
                        nesting.follow(token);
                    }
                    None if start == end => return None,
                    None => {
                        self.unterminated |= !nesting.is_outermost();
                        return Some(&self.text[start..]);
                    }
                }
            }
        }
    }
}

/// Where a statement is: how deep in parentheses (CREATE RULE has its commands there), and whether in the BEGIN ATOMIC
/// body of a function. Semicolons there end no statement.
///
/// Within a body, each statement has a semicolon behind it, and no statement begins with END. So END ends the body if
/// it stands behind a semicolon or ATOMIC; elsewhere it ends a CASE, or is a label (`select 1 end`). CASE need not be
/// counted: it may be a label, too.
#[derive(Debug, Clone, Default)]
struct Nesting {
    parentheses: usize,
    in_body: bool,
    last: Last,
    routine: Routine,
}

/// How the last token affects the next.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Last {
    #[default]
    Other,
    Begin,
    /// In a body: a semicolon, or the ATOMIC that begins the body.
    StatementEnd,
}

/// The part of CREATE [ OR REPLACE ] { FUNCTION | PROCEDURE } that was read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Routine {
    #[default]
    Start,
    Create,
    Yes,
    No,
}

impl Nesting {
    fn is_outermost(&self) -> bool {
        self.parentheses == 0 && !self.in_body
    }

    fn follow(&mut self, token: Token<'_>) {
        match token {
            Token::Byte(b'(') => self.parentheses += 1,
            Token::Byte(b')') => self.parentheses = self.parentheses.saturating_sub(1),
            _ => {}
        }
        if self.routine == Routine::No {
            return;
        }
        self.routine = match self.routine {
            Routine::Start if token.is("create") => Routine::Create,
            Routine::Create if token.is("or") || token.is("replace") => Routine::Create,
            Routine::Create if token.is("function") || token.is("procedure") => Routine::Yes,
            Routine::Yes => Routine::Yes,
            _ => Routine::No,
        };
        let last = std::mem::take(&mut self.last);
        match token {
            _ if self.routine != Routine::Yes || self.parentheses > 0 => {}
            Token::Byte(b';') => self.last = Last::StatementEnd,
            _ if self.in_body => self.in_body = !(last == Last::StatementEnd && token.is("end")),
            _ if token.is("begin") => self.last = Last::Begin,
            _ if token.is("atomic") && last == Last::Begin => {
                self.in_body = true;
                self.last = Last::StatementEnd;
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn split(text: &str) -> Vec<&str> {
        Statements::new(text.as_bytes(), false)
            .map(|s| std::str::from_utf8(s).unwrap())
            .collect()
    }

    #[test]
    fn semicolons_outside_of_quotes_and_parentheses_end_statements() {
        assert_eq!(split(""), [""; 0]);
        assert_eq!(split(" ; ;; -- x"), [""; 0]);
        assert_eq!(split("select 1"), ["select 1"]);
        assert_eq!(split("; a; /* ; */ b ;"), ["a", "b"]);
        assert_eq!(
            split("a ';' \";\" $$;$$ e'\\';' -- ;\n; b"),
            ["a ';' \";\" $$;$$ e'\\';'", "b"]
        );
        assert_eq!(split("create rule r as on insert to t do (a; b); c").len(), 2);
    }

    #[test]
    fn a_deallocate_that_only_one_reading_shows_is_found() {
        let names = |text: &str| deallocated::<Vec<_>>(text.as_bytes());
        let s1 = || vec![b"s1".to_vec().into_boxed_slice()];
        assert_eq!(names("select 1; deallocate s1"), s1());
        assert_eq!(names(r"select 'a\''; deallocate s1 --'"), s1());
        assert_eq!(names(r"select '\', e'\''; deallocate s1"), s1());
        assert!(names(r"deallocate s1; select 'a\''; deallocate s2 --'").is_empty());
        assert!(names("select 'deallocate s1'").is_empty());
    }

    #[test]
    fn a_deallocate_all_counts_if_only_the_commit_is_behind_it() {
        for text in [
            "select 1; deallocate all",
            "a; /* ; */ DEALLOCATE prepare ALL ; -- x",
            "'\\'; deallocate all",
        ] {
            assert!(may_end_with_deallocate_all(text.as_bytes()), "{text}");
        }
        for text in [
            "deallocate all;",
            "a; deallocate b",
            "a; deallocate all; b",
            "a; discard plans",
            "",
        ] {
            assert!(!may_end_with_deallocate_all(text.as_bytes()), "{text}");
        }
    }

    #[test]
    fn a_deallocate_counts_the_statements_in_front_of_it() {
        for (text, others) in [
            ("select 1; deallocate all", Some(1)),
            ("a; b;; /* ; */ DEALLOCATE prepare x ; -- c", Some(2)),
            ("deallocate all", None),
            ("; deallocate a", None),
            ("deallocate a; b", None),
            ("a; discard all", None),
            ("", None),
        ] {
            assert_eq!(statements_before_deallocate(text.as_bytes()), others, "{text}");
        }
    }

    #[test]
    fn a_function_body_is_one_statement_whatever_is_called_end() {
        let create = "create or replace function f() returns int begin atomic";
        for body in [
            "select case when a then 1 end; select t.end, 1 as end, 2 as case; return 1; end",
            "select 1 case; end",
            "select 1 case, a end, 2 end; END",
            "select t.* case; select case when (select 1 end) then 2 end end; end",
            "select distinct on (a) case a when 1 then 2 end from t; end",
            "select (select 1 case); select 'x' case from (select 1 end) end; /* ; */ end",
            "select \"a\" case; select x.case case; select case case when 1 then 2 end when 3 then 4 end; end",
            "end",
            "; ; end",
            "insert into t values (1) returning a case; select case; end",
        ] {
            let body = format!("{create} {body}");
            assert_eq!(split(&format!("{body}; set x = 1")), [&body, "set x = 1"]);
        }
    }

    /// A text without the END of a body is one that the server refuses.
    #[test]
    fn a_body_without_its_end_hides_no_statement() {
        for text in [
            "create function f() returns int begin atomic select 1 end; set x = 1",
            "create function f() returns int begin atomic select (1; end; set x = 1",
        ] {
            assert_eq!(statements(text.as_bytes()), None, "{text}");
        }
    }

    /// BEGIN is not a reserved word: a function of that name must not swallow the text after it.
    #[test]
    fn a_function_called_begin_has_no_body() {
        assert_eq!(
            split("create function begin() returns int return 1; set x = 1").len(),
            2
        );
        assert_eq!(
            split("create function f(begin atomic) returns int return 1; set x = 1").len(),
            2
        );
        assert_eq!(split("begin; atomic; set x = 1").len(), 3);
    }

    proptest! {
        #[test]
        fn splitting_again_changes_nothing(text in "[a-c';\"$()\\\\/*e \n-]{0,40}", backslashes: bool) {
            for statement in Statements::new(text.as_bytes(), backslashes) {
                let again: Vec<_> = Statements::new(statement, backslashes).collect();
                prop_assert_eq!(again, [statement]);
            }
        }

        #[test]
        fn every_semicolon_that_splits_is_left_out_and_nothing_else(parts in proptest::collection::vec("[a-z' ]{0,9}", 0..5)) {
            let statements: Vec<String> = parts.iter().map(|p| format!("a {}z", p.replace('\'', "''"))).collect();
            let text = statements.join(";");
            prop_assert_eq!(split(&text), statements);
        }
    }

    #[test]
    fn a_block_stays_open_unless_its_text_ends_it() {
        for open in [
            "begin",
            "START TRANSACTION isolation level serializable",
            "begin; set local work_mem = '1MB'",
            "commit; begin",
            "begin; savepoint a; rollback to a",
            "begin; commit and chain",
            r"select '\'; begin; --'",
            r"select '\'' ; begin; select '\''",
        ] {
            assert!(leaves_block_open(open.as_bytes()), "{open}");
        }
        for ended in [
            "select 1",
            "begin; select 1; commit",
            "begin; end",
            "start",
            "begin; prepare transaction 'x'",
            r"select 'C:\'",
            "",
        ] {
            assert!(!leaves_block_open(ended.as_bytes()), "{ended}");
        }
    }

    /// Guards against strings that end with a backslash, each of which counted as a COMMIT PREPARED: all servers were
    /// replaced, and listeners lost.
    #[test]
    fn two_phase_commit_is_found_under_each_reading() {
        for text in [
            "commit prepared 'x'",
            r"select 'C:\'; commit prepared 'x'",
            r"select '\'; commit prepared 'x'; --'",
            r"select '\'''; commit prepared 'x'; --'",
            "commit prepared 'x",
            r"select '\''; /*",
        ] {
            assert!(commits_prepared(text.as_bytes()), "{text}");
        }
        for text in [
            r"select 'C:\'",
            r"select a like '\', 'b'",
            r"select e'\'', 'commit prepared x'",
            "commit",
        ] {
            assert!(!commits_prepared(text.as_bytes()), "{text}");
            assert!(!prepares_transaction(text.as_bytes()), "{text}");
        }
    }
}
