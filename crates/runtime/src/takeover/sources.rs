//! A hash of the sources that decide what the state means: those of this crate, and of all crates of the workspace that
//! it is built from. The build script computes it.
//!
//! The layout of the state is not enough. A newer program may have the same fields, but ask servers other questions,
//! number effects otherwise, or trust fewer functions; then it must not go on with the judgements of an older one.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::{fs, io};

/// Where the sources are.
#[derive(Debug)]
pub(super) struct Sources {
    /// The folder that has the crates' folders.
    crates: PathBuf,
    /// The names of these folders.
    names: BTreeSet<String>,
}

/// What counts in a crate's folder.
const COUNTED: [&str; 3] = ["src", "Cargo.toml", "build.rs"];

impl Sources {
    /// The sources of the crate in this folder, and of the crates beside it that it needs.
    pub(super) fn of(folder: &Path) -> io::Result<Sources> {
        let name = folder.file_name().and_then(|name| name.to_str());
        let mut open = vec![name.ok_or(io::ErrorKind::InvalidInput)?.to_string()];
        let mut sources = Sources {
            crates: folder.parent().ok_or(io::ErrorKind::InvalidInput)?.to_path_buf(),
            names: BTreeSet::new(),
        };
        while let Some(name) = open.pop() {
            let manifest = fs::read_to_string(sources.crates.join(&name).join("Cargo.toml"))?;
            if sources.names.insert(name) {
                open.extend(manifest.lines().filter_map(dependency).map(str::to_string));
            }
        }
        Ok(sources)
    }

    /// All files and folders that count. A change in any of them changes the hash.
    pub(super) fn paths(&self) -> Vec<PathBuf> {
        let of_crate = |name: &String| COUNTED.map(|counted| self.crates.join(name).join(counted));
        let mut paths: Vec<PathBuf> = self.names.iter().flat_map(of_crate).collect();
        // The versions of all other crates.
        paths.push(self.crates.join("../Cargo.lock"));
        paths.retain(|path| path.exists());
        paths
    }

    /// The hash. It depends on names and contents alone, so that equal sources give equal programs.
    pub(super) fn hash(&self) -> io::Result<u64> {
        let mut files = BTreeSet::new();
        for path in self.paths() {
            add_files(path, &mut files)?;
        }
        let mut hash = Fnv::default();
        for path in files {
            let name = path.strip_prefix(&self.crates).unwrap_or(&path);
            hash.add(name.as_os_str().as_encoded_bytes());
            hash.add(&fs::read(&path)?);
        }
        Ok(hash.0)
    }
}

/// The folder of the crate that a line of Cargo.toml names as a dependency, if it belongs to the workspace.
fn dependency(line: &str) -> Option<&str> {
    let (name, _) = line.strip_prefix("pgweir-")?.split_once(['.', ' ', '='])?;
    Some(name)
}

fn add_files(path: PathBuf, files: &mut BTreeSet<PathBuf>) -> io::Result<()> {
    if !path.is_dir() {
        files.insert(path);
        return Ok(());
    }
    for entry in fs::read_dir(path)? {
        add_files(entry?.path(), files)?;
    }
    Ok(())
}

/// FNV-1a with 64 bits. The hash only tells programs apart that do not mean to deceive.
#[derive(Debug)]
struct Fnv(u64);

impl Default for Fnv {
    fn default() -> Self {
        Fnv(0xcbf2_9ce4_8422_2325)
    }
}

impl Fnv {
    /// Adds these bytes, and their number: the end of one file is not the beginning of the next.
    fn add(&mut self, bytes: &[u8]) {
        for byte in bytes.iter().chain(&(bytes.len() as u64).to_le_bytes()) {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
        }
    }
}
