//! The report of `pgweir cache`.

use super::agree::asked;
use super::connection::with_server;
use super::counting::Counting;
use super::extension;
use super::look_page::report;
use super::page_cache::add_page_cache;
use super::relation::Relation;
use super::survey::{self, BUFFERCACHE, Elsewhere, ServerFacts, Unseen};
use super::usage::UsageCounts;
use super::verdict::{Circumstances, Judgement, judge};
use crate::interrupt::Interrupt;
use crate::machine::meminfo_bytes;
use crate::report::{Table, Unit};
use crate::server::ServerArguments;
use crate::{Error, Result};
use clap::Args;
use postgres::Client;
use serde::Serialize;
use std::path::PathBuf;

/// How to look.
#[derive(Debug, Args)]
pub struct LookArguments {
    #[command(flatten)]
    server: ServerArguments,

    /// Show this many relations, those with the most buffers first; 0 for all
    #[arg(long, default_value_t = 20, value_name = "COUNT")]
    top: usize,

    /// Also show PostgreSQL's own relations
    #[arg(long)]
    system: bool,

    /// Print JSON instead of tables
    #[arg(long)]
    json: bool,

    /// Also write a page with charts
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,

    /// The server's data directory, if it is on this machine and pgweir cannot find it
    #[arg(long, value_name = "FOLDER")]
    data_directory: Option<PathBuf>,

    /// Create the extension pg_buffercache without asking, if it is missing
    #[arg(long)]
    yes: bool,
}

/// All that was seen; printed by --json as it stands.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Look {
    /// The server.
    pub server: ServerFacts,
    /// The histogram; None where it could not be seen.
    pub usage: Option<UsageCounts>,
    /// What all of it means.
    pub judgement: Judgement,
    /// Relations of the connected database, those with the most buffers first.
    pub relations: Vec<Relation>,
    /// Buffers of anything else.
    pub elsewhere: Option<Elsewhere>,
    /// What could not be seen.
    pub unseen: Vec<Unseen>,
}

pub(super) fn look(arguments: &LookArguments) -> Result<()> {
    with_server(&arguments.server, |mut client, facts, interrupt| {
        offer_extension(&mut client, &facts, BUFFERCACHE, arguments.yes, interrupt)?;
        show(arguments, &mut client, facts)
    })
}

fn show(arguments: &LookArguments, client: &mut Client, facts: ServerFacts) -> Result<()> {
    let look = take(client, facts, arguments.data_directory.as_deref())?;
    if arguments.json {
        let text = serde_json::to_string_pretty(&look).map_err(|e| Error::new(e.to_string()))?;
        crate::say(&format!("{text}\n"));
    } else {
        crate::say(&text(&look, arguments));
    }
    if let Some(file) = &arguments.html {
        std::fs::write(file, report(&look, arguments).to_html())
            .map_err(|e| Error::new(format!("could not write {}: {e}", file.display())))?;
        crate::tell(&format!("pgweir: wrote {}\n", file.display()));
    }
    Ok(())
}

/// Creates an extension that is available and not created, where the user agrees.
pub(super) fn offer_extension(
    client: &mut Client,
    facts: &ServerFacts,
    name: &str,
    yes: bool,
    interrupt: &Interrupt,
) -> Result<()> {
    if extension::Extension::find(client, name)? != extension::Extension::Available || facts.in_recovery {
        return Ok(());
    }
    let question = format!(
        "extension {name} is not created in database \"{}\": create it?",
        facts.database
    );
    if asked(&question, yes, interrupt)? == Some(true) {
        extension::create(client, name)?;
    }
    Ok(())
}

