//! One server, and clients whose settings it must confirm.

use crate::rig::{Rig, error};
use pgweir_core::{ClientId, ServerId};
use pgweir_wire::TransactionStatus::Idle;

/// The server answers a segment of restored settings, and has got nothing else.
pub fn confirms(rig: &mut Rig, server: ServerId, reports: &[(&str, &str)]) {
    let told = rig.told(server);
    assert!(!told.iter().any(|l| l.starts_with("Query")), "{told:?}");
    rig.answers(server, &told, reports);
}

pub fn refuses(rig: &mut Rig, server: ServerId, sqlstate: &'static str) {
    rig.told(server);
    rig.says(server, |w| {
        w.error(&error(sqlstate, "no"));
        w.ready_for_query(Idle);
    });
}

/// The settings in restorations, as `name = value`.
pub fn made(told: &[(u8, Vec<u8>)]) -> Vec<String> {
    let binds = told.iter().filter(|(tag, _)| *tag == b'B');
    binds
        .map(|(_, body)| {
            // Portal, statement, no formats, two values.
            let at = body.iter().position(|&b| b == 0).unwrap() + 1;
            let at = at + body[at..].iter().position(|&b| b == 0).unwrap() + 1;
            let mut rest = &body[at + 4..];
            let mut values = Vec::new();
            for _ in 0..2 {
                let (length, behind) = rest.split_at(4);
                let length = i32::from_be_bytes(length.try_into().unwrap());
                let (value, behind) = behind.split_at(usize::try_from(length).unwrap_or(0));
                values.push(if length < 0 {
                    "DEFAULT".into()
                } else {
                    String::from_utf8_lossy(value).into_owned()
                });
                rest = behind;
            }
            values.join(" = ")
        })
        .collect()
}

/// A client with a time zone of its own, in a pool whose only server does not have it.
pub fn tokyo(rig: &mut Rig) -> (ClientId, ClientId, ServerId) {
    let plain = rig.client();
    let id = rig.client_begins(&[("user", "u"), ("database", "db"), ("TimeZone", "Asia/Tokyo")]);
    let server = rig.server_of(id).expect("it tries the value");
    confirms(rig, server, &[("TimeZone", "Asia/Tokyo")]);
    rig.told(id);
    rig.says(plain, |w| w.query(b"select 1"));
    confirms(rig, server, &[("TimeZone", "UTC")]);
    rig.completes(server, "SELECT 1");
    rig.told(server);
    rig.told(plain);
    (plain, id, server)
}
