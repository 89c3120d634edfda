//! The functions of the database: `changing()`, which clients replace while others call it, and `folded()`; and a view,
//! `changes`, which calls `changing()`.

use super::cursor::Rows;
use super::statement::Statement;
use super::value::Value;

/// What `changing()` does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Code {
    #[default]
    Harmless,
    /// It sets a setting that its source names.
    Told,
    /// It sets a setting whose name its source computes.
    Untold,
}

/// The beginning of a definition; the source and [`END`] follow.
const DEFINE: &str = "create or replace function changing() returns text language sql as $$";

const END: &str = "$$";

/// A text that calls the function.
const CALL: &str = "select changing()";

/// One that calls it after a while.
const CALL_LATER: &str = "select pg_sleep(0.05); select changing()";

/// A text that calls the function without naming it: the query of a view names it.
const CALL_BY_VIEW: &str = "select changing from changes";

/// The function's OID.
const OID: &str = "16400";

/// The view's OID.
const VIEW_OID: &str = "16402";

/// The OID and the source of `folded()`, which [`super::left_behind`] describes.
const FOLDED_OID: &str = "16401";
const FOLDED: &str = "begin if random() < 2 and '01/02/2024'::date > '2000-01-01' then return $1; end if; end";

impl Code {
    const ALL: [Code; 3] = [Code::Harmless, Code::Told, Code::Untold];

    fn source(self) -> &'static str {
        match self {
            Code::Harmless => "select 'x'",
            Code::Told => "select set_config('app.user', 'evil', false)",
            Code::Untold => "select set_config('app' || '.untold', 'evil', false)",
        }
    }

    /// The setting that it sets, and the value.
    pub(super) fn sets(self) -> Option<(&'static str, &'static str)> {
        match self {
            Code::Harmless => None,
            Code::Told => Some(("app.user", "evil")),
            Code::Untold => Some(("app.untold", "evil")),
        }
    }

    /// The row for the pooler's reading of all objects.
    pub(super) fn object() -> Rows {
        let objects = [
            ["r", OID, "changing", "0"],
            ["r", FOLDED_OID, "folded", "0"],
            ["v", VIEW_OID, "changes", OID],
        ];
        rows(objects.map(|row| row.map(Some)))
    }

    /// The row for the pooler's reading of all sources.
    pub(super) fn source_row(self) -> Rows {
        rows([
            [Some(OID), Some("s"), Some(self.source()), Some("")],
            [Some(FOLDED_OID), Some("p"), Some(FOLDED), Some("")],
        ])
    }
}

fn rows<const N: usize, const ROWS: usize>(rows: [[Option<&str>; N]; ROWS]) -> Rows {
    let value = |v: Option<&str>| v.map_or(Value::Null, |v| Value::Text(v.into()));
    Rows::Given(
        rows.into_iter()
            .map(|row| row.into_iter().map(value).collect())
            .collect(),
    )
}

/// The statements of a text that defines or calls the function. Clients send no other spelling.
pub(super) fn statements(text: &str) -> Option<Vec<Statement>> {
    match text {
        CALL | CALL_BY_VIEW => return Some(vec![Statement::CallChanging]),
        CALL_LATER => return Some(vec![Statement::Sleep { seconds: 0.05 }, Statement::CallChanging]),
        _ => {}
    }
    let source = text.strip_prefix(DEFINE)?.strip_suffix(END)?;
    let code = Code::ALL.into_iter().find(|code| code.source() == source)?;
    Some(vec![Statement::Define(code)])
}

/// Texts that define the function, each another version.
pub fn definitions() -> [String; 3] {
    Code::ALL.map(|code| format!("{DEFINE}{}{END}", code.source()))
}

/// Texts that call the function. Only a Query can hold the last.
pub fn calls() -> [&'static str; 3] {
    [CALL, CALL_BY_VIEW, CALL_LATER]
}
