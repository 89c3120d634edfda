//! The values of settings that limit the time of a session: idle_session_timeout and its siblings.

use std::time::Duration;

/// The limit on a session that is idle outside a transaction.
pub(crate) const IDLE_LIMIT: &str = "idle_session_timeout";

/// The limit on a session that is idle in a transaction.
pub(crate) const IDLE_IN_TRANSACTION_LIMIT: &str = "idle_in_transaction_session_timeout";

/// The limit on a transaction (PostgreSQL 17 and later).
pub(crate) const TRANSACTION_LIMIT: &str = "transaction_timeout";

/// A setting's value as a duration, in milliseconds if it has no unit; `None` if it means no limit, or PostgreSQL would
/// refuse it.
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
