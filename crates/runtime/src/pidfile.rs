//! The pid file: one process per file.

use crate::log::Log;
use crate::settings::Settings;
use crate::start_error::StartError;
use pgweir_core::LogLevel;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// The file of the setting `pidfile`, from the start until this process serves.
#[derive(Debug)]
pub(crate) enum OwnPidFile {
    /// The setting is empty.
    None,
    /// It is written.
    Written(PidFile),
    /// This process replaces another one, whose id the file has until then.
    Prepared(Prepared),
}

impl OwnPidFile {
    /// Writes the file. A process that takes over writes one beside it, so that it does not take over anything if it
    /// cannot write there.
    pub(crate) fn begin(settings: &Settings, takes_over: bool, log: &mut Log) -> Result<Self, StartError> {
        match (settings.pidfile.as_str(), takes_over) {
            ("", _) => Ok(OwnPidFile::None),
            (path, false) => PidFile::create(path, log).map(OwnPidFile::Written),
            (path, true) => Prepared::new(path).map(OwnPidFile::Prepared),
        }
    }

    /// This process serves now. If it has replaced another one, an error can only be logged.
    pub(crate) fn take_place(self, log: &mut Log) -> Option<PidFile> {
        match self {
            OwnPidFile::None => None,
            OwnPidFile::Written(file) => Some(file),
            OwnPidFile::Prepared(prepared) => {
                let written = prepared.take_place();
                written.map_err(|e| log.write(LogLevel::Warning, &e.to_string())).ok()
            }
        }
    }
}

/// A pid file beside that of the process which this one replaces. It is removed when dropped.
#[derive(Debug)]
pub(crate) struct Prepared {
    beside: PathBuf,
    path: PathBuf,
}

impl Prepared {
    fn new(path: &str) -> Result<Self, StartError> {
        let error = |source| pidfile_error("open", path, source);
        let place = std::path::absolute(path).map_err(error)?;
        let beside = std::path::absolute(format!("{path}.new")).map_err(error)?;
        if place.is_dir() {
            return Err(error(io::ErrorKind::IsADirectory.into()));
        }
        // Of a process that has died.
        let _ = fs::remove_file(&beside);
        fs::write(&beside, format!("{}\n", own_pid())).map_err(error)?;
        Ok(Prepared { beside, path: place })
    }

    fn take_place(self) -> Result<PidFile, StartError> {
        let path = self.path.clone();
        fs::rename(&self.beside, &path).map_err(|source| pidfile_error("write", &path.to_string_lossy(), source))?;
        Ok(PidFile { path })
    }
}

impl Drop for Prepared {
    fn drop(&mut self) {
        if names_this_process(&self.beside) {
            let _ = fs::remove_file(&self.beside);
        }
    }
}

fn pidfile_error(what: &'static str, path: &str, source: io::Error) -> StartError {
    StartError::PidFile {
        what,
        path: path.to_owned(),
        source,
    }
}

/// A pid file with the id of this process. It is removed when dropped.
#[derive(Debug)]
pub(crate) struct PidFile {
    path: PathBuf,
}

impl PidFile {
    /// Writes the id of this process to `path`, unless the file names a process that is alive.
    pub(crate) fn create(path: &str, log: &mut Log) -> Result<Self, StartError> {
        let error = |source| pidfile_error("open", path, source);
        match fs::read_to_string(path) {
            Ok(text) => match text.trim().parse::<i32>() {
                Ok(pid) if pid != own_pid() && lives(pid) => {
                    return Err(StartError::AlreadyRuns {
                        path: path.to_owned(),
                        pid,
                    });
                }
                // Its process is gone, or the file was not written completely.
                _ => {
                    log.write(LogLevel::Log, &format!("stale pidfile, removing ({path})"));
                    fs::remove_file(path).map_err(error)?;
                }
            },
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            Err(e) => return Err(error(e)),
        }
        let mut file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .open(path)
            .map_err(error)?;
        writeln!(file, "{}", own_pid()).map_err(|source| pidfile_error("write", path, source))?;
        // The working directory may have changed when the file is removed.
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
        let refused = PidFile::create(name, &mut Log::new(false, false));
        assert!(matches!(refused, Err(StartError::AlreadyRuns { pid, .. }) if pid == child.id().cast_signed()));
        assert!(path.exists());
        child.kill().unwrap();
        child.wait().unwrap();
        let own = PidFile::create(name, &mut Log::new(false, false)).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), format!("{}\n", std::process::id()));
        drop(own);
        assert!(!path.exists());
    }

    #[test]
    fn the_file_of_the_process_that_took_over_stays() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("pgweir.pid");
        let old = PidFile::create(path.to_str().unwrap(), &mut Log::new(false, false)).unwrap();
        fs::write(&path, "1\n").unwrap();
        drop(old);
        assert_eq!(fs::read_to_string(&path).unwrap(), "1\n");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn the_file_of_the_old_process_stays_until_this_one_takes_its_place() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("pgweir.pid");
        let name = path.to_str().unwrap();
        let names = || fs::read_dir(dir.path()).unwrap().count();
        fs::write(&path, "1\n").unwrap();
        drop(Prepared::new(name).unwrap());
        assert_eq!((fs::read_to_string(&path).unwrap(), names()), ("1\n".into(), 1));
        fs::write(dir.path().join("pgweir.pid.new"), "of a process that has died\n").unwrap();
        let own = Prepared::new(name).unwrap().take_place().unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), format!("{}\n", std::process::id()));
        drop(own);
        assert_eq!(names(), 0);
        fs::create_dir(&path).unwrap();
        assert!(matches!(Prepared::new(name), Err(StartError::PidFile { .. })));
        assert_eq!(names(), 1);
    }

    #[test]
    fn garbage_is_replaced_and_a_missing_folder_reported() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("pgweir.pid");
        fs::write(&path, "").unwrap();
        assert!(PidFile::create(path.to_str().unwrap(), &mut Log::new(false, false)).is_ok());
        let nowhere = dir.path().join("no/pgweir.pid");
        assert!(matches!(
            PidFile::create(nowhere.to_str().unwrap(), &mut Log::new(false, false)),
            Err(StartError::PidFile { .. })
        ));
    }
}
