//! Running statements that return no rows of a cursor.

use super::analyse::analyse_select;
use super::error::ServerError;
use super::execute::{Plan, Ran, copy_response, missing_statement};
use super::expression::Expression;
use super::objects::{Announcement, HeldCursor, missing_cursor, missing_relation};
use super::session::Session;
use super::statement::{Raise, Select, SetTo, Statement};
use super::transaction::{Block, Shared};
use super::value::Value;
use std::collections::VecDeque;
use std::rc::Rc;

impl Session {
    /// Reads and changes rows; other statements go on to the functions below.
    pub(super) fn run_utility(&mut self, shared: &mut Shared, statement: Statement) -> Result<Ran, ServerError> {
        let tag = match statement {
            Statement::Invalid(e) => return Err(e),
            Statement::Insert { key, value } => {
                self.insert_values(shared, &key, &value)?;
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
            Statement::InsertTemporary { name, value } => {
                self.value(&value, &[])?;
                let tables = Rc::make_mut(&mut self.transaction.temporary);
                tables.get_mut(&name).ok_or_else(|| missing_relation(&name))?.rows += 1;
                "INSERT 0 1".into()
            }
            Statement::InsertNumber { value, .. } => {
                self.insert_number(&value)?;
                "INSERT 0 1".into()
            }
            Statement::InsertLater { key } => {
                self.insert_later(&key)?;
                "INSERT 0 1".into()
            }
            Statement::AlterNumber { table, of } => {
                self.alter_number(table, of);
                "ALTER TABLE".into()
            }
            Statement::Fetch { name, count } => self.fetch(&name, count)?,
            Statement::Declare { name, select } => {
                self.declare(shared, name, select)?;
                "DECLARE CURSOR".into()
            }
            other => self.run_transaction_statement(shared, other)?,
        };
        Ok(Ran::Done(tag))
    }

    /// What only a place inside or outside of a transaction block allows.
    fn run_transaction_statement(&mut self, shared: &mut Shared, statement: Statement) -> Result<String, ServerError> {
        let tag = match statement {
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
            Statement::Vacuum => {
                self.refuse_in_block("VACUUM")?;
                self.portals.clear();
                "VACUUM".into()
            }
            other => return self.run_code(shared, other),
        };
        Ok(tag)
    }

    /// PREPARE, and PL/pgSQL.
    fn run_code(&mut self, shared: &mut Shared, statement: Statement) -> Result<String, ServerError> {
        let tag = match statement {
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
            Statement::Raise { severity, text } => {
                self.load_plpgsql();
                match severity {
                    Raise::Exception => return Err(ServerError::error("P0001", text)),
                    Raise::Warning => self.report(&ServerError::warning("01000", text)),
                    Raise::Notice => self.report(&ServerError {
                        severity: "NOTICE",
                        ..ServerError::warning("00000", text)
                    }),
                }
                "DO".into()
            }
            Statement::Prepare { name, statement } => {
                let mut prepared = self.analyse(shared, *statement, &[])?;
                prepared.from_sql = true;
                if self.statements.contains_key(name.as_bytes()) {
                    let message = format!("prepared statement \"{name}\" already exists");
                    return Err(ServerError::error("42P05", message));
                }
                self.statements.insert(name.into(), Rc::new(prepared));
                "PREPARE".into()
            }
            other => return self.run_session_statement(other),
        };
        Ok(tag)
    }

    /// Changes settings and objects of the session.
    fn run_session_statement(&mut self, statement: Statement) -> Result<String, ServerError> {
        let tag = match statement {
            Statement::Set { name, value, local } => self.run_set(&name, &value, local)?.into(),
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
                self.drawn = None;
                self.left.forget_plans();
                self.portals.clear();
                "DISCARD ALL".into()
            }
            Statement::ResetSettings => {
                self.settings.reset_all();
                self.left.forget_plans();
                "RESET".into()
            }
            Statement::Define(_) if self.on_replica => {
                return Err(ServerError::error(
                    "25006",
                    "cannot execute CREATE FUNCTION in a read-only transaction",
                ));
            }
            Statement::Define(code) => {
                self.transaction.code = Some(code);
                "CREATE FUNCTION".into()
            }
            Statement::Discard(tag) => {
                if tag == "DISCARD TEMP" {
                    self.transaction.temporary = Rc::default();
                }
                if tag == "DISCARD SEQUENCES" {
                    self.drawn = None;
                }
                if tag == "DISCARD PLANS" {
                    self.left.forget_plans();
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
            _ => unreachable!("not a utility"),
        };
        Ok(tag)
    }

    /// SET, or RESET of one setting; the command tag.
    fn run_set(&mut self, name: &str, value: &SetTo, local: bool) -> Result<&'static str, ServerError> {
        if local && matches!(self.transaction.block, Block::Default | Block::Started) {
            self.report(&ServerError::warning(
                "25P01",
                "SET LOCAL can only be used in transaction blocks",
            ));
        }
        let given = match value {
            SetTo::Value(value) => Some(&**value),
            SetTo::Default | SetTo::Reset => None,
        };
        if self.left.set(name, given) {
            return Ok("SET");
        }
        match value {
            SetTo::Value(value) => self.settings.set(name, Some(value), local)?,
            SetTo::Default | SetTo::Reset => self.settings.set(name, None, local)?,
        };
        Ok(if *value == SetTo::Reset { "RESET" } else { "SET" })
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
        let rows: Vec<_> = cursor.rows.drain(..taken).collect();
        for row in rows {
            let values: Vec<_> = row.iter().map(|(value, of)| self.written(value, *of, false)).collect();
            self.out
                .write(|w| w.data_row(values.len(), values.iter().map(Option::as_deref)));
        }
        Ok(format!("FETCH {taken}"))
    }

    fn insert_values(&mut self, shared: &Shared, key: &Expression, value: &Expression) -> Result<(), ServerError> {
        let (key, value) = (self.value(key, &[])?, self.value(value, &[])?);
        let Value::Int(key) = key else {
            return Err(ServerError::error(
                "23502",
                "null value in column \"k\" of relation \"kv\" violates not-null constraint",
            ));
        };
        self.insert(shared, key as i32, value)
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
                match self.written(value, *of, false) {
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
}
