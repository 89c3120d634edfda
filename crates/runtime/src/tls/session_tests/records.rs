//! Records of TLS 1.3 that are opened and sealed anew on their way: other bounds of messages, other messages, other
//! records than any library sends.

use ring::aead::{self, Aad, LessSafeKey, Nonce, UnboundKey};
use ring::hkdf::{self, KeyType, Prk};
use rustls::KeyLog;
use std::collections::HashMap;
use std::sync::Mutex;

pub(super) const CHANGE_CIPHER_SPEC: u8 = 20;
pub(super) const ALERT: u8 = 21;
pub(super) const HANDSHAKE: u8 = 22;
pub(super) const APPLICATION_DATA: u8 = 23;

/// The bytes in front of a record's content.
pub(super) const HEADER_BYTES: usize = 5;

/// The secrets of one connection.
#[derive(Debug, Default)]
pub(super) struct Secrets(Mutex<HashMap<String, Vec<u8>>>);

impl KeyLog for Secrets {
    fn log(&self, label: &str, _: &[u8], secret: &[u8]) {
        self.0.lock().unwrap().insert(label.to_owned(), secret.to_vec());
    }
}

impl Secrets {
    fn get(&self, label: &str) -> Option<Vec<u8>> {
        self.0.lock().unwrap().get(label).cloned()
    }
}

/// The algorithms of a suite, by the index of [`super::parties::Setup::suite`].
fn algorithms(suite: usize) -> (&'static aead::Algorithm, hkdf::Algorithm) {
    match suite {
        0 => (&aead::AES_256_GCM, hkdf::HKDF_SHA384),
        1 => (&aead::AES_128_GCM, hkdf::HKDF_SHA256),
        _ => (&aead::CHACHA20_POLY1305, hkdf::HKDF_SHA256),
    }
}

struct Bytes(usize);

impl KeyType for Bytes {
    fn len(&self) -> usize {
        self.0
    }
}

/// HKDF-Expand-Label of RFC 8446.
fn expand(hash: hkdf::Algorithm, secret: &[u8], label: &[u8], length: usize) -> Vec<u8> {
    let (high, low) = ((length >> 8) as u8, length as u8);
    let info = [&[high, low, label.len() as u8 + 6][..], b"tls13 ", label, &[0]];
    let mut out = vec![0; length];
    let prk = Prk::new_less_safe(hash, secret);
    prk.expand(&info, Bytes(length)).unwrap().fill(&mut out).unwrap();
    out
}

/// The keys of one direction.
pub(super) struct Keys {
    suite: usize,
    secret: Vec<u8>,
    key: LessSafeKey,
    iv: Vec<u8>,
    number: u64,
}

impl Keys {
    fn new(suite: usize, secret: Vec<u8>) -> Keys {
        let (cipher, hash) = algorithms(suite);
        let key = expand(hash, &secret, b"key", cipher.key_len());
        Keys {
            suite,
            key: LessSafeKey::new(UnboundKey::new(cipher, &key).unwrap()),
            iv: expand(hash, &secret, b"iv", aead::NONCE_LEN),
            secret,
            number: 0,
        }
    }

    /// Keys for handshakes (`HANDSHAKE_TRAFFIC_SECRET`) or behind them (`TRAFFIC_SECRET_0`), once they are known.
    pub(super) fn find(suite: usize, secrets: &Secrets, side: &str, label: &str) -> Option<Keys> {
        Some(Keys::new(suite, secrets.get(&format!("{side}_{label}"))?))
    }

    /// Those behind a KeyUpdate.
    pub(super) fn next(&self) -> Keys {
        let (_, hash) = algorithms(self.suite);
        Keys::new(
            self.suite,
            expand(hash, &self.secret, b"traffic upd", self.secret.len()),
        )
    }

    fn nonce(&self) -> Nonce {
        let mut nonce = [0; aead::NONCE_LEN];
        nonce.copy_from_slice(&self.iv);
        for (at, byte) in self.number.to_be_bytes().iter().enumerate() {
            nonce[4 + at] ^= byte;
        }
        Nonce::assume_unique_for_key(nonce)
    }

    /// Type and content of a record.
    pub(super) fn open(&mut self, record: &[u8]) -> Option<(u8, Vec<u8>)> {
        let (header, sealed) = record.split_at(HEADER_BYTES);
        let mut content = sealed.to_vec();
        let length = self
            .key
            .open_in_place(self.nonce(), Aad::from(header), &mut content)
            .ok()?
            .len();
        content.truncate(length);
        self.number += 1;
        while content.last() == Some(&0) {
            content.pop();
        }
        let kind = content.pop()?;
        Some((kind, content))
    }

    /// A record, with zeros behind the type. It may be longer than any that is allowed.
    pub(super) fn seal(&mut self, kind: u8, content: &[u8], zeros: usize) -> Vec<u8> {
        let mut inner = content.to_vec();
        inner.push(kind);
        inner.resize(inner.len() + zeros, 0);
        let length = (inner.len() + aead::MAX_TAG_LEN) as u16;
        let header = [APPLICATION_DATA, 3, 3, (length >> 8) as u8, length as u8];
        let tag = self
            .key
            .seal_in_place_separate_tag(self.nonce(), Aad::from(header), &mut inner)
            .unwrap();
        self.number += 1;
        [&header[..], &inner, tag.as_ref()].concat()
    }
}

/// A record that is not encrypted.
pub(super) fn plain(kind: u8, content: &[u8]) -> Vec<u8> {
    let length = content.len() as u16;
    [&[kind, 3, 3, (length >> 8) as u8, length as u8][..], content].concat()
}
