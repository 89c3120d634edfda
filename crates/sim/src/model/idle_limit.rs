//! idle_session_timeout: a session that waits too long for its client's next command ends.

use super::error::ServerError;
use super::session::Session;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct IdleLimit {
    /// Until when it waits, microseconds.
    until: Option<u64>,
    /// It has become idle, and has not begun to wait.
    begins: bool,
    /// It has ended by the limit, and nobody has asked.
    is_over: bool,
}

impl IdleLimit {
    /// A command has come.
    pub(super) fn ends(&mut self) {
        (self.until, self.begins) = (None, false);
    }

    /// The session says that it is idle.
    pub(super) fn begins(&mut self) {
        self.begins = true;
    }
}

impl Session {
    /// If it has become idle, it waits from now on.
    pub(super) fn wait_for_command(&mut self, now_us: u64) {
        if std::mem::take(&mut self.idle_limit.begins) && self.is_idle() {
            let limit_us = self.settings.idle_limit_ms().map(|ms| ms.saturating_mul(1000));
            self.idle_limit.until = limit_us.map(|us| now_us.saturating_add(us));
        }
    }

    /// Ends the session, if its client has not sent a command in time.
    pub(super) fn end_if_idle_too_long(&mut self, now_us: u64) {
        if self.idle_limit.until.is_some_and(|until| until <= now_us) {
            self.idle_limit.is_over = true;
            self.fatal(&ServerError::fatal(
                "57P05",
                "terminating connection due to idle-session timeout",
            ));
        }
    }

    /// When it has something to do although nobody sends anything, microseconds.
    pub fn wakes_at(&self) -> Option<u64> {
        self.busy_until().or(self.idle_limit.until)
    }

    /// Whether it has ended by idle_session_timeout since the last call.
    pub fn take_idle_too_long(&mut self) -> bool {
        std::mem::take(&mut self.idle_limit.is_over)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Shared, Version};
    use super::*;
    use pgweir_wire::{CancelKey, ProtocolVersion, StartupPacket, Writer};

    #[test]
    fn a_session_ends_when_it_is_idle_for_too_long() {
        let key = CancelKey {
            process_id: 1,
            secret: vec![0; 4].into(),
        };
        let (mut session, mut shared) = (Session::new(Version::V18, key), Shared::new());
        let mut bytes = Vec::new();
        let parameters: [(&[u8], &[u8]); 1] = [(b"user", b"u")];
        StartupPacket::write_startup(&mut bytes, ProtocolVersion::V3_0, parameters);
        Writer::new(&mut bytes).query(b"set idle_session_timeout = '2s'");
        session.receive(&mut shared, 0, &bytes);
        assert_eq!(session.wakes_at(), Some(2_000_000));
        let mut begin = Vec::new();
        Writer::new(&mut begin).query(b"begin");
        session.receive(&mut shared, 1_000_000, &begin);
        assert_eq!(session.wakes_at(), None, "a transaction is open");
        let mut commit = Vec::new();
        Writer::new(&mut commit).query(b"commit");
        session.receive(&mut shared, 9_000_000, &commit);
        session.advance(&mut shared, 10_999_999);
        assert!(!session.is_closed());
        session.advance(&mut shared, 11_000_000);
        assert!(session.is_closed() && session.take_idle_too_long());
    }
}
