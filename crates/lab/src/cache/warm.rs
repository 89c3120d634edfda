//! Reading relations into shared_buffers by pg_prewarm, in pieces, so that there is progress and Ctrl-C ends it soon.

use super::agree;
use super::connection::with_server;
use super::extension::{self, Extension, failed};
use super::look::{bytes, count, offer_extension};
use super::plan::{Plan, Step, plan, room};
use super::relation::RelationKind;
use super::survey::{self, ServerFacts, unsigned};
use crate::interrupt::Interrupt;
use crate::report::Table;
use crate::server::ServerArguments;
use crate::{Error, Result};
use clap::{Args, ValueEnum};
use postgres::Client;
use postgres::error::SqlState;
use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

/// Name of the extension that reads blocks.
pub(super) const PREWARM: &str = "pg_prewarm";

/// Blocks of one call: 16 MB, a fraction of a second on any disk.
const PIECE_BLOCKS: u64 = 2048;

/// A pool full of what was used before gives up the blocks just read sooner than those: usage counts of 1 against 2 and
/// more. Reading all again raises the count of what stayed, and brings back what went, until enough of it is there.
const PASSES_MAX: usize = 4;
const ENOUGH_SHARE: f64 = 0.98;

/// How often the progress is shown anew: at a terminal, and in a log.
const TERMINAL_INTERVAL: Duration = Duration::from_millis(200);
const LOG_INTERVAL: Duration = Duration::from_secs(5);

/// What is done with the blocks, as pg_prewarm names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Mode {
    /// Into shared_buffers.
    Buffer,
    /// Into the operating system's page cache only.
    Read,
}

impl Mode {
    fn word(self) -> &'static str {
        match self {
            Mode::Buffer => "buffer",
            Mode::Read => "read",
        }
    }

    fn destination(self) -> &'static str {
        match self {
            Mode::Buffer => "shared_buffers",
            Mode::Read => "the page cache",
        }
    }
}

/// Arguments of `cache warm`.
#[derive(Debug, Args)]
pub struct WarmArguments {
    #[command(flatten)]
    server: ServerArguments,

    /// Read only this table and its indexes; may be repeated
    #[arg(short, long, value_name = "TABLE")]
    table: Vec<String>,

    /// Where the blocks go
    #[arg(long, value_enum, default_value_t = Mode::Buffer)]
    mode: Mode,

    /// Show the plan and do nothing else
    #[arg(long)]
    plan: bool,

    /// Do not ask
    #[arg(long)]
    yes: bool,
}

pub(super) fn warm(arguments: &WarmArguments) -> Result<()> {
    with_server(&arguments.server, |client, facts, interrupt| {
        warm_from(arguments, client, &facts, interrupt)
    })
}

fn warm_from(arguments: &WarmArguments, mut client: Client, facts: &ServerFacts, interrupt: &Interrupt) -> Result<()> {
    let mut relations = survey::relations(&mut client, facts.block_bytes)?;
    if !arguments.table.is_empty() {
        let wanted = tables(&mut client, &arguments.table)?;
        relations.retain(|relation| wanted.contains(&relation.table));
    }
    let room_blocks = match arguments.mode {
        Mode::Buffer => room(facts.buffers),
        // The operating system decides what it keeps.
        Mode::Read => u64::MAX,
    };
    let plan = plan(&relations, room_blocks);
    crate::say(&plan_text(&plan, facts, arguments.mode));
    if arguments.plan || plan.steps.is_empty() {
        return Ok(());
    }
    let question = format!(
        "read {} into {}?",
        bytes(plan.blocks() * facts.block_bytes),
        arguments.mode.destination()
    );
    agree::needed(&question, arguments.yes, interrupt)?;
    let schema = prewarm_schema(&mut client, facts, arguments.yes, interrupt)?;
    let mut reader = Reader::new(
        client,
        schema,
        arguments.mode,
        plan.blocks(),
        facts.block_bytes,
        interrupt.clone(),
    );
    pass(&mut reader, &plan)?;
    let runs: Vec<(u32, u64, u64)> = plan
        .steps
        .iter()
        .map(|step| (step.oid, step.first_block, step.first_block + step.blocks - 1))
        .collect();
    let mut buffered = reader.buffered(&facts.database, &runs)?;
    if reader.read > 0 && arguments.mode == Mode::Buffer {
        for _ in 1..PASSES_MAX {
            if buffered.is_none_or(|blocks| blocks as f64 >= ENOUGH_SHARE * plan.blocks() as f64) {
                break;
            }
            reader.again(plan.blocks());
            pass(&mut reader, &plan)?;
            buffered = reader.buffered(&facts.database, &runs)?;
        }
    }
    reader.finish(arguments.mode, buffered.map(|blocks| (blocks, plan.blocks())))
}

