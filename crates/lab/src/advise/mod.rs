//! `pgweir advise`: one report on a server's connections and memory, within seconds, read-only.
//!
//! | file | concept |
//! |---|---|
//! | `facts` | what is known; what is not known is None |
//! | `gather` | asking PostgreSQL |
//! | `processes` | asking /proc, where the server is on this machine |
//! | `console` | asking the console of a PgBouncer or pgweir |
//! | `finding` | what a rule says: severity, evidence, change, risk |
//! | `connections`, `memory`, `pooler` | the rules: facts in, findings out (pure) |
//! | `sizing` | the facts as inputs of the sizes that all rules recommend |
//! | `show`, `charts` | the report |

mod charts;
mod connections;
mod console;
mod facts;
mod finding;
mod gather;
mod memory;
mod pooler;
mod processes;
#[cfg(test)]
mod servers;
mod show;
mod sizing;

pub use console::{PoolFacts, PoolerFacts};
pub use facts::{BackendMemory, Facts, HugePages, MachineFacts, Sessions, Settings};
pub use finding::{Change, Finding, Severity};

use crate::cache::Unseen;
use crate::server::conninfo::Parameters;
use crate::server::{Server, ServerArguments};
use crate::{Error, Result};
use clap::Args;
use serde::Serialize;
use std::path::PathBuf;
use std::time::Duration;

/// Arguments of `advise`.
#[derive(Debug, Args)]
pub struct AdviseArguments {
    #[command(flatten)]
    server: ServerArguments,

    /// Also judge a running PgBouncer or pgweir: connection string or URI of its console
    #[arg(long, value_name = "CONNINFO")]
    console: Option<String>,

    /// Watch the server for this many seconds
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u64).range(0..=60))]
    seconds: u64,

    /// Memory of the server's machine in GB, if it cannot be seen from here
    #[arg(long, value_name = "GB")]
    ram: Option<f64>,

    /// Processors of the server's machine, if they cannot be seen from here
    #[arg(long, value_name = "COUNT")]
    cores: Option<u32>,

    /// Disks that work in parallel; 1 for an SSD, 0 if all data is in memory
    #[arg(long, default_value_t = 1)]
    spindles: u32,

    /// Print JSON instead of text
    #[arg(long)]
    json: bool,

    /// Also write a page with charts
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

/// The whole report; printed by --json as it stands.
#[derive(Debug, Clone, Serialize)]
pub struct Advice {
    /// What was found, the most severe first.
    pub findings: Vec<Finding>,
    /// What could not be seen.
    pub unseen: Vec<Unseen>,
    /// What the findings rest on; None where only a console was asked.
    pub facts: Option<Facts>,
    /// What the console said.
    pub pooler: Option<PoolerFacts>,
}

/// Runs the command.
pub fn run(arguments: &AdviseArguments) -> Result<()> {
    let mut unseen = Vec::new();
    let first = arguments.console.as_deref().map(ask_console).transpose()?;
    let facts = match ask_server(arguments, &mut unseen) {
        Ok(facts) => Some(facts),
        // A pooler can be judged alone.
        Err(e) if first.is_some() => {
            unseen.push(Unseen {
                what: "the server itself".to_owned(),
                why: e.to_string().lines().next().unwrap_or_default().to_owned(),
                how: "name it with --server".to_owned(),
            });
            None
        }
        Err(e) => return Err(e),
    };
    // The pools once more, for a queue that comes and goes.
    let pooler = match (first, arguments.console.as_deref()) {
        (Some(first), Some(console)) => Some(first.with_later(ask_console(console)?)),
        _ => None,
    };
    let advice = Advice {
        findings: judge(facts.as_ref(), pooler.as_ref()),
        unseen,
        facts,
        pooler,
    };
    if arguments.json {
        let json = serde_json::to_string_pretty(&advice).map_err(|e| Error::new(e.to_string()))?;
        crate::say(&format!("{json}\n"));
    } else {
        crate::say(&show::text(&advice));
    }
    if let Some(file) = &arguments.html {
        std::fs::write(file, show::report(&advice).to_html())
            .map_err(|e| Error::new(format!("could not write {}: {e}", file.display())))?;
        eprintln!("pgweir: wrote {}", file.display());
    }
    Ok(())
}

/// All rules, the most severe findings first.
fn judge(facts: Option<&Facts>, pooler: Option<&PoolerFacts>) -> Vec<Finding> {
    let mut findings = Vec::new();
    if let Some(facts) = facts {
        findings.extend(connections::judge(facts, pooler));
        findings.extend(memory::judge(facts, pooler));
    }
    if let Some(pooler) = pooler {
        findings.extend(pooler::judge(pooler, facts));
    }
    findings.sort_by_key(|finding| finding.severity);
    findings
}

fn ask_server(arguments: &AdviseArguments, unseen: &mut Vec<Unseen>) -> Result<Facts> {
    let server = Server::from_arguments(&arguments.server)?;
    let mut facts = gather::ask(&server, Duration::from_secs(arguments.seconds), unseen)?;
    facts.spindles = arguments.spindles;
    if let Some(ram) = arguments.ram {
        facts.ram_bytes = Some((ram * f64::from(1 << 30)) as u64);
    }
    facts.cores = arguments.cores.or(facts.cores);
    if facts.ram_bytes.is_none() {
        unseen.push(Unseen {
            what: "memory and processors of the server's machine".to_owned(),
            why: "the server's processes cannot be seen from here".to_owned(),
            how: "give them with --ram and --cores, or run this command on the server".to_owned(),
        });
    }
    Ok(facts)
}

/// Asks a console, whose database is `pgbouncer` where none is named.
fn ask_console(console: &str) -> Result<PoolerFacts> {
    let given = Parameters::parse(console).map_err(Error::new)?;
    let named = given.get("dbname").is_some();
    let server = Server::new(given)?;
    let server = if named { server } else { server.in_database("pgbouncer") };
    console::ask(&server)
}
