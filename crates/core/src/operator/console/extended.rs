//! The extended protocol on the console: Parse, Bind, Describe, Execute, Close.

use crate::base::ids::ClientId;
use crate::base::time::Time;
use crate::operator::console::ConsoleState;
use crate::operator::console::actions::Done;
use crate::operator::console::grammar::Command;
use crate::operator::console::refusal::Refusal;
use crate::operator::console::rows::{self, Formats};
use crate::pooler::Pooler;
use pgweir_wire::frontend::{Named, Parse, Target};
use pgweir_wire::{FrontendTag, Header, ReadError, Reader, Writer};

/// Prepared statements, and portals, of one console client.
const NAMED_MAX: usize = 1000;

/// A bound command.
#[derive(Debug)]
pub(super) struct Portal {
    command: Command,
    formats: Formats,
    progress: Progress,
}

#[derive(Debug)]
enum Progress {
    New,
    /// DataRow messages, and how many of their bytes have been sent.
    Rows(Vec<u8>, usize),
    Over,
}

impl Pooler {
    pub(super) fn console_extended(&mut self, now: Time, id: ClientId, tag: FrontendTag, body: &[u8]) {
        let console = self.console(id).expect("the caller looked it up");
        console.extended = true;
        let outcome = match tag {
            FrontendTag::Parse => parse(console, body),
            FrontendTag::Bind => bind(console, body),
            FrontendTag::Describe => describe(console, body),
            FrontendTag::Close => close(console, body),
            _ => return self.console_execute(now, id, body),
        };
        match outcome {
            Ok(reply) => self.shared.outbox.insert(id.into(), |to| to.extend_from_slice(&reply)),
            Err(refusal) => self.console_fails_to_sync(id, &refusal),
        }
    }

    fn console_fails_to_sync(&mut self, id: ClientId, refusal: &Refusal) {
        self.console_refuses(id, refusal);
        if let Some(console) = self.console(id) {
            console.ignoring_to_sync = true;
        }
    }

    fn console_execute(&mut self, now: Time, id: ClientId, body: &[u8]) {
        match self.console_run_portal(now, id, body) {
            Ok(Some(done)) => self.console_done(now, id, done),
            Ok(None) => {}
            Err(refusal) => self.console_fails_to_sync(id, &refusal),
        }
    }

    /// Runs a portal, or gives more of its rows; `None` where the portal is suspended.
    fn console_run_portal(&mut self, now: Time, id: ClientId, body: &[u8]) -> Result<Option<Done>, Refusal> {
        let mut reader = Reader::new(body);
        let name = reader.cstr().map_err(malformed)?;
        let max_rows = reader.i32().map_err(malformed)?;
        reader.end().map_err(malformed)?;
        let console = self.console(id).expect("the caller looked it up");
        let Some(portal) = console.portals.get_mut(name) else {
            return Err(Refusal::no_such_portal(&text(name)));
        };
        let (command, formats) = (portal.command.clone(), portal.formats.clone());
        if matches!(portal.progress, Progress::New) {
            portal.progress = Progress::Over;
            let returns_rows = command.columns().is_some();
            let mut reply = Vec::new();
            let done = self.console_command(now, id, &command, &formats, &mut reply)?;
            if !returns_rows {
                self.shared.outbox.insert(id.into(), |to| to.extend_from_slice(&reply));
                return Ok(Some(done));
            }
            if let Some(portal) = self.console(id).and_then(|c| c.portals.get_mut(name)) {
                portal.progress = Progress::Rows(reply, 0);
            }
        }
        let Some(portal) = self.console(id).and_then(|c| c.portals.get_mut(name)) else {
            return Err(Refusal::no_such_portal(&text(name)));
        };
        let Progress::Rows(rows, sent) = &mut portal.progress else {
            return Err(Refusal::not_in_state(format!(
                "portal \"{}\" cannot be run",
                text(name)
            )));
        };
        let upto = after_rows(rows, *sent, usize::try_from(max_rows).unwrap_or(0));
        let mut reply = rows[*sent..upto].to_vec();
        *sent = upto;
        let over = upto == rows.len();
        if over {
            *rows = Vec::new();
            *sent = 0;
        } else {
            Writer::new(&mut reply).empty(b's');
        }
        self.shared.outbox.insert(id.into(), |to| to.extend_from_slice(&reply));
        Ok(over.then(|| Done::Tag("SHOW".into())))
    }
}

/// Where the next `count` messages end; 0 is all.
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

fn parse(console: &mut ConsoleState, body: &[u8]) -> Result<Vec<u8>, Refusal> {
    let parse = Parse::read(body).map_err(malformed)?;
    let command = Command::parse(&text(parse.query))?;
    if !parse.name.is_empty() && console.statements.contains_key(parse.name) {
        return Err(Refusal::duplicate_statement(&text(parse.name)));
    }
    if console.statements.len() >= NAMED_MAX {
        return Err(Refusal::too_many("prepared statements", NAMED_MAX));
    }
    console.statements.insert(parse.name.into(), command);
    Ok(message(b'1'))
}

fn bind(console: &mut ConsoleState, body: &[u8]) -> Result<Vec<u8>, Refusal> {
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
    let Some(command) = console.statements.get(statement).cloned() else {
        return Err(Refusal::no_such_statement(&text(statement)));
    };
    let columns = command.columns().map_or(0, <[_]>::len);
    let formats = Formats::read(&formats, columns)
        .ok_or_else(|| Refusal::protocol(format!("result formats do not fit {columns} columns")))?;
    if !portal.is_empty() && console.portals.contains_key(portal) {
        return Err(Refusal::duplicate_portal(&text(portal)));
    }
    if console.portals.len() >= NAMED_MAX {
        return Err(Refusal::too_many("portals", NAMED_MAX));
    }
    let bound = Portal {
        command,
        formats,
        progress: Progress::New,
    };
    console.portals.insert(portal.into(), bound);
    Ok(message(b'2'))
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

fn describe(console: &mut ConsoleState, body: &[u8]) -> Result<Vec<u8>, Refusal> {
    let named = Named::read(body).map_err(malformed)?;
    let mut reply = Vec::new();
    let (command, formats) = match named.target {
        Target::Statement => {
            // ParameterDescription: none.
            Writer::new(&mut reply).message(b't', |b| b.extend([0; 2]));
            let command = console.statements.get(named.name);
            let command = command.ok_or_else(|| Refusal::no_such_statement(&text(named.name)))?;
            (command, &Formats::default())
        }
        Target::Portal => {
            let portal = console.portals.get(named.name);
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

fn close(console: &mut ConsoleState, body: &[u8]) -> Result<Vec<u8>, Refusal> {
    let named = Named::read(body).map_err(malformed)?;
    match named.target {
        Target::Statement => drop(console.statements.remove(named.name)),
        Target::Portal => drop(console.portals.remove(named.name)),
    }
    Ok(message(b'3'))
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
