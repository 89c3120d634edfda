//! `cache warm`: reading relations into shared_buffers by pg_prewarm, as often as it takes for them to stay there.

use super::agree;
use super::connection::with_server;
use super::extension::{Extension, failed};
use super::look::{bytes, count, offer_extension};
use super::plan::{Plan, Step, plan, room};
use super::reader::{Mode, Reader};
use super::relation::RelationKind;
use super::survey::{self, ServerFacts};
use crate::interrupt::Interrupt;
use crate::report::Table;
use crate::server::ServerArguments;
use crate::{Error, Result};
use clap::Args;
use postgres::Client;

/// Name of the extension that reads blocks.
pub(super) const PREWARM: &str = "pg_prewarm";

/// Blocks of one call: 16 MB, a fraction of a second on any disk.
const PIECE_BLOCKS: u64 = 2048;

/// A pool full of what was used before gives up the blocks just read sooner than those: usage counts of 1 against 2 and
/// more. Reading all again raises the count of what stayed, and brings back what went, until enough of it is there.
const PASSES_MAX: usize = 4;
const ENOUGH_SHARE: f64 = 0.98;

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
    let whole = plan.steps.iter().all(|step| step.is_whole()) && plan.left_out.is_empty();
    let mut out = format!(
        "{} of {} {} would be read into {}: {}\n\n",
        bytes(plan.blocks() * facts.block_bytes),
        count(plan.steps.len() as u64),
        if plan.steps.len() == 1 { "relation" } else { "relations" },
        mode.destination(),
        if whole {
            "all of them"
        } else {
            "what there is room for, indexes first"
        }
    );
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
    out += &table.to_text();
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn five_names_are_enough() {
        let names: Vec<String> = (1..=7).map(|n| n.to_string()).collect();
        assert_eq!(first_names(&names), "1, 2, 3, 4, 5, ...");
        assert_eq!(first_names(&names[..2]), "1, 2");
    }
}
