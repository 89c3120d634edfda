//! Asking before something is done to the server.

use crate::{Error, Result};
use std::io::{BufRead, IsTerminal, Write};

/// Whether the user agrees: by `--yes`, or by answering the question. Without a terminal nobody can be asked: None.
pub(super) fn asked(question: &str, yes: bool) -> Result<Option<bool>> {
    if yes {
        return Ok(Some(true));
    }
    let input = std::io::stdin();
    if !input.is_terminal() {
        return Ok(None);
    }
    eprint!("{question} [y/N] ");
    std::io::stderr().flush()?;
    let mut answer = String::new();
    input.lock().read_line(&mut answer)?;
    Ok(Some(matches!(answer.trim(), "y" | "Y" | "yes")))
}

/// The same for what cannot go on without: anything but a yes ends the command.
pub(super) fn needed(question: &str, yes: bool) -> Result<()> {
    match asked(question, yes)? {
        Some(true) => Ok(()),
        Some(false) => Err(Error::new("not agreed to; nothing has been done")),
        None => Err(Error::new(format!("there is no terminal to ask at: {question}")).hint("--yes agrees beforehand")),
    }
}
