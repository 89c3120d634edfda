//! Why the pooler did not start, and what to do about it.

use crate::tls::TlsFailure;
use pgweir_config::{Problem, Severity};
use std::io;
use thiserror::Error;

/// What PgBouncer says last of a configuration with errors.
fn last_words(problems: &[Problem]) -> &'static str {
    let mut errors = problems.iter().filter(|problem| problem.severity == Severity::Error);
    match errors.all(Problem::is_of_tls_setup) {
        true => "TLS setup failed",
        false => "cannot load config file",
    }
}

/// Every way in which starting, or running the event loop, can fail.
#[derive(Debug, Error)]
pub enum StartError {
    /// The configuration has errors. The warnings are listed with them; the last line is PgBouncer's.
    #[error("{}\n{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"), last_words(.0))]
    Configuration(Vec<Problem>),
    /// Running as root without a user to change to.
    #[error("pgweir should not run as root\n    hint: name an unprivileged user with -u USER or the setting user")]
    Root,
    /// `-u` or the setting `user` names no user of the system.
    #[error("could not find user '{user}' to switch to")]
    UnknownUser {
        /// The name.
        user: String,
    },
    /// The process may not change to that user.
    #[error("failed to assume identity of user '{user}': {source}\n    hint: only root can change the user")]
    ChangeUser {
        /// The name.
        user: String,
        /// The system's error.
        source: io::Error,
    },
    /// `unix_socket_group` names no group.
    #[error("could not find group '{group}'\n    hint: see the setting unix_socket_group")]
    UnknownGroup {
        /// The name.
        group: String,
    },
    /// The socket file could not be given to its group.
    #[error("could not give {path} to group {group}: {source}\n    hint: the user of pgweir must be a member of it")]
    Group {
        /// The socket file.
        path: String,
        /// The setting.
        group: String,
        /// The system's error.
        source: io::Error,
    },
    /// `-d` without a way to find the process again, or what it says.
    #[error("daemon needs pidfile configured\n    hint: set pidfile, or logfile, or syslog = 1")]
    DaemonWithoutPidFile,
    /// A certificate, a key or a file of authorities cannot be used.
    #[error(
        "TLS setup failed: {0}\n    hint: see the settings client_tls_* and server_tls_*; the user of pgweir must be able to \
         read the files"
    )]
    Tls(#[from] TlsFailure),
    /// The file of the setting `resolv_conf` cannot be used.
    #[error("could not use {path} as resolv.conf: {source}\n    hint: see the setting resolv_conf")]
    ResolvConf {
        /// The setting.
        path: String,
        /// What is wrong.
        source: io::Error,
    },
    /// The thread that looks up names could not be started.
    #[error("could not start to look up names: {0}")]
    NameServer(#[source] io::Error),
    /// The log file could not be opened.
    #[error("Cannot open logfile: '{path}': {source}\n    hint: see the setting logfile")]
    LogFile {
        /// The setting.
        path: String,
        /// The system's error.
        source: io::Error,
    },
    /// The pid file names a process that is alive.
    #[error(
        "pidfile '{path}' exists, another instance running? (process {pid})\n    hint: stop it first, or give this one a \
         pidfile of its own"
    )]
    AlreadyRuns {
        /// The setting.
        path: String,
        /// The process.
        pid: i32,
    },
    /// The pid file could not be opened, or written.
    #[error("could not {what} pidfile '{path}': {source}")]
    PidFile {
        /// `open` or `write`.
        what: &'static str,
        /// The setting.
        path: String,
        /// The system's error.
        source: io::Error,
    },
    /// A name in `listen_addr` has no address.
    #[error("getaddrinfo('{name}', '{port}') = {why}\n    hint: see the setting listen_addr")]
    ListenName {
        /// The name.
        name: String,
        /// The setting `listen_port`.
        port: u16,
        /// The resolver's words.
        why: String,
    },
    /// Another process listens there.
    #[error(
        "cannot listen on {place}: bind(): Address already in use\n    hint: is another pooler running? see who it is with \
         \"ss -lntxp\", or choose another listen_port"
    )]
    InUse {
        /// Address and port.
        place: String,
    },
    /// A process is at the other end of the Unix-domain socket.
    #[error(
        "unix socket is in use, cannot continue: {place}\n    hint: is another pooler running? see who it is with \
         \"ss -lntxp\", or choose another listen_port"
    )]
    UnixSocketInUse {
        /// The path of the socket.
        place: String,
    },
    /// Listening failed for another reason.
    #[error("cannot listen on {place}: {source}\n    hint: see the settings listen_addr, listen_port, unix_socket_dir")]
    Listen {
        /// Address and port, or the path of the socket.
        place: String,
        /// The system's error.
        source: io::Error,
    },
    /// Listening failed at each address of `listen_addr`; the first of the errors.
    #[error("failed to listen on any address in listen_addr list: {0}")]
    NoAddress(#[source] Box<StartError>),
    /// No address and no Unix-domain socket.
    #[error("nowhere to listen on\n    hint: set listen_addr or unix_socket_dir")]
    NowhereToListen,
    /// The sockets of the service manager cannot be used.
    #[error("socket activation failed: {0}\n    hint: a unit of Type=socket must have ListenStream= lines alone")]
    Activation(io::Error),
    /// `-R`: the running process did not hand over.
    #[error("could not take over from {place}: {source}\n    hint: it goes on as before; its log says what was wrong")]
    TakeOver {
        /// The path of its socket, or its process id.
        place: String,
        /// What went wrong, or why it refused.
        source: io::Error,
    },
    /// `-R`: the process at the socket of the old process belongs to somebody else.
    #[error(
        "could not take over from {place}: it belongs to system user {user}, not to the user of this process\n    hint: \
         start pgweir without -R, as the user of the old process, or set unix_socket_dir to a directory in which only \
         the user of pgweir can make files"
    )]
    ForeignPredecessor {
        /// The path of the socket.
        place: String,
        /// The owner of the socket.
        user: u32,
    },
    /// `-R`: a signal has asked this process to end before it had taken over anything.
    #[error("interrupted by a signal; the old process goes on as before")]
    Interrupted,
    /// The process could not be put into the background.
    #[error("could not start in the background: {0}")]
    Daemon(io::Error),
    /// The process in the background ended before it was ready. It has printed the reason.
    #[error("not started")]
    DaemonEnded {
        /// Its exit status.
        status: i32,
    },
    /// A resource of the event loop was not available, or waiting for events failed.
    #[error("event loop: {0}")]
    EventLoop(#[from] io::Error),
}

