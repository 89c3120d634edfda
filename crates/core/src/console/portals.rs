//! Prepared commands and portals of one console client: Parse, Bind, Describe, Close, and the rows of Execute.

use crate::console::grammar::Command;
use crate::console::refusal::Refusal;
use crate::console::rows::{self, Formats};
use foldhash::fast::RandomState;
use pgweir_wire::frontend::{Named, Parse, Target};
use pgweir_wire::{FrontendTag, Header, ReadError, Reader, Writer};
use std::collections::HashMap;

/// The most prepared statements of one console client, and the most portals.
const NAMED_MAX: usize = 1000;

/// The most bytes of the tables that a console client's portals keep, if they are more than one.
const KEPT_BYTES_MAX: usize = 32 * 1024 * 1024;

/// A bound command.
#[derive(Debug, pgweir_freeze::Freeze)]
struct Portal {
    command: Command,
    formats: Formats,
    progress: Progress,
}

#[derive(Debug, pgweir_freeze::Freeze)]
enum Progress {
    New,
    /// DataRow messages, and how many of their bytes have been sent.
    Rows(Vec<u8>, usize),
    Over,
}

/// Prepared commands and portals, by name.
#[derive(Debug, Default, pgweir_freeze::Freeze)]
pub(crate) struct Portals {
    statements: HashMap<Box<[u8]>, Command, RandomState>,
    portals: HashMap<Box<[u8]>, Portal, RandomState>,
}

/// The contents of an Execute.
#[derive(Debug)]
pub(crate) struct Execute {
    portal: Box<[u8]>,
    /// 0: all.
    max_rows: usize,
}

/// How an Execute begins.
#[derive(Debug)]
pub(crate) enum Execution {
    /// The command runs now, for the first time.
    Run(Command, Formats),
    /// The command has run before: more of its rows follow.
    GoOn,
}

/// Some rows of a portal.
#[derive(Debug)]
pub(crate) enum Batch {
    /// The last rows.
    Last(Vec<u8>),
    /// More rows remain for the next Execute.
    More(Vec<u8>),
}

impl Execute {
    pub(crate) fn read(body: &[u8]) -> Result<Execute, Refusal> {
        let mut reader = Reader::new(body);
        let portal = reader.cstr().map_err(malformed)?.into();
        let max_rows = reader.i32().map_err(malformed)?;
        reader.end().map_err(malformed)?;
        let max_rows = usize::try_from(max_rows).unwrap_or(0);
        Ok(Execute { portal, max_rows })
    }

    /// The name of the portal.
    pub(crate) fn portal(&self) -> &[u8] {
        &self.portal
    }
}

impl Portals {
    /// The number of prepared commands.
    pub(crate) fn statements(&self) -> usize {
        self.statements.len()
    }

    /// A Query ends the unnamed statement and its portal.
    pub(crate) fn end_unnamed(&mut self) {
        self.statements.remove(&b""[..]);
        self.portals.remove(&b""[..]);
    }

    /// The end of a transaction ends all portals.
    pub(crate) fn end_portals(&mut self) {
        self.portals.clear();
    }

    /// Handles Parse, Bind, Describe or Close; returns the reply.
    pub(crate) fn handle(&mut self, tag: FrontendTag, body: &[u8]) -> Result<Vec<u8>, Refusal> {
        match tag {
            FrontendTag::Parse => self.parse(body),
            FrontendTag::Bind => self.bind(body),
            FrontendTag::Describe => self.describe(body),
            FrontendTag::Close => self.close(body),
            _ => Err(Refusal::protocol(format!("{tag:?} names no statement and no portal"))),
        }
    }

    /// Begins an Execute of this portal.
    pub(crate) fn execute(&mut self, name: &[u8]) -> Result<Execution, Refusal> {
        let portal = self.portal(name)?;
        if !matches!(portal.progress, Progress::New) {
            return Ok(Execution::GoOn);
        }
        portal.progress = Progress::Over;
        Ok(Execution::Run(portal.command.clone(), portal.formats.clone()))
    }

    /// The command of a portal has run for this Execute: these are its rows. They are refused if some of them would be
    /// kept for the next Execute, and the client's portals keep too much already.
    pub(crate) fn keep_rows(&mut self, execute: &Execute, rows: Vec<u8>) -> Result<(), Refusal> {
        let is_read_at_once = after_rows(&rows, 0, execute.max_rows) == rows.len();
        let kept = self.kept_bytes();
        if !is_read_at_once && kept > 0 && kept + rows.len() > KEPT_BYTES_MAX {
            return Err(Refusal::too_much_kept(KEPT_BYTES_MAX));
        }
        self.portal(&execute.portal)?.progress = Progress::Rows(rows, 0);
        Ok(())
    }

