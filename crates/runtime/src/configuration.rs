//! Reading the configuration file, at the start and at each RELOAD.

use crate::interfaces;
use pgweir_config::{Config, Problem, load};
use pgweir_core::ReloadOutcome;
use std::io;
use std::sync::Arc;

/// A configuration, and its warnings.
pub(crate) type ConfigAndWarnings = (Config, Vec<Problem>);

/// The configuration file of the process.
#[derive(Debug, Clone)]
pub(crate) struct ConfigurationFile {
    path: String,
}

impl ConfigurationFile {
    pub(crate) fn new(path: &str) -> Self {
        ConfigurationFile { path: path.to_owned() }
    }

    /// Reads the file and the files that it includes.
    pub(crate) fn load(&self) -> Result<ConfigAndWarnings, Vec<Problem>> {
        let mut loaded = load(&self.path, &read_file)?;
        loaded.config.login_rules.machine = interfaces::machine();
        Ok((loaded.config, loaded.warnings))
    }

    /// Reads the file again, for the core.
    pub(crate) fn reload(&self) -> ReloadOutcome {
        let lines = |problems: Vec<Problem>| problems.iter().map(log_line).collect();
        match self.load() {
            Ok((config, warnings)) => ReloadOutcome::New(Arc::new(config), lines(warnings)),
            Err(problems) => ReloadOutcome::Bad(lines(problems)),
        }
    }
}

/// A problem in one line; its severity is the level of the line.
pub(crate) fn log_line(problem: &Problem) -> String {
    let Problem {
        place, message, hint, ..
    } = problem;
    match hint {
        Some(hint) => format!("{place}: {message} (HINT: {hint})"),
        None => format!("{place}: {message}"),
    }
}

/// A file by its name, relative to the working directory.
pub fn read_file(name: &str) -> io::Result<Vec<u8>> {
    std::fs::read(name)
}
