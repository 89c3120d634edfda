//! The documentation is up to date: generated files, cited paths and names, and the index of recordings.
#![expect(
    clippy::disallowed_methods,
    reason = "the documentation and the source are what is tested"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

#[test]
fn errors_md_is_generated_from_the_table() {
    let committed = include_str!("../../../docs/errors.md");
    assert_eq!(
        committed,
        pgweir_core::errors::errors_markdown(),
        "run: cargo run -p pgweir-core --example errors_doc > docs/errors.md"
    );
}

/// The folder of the repository.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn text_of(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// All files below a folder with one of these endings.
fn files(folder: &Path, endings: &[&str], found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        if path.is_dir() {
            if !matches!(name, "target" | "node_modules" | ".cache") {
                files(&path, endings, found);
            }
        } else if endings.iter().any(|ending| name.ends_with(ending)) {
            found.push(path);
        }
    }
}

/// The documents of the repository that people wrote.
fn documents() -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "bench/README.md"]
        .iter()
        .map(|name| root().join(name))
        .collect();
    files(&root().join("docs"), &[".md"], &mut found);
    files(&root().join("tests"), &[".md"], &mut found);
    found
}

/// The parts of a text between `before` and `after`, each within one line.
fn between<'t>(text: &'t str, before: &'t str, after: &'t str) -> impl Iterator<Item = &'t str> {
    let parts = text.lines().flat_map(move |line| line.split(before).skip(1));
    parts.filter_map(move |part| part.split_once(after).map(|(inside, _)| inside))
}

/// The texts between backticks.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.lines().flat_map(|line| line.split('`').skip(1).step_by(2))
}

#[test]
fn links_lead_to_files() {
    let mut broken = Vec::new();
    for document in documents() {
        let text = text_of(&document);
        for link in between(&text, "](", ")") {
            let path = link.split('#').next().unwrap();
            if !link.contains("://") && !path.is_empty() && !document.parent().unwrap().join(path).exists() {
                broken.push(format!("{}: {link}", document.display()));
            }
        }
    }
    assert!(broken.is_empty(), "links that lead nowhere: {broken:#?}");
}

/// Folders of the repository; a text in backticks that begins with one of them is a path.
const TOP: [&str; 7] = ["bench/", "crates/", "docs/", "examples/", "fuzz/", "scripts/", "tests/"];

/// Folders that only exist after something has run.
const MADE: [&str; 3] = ["bench/results", "fuzz/artifacts", "fuzz/corpus"];

#[test]
fn cited_paths_exist() {
    let mut missing = Vec::new();
    for document in documents() {
        let text = text_of(&document);
        for words in quoted(&text) {
            let path = words.split(' ').next().unwrap().trim_end_matches(['.', ',']);
            let is_path = TOP.iter().any(|top| path.starts_with(top));
            let is_pattern = path.contains(['*', '<', '{']) || path.contains("NAME") || path.contains("PID");
            let is_made = MADE.iter().any(|folder| path.starts_with(folder));
            if is_path && !is_pattern && !is_made && !root().join(path).exists() {
                missing.push(format!("{}: {path}", document.display()));
            }
        }
    }
    assert!(missing.is_empty(), "cited, but not in the repository: {missing:#?}");
}

/// The files of the core that each layer's rows of ARCHITECTURE.md name, as paths from `src` without `.rs`.
fn described_files(architecture: &str) -> BTreeSet<String> {
    let mut folder = String::new();
    let mut described = BTreeSet::new();
    let section = architecture.split("## The core, layer by layer").nth(1).unwrap();
    let section = section.split("\n## ").next().unwrap();
    for row in section.lines().filter(|line| line.starts_with("| ")) {
        let cell = row.split('|').nth(1).unwrap().trim();
        if let Some(layer) = cell.strip_prefix("**").and_then(|c| c.strip_suffix("**")) {
            folder = if layer.starts_with('`') {
                described.extend(quoted(layer).map(str::to_string));
                String::new()
            } else {
                format!("{layer}/")
            };
        } else {
            described.extend(quoted(cell).map(|file| format!("{folder}{file}")));
        }
    }
    described
}

#[test]
fn the_layers_of_the_core_are_those_of_architecture_md() {
    let architecture = text_of(&root().join("ARCHITECTURE.md"));
    let src = root().join("crates/core/src");
    let missing: Vec<String> = described_files(&architecture)
        .into_iter()
        .filter(|file| !src.join(format!("{file}.rs")).exists() && !src.join(file).is_dir())
        .collect();
    assert!(
        missing.is_empty(),
        "in ARCHITECTURE.md, but not in the core: {missing:#?}"
    );
    let described = described_files(&architecture);
    let layers = fs::read_dir(&src).unwrap().map(|entry| entry.unwrap());
    let layers = layers.filter(|entry| entry.file_type().unwrap().is_dir());
    for layer in layers.map(|entry| entry.file_name().into_string().unwrap()) {
        assert!(
            architecture.contains(&format!("| **{layer}** |")),
            "not in ARCHITECTURE.md: {layer}"
        );
        for entry in fs::read_dir(src.join(&layer)).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            let name = name.strip_suffix(".rs").unwrap_or(&name);
            let file = format!("{layer}/{name}");
            assert!(
                name == "mod" || name.ends_with("_tests") || described.contains(&file),
                "not in ARCHITECTURE.md: {file}"
            );
        }
    }
}