/// Looks at everything that can be seen.
fn take(client: &mut Client, server: ServerFacts, data_directory: Option<&std::path::Path>) -> Result<Look> {
    let mut unseen = Vec::new();
    let counting = Counting::begin(client)?;
    let mut relations = survey::relations(client, server.block_bytes)?;
    let (mut usage, mut elsewhere) = (None, None);
    match survey::buffercache(client, &server.database)? {
        Ok(shown_by) => {
            let counts = survey::usage_counts(client, &shown_by, server.block_bytes)?;
            elsewhere = Some(survey::add_buffered(client, &shown_by.schema, &mut relations)?);
            usage = Some(counts);
        }
        Err(obstacle) => unseen.push(obstacle),
    }
    unseen.extend(add_page_cache(client, &server, data_directory, &mut relations)?);
    let around = circumstances(client, &server, &counting)?;
    let judgement = judge(usage.as_ref(), &around);
    relations.sort_by(|a, b| {
        let buffered = b.buffered_blocks.cmp(&a.buffered_blocks);
        buffered
            .then(b.page_cache_bytes.cmp(&a.page_cache_bytes))
            .then(b.blocks.cmp(&a.blocks))
            .then(a.name.cmp(&b.name))
    });
    Ok(Look {
        server,
        usage,
        judgement,
        relations,
        elsewhere,
        unseen,
    })
}

/// Everything beside the histogram, once misses have been counted for long enough.
fn circumstances(client: &mut Client, server: &ServerFacts, counting: &Counting) -> Result<Circumstances> {
    counting.wait();
    let counted = counting.end(client)?;
    let local = |name: &str| server.local.then(|| meminfo_bytes(name)).flatten();
    Ok(Circumstances {
        size_bytes: server.buffers * server.block_bytes,
        ram_bytes: local("MemTotal"),
        cores: server.cores(),
        page_cache_bytes: local("Cached"),
        available_bytes: local("MemAvailable"),
        data_bytes: survey::data_bytes(client),
        read_relations_bytes: counted.read_relations_bytes,
        uptime: Some(server.uptime),
        without_page_cache: server.without_page_cache,
        reads_now: counted.reads_now,
        reads_before: counted.reads_before,
        active_mean: Some(counted.active_mean),
    })
}

fn text(look: &Look, arguments: &LookArguments) -> String {
    let mut out = format!("{}\n\n{}\n", heading(look), look.judgement.summary);
    for reason in &look.judgement.reasons {
        out += &format!("  - {reason}\n");
    }
    if let Some(usage) = &look.usage {
        out += &format!("\n{}", usage_table(usage).to_text());
    }
    out += &match shown(look, arguments).next() {
        Some(_) => format!("\n{}", relation_table(look, arguments).to_text()),
        None => format!("\ndatabase \"{}\" has no tables of its own\n", look.server.database),
    };
    for line in beside(look, arguments) {
        out += &format!("{line}\n");
    }
    out + &unseen_text(&look.unseen)
}

/// What could not be seen, for a terminal.
pub(crate) fn unseen_text(unseen: &[Unseen]) -> String {
    let mut out = String::new();
    for one in unseen {
        out += &format!("\nnot seen: {}: {}\n    hint: {}\n", one.what, one.why, one.how);
    }
    out
}

pub(super) fn heading(look: &Look) -> String {
    let server = &look.server;
    format!(
        "PostgreSQL {}, database \"{}\", shared_buffers {} ({} buffers of {})",
        server.version,
        server.database,
        bytes(server.buffers * server.block_bytes),
        count(server.buffers),
        bytes(server.block_bytes)
    )
}

pub(super) fn usage_table(usage: &UsageCounts) -> Table {
    let mut table = Table::new()
        .text("usage count")
        .number("buffers")
        .number("size")
        .number("share")
        .number("dirty");
    let row = |name: String, buffers: u64, dirty: String| {
        let share = share(buffers, usage.buffers());
        [name, count(buffers), bytes(buffers * usage.block_bytes), share, dirty]
    };
    for (number, level) in usage.levels.iter().enumerate() {
        table = table.row(row(number.to_string(), level.buffers, count(level.dirty)));
    }
    table.row(row("unused".to_owned(), usage.unused, String::new()))
}

