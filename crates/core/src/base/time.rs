//! Time as an argument.

use std::fmt;
use std::ops::{Add, Sub};
use std::time::Duration;

/// A point on the driver's monotonic clock: microseconds since the pooler started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, pgweir_freeze::Freeze)]
pub struct Time(pub u64);

impl Time {
    /// Microseconds from `earlier` until this time; zero if `earlier` is later.
    pub fn us_since(self, earlier: Time) -> u64 {
        self.0.saturating_sub(earlier.0)
    }

    /// Duration from `earlier` until this time; zero if `earlier` is later.
    pub fn since(self, earlier: Time) -> Duration {
        Duration::from_micros(self.us_since(earlier))
    }
}

impl Add<Duration> for Time {
    type Output = Time;
    fn add(self, d: Duration) -> Time {
        Time(self.0.saturating_add(u64::try_from(d.as_micros()).unwrap_or(u64::MAX)))
    }
}

impl Sub<Time> for Time {
    type Output = Duration;
    fn sub(self, earlier: Time) -> Duration {
        self.since(earlier)
    }
}

/// The wall clock's value at [`Time`] zero; only the console prints it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, pgweir_freeze::Freeze)]
pub struct WallClock {
    /// Microseconds since 1970-01-01 00:00:00 UTC.
    pub unix_us: i64,
}

impl WallClock {
    /// `YYYY-MM-DD HH:MM:SS UTC` at `time`, the form of PgBouncer's console.
    pub fn text(self, time: Time) -> impl fmt::Display {
        let seconds = (self.unix_us + time.0 as i64).div_euclid(1_000_000);
        let (days, rest) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
        let (y, m, d) = civil_from_days(days);
        format!(
            "{y:04}-{m:02}-{d:02} {:02}:{:02}:{:02} UTC",
            rest / 3600,
            rest / 60 % 60,
            rest % 60
        )
    }
}

/// Year, month and day of a day number counted from 1970-01-01 (the proleptic Gregorian calendar, in 400-year eras).
fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let z = days + 719_468;
    let era = z.div_euclid(146_097);
    let day_of_era = z.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 {
        month_from_march + 3
    } else {
        month_from_march - 9
    };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wall_clock_knows_leap_years() {
        let at = |s: i64| WallClock { unix_us: s * 1_000_000 }.text(Time(0)).to_string();
        assert_eq!(at(0), "1970-01-01 00:00:00 UTC");
        assert_eq!(at(951_782_400), "2000-02-29 00:00:00 UTC");
        assert_eq!(at(1_795_251_599), "2026-11-21 08:59:59 UTC");
        assert_eq!(at(-1), "1969-12-31 23:59:59 UTC");
    }
}
