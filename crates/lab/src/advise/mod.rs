//! `pgweir advise`: one report on a server's connections and memory, within seconds, read-only.
//!
//! | file | concept |
//! |---|---|
//! | `facts` | what is known; what is not known is None |
//! | `gather`, `watch` | asking PostgreSQL: once; its sessions, one look after the other |
//! | `processes` | asking /proc, where the server is on this machine |
//! | `console` | asking the console of a PgBouncer or pgweir |
//! | `finding` | what a rule says: severity, evidence, change, risk |
//! | `connections`, `memory`, `pooler` | the rules: facts in, findings out (pure) |
//! | `proof` | how to see that a change helped, and what measures it |
//! | `apply` | `--apply`: asking for each change, and making it |
//! | `schema.json` | what `--json` prints; `schema` tests it |
//! | `sizing` | the facts as inputs of the sizes that all rules recommend |
//! | `show`, `charts` | the report |

mod apply;
mod charts;
mod connections;
mod console;
mod facts;
mod finding;
mod gather;
mod memory;
mod pooler;
mod processes;
mod proof;
#[cfg(test)]
mod schema;
#[cfg(test)]
mod servers;
mod show;
mod sizing;
mod watch;

pub use console::{PoolFacts, PoolerFacts, SizingFacts};
pub use facts::{BackendMemory, Facts, HugePages, MachineFacts, Sessions, Settings};
pub use finding::{Change, Finding, Severity};
pub use proof::Experiment;

use crate::cache::{ServerFacts, Unseen};
use crate::interrupt::EarlyEnd;
use crate::server::{Server, ServerArguments};
use crate::{Error, Result};
use clap::Args;
use serde::Serialize;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// Reads a number of gigabytes.
fn gigabytes(text: &str) -> Result<f64, String> {
    let number = text
        .parse()
        .ok()
        .filter(|number: &f64| number.is_finite() && *number > 0.0);
    number.ok_or_else(|| "expected a number of gigabytes above 0, such as 16 or 0.5".to_owned())
}

/// Arguments of `advise`.
#[derive(Debug, Args)]
pub struct AdviseArguments {
    #[command(flatten)]
    server: ServerArguments,

    /// Also judge a running PgBouncer or pgweir: connection string or URI of its console
    #[arg(long, value_name = "CONNINFO")]
    console: Option<String>,

    /// Watch the server for this many seconds, at moments 0.2 s apart
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u64).range(0..=60))]
    seconds: u64,

    /// Watch it for longer, such as 10m or 2h, at moments 1 s apart: the report is on that whole time; Ctrl-C ends it early, with
    /// a report on what was seen
    #[arg(long, value_name = "TIME", value_parser = watch_time, conflicts_with = "seconds")]
    watch: Option<Duration>,

    /// Ask for each change of the server's settings, and make it (ALTER SYSTEM, reload); never restarts the server
    #[arg(long, conflicts_with_all = ["json", "json_schema"])]
    apply: bool,

    /// End with exit status 3 if a finding is as severe as this, or more
    #[arg(long, value_name = "SEVERITY", value_enum)]
    fail_on: Option<Severity>,

    /// Memory of the server's machine in GB, if it cannot be seen from here
    #[arg(long, value_name = "GB", value_parser = gigabytes)]
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

    /// Print the JSON Schema of what --json prints, and nothing else
    #[arg(long)]
    json_schema: bool,

    /// Also write a page with charts
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

/// Increased when a field of the JSON output changes its meaning or goes.
const SCHEMA: u32 = 1;

/// What --json prints, as a JSON Schema.
const JSON_SCHEMA: &str = include_str!("schema.json");

/// Exit status where a finding is as severe as --fail-on says.
const FOUND_STATUS: u8 = 3;

/// The least and the most time to watch.
const WATCH_SECONDS: std::ops::RangeInclusive<u64> = 1..=604_800;

