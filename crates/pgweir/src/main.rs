//! The program `pgweir`: arguments and wiring.
#![forbid(unsafe_code)]
// Like the runtime, it may call the system: see clippy.toml.
#![allow(clippy::disallowed_methods)]
// They panic where the reader has closed the pipe: `say` and `tell` of the laboratory do not.
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod arguments;
mod check;
mod manual;
mod settings_help;
mod try_it;

use arguments::{Arguments, Command};
use clap::Parser;
use pgweir_lab::tell;
use pgweir_runtime::{RunOptions, run};
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => return arguments::refuse(&error),
    };
    match arguments.command {
        Some(Command::Check { file }) => check::check(&file),
        Some(Command::Try(arguments)) => try_it::try_it(&arguments),
        Some(Command::Settings { name }) => settings_help::print(name.as_deref()),
        Some(Command::Man { section }) => manual::print(section),
        Some(Command::Lab(command)) => pgweir_lab::run(*command),
        None => pool(arguments),
    }
}

/// Runs the pooler.
fn pool(arguments: Arguments) -> ExitCode {
    let Some(config_file) = arguments.file else {
        return arguments::refuse_without_file();
    };
    let options = RunOptions {
        config_file: config_file.clone(),
        daemon: arguments.daemon,
        quiet: arguments.quiet,
        verbose: arguments.verbose > 0,
        user: arguments.user,
        reboot: arguments.reboot,
        ..RunOptions::default()
    };
    match run(options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            tell(&format!("pgweir: {e}\n"));
            if let Some(hint) = arguments::mistyped(&config_file) {
                tell(&format!("    hint: {hint}\n"));
            }
            ExitCode::from(e.exit_status())
        }
    }
}
