//! The commands of this crate, as the program's command line has them.

use crate::Result;
use crate::interrupt::Interrupt;
use crate::throwaway::{self, KeeperArguments, LaunchArguments};
use clap::Subcommand;
use std::process::ExitCode;

/// Commands beside the pooler. Each command's arguments stand in its own module.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Measure your own PostgreSQL: what connections cost, where throughput peaks, what pooling gives
    #[command(hide = true)]
    Lab {
        /// The measurement.
        #[command(subcommand)]
        command: LabCommand,
    },

    /// Holds a throwaway PostgreSQL and removes it when its parent is gone
    #[command(hide = true)]
    ThrowawayKeeper(KeeperArguments),

    /// Runs a program that ends with its parent, as an unprivileged user where one is named
    #[command(hide = true)]
    ThrowawayLaunch(LaunchArguments),
}

/// The measurements.
#[derive(Debug, Subcommand)]
pub enum LabCommand {}

/// Runs a command to its end.
pub fn run(command: Command) -> ExitCode {
    let outcome = match command {
        Command::ThrowawayKeeper(arguments) => return throwaway::keep(&arguments),
        Command::ThrowawayLaunch(arguments) => return throwaway::launch(&arguments),
        Command::Lab { command } => lab(command),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("pgweir: {error}");
            error.exit_status()
        }
    }
}

fn lab(command: LabCommand) -> Result<()> {
    Interrupt::install()?.check()?;
    match command {}
}
