//! The command line: PgBouncer's flags, and pgweir's own commands.

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Args, CommandFactory, Parser, Subcommand};
use pgweir_lab::tell;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// A PostgreSQL connection pooler that reads PgBouncer's configuration.
///
/// Runs in the foreground with the given configuration file until SIGTERM or SIGINT. If a file has the name of a
/// command, write it as ./NAME.
#[derive(Debug, Parser)]
#[command(
    name = "pgweir",
    version,
    args_conflicts_with_subcommands = true,
    args_override_self = true,
    infer_long_args = true,
    disable_help_subcommand = true
)]
pub(crate) struct Arguments {
    /// Run in the background; needs pidfile, logfile or syslog in the configuration
    #[arg(short, long)]
    pub(crate) daemon: bool,

    /// Write no log lines to stderr
    #[arg(short, long)]
    pub(crate) quiet: bool,

    /// Log more
    #[arg(short, long, action = clap::ArgAction::Count)]
    pub(crate) verbose: u8,

    /// Run as this system user; overrides the setting user
    #[arg(short, long, value_name = "USER")]
    pub(crate) user: Option<String>,

    /// Take the place of a running process, with its listening sockets and all connections; starts normally if there is none
    #[arg(short = 'R', long)]
    pub(crate) reboot: bool,

    /// Configuration file, in the format of pgbouncer.ini
    #[arg(value_name = "FILE")]
    pub(crate) file: Option<String>,

    #[command(subcommand)]
    pub(crate) command: Option<Command>,
}

/// The program's commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Read a configuration file and report every problem, with line and suggestion
    ///
    /// The exit status is 1 if there is an error, and 0 if there are only warnings.
    Check {
        /// Configuration file
        #[arg(value_name = "FILE")]
        file: String,
    },

    /// Try pgweir without any set-up: a throwaway PostgreSQL with a pooler in front
    ///
    /// Finds an installed PostgreSQL, makes a cluster in a temporary folder, and pools it on a free port of 127.0.0.1.
    /// Ctrl-C stops everything and removes it.
    Try(TryArguments),

    /// List the settings, or explain one of them
    Settings {
        /// Name of a setting
        #[arg(value_name = "NAME")]
        name: Option<String>,
    },

    /// Print a manual page: section 1 (the program) or 5 (the configuration file)
    #[command(hide = true)]
    Man {
        #[arg(default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=5))]
        section: u8,
    },

    #[command(flatten)]
    Lab(Box<pgweir_lab::Command>),
}

/// Arguments of `try`.
#[derive(Debug, Args)]
pub(crate) struct TryArguments {
    /// Port to listen on; by default a free one
    #[arg(long)]
    pub(crate) port: Option<u16>,

    /// Folder of PostgreSQL's programs, such as /usr/lib/postgresql/18/bin
    #[arg(long, value_name = "FOLDER")]
    pub(crate) bin_dir: Option<PathBuf>,

    /// Server connections of a pool
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) pool_size: u32,

    /// Keep the folder with the cluster
    #[arg(long)]
    pub(crate) keep: bool,

    /// Show the pooler's log
    #[arg(short, long)]
    pub(crate) verbose: bool,
}

/// Prints why the command line cannot be used, and the command that was probably meant. That of the pooler itself ends with
/// PgBouncer's words and exit status.
pub(crate) fn refuse(error: &clap::Error) -> ExitCode {
    let first = std::env::args().nth(1).unwrap_or_default();
    let command = Arguments::command();
    let is_of_pooler = !command.get_subcommands().any(|c| c.get_name() == first);
    if !error.use_stderr() || !is_of_pooler {
        let _ = error.print();
        return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(1));
    }
    let last = std::env::args().next_back().unwrap_or_default();
    refuse_pooler(&fault(error, &last), &first)
}