/// Reads all steps, and the indexes once more: what was read first has been longest in danger of being given up for what
/// was read last. What is still there costs next to nothing.
fn pass(reader: &mut Reader, plan: &Plan) -> Result<()> {
    read_steps(reader, plan.steps.iter())?;
    let read = reader.read;
    read_steps(
        reader,
        plan.steps.iter().filter(|step| step.kind == RelationKind::Index),
    )?;
    reader.read = read;
    Ok(())
}

fn read_steps<'a>(reader: &mut Reader, steps: impl Iterator<Item = &'a Step>) -> Result<()> {
    for step in steps {
        reader.begin(&step.name);
        let mut first = step.first_block;
        let end = step.first_block + step.blocks;
        while first < end {
            let last = (first + PIECE_BLOCKS).min(end) - 1;
            if !reader.read(step.oid, &[(first, last)])? {
                break;
            }
            first = last + 1;
        }
    }
    Ok(())
}

/// Names of these tables as the survey writes them.
fn tables(client: &mut Client, names: &[String]) -> Result<Vec<String>> {
    let mut found = Vec::new();
    for name in names {
        let row = client
            .query_one(
                "select format('%I.%I', n.nspname, c.relname) from pg_catalog.pg_class c \
                 join pg_catalog.pg_namespace n on n.oid = c.relnamespace where c.oid = $1::text::regclass",
                &[name],
            )
            .map_err(|e| failed(&e))?;
        found.push(row.get(0));
    }
    Ok(found)
}

fn plan_text(plan: &Plan, facts: &ServerFacts, mode: Mode) -> String {
    if plan.steps.is_empty() {
        return format!("database \"{}\" has nothing to read\n", facts.database);
    }
    let mut table = Table::new()
        .number("")
        .text("relation")
        .text("kind")
        .number("size")
        .number("read");
    for (number, step) in plan.steps.iter().enumerate() {
        let part = if step.is_whole() {
            "all".to_owned()
        } else {
            format!("last {}", bytes(step.blocks * facts.block_bytes))
        };
        table = table.row([
            (number + 1).to_string(),
            step.name.clone(),
            step.kind.word().to_owned(),
            bytes(step.relation_blocks * facts.block_bytes),
            part,
        ]);
    }
    let mut out = table.to_text();
    out += &format!("in all {}", bytes(plan.blocks() * facts.block_bytes));
    if mode == Mode::Buffer {
        out += &format!(
            " of {}, which is shared_buffers without a twentieth for what runs meanwhile; what is in it now makes room",
            bytes(plan.room_blocks * facts.block_bytes)
        );
    }
    out += "\n";
    if !plan.left_out.is_empty() {
        out += &format!(
            "no room for {} more: {}\n",
            count(plan.left_out.len() as u64),
            first_names(&plan.left_out)
        );
    }
    out
}

/// Up to five of many names.
fn first_names(names: &[String]) -> String {
    let mut text = names[..names.len().min(5)].join(", ");
    if names.len() > 5 {
        text += ", ...";
    }
    text
}

