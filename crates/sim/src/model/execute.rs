//! Running statements.

use super::audit;
use super::code::Code;
use super::cursor::{Cursor, Rows};
use super::error::ServerError;
use super::session::{Caller, Phase, Session};
use super::statement::{Column, Prepared, Statement};
use super::transaction::{Block, Shared};
use super::value::Value;
use super::views::CHANNELS_LISTED;
use pgweir_wire::Writer;

/// A statement that is ready to run.
#[derive(Debug)]
pub(super) enum Plan {
    /// The empty query.
    Empty,
    /// One that returns rows.
    Cursor(Cursor),
    /// One that does not.
    Utility(Statement),
}

/// The outcome of running a plan.
#[derive(Debug)]
pub(super) enum Ran {
    /// It has ended; this is its command tag.
    Done(String),
    /// The row limit was reached.
    Suspended,
    /// It needs CopyData.
    CopyIn,
    /// It is busy.
    Sleep { us: u64 },
}

impl Session {
    /// 25P02 for statements that a failed transaction refuses.
    pub(super) fn refuse_if_failed(&self, statement: &Statement) -> Result<(), ServerError> {
        if self.transaction.block == Block::Failed && !statement.is_transaction_exit() {
            return Err(failed_transaction());
        }
        Ok(())
    }

    /// PortalStart: the rows of the table are those of this moment.
    pub(super) fn plan(&mut self, shared: &Shared, statement: Option<Statement>) -> Plan {
        match statement {
            None => Plan::Empty,
            Some(Statement::Select(select)) => Plan::Cursor(self.cursor(shared, select)),
            Some(Statement::Show(name)) => Plan::Cursor(Cursor {
                items: Vec::new(),
                rows: Rows::Show(name),
                is_show: true,
            }),
            Some(Statement::Sleep { seconds }) => Plan::Cursor(Cursor {
                items: Vec::new(),
                rows: Rows::Sleep {
                    us: (seconds * 1e6) as u64,
                },
                is_show: false,
            }),
            Some(Statement::TiesOf { locks, but, parsed }) => rows_alone(Rows::Ties { locks, but, parsed }),
            Some(Statement::Remains { seeds }) => {
                if seeds {
                    self.left.seed_anew();
                }
                rows_alone(Rows::Remains)
            }
            Some(Statement::MadeAnd(names)) => rows_alone(Rows::Made(names)),
            Some(Statement::CallChanging) => rows_alone(Rows::Changing(self.code(shared))),
            Some(Statement::Vault) => rows_alone(super::rights::rows()),
            Some(Statement::Position) => {
                let in_recovery = if self.on_replica { "t" } else { "f" };
                let position = format!("0/{:X}", shared.position(self.on_replica));
                let row = [in_recovery, &position].map(|value| Value::Text(value.into()));
                rows_alone(Rows::Given([row.into()].into()))
            }
            Some(Statement::Objects) => rows_alone(Code::object()),
            Some(Statement::Sources) => rows_alone(self.code(shared).source_row()),
            Some(Statement::Channels) => {
                let channels = self
                    .channels
                    .iter()
                    .take(CHANNELS_LISTED)
                    .map(|c| vec![Value::Text(c.clone())]);
                rows_alone(Rows::Given(channels.collect()))
            }
            Some(Statement::Execute(name)) => {
                let prepared = self.statements.get(name.as_bytes()).cloned();
                let planned = prepared
                    .ok_or_else(|| missing_statement(name.as_bytes()))
                    .and_then(|prepared| {
                        can_be_executed(&name, &prepared)?;
                        self.still_there(&prepared)?;
                        prepared.plan(&[])
                    });
                match planned {
                    Ok(statement) => self.plan(shared, statement),
                    Err(e) => Plan::Utility(Statement::Invalid(e)),
                }
            }
            Some(statement) => Plan::Utility(statement),
        }
    }

    /// The function as this transaction sees it.
    fn code(&self, shared: &Shared) -> Code {
        self.transaction.code.unwrap_or_else(|| shared.code(self.on_replica))
    }

