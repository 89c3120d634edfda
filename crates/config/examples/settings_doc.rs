//! Prints the documentation of the settings: markdown, or with `--man` a manual page.

fn main() {
    let man = std::env::args_os().nth(1).is_some_and(|argument| argument == "--man");
    print!(
        "{}",
        if man {
            pgweir_config::docs::settings_man()
        } else {
            pgweir_config::docs::settings_markdown()
        }
    );
}