impl StartError {
    /// Exit status of the process.
    pub fn exit_status(&self) -> u8 {
        match self {
            StartError::DaemonEnded { status } => u8::try_from(*status).unwrap_or(1).max(1),
            _ => 1,
        }
    }

    /// The problems of a configuration, and the last line of the log, which is PgBouncer's.
    pub(crate) fn log_lines(&self) -> (&[Problem], String) {
        match self {
            StartError::Configuration(problems) => (problems, last_words(problems).to_string()),
            _ => (&[], self.log_line()),
        }
    }

    /// The error as a line of the log, with its hint in the form of other lines.
    pub(crate) fn log_line(&self) -> String {
        let text = self.to_string();
        match text.split_once("\n    hint: ") {
            Some((message, hint)) => format!("{message} (HINT: {hint})"),
            None => text,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_log_is_one_line() {
        let line = StartError::AlreadyRuns {
            path: "/run/p.pid".to_owned(),
            pid: 7,
        }
        .log_line();
        assert!(line.starts_with("pidfile '/run/p.pid' exists") && line.contains("(process 7) (HINT: stop it first"));
        assert!(line.ends_with(')') && !line.contains('\n'), "{line}");
        assert_eq!(StartError::Interrupted.log_line(), StartError::Interrupted.to_string());
    }
}
