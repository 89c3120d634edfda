//! Running a program that ends with its parent.

use clap::Args;
use pgweir_runtime::change_user;
use rustix::process::{Signal, getppid, set_parent_process_death_signal};
use std::ffi::OsStr;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

/// Arguments of the launcher.
#[derive(Debug, Args)]
pub struct LaunchArguments {
    /// User to run as; empty for the present user
    #[arg(long, default_value = "")]
    pub user: String,

    /// End when this process ends
    #[arg(long)]
    pub parent: u32,

    /// Program and arguments
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true)]
    pub program: Vec<String>,
}

/// A command that runs `program` through this program's launcher, as `user` (empty: the present user). SIGINT ends it
/// when the thread that spawns it ends (prctl(2), `PR_SET_PDEATHSIG`), so spawn it from a thread that lasts.
pub fn launched(user: &str, program: &OsStr) -> io::Result<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("throwaway-launch").arg("--user").arg(user);
    command.arg("--parent").arg(std::process::id().to_string()).arg("--");
    command.arg(program);
    Ok(command)
}

/// Changes to the unprivileged user, asks for SIGINT (PostgreSQL's fast shutdown) when the parent ends, and executes
/// the program.
pub fn launch(arguments: &LaunchArguments) -> ExitCode {
    let why = match prepare(arguments) {
        // If exec succeeds, it does not return.
        Ok(()) => Command::new(&arguments.program[0])
            .args(&arguments.program[1..])
            .exec()
            .to_string(),
        Err(why) => why,
    };
    crate::tell(&format!("pgweir: could not run {}: {why}\n", arguments.program[0]));
    ExitCode::FAILURE
}

fn prepare(arguments: &LaunchArguments) -> Result<(), String> {
    if !arguments.user.is_empty() {
        change_user(&arguments.user).map_err(|e| e.to_string())?;
    }
    // Changing the user resets the signal, so it is set afterwards (prctl(2), PR_SET_PDEATHSIG).
    set_parent_process_death_signal(Some(Signal::INT)).map_err(|e| e.to_string())?;
    // The parent may already have ended.
    match getppid() {
        Some(parent) if parent.as_raw_nonzero().get().cast_unsigned() == arguments.parent => Ok(()),
        _ => Err("the parent process has ended".to_owned()),
    }
}
