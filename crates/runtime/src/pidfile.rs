//! The pid file: one process per file.

use crate::start_error::StartError;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::PathBuf;

/// A pid file with the id of this process. It is removed when dropped.
#[derive(Debug)]
pub(crate) struct PidFile {
    path: PathBuf,
}

impl PidFile {
    /// Writes the id of this process to `path`, unless the file names a process that is alive.
    pub(crate) fn create(path: &str) -> Result<Self, StartError> {
        let error = |source| StartError::PidFile {
            path: path.to_owned(),
            source,
        };
        match fs::read_to_string(path) {
            Ok(text) => match text.trim().parse::<i32>() {
                Ok(pid) if pid != own_pid() && lives(pid) => {
                    return Err(StartError::AlreadyRuns {
                        path: path.to_owned(),
                        pid,
                    });
                }
                // Its process is gone, or the file was not written completely.
                _ => fs::remove_file(path).map_err(error)?,
            },
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            Err(e) => return Err(error(e)),
        }
        let mut file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .open(path)
            .map_err(error)?;
        writeln!(file, "{}", own_pid()).map_err(error)?;
        // The working directory may have changed when the file is removed.
        let path = fs::canonicalize(path).map_err(error)?;
        Ok(PidFile { path })
    }
}

impl PidFile {
    /// Writes the id of this process over that of another one, whose place this one has taken.
    pub(crate) fn replace(path: &str) -> Result<Self, StartError> {
        let error = |source| StartError::PidFile {
            path: path.to_owned(),
            source,
        };
        let new = format!("{path}.new");
        fs::write(&new, format!("{}\n", own_pid())).map_err(error)?;
        fs::rename(&new, path).map_err(error)?;
        let path = fs::canonicalize(path).map_err(error)?;
        Ok(PidFile { path })
    }

    /// Whether the file still names this process.
    fn is_own(&self) -> bool {
        let named = fs::read_to_string(&self.path).unwrap_or_default();
        named.trim().parse() == Ok(own_pid())
    }
}

impl Drop for PidFile {
    fn drop(&mut self) {
        if self.is_own() {
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn own_pid() -> i32 {
    std::process::id().cast_signed()
}

fn lives(pid: i32) -> bool {
    let Some(pid) = rustix::process::Pid::from_raw(pid) else {
        return false;
    };
    // A process of another user is alive too.
    !matches!(rustix::process::test_kill_process(pid), Err(rustix::io::Errno::SRCH))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_living_process_keeps_its_file_and_a_dead_one_does_not() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("pgweir.pid");
        let name = path.to_str().unwrap();
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        fs::write(&path, format!("{}\n", child.id())).unwrap();
        let refused = PidFile::create(name);
        assert!(matches!(refused, Err(StartError::AlreadyRuns { pid, .. }) if pid == child.id().cast_signed()));
        assert!(path.exists());
        child.kill().unwrap();
        child.wait().unwrap();
        let own = PidFile::create(name).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), format!("{}\n", std::process::id()));
        drop(own);
        assert!(!path.exists());
    }

    #[test]
    fn garbage_is_replaced_and_a_missing_folder_reported() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("pgweir.pid");
        fs::write(&path, "").unwrap();
        assert!(PidFile::create(path.to_str().unwrap()).is_ok());
        let nowhere = dir.path().join("no/pgweir.pid");
        assert!(matches!(
            PidFile::create(nowhere.to_str().unwrap()),
            Err(StartError::PidFile { .. })
        ));
    }
}
