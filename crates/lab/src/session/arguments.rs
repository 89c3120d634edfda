//! The command line arguments that all measurements share.

use crate::server::ServerArguments;
use clap::Args;
use std::path::PathBuf;

/// Flatten these into a command's arguments.
#[derive(Debug, Clone, Args)]
pub struct CommonArguments {
    #[command(flatten)]
    #[allow(missing_docs)]
    pub server: ServerArguments,

    /// Measure a temporary PostgreSQL, which is removed afterwards
    #[arg(long, conflicts_with = "server")]
    pub throwaway: bool,

    /// Folder of PostgreSQL's programs, such as /usr/lib/postgresql/18/bin
    #[arg(long, value_name = "FOLDER")]
    pub bin_dir: Option<PathBuf>,

    /// Database to work in; it is created, and dropped afterwards
    #[arg(long, value_name = "NAME", default_value = "pgweir_lab")]
    pub database: String,

    /// Use the database as it is: do not create, fill or drop it
    #[arg(long, conflicts_with = "throwaway")]
    pub existing: bool,

    /// Do not ask
    #[arg(short, long)]
    pub yes: bool,

    /// Measure even if others use the server at the same time
    #[arg(long)]
    pub force: bool,

    /// Folder for the results, which must not exist yet; by default ./pgweir-lab-COMMAND-TIME
    #[arg(short, long, value_name = "FOLDER")]
    pub output: Option<PathBuf>,

    /// How many rounds to measure
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub rounds: u32,

    /// Seconds of each run
    #[arg(short = 'T', long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=86_400))]
    pub seconds: u32,
}
