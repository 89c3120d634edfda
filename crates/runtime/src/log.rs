//! Log lines in PgBouncer's form, to stderr, a file and syslog.
//!
//! ```text
//! 2026-07-14 09:30:00.123 UTC [4711] LOG process up: pgweir 0.1.0
//! ```
//!
//! A line is one write, so a crash loses no line, and lines of several processes do not mix.

use crate::settings::LogSettings;
use crate::start_error::StartError;
use crate::syslog::{Syslog, on_one_line};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use pgweir_core::LogLevel;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use std::collections::HashSet;
use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;

/// The log's destinations. The data plane owns them; nothing else writes while the process runs.
#[derive(Debug)]
pub(crate) struct Log {
    settings: LogSettings,
    zone: TimeZone,
    /// Lines also go to stderr.
    stderr: bool,
    /// `-v` on the command line: write DEBUG lines, whatever the configuration says.
    verbose: bool,
    file: Option<File>,
    syslog: Option<Syslog>,
    line: String,
    /// The texts that [`Log::write_once`] has written.
    once: HashSet<String>,
    to_stderr: Way,
    to_file: Way,
}

/// The most bytes that a pipe takes without waiting when poll() says that it has room: PIPE_BUF.
const AT_ONCE_BYTES: usize = 4096;

/// What has become of the lines for one destination. It may be a pipe, whose reader has stopped reading: the pooler does
/// not wait for it.
#[derive(Debug, Default)]
struct Way {
    /// Lines that were not written, or only in part, after the last one that was.
    lost: u64,
    /// The last of them ends in its middle.
    is_cut: bool,
}

impl Way {
    /// Writes a line. `notice` makes a line of a text.
    fn write(&mut self, to: &impl AsFd, line: &str, notice: impl Fn(&str) -> String) {
        if self.lost > 0 {
            let end = if self.is_cut { "\n" } else { "" };
            let text = format!("{} log lines were lost, because nobody read them", self.lost);
            let notice = format!("{end}{}", notice(&text));
            if write_at_once(to, notice.as_bytes()) != notice.len() {
                self.lost += 1;
                return;
            }
            *self = Way::default();
        }
        let written = write_at_once(to, line.as_bytes());
        if written < line.len() {
            self.lost += 1;
            self.is_cut = written > 0;
        }
    }
}

/// Writes as much as the destination takes without waiting. Returns the number of bytes.
fn write_at_once(to: &impl AsFd, bytes: &[u8]) -> usize {
    let mut written = 0;
    while written < bytes.len() {
        let mut watched = [PollFd::new(to, PollFlags::OUT)];
        let has_room = poll(&mut watched, Some(&Timespec::default())).is_ok_and(|count| count > 0);
        if !has_room || !watched[0].revents().contains(PollFlags::OUT) {
            break;
        }
        let end = bytes.len().min(written + AT_ONCE_BYTES);
        match rustix::io::write(to, &bytes[written..end]) {
            Ok(count) => written += count,
            Err(Errno::INTR) => {}
            Err(_) => break,
        }
    }
    written
}

impl Log {
    /// A log that writes to stderr only, unless `stderr` is false.
    pub(crate) fn new(stderr: bool, verbose: bool) -> Self {
        Log {
            settings: LogSettings::default(),
            zone: TimeZone::system(),
            stderr,
            verbose,
            file: None,
            syslog: None,
            line: String::new(),
            once: HashSet::new(),
            to_stderr: Way::default(),
            to_file: Way::default(),
        }
    }

    /// Opens the destinations in `settings` for the first time.
    pub(crate) fn open(&mut self, settings: &LogSettings) -> Result<(), StartError> {
        self.settings = settings.clone();
        if !settings.logfile.is_empty() {
            let file = open_file(&settings.logfile);
            self.file = Some(file.map_err(|source| StartError::LogFile {
                path: settings.logfile.clone(),
                source,
            })?);
        }
        self.open_syslog();
        Ok(())
    }

    /// Uses new settings. If a log file cannot be opened, the old one stays in use.
    pub(crate) fn configure(&mut self, settings: &LogSettings) {
        self.once.clear();
        let old = std::mem::replace(&mut self.settings, settings.clone());
        if old.logfile != settings.logfile {
            self.reopen();
        }
        if (old.syslog, old.syslog_facility, old.syslog_ident)
            != (
                settings.syslog,
                settings.syslog_facility.clone(),
                settings.syslog_ident.clone(),
            )
        {
            self.open_syslog();
        }
    }

    /// Opens the log file again, because log rotation may have moved it away.
    pub(crate) fn reopen(&mut self) {
        if self.settings.logfile.is_empty() {
            self.file = None;
            return;
        }
        match open_file(&self.settings.logfile) {
            Ok(file) => self.file = Some(file),
            Err(e) => {
                let text = format!("Cannot open logfile: '{}': {e}", self.settings.logfile);
                self.write(LogLevel::Warning, &text);
            }
        }
    }

    /// Writes no more to stderr.
    pub(crate) fn leave_stderr(&mut self) {
        self.stderr = false;
    }

