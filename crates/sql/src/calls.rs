//! The functions that a text calls by name.
//!
//! A call must be proven harmless. The word before a parenthesis is one of: a word of the grammar; one of PostgreSQL's
//! own functions that is on the list of harmless ones ([`crate::harmless_names`]) or has known effects
//! ([`crate::names`]); the name that a list of columns belongs to; something else. The catalog of the database judges
//! the last kind.

use crate::built_in::{Known, is_word_byte, last_word, look_up};
use crate::effects::Effects;
use crate::lexer::{Lexer, Token};
use crate::names;
use memchr::{memchr_iter, memmem, memrchr};

/// The effects of unread code. No server can tell afterwards which seed and which custom settings it has made.
pub const UNREAD: Effects = Effects::CODE.union(Effects::UNTOLD).union(Effects::SEED);

/// Words before a name that is not a function's, although a parenthesis with columns, arguments or options follows.
const NAMING: [&str; 24] = [
    "into",
    "as",
    "table",
    "view",
    "function",
    "procedure",
    "routine",
    "aggregate",
    "references",
    "copy",
    "analyze",
    "analyse",
    "vacuum",
    "exists",
    "only",
    "type",
    "collation",
    "statistics",
    "recursive",
    "with",
    "ordinality",
    "configuration",
    "execute",
    "prepare",
];

/// Further such words in a statement that begins with CREATE.
const NAMING_IN_CREATE: [&str; 2] = ["on", "using"];

/// The words that can follow the parenthesis of a WITH query.
const QUERIES: [&str; 8] = [
    "select", "values", "insert", "update", "delete", "merge", "table", "with",
];

/// Whether the word before each parenthesis of this text is surely harmless. This is a quick look backwards from each
/// parenthesis. The text contains no `U&"`. `false` proves nothing.
pub(crate) fn surely_harmless(text: &[u8]) -> bool {
    memchr_iter(b'(', text).all(|at| {
        let (before, lines) = without_space(&text[..at]);
        let harmless = match before.last() {
            Some(b'"') => behind_into(before),
            // The end of a comment, or white space that only some versions know.
            Some(b'/' | 0x0b) => false,
            Some(b) if is_word_byte(*b) => {
                let (rest, _, known) = last_word(before);
                match rest.last() {
                    _ if known.is_doubtful() => false,
                    _ if known == Known::NOTHING => behind_into(before),
                    Some(b'.' | b'/' | 0x0b) => false,
                    Some(b' ' | b'\n' | b'\t' | b'\r' | 0x0c) => {
                        let (rest, _) = without_space(rest);
                        !matches!(rest.last(), Some(b'.' | b'/' | 0x0b))
                    }
                    _ => true,
                }
            }
            _ => true,
        };
        // After a line break, the word may be the end of a comment.
        harmless && (!lines || memmem::find(&text[..at], b"--").is_none())
    })
}

/// Whether the name that ends here follows INTO.
fn behind_into(mut before: &[u8]) -> bool {
    // A dollar sign may end a string that contains this INTO.
    if before.contains(&b'$') {
        return false;
    }
    loop {
        let rest = if let Some(quoted) = before.strip_suffix(b"\"") {
            match memrchr(b'"', quoted) {
                Some(at) if !look_up(&quoted[at + 1..]).is_doubtful() => &quoted[..at],
                _ => return false,
            }
        } else {
            last_word(before).0
        };
        // No name is there, or a digit comes before it.
        if before[rest.len()..].first().is_none_or(u8::is_ascii_digit) {
            return false;
        }
        if let Some(schema) = rest.strip_suffix(b".") {
            before = schema;
            continue;
        }
        let (rest, lines) = without_space(rest);
        return !lines && last_word(rest).1.eq_ignore_ascii_case(b"into");
    }
}

/// A text without its trailing white space, and whether that contained line breaks.
fn without_space(text: &[u8]) -> (&[u8], bool) {
    let mut end = text.len();
    let mut lines = false;
    while end > 0 && matches!(text[end - 1], b' ' | b'\t' | b'\n' | b'\r' | 0x0c) {
        lines |= matches!(text[end - 1], b'\n' | b'\r');
        end -= 1;
    }
    (&text[..end], lines)
}

