//! The documentation is the catalogue's.

use pgweir_config::{CATALOGUE, Scope, docs, docs_migrating};

#[test]
fn settings_md_is_up_to_date() {
    let on_disk = include_str!("../../../../docs/settings.md");
    assert!(
        on_disk == docs::settings_markdown(),
        "docs/settings.md differs from the catalogue: run cargo run -p pgweir-config --example settings_doc > docs/settings.md"
    );
}

#[test]
fn the_comparison_with_pgbouncer_is_up_to_date() {
    let on_disk = include_str!("../../../../docs/migrating-from-pgbouncer.md");
    let table = docs_migrating::settings_compared();
    assert!(
        on_disk.contains(&table),
        "docs/migrating-from-pgbouncer.md has another table of settings: run make docs"
    );
}

#[test]
fn every_setting_has_a_heading_and_a_row() {
    let markdown = docs::settings_markdown();
    for setting in CATALOGUE {
        assert!(
            markdown.contains(&format!("\n#### {}\n", setting.name)),
            "{}",
            setting.name
        );
        assert!(
            markdown.contains(&format!("| [`{0}`](#{0}) |", setting.name)),
            "{}",
            setting.name
        );
    }
}

#[test]
fn table_rows_have_as_many_cells_as_their_heading() {
    let mut columns = None;
    for line in docs::settings_markdown().lines() {
        if !line.starts_with('|') {
            columns = None;
            continue;
        }
        let cells = line.matches('|').count();
        assert_eq!(*columns.get_or_insert(cells), cells, "{line}");
    }
}

#[test]
fn links_lead_to_headings() {
    let markdown = docs::settings_markdown();
    let headings: Vec<String> = markdown
        .lines()
        .filter(|line| line.starts_with('#'))
        .map(|line| {
            line.trim_start_matches(['#', ' '])
                .to_lowercase()
                .replace(' ', "-")
                .replace(['[', ']'], "")
        })
        .collect();
    let mut links = 0;
    for link in markdown.split("](#").skip(1) {
        let target = link.split(')').next().unwrap();
        assert!(headings.iter().any(|heading| heading == target), "{target}");
        links += 1;
    }
    assert!(links > CATALOGUE.len());
}

#[test]
fn scopes_and_keys_agree() {
    let markdown = docs::settings_markdown();
    for setting in CATALOGUE {
        let key = if setting.name == "default_pool_size" {
            "pool_size"
        } else {
            setting.name
        };
        for (scope, section) in [
            (Scope::Database, "databases"),
            (Scope::User, "users"),
            (Scope::Peer, "peers"),
        ] {
            // A database's `user` and the account of the process are different settings.
            if (setting.name, scope) == ("user", Scope::Database) {
                continue;
            }
            let documented = markdown.contains(&format!("<a id=\"{section}-{key}\">"));
            assert_eq!(
                setting.scopes.contains(&scope),
                documented,
                "{} in [{section}]",
                setting.name
            );
        }
    }
}

#[test]
fn the_manual_page_is_sound_roff() {
    let man = docs::settings_man();
    let requests = [".TH", ".SH", ".SS", ".TP", ".B", ".I", ".IP", ".PP", ".sp"];
    for line in man.lines().filter(|line| line.starts_with(['.', '\''])) {
        assert!(requests.contains(&line.split(' ').next().unwrap()), "{line}");
    }
    assert!(!man.contains('`') && !man.contains("]("), "markdown is left over");
    for setting in CATALOGUE {
        assert!(man.contains(&format!(".TP\n.B {}\n", setting.name)), "{}", setting.name);
    }
}
