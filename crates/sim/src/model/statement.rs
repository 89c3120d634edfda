//! The statements that the model knows.
//!
//! ```text
//! select E, ...                                      one row
//! select E, ... from generate_series(E, E) g         E may name g
//! select generate_series(E, E)
//! select E, ... from kv [where k = E] [order by k]   E may name k and v
//! select pg_sleep(number)
//! insert into kv values (E, E)
//! update kv set v = E [where k = E]
//! delete from kv [where k = E]
//! copy kv from stdin | copy (select ...) to stdout
//! begin | start transaction | commit | end | rollback | abort [work | transaction] [and [no] chain]
//! savepoint s | rollback to [savepoint] s | release [savepoint] s
//! set [local | session] x = | to value | default,  reset x | all,  show x
//! prepare s as select | insert | update | delete ...,  execute s,  deallocate [prepare] s | all
//! discard all | plans | sequences | temp,  vacuum kv
//! alter table numN alter n type int4 | int8,  insert into numN values (E)
//! insert into later values (E)                       E is negative
//! create temp table t (v text) [on commit drop],  insert into t values (E),  drop table t
//! select E, ... | count(*) from t                     E may not name v; the names of such tables begin with tmp
//! declare c cursor with hold for select ...,  fetch [number] from c,  close c | all
//! listen c,  unlisten c | *,  notify c, 'text'
//! do $$begin raise notice | warning | exception 'text'; end$$
//! do $$begin perform E; end$$,  do $$begin execute 'statement'; end$$,  load 'plpgsql'
//!
//! E: number, 'text', null, true, false, $1, k, v, g, E + - * / E, E::int, E::text, (E), and the functions
//!    repeat(text, int), current_setting(text [, bool]), set_config(text, text, bool), pg_backend_pid(), count(*),
//!    nullif(text, text), pg_advisory_lock(int), pg_try_advisory_lock(int), pg_advisory_unlock(int),
//!    pg_advisory_unlock_all(), pg_advisory_xact_lock(int), setval('seq', int), currval('seq')
//! ```
//!
//! `kv` is `create table kv (k int primary key, v text)`, and for each number N there is `create table numN (n int)`, of
//! which only the type of the column is kept. `later` is `create table later (k int references kv deferrable initially
//! deferred)`. As kv has no negative keys, a transaction that inserts one there fails when it commits. No other table lasts. `seq` is the only sequence. Every function may be
//! qualified by `pg_catalog`. Settings are those of `settings/definitions.rs` and any name with a dot; under `plpgsql`
//! none, once code has loaded PL/pgSQL.
//!
//! There are no locks between concurrent sessions: each sees what others have committed, and the last writer wins. A
//! session that is not modelled holds the advisory locks on keys below 0. A session reads notifications between its
//! transactions. Internal questions about the session and about functions are known by their texts (`views.rs`).

use super::code::Code;
use super::error::ServerError;
use super::expression::Expression;
use super::objects::Announcement;
use super::value::{Type, Value};
use super::views::elements;

