//! The committed manual pages are those the program prints.
#![allow(clippy::disallowed_methods)]

use std::process::Command;

#[test]
fn committed_manual_pages_are_current() {
    for (section, file) in [("1", "pgweir.1"), ("5", "pgweir.ini.5")] {
        let output = Command::new(env!("CARGO_BIN_EXE_pgweir"))
            .args(["man", section])
            .output()
            .unwrap();
        let path = format!("{}/../../docs/man/{file}", env!("CARGO_MANIFEST_DIR"));
        let committed = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(
            String::from_utf8(output.stdout).unwrap() == committed,
            "docs/man/{file} is out of date: pgweir man {section} > docs/man/{file}"
        );
    }
}
