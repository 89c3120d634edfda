//! Guards against answers of a directory that pass although they are no whole messages within the limits, and against
//! bytes that make their reader panic. The first byte chooses the pieces in which the others arrive.
#![no_main]

use pgweir_auth::DirectoryAnswers;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Some((piece, bytes)) = bytes.split_first() else {
        return;
    };
    let (all, end) = taken(bytes, bytes.len().max(1));
    assert_eq!(
        taken(bytes, 1 + usize::from(*piece)),
        (all.clone(), end),
        "however they arrive"
    );
    assert!(bytes.starts_with(&all));
    assert_eq!(taken(&all, 1), (all, true), "what has passed is sound");
});

/// What passes of these bytes, and whether all of them were sound.
fn taken(bytes: &[u8], piece: usize) -> (Vec<u8>, bool) {
    let (mut answers, mut passed) = (DirectoryAnswers::default(), Vec::new());
    let is_sound = bytes.chunks(piece).all(|part| answers.take(part, &mut passed).is_ok());
    assert!(!is_sound || passed.len() <= bytes.len());
    assert!(!is_sound || answers.is_between_messages() == (passed.len() == bytes.len()));
    (passed, is_sound)
}