/// One statement.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Statement {
    Select(Select),
    Sleep {
        seconds: f64,
    },
    Insert {
        key: Expression,
        value: Expression,
    },
    Update {
        value: Expression,
        key: Option<Expression>,
    },
    Delete {
        key: Option<Expression>,
    },
    CopyIn,
    CopyOut(Select),
    Begin {
        tag: &'static str,
    },
    Commit {
        chain: bool,
    },
    Rollback {
        chain: bool,
    },
    Savepoint(String),
    RollbackTo(String),
    Release(String),
    Set {
        name: String,
        value: SetTo,
        local: bool,
    },
    ResetAll,
    Show(String),
    Deallocate(Option<String>),
    DiscardAll,
    /// DISCARD of one kind; its tag.
    Discard(&'static str),
    CreateTemporary {
        name: String,
        drop_on_commit: bool,
    },
    DropTable(String),
    InsertTemporary {
        name: String,
        value: Expression,
    },
    InsertNumber {
        table: u64,
        value: Expression,
    },
    InsertLater {
        key: Expression,
    },
    /// ALTER TABLE .. ALTER n TYPE.
    AlterNumber {
        table: u64,
        of: Type,
    },
    /// DECLARE .. WITH HOLD.
    Declare {
        name: String,
        select: Select,
    },
    Fetch {
        name: String,
        count: u64,
    },
    /// `None` is ALL.
    Close(Option<String>),
    Announce(Announcement),
    /// SQL-level PREPARE.
    Prepare {
        name: String,
        statement: Box<Statement>,
    },
    Execute(String),
    /// DO that evaluates an expression.
    Perform(Expression),
    /// DO that runs a statement.
    DoExecute(Box<Statement>),
    /// CREATE OR REPLACE FUNCTION changing().
    Define(Code),
    /// SELECT changing().
    CallChanging,
    /// See `rights.rs`.
    Vault,
    /// The pooler's readings of the catalog.
    Position,
    Objects,
    Sources,
    /// What the pooler resets after code that is not read.
    ResetSettings,
    /// See `views.rs`.
    Ties,
    Remains {
        /// random() gets a new seed before.
        seeds: bool,
    },
    Made,
    Channels,
    /// `Ties` with its parameters: whether to look for locks, which statements not to count, and whether those that
    /// were made by Parse count.
    TiesOf {
        locks: bool,
        but: Vec<String>,
        parsed: bool,
    },
    /// `Made` with its parameter.
    MadeAnd(Vec<String>),
    Vacuum,
    /// LOAD of PL/pgSQL.
    Load,
    Raise {
        severity: Raise,
        text: String,
    },
    /// A statement that the analyser refuses: a name in it does not exist.
    Invalid(ServerError),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum SetTo {
    /// SET x = value.
    Value(String),
    /// SET x TO DEFAULT.
    Default,
    /// RESET x.
    Reset,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Raise {
    Notice,
    Warning,
    Exception,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Select {
    pub(super) items: Vec<Expression>,
    pub(super) names: Vec<String>,
    pub(super) source: Source,
    /// `count(*)`: the one item is replaced by the number of rows.
    pub(super) count: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Source {
    /// One row without columns.
    Nothing,
    /// Rows with one column, from first to last.
    Series(Expression, Expression),
    /// The table.
    Table { key: Option<Expression> },
    /// A temporary table.
    Temporary(String),
    /// `pg_prepared_statements`: the names of the session's statements when the first row is asked for.
    PreparedStatements,
}

/// A column of a result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Column {
    pub(super) name: String,
    pub(super) of: Type,
    /// Attribute number in kv, or 0.
    pub(super) attribute: i16,
}

impl Statement {
    /// COMMIT, ROLLBACK, ROLLBACK TO: a failed transaction accepts them (`IsTransactionExitStmt`).
    pub(super) fn is_transaction_exit(&self) -> bool {
        matches!(
            self,
            Statement::Commit { .. } | Statement::Rollback { .. } | Statement::RollbackTo(_)
        )
    }

    /// A TransactionStmt: it is committed as soon as it has run.
    pub(super) fn is_transaction(&self) -> bool {
        self.is_transaction_exit()
            || matches!(
                self,
                Statement::Begin { .. } | Statement::Savepoint(_) | Statement::Release(_)
            )
    }

    /// The temporary table it reads or writes.
    pub(super) fn temporary_table(&self) -> Option<&str> {
        match self {
            Statement::InsertTemporary { name, .. } => Some(name),
            Statement::Select(Select {
                source: Source::Temporary(name),
                ..
            }) => Some(name),
            _ => None,
        }
    }

    /// The expressions that are planned at Bind; constant ones fail there.
    pub(super) fn expressions_mut(&mut self) -> Vec<&mut Expression> {
        match self {
            Statement::Select(select) => select.expressions_mut(),
            Statement::Insert { key, value } => vec![key, value],
            Statement::Update { value, key } => std::iter::once(value).chain(key).collect(),
            Statement::Delete { key } => key.iter_mut().collect(),
            Statement::InsertLater { key } => vec![key],
            Statement::InsertTemporary { value, .. } | Statement::InsertNumber { value, .. } => vec![value],
            Statement::Declare { select, .. } => select.expressions_mut(),
            _ => vec![],
        }
    }
}

impl Select {
    pub(super) fn expressions_mut(&mut self) -> Vec<&mut Expression> {
        let mut all: Vec<_> = self.items.iter_mut().collect();
        match &mut self.source {
            Source::Nothing | Source::Temporary(_) | Source::PreparedStatements => {}
            Source::Series(first, last) => all.extend([first, last]),
            Source::Table { key } => all.extend(key),
        }
        all
    }
}

/// A parsed and analysed statement: the content of a prepared statement.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Prepared {
    /// `None` is the empty query.
    pub(super) statement: Option<Statement>,
    pub(super) params: Vec<Type>,
    /// `None` if it returns no rows.
    pub(super) columns: Option<Vec<Column>>,
    /// Made by SQL-level PREPARE.
    pub(super) from_sql: bool,
    /// Its text is one that only the pooler sends.
    pub(super) is_of_pooler: bool,
}

impl Prepared {
    /// The statement with parameters in their places and constants folded.
    pub(super) fn plan(&self, params: &[Value]) -> Result<Option<Statement>, ServerError> {
        let mut statement = match (&self.statement, params) {
            (Some(Statement::Ties), [locks, Value::Text(names), parsed]) => Some(Statement::TiesOf {
                locks: *locks == Value::Bool(true),
                but: elements(names),
                parsed: *parsed == Value::Bool(true),
            }),
            (Some(Statement::Made), [Value::Text(names)]) => Some(Statement::MadeAnd(elements(names))),
            (statement, _) => statement.clone(),
        };
        for e in statement.iter_mut().flat_map(Statement::expressions_mut) {
            e.put_params(params);
            e.fold()?;
        }
        Ok(statement)
    }
}
