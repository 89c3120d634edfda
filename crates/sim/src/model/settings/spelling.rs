//! How values of settings are checked and spelled.

use super::definitions::{Definition, Kind};
use crate::model::error::ServerError;

/// Time zones that the model knows: every installation has them.
const TIME_ZONES: [&str; 6] = [
    "UTC",
    "GMT",
    "Asia/Tokyo",
    "Europe/Paris",
    "America/New_York",
    "Etc/UTC",
];

/// A value of this setting as the server spells it; `now` is the present value.
pub(super) fn checked(d: &Definition, now: &str, value: &str) -> Result<String, ServerError> {
    let invalid = || {
        ServerError::error(
            "22023",
            format!("invalid value for parameter \"{}\": \"{value}\"", d.name),
        )
    };
    Ok(match d.kind {
        Kind::Internal | Kind::Text | Kind::SearchPath | Kind::Role => value.into(),
        Kind::Bool => match value.to_ascii_lowercase().as_str() {
            "on" | "true" | "yes" | "1" => "on".into(),
            "off" | "false" | "no" | "0" => "off".into(),
            _ => {
                return Err(ServerError::error(
                    "22023",
                    format!("parameter \"{}\" requires a Boolean value", d.name),
                ));
            }
        },
        Kind::OneOf(list) => list
            .iter()
            .find(|v| v.eq_ignore_ascii_case(value))
            .ok_or_else(invalid)?
            .to_string(),
        Kind::TimeZone => TIME_ZONES
            .iter()
            .find(|v| **v == value)
            .ok_or_else(invalid)?
            .to_string(),
        Kind::Encoding => match value.to_ascii_uppercase().replace(['-', '_'], "").as_str() {
            "UTF8" | "UNICODE" => "UTF8".into(),
            "LATIN1" => "LATIN1".into(),
            "SQLASCII" => "SQL_ASCII".into(),
            _ => return Err(invalid()),
        },
        Kind::DateStyle => date_style(now, value).ok_or_else(invalid)?,
        Kind::Int { min, max } => {
            let number: i64 = value.parse().map_err(|_| invalid())?;
            if !(min..=max).contains(&number) {
                return Err(ServerError::error(
                    "22023",
                    format!(
                        "{number} is outside the valid range for parameter \"{}\" ({min} .. {max})",
                        d.name
                    ),
                ));
            }
            number.to_string()
        }
        Kind::Kilobytes => kilobytes(units(value, &KILOBYTES).ok_or_else(invalid)?),
        Kind::Milliseconds => milliseconds(units(value, &MILLISECONDS).ok_or_else(invalid)?),
    })
}

fn kilobytes(kb: u64) -> String {
    match kb {
        kb if kb % (1024 * 1024) == 0 => format!("{}GB", kb / 1024 / 1024),
        kb if kb % 1024 == 0 => format!("{}MB", kb / 1024),
        kb => format!("{kb}kB"),
    }
}

fn milliseconds(ms: u64) -> String {
    match ms {
        0 => "0".into(),
        ms if ms % 60_000 == 0 => format!("{}min", ms / 60_000),
        ms if ms % 1000 == 0 => format!("{}s", ms / 1000),
        ms => format!("{ms}ms"),
    }
}

pub(super) const KILOBYTES: [(&str, u64); 3] = [("kB", 1), ("MB", 1024), ("GB", 1024 * 1024)];

pub(super) const MILLISECONDS: [(&str, u64); 3] = [("ms", 1), ("s", 1000), ("min", 60_000)];

pub(super) fn units(value: &str, units: &[(&str, u64)]) -> Option<u64> {
    let digits = value.find(|c: char| !c.is_ascii_digit()).unwrap_or(value.len());
    let number: u64 = value[..digits].parse().ok()?;
    match &value[digits..] {
        "" => Some(number),
        unit => number.checked_mul(units.iter().find(|(name, _)| *name == unit)?.1),
    }
}

/// Style and field order. A value may omit one of them (`check_datestyle`).
fn date_style(now: &str, value: &str) -> Option<String> {
    let (mut style, mut order) = now.split_once(", ")?;
    for word in value.split(',').map(str::trim) {
        match word.to_ascii_lowercase().as_str() {
            "iso" => style = "ISO",
            "sql" => style = "SQL",
            "postgres" => style = "Postgres",
            "german" => {
                style = "German";
                if !value.contains(',') {
                    order = "DMY";
                }
            }
            "dmy" | "european" => order = "DMY",
            "mdy" | "us" => order = "MDY",
            "ymd" => order = "YMD",
            _ => return None,
        }
    }
    Some(format!("{style}, {order}"))
}
