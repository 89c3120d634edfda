//! Asking the user before a measurement changes anything.

use super::Target;
use crate::interrupt::Interrupt;
use crate::progress::duration_words;
use crate::{Error, Result};
use std::io::IsTerminal;
use std::time::Duration;

/// The plan of a measurement: what it will do to the server.
#[derive(Debug, Clone)]
pub struct Plan {
    /// One action each, such as `open up to 64 connections`.
    pub actions: Vec<String>,
    /// The time that it should take.
    pub time: Duration,
}

/// Shows the plan and waits for a yes.
pub(super) fn ask(command: &str, plan: &Plan, target: &Target, yes: bool, interrupt: &Interrupt) -> Result<()> {
    if yes {
        return Ok(());
    }
    if !std::io::stdin().is_terminal() {
        return Err(Error::new(format!(
            "lab {command} asks before it does this to a server, and there is no terminal to ask at:{}",
            lines(plan)
        ))
        .hint("--yes answers yes; --throwaway measures a temporary server of its own"));
    }
    crate::tell(&format!(
        "lab {command} will, on the {} (PostgreSQL {}):{}\nin about {}.\n",
        target.server.place(),
        target.facts.version,
        lines(plan),
        duration_words(plan.time)
    ));
    crate::tell("Go on? [y/N] ");
    let answer = interrupt.read_line()?;
    if ["y", "yes"].contains(&answer.trim().to_lowercase().as_str()) {
        Ok(())
    } else {
        Err(Error::new("nothing was done, because the answer was not yes"))
    }
}

fn lines(plan: &Plan) -> String {
    plan.actions.iter().map(|action| format!("\n  - {action}")).collect()
}
