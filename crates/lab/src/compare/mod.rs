//! `pgweir lab compare`: two results of the same measurement side by side.
//!
//! What differs in machine, server, settings and load stands first, because it may be the reason for all that follows.
//! Then every figure of both, with its spread, and whether the difference is beyond the noise.
//!
//! | file | decides |
//! |---|---|
//! | `circumstances` | under what both were measured, as far as it differs |
//! | `figures` | which figures belong together, and how they differ |
//! | `verdict` | what it means, in words |
//! | `page` | the report |

mod circumstances;
mod figures;
mod page;
mod verdict;

use crate::results::{Outcome, REPORT_FILE, read};
use crate::{Error, Result};
use clap::Args;
use figures::Figures;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Arguments of the command.
#[derive(Debug, Args)]
pub struct Arguments {
    /// A folder of results, or its result.json: the base of the comparison
    #[arg(value_name = "A")]
    pub first: PathBuf,

    /// Another result of the same measurement, to compare with the base
    #[arg(value_name = "B")]
    pub second: PathBuf,

    /// Folder for a report.html; it must not exist yet
    #[arg(short, long, value_name = "FOLDER")]
    pub output: Option<PathBuf>,
}

/// Runs it.
pub fn run(arguments: &Arguments) -> Result<()> {
    let (first, second) = (read(&arguments.first)?, read(&arguments.second)?);
    refuse_different_measurements(&first, &second)?;
    let names = [&arguments.first, &arguments.second].map(|path| path.display().to_string());
    let differing = circumstances::differing(&first, &second);
    let figures = Figures::of(&first, &second);
    if figures.metrics.is_empty() {
        return Err(Error::new("the two results have no figure in common")
            .hint("the cases of both are named in their reports; measure with the same numbers of clients"));
    }
    let conclusions = verdict::conclusions(&figures, &differing);
    let report = page::draw([&first, &second], &names, &differing, &figures, &conclusions);
    // Before anything is printed: a folder that cannot be made is an error, and the only word said.
    let page = arguments
        .output
        .as_deref()
        .map(|folder| write(folder, &report.to_html()))
        .transpose()?;
    // The reader may be a pager that was left early.
    let mut output = std::io::stdout().lock();
    let _ = writeln!(output, "{}", report.to_text().trim_end());
    if let Some(page) = page {
        let _ = writeln!(output, "\nreport: {}", page.display());
    }
    Ok(())
}

fn refuse_different_measurements(first: &Outcome, second: &Outcome) -> Result<()> {
    if first.command == second.command {
        return Ok(());
    }
    Err(Error::new(format!(
        "the first is a result of \"lab {}\" and the second of \"lab {}\", which measure different things",
        first.command, second.command
    ))
    .hint("compare two results of the same command"))
}

fn write(folder: &Path, html: &str) -> Result<PathBuf> {
    let error = |e: std::io::Error| {
        Error::new(format!(
            "could not make the folder {} for the report: {e}",
            folder.display()
        ))
    };
    std::fs::create_dir(folder).map_err(error)?;
    let path = folder.join(REPORT_FILE);
    std::fs::write(&path, html).map_err(|e| Error::new(format!("could not write {}: {e}", path.display())))?;
    Ok(path)
}
