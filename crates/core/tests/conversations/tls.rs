//! TLS on both sides, as far as the core decides: who is offered TLS, who must use it, and bytes that must not be
//! accepted before it.

use crate::rig::Rig;
use pgweir_core::{Accepted, Address, ClientId, Connected, ServerId, TlsFacts};
use pgweir_wire::StartupPacket;

/// A pooler with this mode for clients.
fn clients(mode: &str) -> Rig {
    Rig::new(&format!(
        "client_tls_key_file = k\nclient_tls_cert_file = c\nclient_tls_ca_file = a\nclient_tls_sslmode = {mode}"
    ))
}

/// A pooler with this mode for servers.
fn servers(mode: &str) -> Rig {
    Rig::new(&format!("server_tls_ca_file = a\nserver_tls_sslmode = {mode}"))
}

fn facts() -> TlsFacts {
    TlsFacts {
        protocol: "TLSv1.3",
        cipher: "TLS_AES_256_GCM_SHA384",
        end_point: Some(b"hash".as_slice().into()),
        peer: None,
    }
}

fn ssl_request() -> Vec<u8> {
    let mut packet = Vec::new();
    StartupPacket::write_ssl_request(&mut packet);
    packet
}

fn startup() -> Vec<u8> {
    let mut packet = Vec::new();
    let parameters = [("user", "u"), ("database", "db")];
    let parameters = parameters.iter().map(|(n, v)| (n.as_bytes(), v.as_bytes()));
    StartupPacket::write_startup(&mut packet, pgweir_wire::ProtocolVersion::V3_0, parameters);
    packet
}

fn arrive_from(rig: &mut Rig, peer: Address) -> ClientId {
    let accepted = Accepted {
        peer,
        local: peer,
        peer_uid: None,
    };
    let id = rig.pooler.handle_accept(rig.now, accepted);
    rig.settle(&[]);
    id
}

fn arrive(rig: &mut Rig) -> ClientId {
    arrive_from(rig, Address::Tcp(([127, 0, 0, 1], 5000).into()))
}

/// A client whose connection uses TLS.
fn arrive_by_tls(rig: &mut Rig) -> ClientId {
    let client = arrive(rig);
    rig.comes(client, &ssl_request());
    assert_eq!(rig.raw(client), b"S");
    assert_eq!(rig.handshakes.pop_front(), Some((client.into(), false)));
    rig.pooler.handle_client_secured(rig.now, client, facts());
    rig.settle(&[]);
    client
}

/// Why a client that has sent these bytes is refused; empty if it is not closed.
fn refusal(rig: &mut Rig, client: ClientId, said: &[u8]) -> String {
    rig.comes(client, said);
    let told = rig.told(client).join(" ");
    assert_eq!(rig.closed.contains(&client.into()), told.contains("Error"), "{told}");
    told
}

#[test]
fn a_client_that_asks_gets_tls_and_logs_in_behind_it() {
    for mode in ["allow", "prefer", "require", "verify-ca", "verify-full"] {
        let mut rig = clients(mode);
        let client = arrive_by_tls(&mut rig);
        rig.comes(client, &startup());
        rig.servers_log_in();
        assert!(rig.told(client).ends_with(&["ReadyForQuery I".into()]), "{mode}");
        let attempt = "login attempt: db=db user=u tls=TLSv1.3/TLS_AES_256_GCM_SHA384 replication=no";
        assert!(rig.log.iter().any(|(_, line)| line.contains(attempt)), "{:?}", rig.log);
    }
}

#[test]
fn who_does_not_offer_tls_declines_and_serves_plainly() {
    let mut rig = clients("disable");
    let client = arrive(&mut rig);
    rig.comes(client, &ssl_request());
    assert_eq!(rig.raw(client), b"N");
    assert!(rig.handshakes.is_empty());
    rig.comes(client, &startup());
    rig.servers_log_in();
    assert!(rig.told(client).ends_with(&["ReadyForQuery I".into()]));
}

#[test]
fn plain_clients_are_refused_where_tls_is_required() {
    for (mode, refused) in [
        ("allow", false),
        ("prefer", false),
        ("require", true),
        ("verify-full", true),
    ] {
        let mut rig = clients(mode);
        let client = arrive(&mut rig);
        let told = refusal(&mut rig, client, &startup());
        assert_eq!(told.contains("SSL required"), refused, "{mode}: {told}");
    }
    // Nobody can be between the ends of a Unix-domain socket.
    let mut rig = clients("require");
    let client = arrive_from(&mut rig, Address::Unix { port: 6432, pid: None });
    rig.comes(client, &ssl_request());
    assert_eq!(rig.raw(client), b"N");
    rig.comes(client, &startup());
    rig.servers_log_in();
    assert!(rig.told(client).ends_with(&["ReadyForQuery I".into()]));
}