/// Schema of pg_prewarm's function, created where it is missing and the user has agreed.
pub(super) fn prewarm_schema(
    client: &mut Client,
    facts: &ServerFacts,
    yes: bool,
    interrupt: &Interrupt,
) -> Result<String> {
    offer_extension(client, facts, PREWARM, yes, interrupt)?;
    let extension = Extension::find(client, PREWARM)?;
    match (extension.obstacle(PREWARM, &facts.database), extension) {
        (None, Extension::Created { schema, .. }) => Ok(schema),
        (obstacle, _) => {
            let (why, how) = obstacle.unwrap_or_default();
            Err(Error::new(why).hint(how))
        }
    }
}

/// Reads pieces, tells how far it is, and remembers what was refused.
pub(super) struct Reader {
    client: Client,
    schema: String,
    mode: Mode,
    interrupt: Interrupt,
    block_bytes: u64,
    /// Blocks to come at the beginning.
    planned: u64,
    read: u64,
    /// What the passes before have read.
    read_before: u64,
    started: Instant,
    shown: Instant,
    terminal: bool,
    relation: String,
    skipped: Vec<String>,
}

impl Reader {
    pub(super) fn new(
        client: Client,
        schema: String,
        mode: Mode,
        planned: u64,
        block_bytes: u64,
        interrupt: Interrupt,
    ) -> Self {
        let now = Instant::now();
        Reader {
            client,
            schema,
            mode,
            interrupt,
            block_bytes,
            planned,
            read: 0,
            read_before: 0,
            started: now,
            shown: now,
            terminal: std::io::stderr().is_terminal(),
            relation: String::new(),
            skipped: Vec::new(),
        }
    }

    /// The next pieces belong to this relation.
    pub(super) fn begin(&mut self, relation: &str) {
        relation.clone_into(&mut self.relation);
    }

    /// Another pass over the same blocks begins.
    fn again(&mut self, planned: u64) {
        self.read_before += self.read;
        (self.read, self.planned) = (0, planned);
        self.skipped.clear();
    }

    /// How many blocks of these runs are in shared_buffers; None where that cannot be seen.
    pub(super) fn buffered(&mut self, database: &str, runs: &[(u32, u64, u64)]) -> Result<Option<u64>> {
        match survey::buffercache(&mut self.client, database)? {
            Ok(shown_by) => survey::buffered_of(&mut self.client, &shown_by.schema, runs).map(Some),
            Err(_) => Ok(None),
        }
    }

    /// Reads ranges of blocks, first to last. False where the relation cannot be read: its other pieces are skipped.
    pub(super) fn read(&mut self, oid: u32, ranges: &[(u64, u64)]) -> Result<bool> {
        let interrupted = self.interrupt.check();
        if let Err(e) = interrupted {
            self.end_line();
            eprintln!(
                "pgweir: {} of {} were read",
                self.size(self.read),
                self.size(self.planned)
            );
            return Err(e);
        }
        let signed = |block: u64| i64::try_from(block).unwrap_or(i64::MAX);
        let firsts: Vec<i64> = ranges.iter().map(|r| signed(r.0)).collect();
        let lasts: Vec<i64> = ranges.iter().map(|r| signed(r.1)).collect();
        let outcome = self.client.query_one(
            &format!(
                "select sum({}.pg_prewarm($1::oid::regclass, '{}', 'main', r.first, r.last))::int8 \
                 from unnest($2::int8[], $3::int8[]) r(first, last)",
                self.schema,
                self.mode.word()
            ),
            &[&oid, &firsts, &lasts],
        );
        match outcome {
            Ok(row) => {
                self.read += unsigned(row.get::<_, Option<i64>>(0).unwrap_or(0));
                self.progress();
                Ok(true)
            }
            // No privilege, dropped or cut short meanwhile, locked by somebody: the others can still be read.
            Err(e) if e.code().is_some_and(is_of_relation) => {
                let why = e.as_db_error().map_or("", |answer| answer.message());
                let skipped = format!("{}: {why}", self.relation);
                if !self.skipped.contains(&skipped) {
                    self.skipped.push(skipped);
                }
                Ok(false)
            }
            Err(e) => {
                self.end_line();
                eprintln!(
                    "pgweir: {} of {} were read",
                    self.size(self.read),
                    self.size(self.planned)
                );
                Err(extension::failed(&e))
            }
        }
    }

