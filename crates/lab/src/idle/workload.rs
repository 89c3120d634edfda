//! The three loads that idle connections are measured beside.

use crate::pgbench::{Load, Protocol, Script, ScriptSource};
use crate::{Error, Result};
use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::Path;

/// Rows that a transaction of [`Row::Scan`] reads.
const SCAN_ROWS: u32 = 5000;

/// A row of the measurement's table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Row {
    /// pgbench's TPC-B-like script: reads and writes in transactions of seven statements.
    Standard,
    /// pgbench's select-only script: one row by its key.
    Select,
    /// A range of 5,000 rows, of which one is asked for.
    Scan,
}

impl Row {
    /// All of them.
    pub const ALL: [Row; 3] = [Row::Standard, Row::Select, Row::Scan];

    /// As on the command line.
    pub fn word(self) -> &'static str {
        match self {
            Row::Standard => "standard",
            Row::Select => "select",
            Row::Scan => "scan",
        }
    }

    /// What a transaction does.
    pub fn meaning(self) -> &'static str {
        match self {
            Row::Standard => "pgbench's TPC-B-like script, which reads and writes",
            Row::Select => "pgbench's select-only script, one row by its key",
            Row::Scan => "a read of 5,000 rows in a range, one of which comes back",
        }
    }

    /// The load; a script of our own is written into `folder`, where it stays beside the results.
    pub fn load(self, folder: &Path, scale: u32, protocol: Protocol, clients: u32, seconds: u32) -> Result<Load> {
        let builtin = |name: &str| Script {
            source: ScriptSource::Builtin,
            name: name.to_owned(),
        };
        let script = match self {
            Row::Standard => builtin("tpcb-like"),
            Row::Select => builtin("select-only"),
            Row::Scan => {
                let path = folder.join("scan.sql");
                fs::write(&path, scan_script())
                    .map_err(|e| Error::new(format!("could not write {}: {e}", path.display())))?;
                Script {
                    source: ScriptSource::File,
                    name: path.display().to_string(),
                }
            }
        };
        // pgbench finds out the scale by itself for its own scripts alone.
        let variables = match self {
            Row::Scan => vec![format!("scale={scale}")],
            _ => Vec::new(),
        };
        Ok(Load {
            scripts: vec![script],
            variables,
            protocol,
            clients,
            seconds,
            connecting_seconds: 0,
            connect_each: false,
            vacuum: true,
        })
    }
}

/// The filter on another column has the server look at the rows of the range, and few of them qualify.
fn scan_script() -> String {
    format!(
        "\\set low random(1, 100000 * :scale - {SCAN_ROWS})\n\\set branch random(1, :scale)\n\
         begin;\nselect * from pgbench_accounts where aid >= :low and aid < :low + {SCAN_ROWS} and bid = :branch limit 1;\nend;\n"
    )
}
