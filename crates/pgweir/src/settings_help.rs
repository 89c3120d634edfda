//! `pgweir settings [NAME]`: the catalogue on the terminal.

use pgweir_config::{CATALOGUE, ChangeRule, Group, Kind, Scope, Setting, Support};
use pgweir_lab::{say, tell};
use std::fmt::Write as _;
use std::process::ExitCode;

/// Prints one setting, or the list of all.
pub(crate) fn print(name: Option<&str>) -> ExitCode {
    let text = match name {
        None => list(),
        Some(name) => match Setting::find(name) {
            Some(setting) => explain(setting),
            None => {
                tell(&format!("pgweir: there is no setting {name}{}\n", similar(name)));
                return ExitCode::FAILURE;
            }
        },
    };
    say(&text);
    ExitCode::SUCCESS
}

fn list() -> String {
    let mut out = String::new();
    let width = CATALOGUE.iter().map(|s| s.name.len()).max().unwrap_or(0);
    for group in Group::ALL {
        let _ = writeln!(out, "{}{}", if out.is_empty() { "" } else { "\n" }, group.title());
        for setting in CATALOGUE.iter().filter(|s| s.group == group) {
            let _ = writeln!(out, "  {:width$}  {}", setting.name, plain(setting.help()));
        }
    }
    out.push_str("\npgweir settings NAME explains one of them.\n");
    out
}

fn explain(setting: &Setting) -> String {
    let mut out = format!("{}\n  {}\n\n", setting.name, plain(setting.help()));
    let value = match setting.kind {
        Kind::Choice(words) => words.join(", "),
        kind if setting.unit.is_empty() || setting.unit == kind.word() => kind.word().to_owned(),
        kind => format!("{} ({})", kind.word(), setting.unit),
    };
    let default = match setting.default {
        None => "unset",
        Some("") => "empty",
        Some(text) => text,
    };
    let change = match setting.change {
        ChangeRule::Reload => "after RELOAD, SIGHUP or SET",
        ChangeRule::Restart => "after a restart",
    };
    let places: Vec<&str> = setting.scopes.iter().map(|scope| section(*scope)).collect();
    let _ = writeln!(out, "  value    {value}");
    let _ = writeln!(out, "  default  {default}");
    let _ = writeln!(out, "  changes  {change}");
    let _ = writeln!(out, "  in       {}", places.join(" "));
    if !setting.long_help.is_empty() {
        let _ = writeln!(out, "\n  {}", plain(setting.long_help).replace('\n', "\n  "));
    }
    match setting.support {
        Support::Full => {}
        Support::AcceptedNoEffect(why) => {
            let _ = writeln!(out, "\n  Accepted without effect: {}.", plain(why));
        }
    }
    out
}

fn section(scope: Scope) -> &'static str {
    match scope {
        Scope::Global => "[pgbouncer]",
        Scope::Database => "[databases]",
        Scope::User => "[users]",
        Scope::Peer => "[peers]",
    }
}

/// Where the documents are that help texts name: their reader has the program alone.
const DOCUMENTS: &str = concat!(env!("CARGO_PKG_REPOSITORY"), "/blob/main/docs/");

/// Help texts are Markdown; on a terminal the backticks are left out.
fn plain(markdown: &str) -> String {
    markdown.replace('`', "").replace(" docs/", &format!(" {DOCUMENTS}"))
}

/// A hint for an unknown name: the settings that share the most words with it.
fn similar(name: &str) -> String {
    let name = name.to_ascii_lowercase();
    let words: Vec<&str> = name.split('_').filter(|w| w.len() > 2).collect();
    let shares = |s: &&Setting| {
        words
            .iter()
            .filter(|w| s.name.split('_').any(|part| part == **w))
            .count()
    };
    let best = CATALOGUE.iter().map(|s| shares(&s)).max().unwrap_or(0);
    if best == 0 {
        return "\n    hint: pgweir settings lists them all".to_owned();
    }
    let names: Vec<&str> = CATALOGUE.iter().filter(|s| shares(s) == best).map(|s| s.name).collect();
    format!("\n    hint: did you mean {}?", names.join(" or "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_has_every_setting_and_each_is_explained() {
        let list = list();
        for setting in CATALOGUE {
            assert!(list.contains(&format!("  {} ", setting.name)), "{}", setting.name);
            let text = explain(setting);
            assert!(text.starts_with(setting.name) && text.contains("  default  "), "{text}");
            // A file that only developers have.
            assert!(!text.contains(" docs/") && !text.contains("(docs/"), "{text}");
        }
        let explained = |name| explain(Setting::find(name).unwrap());
        assert!(explained("listen_port").contains("6432"));
        assert!(explained("pool_mode").contains("  value    session, transaction, statement\n"));
        assert!(explained("query_timeout").contains("  value    seconds\n"));
        assert!(explained("max_client_conn").contains("  value    integer (connections)\n"));
    }

    #[test]
    fn a_wrong_name_is_answered_with_likely_ones() {
        assert!(similar("pool_siz_default").contains("default_pool_size"));
        assert!(similar("zebra").contains("lists them all"));
    }
}
