//! Extended query: Parse, Bind, Describe, Execute, Close.

use super::analyse::temporary_table;
use super::error::ServerError;
use super::execute::{Ran, failed_transaction, missing_statement};
use super::parser::parse;
use super::portal::{Portal, PortalState};
use super::session::{Caller, Session};
use super::statement::{Prepared, Statement};
use super::transaction::{Block, Shared};
use super::value::{Type, Value};
use super::views;
use pgweir_wire::Reader;
use std::rc::Rc;

impl Session {
    /// `exec_parse_message`.
    pub(super) fn parse(&mut self, shared: &Shared, body: &[u8]) -> Result<(), ServerError> {
        let mut r = Reader::new(body);
        let (name, text) = (r.cstr()?, r.cstr()?);
        let count = r.i16()?;
        let mut types = Vec::new();
        for _ in 0..count {
            types.push(r.u32()?);
        }
        r.end()?;
        self.start_command()?;
        if name.is_empty() {
            self.unnamed = None;
        }
        let text = &*self.received(text);
        let mut statements = parse(text)?;
        if statements.len() > 1 {
            return Err(ServerError::error(
                "42601",
                "cannot insert multiple commands into a prepared statement",
            ));
        }
        let statement = statements.pop();
        if let Some(statement) = &statement {
            self.refuse_if_failed(statement)?;
        }
        let mut declared = Vec::new();
        for oid in types {
            declared.push(match oid {
                0 => None,
                oid => Some(Type::from_oid(oid).ok_or_else(|| ServerError::unmodelled(format!("type {oid}")))?),
            });
        }
        let mut prepared = match statement {
            Some(statement) => self.analyse(shared, statement, &declared)?,
            None => Prepared {
                statement: None,
                params: declared.into_iter().map(|of| of.unwrap_or(Type::Text)).collect(),
                columns: None,
                from_sql: false,
                is_of_pooler: false,
            },
        };
        prepared.is_of_pooler = views::is_of_pooler(text);
        if name.is_empty() {
            self.unnamed = Some(Rc::new(prepared));
        } else if self.statements.contains_key(name) {
            return Err(ServerError::error(
                "42P05",
                format!(
                    "prepared statement \"{}\" already exists",
                    String::from_utf8_lossy(name)
                ),
            ));
        } else {
            self.statements.insert(name.into(), Rc::new(prepared));
        }
        self.out.write(|w| w.empty(b'1'));
        Ok(())
    }

    pub(super) fn prepared(&self, name: &[u8]) -> Result<Rc<Prepared>, ServerError> {
        let found = if name.is_empty() {
            self.unnamed.as_ref()
        } else {
            self.statements.get(name)
        };
        found.cloned().ok_or_else(|| missing_statement(name))
    }

    /// `exec_bind_message`.
    pub(super) fn bind(&mut self, shared: &Shared, body: &[u8]) -> Result<(), ServerError> {
        let mut r = Reader::new(body);
        let (portal, name) = (r.cstr()?, r.cstr()?);
        let prepared = self.prepared(name)?;
        self.start_command()?;
        let formats = read_formats(&mut r)?;
        let count = r.i16()?.max(0) as usize;
        if formats.len() > 1 && formats.len() != count {
            return Err(ServerError::protocol(format!(
                "bind message has {} parameter formats but {count} parameters",
                formats.len()
            )));
        }
        if count != prepared.params.len() {
            return Err(ServerError::protocol(format!(
                "bind message supplies {count} parameters, but prepared statement \"{}\" requires {}",
                String::from_utf8_lossy(name),
                prepared.params.len()
            )));
        }
        let exit = prepared.statement.as_ref().is_some_and(Statement::is_transaction_exit);
        if self.transaction.block == Block::Failed && (!exit || count > 0) {
            return Err(failed_transaction());
        }
        if !portal.is_empty() && self.portals.contains_key(portal) {
            return Err(ServerError::error(
                "42P03",
                format!("cursor \"{}\" already exists", String::from_utf8_lossy(portal)),
            ));
        }
        // From here on a failure leaves a portal, which the end of the transaction removes.
        self.portals.insert(
            portal.into(),
            Portal::unusable(None, self.transaction.level_id(), PortalState::Spent),
        );
        let mut values = Vec::with_capacity(count);
        for (index, of) in prepared.params.iter().enumerate() {
            let binary = *formats.get(index).or(formats.first()).unwrap_or(&0) == 1;
            values.push(match r.i32()? {
                length if length < 0 => Value::Null,
                length => self
                    .read(r.bytes(length as usize)?, *of, binary)
                    .map_err(|e| e.of_parameter(index))?,
            });
        }
        let results = read_formats(&mut r)?;
        r.end()?;
        self.still_there(&prepared)?;
        let statement = prepared.plan(&values)?;
        let plan = self.plan(shared, statement);
        self.portals.insert(
            portal.into(),
            Portal::unusable(Some(prepared.clone()), self.transaction.level_id(), PortalState::Spent),
        );
        let columns = prepared.columns.as_ref().map_or(0, Vec::len);
        if prepared.columns.is_some() && results.len() > 1 && results.len() != columns {
            return Err(ServerError::protocol(format!(
                "bind message has {} result formats but query has {columns} columns",
                results.len()
            )));
        }
        let binary = (0..columns)
            .map(|index| *results.get(index).or(results.first()).unwrap_or(&0) == 1)
            .collect();
        self.portals.insert(
            portal.into(),
            Portal {
                prepared,
                plan,
                binary,
                level_id: self.transaction.level_id(),
                state: PortalState::Ready,
                needs_cleanup: true,
            },
        );
        self.out.write(|w| w.empty(b'2'));
        Ok(())
    }