/// The whole report; printed by --json as it stands.
#[derive(Debug, Clone, Serialize)]
pub struct Advice {
    /// Version of these fields.
    pub schema: u32,
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
pub fn run(arguments: &AdviseArguments) -> Result<ExitCode> {
    if arguments.json_schema {
        crate::say(JSON_SCHEMA);
        return Ok(ExitCode::SUCCESS);
    }
    if arguments.apply {
        apply::needs_terminal()?;
    }
    let early = arguments.watch.map(|_| EarlyEnd::install()).transpose()?;
    let advice = look(arguments, early.as_ref())?;
    print(arguments, &advice)?;
    if arguments.apply {
        if let Some(early) = &early {
            early.leave_to_others();
        }
        let facts = advice.facts.as_ref();
        let facts =
            facts.ok_or_else(|| Error::new("nothing can be changed: only the console answered, and not the server"))?;
        apply::apply(&Server::from_arguments(&arguments.server)?, &advice.findings, facts)?;
    }
    let worst = advice.findings.first().map(|finding| finding.severity);
    Ok(match arguments.fail_on.zip(worst) {
        Some((limit, worst)) if worst <= limit => ExitCode::from(FOUND_STATUS),
        _ => ExitCode::SUCCESS,
    })
}

/// Looks at server and console, and judges.
fn look(arguments: &AdviseArguments, early: Option<&EarlyEnd>) -> Result<Advice> {
    let mut unseen = Vec::new();
    let console = arguments.console.as_deref().map(crate::console::server).transpose()?;
    let watching = console.as_ref().map(console::Watching::begin).transpose()?;
    let facts = match ask_server(arguments, early, &mut unseen) {
        Ok(facts) => Some(facts),
        // A pooler can be judged alone.
        Err(e) if watching.is_some() => {
            unseen.push(Unseen {
                what: "the server itself".to_owned(),
                why: e.to_string().lines().next().unwrap_or_default().to_owned(),
                how: "name it with --server".to_owned(),
            });
            None
        }
        Err(e) => return Err(e),
    };
    let pooler = watching.map(console::Watching::end).transpose()?;
    Ok(Advice {
        schema: SCHEMA,
        findings: judge(facts.as_ref(), pooler.as_ref()),
        unseen,
        facts,
        pooler,
    })
}

fn print(arguments: &AdviseArguments, advice: &Advice) -> Result<()> {
    if arguments.json {
        let json = serde_json::to_string_pretty(advice).map_err(|e| Error::new(e.to_string()))?;
        crate::say(&format!("{json}\n"));
    } else {
        crate::say(&show::text(advice));
    }
    if let Some(file) = &arguments.html {
        std::fs::write(file, show::report(advice).to_html())
            .map_err(|e| Error::new(format!("could not write {}: {e}", file.display())))?;
        crate::tell(&format!("pgweir: wrote {}\n", file.display()));
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
    proof::add(&mut findings);
    findings
}

/// A server's settings, for other commands that recommend sizes.
pub(crate) fn settings_of(server: &Server) -> Result<Settings> {
    let mut client = server.connect()?;
    let facts = ServerFacts::ask(&mut client, server)?;
    gather::settings(&mut client, &facts)
}

fn ask_server(arguments: &AdviseArguments, early: Option<&EarlyEnd>, unseen: &mut Vec<Unseen>) -> Result<Facts> {
    let server = Server::from_arguments(&arguments.server)?;
    let time = arguments.watch.unwrap_or(Duration::from_secs(arguments.seconds));
    let mut facts = gather::ask(&server, time, early, unseen)?;
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

/// `90s`, `10m` or `10min`, `2h`
fn watch_time(text: &str) -> Result<Duration, String> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let factor = match &text[digits..] {
        "s" => 1,
        "m" | "min" => 60,
        "h" => 3600,
        _ => return Err("a number with its unit is needed: 90s, 10m, 2h".to_owned()),
    };
    let seconds = text[..digits]
        .parse::<u64>()
        .ok()
        .and_then(|number| number.checked_mul(factor));
    match seconds.filter(|seconds| WATCH_SECONDS.contains(seconds)) {
        Some(seconds) => Ok(Duration::from_secs(seconds)),
        None => Err("between 1s and 168h".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_a_number_of_gigabytes() {
        assert_eq!((gigabytes("16"), gigabytes("0.5")), (Ok(16.0), Ok(0.5)));
        for wrong in ["x", "", "0", "-1", "inf", "NaN", "16GB"] {
            assert!(
                gigabytes(wrong).is_err_and(|error| error.starts_with("expected")),
                "{wrong}"
            );
        }
    }
}