/// CVE-2021-23214: bytes that somebody in between has put after the request would be taken for the client's.
#[test]
fn nothing_may_come_with_a_request_for_encryption() {
    for mode in ["disable", "require"] {
        let mut rig = clients(mode);
        let client = arrive(&mut rig);
        let told = refusal(&mut rig, client, &[ssl_request(), startup()].concat());
        assert!(told.contains("received unencrypted data"), "{told}");
        assert!(rig.handshakes.is_empty());
    }
}

#[test]
fn encryption_is_not_asked_for_twice() {
    let mut rig = clients("allow");
    let client = arrive_by_tls(&mut rig);
    let told = refusal(&mut rig, client, &ssl_request());
    assert!(told.contains("SSL req inside SSL"), "{told}");
}

/// Guards against a connection that is answered for as long as it asks, until client_login_timeout.
#[test]
fn each_request_for_encryption_is_answered_once() {
    let gss_request = [0, 0, 0, 8, 0x04, 0xd2, 0x16, 0x30];
    for order in [[&ssl_request()[..], &gss_request], [&gss_request, &ssl_request()[..]]] {
        let mut rig = clients("disable");
        let client = arrive(&mut rig);
        for request in order {
            rig.comes(client, request);
            assert_eq!(rig.raw(client), b"N");
        }
        let told = refusal(&mut rig, client, order[0]);
        assert!(
            told.contains("0A000") && told.contains("unsupported frontend protocol 1234.56"),
            "{told}"
        );
    }
}

#[test]
fn a_client_may_begin_with_tls_at_once() {
    let hello = [0x16, 3, 1, 0, 5, 1, 0, 0, 1, 0];
    let mut rig = clients("require");
    let client = arrive(&mut rig);
    let consumed = rig.pooler.handle_client_bytes(rig.now, client, &hello);
    rig.settle(&[]);
    assert_eq!(consumed, 0, "the handshake is the driver's");
    assert_eq!(rig.handshakes.pop_front(), Some((client.into(), true)));
    for mut rig in [clients("disable"), clients("require")] {
        let unix = Address::Unix { port: 6432, pid: None };
        let client = arrive_from(&mut rig, unix);
        rig.comes(client, &hello);
        assert!(rig.closed.contains(&client.into()) && rig.raw(client).is_empty());
        assert!(rig.handshakes.is_empty());
    }
}

#[test]
fn a_failed_handshake_ends_the_client_and_is_logged() {
    let mut rig = clients("require");
    let client = arrive(&mut rig);
    rig.comes(client, &ssl_request());
    rig.raw(client);
    rig.pooler
        .handle_client_not_secured(rig.now, client, "received fatal alert");
    rig.settle(&[]);
    assert!(rig.closed.contains(&client.into()) && rig.raw(client).is_empty());
    let is_logged = |text: &str| rig.log.iter().any(|(_, line)| line.contains(text));
    assert!(is_logged("TLS handshake error: received fatal alert"), "{:?}", rig.log);
}

/// A server that has got an SSLRequest, and a client that waits for it.
fn asked(rig: &mut Rig) -> (ServerId, ClientId) {
    let client = rig.client_begins(&[("user", "u"), ("database", "db")]);
    let server = rig.connects.pop_front().expect("a server is wanted");
    let remote = Address::Tcp(([127, 0, 0, 1], 5432).into());
    let connected = Connected { remote, local: remote };
    rig.pooler.handle_server_connected(rig.now, server, connected);
    rig.settle(&[]);
    assert_eq!(rig.raw(server), ssl_request());
    (server, client)
}

fn is_startup(bytes: &[u8]) -> bool {
    matches!(StartupPacket::read(bytes), Ok(StartupPacket::Startup { .. }))
}

#[test]
fn a_server_that_grants_tls_hears_nothing_else_before_it() {
    for mode in ["allow", "prefer", "require", "verify-ca", "verify-full"] {
        let mut rig = servers(mode);
        let (server, _) = asked(&mut rig);
        rig.comes(server, b"S");
        assert_eq!(rig.handshakes.pop_front(), Some((server.into(), false)));
        assert!(rig.raw(server).is_empty(), "{mode}");
        rig.pooler.handle_server_secured(rig.now, server, facts());
        rig.settle(&[]);
        assert!(is_startup(&rig.raw(server)), "{mode}");
    }
}

