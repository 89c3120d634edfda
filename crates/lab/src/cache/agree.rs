//! Asking before something is done to the server.

use crate::interrupt::Interrupt;
use crate::{Error, Result};
use std::io::IsTerminal;

/// Whether the user agrees: by `--yes`, or by answering the question. Without a terminal nobody can be asked: None.
pub(crate) fn asked(question: &str, yes: bool, interrupt: &Interrupt) -> Result<Option<bool>> {
    if yes {
        return Ok(Some(true));
    }
    if !std::io::stdin().is_terminal() {
        return Ok(None);
    }
    crate::tell(&format!("{question} [y/N] "));
    let answer = interrupt.read_line()?;
    Ok(Some(matches!(answer.trim(), "y" | "Y" | "yes")))
}

/// The same for what cannot go on without: anything but a yes ends the command.
pub(crate) fn needed(question: &str, yes: bool, interrupt: &Interrupt) -> Result<()> {
    match asked(question, yes, interrupt)? {
        Some(true) => Ok(()),
        Some(false) => Err(Error::new("not agreed to; nothing has been done")),
        None => Err(Error::new(format!("there is no terminal to ask at: {question}")).hint("--yes agrees beforehand")),
    }
}