/// Why the pooler's command line cannot be used. `last` is its last argument.
fn fault(error: &clap::Error, last: &str) -> String {
    let invalid = match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::String(argument)) => argument.as_str(),
        _ => "",
    };
    match error.kind() {
        ErrorKind::InvalidValue if last.starts_with("--") => format!("option '{last}' requires an argument"),
        ErrorKind::InvalidValue => "option requires an argument -- 'u'".to_owned(),
        ErrorKind::UnknownArgument if invalid.starts_with("--") => format!("unrecognized option '{invalid}'"),
        ErrorKind::UnknownArgument if invalid.starts_with('-') => {
            format!("invalid option -- '{}'", invalid.chars().nth(1).unwrap_or('-'))
        }
        _ => NO_FILE.to_owned(),
    }
}

/// Also PgBouncer's words for more than one file.
const NO_FILE: &str = "no configuration file specified";

/// Says that there is no file.
pub(crate) fn refuse_without_file() -> ExitCode {
    refuse_pooler(NO_FILE, "")
}

fn refuse_pooler(fault: &str, first: &str) -> ExitCode {
    // People read the last line first.
    let hint = match fault {
        NO_FILE if first.is_empty() => Some("without any set-up: pgweir try".to_owned()),
        _ => mistyped(first),
    };
    let hint = hint.map(|hint| format!("    hint: {hint}\n")).unwrap_or_default();
    tell(&format!(
        "pgweir: {fault}\nTry \"pgweir --help\" for more information.\n{hint}"
    ));
    ExitCode::FAILURE
}

/// A hint if an argument is no file, but similar to the name of a command.
pub(crate) fn mistyped(argument: &str) -> Option<String> {
    let command = Arguments::command();
    let commands = command.get_subcommands().filter(|c| !c.is_hide_set());
    let commands = commands.map(clap::Command::get_name);
    // As commands of other programs.
    let flags = [("help", "--help"), ("version", "--version")];
    let flag = flags.iter().find(|(name, _)| *name == argument);
    let meant = flag
        .map(|(_, flag)| *flag)
        .or_else(|| pgweir_config::nearest(argument, commands))?;
    (meant != argument && !Path::new(argument).exists()).then(|| format!("did you mean \"pgweir {meant}\"?"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Arguments, clap::Error> {
        Arguments::try_parse_from(line.split(' '))
    }

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn pgbouncers_flags_in_both_forms() {
        let short = parse("pgweir -d -q -v -v -R -u pooler /etc/pgbouncer/pgbouncer.ini").unwrap();
        let long =
            parse("pgweir --daemon --quiet --verbose --verbose --reboot --user pooler /etc/pgbouncer/pgbouncer.ini");
        for a in [short, long.unwrap()] {
            assert!(a.daemon && a.quiet && a.reboot && a.verbose == 2 && a.command.is_none());
            assert_eq!(
                (a.user.as_deref(), a.file.as_deref()),
                (Some("pooler"), Some("/etc/pgbouncer/pgbouncer.ini"))
            );
        }
        assert!(parse("pgweir -dq a.ini").is_ok_and(|a| a.daemon && a.quiet));
        // As GNU's getopt_long.
        let twice = parse("pgweir -d -d -q -q -v -v a.ini -u one --us two").unwrap();
        assert!(twice.daemon && twice.quiet && twice.verbose == 2 && twice.user.as_deref() == Some("two"));
    }

    #[test]
    fn a_mistyped_command_is_recognised() {
        assert_eq!(mistyped("chek").as_deref(), Some("did you mean \"pgweir check\"?"));
        assert_eq!(
            mistyped("settigns").as_deref(),
            Some("did you mean \"pgweir settings\"?")
        );
        assert_eq!(mistyped("help").as_deref(), Some("did you mean \"pgweir --help\"?"));
        assert_eq!(
            mistyped("version").as_deref(),
            Some("did you mean \"pgweir --version\"?")
        );
        assert_eq!(mistyped("/etc/pgbouncer/pgbouncer.ini"), None);
        assert_eq!(mistyped("Cargo.toml"), None);
        // The command is right, and something behind it is wrong.
        assert_eq!(mistyped("check"), None);
    }

    #[test]
    fn a_file_named_like_a_command() {
        assert!(
            matches!(parse("pgweir check a.ini").unwrap().command, Some(Command::Check { file }) if file == "a.ini")
        );
        let a = parse("pgweir ./check").unwrap();
        assert_eq!((a.file.as_deref(), a.command.is_none()), (Some("./check"), true));
    }
}