pub(super) fn relation_table(look: &Look, arguments: &LookArguments) -> Table {
    let block = look.server.block_bytes;
    let mut table = Table::new()
        .text("relation")
        .text("kind")
        .number("size")
        .number("in shared_buffers")
        .number("of buffers")
        .number("of relation")
        .number("dirty")
        .number("usage")
        .number("in page cache")
        .number("of relation");
    for relation in shown(look, arguments) {
        let size = relation.blocks * block;
        let unknown = || "?".to_owned();
        let buffered = |f: &dyn Fn(u64) -> String| relation.buffered_blocks.map_or_else(unknown, f);
        table = table.row([
            relation.shown_name(),
            relation.kind.word().to_owned(),
            bytes(size),
            buffered(&|blocks| bytes(blocks * block)),
            buffered(&|blocks| share(blocks, look.server.buffers)),
            buffered(&|blocks| share(blocks, relation.blocks)),
            relation
                .dirty_blocks
                .map_or_else(unknown, |blocks| bytes(blocks * block)),
            match (relation.buffered_blocks, relation.usage_mean) {
                (None, _) => unknown(),
                (_, mean) => mean.map(|mean| format!("{mean:.1}")).unwrap_or_default(),
            },
            relation.page_cache_bytes.map_or_else(unknown, bytes),
            relation
                .page_cache_bytes
                .map_or_else(unknown, |cached| share(cached, size)),
        ]);
    }
    table
}

/// The relations that the arguments ask for.
pub(super) fn shown<'a>(look: &'a Look, arguments: &LookArguments) -> impl Iterator<Item = &'a Relation> {
    let system = arguments.system;
    let most = if arguments.top == 0 { usize::MAX } else { arguments.top };
    look.relations
        .iter()
        .filter(move |r| r.blocks > 0 && (system || !r.system))
        .take(most)
}

/// What the table of relations leaves out.
pub(super) fn beside(look: &Look, arguments: &LookArguments) -> Vec<String> {
    let block = look.server.block_bytes;
    let mut lines = Vec::new();
    let sum = |relations: &mut dyn Iterator<Item = &Relation>| {
        relations.map(|r| r.buffered_blocks.unwrap_or(0)).sum::<u64>() * block
    };
    let candidates = || {
        look.relations
            .iter()
            .filter(|r| r.blocks > 0 && (arguments.system || !r.system))
    };
    let left = candidates().count() - shown(look, arguments).count();
    if left > 0 {
        let size = sum(&mut candidates()) - sum(&mut shown(look, arguments));
        lines.push(format!(
            "{} more relations: {} in shared_buffers (--top 0 shows all)",
            count(left as u64),
            bytes(size)
        ));
    }
    let Some(elsewhere) = &look.elsewhere else { return lines };
    if !arguments.system {
        let size = sum(&mut look.relations.iter().filter(|r| r.system));
        lines.push(format!(
            "PostgreSQL's own relations: {} (--system shows them)",
            bytes(size)
        ));
    }
    if elsewhere.shared > 0 {
        lines.push(format!(
            "relations that all databases share: {}",
            bytes(elsewhere.shared * block)
        ));
    }
    for (database, buffers) in &elsewhere.databases {
        lines.push(format!("database \"{database}\": {}", bytes(buffers * block)));
    }
    if elsewhere.other > 0 {
        let size = bytes(elsewhere.other * block);
        lines.push(format!("free space and visibility maps, dropped relations: {size}"));
    }
    if let Some(doubled) = doubled_bytes(look) {
        lines.push(format!("in both caches at once: at least {}", bytes(doubled)));
    }
    lines
}

/// What must be in shared_buffers and in the page cache at once: what of each relation's caches exceeds its size.
fn doubled_bytes(look: &Look) -> Option<u64> {
    let mut doubled = 0;
    for relation in &look.relations {
        let cached = relation.buffered_blocks? * look.server.block_bytes + relation.page_cache_bytes?;
        doubled += cached.saturating_sub(relation.blocks * look.server.block_bytes);
    }
    (doubled > 0).then_some(doubled)
}

pub(super) fn bytes(number: u64) -> String {
    Unit::Bytes.show(number as f64)
}

pub(super) fn count(number: u64) -> String {
    Unit::Number.show(number as f64)
}

fn share(part: u64, whole: u64) -> String {
    format!("{:.0} %", 100.0 * part as f64 / whole.max(1) as f64)
}
