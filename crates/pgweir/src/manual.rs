//! The manual pages, made from the command line and the catalogue of settings.

use crate::arguments::Arguments;
use clap::CommandFactory;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};
use pgweir_lab::tell;
use std::io::{self, Write};
use std::process::ExitCode;

/// Signals, in the order of the page.
const SIGNALS: [(&str, &str); 6] = [
    (
        "SIGHUP",
        "Read the configuration again, as RELOAD does, and open the log file again.",
    ),
    (
        "SIGTERM",
        "Stop accepting connections, wait until all clients have left, then end. A second SIGTERM ends at once.",
    ),
    (
        "SIGINT",
        "Stop accepting connections, wait until all servers are released, then end. A second SIGINT ends at once.",
    ),
    ("SIGQUIT", "End at once."),
    (
        "SIGUSR1",
        "PAUSE: give no more servers to clients, and close each server when it is released.",
    ),
    ("SIGUSR2", "RESUME."),
];

/// Prints a manual page. `make docs` writes them to docs/man.
pub(crate) fn print(section: u8) -> ExitCode {
    let page = match section {
        1 => program_page(),
        5 => Ok(pgweir_config::docs::settings_man().into_bytes()),
        _ => {
            tell(&format!(
                "pgweir: there is no page in section {section}; there are 1 and 5\n"
            ));
            return ExitCode::FAILURE;
        }
    };
    match page.and_then(|page| io::stdout().write_all(&page)) {
        Ok(()) => ExitCode::SUCCESS,
        // The reader may be a pager that was closed early.
        Err(e) if e.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(e) => {
            tell(&format!("pgweir: {e}\n"));
            ExitCode::FAILURE
        }
    }
}

fn program_page() -> io::Result<Vec<u8>> {
    let man = Man::new(Arguments::command()).manual("pgweir");
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    man.render_description_section(&mut page)?;
    man.render_options_section(&mut page)?;
    let mut rest = Roff::new();
    rest.control("SH", ["COMMANDS"]);
    rest.text([roman("--help behind a command explains its options.")]);
    let mut program = Arguments::command();
    program.build();
    for command in program.get_subcommands().filter(|c| !c.is_hide_set()) {
        describe(command, &mut rest);
        for measurement in command.get_subcommands().filter(|c| c.get_name() != "help") {
            describe(measurement, &mut rest);
        }
    }
    rest.control("SH", ["SIGNALS"]);
    for (signal, what) in SIGNALS {
        rest.control("TP", []);
        rest.text([bold(signal)]);
        rest.text([roman(what)]);
    }
    rest.control("SH", ["EXIT STATUS"]);
    rest.text([roman(
        "0 after an orderly end, whatever signal caused it; 1 if the start failed or a checked configuration has \
         errors, or if the pooler's command line is wrong; 2 if the arguments of a command are wrong; 3 if pgweir advise has a finding that is as severe as --fail-on says; 128 \
         plus the number of the signal if a signal has ended pgweir top.",
    )]);
    rest.control("SH", ["SEE ALSO"]);
    rest.text([bold("pgweir.ini"), roman("(5)")]);
    rest.to_writer(&mut page)?;
    man.render_version_section(&mut page)?;
    Ok(page)
}

/// The usage and description of a command.
fn describe(command: &clap::Command, page: &mut Roff) {
    page.control("TP", []);
    // A command with commands of its own has a second line, which stands for them: they follow on the page.
    let usage = command.clone().render_usage().to_string();
    let usage = usage.lines().next().unwrap_or_default();
    page.text([bold(usage.trim_start_matches("Usage: "))]);
    let about = command.get_long_about().or(command.get_about());
    let about = about.map(ToString::to_string).unwrap_or_default();
    page.text([roman(format!("{}.", about.replace("\n\n", ". ").trim_end_matches('.')))]);
}
