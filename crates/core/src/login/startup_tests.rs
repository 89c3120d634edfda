//! Tests of the first packet of a client.

use super::*;

/// A packet with this code, and its length before it.
fn packet(code: u32, rest: &[u8]) -> Vec<u8> {
    let mut packet = (rest.len() as u32 + 8).to_be_bytes().to_vec();
    packet.extend_from_slice(&code.to_be_bytes());
    packet.extend_from_slice(rest);
    packet
}

const SSL_REQUEST: u32 = 1234 << 16 | 5679;

#[test]
fn a_first_packet_is_read_when_it_is_whole() {
    let whole = packet(ProtocolVersion::V3_0.0, b"user\0u\0\0");
    for cut in 0..whole.len() {
        assert!(
            matches!(FirstPacket::read(&whole[..cut]), FirstPacket::NeedBytes),
            "{cut}"
        );
    }
    let mut more = whole.clone();
    more.extend_from_slice(b"more");
    let FirstPacket::Startup { bytes, parameters, .. } = FirstPacket::read(&more) else {
        panic!("no startup packet");
    };
    assert_eq!(
        (bytes, &parameters[..]),
        (whole.len(), &[(&b"user"[..], &b"u"[..])][..])
    );
}

#[test]
fn nothing_may_follow_a_request_for_encryption() {
    let mut request = packet(SSL_REQUEST, b"");
    assert!(matches!(FirstPacket::read(&request), FirstPacket::Ssl(8)));
    request.push(0);
    let FirstPacket::Rejected(why) = FirstPacket::read(&request) else {
        panic!("bytes of somebody else are taken");
    };
    assert_eq!(why.trouble, Trouble::BytesBeforeEncryption);
}

#[test]
fn what_is_no_startup_packet_and_another_version_hear_why() {
    for bytes in [&b"GET / HTTP/1.0"[..], b"GET "] {
        let FirstPacket::Rejected(why) = FirstPacket::read(bytes) else {
            panic!("another protocol is taken");
        };
        assert_eq!(why.message, "bad packet header: '47455420'", "however it arrives");
    }
    let FirstPacket::Rejected(why) = FirstPacket::read(&packet(2 << 16, b"\0")) else {
        panic!("protocol 2.0 is taken");
    };
    assert_eq!(why.trouble, Trouble::UnsupportedVersion);
}

#[test]
fn a_newer_version_or_option_is_negotiated() {
    let none: [(&[u8], &[u8]); 0] = [];
    assert_eq!(negotiation(ProtocolVersion::V3_2, &none), None);
    let newer = ProtocolVersion(ProtocolVersion::V3_2.0 + 1);
    assert_eq!(negotiation(newer, &none), Some((ProtocolVersion::V3_2.0, vec![])));
    let option: [(&[u8], &[u8]); 1] = [(b"_pq_.x", b"1")];
    let expected = Some((ProtocolVersion::V3_0.0, vec![&b"_pq_.x"[..]]));
    assert_eq!(negotiation(ProtocolVersion::V3_0, &option), expected);
}

fn wishes(parameters: &[(&str, &str)]) -> Result<Wishes, Rejection> {
    let parameters: Vec<(&[u8], &[u8])> = parameters.iter().map(|(n, v)| (n.as_bytes(), v.as_bytes())).collect();
    let ini =
        "[databases]\ndb = host=h\n[pgbouncer]\nauth_type = any\nlisten_addr = *\napplication_name_add_host = 1\n";
    let files = |_: &str| -> std::io::Result<Vec<u8>> { Ok(ini.into()) };
    let settings = Settings::new(&pgweir_config::load("test.ini", &files).unwrap().config);
    Wishes::read(&parameters, &settings, Address::Unix { port: 1, pid: Some(7) }, "here")
}

/// PostgreSQL: FATAL 42704 unrecognized configuration parameter "user".
#[test]
fn a_setting_cannot_have_the_name_of_a_keyword() {
    for replication in ["database", "true", "false"] {
        for options in [
            "-c user=postgres",
            "--database=secret",
            "-cUSER=postgres",
            "-c replication=true",
            "-c options=--user=postgres",
            "-c _pq_.x=1",
            "-c -pq-.x=1",
        ] {
            let refused = wishes(&[("user", "u"), ("replication", replication), ("options", options)]).unwrap_err();
            assert_eq!(refused.trouble, Trouble::NoSuchSetting, "{options}");
        }
        let refused = wishes(&[("user", "u"), ("User", "postgres")]).unwrap_err();
        assert_eq!(refused.message, "unrecognized configuration parameter \"User\"");
    }
    assert!(wishes(&[("user", "u"), ("options", "-c user_x.user=1")]).is_ok());
}

#[test]
fn the_packet_counts_more_than_options_and_the_host_is_added_to_the_name_that_counts() {
    let read = wishes(&[
        ("user", "u"),
        ("Application_Name", "first"),
        ("application_name", "last"),
        ("options", "-c application_name=hidden"),
    ]);
    let settings = read.unwrap().settings;
    let values: Vec<&str> = settings.iter().map(|(_, value)| &**value).collect();
    assert_eq!(values[..2], ["hidden", "first"]);
    assert_eq!(values[2], "last - unix(7@here):1");
}

#[test]
fn replication_takes_booleans_and_database() {
    assert_eq!(replication("database"), Ok(PoolKind::Replication { physical: false }));
    assert_eq!(replication("TRUE"), Ok(PoolKind::Replication { physical: true }));
    assert_eq!(replication("off"), Ok(PoolKind::Clients));
    assert!(replication("maybe").is_err());
}

#[test]
fn names_that_are_too_long_are_refused() {
    let read = |user: usize, database: usize| {
        let (user, database) = ("u".repeat(user), "d".repeat(database));
        let read = wishes(&[("user", &user), ("database", &database)]);
        read.map(|_| "taken".to_string())
            .unwrap_or_else(|why| why.message.into())
    };
    assert_eq!(read(127, 1024), "taken");
    assert_eq!(read(128, 1), "username too long");
    assert!(read(1, 1025).starts_with("database name is too long"));
}
