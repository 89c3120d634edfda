//! Messages of which only a part has come.

use crate::rig::Rig;

#[test]
fn half_a_message_keeps_the_server() {
    let mut rig = Rig::new("");
    let client = rig.client();
    rig.says(client, |w| w.query(b"copy t from stdin"));
    let server = rig.server_of(client).unwrap();
    rig.comes(client, b"d\0\0\0\x08ab");
    rig.completes(server, "COPY 0");
    assert!(
        rig.server_of(client).is_some(),
        "two bytes of a CopyData are still to come"
    );
    rig.comes(client, b"cd");
    assert_eq!(rig.server_of(client), None);
}

/// The beginning of a Query that is too long to be kept completely.
fn cut_off() -> Vec<u8> {
    [b"Q\0\x10\0\0select '".as_slice(), &[b'x'; 70_000]].concat()
}

#[test]
fn a_client_that_vanishes_inside_a_message_costs_its_server() {
    let mut rig = Rig::new("");
    let client = rig.client();
    rig.comes(client, &cut_off());
    let server = rig.server_of(client).unwrap();
    rig.client_leaves(client);
    assert!(
        rig.closed.contains(&server.into()),
        "the rest of the message cannot be made up"
    );
}

#[test]
fn nothing_is_written_behind_half_a_message() {
    let mut rig = Rig::new("");
    let cut = rig.client();
    rig.comes(cut, &cut_off());
    let server = rig.server_of(cut).unwrap();
    let before = rig.bytes_written(server);
    rig.client_leaves(cut);
    assert_eq!(
        rig.bytes_written(server),
        before,
        "a Terminate would complete the client's message"
    );
}

#[test]
fn nothing_of_ours_is_written_into_the_middle_of_a_servers_message() {
    let mut rig = Rig::new("");
    let client = rig.client();
    rig.says(client, |w| w.query(b"select 1"));
    let server = rig.server_of(client).unwrap();
    rig.comes(server, b"D\0\0\x10\0half a row");
    let before = rig.bytes_written(client);
    rig.server_dies(server);
    assert_eq!(rig.bytes_written(client), before);
    assert!(rig.closed.contains(&client.into()));
}

/// Guards against a server that gets another client while the rest of a message has not arrived.
#[test]
fn a_server_whose_client_leaves_in_the_midst_of_a_message_that_nothing_asked_for_is_closed() {
    let mut rig = Rig::new("pool_mode = session");
    let client = rig.client();
    rig.says(client, |w| w.query(b"select 1"));
    let server = rig.server_of(client).unwrap();
    rig.completes(server, "SELECT 1");
    // A NoticeResponse of 64 kB, of which a part has arrived.
    let mut part = vec![b'N', 0, 1, 0, 0];
    part.extend([b'x'; 40_000]);
    rig.comes(server, &part);
    assert_eq!(rig.server_of(client), Some(server));
    rig.client_leaves(client);
    assert!(rig.closed.contains(&server.into()));
}
