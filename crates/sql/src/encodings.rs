//! Encodings of databases and of clients: whether PostgreSQL converts text between the two, and whether that can fail.
//!
//! PostgreSQL keeps text in the encoding of the database, `server_encoding`. It converts what it reads and sends from
//! and to the session's `client_encoding`. A character that the other encoding lacks is an error (22P05).

/// No encoding at all: bytes above 127 mean nothing, and PostgreSQL does not convert them.
const NONE: &str = "SQLASCII";

const UTF8: &str = "UTF8";

/// Encodings in which each byte is a character of Unicode (tests/e2e/test_attack_encodings.py asks PostgreSQL). The
/// other single-byte encodings have unassigned bytes.
const WHOLE_IN_UNICODE: [&str; 14] = [
    "LATIN1", "LATIN2", "LATIN4", "LATIN5", "LATIN6", "LATIN7", "LATIN8", "LATIN9", "LATIN10", "ISO88595", "KOI8R",
    "KOI8U", "WIN866", "WIN1256",
];

/// The beginnings of the names of single-byte encodings: any byte is valid.
const SINGLE_BYTE: [&str; 5] = ["LATIN", "ISO8859", "KOI8", "WIN", "SQLASCII"];

/// The name in capitals, without punctuation, as PostgreSQL compares such names.
fn plain(name: &str) -> String {
    let letters = name.chars().filter(char::is_ascii_alphanumeric);
    letters.map(|c| c.to_ascii_uppercase()).collect()
}

/// Whether the bytes above 127 that a session with this `client_encoding` reads and gets may be others than those that
/// the database keeps, or invalid there.
pub fn is_converted(database: &str, client: &str) -> bool {
    database != client && plain(client) != NONE && plain(database) != plain(client)
}

/// Whether PostgreSQL may be unable to send text of the database to a session with this `client_encoding`.
pub fn may_lack_characters(database: &str, client: &str) -> bool {
    if !is_converted(database, client) {
        return false;
    }
    let (database, client) = (plain(database), plain(client));
    let is_whole = client == UTF8 && WHOLE_IN_UNICODE.contains(&&*database);
    // Text of SQL_ASCII is not converted, but it must be valid in the client's encoding.
    let is_valid = database == NONE && SINGLE_BYTE.iter().any(|name| client.starts_with(name));
    !is_whole && !is_valid
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_not_converted_to_its_own_encoding_or_to_none() {
        for (database, client) in [
            ("UTF8", "UTF8"),
            ("UTF8", "utf-8"),
            ("LATIN1", "SQL_ASCII"),
            ("SQL_ASCII", "sql_ascii"),
        ] {
            assert!(!is_converted(database, client), "{database} {client}");
            assert!(!may_lack_characters(database, client), "{database} {client}");
        }
        for (database, client) in [("UTF8", "LATIN1"), ("LATIN1", "UTF8"), ("SQL_ASCII", "UTF8")] {
            assert!(is_converted(database, client), "{database} {client}");
        }
    }

    #[test]
    fn only_conversions_that_cannot_fail_are_known_to_be_whole() {
        for (database, client) in [("LATIN1", "UTF8"), ("ISO_8859_5", "UTF8"), ("SQL_ASCII", "WIN1252")] {
            assert!(!may_lack_characters(database, client), "{database} {client}");
        }
        for (database, client) in [
            ("UTF8", "LATIN1"),
            ("UTF8", "GB18030"),
            ("WIN1252", "UTF8"),
            ("EUC_JP", "UTF8"),
            ("SQL_ASCII", "UTF8"),
            ("LATIN1", "LATIN2"),
        ] {
            assert!(may_lack_characters(database, client), "{database} {client}");
        }
    }
}
