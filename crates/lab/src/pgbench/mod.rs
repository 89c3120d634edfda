//! The load generator, PostgreSQL's own pgbench: finding it, running it, reading its output, ending it.

mod child;
mod fill;
mod latencies;
mod load;
mod output;

pub use child::Child;
pub use fill::{BYTES_PER_SCALE, fill};
pub use latencies::Latencies;
pub use load::{Load, Measured, Protocol, Script, ScriptSource, WorkloadArguments, shell_quoted};
pub use output::{Live, Summary};

use crate::throwaway::installation;
use crate::{Error, Result};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A pgbench that can be run.
#[derive(Debug, Clone)]
pub struct Pgbench {
    /// The program.
    pub path: PathBuf,
    /// `pgbench (PostgreSQL) 15.18`
    pub version: String,
}

impl Pgbench {
    /// The pgbench in `bin_dir`, otherwise in PATH, otherwise the newest in the package folders.
    pub fn find(bin_dir: Option<&Path>) -> Result<Self> {
        let in_path = || {
            let folders = std::env::var_os("PATH")?;
            std::env::split_paths(&folders)
                .map(|folder| folder.join("pgbench"))
                .find(|file| file.is_file())
        };
        let in_packages = || {
            let folders = installation::PACKAGE_FOLDERS
                .iter()
                .flat_map(|pattern| installation::expand(pattern));
            folders.map(|folder| folder.join("pgbench")).find(|file| file.is_file())
        };
        // A folder of server programs may lack pgbench.
        let named = || {
            bin_dir
                .map(|folder| folder.join("pgbench"))
                .filter(|file| file.is_file())
        };
        let path = named().or_else(in_path).or_else(in_packages).ok_or_else(not_found)?;
        let output = Command::new(&path).arg("--version").output();
        let output = output.map_err(|e| Error::new(format!("could not run {}: {e}", path.display())))?;
        let version = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        if !output.status.success() || !version.starts_with("pgbench") {
            return Err(Error::new(format!(
                "{} --version says \"{version}\" and not a version of pgbench",
                path.display()
            )));
        }
        Ok(Pgbench { path, version })
    }

    /// Major version, such as 15.
    pub fn major(&self) -> u32 {
        let number = self.version.split(") ").nth(1).unwrap_or_default();
        number
            .split(|c: char| !c.is_ascii_digit())
            .next()
            .and_then(|n| n.parse().ok())
            .unwrap_or(0)
    }
}

fn not_found() -> Error {
    Error::new("found no pgbench, PostgreSQL's load generator")
        .hint("apt-get install postgresql-contrib    on Debian and Ubuntu")
        .hint("dnf install postgresql-contrib        on Fedora and Red Hat")
        .hint("or name the folder that it is in with --bin-dir")
}
