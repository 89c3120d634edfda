//! Sizes of shared_buffers: read, rounded, chosen.

use crate::report::Unit;

/// The smallest shared_buffers that PostgreSQL starts with (128 kB), and that a load can work with.
const BYTES_MIN: u64 = 1 << 20;

/// The most of the machine's memory that a size chosen by us takes.
const MEMORY_SHARE_MAX: f64 = 0.6;

/// Reads a size as PostgreSQL does (manual, "Parameter Names and Values"), with its unit: `128MB`.
pub(super) fn parse(text: &str) -> Result<u64, String> {
    let digits = text
        .trim()
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.trim().len());
    let (number, unit) = text.trim().split_at(digits);
    let factor = match unit.trim() {
        "kB" => 10,
        "MB" => 20,
        "GB" => 30,
        "TB" => 40,
        _ => {
            return Err(format!(
                "\"{text}\" is no size with a unit, such as 128MB or 4GB (units: kB, MB, GB, TB)"
            ));
        }
    };
    let number: u64 = number
        .parse()
        .map_err(|_| format!("\"{text}\" is no size, such as 128MB"))?;
    match number.checked_mul(1 << factor) {
        Some(bytes) if bytes >= BYTES_MIN => Ok(bytes),
        Some(_) => Err(format!("\"{text}\" is less than 1MB")),
        None => Err(format!("\"{text}\" is out of range")),
    }
}

/// As a setting's value: `131072kB`.
pub(super) fn setting(bytes: u64) -> String {
    format!("{}kB", bytes >> 10)
}

/// As people write it, and as it can be pasted: `128MB`.
pub(super) fn written(bytes: u64) -> String {
    Unit::Bytes.show(bytes as f64).replace(' ', "")
}

/// Powers of two from a sixteenth of the data to where all of it fits, as far as the memory goes.
pub(super) fn around(data_bytes: u64, memory_bytes: u64) -> Vec<u64> {
    let limit = if memory_bytes == 0 {
        u64::MAX
    } else {
        (memory_bytes as f64 * MEMORY_SHARE_MAX) as u64
    };
    let mut size = (data_bytes / 16).next_power_of_two().max(8 << 20);
    let mut sizes = vec![size];
    while size < data_bytes && size * 2 <= limit {
        size *= 2;
        sizes.push(size);
    }
    sizes
}

#[cfg(test)]
mod tests {
    use super::*;

    const MB: u64 = 1 << 20;

    #[test]
    fn sizes_are_read_as_postgresql_does() {
        assert_eq!(parse("128MB"), Ok(128 * MB));
        assert_eq!(parse(" 4 GB "), Ok(4096 * MB));
        assert_eq!(parse("2048kB"), Ok(2 * MB));
        for (text, error) in [
            (
                "128",
                "is no size with a unit, such as 128MB or 4GB (units: kB, MB, GB, TB)",
            ),
            (
                "128mb",
                "is no size with a unit, such as 128MB or 4GB (units: kB, MB, GB, TB)",
            ),
            ("MB", "is no size, such as 128MB"),
            ("64kB", "is less than 1MB"),
            ("99999999999999TB", "is out of range"),
        ] {
            assert_eq!(parse(text), Err(format!("\"{text}\" {error}")));
        }
        assert_eq!(setting(128 * MB), "131072kB");
        assert_eq!(written(128 * MB), "128MB");
        assert_eq!(written(24 << 30), "24GB");
    }

    #[test]
    fn chosen_sizes_reach_from_too_small_to_enough() {
        assert_eq!(around(160 * MB, 8 << 30), [16, 32, 64, 128, 256].map(|mb| mb * MB));
        // The article's: 7.5 GB of data on a machine of 32 GB.
        assert_eq!(
            around(7680 * MB, 32 << 30),
            [512, 1024, 2048, 4096, 8192].map(|mb| mb * MB)
        );
        assert_eq!(around(7680 * MB, 4 << 30), [512, 1024, 2048].map(|mb| mb * MB));
        assert_eq!(around(MB, 0), [8 * MB]);
    }
}
