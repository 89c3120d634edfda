//! Cursors: the rows of a statement, and where each comes from.

use super::code::Code;
use super::error::ServerError;
use super::expression::Expression;
use super::function::Environment;
use super::left_behind::{Found, LeftBehind};
use super::objects::Locks;
use super::session::Session;
use super::settings::Settings;
use super::statement::{Prepared, Select, Source, Statement};
use super::transaction::{Shared, Transaction};
use super::value::{Type, Value};
use std::collections::VecDeque;

/// Rows to be sent.
#[derive(Debug)]
pub(super) struct Cursor {
    pub(super) items: Vec<Expression>,
    pub(super) rows: Rows,
    pub(super) is_show: bool,
}

impl Cursor {
    /// The expressions of each row.
    pub(super) fn expressions(&self) -> impl Iterator<Item = &Expression> {
        self.items.iter()
    }
}

#[derive(Debug)]
pub(super) enum Rows {
    One(Value),
    Series {
        next: i64,
        last: i64,
    },
    /// The names of the session's prepared statements, in order.
    PreparedStatements,
    /// A series whose bounds are not known before it runs.
    SeriesOf(Expression, Expression),
    Table(VecDeque<[Value; 2]>),
    Names(VecDeque<Value>),
    /// This many rows without columns.
    Same(u64),
    /// The reasons for pins; whether locks count, which statements do not, and whether those made by Parse do.
    Ties {
        locks: bool,
        but: Vec<String>,
        parsed: bool,
    },
    /// Whether the session has a schema for temporary objects.
    Remains,
    /// Settings that the session has set, and these custom ones.
    Made(Vec<String>),
    Given(VecDeque<Vec<Value>>),
    /// What the function returns that does this.
    Changing(Code),
    Show(String),
    Sleep {
        us: u64,
    },
    End,
}

struct Surroundings<'a> {
    settings: &'a mut Settings,
    locks: &'a mut Locks,
    drawn: &'a mut Option<i64>,
    left: &'a mut LeftBehind,
    transaction: &'a Transaction,
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
        if self.left.set(name, value) {
            return Ok(value.map_or(Value::Null, |v| Value::Text(v.into())));
        }
        self.settings.set(name, value, local).map(Value::Text)
    }

    fn is_made(&self, name: &str) -> bool {
        self.settings.is_made(name)
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

    fn drawn(&self) -> Option<i64> {
        *self.drawn
    }

    fn set_drawn(&mut self, value: i64) {
        *self.drawn = Some(value);
    }

    fn signal(&mut self, process_id: i64) {
        let message = format!("PID {process_id} is not a PostgreSQL backend process");
        self.warnings.push(ServerError::warning("01000", message));
    }

    fn fold(&mut self, text: &str) {
        self.left.draw(text);
        let finds = Found::new(&self.transaction.temporary, self.transaction.temporary_schema);
        self.left.fold(text, self.settings, finds);
    }
}

impl Session {
    pub(super) fn cursor(&mut self, shared: &Shared, select: Select) -> Cursor {
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
            Source::PreparedStatements => Rows::PreparedStatements,
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

    pub(super) fn value(&mut self, e: &Expression, row: &[Value]) -> Result<Value, ServerError> {
        let mut surroundings = Surroundings {
            settings: &mut self.settings,
            locks: &mut self.locks,
            drawn: &mut self.drawn,
            left: &mut self.left,
            transaction: &self.transaction,
            process_id: self.key.process_id,
            warnings: Vec::new(),
        };
        let value = e.value(row, &mut surroundings);
        for warning in surroundings.warnings {
            self.report(&warning);
        }
        value
    }

    fn series(&mut self, first: &Expression, last: &Expression) -> Result<Rows, ServerError> {
        Ok(match (self.value(first, &[])?, self.value(last, &[])?) {
            (Value::Int(next), Value::Int(last)) => Rows::Series { next, last },
            _ => Rows::End,
        })
    }

    /// The only row of the reasons for pins.
    fn row_of_ties(&self, locks: bool, but: &[String], parsed: bool) -> Vec<(Value, Type)> {
        let ties = self.ties();
        let all = [
            ties.temporary,
            locks && ties.locks,
            ties.cursors,
            ties.listening,
            self.has_prepared_but(but, parsed),
            self.transaction.temporary_schema,
        ];
        all.map(|held| (Value::Bool(held), Type::Bool)).into()
    }

    /// Settings that the session has set, and these custom ones.
    fn rows_of_settings(&self, custom: Vec<String>) -> VecDeque<Vec<Value>> {
        let mut rows = VecDeque::new();
        for (name, value) in self.settings.made() {
            rows.push_back(vec![Value::Text(name), Value::Text(value), Value::Bool(false)]);
        }
        for name in custom {
            let value = self.settings.get(&name).map_or(Value::Null, Value::Text);
            rows.push_back(vec![Value::Text(name), value, Value::Bool(false)]);
        }
        rows
    }

    /// The names of the session's prepared statements, without those whose table is gone: see docs/differences.md.
    fn prepared_names(&self) -> VecDeque<Value> {
        let is_there = |prepared: &Prepared| {
            let table = prepared.statement.as_ref().and_then(Statement::temporary_table);
            table.is_none_or(|table| self.transaction.temporary.contains_key(table))
        };
        self.statements
            .iter()
            .filter(|(name, prepared)| !name.is_empty() && is_there(prepared))
            .map(|(name, _)| Value::Text(String::from_utf8_lossy(name).into()))
            .collect()
    }

    /// The next row, with the type of each value.
    pub(super) fn next_row(&mut self, cursor: &mut Cursor) -> Result<Option<Vec<(Value, Type)>>, ServerError> {
        if let Rows::SeriesOf(first, last) = &cursor.rows {
            cursor.rows = self.series(&first.clone(), &last.clone())?;
        }
        if let Rows::PreparedStatements = &cursor.rows {
            cursor.rows = Rows::Names(self.prepared_names());
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
            Rows::Names(names) => match names.pop_front() {
                Some(name) => vec![name],
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
            Rows::Ties { locks, but, parsed } => {
                let row = self.row_of_ties(*locks, but, *parsed);
                cursor.rows = Rows::End;
                return Ok(Some(row));
            }
            Rows::Remains => {
                cursor.rows = Rows::End;
                return Ok(Some(vec![(Value::Bool(self.transaction.temporary_schema), Type::Bool)]));
            }
            Rows::Made(names) => {
                cursor.rows = Rows::Given(self.rows_of_settings(std::mem::take(names)));
                return self.next_row(cursor);
            }
            Rows::Changing(code) => {
                let sets = code.sets();
                cursor.rows = Rows::End;
                if let Some((name, value)) = sets {
                    self.settings.set(name, Some(value), false)?;
                }
                vec![Value::Text("x".into())]
            }
            Rows::Given(rows) => match rows.pop_front() {
                Some(row) => row,
                None => return Ok(None),
            },
            Rows::End | Rows::Sleep { .. } | Rows::SeriesOf(..) | Rows::PreparedStatements => return Ok(None),
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
}