#[test]
fn a_server_may_be_sent_a_handshake_at_once() {
    let mut rig = Rig::new("server_tls_sslmode = require\nserver_tls_sslnegotiation = direct");
    rig.client_begins(&[("user", "u"), ("database", "db")]);
    let server = rig.connects.pop_front().expect("a server is wanted");
    let remote = Address::Tcp(([127, 0, 0, 1], 5432).into());
    let connected = Connected { remote, local: remote };
    rig.pooler.handle_server_connected(rig.now, server, connected);
    rig.settle(&[]);
    assert_eq!(rig.handshakes.pop_front(), Some((server.into(), true)));
    assert!(rig.raw(server).is_empty(), "no SSLRequest");
    rig.pooler.handle_server_secured(rig.now, server, facts());
    rig.settle(&[]);
    assert!(is_startup(&rig.raw(server)));
}

#[test]
fn a_server_that_declines_is_spoken_to_plainly_unless_tls_is_required() {
    for (mode, plain) in [
        ("prefer", true),
        ("allow", true),
        ("require", false),
        ("verify-full", false),
    ] {
        let mut rig = servers(mode);
        let (server, _) = asked(&mut rig);
        rig.comes(server, b"N");
        assert_eq!(is_startup(&rig.raw(server)), plain, "{mode}");
        assert_eq!(rig.closed.contains(&server.into()), !plain, "{mode}");
        let is_logged = rig.log.iter().any(|(_, line)| line.contains("server refused SSL"));
        assert_eq!(is_logged, !plain, "{mode}");
    }
}

/// CVE-2021-23222 and CVE-2024-10977: no byte before the handshake is trusted.
#[test]
fn a_server_answers_with_one_byte_and_nothing_else() {
    for answer in [
        &b"SR\0\0\0\x08\0\0\0\0"[..],
        b"NR\0\0\0\x08\0\0\0\0",
        b"E\0\0\0\x08pay",
        b"X",
    ] {
        let mut rig = servers("prefer");
        let (server, _) = asked(&mut rig);
        rig.comes(server, answer);
        assert!(rig.closed.contains(&server.into()), "{answer:?}");
        assert!(rig.raw(server).is_empty() && rig.handshakes.is_empty());
        assert!(rig.log.iter().all(|(_, line)| !line.contains("pay")), "{:?}", rig.log);
    }
}

#[test]
fn a_failed_handshake_is_a_failed_connection() {
    let mut rig = servers("verify-full");
    let (server, client) = asked(&mut rig);
    rig.comes(server, b"S");
    let why = "invalid peer certificate: NotValidForName";
    rig.pooler.handle_server_not_secured(rig.now, server, why);
    rig.settle(&[]);
    assert!(rig.closed.contains(&server.into()));
    let logged = |words: &str| rig.log.iter().any(|(_, line)| line.contains(words));
    assert!(
        logged(&format!("@127.0.0.1:5432 TLS handshake error: {why}")),
        "{:?}",
        rig.log
    );
    assert!(logged("closing because: TLS handshake failed (age="), "{:?}", rig.log);
    assert!(rig.server_of(client).is_none());
}

#[test]
fn the_log_says_why_a_server_is_not_used_and_how_one_is_secured() {
    for (answer, words) in [
        (&b"N"[..], "closing because: server refused SSL (age="),
        (b"E", "closing because: bad sslreq answer (age="),
        (
            b"Sx",
            "closing because: received unencrypted data after SSL response (age=",
        ),
    ] {
        let mut rig = servers("require");
        let (server, _) = asked(&mut rig);
        rig.comes(server, answer);
        assert!(rig.log.iter().any(|(_, line)| line.contains(words)), "{:?}", rig.log);
    }
    for (settings, expected) in [("", 1), ("\nlog_connections = 0", 0)] {
        let mut rig = servers(&format!("require{settings}"));
        let (server, _) = asked(&mut rig);
        rig.comes(server, b"S");
        rig.pooler.handle_server_secured(rig.now, server, facts());
        rig.settle(&[]);
        let words = "@127.0.0.1:5432 SSL established: TLSv1.3/TLS_AES_256_GCM_SHA384";
        let found = rig.log.iter().filter(|(_, line)| line.ends_with(words)).count();
        assert_eq!(found, expected, "{:?}", rig.log);
    }
}

#[test]
fn a_server_on_a_unix_domain_socket_is_not_asked() {
    let mut rig = Rig::with("db = host=/tmp user=u", "server_tls_sslmode = require");
    rig.client_begins(&[("user", "u"), ("database", "db")]);
    let server = rig.connects.pop_front().expect("a server is wanted");
    let remote = Address::Unix { port: 5432, pid: None };
    let connected = Connected { remote, local: remote };
    rig.pooler.handle_server_connected(rig.now, server, connected);
    rig.settle(&[]);
    assert!(is_startup(&rig.raw(server)));
}
