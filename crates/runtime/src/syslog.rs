//! The local syslog daemon. The protocol is that of syslog(3): one datagram for each line, to `/dev/log` (RFC 3164,
//! section 5.4).

use jiff::Zoned;
use pgweir_core::LogLevel;
use std::os::unix::net::UnixDatagram;

/// Where the daemon listens.
const SOCKET: &str = "/dev/log";

/// A connection to the daemon with its identity. Lines are lost while the daemon cannot be reached or its queue is full;
/// the next line that gets through comes behind their number.
#[derive(Debug)]
pub(crate) struct Syslog {
    facility: u8,
    ident: String,
    socket: Option<UnixDatagram>,
    /// Lines since the last one that got through.
    lost: u64,
}

impl Syslog {
    pub(crate) fn new(facility: &str, ident: &str) -> Self {
        Syslog {
            facility: facility_number(facility),
            ident: ident.to_owned(),
            socket: None,
            lost: 0,
        }
    }

    /// Sends one line, behind the number of those that were lost before it.
    pub(crate) fn send(&mut self, level: LogLevel, text: &str) {
        if self.lost > 0
            && self.gets_through(
                LogLevel::Warning,
                &format!("{} messages to syslog were lost", self.lost),
            )
        {
            self.lost = 0;
        }
        if self.lost > 0 || !self.gets_through(level, text) {
            self.lost += 1;
        }
    }

    /// Sends one line. The daemon may have been restarted since the last line, so after a failure it is tried once
    /// more.
    fn gets_through(&mut self, level: LogLevel, text: &str) -> bool {
        let packet = packet(self.facility, &self.ident, level, &Zoned::now(), text);
        for _ in 0..2 {
            if self.socket.is_none() {
                self.socket = connect();
            }
            match &self.socket {
                Some(socket) if socket.send(packet.as_bytes()).is_ok() => return true,
                _ => self.socket = None,
            }
        }
        false
    }
}

fn connect() -> Option<UnixDatagram> {
    let socket = UnixDatagram::unbound().ok()?;
    socket.connect(SOCKET).ok()?;
    // A full queue of the daemon must not block the pooler.
    socket.set_nonblocking(true).ok()?;
    Some(socket)
}

/// Replaces line ends in a text by spaces, because clients choose some of the names in it, and must not forge lines.
pub(crate) fn on_one_line(text: &str) -> impl Iterator<Item = char> {
    text.chars().map(|c| if c.is_control() && c != '\t' { ' ' } else { c })
}

fn packet(facility: u8, ident: &str, level: LogLevel, at: &Zoned, text: &str) -> String {
    let severity = match level {
        LogLevel::Fatal => 2,
        LogLevel::Error => 3,
        LogLevel::Warning => 4,
        LogLevel::Log => 6,
        LogLevel::Debug => 7,
    };
    let priority = facility << 3 | severity;
    let mut packet = format!(
        "<{priority}>{} {ident}[{}]: ",
        at.strftime("%b %e %H:%M:%S"),
        std::process::id()
    );
    packet.extend(on_one_line(text));
    packet
}

/// The number of a facility (RFC 3164, section 4.1.1); that of `daemon` for an unknown name.
fn facility_number(name: &str) -> u8 {
    match name.to_ascii_lowercase().as_str() {
        "kern" => 0,
        "user" => 1,
        "mail" => 2,
        "auth" => 4,
        "syslog" => 5,
        "lpr" => 6,
        "news" => 7,
        "uucp" => 8,
        "cron" => 9,
        "authpriv" => 10,
        "ftp" => 11,
        "local0" => 16,
        "local1" => 17,
        "local2" => 18,
        "local3" => 19,
        "local4" => 20,
        "local5" => 21,
        "local6" => 22,
        "local7" => 23,
        _ => 3,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_datagram_has_priority_time_and_identity() {
        let at: Zoned = "2026-07-04T09:30:00+00[+00]".parse().unwrap();
        let text = packet(facility_number("local3"), "pgweir", LogLevel::Error, &at, "no");
        assert_eq!(text, format!("<155>Jul  4 09:30:00 pgweir[{}]: no", std::process::id()));
        let forged = packet(
            3,
            "pgweir",
            LogLevel::Log,
            &at,
            "user=x\n<26>Jul  4 09:30:00 pgweir: forged",
        );
        assert!(
            !forged.contains(char::is_control),
            "some daemons write one line for each: {forged}"
        );
        assert_eq!(facility_number("nonsense"), facility_number("daemon"));
    }
}