    /// `exec_describe_statement_message`, `exec_describe_portal_message`.
    pub(super) fn describe(&mut self, body: &[u8]) -> Result<(), ServerError> {
        let mut r = Reader::new(body);
        let what = r.u8()?;
        let name = r.cstr()?;
        r.end()?;
        let (prepared, binary) = match what {
            b'S' => {
                self.start_command()?;
                let prepared = self.prepared(name)?;
                self.refuse_rows_if_failed(&prepared)?;
                let oids: Vec<u32> = prepared.params.iter().map(|of| of.oid()).collect();
                self.out.write(|w| {
                    w.message(b't', |b| {
                        b.extend((oids.len() as u16).to_be_bytes());
                        oids.iter().for_each(|oid| b.extend(oid.to_be_bytes()));
                    });
                });
                if prepared.columns.is_some() {
                    self.still_there(&prepared)?;
                }
                let binary = vec![false; prepared.columns.as_ref().map_or(0, Vec::len)];
                (prepared, binary)
            }
            b'P' => {
                self.start_command()?;
                let portal = self.portals.get(name).ok_or_else(|| missing_portal(name))?;
                let (prepared, binary) = (portal.prepared.clone(), portal.binary.clone());
                self.refuse_rows_if_failed(&prepared)?;
                (prepared, binary)
            }
            other => {
                return Err(ServerError::protocol(format!(
                    "invalid DESCRIBE message subtype {other}"
                )));
            }
        };
        match &prepared.columns {
            Some(columns) => self.row_description(columns, &binary),
            None => self.out.write(|w| w.empty(b'n')),
        }
        Ok(())
    }

    /// `RevalidateCachedQuery`, for the ways in which the model's statements can become invalid.
    pub(super) fn still_there(&self, prepared: &Prepared) -> Result<(), ServerError> {
        match prepared.statement.as_ref().and_then(Statement::temporary_table) {
            Some(name) => temporary_table(&self.transaction.temporary, name),
            None => Ok(()),
        }
    }

    fn refuse_rows_if_failed(&self, prepared: &Prepared) -> Result<(), ServerError> {
        if self.transaction.block == Block::Failed && prepared.columns.is_some() {
            return Err(failed_transaction());
        }
        Ok(())
    }

    /// `exec_execute_message`.
    pub(super) fn execute(&mut self, shared: &mut Shared, now_us: u64, body: &[u8]) -> Result<(), ServerError> {
        let mut r = Reader::new(body);
        let name = r.cstr()?;
        let rows_max = r.i32()?.max(0) as u64;
        r.end()?;
        let portal = self.portals.get(name).ok_or_else(|| missing_portal(name))?;
        if portal.state == PortalState::Dangling {
            self.met_undefined = true;
            return Err(failed_transaction());
        }
        if portal.prepared.statement.is_none() {
            self.out.write(|w| w.empty(b'I'));
            return Ok(());
        }
        let statement = portal.prepared.statement.clone();
        let state = portal.state;
        self.start_command()?;
        if let Some(statement) = &statement {
            self.refuse_if_failed(statement)?;
        }
        if state == PortalState::Released && self.transaction.block == Block::Failed {
            return Err(failed_transaction());
        }
        if state != PortalState::Ready {
            return Err(ServerError::error(
                "55000",
                format!("portal \"{}\" cannot be run", String::from_utf8_lossy(name)),
            ));
        }
        self.execute_run(shared, now_us, name, rows_max)
    }