    fn progress(&mut self) {
        let interval = if self.terminal { TERMINAL_INTERVAL } else { LOG_INTERVAL };
        if self.shown.elapsed() < interval {
            return;
        }
        self.shown = Instant::now();
        let elapsed = self.started.elapsed().as_secs_f64();
        let rate = self.read as f64 / elapsed;
        let left = (self.planned.saturating_sub(self.read)) as f64 / rate.max(1.0);
        let line = format!(
            "{:.0} %  {} of {}  {}/s  about {left:.0} s left  {}",
            100.0 * self.read as f64 / self.planned.max(1) as f64,
            self.size(self.read),
            self.size(self.planned),
            self.size(rate as u64),
            self.relation
        );
        match self.terminal {
            true => {
                eprint!("\r\x1b[K{line}");
                let _ = std::io::stderr().flush();
            }
            false => eprintln!("{line}"),
        }
    }

    fn end_line(&self) {
        if self.terminal {
            eprint!("\r\x1b[K");
        }
    }

    fn size(&self, blocks: u64) -> String {
        bytes(blocks * self.block_bytes)
    }

    /// Says what has become of it; `buffered` are blocks in shared_buffers, and blocks wanted there.
    pub(super) fn finish(self, mode: Mode, buffered: Option<(u64, u64)>) -> Result<()> {
        self.end_line();
        for skipped in &self.skipped {
            crate::say(&format!("skipped {skipped}\n"));
        }
        if self.read == 0 && !self.skipped.is_empty() {
            return Err(Error::new("nothing could be read").hint(
                "it takes the privilege SELECT on the tables: their owner's, a superuser's, or pg_read_all_data's",
            ));
        }
        let time = self.started.elapsed().as_secs_f64();
        let read = self.size(self.read.max(self.read_before.min(self.planned)));
        crate::say(&format!("read {read} into {} in {time:.1} s\n", mode.destination()));
        match (mode, buffered) {
            (Mode::Buffer, Some((there, wanted))) => {
                crate::say(&format!(
                    "of {} {} are in shared_buffers now\n",
                    self.size(wanted),
                    self.size(there)
                ));
            }
            (Mode::Buffer, None) => crate::say("how much of it is still there only pg_buffercache can tell\n"),
            (Mode::Read, _) => {}
        }
        Ok(())
    }
}

/// Errors that concern one relation and leave the connection usable.
fn is_of_relation(code: &SqlState) -> bool {
    [
        SqlState::INSUFFICIENT_PRIVILEGE,
        SqlState::UNDEFINED_TABLE,
        SqlState::UNDEFINED_OBJECT,
        SqlState::INVALID_PARAMETER_VALUE,
        SqlState::LOCK_NOT_AVAILABLE,
        SqlState::WRONG_OBJECT_TYPE,
        SqlState::FEATURE_NOT_SUPPORTED,
    ]
    .contains(code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lost_connection_is_not_a_relation_s_fault() {
        assert!(is_of_relation(&SqlState::INSUFFICIENT_PRIVILEGE));
        assert!(!is_of_relation(&SqlState::ADMIN_SHUTDOWN) && !is_of_relation(&SqlState::IO_ERROR));
    }

    #[test]
    fn five_names_are_enough() {
        let names: Vec<String> = (1..=7).map(|n| n.to_string()).collect();
        assert_eq!(first_names(&names), "1, 2, 3, 4, 5, ...");
        assert_eq!(first_names(&names[..2]), "1, 2");
    }
}
