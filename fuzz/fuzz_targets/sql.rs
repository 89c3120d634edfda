//! Guards against text that brings down the lexer, and against white space, semicolons and comments at the end of a
//! text, or in front of it, that change what it is taken for: a COMMIT must not hide behind a comment.
#![no_main]

use pgweir_sql::statement::STATEMENT_BYTES_MAX;
use pgweir_sql::{Statement, classify};

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

/// What may precede any statement; it moves the text out of sight of the look at the first letter.
const LEADERS: [&[u8]; 3] = [b" ", b"-- begin\n", b"/* commit; */"];

libfuzzer_sys::fuzz_target!(|text: &[u8]| {
    let verdict = classify(text);
    if text.len() > STATEMENT_BYTES_MAX {
        assert_eq!(verdict, Statement::Other);
        return;
    }
    if let Statement::Deallocate(name) = &verdict {
        assert!(!name.is_empty() && name.len() <= 63);
    }
    // Text that ends within a comment or a quoted name swallows what follows: that must not make it a statement of ours,
    // and where it was one, it must not be within anything.
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
    // Key words know no case.
    if !matches!(verdict, Statement::Deallocate(_)) {
        assert_eq!(classify(&text.to_ascii_uppercase()), verdict);
    }
    // A second statement makes it nobody's.
    let two = [text, b"\n;select 1"].concat();
    if two.len() <= STATEMENT_BYTES_MAX {
        assert_eq!(classify(&two), Statement::Other);
    }
});