    fn execute_run(&mut self, shared: &mut Shared, now_us: u64, name: &[u8], rows_max: u64) -> Result<(), ServerError> {
        // It is removed while it runs, because a COMMIT in it ends all portals.
        let Some(mut portal) = self.portals.remove(name) else {
            return Err(missing_portal(name));
        };
        let level_id = portal.level_id;
        let binary = std::mem::take(&mut portal.binary);
        let ran = self.run(shared, &mut portal.plan, rows_max, &binary);
        portal.binary = binary;
        // Its level is still there unless the statement ended it.
        let kept = ran.is_err() || !ends_levels(&portal);
        if ran.is_err() || portal.cursor().is_none() {
            portal.state = PortalState::Spent;
            portal.needs_cleanup = false;
        }
        if kept && self.transaction.levels.iter().any(|level| level.id >= level_id) {
            portal.level_id = level_id.min(self.transaction.level_id());
            self.portals.insert(name.into(), portal);
        }
        let caller = || Caller::Execute {
            portal: name.into(),
            rows_max,
        };
        match ran? {
            Ran::Done(tag) => self.execute_complete(shared, name, &tag)?,
            Ran::Suspended => {
                self.transaction.pipelining = true;
                self.out.write(|w| w.empty(b's'));
            }
            Ran::CopyIn => self.begin_copy_in(caller()),
            Ran::Sleep { us } => self.sleep(now_us.saturating_add(us), caller()),
        }
        Ok(())
    }

    pub(super) fn execute_resume(
        &mut self,
        shared: &mut Shared,
        now_us: u64,
        name: &[u8],
        rows_max: u64,
        tag: Option<String>,
    ) -> Result<(), ServerError> {
        match tag {
            Some(tag) => self.execute_complete(shared, name, &tag),
            None => self.execute_run(shared, now_us, name, rows_max),
        }
    }

    fn execute_complete(&mut self, shared: &mut Shared, name: &[u8], tag: &str) -> Result<(), ServerError> {
        let statement = self.portals.get(name).and_then(|p| p.prepared.statement.as_ref());
        // A statement that may not run in a block is committed by itself (XACT_FLAGS_NEEDIMMEDIATECOMMIT), as are those
        // that begin and end transactions. VACUUM begins another transaction and so loses the flag.
        let alone =
            matches!(statement, Some(Statement::DiscardAll) | None) || statement.is_some_and(Statement::is_transaction);
        if alone {
            self.finish_command(shared)?;
        } else {
            self.transaction.pipelining = true;
        }
        self.out.write(|w| w.command_complete(tag));
        Ok(())
    }

    /// Close of a statement or portal; one that does not exist is no error.
    pub(super) fn close(&mut self, body: &[u8]) -> Result<(), ServerError> {
        let mut r = Reader::new(body);
        let what = r.u8()?;
        let name = r.cstr()?;
        r.end()?;
        match what {
            b'S' if name.is_empty() => self.unnamed = None,
            b'S' => drop(self.statements.remove(name)),
            b'P' => drop(self.portals.remove(name)),
            other => {
                return Err(ServerError::protocol(format!("invalid CLOSE message subtype {other}")));
            }
        }
        self.out.write(|w| w.empty(b'3'));
        Ok(())
    }
}

/// Whether running it ends the level in which its portal was made.
fn ends_levels(portal: &Portal) -> bool {
    portal
        .prepared
        .statement
        .as_ref()
        .is_some_and(Statement::is_transaction_exit)
        || matches!(portal.prepared.statement, Some(Statement::DiscardAll))
}

fn read_formats(r: &mut Reader<'_>) -> Result<Vec<i16>, ServerError> {
    let count = r.i16()?;
    let mut formats = Vec::new();
    for _ in 0..count {
        formats.push(r.i16()?);
    }
    Ok(formats)
}

fn missing_portal(name: &[u8]) -> ServerError {
    ServerError::error(
        "34000",
        format!("portal \"{}\" does not exist", String::from_utf8_lossy(name)),
    )
}