    pub(super) fn row_description(&mut self, columns: &[Column], binary: &[bool]) {
        self.out.write(|w| {
            w.message(b'T', |b| {
                b.extend((columns.len() as u16).to_be_bytes());
                for (column, binary) in columns.iter().zip(binary) {
                    b.extend_from_slice(column.name.as_bytes());
                    b.push(0);
                    let table = if column.attribute > 0 { TABLE_OID } else { 0 };
                    b.extend(table.to_be_bytes());
                    b.extend(column.attribute.to_be_bytes());
                    b.extend(column.of.oid().to_be_bytes());
                    b.extend(column.of.bytes().to_be_bytes());
                    b.extend((-1i32).to_be_bytes());
                    b.extend(i16::from(*binary).to_be_bytes());
                }
            });
        });
    }

    /// Runs a plan, up to `rows_max` rows (0 is all).
    pub(super) fn run(
        &mut self,
        shared: &mut Shared,
        plan: &mut Plan,
        rows_max: u64,
        binary: &[bool],
    ) -> Result<Ran, ServerError> {
        self.running = audit::token(plan).map(str::to_string);
        if let Some(token) = self.running.clone() {
            let settings = self.settings.snapshot();
            if matches!(
                self.transaction.block,
                Block::Default | Block::Started | Block::Implicit
            ) {
                self.unsynced.push(token.clone());
            }
            self.ran.push(audit::Ran { token, settings });
        }
        match plan {
            Plan::Empty => unreachable!("the empty query does not run"),
            Plan::Cursor(cursor) => {
                let is_show = cursor.is_show;
                let mut sent = 0u64;
                loop {
                    if rows_max > 0 && sent == rows_max {
                        return Ok(Ran::Suspended);
                    }
                    if let Rows::Sleep { us } = cursor.rows {
                        cursor.rows = Rows::One(Value::Text(String::new()));
                        return Ok(Ran::Sleep { us });
                    }
                    let Some(row) = self.next_row(cursor)? else {
                        let tag = if is_show {
                            "SHOW".into()
                        } else {
                            format!("SELECT {sent}")
                        };
                        return Ok(Ran::Done(tag));
                    };
                    sent += 1;
                    let values: Vec<Option<Vec<u8>>> = row
                        .iter()
                        .enumerate()
                        .map(|(index, (value, of))| self.written(value, *of, binary.get(index) == Some(&true)))
                        .collect();
                    self.out
                        .write(|w| w.data_row(values.len(), values.iter().map(Option::as_deref)));
                }
            }
            Plan::Utility(statement) => {
                let statement = statement.clone();
                self.run_utility(shared, statement)
            }
        }
    }

    pub(super) fn sleep(&mut self, until_us: u64, caller: Caller) {
        self.phase = Phase::Sleeping(until_us, caller);
    }
}

fn rows_alone(rows: Rows) -> Plan {
    Plan::Cursor(Cursor {
        items: Vec::new(),
        rows,
        is_show: false,
    })
}

/// The table's OID in RowDescription: the first one that a new database assigns.
const TABLE_OID: u32 = 16384;

/// CopyInResponse or CopyOutResponse in text format.
pub(super) fn copy_response(w: &mut Writer<'_>, tag: u8, columns: usize) {
    w.message(tag, |b| {
        b.push(0);
        b.extend((columns as u16).to_be_bytes());
        b.extend(std::iter::repeat_n(0, columns * 2));
    });
}

pub(super) fn failed_transaction() -> ServerError {
    ServerError::error(
        "25P02",
        "current transaction is aborted, commands ignored until end of transaction block",
    )
}

/// The model's EXECUTE has no parameters, and its statement must be a query.
fn can_be_executed(name: &str, prepared: &Prepared) -> Result<(), ServerError> {
    if !prepared.params.is_empty() {
        let message = format!("wrong number of parameters for prepared statement \"{name}\"");
        return Err(ServerError::error("42601", message));
    }
    match prepared.statement {
        Some(
            Statement::Select(_)
            | Statement::Insert { .. }
            | Statement::Update { .. }
            | Statement::Delete { .. }
            | Statement::InsertTemporary { .. }
            | Statement::Execute(_),
        ) => Ok(()),
        _ => Err(ServerError::error("0A000", "the model executes queries only")),
    }
}

pub(super) fn missing_statement(name: &[u8]) -> ServerError {
    ServerError::error(
        "26000",
        match name {
            b"" => "unnamed prepared statement does not exist".into(),
            name => format!(
                "prepared statement \"{}\" does not exist",
                String::from_utf8_lossy(name)
            ),
        },
    )
}
