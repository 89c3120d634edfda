//! Guards against bytes of the network that make a reader of messages panic: wrong lengths, strings without their zero,
//! counts beyond the body. Whatever a view accepts must be the same after writing and reading it again, and a prefix of
//! a body must never be read as more than it contains.
#![no_main]

use pgweir_wire::frontend::{BindNames, Named, Parse, Target};
use pgweir_wire::write::ErrorText;
use pgweir_wire::{
    BackendTag, CancelKey, ErrorFields, FrontendTag, HEADER_BYTES, Header, Reader, TransactionStatus, Writer, backend,
    header::MESSAGE_BYTES_MAX,
};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    stream(bytes);
    body(bytes);
    reader(bytes);
    texts(bytes);
});

/// A stream of messages, as a peer sends it.
fn stream(bytes: &[u8]) {
    let mut rest = bytes;
    while let Ok(Some(header)) = Header::read(rest) {
        let total = header.message_bytes as usize;
        assert!(total >= HEADER_BYTES && total <= MESSAGE_BYTES_MAX as usize + 1);
        assert_eq!(header.body_bytes() as usize, total - HEADER_BYTES);
        if let Some(tag) = FrontendTag::from_byte(header.tag) {
            assert_eq!(tag as u8, header.tag);
        }
        if let Some(tag) = BackendTag::from_byte(header.tag) {
            assert_eq!(tag as u8, header.tag);
        }
        let whole = rest.len() >= total;
        body(&rest[HEADER_BYTES..rest.len().min(total)]);
        if !whole {
            return;
        }
        let mut again = Vec::new();
        Writer::new(&mut again).message(header.tag, |b| b.extend_from_slice(&rest[HEADER_BYTES..total]));
        assert_eq!(again, rest[..total], "a message is written as it was read");
        rest = &rest[total..];
    }
}

/// One message: its tag, and the body that `write` makes.
fn written(write: impl FnOnce(&mut Writer<'_>)) -> (u8, Vec<u8>) {
    let mut message = Vec::new();
    write(&mut Writer::new(&mut message));
    let header = Header::read(&message).expect("a sound header").expect("a whole header");
    assert_eq!(header.message_bytes as usize, message.len());
    (header.tag, message.split_off(HEADER_BYTES))
}

/// Every view of the same body.
fn body(body: &[u8]) {
    if let Ok(parse) = Parse::read(body) {
        let (tag, again) = written(|w| w.parse(parse.name, parse.query, parse.types));
        assert_eq!((tag, &*again), (b'P', body));
    }
    if let Ok(names) = BindNames::read(body) {
        assert!(names.wire_bytes() <= body.len());
        assert_eq!(&body[..names.portal.len()], names.portal);
        assert_eq!(body[names.wire_bytes() - 1], 0);
    }
    if let Ok(named) = Named::read(body) {
        let what = if named.target == Target::Statement { b'S' } else { b'P' };
        assert_eq!(written(|w| w.describe(what, named.name)), (b'D', body.to_vec()));
        assert_eq!(written(|w| w.close(what, named.name)), (b'C', body.to_vec()));
    }
    if let Ok(row) = backend::data_row(body) {
        // Any negative length is NULL; the writer writes PostgreSQL's.
        let (_, again) = written(|w| w.data_row(row.len(), row.iter().copied()));
        assert_eq!(backend::data_row(&again), Ok(row));
        assert_eq!(again.len(), body.len());
    }
    if let Ok((name, value)) = backend::parameter_status(body) {
        assert_eq!(written(|w| w.parameter_status(name, value)), (b'S', body.to_vec()));
    }
    if let Ok(tag) = backend::command_tag(body) {
        assert_eq!(tag.len() + 1, body.len());
    }
    if let Some(status) = TransactionStatus::read(body) {
        assert_eq!(written(|w| w.ready_for_query(status)), (b'Z', body.to_vec()));
    }
    if let Ok(key) = CancelKey::read(body) {
        assert_eq!(
            written(|w| w.backend_key_data(key.process_id, &key.secret)),
            (b'K', body.to_vec())
        );
    }
    let prefix = ErrorFields::read_prefix(body);
    if let Ok(whole) = ErrorFields::read(body) {
        assert_eq!(whole, prefix, "a whole body is its own longest prefix");
    }
    for field in [prefix.severity, prefix.sqlstate, prefix.message] {
        assert!(field.len() < body.len().max(1) && !field.contains(&0));
    }
}

/// A reader, driven by the bytes that it reads.
fn reader(bytes: &[u8]) {
    let mut reader = Reader::new(bytes);
    loop {
        let before = reader.rest().len();
        let Ok(step) = reader.u8() else { break };
        let read = match step % 6 {
            0 => reader.i16().is_ok(),
            1 => reader.i32().is_ok(),
            2 => reader.u32().is_ok(),
            3 => reader.cstr().is_ok_and(|text| !text.contains(&0)),
            4 => {
                let count = usize::from(step);
                reader.bytes(count).is_ok_and(|got| got.len() == count)
            }
            _ => reader.bytes(usize::MAX).is_ok(),
        };
        assert!(reader.rest().len() < before);
        if !read {
            break;
        }
    }
    assert_eq!(reader.end().is_ok(), reader.rest().is_empty());
}

/// The writer's messages are valid whatever text they contain: a zero byte ends a string, and nothing after it gets
/// into the message.
fn texts(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let error = ErrorText {
        severity: "ERROR",
        sqlstate: "58000",
        message: &text,
        detail: &text,
        hint: "",
    };
    let (_, body) = written(|w| w.error(&error));
    let fields = ErrorFields::read(&body).expect("our own error");
    assert_eq!((fields.severity, fields.sqlstate), (&b"ERROR"[..], &b"58000"[..]));
    let message = text.as_bytes().split(|b| *b == 0).next().unwrap_or_default();
    assert_eq!(fields.message, message);
    let (_, body) = written(|w| w.query(bytes));
    assert_eq!(body.iter().position(|b| *b == 0), Some(body.len() - 1));
}