    /// The bytes of all tables that have not been read to their end.
    fn kept_bytes(&self) -> usize {
        let kept = self.portals.values().map(|portal| match &portal.progress {
            Progress::Rows(rows, _) => rows.len(),
            Progress::New | Progress::Over => 0,
        });
        kept.sum()
    }

    /// The next rows of a portal.
    pub(crate) fn next_rows(&mut self, execute: &Execute) -> Result<Batch, Refusal> {
        let portal = self.portal(&execute.portal)?;
        let Progress::Rows(rows, sent) = &mut portal.progress else {
            let name = text(&execute.portal);
            return Err(Refusal::not_in_state(format!("portal \"{name}\" cannot be run")));
        };
        let upto = after_rows(rows, *sent, execute.max_rows);
        let reply = rows[*sent..upto].to_vec();
        if upto < rows.len() {
            *sent = upto;
            return Ok(Batch::More(reply));
        }
        *rows = Vec::new();
        *sent = 0;
        Ok(Batch::Last(reply))
    }

    fn portal(&mut self, name: &[u8]) -> Result<&mut Portal, Refusal> {
        let portal = self.portals.get_mut(name);
        portal.ok_or_else(|| Refusal::no_such_portal(&text(name)))
    }

    fn parse(&mut self, body: &[u8]) -> Result<Vec<u8>, Refusal> {
        let parse = Parse::read(body).map_err(malformed)?;
        let command = Command::parse(&text(parse.query))?;
        if !parse.name.is_empty() && self.statements.contains_key(parse.name) {
            return Err(Refusal::duplicate_statement(&text(parse.name)));
        }
        if self.statements.len() >= NAMED_MAX {
            return Err(Refusal::too_many("prepared statements", NAMED_MAX));
        }
        self.statements.insert(parse.name.into(), command);
        Ok(message(b'1'))
    }

    fn bind(&mut self, body: &[u8]) -> Result<Vec<u8>, Refusal> {
        let mut reader = Reader::new(body);
        let portal = reader.cstr().map_err(malformed)?;
        let statement = reader.cstr().map_err(malformed)?;
        codes(&mut reader).map_err(malformed)?;
        let parameters = reader.i16().map_err(malformed)?;
        if parameters != 0 {
            return Err(Refusal::protocol(format!(
                "bind message supplies {parameters} parameters, but console commands take none"
            )));
        }
        let formats = codes(&mut reader).map_err(malformed)?;
        reader.end().map_err(malformed)?;
        let Some(command) = self.statements.get(statement).cloned() else {
            return Err(Refusal::no_such_statement(&text(statement)));
        };
        let columns = command.columns().map_or(0, <[_]>::len);
        let formats = Formats::read(&formats, columns)
            .ok_or_else(|| Refusal::protocol(format!("result formats do not fit {columns} columns")))?;
        if !portal.is_empty() && self.portals.contains_key(portal) {
            return Err(Refusal::duplicate_portal(&text(portal)));
        }
        if self.portals.len() >= NAMED_MAX {
            return Err(Refusal::too_many("portals", NAMED_MAX));
        }
        let bound = Portal {
            command,
            formats,
            progress: Progress::New,
        };
        self.portals.insert(portal.into(), bound);
        Ok(message(b'2'))
    }

    fn describe(&self, body: &[u8]) -> Result<Vec<u8>, Refusal> {
        let named = Named::read(body).map_err(malformed)?;
        let mut reply = Vec::new();
        let (command, formats) = match named.target {
            Target::Statement => {
                // ParameterDescription: none.
                Writer::new(&mut reply).message(b't', |b| b.extend([0; 2]));
                let command = self.statements.get(named.name);
                let command = command.ok_or_else(|| Refusal::no_such_statement(&text(named.name)))?;
                (command, &Formats::default())
            }
            Target::Portal => {
                let portal = self.portals.get(named.name);
                let portal = portal.ok_or_else(|| Refusal::no_such_portal(&text(named.name)))?;
                (&portal.command, &portal.formats)
            }
        };
        match command.columns() {
            Some(columns) => rows::describe(&mut reply, columns, formats),
            None => Writer::new(&mut reply).empty(b'n'),
        }
        Ok(reply)
    }

    fn close(&mut self, body: &[u8]) -> Result<Vec<u8>, Refusal> {
        let named = Named::read(body).map_err(malformed)?;
        match named.target {
            Target::Statement => drop(self.statements.remove(named.name)),
            Target::Portal => drop(self.portals.remove(named.name)),
        }
        Ok(message(b'3'))
    }
}

/// The end of the next `count` messages; 0 means all.
fn after_rows(rows: &[u8], from: usize, count: usize) -> usize {
    let mut at = from;
    let mut left = count;
    while let Ok(Some(header)) = Header::read(&rows[at..]) {
        if count > 0 && left == 0 {
            break;
        }
        at += header.message_bytes as usize;
        left = left.saturating_sub(1);
    }
    at
}

