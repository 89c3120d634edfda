//! Under what the two were measured, as far as it differs. Pure.

use crate::report::Unit;
use crate::results::Outcome;
use std::collections::BTreeSet;

/// Shown where one of the two does not tell.
const NOT_TOLD: &str = "–";

/// Something that was not alike.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Differing {
    /// What, such as `shared_buffers`.
    pub(super) what: String,
    /// Of the first and of the second.
    pub(super) values: [String; 2],
}

/// All of them: the load first, then server, machine, programs, settings, and the options of the command.
pub(super) fn differing(first: &Outcome, second: &Outcome) -> Vec<Differing> {
    let facts = [facts(first), facts(second)];
    let mut found: Vec<Differing> = Vec::new();
    for (at, (what, value)) in facts[0].iter().enumerate() {
        found.push(Differing {
            what: (*what).to_owned(),
            values: [value.clone(), facts[1][at].1.clone()],
        });
    }
    let settings = [&first.server.settings, &second.server.settings];
    let names: BTreeSet<&String> = settings.iter().flat_map(|settings| settings.keys()).collect();
    found.extend(names.into_iter().map(|name| Differing {
        what: format!("`{name}`"),
        values: settings.map(|settings| settings.get(name).cloned().unwrap_or_default()),
    }));
    found.push(Differing {
        what: "options".to_owned(),
        values: different_options(first, second),
    });
    found.retain(|fact| fact.values[0] != fact.values[1]);
    for value in found.iter_mut().flat_map(|fact| &mut fact.values) {
        if value.is_empty() {
            NOT_TOLD.clone_into(value);
        }
    }
    found
}

/// The options of each command line that the other does not have; both may be empty, where only their order differs.
fn different_options(first: &Outcome, second: &Outcome) -> [String; 2] {
    let options = [first, second].map(|outcome| options(&outcome.arguments));
    let without = |of: &[String], other: &[String]| {
        let kept: Vec<&str> = of
            .iter()
            .filter(|option| !other.contains(option))
            .map(String::as_str)
            .collect();
        kept.join(" ")
    };
    [without(&options[0], &options[1]), without(&options[1], &options[0])]
}

/// The same names in the same order for every result.
fn facts(outcome: &Outcome) -> Vec<(&'static str, String)> {
    let (server, machine) = (&outcome.server, &outcome.machine);
    // A throwaway server is in another folder each time.
    let place = if server.throwaway {
        "throwaway".to_owned()
    } else {
        server.place.clone()
    };
    #[expect(clippy::cast_precision_loss, reason = "for reading")]
    let memory = Unit::Bytes.show(machine.memory_bytes as f64);
    vec![
        ("load", outcome.workload.clone()),
        ("rounds", outcome.rounds.to_string()),
        ("seconds of each run", outcome.seconds_per_run.to_string()),
        ("server", place),
        ("PostgreSQL", server.version.clone()),
        (
            "server on the machine of the lab",
            if server.local { "yes" } else { "no" }.to_owned(),
        ),
        ("processors", machine.cpus.to_string()),
        ("processor", machine.cpu_model.clone()),
        ("memory", memory),
        ("system", machine.system.clone()),
        ("program", outcome.program.clone()),
        ("load generator", outcome.pgbench.clone()),
    ]
}

/// The options of a command line with their values, without what does not bear on the figures: consent, and the folder of
/// the results.
fn options(arguments: &[String]) -> Vec<String> {
    let mut options: Vec<String> = Vec::new();
    for argument in arguments {
        match options.last_mut() {
            Some(option) if !argument.starts_with('-') => *option = format!("{option} {argument}"),
            _ => options.push(argument.clone()),
        }
    }
    let no_matter = ["-y", "--yes", "-o", "--output"];
    options.retain(|option| {
        !no_matter
            .iter()
            .any(|name| option.split([' ', '=']).next() == Some(name))
    });
    options
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome() -> Outcome {
        let mut outcome = Outcome {
            arguments: ["lab", "scale", "-y", "--output", "x", "--rounds=2"]
                .map(str::to_owned)
                .to_vec(),
            workload: "select-only".to_owned(),
            ..Outcome::default()
        };
        outcome.server.throwaway = true;
        outcome.server.place = "socket in /tmp/a".to_owned();
        outcome.server.settings.insert("work_mem".to_owned(), "4MB".to_owned());
        outcome
    }

    #[test]
    fn where_it_is_written_to_and_when_are_no_differences() {
        let mut other = outcome();
        other.arguments = ["lab", "scale", "--rounds=2", "--output=y"].map(str::to_owned).to_vec();
        other.server.place = "socket in /tmp/b".to_owned();
        other.started = "2026-11-21T14:05:00+00:00".to_owned();
        other.seconds = 5.0;
        assert_eq!(differing(&outcome(), &other), []);
    }

    #[test]
    fn options_of_one_alone_are_told() {
        let mut other = outcome();
        other.arguments = ["lab", "scale", "--rounds=2", "-T", "5"].map(str::to_owned).to_vec();
        let told = differing(&outcome(), &other);
        assert_eq!(
            (&*told[0].what, &*told[0].values[0], &*told[0].values[1]),
            ("options", "–", "-T 5")
        );
        assert_eq!(told.len(), 1);
    }

    #[test]
    fn settings_of_one_alone_are_differences_too() {
        let mut other = outcome();
        other.workload = "tpcb-like".to_owned();
        other.server.settings.clear();
        other.server.settings.insert("jit".to_owned(), "on".to_owned());
        let told: Vec<(String, [String; 2])> = differing(&outcome(), &other)
            .into_iter()
            .map(|d| (d.what, d.values))
            .collect();
        let row = |what: &str, a: &str, b: &str| (what.to_owned(), [a.to_owned(), b.to_owned()]);
        assert_eq!(
            told,
            [
                row("load", "select-only", "tpcb-like"),
                row("`jit`", "–", "on"),
                row("`work_mem`", "4MB", "–")
            ]
        );
    }
}
