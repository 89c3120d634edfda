//! Messages that are not compared byte by byte.

use pgweir_wire::ErrorFields;

/// CommandComplete of a DEALLOCATE.
pub(super) const DEALLOCATED: [u8; 16] = *b"C\0\0\0\x0fDEALLOCATE\0";

/// Rows of one boolean.
pub(super) const ROW_TRUE: &[u8] = b"D\0\0\0\x0b\0\x01\0\0\0\x01t";
pub(super) const ROW_FALSE: &[u8] = b"D\0\0\0\x0b\0\x01\0\0\0\x01f";

/// pg_cancel_backend() or pg_terminate_backend() of a process that does not exist.
pub(super) fn is_no_process_warning(message: &[u8]) -> bool {
    let text = b"is not a PostgreSQL backend process";
    message.first() == Some(&b'N') && message.windows(text.len()).any(|w| w == text)
}

/// PostgreSQL 18's error for the command after a Query in the midst of an extended segment.
pub(super) fn is_out_of_step(message: &[u8]) -> bool {
    let text = b"StartTransactionCommand: unexpected state STARTED";
    message.first() == Some(&b'E') && message.windows(text.len()).any(|w| w == text)
}

/// Errors 08P01 of Bind contain the statement's name on the server: the one exception from equal bytes.
pub(super) fn is_same_but_for_a_name(expected: &[u8], message: &[u8]) -> bool {
    let text = |m: &[u8]| {
        let text = String::from_utf8_lossy(m.get(5..)?).into_owned();
        let parts: Vec<String> = text.split('"').map(str::to_string).collect();
        (text.contains("C08P01") && parts.len() == 3).then_some(parts)
    };
    match (text(expected), text(message)) {
        (Some(a), Some(b)) => a[0] == b[0] && a[2] == b[2],
        _ => false,
    }
}

/// docs/differences.md: a Bind with too many or too few values, of a statement whose rows have changed.
pub(super) fn is_bind_of_changed_rows(expected: &[u8], message: &[u8]) -> bool {
    let fields = |m: &[u8]| Some(ErrorFields::read(m.get(5..)?).ok()?.sqlstate.to_vec());
    let text = b"bind message supplies";
    fields(expected).as_deref() == Some(b"08P01")
        && expected.windows(text.len()).any(|w| w == text)
        && fields(message).as_deref() == Some(b"0A000")
}

/// In a failed transaction an internal Parse fails where the client's message would have failed with another error. To
/// the client both mean that the transaction is aborted.
pub(super) fn is_failed_transaction_error(message: &[u8]) -> bool {
    message.first() == Some(&b'E') && ErrorFields::read(&message[5..]).is_ok_and(|f| f.sqlstate == b"25P02")
}

/// In a failed transaction nothing can be prepared again (docs/differences.md).
pub(super) fn is_missing_statement_error(message: &[u8]) -> bool {
    message.first() == Some(&b'E') && ErrorFields::read(&message[5..]).is_ok_and(|f| f.sqlstate == b"26000")
}

/// The client's unnamed statement is not on this server, and nobody knows how it was read.
pub(super) fn is_missing_unnamed_error(message: &[u8]) -> bool {
    let text = b"unnamed prepared statement does not exist";
    is_missing_statement_error(message) && ErrorFields::read(&message[5..]).is_ok_and(|f| f.message == text)
}

pub(super) fn is_taken_name_error(message: &[u8]) -> bool {
    message.first() == Some(&b'E') && ErrorFields::read(&message[5..]).is_ok_and(|f| f.sqlstate == b"42P05")
}

/// The pooler's hint if several statements would end a failed transaction and then call currval().
pub(super) const HINT_TO_END: &[u8] = b"End the transaction by a Query of its own.";

/// A name under the prefix of PL/pgSQL that clients set.
pub(super) const RESERVED_NAME: &str = "plpgsql.no_such";

/// The error for a name under a prefix that a library has reserved.
pub(super) fn is_reserved_name_error(message: &[u8]) -> bool {
    message.first() == Some(&b'E') && ErrorFields::read(&message[5..]).is_ok_and(|f| f.sqlstate == b"42602")
}

/// currval() where nothing was drawn.
pub(super) fn is_not_drawn_error(message: &[u8]) -> bool {
    message.first() == Some(&b'E') && ErrorFields::read(&message[5..]).is_ok_and(|f| f.sqlstate == b"55000")
}

/// A library that was loaded has removed a setting.
pub(super) fn is_removal(message: &[u8]) -> bool {
    message.first() == Some(&b'N') && ErrorFields::read(&message[5..]).is_ok_and(|f| f.sqlstate == b"42602")
}

pub(super) fn is_missing_portal_error(message: &[u8]) -> bool {
    message.first() == Some(&b'E') && ErrorFields::read(&message[5..]).is_ok_and(|f| f.sqlstate == b"34000")
}

/// "SET LOCAL can only be used in transaction blocks".
pub(super) fn is_no_block_warning(message: &[u8]) -> bool {
    message.first() == Some(&b'N') && ErrorFields::read(&message[5..]).is_ok_and(|f| f.sqlstate == b"25P01")
}

/// Equal except for the process id, which is a server's.
pub(super) fn is_same_notification(expected: &[u8], message: &[u8]) -> bool {
    let content = |m: &[u8]| (m.first() == Some(&b'A')).then(|| m[9..].to_vec());
    content(expected).is_some_and(|e| content(message) == Some(e))
}

/// Whether this is the command tag of a statement that may have ended a transaction block.
pub(super) fn ends_block(message: &[u8]) -> bool {
    [&b"COMMIT"[..], b"ROLLBACK"]
        .iter()
        .any(|tag| message.first() == Some(&b'C') && message[5..].starts_with(tag))
}

pub(super) fn is_missing_table_error(message: &[u8]) -> bool {
    message.first() == Some(&b'E') && ErrorFields::read(&message[5..]).is_ok_and(|f| f.sqlstate == b"42P01")
}

pub(super) fn is_cancel_error(message: &[u8]) -> bool {
    message.first() == Some(&b'E') && ErrorFields::read(&message[5..]).is_ok_and(|f| f.sqlstate == b"57014")
}

/// Whether the pooler has sent this error: the pooler's DETAIL shows it.
pub(super) fn is_of_the_pooler(message: &[u8]) -> bool {
    const DETAIL: &[u8] = b"Dit was waiting for a server";
    message.windows(DETAIL.len()).any(|w| w == DETAIL)
}
