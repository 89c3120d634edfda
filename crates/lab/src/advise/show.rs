//! The report of `pgweir advise`: on a terminal, and as a page.

use super::charts;
use super::finding::{Finding, Severity};
use super::{Advice, Facts, Sessions};
use crate::cache::Unseen;
use crate::progress::duration_words;
use crate::report::{Report, Table, Unit};
use std::time::Duration;

/// Whether a finding asks for something.
fn matters(finding: &&Finding) -> bool {
    finding.severity < Severity::Unknown
}

fn of(advice: &Advice, severity: Severity) -> impl Iterator<Item = &Finding> {
    advice
        .findings
        .iter()
        .filter(move |finding| finding.severity == severity)
}

pub(super) fn text(advice: &Advice) -> String {
    let mut out = format!("{}\n{}\n{}\n", heading(advice), headline(advice), counts(advice));
    for finding in advice.findings.iter().filter(matters) {
        out += &format!("\n[{}] {}\n", finding.severity.word(), finding.title);
        for sentence in &finding.evidence {
            out += &format!("    - {sentence}\n");
        }
        for change in &finding.changes {
            out += &match change.statement() {
                Some(statement) => format!("    run: {statement}\n"),
                None => format!(
                    "    set in {}: {}, then {}\n",
                    change.file,
                    change.line,
                    change.then().unwrap_or("restart it")
                ),
            };
        }
        if !finding.risk.is_empty() {
            out += &format!("    risk: {}\n", finding.risk);
        }
        if !finding.helped.is_empty() {
            out += &format!("    it has helped if: {}\n", finding.helped);
        }
        if let Some(experiment) = &finding.experiment {
            out += &format!("    to see it measured: {}\n", experiment.words());
        }
    }
    for (severity, heading) in [(Severity::Unknown, "cannot be judged yet:"), (Severity::Fine, "fine:")] {
        let titles: String = of(advice, severity).map(|f| format!("    {}\n", f.title)).collect();
        if !titles.is_empty() {
            out += &format!("\n{heading}\n{titles}");
        }
    }
    for Unseen { what, why, how } in &advice.unseen {
        out += &format!("\nnot seen: {what}: {why}\n    hint: {how}\n");
    }
    out
}

/// The verdict in one sentence: the worst finding.
fn headline(advice: &Advice) -> String {
    let worst = advice
        .findings
        .iter()
        .filter(matters)
        .min_by_key(|finding| finding.severity);
    match worst.map(|finding| (finding.severity, &finding.title)) {
        None if of(advice, Severity::Unknown).next().is_some() => {
            "Nothing needs a change, as far as it can be judged.".to_owned()
        }
        None => "Nothing needs a change.".to_owned(),
        Some((Severity::Critical, title)) => format!("Act now: {title}."),
        Some((Severity::Warning, title)) => format!("Something should be changed, first of all: {title}."),
        Some((_, title)) => format!("Nothing is wrong; it could be better: {title}."),
    }
}

/// What was looked at.
fn heading(advice: &Advice) -> String {
    let server = advice.facts.as_ref().map(|facts| {
        let machine = machine(facts);
        format!(
            "PostgreSQL {}, database \"{}\"{machine}, watched for {}",
            facts.server.version,
            facts.server.database,
            watched_words(&facts.sessions)
        )
    });
    let pooler = advice.pooler.as_ref().map(|pooler| pooler.version.clone());
    server.into_iter().chain(pooler).collect::<Vec<_>>().join("; ")
}

/// To the next second, as the last look takes some milliseconds.
fn watched_words(sessions: &Sessions) -> String {
    let time = duration_words(Duration::from_secs(sessions.watched.as_secs_f64().round() as u64));
    match sessions.ended_early {
        true => format!("{time} (ended early)"),
        false => time,
    }
}

fn machine(facts: &Facts) -> String {
    let cores = facts.cores.map(|cores| format!(", {cores} processors"));
    let ram = facts.ram_bytes.map(|ram| format!(", {}", Unit::Bytes.show(ram as f64)));
    cores.into_iter().chain(ram).collect()
}

