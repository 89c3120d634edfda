//! `idle_session_timeout`: a time limit that belongs to a client's session and would end servers in the pool.
//!
//! PostgreSQL ends a session that has been idle for so long outside a transaction. A server that lies idle in its pool is
//! nobody's session, so before it is free a limit that its client has set there is taken back, and the server has to confirm
//! it. While the client has no server the pooler keeps the time, and says what PostgreSQL says; while it has one, the server
//! does.

use crate::base::errors::Trouble;
use crate::base::ids::{ClientId, ServerId};
use crate::base::time::Time;
use crate::client::Client;
use crate::pooler::Pooler;
use crate::upstream::phase::ServerPhase;
use std::time::Duration;

/// The setting.
pub(crate) const IDLE_LIMIT: &str = "idle_session_timeout";

/// Takes it back to what the server had after its login.
const LIFT: &str = "RESET idle_session_timeout";

/// A setting's value as a time; `None` where it means no limit or nothing that PostgreSQL would take. Without a unit it is
/// in milliseconds.
pub(crate) fn limit(value: &str) -> Option<Duration> {
    let value = value.trim();
    let digits = value
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(value.len());
    let (number, unit) = value.split_at(digits);
    let unit_ms = match unit.trim() {
        "us" => 0.001,
        "" | "ms" => 1.0,
        "s" => 1e3,
        "min" => 60e3,
        "h" => 3600e3,
        "d" => 86400e3,
        _ => return None,
    };
    let ms = (number.parse::<f64>().ok()? * unit_ms).round();
    (ms > 0.0 && ms <= f64::from(i32::MAX)).then(|| Duration::from_millis(ms as u64))
}

impl Client {
    /// How long it may be idle by its own session's setting, now that it has no server that would tell.
    pub(crate) fn own_idle_limit(&self) -> Option<Duration> {
        self.shape.idle_limit().filter(|_| self.deferred_begin.is_none())
    }
}

impl Pooler {
    /// A server without a client has a limit on idle sessions: takes it back before it lies idle.
    #[cold]
    pub(crate) fn lift_idle_limit(&mut self, now: Time, id: ServerId) {
        self.at(id).own_query(now, ServerPhase::LiftingLimit, LIFT);
    }

    /// The server has answered.
    pub(crate) fn idle_limit_lifted(&mut self, now: Time, id: ServerId) {
        let server = self.servers.get_mut(id.0).expect("looked up by the caller");
        server.shape = self.shared.shapes.change(&server.shape, [(IDLE_LIMIT, None, false)]);
        self.server_is_free(now, id);
    }

    /// Says so as PostgreSQL does.
    pub(crate) fn idle_limit_over(&mut self, now: Time, id: ClientId) {
        let message = "terminating connection due to idle-session timeout";
        self.fail_client(now, id, Trouble::ClientIdleTimeout, message, "", "");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_as_postgres_reads_them() {
        let ms = |text| limit(text).map(|d| d.as_millis());
        assert_eq!(ms("50"), Some(50));
        assert_eq!(ms("50ms"), Some(50));
        assert_eq!(ms(" 2 s "), Some(2000));
        assert_eq!(ms("1.5min"), Some(90_000));
        assert_eq!(ms("1h"), Some(3_600_000));
        assert_eq!(ms("1d"), Some(86_400_000));
        assert_eq!(ms("1500us"), Some(2));
        for none in ["0", "", "off", "1 week", "-1", "99999999d"] {
            assert_eq!(ms(none), None, "{none}");
        }
    }
}
