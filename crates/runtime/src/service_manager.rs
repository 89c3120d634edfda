//! Messages to systemd: `READY=1`, `RELOADING=1`, `STOPPING=1`, `WATCHDOG=1`, `STATUS=..` (sd_notify(3)).
//!
//! A unit of `Type=notify` counts as started only after READY=1. Without it systemd ends the process after the unit's
//! start timeout. If `NOTIFY_SOCKET` is not set, nothing is sent.

use pgweir_core::Time;
use rustix::time::{ClockId, clock_gettime};
use std::collections::VecDeque;
use std::ffi::OsString;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

/// Time between two attempts to send a message for which the service manager's socket had no room.
const SEND_AGAIN: Duration = Duration::from_millis(100);

/// The most messages that wait for room in the service manager's socket. If there are more, the oldest are dropped.
const UNSENT_MAX: usize = 16;

/// The environment variables of a service manager.
#[derive(Debug, Default)]
pub(crate) struct Environment {
    /// NOTIFY_SOCKET
    pub(crate) socket: Option<OsString>,
    /// WATCHDOG_USEC
    pub(crate) watchdog_us: Option<String>,
    /// WATCHDOG_PID
    pub(crate) watchdog_pid: Option<String>,
}

impl Environment {
    /// Reads it.
    pub(crate) fn read() -> Self {
        Environment {
            socket: std::env::var_os("NOTIFY_SOCKET"),
            watchdog_us: std::env::var("WATCHDOG_USEC").ok(),
            watchdog_pid: std::env::var("WATCHDOG_PID").ok(),
        }
    }

    /// Fills in NOTIFY_SOCKET and WATCHDOG_USEC from the process that this one replaces, if they are missing. A
    /// WATCHDOG_PID names that process, because systemd passes it on to ExecReload.
    pub(crate) fn complete(&mut self, (socket, watchdog_us): (Option<String>, Option<String>)) {
        self.socket = self.socket.take().or_else(|| socket.map(OsString::from));
        self.watchdog_us = self.watchdog_us.take().or(watchdog_us);
        self.watchdog_pid = None;
    }

    /// NOTIFY_SOCKET and WATCHDOG_USEC, for the process that replaces this one.
    fn for_successor(&self) -> (Option<String>, Option<String>) {
        let socket = self.socket.clone().and_then(|name| name.into_string().ok());
        (socket, self.watchdog_us.clone())
    }

    /// Time between two WATCHDOG=1: half of what the unit allows, as sd_watchdog_enabled(3) recommends. `None` if the
    /// unit has no watchdog, or has one for another process.
    fn watchdog_pause(&self) -> Option<Duration> {
        let own = std::process::id().to_string();
        if self.watchdog_pid.as_ref().is_some_and(|pid| *pid != own) {
            return None;
        }
        let allowed_us: u64 = self.watchdog_us.as_ref()?.parse().ok()?;
        (allowed_us > 1).then(|| Duration::from_micros(allowed_us / 2))
    }
}

/// The end of the notification socket.
#[derive(Debug, Default)]
pub(crate) struct ServiceManager {
    to: Option<(UnixDatagram, SocketAddr)>,
    /// Time between two WATCHDOG=1.
    watchdog_pause: Option<Duration>,
    next_watchdog: Time,
    unsent: VecDeque<String>,
    is_stopping: bool,
    /// NOTIFY_SOCKET and WATCHDOG_USEC.
    pub(crate) for_successor: (Option<String>, Option<String>),
}

