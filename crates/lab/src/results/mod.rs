//! What a run leaves behind: a folder with raw output, `result.json` and `report.html`.

mod outcome;
pub mod pages;

pub use outcome::{Case, Outcome, Paste, SCHEMA, ServerTold};

use crate::machine::Machine;
use crate::report::Report;
use crate::server::conninfo::Parameters;
use crate::session::Target;
use crate::{Error, Result};
use std::fs;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// The outcome, for programs; docs/lab/result.md describes it.
pub const RESULT_FILE: &str = "result.json";

/// The outcome, for people.
pub const REPORT_FILE: &str = "report.html";

/// The folder for what pgbench wrote, one file for each run.
const RAW_FOLDER: &str = "raw";

/// A folder of results. Removed when dropped, unless it was finished.
#[derive(Debug)]
pub struct Results {
    folder: PathBuf,
    command: String,
    started: jiff::Zoned,
    clock: Instant,
    finished: bool,
}

impl Results {
    /// Makes the folder; `./pgweir-lab-COMMAND-TIME` where none is named.
    pub fn create(command: &str, folder: Option<&Path>) -> Result<Self> {
        let started = jiff::Zoned::now();
        let folder = match folder {
            Some(folder) => folder.to_owned(),
            None => PathBuf::from(format!("pgweir-lab-{command}-{}", started.strftime("%Y%m%d-%H%M%S"))),
        };
        let error = |e: std::io::Error| {
            Error::new(format!(
                "could not make the folder {} for the results: {e}",
                folder.display()
            ))
        };
        fs::create_dir(&folder).map_err(error)?;
        fs::create_dir(folder.join(RAW_FOLDER)).map_err(error)?;
        Ok(Results {
            folder,
            command: command.to_owned(),
            started,
            clock: Instant::now(),
            finished: false,
        })
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Keeps what a program wrote; `name` without an ending, such as `direct-8-clients-round-1`.
    pub fn raw(&self, name: &str, text: &str) -> Result<()> {
        let path = self.folder.join(RAW_FOLDER).join(format!("{name}.txt"));
        fs::write(&path, text).map_err(|e| Error::new(format!("could not write {}: {e}", path.display())))
    }

    /// An outcome that says what was run, when and where, and has no results yet.
    pub fn outcome(&self, machine: &Machine, target: &Target, pgbench: &str) -> Outcome {
        Outcome {
            schema: SCHEMA,
            command: self.command.clone(),
            arguments: std::env::args().skip(1).map(without_password).collect(),
            program: format!("pgweir {}", env!("CARGO_PKG_VERSION")),
            started: self.started.strftime("%Y-%m-%dT%H:%M:%S%:z").to_string(),
            seconds: self.clock.elapsed().as_secs_f64(),
            machine: machine.clone(),
            server: ServerTold {
                version: target.facts.version.clone(),
                place: target.server.place(),
                throwaway: target.is_throwaway(),
                local: target.server.is_local(),
                settings: target.facts.settings.clone(),
            },
            pgbench: pgbench.to_owned(),
            ..Outcome::default()
        }
    }

    /// Writes the outcome and the report, prints the report's text, and keeps the folder.
    pub fn finish(mut self, mut outcome: Outcome, report: &Report) -> Result<()> {
        outcome.seconds = self.clock.elapsed().as_secs_f64();
        let json = serde_json::to_string_pretty(&outcome).map_err(|e| Error::new(format!("{RESULT_FILE}: {e}")))?;
        for (file, text) in [(RESULT_FILE, json + "\n"), (REPORT_FILE, report.to_html())] {
            let path = self.folder.join(file);
            fs::write(&path, text).map_err(|e| Error::new(format!("could not write {}: {e}", path.display())))?;
        }
        self.finished = true;
        if std::io::stderr().is_terminal() {
            crate::tell("\n");
        }
        crate::say(&format!(
            "{}\n\nresults: {}\n",
            report.to_text().trim_end(),
            self.folder.join(REPORT_FILE).display()
        ));
        Ok(())
    }
}

impl Drop for Results {
    fn drop(&mut self) {
        if !self.finished {
            let _ = fs::remove_dir_all(&self.folder);
        }
    }
}

/// An argument of the command line as it may be shown: a connection string loses its password.
fn without_password(argument: String) -> String {
    let (option, conninfo) = match argument.split_once('=') {
        Some((option @ "--server", conninfo)) => (format!("{option}="), conninfo),
        _ => match argument.strip_prefix("-s") {
            Some(conninfo) => ("-s".to_owned(), conninfo),
            None => (String::new(), argument.as_str()),
        },
    };
    let Ok(mut parameters) = Parameters::parse(conninfo) else {
        return argument;
    };
    match parameters.remove("password") {
        Some(_) => format!("{option}{}", parameters.to_words()),
        None => argument,
    }
}

/// Reads the outcome of an earlier run; `path` is its folder or the file itself.
pub fn read(path: &Path) -> Result<Outcome> {
    let file = if path.is_dir() {
        path.join(RESULT_FILE)
    } else {
        path.to_owned()
    };
    let text = fs::read_to_string(&file).map_err(|e| Error::new(format!("could not read {}: {e}", file.display())))?;
    outcome_of(&text).map_err(|e| e.context(file.display()))
}

/// The schema is looked at first: what has another one need not have the rest of this shape.
fn outcome_of(text: &str) -> Result<Outcome> {
    let is_none = |why: String| {
        Error::new(format!("not a result of pgweir lab: {why}")).hint(format!(
            "name the folder of results that a measurement has written, or the {RESULT_FILE} in it"
        ))
    };
    let value: serde_json::Value = serde_json::from_str(text).map_err(|e| is_none(e.to_string()))?;
    match value.get("schema").and_then(serde_json::Value::as_u64) {
        None => return Err(is_none("there is no number \"schema\" in it".to_owned())),
        Some(schema) if schema != u64::from(SCHEMA) => {
            return Err(Error::new(format!(
                "the result has schema {schema}, and this pgweir knows schema {SCHEMA}"
            ))
            .hint("use the pgweir that wrote it, or measure again"));
        }
        Some(_) => {}
    }
    serde_json::from_value(value).map_err(|e| is_none(e.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_result_is_told_so() {
        for (text, words) in [
            ("", "not a result of pgweir lab: EOF while parsing"),
            ("[1]", "not a result of pgweir lab: there is no number \"schema\" in it"),
            ("{\"schema\": 1}", "not a result of pgweir lab: missing field `command`"),
            (
                "{\"schema\": 2}",
                "the result has schema 2, and this pgweir knows schema 1",
            ),
        ] {
            let error = outcome_of(text).unwrap_err().to_string();
            assert!(error.starts_with(words) && error.contains("hint: "), "{error}");
        }
        let written = serde_json::to_string(&Outcome {
            schema: SCHEMA,
            ..Outcome::default()
        })
        .unwrap();
        assert_eq!(outcome_of(&written).unwrap().schema, SCHEMA);
    }

    #[test]
    fn passwords_are_not_shown() {
        for (argument, shown) in [
            ("postgres://bob:secret@db/shop", "dbname=shop host=db user=bob"),
            ("host=db password=secret", "host=db"),
            ("--server=host=db password=secret", "--server=host=db"),
            ("-shost=db password=secret", "-shost=db"),
            ("--scale=5", "--scale=5"),
            ("select-only", "select-only"),
        ] {
            assert_eq!(without_password(argument.to_owned()), shown);
        }
    }
}
