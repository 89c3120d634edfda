//! The peer of a client connection.

use crate::configuration::USERS;
use crate::framing::{Framing, Message};
use crate::story::Story;
use pgweir_auth::{Credential, ScramKeyCache, ServerAuth, ServerStep};
use pgweir_core::ClientId;
use pgweir_wire::{CancelKey, ProtocolVersion, StartupPacket, Writer};

/// A client.
pub struct Client {
    pub id: ClientId,
    /// The driver may still use its id.
    pub alive: bool,
    /// Bytes that the core has not consumed.
    pub kept: Vec<u8>,
    /// Bytes that the client has sent and the driver has not read.
    pub outgoing: Vec<u8>,
    pub framing: Framing,
    /// It has sent only complete, valid messages, so the answers that the core owes it are
    /// known.
    pub sound: bool,
    pub key: Option<CancelKey>,
    /// How often it has been told that the pooler is ready for a query.
    pub readies: usize,
    /// Its TLS handshake is under way: the bytes that it sends are not the core's.
    pub securing: bool,
    /// A handshake has begun at some time.
    pub secured: bool,
    auth: Option<ServerAuth>,
}

/// The byte that begins a TLS handshake.
const TLS_HANDSHAKE: u8 = 0x16;

/// Texts of queries. Their beginning decides what a server answers.
pub const QUERIES: [&str; 16] = [
    "select 1",
    "begin",
    "commit",
    "rollback",
    "set a = 1",
    "deallocate all",
    "discard all",
    "deallocate s1",
    "copy t from stdin",
    "copy t to stdout",
    "",
    "begin; select 1",
    "savepoint a",
    "prepare s1 as select 1",
    "set search_path to y",
    "end",
];

/// Names of statements and portals: the unnamed, two that clients share, and a long one.
const NAMES: [&[u8]; 4] = [b"", b"s1", b"s2", &[b'n'; 70]];

impl Client {
    pub fn new(id: ClientId) -> Self {
        Client {
            id,
            alive: true,
            kept: Vec::new(),
            outgoing: Vec::new(),
            framing: Framing::default(),
            sound: true,
            key: None,
            readies: 0,
            securing: false,
            secured: false,
            auth: None,
        }
    }

    /// Appends a startup packet.
    pub fn start(&mut self, story: &mut Story<'_>) {
        let database: &[u8] = story.one_of(&[&b"forced"[..], b"limited", b"other", b"pgbouncer"]);
        let (user, password) = story.one_of(&USERS);
        let (version, parameter): (_, Option<(&[u8], &[u8])>) = match story.pick(10) {
            1 => (ProtocolVersion::V3_2, None),
            2 => (ProtocolVersion::V3_0, Some((b"application_name", b"x"))),
            3 => (
                ProtocolVersion::V3_0,
                Some((b"options", b"-c work_mem=1MB -c search_path=y")),
            ),
            4 => (ProtocolVersion::V3_0, Some((b"replication", b"true"))),
            5 => (ProtocolVersion::V3_0, Some((b"replication", b"database"))),
            6 => (ProtocolVersion(3 << 16 | 99), Some((b"_pq_.x", b"1"))),
            7 => (ProtocolVersion::V3_0, Some((b"client_encoding", b"latin1"))),
            8 => (ProtocolVersion::V3_0, Some((b"TimeZone", b"utc"))),
            _ => (ProtocolVersion::V3_0, None),
        };
        let parameters = [(&b"user"[..], user.as_bytes()), (b"database", database)]
            .into_iter()
            .chain(parameter);
        StartupPacket::write_startup(&mut self.outgoing, version, parameters);
        self.auth = Some(ServerAuth::new(
            user.as_bytes(),
            Credential::Password(password.into()),
            [3; 18],
        ));
    }

    /// Appends an SSLRequest, if one may come.
    pub fn ask_for_tls(&mut self) {
        if self.auth.is_some() || !self.sound {
            return;
        }
        StartupPacket::write_ssl_request(&mut self.outgoing);
        self.framing.unframed += 1;
    }

    /// Appends the beginning of a handshake that no SSLRequest announces.
    pub fn begin_tls(&mut self, story: &mut Story<'_>) {
        self.outgoing.push(TLS_HANDSHAKE);
        let bytes = story.raw(10);
        self.outgoing.extend(bytes);
    }