impl ServiceManager {
    /// Opens the socket that the environment names. A name that begins with `@` is in the abstract namespace.
    pub(crate) fn new(environment: &Environment) -> io::Result<Self> {
        let Some(name) = environment.socket.as_ref().filter(|name| !name.is_empty()) else {
            return Ok(ServiceManager::default());
        };
        let address = match name.as_bytes() {
            [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
            [b'/', ..] => SocketAddr::from_pathname(name)?,
            _ => {
                let expected = "expected NOTIFY_SOCKET to begin with / or @";
                return Err(io::Error::new(io::ErrorKind::InvalidInput, expected));
            }
        };
        let socket = UnixDatagram::unbound()?;
        // The event loop must not wait for a service manager that does not read.
        socket.set_nonblocking(true)?;
        Ok(ServiceManager {
            to: Some((socket, address)),
            watchdog_pause: environment.watchdog_pause(),
            for_successor: environment.for_successor(),
            ..ServiceManager::default()
        })
    }

    /// Clients can connect; or a RELOAD has ended, with or without success.
    pub(crate) fn ready(&mut self) {
        if !self.is_stopping {
            self.tell("READY=1\n".into());
        }
    }

    /// From now on another process is the main process of the service.
    pub(crate) fn main_process_is(&mut self, pid: i32) {
        // A process of another PID namespace has no number here.
        if pid > 0 {
            self.tell(format!("MAINPID={pid}\n"));
        }
        self.is_stopping = true;
        self.watchdog_pause = None;
    }

    /// How the pooler is doing, for `systemctl status`.
    pub(crate) fn status(&mut self, text: &str) {
        self.tell(format!("STATUS={text}\n"));
    }

    /// A RELOAD begins. `Type=notify-reload` needs the time, in microseconds of CLOCK_MONOTONIC.
    pub(crate) fn reloading(&mut self) {
        let now = clock_gettime(ClockId::Monotonic);
        let us = i128::from(now.tv_sec) * 1_000_000 + i128::from(now.tv_nsec) / 1000;
        self.tell(format!("RELOADING=1\nMONOTONIC_USEC={us}\n"));
    }

    /// The shutdown begins. Sent once.
    pub(crate) fn stopping(&mut self) {
        if !std::mem::replace(&mut self.is_stopping, true) {
            self.tell("STOPPING=1\n".into());
        }
    }

    /// When [`ServiceManager::turn`] has something to do.
    pub(crate) fn next(&self, now: Time) -> Option<Time> {
        let again = (!self.unsent.is_empty()).then(|| now + SEND_AGAIN);
        let watchdog = self.watchdog_pause.map(|_| self.next_watchdog);
        again.into_iter().chain(watchdog).min()
    }

    /// Called in every turn of the event loop. WATCHDOG=1 comes from here, so that it stops when the loop hangs.
    pub(crate) fn turn(&mut self, now: Time) {
        if let Some(pause) = self.watchdog_pause
            && now >= self.next_watchdog
        {
            self.next_watchdog = now + pause;
            self.tell("WATCHDOG=1\n".into());
        } else if !self.unsent.is_empty() {
            self.send();
        }
    }

    fn tell(&mut self, message: String) {
        if self.to.is_none() {
            return;
        }
        if self.unsent.len() == UNSENT_MAX {
            self.unsent.pop_front();
        }
        self.unsent.push_back(message);
        self.send();
    }

    /// Sends the waiting messages in order. Messages that cannot be delivered are dropped.
    fn send(&mut self) {
        let Some((socket, address)) = &self.to else { return };
        while let Some(message) = self.unsent.front() {
            match socket.send_to_addr(message.as_bytes(), address) {
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                _ => drop(self.unsent.pop_front()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn received(socket: &UnixDatagram) -> String {
        let mut buffer = [0; 200];
        socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        let count = socket.recv(&mut buffer).unwrap();
        String::from_utf8(buffer[..count].to_vec()).unwrap()
    }

    fn environment(socket: &str) -> Environment {
        Environment {
            socket: Some(socket.into()),
            ..Environment::default()
        }
    }

    #[test]
    fn a_path_and_an_abstract_name() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("notify");
        let name = format!("pgweir-test-{}", std::process::id());
        let by_path = UnixDatagram::bind(&path).unwrap();
        let by_name = UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
        for (socket, address) in [
            (by_path, path.to_str().unwrap().to_owned()),
            (by_name, format!("@{name}")),
        ] {
            let mut manager = ServiceManager::new(&environment(&address)).unwrap();
            manager.ready();
            assert_eq!(received(&socket), "READY=1\n");
            manager.reloading();
            let text = received(&socket);
            let us = text.strip_prefix("RELOADING=1\nMONOTONIC_USEC=").unwrap().trim_end();
            assert!(us.parse::<u64>().unwrap() > 0, "{text}");
            manager.stopping();
            manager.stopping();
            manager.ready();
            manager.reloading();
            assert_eq!(received(&socket), "STOPPING=1\n");
            assert!(
                received(&socket).starts_with("RELOADING=1"),
                "STOPPING=1 comes once, READY=1 not after it"
            );
        }
    }

    #[test]
    fn nothing_is_sent_where_nobody_asks() {
        let mut manager = ServiceManager::new(&Environment::default()).unwrap();
        manager.ready();
        assert_eq!((manager.next(Time(5)), manager.unsent.len()), (None, 0));
        assert!(ServiceManager::new(&environment("notify")).is_err());
    }

    #[test]
    fn the_watchdog_is_fed_twice_in_its_time_and_only_by_its_process() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("notify");
        let socket = UnixDatagram::bind(&path).unwrap();
        let mut watched = environment(path.to_str().unwrap());
        watched.watchdog_us = Some("3000000".into());
        watched.watchdog_pid = Some(std::process::id().to_string());
        let mut manager = ServiceManager::new(&watched).unwrap();
        manager.turn(Time(0));
        assert_eq!(received(&socket), "WATCHDOG=1\n");
        assert_eq!(manager.next(Time(0)), Some(Time(1_500_000)));
        manager.turn(Time(1_499_999));
        manager.stopping();
        assert_eq!(
            received(&socket),
            "STOPPING=1\n",
            "no second WATCHDOG=1 before its time"
        );
        manager.turn(Time(1_500_000));
        assert_eq!(received(&socket), "WATCHDOG=1\n");
        watched.watchdog_pid = Some("1".into());
        assert_eq!(ServiceManager::new(&watched).unwrap().next(Time(0)), None);
    }

    #[test]
    fn a_manager_that_does_not_read_loses_the_oldest() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("notify");
        let socket = UnixDatagram::bind(&path).unwrap();
        let mut manager = ServiceManager::new(&environment(path.to_str().unwrap())).unwrap();
        while manager.unsent.len() < UNSENT_MAX {
            manager.reloading();
        }
        manager.ready();
        assert_eq!(manager.unsent.len(), UNSENT_MAX);
        assert_eq!(manager.next(Time(0)), Some(Time(100_000)));
        let mut last = String::new();
        for _ in 0..10_000 {
            last = received(&socket);
            manager.turn(Time(0));
            if last == "READY=1\n" {
                break;
            }
        }
        assert_eq!(last, "READY=1\n");
        assert!(manager.unsent.is_empty());
    }
}