/// The effects of one of PostgreSQL's own functions on the session of its caller, for unknown arguments. Whether it
/// calls nextval(), or only asks for something, is left out.
pub fn effects_of_own(name: &[u8]) -> Effects {
    let found = names::search(name).public();
    let known = look_up(name);
    if found.intersects(Effects::SETTINGS) {
        found | Effects::UNTOLD
    } else if !found.is_empty() {
        found.without(Effects::DRAWS | Effects::SEQUENCE | Effects::CURRENT_SETTING | Effects::TEMPORARY_SCHEMA)
    } else if known.is_harmless() {
        Effects::NONE
    } else {
        UNREAD
    }
}

/// What comes before a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Front {
    /// A word that shows that the name is not a function's.
    Naming,
    /// A comma in a list of expressions or of WITH queries.
    Comma,
    Other,
}

/// A call of something that is not one of PostgreSQL's own functions, as far as the text shows.
pub(crate) struct Foreign<'a> {
    /// The name as the catalog holds it; `None` if it is written with escapes.
    pub(crate) name: Option<Box<[u8]>>,
    /// The text after the opening parenthesis.
    pub(crate) arguments: Lexer<'a>,
    /// Whether it must be a function, because no list of columns can stand here.
    pub(crate) is_call: bool,
}

/// The effects of PostgreSQL's own functions that a text calls, except those named in [`crate::names`]; and
/// [`Effects::ROUTINES`] if the text calls other functions.
pub(crate) fn effects(text: &[u8], backslashes: bool) -> Effects {
    let mut effects = Effects::NONE;
    each_foreign(text, backslashes, |doubtful, foreign| {
        if doubtful || foreign.name.is_none() {
            effects |= UNREAD;
        } else if foreign.is_call {
            effects |= Effects::ROUTINES;
        }
    });
    effects
}

/// Calls `look` with every name before a parenthesis that is neither a word of the grammar nor a harmless function of
/// PostgreSQL's own. The first argument says whether the name is doubtful.
pub(crate) fn each_foreign<'a>(text: &'a [u8], backslashes: bool, mut look: impl FnMut(bool, Foreign<'a>)) {
    let mut lexer = Lexer::with_backslashes(text, backslashes);
    let creates = lexer.peek().is_some_and(|t| t.is("create"));
    let mut last = Token::Number;
    let mut before_last = Token::Number;
    let mut front = Front::Other;
    // Schema and name, with the token before each.
    let mut schema = None;
    let mut name: Option<Token<'a>> = None;
    let mut dotted = false;
    while let Some(token) = lexer.next() {
        match token {
            Token::Word(_) | Token::Quoted(_) | Token::UnicodeQuoted => {
                if dotted {
                    schema = name;
                } else {
                    schema = None;
                    front = front_of(last, before_last, creates);
                }
                name = Some(token);
                dotted = false;
            }
            Token::Byte(b'.') if name.is_some() && !dotted => dotted = true,
            Token::Byte(b'(') => {
                if let Some(name) = name.filter(|_| !dotted)
                    && let Some((doubtful, name)) = judged(schema, name)
                {
                    let names_query = || {
                        let ahead = lexer.clone();
                        front == Front::Comma && is_query_s(ahead)
                    };
                    let is_call = front != Front::Naming && !names_query();
                    let arguments = lexer.clone();
                    look(
                        doubtful,
                        Foreign {
                            name,
                            arguments,
                            is_call,
                        },
                    );
                }
                (name, dotted) = (None, false);
            }
            _ => (name, dotted) = (None, false),
        }
        before_last = last;
        last = token;
    }
}

/// `None` for a word of the grammar and a harmless function; otherwise whether the name is doubtful, and the name.
fn judged(schema: Option<Token<'_>>, name: Token<'_>) -> Option<(bool, Option<Box<[u8]>>)> {
    if name == Token::UnicodeQuoted || schema == Some(Token::UnicodeQuoted) {
        return Some((true, None));
    }
    let own_schema = schema.and_then(|s| s.identifier());
    let own = match &own_schema {
        None => schema.is_none(),
        Some(schema) => matches!(&**schema, b"pg_catalog" | b"information_schema"),
    };
    let identifier = name.identifier()?;
    let known = match name {
        // Quoted letters keep their case.
        Token::Quoted(_) if identifier.iter().any(u8::is_ascii_uppercase) => Known::NOTHING,
        _ => look_up(&identifier),
    };
    let key_word = known.is_key_word() && schema.is_none() && matches!(name, Token::Word(_));
    if key_word || own && known.is_harmless() || !names::search(&identifier).is_empty() {
        return None;
    }
    Some((known.is_doubtful(), Some(identifier)))
}