    /// Appends a message of any kind.
    pub fn say(&mut self, story: &mut Story<'_>) {
        let out = &mut self.outgoing;
        let mut w = Writer::new(out);
        match story.pick(18) {
            0 => w.query(story.one_of(&QUERIES).as_bytes()),
            1 => w.parse(story.one_of(&NAMES), story.one_of(&QUERIES).as_bytes(), &[0, 0]),
            2 => w.bind_text(story.one_of(&NAMES), &[Some(b"v"), None]),
            3 => w.describe(story.one_of(b"SP"), story.one_of(&NAMES)),
            4 => w.execute(),
            5 => w.close(story.one_of(b"SP"), story.one_of(&NAMES)),
            6 => w.sync(),
            7 => w.empty(b'H'),
            8 => w.message(b'd', |b| b.extend(b"1\n")),
            9 => w.empty(b'c'),
            10 => w.copy_fail("no"),
            11 => w.message(b'F', |b| b.extend([0, 0, 0, 9, 0, 0, 0, 0, 0, 0])),
            12 => w.terminate(),
            13 => w.password(b"pw\0"),
            14 => {
                // Longer than the text that is inspected, and than a statement that is kept.
                let mut text = b"select ".to_vec();
                text.resize(story.one_of(&[600, 3000, 20_000, 70_000]), b'x');
                match story.pick(2) {
                    0 => w.query(&text),
                    _ => w.parse(story.one_of(&NAMES), &text, &[0, 1, 0, 0, 0, 23]),
                }
            }
            15 => w.message(b'd', |b| b.extend(vec![b'x'; story.one_of(&[0, 100, 10_000])])),
            16 => {
                self.sound = false;
                let tag = story.byte().unwrap_or(b'Q');
                let body = story.raw(40);
                w.message(tag, |b| b.extend(body));
            }
            _ => {
                w.parse(b"", story.one_of(&QUERIES).as_bytes(), &[0, 0]);
                w.bind_text(b"", &[]);
                w.describe(b'P', b"");
                w.execute();
                w.sync();
            }
        }
    }

    /// Appends Parse, Bind, Describe, Execute under one name, and Sync.
    pub fn say_prepared(&mut self, story: &mut Story<'_>) {
        let (name, text) = (story.one_of(&NAMES), story.one_of(&QUERIES));
        let parts = story.pick(8);
        let mut w = Writer::new(&mut self.outgoing);
        if parts & 1 == 0 {
            w.parse(name, text.as_bytes(), &[0, 0]);
        }
        if parts & 2 == 0 {
            w.describe(b'S', name);
        }
        w.bind_text(name, &[]);
        w.execute();
        if parts & 4 == 0 {
            w.sync();
        }
    }

    /// Appends any bytes.
    pub fn say_nonsense(&mut self, story: &mut Story<'_>) {
        self.sound = false;
        let bytes = story.raw(60);
        self.outgoing.extend(bytes);
    }

    /// Appends a header with a wrong length, and some of the bytes that it promises.
    pub fn lie(&mut self, story: &mut Story<'_>) {
        self.sound = false;
        self.outgoing.push(story.one_of(b"QPBDECSHdcfFXp"));
        let length: u32 = story.one_of(&[0, 3, 4, 5, 6, 100, 5000, 300_000, 0x3fff_fffe, 0x3fff_ffff, u32::MAX]);
        self.outgoing.extend(length.to_be_bytes());
        let bytes = story.raw(40);
        self.outgoing.extend(bytes);
    }

    /// Changes the last byte that has not been read.
    pub fn spoil(&mut self, story: &mut Story<'_>) {
        if let Some(last) = self.outgoing.last_mut() {
            *last = last.wrapping_add(1 + story.pick(255) as u8);
            self.sound = false;
        }
    }

    /// Reads the pooler's messages; answers its questions during the login.
    pub fn hear(&mut self, messages: Vec<Message>, cache: &mut ScramKeyCache) {
        for (tag, body) in messages {
            match tag {
                b'R' => {
                    let step = self.auth.as_mut().map(|auth| auth.handle_message(&body, cache));
                    if let Some(Ok(ServerStep::Send(payload))) = step {
                        Writer::new(&mut self.outgoing).password(&payload);
                    }
                }
                b'K' => self.key = CancelKey::read(&body).ok(),
                b'Z' => self.readies += 1,
                _ => {}
            }
        }
    }
}
