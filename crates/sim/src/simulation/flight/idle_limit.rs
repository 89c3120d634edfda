//! Flights of sessions that limit the time for which they may be idle.

use super::{Author, Flight};

impl Author {
    /// The session sets the limit, or does something harmless, so that it keeps no server.
    pub(super) fn with_idle_limit(&mut self) -> Flight {
        let value = self.value();
        let limit = self.pick(&["20ms", "100ms", "1s", "0"]);
        let set = self.pick(&[
            &format!("set idle_session_timeout = '{limit}'"),
            &format!("set idle_session_timeout = '{limit}'"),
            &format!("select '{value}', set_config('idle_session_timeout', '{limit}', false)"),
            &format!("do $$begin perform set_config('idle_session_timeout', '{limit}', false); end$$"),
            "set idle_session_timeout to default",
        ]);
        let local = format!("set local idle_session_timeout = '{limit}'");
        let harmless = format!("select '{value}'");
        Flight::of(match self.random.below(10) {
            0..=2 => self.queries(&[&set]),
            3 => {
                let end = self.pick(&["commit", "rollback"]);
                self.queries(&["begin", &set, &end])
            }
            4 => self.queries(&["begin", &local, "commit"]),
            5 => self.queries(&["show idle_session_timeout"]),
            _ => self.queries(&[&harmless]),
        })
    }
}
