use super::*;
use proptest::prelude::*;

fn element(tag: u8, content: &[u8]) -> Vec<u8> {
    let mut bytes = vec![tag, 0x84];
    bytes.extend(u32::try_from(content.len()).unwrap().to_be_bytes());
    bytes.extend(content);
    bytes
}

/// An answer with this content after the message's number.
fn message(operation: &[u8]) -> Vec<u8> {
    element(SEQUENCE, &[&element(INTEGER, &[1]), operation].concat())
}

/// `invalidCredentials`, as OpenLDAP sends it.
const REFUSAL: &[u8] = &[0x30, 12, 0x02, 1, 1, 0x61, 7, 0x0a, 1, 49, 0x04, 0, 0x04, 0];

/// An entry without attributes.
const ENTRY: &[u8] = &[
    0x30, 14, 0x02, 1, 1, 0x64, 9, 0x04, 5, b'c', b'n', b'=', b'a', b'b', 0x30, 0,
];

/// A SearchResultReference with any content: nobody reads it.
fn reference(content: &[u8]) -> Vec<u8> {
    message(&element(0x73, content))
}

/// An answer whose elements are nested so deep.
fn nested(depth: usize) -> Vec<u8> {
    let mut inner = Vec::new();
    for _ in 3..=depth {
        let mut outer = vec![SEQUENCE];
        match u16::try_from(inner.len()).unwrap() {
            short @ 0..0x80 => outer.push(u8::try_from(short).unwrap()),
            long => outer.extend([&[0x82][..], &long.to_be_bytes()].concat()),
        }
        outer.append(&mut inner);
        inner = outer;
    }
    reference(&inner)
}

/// What passes, and the fault.
fn taken(bytes: &[u8]) -> (Vec<u8>, Result<(), AnswerFault>) {
    let mut passed = Vec::new();
    let end = DirectoryAnswers::default().take(bytes, &mut passed);
    (passed, end)
}

fn fault(bytes: &[u8]) -> AnswerFault {
    let (passed, end) = taken(bytes);
    assert!(passed.is_empty());
    end.unwrap_err()
}

#[test]
fn messages_pass_when_they_are_whole() {
    let three = [REFUSAL, ENTRY, REFUSAL].concat();
    assert_eq!(taken(&three), (three.clone(), Ok(())));
    let (mut answers, mut passed) = (DirectoryAnswers::default(), Vec::new());
    for (sent, byte) in three.iter().enumerate() {
        answers.take(&[*byte], &mut passed).unwrap();
        let whole = [0, REFUSAL.len(), three.len() - REFUSAL.len(), three.len()];
        assert!(whole.contains(&passed.len()));
        assert_eq!(answers.is_between_messages(), whole.contains(&(sent + 1)));
    }
    assert_eq!(passed, three);
}

#[test]
fn a_message_has_a_greatest_length() {
    let heads = reference(b"").len();
    let longest = reference(&element(4, &vec![b'x'; MESSAGE_BYTES_MAX - heads - 6]));
    assert_eq!(longest.len(), MESSAGE_BYTES_MAX);
    assert_eq!(taken(&longest), (longest.clone(), Ok(())));
    let longer = reference(&element(4, &vec![b'x'; MESSAGE_BYTES_MAX - heads - 5]));
    assert_eq!(fault(&longer), AnswerFault::TooLong);
    for head in [
        &[0x30, 0x84, 0x7f, 0xff, 0xff, 0xff][..],
        &[0x30, 0x83, 0x01, 0x00, 0x00],
        &[0x30, 0x88, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff],
        &[0x30, 0x88, 0x80, 0, 0, 0, 0, 0, 0, 1],
    ] {
        assert_eq!(fault(head), AnswerFault::TooLong, "before the content, {head:x?}");
    }
    // Padded to eight octets, as OpenLDAP accepts it.
    let padded = [&[0x30, 0x88, 0, 0, 0, 0, 0, 0, 0][..], &REFUSAL[1..]].concat();
    assert_eq!(taken(&padded), (padded.clone(), Ok(())));
}

