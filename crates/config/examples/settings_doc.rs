//! Prints the documentation of the settings: Markdown; with `--man` a manual page; with `--migrating` the comparison
//! with PgBouncer.

use pgweir_config::{docs, docs_migrating};

fn main() {
    let text = match std::env::args_os().nth(1) {
        Some(argument) if argument == "--man" => docs::settings_man(),
        Some(argument) if argument == "--migrating" => docs_migrating::settings_compared(),
        _ => docs::settings_markdown(),
    };
    print!("{text}");
}
