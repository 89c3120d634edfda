//! `pgweir check FILE`.

use pgweir_config::{Config, Host, Problem, Severity, load};
use pgweir_lab::say;
use pgweir_runtime::{check_machine, check_tls_files, read_file};
use std::process::ExitCode;

/// Prints whether a configuration can be used, and its problems. Fails if one of them is an error.
pub(crate) fn check(file: &str) -> ExitCode {
    let loaded = load(file, &read_file).and_then(|loaded| match check_tls_files(&loaded.config) {
        None => Ok(loaded),
        Some(problem) => Err(loaded.warnings.into_iter().chain([problem]).collect()),
    });
    match loaded {
        Ok(loaded) => {
            let mut warnings = loaded.warnings;
            warnings.extend(check_machine(&loaded.config));
            say(&(text(file, "can be used", &warnings) + &advice(&loaded.config)));
            ExitCode::SUCCESS
        }
        Err(problems) => {
            say(&text(file, "cannot be used", &problems));
            ExitCode::FAILURE
        }
    }
}

/// The output, with the verdict first.
fn text(file: &str, verdict: &str, problems: &[Problem]) -> String {
    let problem_lines: String = problems.iter().map(|problem| format!("{problem}\n")).collect();
    format!("{file}: {verdict}{}\n{problem_lines}", counted(problems))
}

/// Advice on a configuration in which nothing is wrong.
fn advice(config: &Config) -> String {
    let is_loopback = |host: &Host| match host {
        Host::Address(address) => address.is_loopback(),
        Host::Name(name) => name == "localhost",
        _ => false,
    };
    let by_tcp = config
        .databases
        .values()
        .chain(&config.autodb)
        .find(|d| d.hosts.iter().any(is_loopback));
    by_tcp.map_or_else(String::new, |database| {
        format!(
            "advice: database \"{}\" is on this machine, but reached by TCP: through the server's Unix-domain socket \
             (host=/var/run/postgresql, or what its unix_socket_directories says) a transaction costs pgweir 6 to \
             16 % less processor time\n",
            database.name
        )
    })
}

/// The number of problems of each kind, in words.
fn counted(problems: &[Problem]) -> String {
    let count = |severity, one: &str, many: &str| match problems.iter().filter(|p| p.severity == severity).count() {
        0 => None,
        1 => Some(format!("1 {one}")),
        n => Some(format!("{n} {many}")),
    };
    let errors = count(Severity::Error, "error", "errors");
    let warnings = count(Severity::Warning, "warning", "warnings");
    match (errors, warnings) {
        (None, None) => ", no problems found".to_owned(),
        (Some(one), None) | (None, Some(one)) => format!(", {one}"),
        (Some(errors), Some(warnings)) => format!(", {errors} and {warnings}"),
    }
}
