//! Tells the program which sources it is built from: see `src/takeover/sources.rs`.
// This crate may call the system: see clippy.toml.
#![allow(clippy::disallowed_methods)]

#[path = "src/takeover/sources.rs"]
mod sources;

use sources::Sources;
use std::path::Path;

fn main() -> std::io::Result<()> {
    let folder = std::env::var("CARGO_MANIFEST_DIR").map_err(std::io::Error::other)?;
    let sources = Sources::of(Path::new(&folder))?;
    println!("cargo::rustc-env=PGWEIR_SOURCES={}", sources.hash()?);
    for path in sources.paths() {
        println!("cargo::rerun-if-changed={}", path.display());
    }
    Ok(())
}
