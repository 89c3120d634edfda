//! `pgweir advise --apply`: the changes of the server's settings, with a question for each. A restart is left to the user.

use super::Facts;
use super::finding::{Change, Finding};
use crate::cache::agree::asked;
use crate::cache::extension::failed;
use crate::interrupt::Interrupt;
use crate::server::Server;
use crate::{Error, Result};
use postgres::Client;
use std::io::IsTerminal;
use std::time::{Duration, Instant};

/// Time for the server to read its files again.
const RELOAD_MAX: Duration = Duration::from_secs(5);

/// How often to look whether it has.
const LOOK_INTERVAL: Duration = Duration::from_millis(50);

/// A change that was made, by the setting's name.
struct Made<'a> {
    name: &'a str,
    needs_restart: bool,
}

/// What can be changed by statements, and what the user has to do.
struct Split<'a> {
    here: Vec<(&'a Change, &'a Finding)>,
    by_hand: Vec<String>,
}

/// Fails at once where nobody can be asked.
pub(super) fn needs_terminal() -> Result<()> {
    match std::io::stdin().is_terminal() {
        true => Ok(()),
        false => Err(
            Error::new("--apply asks before each change, and there is no terminal to ask at")
                .hint("without --apply the report has each change as a statement for psql"),
        ),
    }
}

/// Asks for each change, makes it, and says what is in effect afterwards.
pub(super) fn apply(server: &Server, findings: &[Finding], facts: &Facts) -> Result<()> {
    let interrupt = Interrupt::install()?;
    let changes = split(findings, facts);
    let mut client = server.connect()?;
    let (mut made, mut refused) = (Vec::new(), 0);
    for (change, finding) in &changes.here {
        let Some(((name, _), statement)) = change.server_setting().zip(change.alter_system()) else {
            continue;
        };
        crate::tell(&format!(
            "\n{name} is {} now: {}\n",
            shown(&mut client, name)?,
            finding.title
        ));
        crate::tell(&format!("    risk: {}\n", finding.risk));
        if asked(&format!("{statement}?"), false, &interrupt)? != Some(true) {
            continue;
        }
        match client.batch_execute(&statement) {
            Ok(()) => made.push(Made {
                name,
                needs_restart: change.needs_restart(),
            }),
            Err(e) => {
                crate::tell(&format!("pgweir: {}\n", failed(&e)));
                refused += 1;
            }
        }
    }
    if made.iter().any(|made| !made.needs_restart) {
        reload(&mut client, &interrupt)?;
    }
    for made in &made {
        crate::tell(&format!("{}\n", outcome(&mut client, made)?));
    }
    if made.is_empty() && refused == 0 {
        crate::tell("Nothing was changed.\n");
    }
    for line in changes.by_hand {
        crate::tell(&format!("you have to change this yourself: {line}\n"));
    }
    match refused {
        0 => Ok(()),
        _ => Err(Error::new(format!("the server refused {refused} of the changes"))
            .hint("ALTER SYSTEM is for superusers, and for roles with GRANT ALTER SYSTEM ON PARAMETER (PostgreSQL 15 and later)")),
    }
}

/// Each change once, though several findings may ask for it.
fn split<'a>(findings: &'a [Finding], facts: &Facts) -> Split<'a> {
    let mut split = Split {
        here: Vec::new(),
        by_hand: Vec::new(),
    };
    for finding in findings {
        for change in &finding.changes {
            let line = format!("{}: {}", change.file, change.line);
            if split.here.iter().any(|(other, _)| *other == change) || split.by_hand.contains(&line) {
                continue;
            }
            match change.server_setting() {
                // With on, PostgreSQL does not start where the kernel has too few of them.
                Some(("huge_pages", _)) if !huge_pages_are_there(facts) => {
                    split
                        .by_hand
                        .push(format!("{line}, once the kernel has set the pages aside"));
                }
                Some(_) => split.here.push((change, finding)),
                None => split.by_hand.push(line),
            }
        }
    }
    split
}

fn huge_pages_are_there(facts: &Facts) -> bool {
    let free = facts.machine.as_ref().map_or(0, |machine| machine.huge_pages.free);
    facts
        .settings
        .shared_memory_huge_pages
        .is_some_and(|needed| free >= needed)
}

/// The value in this session.
fn shown(client: &mut Client, name: &str) -> Result<String> {
    let row = client.query_one("select current_setting($1)", &[&name]);
    Ok(row.map_err(|e| failed(&e))?.get(0))
}

/// Has the server read its files again, and waits until this session knows.
fn reload(client: &mut Client, interrupt: &Interrupt) -> Result<()> {
    const LOADED: &str = "select pg_catalog.pg_conf_load_time()::text";
    let loaded =
        |client: &mut Client| -> Result<String> { Ok(client.query_one(LOADED, &[]).map_err(|e| failed(&e))?.get(0)) };
    let before = loaded(client)?;
    client
        .batch_execute("select pg_catalog.pg_reload_conf()")
        .map_err(|e| failed(&e))?;
    let started = Instant::now();
    while loaded(client)? == before && started.elapsed() < RELOAD_MAX {
        interrupt.sleep(LOOK_INTERVAL)?;
    }
    Ok(())
}

/// Whether the change is in effect, and how to take it back.
fn outcome(client: &mut Client, made: &Made) -> Result<String> {
    let name = made.name;
    let back = format!("ALTER SYSTEM RESET {name} undoes it");
    if made.needs_restart {
        return Ok(format!(
            "{name}: written; it takes effect when you restart the server; {back}"
        ));
    }
    let row = client
        .query_one(
            "select source, coalesce(sourcefile like '%postgresql.auto.conf', true) from pg_catalog.pg_settings where name = $1",
            &[&name],
        )
        .map_err(|e| failed(&e))?;
    let (source, ours): (String, bool) = (row.get(0), row.get(1));
    Ok(match source == "configuration file" && ours {
        true => format!("{name} is {} now; {back}", shown(client, name)?),
        false => format!("{name}: written, but \"{source}\" sets it for this session, which comes first; {back}"),
    })
}

#[cfg(test)]
mod tests {
    use super::super::connections::tests::quiet;
    use super::super::finding::{PGBOUNCER_INI, POSTGRESQL_CONF, Severity};
    use super::*;

    #[test]
    fn each_change_is_asked_for_once_and_others_are_left_to_the_user() {
        let finding = |id: &str| Finding::new(id, Severity::Warning, "too much");
        let findings = [
            finding("a")
                .change(POSTGRESQL_CONF, "max_connections = 100")
                .change("sysctl.conf", "vm.nr_hugepages = 71")
                .change(POSTGRESQL_CONF, "huge_pages = on"),
            finding("b")
                .change(POSTGRESQL_CONF, "max_connections = 100")
                .change(PGBOUNCER_INI, "default_pool_size = 5"),
        ];
        let mut facts = quiet();
        let parts = split(&findings, &facts);
        let statements: Vec<_> = parts
            .here
            .iter()
            .filter_map(|(change, _)| change.alter_system())
            .collect();
        assert_eq!(statements, ["ALTER SYSTEM SET max_connections = '100'"]);
        assert_eq!(
            parts.by_hand,
            [
                "sysctl.conf: vm.nr_hugepages = 71",
                "postgresql.conf: huge_pages = on, once the kernel has set the pages aside",
                "pgbouncer.ini: default_pool_size = 5"
            ]
        );
        let mut machine = super::super::MachineFacts::default();
        machine.huge_pages.free = 71;
        facts.machine = Some(machine);
        assert_eq!(split(&findings, &facts).here.len(), 2);
    }
}