#[test]
fn a_message_has_a_greatest_depth() {
    let deepest = nested(DEPTH_MAX);
    assert_eq!(taken(&deepest), (deepest.clone(), Ok(())));
    assert_eq!(fault(&nested(DEPTH_MAX + 1)), AnswerFault::TooDeep);
    assert_eq!(fault(&nested(16_000)), AnswerFault::TooDeep);
}

#[test]
fn a_login_has_a_greatest_number_of_messages_and_elements() {
    let many = REFUSAL.repeat(MESSAGES_MAX);
    assert_eq!(taken(&many), (many.clone(), Ok(())));
    let more = REFUSAL.repeat(MESSAGES_MAX + 1);
    assert_eq!(taken(&more), (many, Err(AnswerFault::TooMany)));
    let fine = reference(&[4, 0].repeat(ELEMENTS_MAX - 3));
    assert_eq!(taken(&fine), (fine.clone(), Ok(())));
    let finer = [&fine, REFUSAL].concat();
    assert_eq!(taken(&finer), (fine, Err(AnswerFault::TooFine)));
}

/// Among them is what the reader behind takes for something else: a tag number of several octets, and a length whose
/// upper octets it would lose.
#[test]
fn what_is_not_ldap_does_not_pass() {
    for bytes in [
        &b"HTTP/1.1 400 Bad Request\r\n"[..],
        &[0x30, 0x80, 0x02, 1, 1, 0x61, 0, 0, 0],
        &[0x30, 0x89, 1, 0, 0, 0, 0, 0, 0, 0, 5],
        &[0x30, 0xff],
        &[0x3f, 0x81, 0x01, 0],
        &[0x30, 0],
        &[0x30, 3, 0x02, 1, 1],
        &[0x30, 4, 0x02, 1, 1, 0x61],
        &[0x30, 5, 0x02, 0, 0x61, 1, 4],
        &[0x30, 5, 0x02, 1, 1, 0x61, 1],
        &[0x30, 5, 0x02, 1, 1, 0x04, 0],
        &[0x30, 5, 0x04, 1, 1, 0x61, 0],
        &[0x30, 7, 0x02, 1, 1, 0x61, 2, 0x04, 1, 0],
        &[0x30, 8, 0x02, 1, 1, 0x61, 3, 0x1f, 0x81, 0x01],
        &[0x30, 7, 0x02, 1, 1, 0x61, 2, 0x30, 0x80],
    ] {
        assert_eq!(fault(bytes), AnswerFault::Malformed, "{bytes:x?}");
    }
}

/// Guards against panics of the library behind: it expects each of these parts.
#[test]
fn answers_without_their_parts_do_not_pass() {
    let result = |parts: &[u8]| message(&element(0x65, parts));
    let entry = |parts: &[u8]| message(&element(0x64, parts));
    let with_end = |end: &[u8]| message(&[&REFUSAL[5..], end].concat());
    for bytes in [
        result(b""),
        result(b"\x0a\x01\x00"),
        result(b"\x0a\x01\x00\x04\x00"),
        result(b"\x04\x00\x04\x00\x04\x00"),
        result(b"\x0a\x00\x04\x00\x04\x00"),
        result(b"\x0a\x05\x00\x00\x00\x00\x00\x04\x00\x04\x00"),
        result(b"\x0a\x01\x00\x30\x00\x04\x00"),
        result(b"\x0a\x01\x00\x04\x01\xff\x04\x00"),
        result(b"\x0a\x01\x00\x04\x00\x04\x01\xff"),
        result(b"\x0a\x01\x00\x04\x00\x04\x00\x83\x01x"),
        result(b"\x0a\x01\x00\x04\x00\x04\x00\xa3\x03\x04\x01\xff"),
        result(b"\x0a\x01\x00\x04\x00\x04\x00\x8a\x01\xff"),
        result(b"\x0a\x01\x00\x04\x00\x04\x00\xa7\x00"),
        entry(b""),
        entry(b"\x04\x01a"),
        entry(b"\x30\x00\x30\x00"),
        entry(b"\x04\x01\xff\x30\x00"),
        entry(b"\x04\x01a\x04\x00"),
        entry(b"\x04\x01a\x30\x02\x04\x00"),
        entry(b"\x04\x01a\x30\x04\x30\x02\x04\x00"),
        entry(b"\x04\x01a\x30\x08\x30\x06\x04\x00\x31\x02\x30\x00"),
        message(&element(0x45, b"")),
        message(&element(0x77, b"")),
        with_end(b"\x04\x00"),
        with_end(b"\xa0\x00\xa0\x00"),
        with_end(b"\xa0\x02\x04\x00"),
        with_end(b"\xa0\x02\x30\x00"),
        with_end(b"\xa0\x06\x30\x04\x04\x00\x01\x00"),
        with_end(b"\xa0\x06\x30\x04\x04\x00\x30\x00"),
    ] {
        assert_eq!(fault(&bytes), AnswerFault::Malformed, "{bytes:x?}");
    }
}

