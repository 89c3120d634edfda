//! Running statements.

use super::audit;
use super::error::ServerError;
use super::expression::{Environment, Expression, Type, Value};
use super::objects::{Announcement, HeldCursor, Locks, missing_cursor, missing_relation};
use super::parser::{analyse, analyse_select};
use super::session::{Caller, Phase, PortalState, Session};
use super::settings::Settings;
use super::statement::{Column, Prepared, Raise, Select, SetTo, Source, Statement};
use super::transaction::{Block, Shared};
use pgweir_wire::Writer;
use std::collections::VecDeque;
use std::rc::Rc;

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

/// Rows to be sent.
#[derive(Debug)]
pub(super) struct Cursor {
    items: Vec<Expression>,
    rows: Rows,
    is_show: bool,
}

impl Cursor {
    /// The expressions of each row.
    pub(super) fn expressions(&self) -> impl Iterator<Item = &Expression> {
        self.items.iter()
    }
}

#[derive(Debug)]
enum Rows {
    One(Value),
    Series {
        next: i64,
        last: i64,
    },
    /// A series whose bounds are not known before it runs.
    SeriesOf(Expression, Expression),
    Table(VecDeque<[Value; 2]>),
    /// This many rows without columns.
    Same(u64),
    /// The reasons for pins; whether locks count, and which statements do not.
    Ties {
        locks: bool,
        but: Vec<String>,
    },
    /// Whether the session has a schema for temporary objects.
    Remains,
    /// Settings that the session has set, and these custom ones.
    Made(Vec<String>),
    Given(VecDeque<Vec<Value>>),
    Show(String),
    Sleep {
        us: u64,
    },
    End,
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

struct Surroundings<'a> {
    settings: &'a mut Settings,
    locks: &'a mut Locks,
    process_id: u32,
    warnings: Vec<ServerError>,
}

