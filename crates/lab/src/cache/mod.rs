//! `pgweir cache`: what of a database is in memory, whether shared_buffers suits it, and filling it.
//!
//! | file | concept |
//! |---|---|
//! | `survey` | what PostgreSQL says: settings, usage counts, relations and their buffers |
//! | `page_cache`, `resident`, `local` | what the operating system says |
//! | `counting`, `reads`, `io` | how often a block is missing from shared_buffers, and what that costs |
//! | `usage`, `verdict`, `verdict_words` | the histogram, and what all of it means (pure) |
//! | `look`, `look_page` | the report, on a terminal and as a page |
//! | `connection`, `agree` | the connection, signals, asking the user |
//! | `plan` | what to read, in which order, as far as it fits (pure) |
//! | `warm`, `reader` | reading it, with progress |
//! | `working_set` | the file of saved blocks (pure) |
//! | `save`, `restore` | writing and reading it |

pub(crate) mod agree;
mod connection;
pub(crate) mod counting;
pub(crate) mod extension;
mod io;
pub(crate) mod local;
mod look;
mod look_page;
mod page_cache;
mod plan;
mod reader;
pub(crate) mod reads;
mod relation;
mod resident;
mod restore;
mod save;
pub(crate) mod survey;
mod usage;
mod verdict;
#[cfg(test)]
mod verdict_tests;
mod verdict_words;
mod warm;
mod working_set;

pub use io::MissDetails;
pub use look::{Look, LookArguments};
pub use plan::{Plan, Step, plan};
pub use reads::Reads;
pub use relation::{Relation, RelationKind};
pub use restore::RestoreArguments;
pub use save::SaveArguments;
pub use survey::{Elsewhere, ServerFacts, Unseen};
pub use usage::{USAGE_COUNT_MAX, UsageCounts, UsageLevel};
pub use verdict::{Circumstances, Factor, Judgement, Verdict, judge};
pub use warm::WarmArguments;
pub use working_set::{CachedRelation, Header, WorkingSet};

use crate::Result;
use clap::{Args, Subcommand};

/// Arguments of `cache`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct CacheArguments {
    /// What to do; by default, show.
    #[command(subcommand)]
    action: Option<Action>,

    /// What to show.
    #[command(flatten)]
    look: LookArguments,
}

/// What can be done with the caches.
#[derive(Debug, Subcommand)]
enum Action {
    /// Read a database into shared_buffers: indexes first, then by use, as far as it fits
    ///
    /// Shows a plan and asks before it begins. It needs the extension pg_prewarm.
    Warm(WarmArguments),

    /// Save which blocks are in shared_buffers, as a list in a file
    Save(SaveArguments),

    /// Read a saved list of blocks into shared_buffers again
    Restore(RestoreArguments),
}

/// Runs the command.
pub fn run(arguments: &CacheArguments) -> Result<()> {
    match &arguments.action {
        None => look::look(&arguments.look),
        Some(Action::Warm(arguments)) => warm::warm(arguments),
        Some(Action::Save(arguments)) => save::save(arguments),
        Some(Action::Restore(arguments)) => restore::restore(arguments),
    }
}
