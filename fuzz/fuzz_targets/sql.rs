//! Guards against text that makes the lexer panic, against white space, semicolons and comments around a text that
//! change its classification (a COMMIT must not hide behind a comment), and against effects of a statement that are
//! overlooked because of the text around it.
#![no_main]

use pgweir_sql::statement::STATEMENT_BYTES_MAX;
use pgweir_sql::{Effects, Statement, classify, effects, hidden_settings, setting_parameters};

/// What may follow any statement without changing it.
const FOLLOWERS: [&[u8]; 8] = [
    b" ",
    b"\n",
    b";",
    b" ; ;",
    b"-- x",
    b"\n-- ;x\n",
    b"/* ; */",
    b"/* /* */ \" */;",
];

/// What may precede any statement without changing it. It hides the text from a look at its first letter.
const LEADERS: [&[u8]; 3] = [b" ", b"-- begin\n", b"/* commit; */"];

libfuzzer_sys::fuzz_target!(|text: &[u8]| {
    check_effects(text);
    let verdict = classify(text);
    if text.len() > STATEMENT_BYTES_MAX {
        assert!(matches!(
            verdict,
            Statement::Other | Statement::Prepare(_) | Statement::Execute(_)
        ));
        return;
    }
    if let Some(name) = name(&verdict) {
        assert!(!name.is_empty() && name.len() <= 63);
    }
    // A text that ends within a comment or a quoted name swallows the following text. That must not turn the following
    // text into a statement, and a statement must not end within anything.
    for follower in FOLLOWERS {
        let longer = [text, b"\n", follower].concat();
        if longer.len() <= STATEMENT_BYTES_MAX && verdict != Statement::Other {
            assert_eq!(
                classify(&longer),
                verdict,
                "followed by {:?}",
                follower.escape_ascii().to_string()
            );
        }
    }
    for leader in LEADERS {
        let longer = [leader, text].concat();
        if longer.len() <= STATEMENT_BYTES_MAX {
            assert_eq!(
                classify(&longer),
                verdict,
                "after {:?}",
                leader.escape_ascii().to_string()
            );
        }
    }
    // Key words may be in upper or lower case.
    if name(&verdict).is_none() && !is_setting(&verdict) {
        let upper = classify(&text.to_ascii_uppercase());
        assert!(upper == verdict || verdict == Statement::Other, "{upper:?}");
    }
    // With a second statement the text is no single statement.
    let two = [text, b"\n;select 1"].concat();
    if two.len() <= STATEMENT_BYTES_MAX {
        assert_eq!(classify(&two), Statement::Other);
    }
});

/// A name that is not a setting's: one identifier.
fn name(verdict: &Statement) -> Option<&[u8]> {
    use Statement::{Deallocate, Execute, Listen, Prepare, Release, RollbackTo, Savepoint, Unlisten};
    match verdict {
        Deallocate(name) | Prepare(name) | Execute(name) | Listen(name) | Unlisten(name) | Savepoint(name)
        | Release(name) | RollbackTo(name) => Some(name),
        _ => None,
    }
}

fn is_setting(verdict: &Statement) -> bool {
    matches!(
        verdict,
        Statement::Set(_) | Statement::SetLocal(_) | Statement::Reset(_)
    )
}

fn check_effects(text: &[u8]) {
    let alone = effects(text);
    setting_parameters(text);
    if hidden_settings(text).iter().any(|name| name.contains('.')) {
        assert!(!text.is_empty());
    }
    // Both an arbitrary text and a statement before it keep their effects.
    let behind = [b"set a.b = 1; ", text].concat();
    let together = effects(&behind);
    assert!(
        together.contains(alone | Effects::SETTINGS),
        "{alone:?} behind a SET: {together:?}"
    );
    assert!(hidden_settings(&behind).iter().any(|name| **name == *"a.b"));
    // It has only the effects of its classification.
    match classify(text) {
        Statement::Set(_) | Statement::Reset(_) | Statement::ResetAll | Statement::DiscardAll => {
            assert!(alone.contains(Effects::SETTINGS));
        }
        Statement::Prepare(_) | Statement::Execute(_) | Statement::Deallocate(_) | Statement::DeallocateAll => {
            assert!(alone.contains(Effects::PREPARE));
        }
        Statement::Listen(_) | Statement::Unlisten(_) | Statement::UnlistenAll => {
            assert!(alone.contains(Effects::LISTEN));
        }
        _ => {}
    }
}
