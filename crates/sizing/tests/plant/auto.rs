//! The controller as a limiter.

use super::Limiter;
use pgweir_sizing::Controller;

/// The controller under test.
pub struct Auto(pub Controller);

impl Limiter for Auto {
    fn completed(&mut self, now_us: u64, class: u32, service_us: u64, waited: bool) {
        self.0.completed(now_us, class, service_us, waited);
    }
    fn tick(&mut self, now_us: u64, connected: u32, working: u32) -> u64 {
        self.0.tick(now_us, connected, working);
        self.0.due_us()
    }
    fn limit(&self) -> u32 {
        self.0.limit()
    }
    fn restarted(&mut self, now_us: u64) {
        self.0.restarted(now_us);
    }
}