impl Environment for Surroundings<'_> {
    fn current_setting(&mut self, name: &str, missing_ok: bool) -> Result<Value, ServerError> {
        match self.settings.get(name) {
            Ok(value) => Ok(Value::Text(value)),
            Err(_) if missing_ok => Ok(Value::Null),
            Err(e) => Err(e),
        }
    }

    fn set_config(&mut self, name: &str, value: Option<&str>, local: bool) -> Result<Value, ServerError> {
        self.settings.set(name, value, local).map(Value::Text)
    }

    fn process_id(&self) -> u32 {
        self.process_id
    }

    fn lock(&mut self, key: i64) -> bool {
        self.locks.lock(key)
    }

    fn unlock(&mut self, key: i64) -> bool {
        let held = self.locks.unlock(key);
        if !held {
            let message = "you don't own a lock of type ExclusiveLock";
            self.warnings.push(ServerError::warning("01000", message));
        }
        held
    }

    fn unlock_all(&mut self) {
        self.locks.clear();
    }
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
            Some(Statement::TiesOf { locks, but }) => rows_alone(Rows::Ties { locks, but }),
            Some(Statement::Remains) => rows_alone(Rows::Remains),
            Some(Statement::MadeAnd(names)) => rows_alone(Rows::Made(names)),
            Some(Statement::Channels) => {
                let channels = self.channels.iter().map(|c| vec![Value::Text(c.clone())]);
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

    fn cursor(&mut self, shared: &Shared, select: Select) -> Cursor {
        let Select {
            items, source, count, ..
        } = select;
        let rows = match source {
            Source::Nothing if count => Rows::One(Value::Int(1)),
            Source::Nothing => Rows::One(Value::Null),
            Source::Temporary(name) => {
                let rows = self.transaction.temporary.get(&name).map_or(0, |table| table.rows);
                if count {
                    Rows::One(Value::Int(rows as i64))
                } else {
                    Rows::Same(rows)
                }
            }
            Source::Series(first, last) => Rows::SeriesOf(first, last),
            Source::Table { key } => {
                let all = self.transaction.rows(shared).into_iter();
                let mut rows: VecDeque<_> = all.map(|(k, v)| [Value::Int(k.into()), v]).collect();
                if let Some(key) = key {
                    rows.retain(|row| self.value(&key, row).is_ok_and(|wanted| wanted == row[0]));
                }
                if count {
                    Rows::One(Value::Int(rows.len() as i64))
                } else {
                    Rows::Table(rows)
                }
            }
        };
        let items = if count { Vec::new() } else { items };
        Cursor {
            items,
            rows,
            is_show: false,
        }
    }

    fn value(&mut self, e: &Expression, row: &[Value]) -> Result<Value, ServerError> {
        let mut surroundings = Surroundings {
            settings: &mut self.settings,
            locks: &mut self.locks,
            process_id: self.key.process_id,
            warnings: Vec::new(),
        };
        let value = e.value(row, &mut surroundings);
        for warning in surroundings.warnings {
            self.out.report(&warning);
        }
        value
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
        if let Some(token) = audit::token(plan) {
            let (token, settings) = (token.to_string(), self.settings.snapshot());
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
                        .map(|(index, (value, of))| value.write(*of, binary.get(index) == Some(&true)))
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

    /// The next row, with the type of each value.
    fn next_row(&mut self, cursor: &mut Cursor) -> Result<Option<Vec<(Value, Type)>>, ServerError> {
        if let Rows::SeriesOf(first, last) = &cursor.rows {
            let (first, last) = (first.clone(), last.clone());
            cursor.rows = match (self.value(&first, &[])?, self.value(&last, &[])?) {
                (Value::Int(next), Value::Int(last)) => Rows::Series { next, last },
                _ => Rows::End,
            };
        }
        let row = match &mut cursor.rows {
            Rows::One(value) => {
                let value = value.clone();
                cursor.rows = Rows::End;
                vec![value]
            }
            Rows::Series { next, last } => {
                if next > last {
                    return Ok(None);
                }
                *next += 1;
                vec![Value::Int(*next - 1)]
            }
            Rows::Table(rows) => match rows.pop_front() {
                Some(row) => row.into(),
                None => return Ok(None),
            },
            Rows::Show(name) => {
                let value = self.settings.get(name)?;
                cursor.rows = Rows::End;
                vec![Value::Text(value)]
            }
            Rows::Same(0) => return Ok(None),
            Rows::Same(left) => {
                *left -= 1;
                Vec::new()
            }
            Rows::Ties { locks, but } => {
                let (ties, locks) = (self.ties(), *locks);
                let prepared = self.has_prepared_but(but);
                cursor.rows = Rows::End;
                let all = [
                    ties.temporary,
                    locks && ties.locks,
                    ties.cursors,
                    ties.listening,
                    prepared,
                    self.transaction.temporary_schema,
                ];
                return Ok(Some(all.map(|held| (Value::Bool(held), Type::Bool)).into()));
            }
            Rows::Remains => {
                let schema = self.transaction.temporary_schema;
                cursor.rows = Rows::End;
                return Ok(Some(vec![(Value::Bool(schema), Type::Bool)]));
            }
            Rows::Made(names) => {
                let mut rows = VecDeque::new();
                for (name, value) in self.settings.made() {
                    rows.push_back(vec![Value::Text(name), Value::Text(value)]);
                }
                for name in std::mem::take(names) {
                    let value = self.settings.get(&name).map_or(Value::Null, Value::Text);
                    rows.push_back(vec![Value::Text(name), value]);
                }
                cursor.rows = Rows::Given(rows);
                return self.next_row(cursor);
            }
            Rows::Given(rows) => match rows.pop_front() {
                Some(row) => row,
                None => return Ok(None),
            },
            Rows::End | Rows::Sleep { .. } | Rows::SeriesOf(..) => return Ok(None),
        };
        if cursor.items.is_empty() {
            return Ok(Some(row.into_iter().map(|v| (v, Type::Int8)).collect()));
        }
        let mut values = Vec::with_capacity(cursor.items.len());
        for item in &cursor.items {
            let value = self.value(item, &row)?;
            values.push((value, Type::Int4));
        }
        Ok(Some(values))
    }

    fn run_utility(&mut self, shared: &mut Shared, statement: Statement) -> Result<Ran, ServerError> {
        let tag = match statement {
            Statement::Select(_)
            | Statement::Show(_)
            | Statement::Sleep { .. }
            | Statement::Execute(_)
            | Statement::Ties
            | Statement::Remains
            | Statement::Made
            | Statement::Channels
            | Statement::TiesOf { .. }
            | Statement::MadeAnd(_) => unreachable!("not a utility"),
            Statement::Invalid(e) => return Err(e),
            Statement::Insert { key, value } => {
                let (key, value) = (self.value(&key, &[])?, self.value(&value, &[])?);
                let Value::Int(key) = key else {
                    return Err(ServerError::error(
                        "23502",
                        "null value in column \"k\" of relation \"kv\" violates not-null constraint",
                    ));
                };
                self.insert(shared, key as i32, value)?;
                "INSERT 0 1".into()
            }
            Statement::Update { value, key } => {
                let rows = self.matching(shared, key.as_ref())?;
                for row in &rows {
                    let new = self.value(&value, row)?;
                    let Value::Int(key) = row[0] else { continue };
                    self.transaction.write(key as i32, Some(new));
                }
                format!("UPDATE {}", rows.len())
            }
            Statement::Delete { key } => {
                let rows = self.matching(shared, key.as_ref())?;
                for row in &rows {
                    let Value::Int(key) = row[0] else { continue };
                    self.transaction.write(key as i32, None);
                }
                format!("DELETE {}", rows.len())
            }
            Statement::CopyIn => return Ok(Ran::CopyIn),
            Statement::CopyOut(select) => return self.copy_out(shared, select).map(Ran::Done),
            Statement::Begin { tag } => {
                self.begin();
                tag.into()
            }
            Statement::Commit { chain } => self.commit_statement(shared, chain)?.into(),
            Statement::Rollback { chain } => {
                self.rollback_statement(chain)?;
                "ROLLBACK".into()
            }
            Statement::Savepoint(name) => {
                self.require_block("SAVEPOINT")?;
                self.transaction.push(Some(name), self.settings.snapshot());
                "SAVEPOINT".into()
            }
            Statement::RollbackTo(name) => {
                self.require_block("ROLLBACK TO SAVEPOINT")?;
                self.rollback_to(&name)?;
                "ROLLBACK".into()
            }
            Statement::Release(name) => {
                self.require_block("RELEASE SAVEPOINT")?;
                self.release(&name)?;
                "RELEASE".into()
            }
            Statement::Set { name, value, local } => {
                if local && matches!(self.transaction.block, Block::Default | Block::Started) {
                    self.out.report(&ServerError::warning(
                        "25P01",
                        "SET LOCAL can only be used in transaction blocks",
                    ));
                }
                match &value {
                    SetTo::Value(value) => self.settings.set(&name, Some(value), local)?,
                    SetTo::Default | SetTo::Reset => self.settings.set(&name, None, local)?,
                };
                if value == SetTo::Reset {
                    "RESET".into()
                } else {
                    "SET".into()
                }
            }
            Statement::ResetAll => {
                self.settings.reset_all_but_role();
                "RESET".into()
            }
            Statement::Deallocate(None) => {
                self.statements.clear();
                "DEALLOCATE ALL".into()
            }
            Statement::Deallocate(Some(name)) => {
                if self.statements.remove(name.as_bytes()).is_none() {
                    return Err(missing_statement(name.as_bytes()));
                }
                "DEALLOCATE".into()
            }
            Statement::DiscardAll => {
                self.refuse_in_block("DISCARD ALL")?;
                self.settings.reset_all();
                self.discard_objects();
                self.portals.clear();
                "DISCARD ALL".into()
            }
            Statement::Discard(tag) => {
                if tag == "DISCARD TEMP" {
                    self.transaction.temporary = Rc::default();
                }
                tag.into()
            }
            Statement::CreateTemporary { name, drop_on_commit } => {
                self.create_temporary(name, drop_on_commit)?;
                "CREATE TABLE".into()
            }
            Statement::DropTable(name) => {
                self.drop_table(&name)?;
                "DROP TABLE".into()
            }
            Statement::InsertTemporary { name, value } => {
                self.value(&value, &[])?;
                let tables = Rc::make_mut(&mut self.transaction.temporary);
                tables.get_mut(&name).ok_or_else(|| missing_relation(&name))?.rows += 1;
                "INSERT 0 1".into()
            }
            Statement::Declare { name, select } => {
                self.declare(shared, name, select)?;
                "DECLARE CURSOR".into()
            }
            Statement::Fetch { name, count } => self.fetch(&name, count)?,
            Statement::Close(name) => {
                self.close_cursor(name.as_deref())?;
                if name.is_some() {
                    "CLOSE CURSOR"
                } else {
                    "CLOSE CURSOR ALL"
                }
                .into()
            }
            Statement::Announce(announcement) => {
                let tag = match announcement {
                    Announcement::Listen(_) => "LISTEN",
                    Announcement::Unlisten(_) => "UNLISTEN",
                    Announcement::Notify { .. } => "NOTIFY",
                };
                self.announce(announcement);
                tag.into()
            }
            Statement::Prepare { name, statement } => {
                let mut prepared = analyse(*statement, &[], &self.catalog())?;
                prepared.from_sql = true;
                if self.statements.contains_key(name.as_bytes()) {
                    let message = format!("prepared statement \"{name}\" already exists");
                    return Err(ServerError::error("42P05", message));
                }
                self.statements.insert(name.into(), Rc::new(prepared));
                "PREPARE".into()
            }
            Statement::Load => {
                self.load_plpgsql();
                "LOAD".into()
            }
            Statement::Perform(e) => {
                self.load_plpgsql();
                self.value(&e, &[])?;
                "DO".into()
            }
            Statement::DoExecute(statement) => {
                self.load_plpgsql();
                match self.plan(shared, Some(*statement)) {
                    Plan::Cursor(mut cursor) => while self.next_row(&mut cursor)?.is_some() {},
                    Plan::Utility(statement) => drop(self.run_utility(shared, statement)?),
                    Plan::Empty => {}
                }
                "DO".into()
            }
            Statement::Vacuum => {
                self.refuse_in_block("VACUUM")?;
                self.portals.clear();
                "VACUUM".into()
            }
            Statement::Raise { severity, text } => {
                self.load_plpgsql();
                match severity {
                    Raise::Exception => return Err(ServerError::error("P0001", text)),
                    Raise::Warning => self.out.report(&ServerError::warning("01000", text)),
                    Raise::Notice => self.out.report(&ServerError {
                        severity: "NOTICE",
                        ..ServerError::warning("00000", text)
                    }),
                }
                "DO".into()
            }
        };
        Ok(Ran::Done(tag))
    }

    fn declare(&mut self, shared: &Shared, name: String, mut select: Select) -> Result<(), ServerError> {
        if self.cursors.contains_key(&name) {
            return Err(ServerError::error("42P03", format!("cursor \"{name}\" already exists")));
        }
        let columns = analyse_select(&mut select, &mut Vec::new())?;
        let mut cursor = self.cursor(shared, select);
        let mut rows = VecDeque::new();
        while let Some(row) = self.next_row(&mut cursor)? {
            rows.push_back(row);
        }
        let level_id = Some(self.transaction.level_id());
        let held = HeldCursor {
            columns,
            rows,
            level_id,
        };
        self.cursors.insert(name, held);
        Ok(())
    }

    /// Writes the next rows of a cursor; the command tag.
    fn fetch(&mut self, name: &str, count: u64) -> Result<String, ServerError> {
        let cursor = self.cursors.get_mut(name).ok_or_else(|| missing_cursor(name))?;
        let taken = cursor.rows.len().min(count as usize);
        for row in cursor.rows.drain(..taken) {
            let values: Vec<_> = row.iter().map(|(value, of)| value.write(*of, false)).collect();
            self.out
                .write(|w| w.data_row(values.len(), values.iter().map(Option::as_deref)));
        }
        Ok(format!("FETCH {taken}"))
    }

    pub(super) fn insert(&mut self, shared: &Shared, key: i32, value: Value) -> Result<(), ServerError> {
        if self.transaction.row(shared, key).is_some() {
            return Err(ServerError::error(
                "23505",
                "duplicate key value violates unique constraint \"kv_pkey\"",
            ));
        }
        self.transaction.write(key, Some(value));
        Ok(())
    }

    fn matching(&mut self, shared: &Shared, key: Option<&Expression>) -> Result<Vec<[Value; 2]>, ServerError> {
        let mut rows = Vec::new();
        for (k, v) in self.transaction.rows(shared) {
            let row = [Value::Int(k.into()), v];
            let matches = match key {
                None => true,
                Some(key) => self.value(key, &row)? == row[0],
            };
            if matches {
                rows.push(row);
            }
        }
        Ok(rows)
    }

    /// `COPY ... TO STDOUT` in text format.
    fn copy_out(&mut self, shared: &Shared, mut select: Select) -> Result<String, ServerError> {
        for e in select.expressions_mut() {
            e.fold()?;
        }
        let columns = select.items.len();
        let mut cursor = self.cursor(shared, select);
        self.out.write(|w| copy_response(w, b'H', columns));
        let mut count = 0;
        while let Some(row) = self.next_row(&mut cursor)? {
            count += 1;
            let mut line = Vec::new();
            for (index, (value, of)) in row.iter().enumerate() {
                if index > 0 {
                    line.push(b'\t');
                }
                match value.write(*of, false) {
                    None => line.extend(b"\\N"),
                    Some(text) => super::copy::escape(&mut line, &text),
                }
            }
            line.push(b'\n');
            self.out.write(|w| w.message(b'd', |b| b.extend_from_slice(&line)));
        }
        self.out.write(|w| w.empty(b'c'));
        Ok(format!("COPY {count}"))
    }

    pub(super) fn sleep(&mut self, until_us: u64, caller: Caller) {
        self.phase = Phase::Sleeping(until_us, caller);
    }

    fn begin(&mut self) {
        if matches!(self.transaction.block, Block::InProgress) {
            self.out.report(&ServerError::warning(
                "25001",
                "there is already a transaction in progress",
            ));
        }
        self.transaction.block = Block::InProgress;
    }

    fn no_transaction(&mut self) {
        self.out
            .report(&ServerError::warning("25P01", "there is no transaction in progress"));
    }

    fn commit_statement(&mut self, shared: &mut Shared, chain: bool) -> Result<&'static str, ServerError> {
        match self.transaction.block {
            Block::Default | Block::Started | Block::Implicit => {
                if chain {
                    return Err(needs_block("COMMIT AND CHAIN"));
                }
                self.no_transaction();
                self.commit(shared);
                Ok("COMMIT")
            }
            Block::InProgress => {
                self.commit(shared);
                self.chain(chain);
                Ok("COMMIT")
            }
            Block::Failed => {
                self.warn_of_portals(0);
                self.abort_all();
                self.chain(chain);
                Ok("ROLLBACK")
            }
        }
    }

    fn rollback_statement(&mut self, chain: bool) -> Result<(), ServerError> {
        match self.transaction.block {
            Block::Default | Block::Started | Block::Implicit => {
                if chain {
                    return Err(needs_block("ROLLBACK AND CHAIN"));
                }
                self.no_transaction();
                self.abort_all();
            }
            block @ (Block::InProgress | Block::Failed) => {
                if block == Block::Failed {
                    self.warn_of_portals(0);
                }
                self.abort_all();
                self.chain(chain);
            }
        }
        Ok(())
    }

    /// The warnings when a failed transaction is cleaned up, about portals that were made in it after the
    /// failure (`AtCleanup_Portals`).
    fn warn_of_portals(&mut self, level_id: u32) {
        // Levels further out are aborted in order, and their portals with them.
        let level_id = level_id.max(self.transaction.level_id());
        for (name, portal) in &self.portals {
            if portal.needs_cleanup && portal.state != PortalState::Dangling && portal.level_id >= level_id {
                let name = String::from_utf8_lossy(name);
                self.out.report(&ServerError::warning(
                    "01000",
                    format!("skipping cleanup for portal \"{name}\""),
                ));
            }
        }
    }

    fn chain(&mut self, chain: bool) {
        if chain {
            self.transaction.block = Block::InProgress;
            self.transaction.pipelining = false;
            self.transaction.next_level_id = 0;
            self.transaction.push(None, self.settings.snapshot());
        }
    }

    fn require_block(&self, what: &str) -> Result<(), ServerError> {
        match self.transaction.block {
            Block::InProgress | Block::Failed => Ok(()),
            Block::Default | Block::Started | Block::Implicit => Err(needs_block(what)),
        }
    }

    /// `PreventInTransactionBlock`.
    fn refuse_in_block(&self, what: &str) -> Result<(), ServerError> {
        match self.transaction.block {
            Block::Default | Block::Started if !self.transaction.pipelining => Ok(()),
            Block::Default | Block::Started => Err(ServerError::error(
                "25001",
                format!("{what} cannot be executed within a pipeline"),
            )),
            _ => Err(ServerError::error(
                "25001",
                format!("{what} cannot run inside a transaction block"),
            )),
        }
    }

    fn savepoint(&self, name: &str) -> Result<usize, ServerError> {
        self.transaction
            .levels
            .iter()
            .rposition(|level| level.name.as_deref() == Some(name))
            .ok_or_else(|| ServerError::error("3B001", format!("savepoint \"{name}\" does not exist")))
    }

    fn rollback_to(&mut self, name: &str) -> Result<(), ServerError> {
        let index = self.savepoint(name)?;
        if self.transaction.block == Block::Failed {
            self.warn_of_portals(self.transaction.levels[index].id);
        }
        self.transaction.levels.truncate(index + 1);
        self.undo_innermost();
        let Some(level) = self.transaction.levels.pop() else {
            return Ok(());
        };
        let outer = self.transaction.level_id();
        self.portals.retain(|_, portal| portal.level_id <= outer);
        self.transaction.push(level.name, level.settings);
        self.transaction.block = Block::InProgress;
        Ok(())
    }

    fn release(&mut self, name: &str) -> Result<(), ServerError> {
        let index = self.savepoint(name)?;
        self.transaction.levels.truncate(index);
        let outer = self.transaction.level_id();
        for portal in self.portals.values_mut() {
            portal.level_id = portal.level_id.min(outer);
        }
        for cursor in self.cursors.values_mut() {
            cursor.level_id = cursor.level_id.map(|id| id.min(outer));
        }
        Ok(())
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

fn needs_block(what: &str) -> ServerError {
    ServerError::error("25P01", format!("{what} can only be used in transaction blocks"))
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
            | Statement::InsertTemporary { .. },
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