#[test]
fn all_parts_that_an_answer_may_have_pass() {
    for bytes in [
        message(&element(
            0x65,
            b"\x0a\x01\x0a\x04\x01a\x04\x01b\xa3\x03\x04\x01u\x87\x01\xff\x8a\x01n\x8b\x01\xff\x85\x00",
        )),
        message(&element(
            0x64,
            b"\x04\x01a\x30\x0b\x30\x09\x04\x02cn\x31\x03\x04\x01\xff",
        )),
        message(&[&REFUSAL[5..], b"\xa0\x0a\x30\x08\x04\x01o\x01\x01\x00\x04\x00"].concat()),
        message(&[&REFUSAL[5..], b"\xa0\x05\x30\x03\x04\x01o"].concat()),
        message(&[&REFUSAL[5..], b"\x8a\x01n"].concat()),
        message(&element(0x79, b"")),
    ] {
        assert_eq!(taken(&bytes), (bytes.clone(), Ok(())), "{bytes:x?}");
    }
}

#[test]
fn nothing_passes_after_a_fault() {
    let (mut answers, mut passed) = (DirectoryAnswers::default(), Vec::new());
    assert!(answers.take(b"x", &mut passed).is_err());
    assert_eq!(answers.take(REFUSAL, &mut passed), Err(AnswerFault::Malformed));
    assert!(passed.is_empty());
}

/// Bytes that are often messages, or nearly.
fn stream() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        4 => Just(REFUSAL.to_vec()),
        2 => (0..40usize).prop_map(nested),
        2 => prop::collection::vec(any::<u8>(), 0..40).prop_map(|content| message(&element(0x64, &content))),
        1 => prop::collection::vec(any::<u8>(), 0..40),
        1 => Just(reference(&element(4, &[0; 50_000]))),
    ];
    (
        prop::collection::vec(piece, 0..40),
        any::<prop::sample::Index>(),
        any::<u8>(),
        any::<bool>(),
    )
        .prop_map(|(pieces, at, byte, changes)| {
            let mut bytes = pieces.concat();
            if changes && !bytes.is_empty() {
                let at = at.index(bytes.len());
                bytes[at] = byte;
            }
            bytes
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    /// However the bytes arrive, the same messages pass: a prefix of what was sent, of whole messages within the limits.
    #[test]
    fn any_bytes_in_any_pieces(bytes in stream(), piece in 1..70_000usize) {
        let (all, end) = taken(&bytes);
        let (mut answers, mut passed, mut last) = (DirectoryAnswers::default(), Vec::new(), Ok(()));
        for part in bytes.chunks(piece) {
            last = answers.take(part, &mut passed);
            prop_assert!(answers.held.len() <= MESSAGE_BYTES_MAX);
            if last.is_err() {
                break;
            }
        }
        prop_assert_eq!((&passed, last), (&all, end));
        prop_assert!(bytes.starts_with(&passed) && passed.len() <= MESSAGES_MAX * MESSAGE_BYTES_MAX);
        prop_assert_eq!(taken(&passed), (passed.clone(), Ok(())));
    }
}