/// A count and that many format codes.
fn codes(reader: &mut Reader<'_>) -> Result<Vec<i16>, ReadError> {
    let count = reader.i16()?;
    let count = usize::try_from(count).map_err(|_| ReadError::Count { got: count.into() })?;
    let bytes = reader.bytes(count * 2)?;
    Ok(bytes
        .chunks_exact(2)
        .map(|b| i16::from_be_bytes([b[0], b[1]]))
        .collect())
}

fn message(tag: u8) -> Vec<u8> {
    let mut bytes = Vec::new();
    Writer::new(&mut bytes).empty(tag);
    bytes
}

fn malformed(error: ReadError) -> Refusal {
    Refusal::protocol(error.to_string())
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A client with the portal `p`, whose command has run and has these rows.
    fn with_rows(rows: &[Vec<u8>]) -> Portals {
        let mut portals = Portals::default();
        let parse = [b"\0".as_slice(), b"show lists\0", &[0, 0]].concat();
        let bind = [b"p\0".as_slice(), b"\0", &[0, 0], &[0, 0], &[0, 0]].concat();
        portals.handle(FrontendTag::Parse, &parse).unwrap();
        portals.handle(FrontendTag::Bind, &bind).unwrap();
        assert!(matches!(portals.execute(b"p"), Ok(Execution::Run(..))));
        portals.keep_rows(&execute(1), rows.concat()).unwrap();
        portals
    }

    fn row(text: &str) -> Vec<u8> {
        let mut row = Vec::new();
        Writer::new(&mut row).data_row(1, [Some(text.as_bytes())]);
        row
    }

    fn execute(max_rows: i32) -> Execute {
        let body = [b"p\0".as_slice(), &max_rows.to_be_bytes()].concat();
        Execute::read(&body).unwrap()
    }

    #[test]
    fn a_portal_gives_as_many_rows_as_are_asked_for() {
        let rows = [row("a"), row("b"), row("c")];
        let mut portals = with_rows(&rows);
        let Ok(Batch::More(first)) = portals.next_rows(&execute(2)) else {
            panic!("the portal is not suspended");
        };
        assert_eq!(first, rows[..2].concat());
        assert!(
            matches!(portals.execute(b"p"), Ok(Execution::GoOn)),
            "the command does not run again"
        );
        let Ok(Batch::Last(rest)) = portals.next_rows(&execute(0)) else {
            panic!("there is no end");
        };
        assert_eq!(rest, rows[2]);
    }

    /// Guards against gigabytes for one client: a table for each portal, of which one row was read.
    #[test]
    fn portals_keep_tables_up_to_a_limit() {
        let bind = |name: &str| [name.as_bytes(), b"\0\0", &[0; 6]].concat();
        let run = |name: &str, max_rows: i32| {
            let body = [name.as_bytes(), b"\0", &max_rows.to_be_bytes()].concat();
            Execute::read(&body).unwrap()
        };
        let rows = |bytes: usize| [row(&"x".repeat(bytes)), row("end")].concat();
        // One table is kept whatever its size.
        let mut portals = with_rows(&[rows(KEPT_BYTES_MAX)]);
        for name in ["q", "r"] {
            portals.handle(FrontendTag::Bind, &bind(name)).unwrap();
        }
        let refusal = portals.keep_rows(&run("q", 1), rows(1)).unwrap_err();
        assert_eq!((refusal.sqlstate, refusal.hint.is_empty()), ("53400", false));
        assert!(portals.next_rows(&run("q", 1)).is_err(), "nothing is kept");
        assert!(
            portals.keep_rows(&run("q", 0), rows(1)).is_ok(),
            "a table that is read at once is not kept"
        );
        assert!(matches!(portals.next_rows(&run("q", 0)), Ok(Batch::Last(_))));
        assert!(matches!(portals.next_rows(&execute(0)), Ok(Batch::Last(_))));
        assert!(
            portals.keep_rows(&run("r", 1), rows(1)).is_ok(),
            "the first one has been read to its end"
        );
    }

    #[test]
    fn names_that_mean_nothing_are_refused() {
        let mut portals = with_rows(&[]);
        assert!(portals.execute(b"q").is_err());
        let twice = [b"p\0".as_slice(), b"\0", &[0, 0], &[0, 0], &[0, 0]].concat();
        assert!(
            portals.handle(FrontendTag::Bind, &twice).is_err(),
            "the portal is there already"
        );
        assert!(portals.handle(FrontendTag::Close, b"Pp\0").is_ok());
        assert!(portals.handle(FrontendTag::Bind, &twice).is_ok());
        portals.end_unnamed();
        assert!(portals.handle(FrontendTag::Bind, b"x\0\0\0\0\0\0\0\0").is_err());
    }
}