    /// Whether a line of this level would be written.
    pub(crate) fn takes(&self, level: LogLevel) -> bool {
        level < LogLevel::Debug || self.verbose || self.settings.verbose > 0
    }

    /// Writes a line. A destination that cannot be written to is skipped: the pooler continues without its log.
    pub(crate) fn write(&mut self, level: LogLevel, text: &str) {
        if !self.takes(level) {
            return;
        }
        let mut line = std::mem::take(&mut self.line);
        line.clear();
        compose(&mut line, Timestamp::now(), &self.zone, level, text);
        let notice = |text: &str| {
            let mut notice = String::new();
            compose(&mut notice, Timestamp::now(), &self.zone, LogLevel::Warning, text);
            notice
        };
        if self.stderr {
            self.to_stderr.write(&io::stderr(), &line, notice);
        }
        if let Some(file) = &self.file {
            self.to_file.write(file, &line, notice);
        }
        if let Some(syslog) = &mut self.syslog {
            syslog.send(level, text);
        }
        self.line = line;
    }

    /// Writes a line, unless this text has been written by this method since the settings were last changed. For texts
    /// that only the configuration and the system decide: all of them are kept.
    pub(crate) fn write_once(&mut self, level: LogLevel, text: &str) {
        if !self.once.contains(text) {
            self.once.insert(text.to_owned());
            self.write(level, text);
        }
    }

    fn open_syslog(&mut self) {
        let LogSettings {
            syslog,
            syslog_facility,
            syslog_ident,
            ..
        } = &self.settings;
        self.syslog = syslog.then(|| Syslog::new(syslog_facility, syslog_ident));
    }
}

fn open_file(path: &str) -> io::Result<File> {
    // A named pipe that nobody reads is an error, not a reason to wait.
    let flags = libc::O_NONBLOCK;
    OpenOptions::new()
        .create(true)
        .append(true)
        .custom_flags(flags)
        .open(path)
}

/// The word PgBouncer prints for a level.
fn word(level: LogLevel) -> &'static str {
    match level {
        LogLevel::Fatal => "FATAL",
        LogLevel::Error => "ERROR",
        LogLevel::Warning => "WARNING",
        LogLevel::Log => "LOG",
        LogLevel::Debug => "DEBUG",
    }
}

/// One line of a file.
fn compose(line: &mut String, at: Timestamp, zone: &TimeZone, level: LogLevel, text: &str) {
    let time = at.to_zoned(zone.clone());
    let _ = write!(
        line,
        "{} [{}] {} ",
        time.strftime("%Y-%m-%d %H:%M:%S.%3f %Z"),
        std::process::id(),
        word(level)
    );
    line.extend(on_one_line(text));
    line.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_looks_like_pgbouncers() {
        let zone = TimeZone::UTC;
        let mut line = String::new();
        let at: Timestamp = "2026-07-14T09:30:00.0079Z".parse().unwrap();
        compose(
            &mut line,
            at,
            &zone,
            LogLevel::Warning,
            "C-0x1: db/user@127.0.0.1:1 closing\nLOG forged",
        );
        let pid = std::process::id();
        let expected =
            format!("2026-07-14 09:30:00.007 UTC [{pid}] WARNING C-0x1: db/user@127.0.0.1:1 closing LOG forged\n");
        assert_eq!(line, expected);
    }

    #[test]
    fn a_moved_log_file_is_opened_anew() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("pgweir.log");
        let settings = LogSettings {
            logfile: path.to_str().unwrap().into(),
            ..Default::default()
        };
        let mut log = Log::new(false, false);
        log.open(&settings).unwrap();
        log.write(LogLevel::Log, "one");
        log.write(LogLevel::Debug, "not told");
        let moved = dir.path().join("pgweir.log.1");
        std::fs::rename(&path, &moved).unwrap();
        log.write(LogLevel::Log, "two");
        log.reopen();
        log.configure(&LogSettings { verbose: 1, ..settings });
        log.write(LogLevel::Debug, "three");
        let endings = |path| -> Vec<String> {
            let text = std::fs::read_to_string(path).unwrap();
            text.lines().map(|l| l.rsplit(' ').next().unwrap().to_owned()).collect()
        };
        assert_eq!(endings(&moved), ["one", "two"]);
        assert_eq!(endings(&path), ["three"]);
    }

    #[test]
    fn a_log_file_that_cannot_be_opened_prevents_the_start_but_not_a_reload() {
        let dir = tempfile::tempdir().unwrap();
        let nowhere = dir.path().join("no/such/dir").to_str().unwrap().to_owned();
        let bad = LogSettings {
            logfile: nowhere,
            ..Default::default()
        };
        assert!(matches!(
            Log::new(false, false).open(&bad),
            Err(StartError::LogFile { .. })
        ));
        let path = dir.path().join("a.log").to_str().unwrap().to_owned();
        let mut log = Log::new(false, false);
        log.open(&LogSettings {
            logfile: path.clone(),
            ..Default::default()
        })
        .unwrap();
        log.configure(&bad);
        assert!(std::fs::read_to_string(path).unwrap().contains("Cannot open logfile: "));
    }
}
