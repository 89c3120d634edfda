//! Reading the configuration file, at the start and at each RELOAD.

use crate::interfaces;
use crate::tls::TlsContexts;
use pgweir_config::{Config, GlobalSettings, Place, Problem, load, settings_as_far_as_read};
use pgweir_core::ReloadOutcome;
use std::io;
use std::sync::Arc;

/// A configuration, and its warnings.
pub(crate) type ConfigAndWarnings = (Config, Vec<Problem>);

/// A configuration file.
#[derive(Debug, Clone, PartialEq)]
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
        let rules = &mut loaded.config.login_rules;
        match interfaces::machine() {
            Ok(machine) => rules.machine = machine,
            Err(e) if rules.hba.as_ref().is_some_and(|rules| rules.ask_for_machine()) => {
                let text = format!("could not ask for the addresses of this machine, for samehost and samenet: {e}");
                return Err(vec![Problem::error(&Place::file(&self.path), text)]);
            }
            Err(_) => {}
        }
        Ok((loaded.config, loaded.warnings))
    }

    /// The settings of a file that cannot be used, as far as they can be read.
    pub(crate) fn settings_as_far_as_read(&self) -> GlobalSettings {
        settings_as_far_as_read(&self.path, &read_file)
    }

    /// Reads the file again, for the core, and the certificates and keys that it names. Unless all of them can be used,
    /// none is. Then the last problem is what PgBouncer says of it.
    pub(crate) fn reload(&self) -> (ReloadOutcome, Option<TlsContexts>) {
        match self.load() {
            Ok((config, warnings)) => match TlsContexts::load_or_problem(&config) {
                Ok(tls) => (ReloadOutcome::New(Arc::new(config), warnings), Some(tls)),
                Err(problem) => {
                    let told = Problem::tls_not_reloaded(&problem.place);
                    (ReloadOutcome::Bad(vec![problem, told]), None)
                }
            },
            Err(mut problems) => {
                let tls = problems.iter().find(|problem| problem.is_of_tls_setup());
                problems.extend(tls.map(|problem| Problem::tls_not_reloaded(&problem.place)));
                problems.push(Problem::not_loaded(&Place::file(&self.path)));
                (ReloadOutcome::Bad(problems), None)
            }
        }
    }
}

/// A file by its name, relative to the working directory.
pub fn read_file(name: &str) -> io::Result<Vec<u8>> {
    std::fs::read(name)
}