/// `1 critical, 2 warnings, 0 pieces of advice, 5 fine`
fn counts(advice: &Advice) -> String {
    let count = |severity| of(advice, severity).count();
    let counted = |severity, one: &str, many: &str| match count(severity) {
        1 => format!("1 {one}"),
        number => format!("{number} {many}"),
    };
    format!(
        "{} critical, {}, {}, {} fine",
        count(Severity::Critical),
        counted(Severity::Warning, "warning", "warnings"),
        counted(Severity::Advice, "piece of advice", "pieces of advice"),
        count(Severity::Fine)
    )
}

pub(super) fn report(advice: &Advice) -> Report {
    let mut report = Report::new("pgweir advise", "What to change, and why");
    report.server(heading(advice));
    report.conclude(headline(advice));
    report.conclude(counts(advice));
    if let Some(facts) = &advice.facts {
        let section = report.section("At a glance");
        section.chart(charts::connections(facts));
        if let Some(chart) = charts::memory(facts) {
            section.chart(chart);
        }
    }
    for finding in advice.findings.iter().filter(matters) {
        let section = report.section(format!("{}: {}", finding.severity.word(), finding.title));
        section.list(finding.evidence.clone());
        if !finding.changes.is_empty() {
            let rows = finding.changes.iter().map(|change| match change.statement() {
                Some(statement) => ("psql".to_owned(), format!("`{statement}`")),
                None => (change.file.clone(), format!("`{}`", change.line)),
            });
            section.table(Table::pairs(rows).caption("Change"));
        }
        if !finding.risk.is_empty() {
            section.prose(format!("Risk: {}.", finding.risk));
        }
        if !finding.helped.is_empty() {
            section.prose(format!("It has helped if: {}.", finding.helped));
        }
        if let Some(experiment) = &finding.experiment {
            section.prose(format!("To see it measured: {}.", experiment.words()));
        }
    }
    for (severity, title) in [
        (Severity::Unknown, "Cannot be judged yet"),
        (Severity::Fine, "In order"),
    ] {
        let titles: Vec<String> = of(advice, severity).map(|f| f.title.clone()).collect();
        if !titles.is_empty() {
            report.section(title).list(titles);
        }
    }
    if !advice.unseen.is_empty() {
        let lines = advice
            .unseen
            .iter()
            .map(|u| format!("{}: {}; {}", u.what, u.why, u.how));
        report.section("Not seen").list(lines);
    }
    report
}

#[cfg(test)]
mod tests {
    use super::super::SCHEMA;
    use super::*;

    #[test]
    fn the_report_says_all_of_a_finding() {
        let finding = Finding::new("a.b", Severity::Warning, "too much")
            .evidence("seen twice")
            .change("postgresql.conf", "x = 1")
            .risk("a restart");
        let fine = Finding::new("c.d", Severity::Fine, "all well");
        let unseen = Unseen {
            what: "it".to_owned(),
            why: "no right".to_owned(),
            how: "grant it".to_owned(),
        };
        let advice = Advice {
            schema: SCHEMA,
            findings: vec![finding, fine],
            unseen: vec![unseen],
            facts: None,
            pooler: None,
        };
        let text = text(&advice);
        for words in [
            "Something should be changed, first of all: too much.\n0 critical, 1 warning, 0 pieces of advice, 1 fine",
            "[warning] too much\n    - seen twice\n    run: ALTER SYSTEM SET x = '1'; SELECT pg_reload_conf();\n    risk: a restart\n",
            "fine:\n    all well\n",
            "not seen: it: no right\n    hint: grant it\n",
        ] {
            assert!(text.contains(words), "{text}");
        }
        let page = report(&advice).to_html();
        assert!(page.contains("too much") && page.contains("grant it") && page.contains("ALTER SYSTEM SET x"));
    }
}
