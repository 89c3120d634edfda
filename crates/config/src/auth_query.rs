//! auth_query: the query that looks up users, and whether all names in a query of one's own have their schema.
//!
//! Without `auth_dbname` the query runs in the database that a client asks for, as `auth_user`. The owner of a database
//! chooses its search_path, so he decides what names and operators without a schema mean there.

/// Reads nothing but what PostgreSQL's own catalog defines, whatever search_path the session has.
pub(crate) const DEFAULT: &str = "SELECT rolname, CASE WHEN rolvaliduntil OPERATOR(pg_catalog.<) pg_catalog.now() THEN NULL ELSE rolpassword END FROM pg_catalog.pg_authid WHERE rolname OPERATOR(pg_catalog.=) $1 AND rolcanlogin";

/// Words of the grammar that stand for operators, or are followed by the name of a type.
const HIDDEN_NAMES: [&str; 13] = [
    "any", "between", "cast", "collate", "distinct", "ilike", "in", "like", "nullif", "overlaps", "similar", "some",
    "using",
];

/// Words that may be in front of a parenthesis and are no function.
const NOT_CALLED: [&str; 18] = [
    "and", "as", "by", "case", "coalesce", "else", "exists", "from", "lateral", "not", "on", "operator", "or", "over",
    "select", "then", "when", "where",
];

/// The words behind which the list of tables ends.
const AFTER_TABLES: [&str; 9] = [
    "where", "on", "group", "order", "limit", "having", "union", "select", "offset",
];

/// A piece of a query.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Piece<'a> {
    /// An unquoted name or a word of the grammar.
    Word(&'a str),
    /// A name in double quotes.
    Quoted,
    /// A constant or a parameter.
    Value,
    Symbol(u8),
}

impl Piece<'_> {
    fn is(self, words: &[&str]) -> bool {
        matches!(self, Piece::Word(word) if words.iter().any(|w| word.eq_ignore_ascii_case(w)))
    }

    fn is_name(self) -> bool {
        matches!(self, Piece::Word(_) | Piece::Quoted)
    }
}

/// Whether each table, function, type and operator surely has its schema. A query in which this is hard to see does
/// not.
pub(crate) fn is_qualified(query: &str) -> bool {
    let Some(pieces) = pieces(query) else { return false };
    let at = |place: usize| pieces.get(place).copied().unwrap_or(Piece::Symbol(b';'));
    if !at(0).is(&["select"]) {
        return false;
    }
    let mut is_list_of_tables = false;
    for (place, &piece) in pieces.iter().enumerate() {
        let (before, next) = (at(place.wrapping_sub(1)), at(place + 1));
        let has_schema = before == Piece::Symbol(b'.');
        // OPERATOR(schema.+)
        let is_named_operator = has_schema
            && at(place.wrapping_sub(3)) == Piece::Symbol(b'(')
            && at(place.wrapping_sub(4)).is(&["operator"]);
        let is_star = piece == Piece::Symbol(b'*')
            && (before.is(&["select"]) || matches!(before, Piece::Symbol(b',' | b'.')))
            && (next.is(&["from"]) || next == Piece::Symbol(b','));
        let is_sound = match piece {
            Piece::Symbol(b'(' | b')' | b',' | b'.' | b';') | Piece::Value => true,
            Piece::Symbol(_) => is_named_operator || is_star,
            _ if has_schema => true,
            _ if piece.is(&HIDDEN_NAMES) => false,
            // A constant of a type.
            Piece::Word(word) if next == Piece::Value => is_word_before_values(word),
            _ if next == Piece::Symbol(b'(') => piece.is(&NOT_CALLED),
            _ => true,
        };
        if piece.is(&["from", "join"]) {
            is_list_of_tables = true;
        } else if piece.is(&AFTER_TABLES) {
            is_list_of_tables = false;
        }
        let begins_table =
            is_list_of_tables && (before.is(&["from", "join", "lateral"]) || before == Piece::Symbol(b','));
        let is_table = begins_table && piece.is_name() && !piece.is(&["lateral", "select"]);
        if !is_sound || is_table && next != Piece::Symbol(b'.') {
            return false;
        }
    }
    true
}

/// Whether a constant behind this word has no type of that name.
fn is_word_before_values(word: &str) -> bool {
    let words = [
        "select", "when", "then", "else", "and", "or", "not", "where", "limit", "case", "by",
    ];
    words.iter().any(|w| word.eq_ignore_ascii_case(w))
}

/// Takes a query apart; `None` if it has comments, escapes or other things that are hard to read.
fn pieces(query: &str) -> Option<Vec<Piece<'_>>> {
    let mut pieces = Vec::new();
    let mut rest = query;
    while let Some(first) = rest.bytes().next() {
        let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '$' || !c.is_ascii();
        let length = match first {
            b' ' | b'\t' | b'\n' | b'\r' => {
                rest = &rest[1..];
                continue;
            }
            b'\'' | b'"' => rest[1..].find(first as char)? + 2,
            _ => rest.find(|c| !is_word(c)).unwrap_or(rest.len()).max(1),
        };
        let (piece, behind) = rest.split_at(length);
        pieces.push(match first {
            b'"' => Piece::Quoted,
            b'\'' | b'0'..=b'9' => Piece::Value,
            b'$' if piece.len() > 1 && piece[1..].bytes().all(|b| b.is_ascii_digit()) => Piece::Value,
            b'$' => return None,
            _ if is_word(first as char) || !first.is_ascii() => Piece::Word(piece),
            _ => Piece::Symbol(first),
        });
        if piece.contains('\\') || rest.starts_with("--") || rest.starts_with("/*") {
            return None;
        }
        rest = behind;
    }
    Some(pieces)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_their_schema_are_found() {
        for query in [
            DEFAULT,
            "SELECT * FROM pgbouncer.user_lookup($1)",
            "select username, password from pgbouncer.get_auth($1) where true",
            "select u.name, u.secret from app.users u, lateral app.f(u.name) x where u.name operator(pg_catalog.=) $1 limit 1",
            "select a.*, 'x' from \"S\".\"T\" a join s.b on a.c operator ( pg_catalog.= ) b.c;",
        ] {
            assert!(is_qualified(query), "{query}");
        }
    }

    #[test]
    fn names_without_a_schema_are_found() {
        for query in [
            "SELECT rolname, CASE WHEN rolvaliduntil < now() THEN NULL ELSE rolpassword END FROM pg_authid WHERE rolname=$1 AND rolcanlogin",
            "SELECT usename, passwd FROM pg_catalog.pg_shadow WHERE usename=$1",
            "SELECT usename, passwd FROM pg_shadow WHERE usename OPERATOR(pg_catalog.=) $1",
            "SELECT usename, passwd FROM user_lookup($1)",
            "select lookup($1)",
            "select lower(a) from s.t",
            "select a, b from s.t, u",
            "select a, b from s.t join u on true",
            "select a, b from s.t where a in (select 'x')",
            "select a, b from s.t where a like $1",
            "select a, b from s.f($1::text)",
            "select a, b from s.f(cast($1 as text))",
            "select a, b from s.f(text 'x')",
            "select a, b from s.t where a operator(=) $1",
            "select a, b from s.t where (a, b) = (s.f($1), s.g($1))",
            "select a, s.b from s.t where a operator(pg_catalog.=) $1 and a||b is null",
            "select a, b from s.t where a /* = */ operator(pg_catalog.=) $1",
            "select a, b from (select * from t) x",
            "table users",
            "select a * b from s.t",
        ] {
            assert!(!is_qualified(query), "{query}");
        }
    }
}
