//! Running a program that ends with its parent.

use crate::arguments::LaunchArguments;
use pgweir_runtime::change_user;
use rustix::process::{Signal, getppid, set_parent_process_death_signal};
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

/// Becomes the unprivileged user, arranges to get SIGINT (PostgreSQL's fast shutdown) when the parent ends, and
/// becomes the program.
pub(crate) fn launch(arguments: &LaunchArguments) -> ExitCode {
    let why = match prepare(arguments) {
        // Where it succeeds, exec does not return.
        Ok(()) => Command::new(&arguments.program[0])
            .args(&arguments.program[1..])
            .exec()
            .to_string(),
        Err(why) => why,
    };
    eprintln!("pgweir: could not run {}: {why}", arguments.program[0]);
    ExitCode::FAILURE
}

fn prepare(arguments: &LaunchArguments) -> Result<(), String> {
    if !arguments.user.is_empty() {
        change_user(&arguments.user).map_err(|e| e.to_string())?;
    }
    // Changing the user forgets the signal, so this comes after it (prctl(2), PR_SET_PDEATHSIG).
    set_parent_process_death_signal(Some(Signal::INT)).map_err(|e| e.to_string())?;
    // The parent may have ended before that.
    match getppid() {
        Some(parent) if parent.as_raw_nonzero().get().cast_unsigned() == arguments.parent => Ok(()),
        _ => Err("the parent process has ended".to_owned()),
    }
}
