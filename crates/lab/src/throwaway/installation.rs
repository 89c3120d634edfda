//! Finding an installed PostgreSQL.

use std::env;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where packages put PostgreSQL's programs; `*` stands for a version. Tried in this order, newest version first.
pub(crate) const PACKAGE_FOLDERS: [&str; 8] = [
    "/usr/lib/postgresql/*/bin",
    "/usr/pgsql-*/bin",
    "/opt/homebrew/opt/postgresql@*/bin",
    "/usr/local/opt/postgresql@*/bin",
    "/Applications/Postgres.app/Contents/Versions/*/bin",
    "/usr/lib/postgresql*/bin",
    "/usr/local/pgsql/bin",
    "/opt/postgresql/*/bin",
];

/// The programs that make and run a cluster.
const PROGRAMS: [&str; 2] = ["initdb", "postgres"];

/// An installed PostgreSQL.
#[derive(Debug, PartialEq, Eq)]
pub struct Installation {
    /// The folder of its programs.
    pub bin_dir: PathBuf,
    /// What `postgres --version` says, shortened: `PostgreSQL 18.1`.
    pub version: String,
}

impl Installation {
    /// The installation in `bin_dir`, otherwise in PATH, otherwise the newest in the package folders.
    pub fn find(bin_dir: Option<&Path>) -> Result<Self, String> {
        let found = match bin_dir {
            Some(folder) if holds_programs(folder) => folder.to_owned(),
            Some(folder) => {
                let programs = PROGRAMS.join(" and ");
                return Err(format!("{} does not hold {programs}", folder.display()));
            }
            None => in_path()
                .or_else(|| {
                    PACKAGE_FOLDERS
                        .iter()
                        .flat_map(|pattern| expand(pattern))
                        .find(|f| holds_programs(f))
                })
                .ok_or_else(not_found)?,
        };
        let bin_dir = fs::canonicalize(&found).unwrap_or(found);
        Ok(Installation {
            version: version(&bin_dir.join("postgres"))?,
            bin_dir,
        })
    }
}

fn not_found() -> String {
    "found no installed PostgreSQL (initdb and postgres)\n    \
     hint: apt-get install postgresql        on Debian and Ubuntu\n    \
     hint: dnf install postgresql-server     on Fedora and Red Hat\n    \
     hint: or name the folder of its programs with --bin-dir"
        .to_owned()
}

fn in_path() -> Option<PathBuf> {
    env::split_paths(&env::var_os("PATH")?)
        .filter(|f| f.is_absolute())
        .find_map(|folder| {
            // A link to one program is enough to find the folder.
            let initdb = fs::canonicalize(folder.join(PROGRAMS[0])).ok()?;
            let folder = initdb.parent()?.to_owned();
            holds_programs(&folder).then_some(folder)
        })
}

fn holds_programs(folder: &Path) -> bool {
    PROGRAMS.iter().all(|program| {
        let status = fs::metadata(folder.join(program));
        status.is_ok_and(|s| s.is_file() && s.permissions().mode() & 0o111 != 0)
    })
}

/// The folders that match a pattern with at most one `*`, newest version first.
pub(crate) fn expand(pattern: &str) -> Vec<PathBuf> {
    let Some((before, after)) = pattern.split_once('*') else {
        return vec![PathBuf::from(pattern)];
    };
    let Some((parent, prefix)) = before.rsplit_once('/') else {
        return Vec::new();
    };
    let Ok(entries) = fs::read_dir(if parent.is_empty() { "/" } else { parent }) else {
        return Vec::new();
    };
    let mut found: Vec<(Vec<u32>, PathBuf)> = entries
        .flatten()
        .filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            let version = name.strip_prefix(prefix)?;
            let numbers = version.split('.').map(|part| part.parse().unwrap_or(0)).collect();
            Some((numbers, PathBuf::from(format!("{before}{version}{after}"))))
        })
        .collect();
    found.sort_by(|a, b| b.cmp(a));
    found.into_iter().map(|(_, path)| path).collect()
}

/// `postgres (PostgreSQL) 18.1 (Debian 18.1-1)` as `PostgreSQL 18.1`.
fn version(postgres: &Path) -> Result<String, String> {
    let error = |why: String| format!("{} --version: {why}", postgres.display());
    let output = Command::new(postgres)
        .arg("--version")
        .output()
        .map_err(|e| error(e.to_string()))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let number = text.split(") ").nth(1).and_then(|rest| rest.split_whitespace().next());
    number
        .map(|n| format!("PostgreSQL {n}"))
        .ok_or_else(|| error(format!("expected a version, got \"{}\"", text.trim())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn install(root: &Path, folder: &str) -> PathBuf {
        let bin = root.join(folder).join("bin");
        fs::create_dir_all(&bin).unwrap();
        for program in PROGRAMS {
            let file = bin.join(program);
            let number = folder.rsplit('/').next().unwrap();
            fs::write(
                &file,
                format!("#!/bin/sh\necho 'postgres (PostgreSQL) {number}.2 (Package {number}.2-1)'\n"),
            )
            .unwrap();
            fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
        }
        bin
    }

    #[test]
    fn the_newest_version_comes_first_by_number() {
        let root = tempfile::tempdir().unwrap();
        for version in ["9.6", "15", "18", "10"] {
            install(root.path(), &format!("postgresql/{version}"));
        }
        let pattern = format!("{}/postgresql/*/bin", root.path().display());
        let found: Vec<_> = expand(&pattern)
            .iter()
            .map(|p| p.parent().unwrap().file_name().unwrap().to_owned())
            .collect();
        assert_eq!(found, ["18", "15", "10", "9.6"]);
        assert!(expand(&format!("{}/none/*/bin", root.path().display())).is_empty());
    }

    #[test]
    fn a_folder_is_taken_only_with_both_programs() {
        let root = tempfile::tempdir().unwrap();
        let bin = install(root.path(), "18");
        let found = Installation::find(Some(&bin)).unwrap();
        assert_eq!(found.version, "PostgreSQL 18.2");
        fs::remove_file(bin.join("initdb")).unwrap();
        assert!(
            Installation::find(Some(&bin))
                .unwrap_err()
                .contains("does not hold initdb and postgres")
        );
    }
}
