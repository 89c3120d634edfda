//! The pid file: one process per file.

use crate::start_error::StartError;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

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
        let path = std::path::absolute(path).map_err(error)?;
        Ok(PidFile { path })
    }

    /// Writes this process's id into the file, in place of the id of the process that it replaces.
    pub(crate) fn replace(path: &str) -> Result<Self, StartError> {
        let error = |source| StartError::PidFile {
            path: path.to_owned(),
            source,
        };
        let new = format!("{path}.new");
        fs::write(&new, format!("{}\n", own_pid())).map_err(error)?;
        fs::rename(&new, path).map_err(error)?;
        let path = std::path::absolute(path).map_err(error)?;
        Ok(PidFile { path })
    }

    /// Removes the file, unless it names the process that has replaced this one. That process may write the file at any
    /// moment. So the file is renamed first, and renamed back if it names the other process.
    fn remove(&self) -> io::Result<()> {
        if !names_this_process(&self.path) {
            return Ok(());
        }
        let mut aside = self.path.clone().into_os_string();
        aside.push(".ended");
        fs::rename(&self.path, &aside)?;
        match names_this_process(Path::new(&aside)) {
            true => fs::remove_file(&aside),
            false => fs::rename(&aside, &self.path),
        }
    }
}

impl Drop for PidFile {
    fn drop(&mut self) {
        // An error cannot be reported any more, and the next start replaces a file whose process is gone.
        let _ = self.remove();
    }
}

fn names_this_process(path: &Path) -> bool {
    let named = fs::read_to_string(path).unwrap_or_default();
    named.trim().parse() == Ok(own_pid())
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
    fn the_file_of_the_process_that_took_over_stays() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("pgweir.pid");
        let old = PidFile::create(path.to_str().unwrap()).unwrap();
        fs::write(&path, "1\n").unwrap();
        drop(old);
        assert_eq!(fs::read_to_string(&path).unwrap(), "1\n");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
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