#[test]
fn functions_on_the_way_of_a_query_exist() {
    let text = text_of(&root().join("docs/life-of-a-query.md"));
    let mut sources = Vec::new();
    files(&root().join("crates/core/src"), &[".rs"], &mut sources);
    let source: String = sources.iter().map(|path| text_of(path)).collect();
    let functions: Vec<&str> = between(&text, "[`", "`]").collect();
    assert!(functions.len() > 10, "{functions:?}");
    let gone: Vec<_> = functions
        .iter()
        .filter(|name| !source.contains(&format!("fn {name}(")) && !source.contains(&format!("fn {name}<")))
        .collect();
    assert!(gone.is_empty(), "named, but not in the core: {gone:?}");
    let src = root().join("crates/core/src");
    let files_named = quoted(&text).filter(|path| path.ends_with(".rs"));
    let gone: Vec<_> = files_named
        .filter(|path| !src.join(path).exists() && !root().join("crates").join(path.replacen('/', "/src/", 1)).exists())
        .collect();
    assert!(gone.is_empty(), "cited, but not in the repository: {gone:?}");
}

/// Numbers such as E12 or F1b behind the word "recording".
fn cited_recordings(text: &str) -> Vec<String> {
    let mut cited = Vec::new();
    let words: Vec<&str> = text
        .split(|c: char| !c.is_alphanumeric())
        .filter(|w| !w.is_empty())
        .collect();
    for (at, _) in words
        .iter()
        .enumerate()
        .filter(|(_, w)| matches!(w.to_lowercase().as_str(), "recording" | "recordings"))
    {
        let numbers = words[at + 1..]
            .iter()
            .take_while(|w| is_number(w) || matches!(**w, "to" | "and"));
        cited.extend(numbers.filter(|w| is_number(w)).map(|w| w.to_string()));
    }
    cited
}

fn is_number(word: &str) -> bool {
    let digits = word
        .trim_start_matches(['E', 'F'])
        .trim_end_matches(|c: char| c.is_ascii_lowercase());
    word.starts_with(['E', 'F']) && !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit())
}

/// The table of docs/recordings.md: numbers, and the name of the recording.
fn index_of_recordings() -> BTreeMap<String, String> {
    let text = text_of(&root().join("docs/recordings.md"));
    let mut index = BTreeMap::new();
    for row in text.lines().filter(|line| line.starts_with("| ")) {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        for number in cells[1].split(", ").filter(|n| is_number(n)) {
            index.insert(number.to_string(), cells[cells.len() - 2].trim_matches('`').to_string());
        }
    }
    index
}

#[test]
fn every_recording_that_is_cited_is_in_the_index() {
    let index = index_of_recordings();
    let mut cited = documents();
    files(&root().join("crates"), &[".rs"], &mut cited);
    files(&root().join("tests"), &[".py", ".msg", ".sql"], &mut cited);
    let this_file = Path::new(file!()).file_name();
    let mut unknown = Vec::new();
    for path in cited.iter().filter(|path| path.file_name() != this_file) {
        let numbers = cited_recordings(&text_of(path)).into_iter();
        let gone = numbers.filter(|number| !index.contains_key(number));
        unknown.extend(gone.map(|number| format!("{}: {number}", path.display())));
    }
    assert!(unknown.is_empty(), "cited, but not in docs/recordings.md: {unknown:#?}");
}

#[test]
fn every_recording_of_the_index_is_there() {
    let transcripts = root().join("tests/transcripts");
    let index = index_of_recordings();
    assert!(index.len() > 20, "{index:?}");
    for (number, name) in &index {
        let script = text_of(&transcripts.join(format!("{name}.script")));
        let title = script.lines().next().unwrap();
        assert!(
            title.split(|c: char| !c.is_alphanumeric()).any(|word| word == number),
            "{name}: {number}"
        );
        for version in ["pg15", "pg18"] {
            assert!(
                transcripts.join(version).join(format!("{name}.txt")).exists(),
                "{version}/{name}"
            );
        }
    }
    let mut scripts = Vec::new();
    files(&transcripts, &[".script"], &mut scripts);
    for path in scripts {
        let script = text_of(&path);
        let title = script.lines().next().unwrap().trim_start_matches("# ");
        let numbers = title.split(':').next().unwrap().split(", ").filter(|n| is_number(n));
        for number in numbers {
            assert!(
                index.contains_key(number),
                "{} is not in docs/recordings.md",
                path.display()
            );
        }
    }
}

#[test]
fn citations_are_found() {
    let text = "(recordings E1 to E6, F1 say why) and Recording F1b: see E12";
    assert_eq!(cited_recordings(text), ["E1", "E6", "F1", "F1b"]);
}
