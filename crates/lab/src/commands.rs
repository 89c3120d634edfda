//! The commands of this crate, as the program's command line has them.

use crate::Result;
use crate::advise::{self, AdviseArguments};
use crate::buffers;
use crate::cache::{self, CacheArguments};
use crate::idle::{self, IdleArguments};
use crate::throwaway::{self, KeeperArguments, LaunchArguments};
use crate::top::{self, TopArguments};
use crate::{compare, connect, connections, scale};
use clap::Subcommand;
use std::process::ExitCode;

/// The commands besides the pooler. Each command's arguments are in its own module.
#[derive(Debug, Subcommand)]
#[allow(clippy::large_enum_variant, reason = "one is made, from the command line")]
pub enum Command {
    /// Measure your own PostgreSQL: what connections cost, where throughput peaks, what pooling gives
    Lab {
        /// The measurement.
        #[command(subcommand)]
        command: LabCommand,
    },

    /// Advise on a server's connections, memory and pooler: one report within seconds; changes nothing, unless --apply is given
    Advise(AdviseArguments),

    /// Show which part of a database is in memory, and whether shared_buffers suits it; fill, save and restore it
    Cache(CacheArguments),

    /// Watch a pooler at work: its pools, servers and waiting clients, refreshed each second
    ///
    /// Asks the console of a pgweir or PgBouncer, and changes nothing; a user of stats_users may do that. Prints the view
    /// once, as plain text, where the standard output is no terminal.
    Top(TopArguments),

    /// Holds a throwaway PostgreSQL and removes it when its parent is gone
    #[command(hide = true)]
    ThrowawayKeeper(KeeperArguments),

    /// Runs a program that ends with its parent, as an unprivileged user if one is named
    #[command(hide = true)]
    ThrowawayLaunch(LaunchArguments),
}

/// The measurements.
#[derive(Debug, Subcommand)]
#[allow(clippy::large_enum_variant, reason = "one is made, from the command line")]
pub enum LabCommand {
    /// Find out how many connections are best: throughput and latency for each number of clients, direct and pooled
    ///
    /// Tries different numbers of clients, more of them around the peak, then different sizes of a pool. Recommends
    /// max_connections and default_pool_size.
    Connections(connections::Arguments),

    /// Measure what idle connections cost: throughput, latency and memory, direct and through pgweir
    ///
    /// Runs three loads alone and beside idle connections that have filled their catalog caches, and samples what the
    /// working sessions wait for.
    Idle(IdleArguments),

    /// Find out how large shared_buffers should be: throughput for each size, on a cold and on a prewarmed server
    ///
    /// Restarts the server with one size after the other. So the server is a throwaway one, or one on this machine
    /// whose data directory and restart command are given.
    Buffers(buffers::Arguments),

    /// Measure what a connection costs: connecting for each query, direct and pooled, and where the time goes
    ///
    /// On a throwaway server also with TLS and with SCRAM.
    Connect(connect::Arguments),

    /// Measure up to 19,900 clients through pgweir, as many direct ones as the server allows, and how long one more
    /// waits
    ///
    /// Throughput and latency for each number of clients; then one client beside a saturated pool: in that pool, in a
    /// pool of its own, and direct.
    Scale(scale::Arguments),

    /// Set two results of the same measurement side by side: what differs, and what is within the noise
    Compare(compare::Arguments),
}

/// Runs a command to its end.
pub fn run(command: Command) -> ExitCode {
    let done = |()| ExitCode::SUCCESS;
    let outcome = match command {
        Command::ThrowawayKeeper(arguments) => return throwaway::keep(&arguments),
        Command::ThrowawayLaunch(arguments) => return throwaway::launch(&arguments),
        Command::Advise(arguments) => advise::run(&arguments),
        Command::Lab { command } => lab(command).map(done),
        Command::Cache(arguments) => cache::run(&arguments).map(done),
        Command::Top(arguments) => top::run(&arguments).map(done),
    };
    match outcome {
        Ok(status) => status,
        Err(error) => {
            crate::tell(&format!("pgweir: {error}\n"));
            error.exit_status()
        }
    }
}

fn lab(command: LabCommand) -> Result<()> {
    match command {
        LabCommand::Connections(arguments) => connections::run(&arguments),
        LabCommand::Idle(arguments) => idle::run(&arguments),
        LabCommand::Buffers(arguments) => buffers::run(&arguments),
        LabCommand::Connect(arguments) => connect::run(&arguments),
        LabCommand::Scale(arguments) => scale::run(&arguments),
        LabCommand::Compare(arguments) => compare::run(&arguments),
    }
}
