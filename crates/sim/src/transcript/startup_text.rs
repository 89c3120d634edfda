//! Packets that open a connection.

use super::words::{TextError, Words, put_quoted};
use pgweir_wire::{CancelKey, ProtocolVersion, StartupPacket};
use std::fmt::Write as _;

/// A startup packet as text: `Startup 3.0 "user" "postgres"`, `SslRequest`, `GssEncRequest`, `Cancel 7 "\x00..."`.
pub fn startup_to_text(packet: &[u8]) -> String {
    match StartupPacket::read(packet) {
        Ok(StartupPacket::SslRequest) => "SslRequest".into(),
        Ok(StartupPacket::GssEncRequest) => "GssEncRequest".into(),
        Ok(StartupPacket::Cancel(key)) => {
            let mut text = format!("Cancel {}", key.process_id);
            put_quoted(&mut text, &key.secret);
            text
        }
        Ok(StartupPacket::Startup { version, parameters }) => {
            let mut text = String::new();
            let _ = write!(text, "Startup {}.{}", version.major(), version.minor());
            for (name, value) in parameters {
                put_quoted(&mut text, name);
                put_quoted(&mut text, value);
            }
            text
        }
        Err(_) => {
            let mut text = String::from("Raw");
            put_quoted(&mut text, packet);
            text
        }
    }
}

/// The packet of such a line; `None` if the line is not a startup packet.
pub fn startup_from_text(line: &str) -> Result<Option<Vec<u8>>, TextError> {
    let mut words = Words::new(line)?;
    let mut packet = Vec::new();
    match words.word()?.as_str() {
        "SslRequest" => StartupPacket::write_ssl_request(&mut packet),
        "GssEncRequest" => {
            packet.extend(8u32.to_be_bytes());
            packet.extend((1234u32 << 16 | 5680).to_be_bytes());
        }
        "Cancel" => {
            let process_id = words.number()?;
            let secret = words.quoted()?.into();
            StartupPacket::write_cancel(&mut packet, &CancelKey { process_id, secret });
        }
        "Startup" => {
            let version = words.word()?;
            let version = version
                .split_once('.')
                .and_then(|(major, minor)| Some((major.parse::<u32>().ok()?, minor.parse::<u32>().ok()?)))
                .ok_or(TextError::Expected {
                    expected: "a version such as 3.0",
                    got: version,
                })?;
            let mut parameters = Vec::new();
            while let Ok(name) = words.quoted() {
                parameters.push((name, words.quoted()?));
            }
            StartupPacket::write_startup(
                &mut packet,
                ProtocolVersion(version.0 << 16 | version.1),
                parameters.iter().map(|(n, v)| (n.as_slice(), v.as_slice())),
            );
        }
        _ => return Ok(None),
    }
    words.end()?;
    Ok(Some(packet))
}