fn front_of(last: Token<'_>, before_last: Token<'_>, creates: bool) -> Front {
    match last {
        Token::Byte(b',') => Front::Comma,
        // A cast to a type with modifiers, or an alias.
        Token::Byte(b':') if before_last == Token::Byte(b':') => Front::Naming,
        Token::Byte(b')' | b']') | Token::Quoted(_) | Token::UnicodeQuoted => Front::Naming,
        Token::Word(word) => {
            let is = |words: &[&str]| words.iter().any(|w| word.eq_ignore_ascii_case(w.as_bytes()));
            if is(&NAMING) || creates && is(&NAMING_IN_CREATE) || !look_up(word).is_key_word() && !is(&CODE_WORDS) {
                Front::Naming
            } else {
                Front::Other
            }
        }
        _ => Front::Other,
    }
}

/// Words of PL/pgSQL that SQL does not have, and that an expression follows.
const CODE_WORDS: [&str; 10] = [
    "perform", "elsif", "elseif", "while", "assert", "raise", "exit", "slice", "reverse", "strict",
];

/// Whether the text after a parenthesis is the list of columns of a WITH query: `a, b) AS (SELECT`.
fn is_query_s(mut lexer: Lexer<'_>) -> bool {
    loop {
        match lexer.next() {
            Some(Token::Word(_) | Token::Quoted(_) | Token::Byte(b',')) => {}
            Some(Token::Byte(b')')) => break,
            _ => return false,
        }
    }
    if !lexer.accept("as") {
        return false;
    }
    lexer.accept("not");
    lexer.accept("materialized");
    let opens = lexer.next() == Some(Token::Byte(b'('));
    opens
        && lexer
            .next()
            .is_some_and(|t| t == Token::Byte(b'(') || QUERIES.iter().any(|q| t.is(q)))
}

