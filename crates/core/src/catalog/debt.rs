//! What definitions cost the clients of a database.
//!
//! After a definition every transaction of the database is followed by a probe until the catalog has been read again. A
//! client that sends one definition after the other, even if the server refuses them all, would have everybody pay for
//! that all the time. So these probes are a debt, which is paid off as time passes. While it is high, the next
//! definitions wait. Definitions in a database without other clients cost nobody anything, and never wait.

use crate::base::time::Time;
use std::time::Duration;

/// Other clients may be probed so often in a second, in the long run.
const PROBES_PER_SECOND: u32 = 200;

/// Definitions wait when other clients have been probed so often more than that. When half of it has been paid off,
/// definitions go on.
const PROBES_MAX: u32 = 2000;

/// The time in which the debt of one probe is paid off.
const FOR_ONE: Duration = Duration::from_nanos(1_000_000_000 / PROBES_PER_SECOND as u64);

/// The time in which the highest debt is paid off. Definitions wait for half as long.
const DEBT_MAX: Duration = FOR_ONE.saturating_mul(PROBES_MAX);

/// Probes later than this after the latest definition are not due to definitions: the catalog cannot be read.
const DUE_TO_DEFINITIONS: Duration = Duration::from_secs(5);

/// The debt of one database.
#[derive(Debug, Default, pgweir_freeze::Freeze)]
pub(crate) struct Debt {
    /// When all of it will have been paid off.
    paid_off: Time,
    /// Definitions wait.
    is_high: bool,
    /// When a definition was sent last.
    defined: Option<Time>,
}

impl Debt {
    /// A request is sent that may commit a definition.
    pub(crate) fn definition_comes(&mut self, now: Time) {
        self.defined = Some(now);
    }

    /// A client's transaction is followed by a probe because the catalog is not up to date. Returns whether
    /// definitions must wait from now on.
    pub(crate) fn one_more(&mut self, now: Time) -> bool {
        if self.defined.is_some_and(|at| now - at < DUE_TO_DEFINITIONS) {
            self.paid_off = (self.paid_off.max(now) + FOR_ONE).min(now + DEBT_MAX);
        }
        !self.is_high && self.is_high(now)
    }

    /// Whether definitions must wait.
    pub(crate) fn is_high(&mut self, now: Time) -> bool {
        let owed = self.paid_off - now;
        let limit = match self.is_high {
            true => DEBT_MAX / 2 + FOR_ONE,
            false => DEBT_MAX,
        };
        self.is_high = owed >= limit;
        self.is_high
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn definitions_wait_until_half_of_a_high_debt_is_paid_off() {
        let (mut debt, now) = (Debt::default(), Time(7));
        debt.definition_comes(now);
        assert!((1..PROBES_MAX).all(|_| !debt.one_more(now)));
        assert!(debt.one_more(now));
        assert!((0..PROBES_MAX).all(|_| !debt.one_more(now)), "it is high already");
        let half = DEBT_MAX / 2;
        assert!(debt.is_high(now + (half - FOR_ONE)));
        assert!(!debt.is_high(now + half));
        assert!(!debt.is_high(now + (half - FOR_ONE)), "only a full debt is high again");
    }

    #[test]
    fn a_few_probes_a_second_are_no_debt() {
        let (mut debt, mut now) = (Debt::default(), Time(7));
        for _ in 0..10 * PROBES_MAX {
            now = now + FOR_ONE;
            debt.definition_comes(now);
            assert!(!debt.one_more(now));
        }
    }

    #[test]
    fn a_catalog_that_cannot_be_read_makes_no_debt() {
        let (mut debt, now) = (Debt::default(), Time(7));
        assert!((0..2 * PROBES_MAX).all(|_| !debt.one_more(now)), "no definition");
        debt.definition_comes(now);
        let late = now + DUE_TO_DEFINITIONS;
        assert!((0..2 * PROBES_MAX).all(|_| !debt.one_more(late)));
    }
}