/// The names of the routines that a text surely calls, as the catalog holds them, each once.
pub fn called(text: &[u8]) -> Vec<Box<[u8]>> {
    let mut names = Vec::new();
    for backslashes in [false, true] {
        each_foreign(text, backslashes, |_, foreign| {
            if foreign.is_call
                && let Some(name) = foreign.name
                && !names.contains(&name)
            {
                names.push(name);
            }
        });
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(text: &str) -> Effects {
        effects(text.as_bytes(), false)
    }

    #[test]
    fn what_calls_only_what_is_harmless_has_no_effects() {
        for text in [
            "select count(*), max(a), coalesce(b, now()) from t where a in (1, 2)",
            "insert into pgbench_history (tid, bid) values (1, 2)",
            "INSERT INTO \"public\".\"t\" (\"a\") VALUES (1)",
            "with a (b, c) as (select 1, 2), d(e) as materialized (select 3) select b from a, d",
            "with recursive r(n) as (values (1) union all select n + 1 from r) table r",
            "select * from generate_series(1, 3) with ordinality t(a, b)",
            "select * from (values (1)) v(a), unnest(array[1]) as w (b), pg_catalog.abs(1) x(c)",
            "create table t (a numeric(10, 2), b geometry(point), check (length(a) > 1))",
            "create index on t using hnsw (a vector_ops)",
            "create index i on s.t (lower(a))",
            "select a::geometry(point, 4326), cast(a as halfvec(3))",
            "select 'foo(1)', $$bar(2)$$ /* baz(3) */ -- qux(4)",
            "create function f(a int) returns int language sql as 'select 1'",
            "alter table t add foreign key (a) references u (b)",
            "copy t (a, b) from stdin",
            "insert into t values (1) on conflict (a) do update set (a, b) = (1, 2)",
            "select sum(a) filter (where b) over (partition by c), extract(year from d), trim(both from e)",
            "select (select 1), (a).b, a[(1)], -(1), not (a and (b or (c)))",
            "select \"count\"(*), information_schema._pg_expandarray(a)",
        ] {
            assert_eq!(of(text), Effects::NONE, "{text}");
        }
    }

    /// Guards against a call that was taken for the list of columns after INTO.
    #[test]
    fn an_into_in_a_dollar_quoted_string_is_none() {
        for text in ["$a$)into $a$query_to_xml(", "select $$ into $$query_to_xml('')"] {
            assert!(!surely_harmless(text.as_bytes()), "{text}");
            assert!(of(text).intersects(Effects::CODE), "{text}");
        }
    }

    #[test]
    fn what_is_no_plain_name_behind_into_is_looked_at() {
        for text in [
            "into .query_to_xmlselect (",
            "into 1f(",
            "into s.1f(",
            "into \"query_to_xml\"(",
        ] {
            assert!(!surely_harmless(text.as_bytes()), "{text}");
        }
        assert!(surely_harmless(b"insert into s.t ("));
    }

    #[test]
    fn what_nobody_has_reviewed_is_not_harmless() {
        for text in [
            "select f(1)",
            "select s.count(1)",
            "select \"COUNT\"(1)",
            "select * from a, lateral g(a)",
            "select 1 from t join f(1) on g(2)",
            "select a, f(b) as x from t",
            "select * from a, crosstab('x') as (a int)",
            "delete from t using f(1)",
            "perform f(1)",
            "select f /* */ -- x\n (1)",
            "select case when f(1) then 2 end",
        ] {
            assert_eq!(of(text), Effects::ROUTINES, "{text}");
        }
        for text in [
            "select query_to_xml('select 1', true, true, '')",
            "select pg_catalog.\"ts_stat\" ('select 1')",
            "select public.ts_rewrite('a', 'select 1')",
            "insert into table_to_xml (a) values (1)",
            "select u&\"\\0061bs\"(1)",
        ] {
            assert!(of(text).contains(UNREAD), "{text}");
        }
    }

    #[test]
    fn the_quick_look_knows_the_statements_that_are_sent_most() {
        for text in [
            "insert into pgbench_history (tid, bid) values (1, current_timestamp)",
            "INSERT INTO \"public\".\"t\" (\"a\") VALUES ('a'), ('b')",
            "insert into s.t(a) values (1)",
            "select count(*) from t where a in (1, 2)\n and (b = 1)",
            "select lower(a) from t where exists (select 1)",
        ] {
            assert!(surely_harmless(text.as_bytes()), "{text}");
        }
        for text in [
            "select f(1)",
            "select \"f\"(1)",
            "select s.abs(1)",
            "select s . abs (1)",
            "select query_to_xml -- abs\n(1)",
            "select query_to_xml/* */(1)",
            "select query_to_xml\x0b(1)",
            "-- insert into\n\"f\" (1)",
            "select a into\n\"f\"(1) -- x",
        ] {
            assert!(!surely_harmless(text.as_bytes()), "{text}");
        }
    }

    #[test]
    fn routines_are_named_as_the_catalog_holds_them() {
        let named = called(b"select F(1), s.\"G\"(2), abs(3), f (4)");
        assert_eq!(named, [b"f"[..].into(), b"G"[..].into()]);
    }

    /// White space, comments and quotes, wherever a call may contain them.
    fn between() -> impl Strategy<Value = String> {
        prop::sample::select(vec![
            "",
            " ",
            "\n",
            "\t ",
            "/* abs */",
            " -- abs\n",
            "/* ( */ ",
            "/* /* */ */",
            "\r\n",
        ])
        .prop_map(String::from)
    }

    proptest! {
        /// If a call is missed, its session state is lost.
        #[test]
        fn no_call_slips_through(
            front in prop::sample::select(vec![
                "select ", "select abs(1), ", "insert into t (a) values (", "select 'x(' || ", "select 1 + ",
                "/* ( */ select ", "select \"a b\", ", "select $a$ ' $a$, ", "select e'\\'', ",
            ]),
            schema in prop::sample::select(vec!["", "public", "\"Odd one\"", "pg_catalog", "PG_CATALOG", "\"pg_catalog\""]),
            name in prop::sample::select(vec!["query_to_xml", "ts_stat", "\"query_to_xml\"", "Schema_To_Xml", "set_tenant", "\"F\""]),
            (one, two, three) in (between(), between(), between()),
        ) {
            let schema = if schema.is_empty() { String::new() } else { format!("{schema}{one}.{two}") };
            let text = format!("{front}{schema}{name}{three}(1)");
            prop_assert!(!surely_harmless(text.as_bytes()), "{}", text);
            prop_assert!(of(&text).intersects(UNREAD | Effects::ROUTINES), "{}", text);
        }

        /// The quick look finds nothing harmless that the full reading does not.
        #[test]
        fn the_quick_look_lets_nothing_through(text in "(select |into |f|abs|\\(|\\)|\"|'| |\n|--|/\\*|\\*/|\\.|,|1|query_to_xml|\\$a\\$){0,16}") {
            if surely_harmless(text.as_bytes()) {
                prop_assert_eq!(of(&text), Effects::NONE, "{}", text);
            }
        }
    }
}
