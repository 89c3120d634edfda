//! The password file named by `auth_file`: lines of `"user" "secret"`.
//!
//! Inside the quotes, `""` stands for one quote. The rest of a line is ignored; `;` starts a comment line. A line of
//! another form, at which PgBouncer would stop, is reported and left out, and the lines after it are still read.

use std::collections::BTreeMap;

use crate::ini::unquote;
use crate::problem::{Place, Problem};
use crate::secret::Secret;

/// The longest user name PgBouncer takes, in bytes.
pub const USER_NAME_BYTES_MAX: usize = 127;

/// The longest secret the wire protocol carries in one PasswordMessage of 64 kB.
pub const SECRET_BYTES_MAX: usize = 65_530;

/// Reads the file's bytes. If a user is named twice, the last secret counts.
pub(crate) fn parse(name: &str, bytes: &[u8]) -> (BTreeMap<String, Secret>, Vec<Problem>) {
    let mut users = BTreeMap::new();
    let mut problems = Vec::new();
    let place = |line: usize| Place {
        file: name.into(),
        line: Some(u32::try_from(line).unwrap_or(u32::MAX)),
        column: None,
    };
    let mut line = 1;
    let mut rest = bytes;
    while !rest.is_empty() {
        let line_end = rest.iter().position(|b| *b == b'\n').unwrap_or(rest.len());
        let body = rest[..line_end].trim_ascii_start();
        let mut used = line_end;
        if !matches!(body.first(), None | Some(b';')) {
            let here = place(line);
            // A quoted text may continue on the next lines, so the entry is read from the whole rest.
            match entry(&rest[line_end - body.len()..]) {
                Ok(entry) => {
                    used = used.max(line_end - body.len() + entry.used);
                    used += rest[used..]
                        .iter()
                        .position(|b| *b == b'\n')
                        .unwrap_or(rest.len() - used);
                    problems.extend(look_alike(&entry.secret, &entry.user, &here));
                    if users.insert(entry.user.clone(), entry.secret).is_some() {
                        problems.push(Problem::warning(
                            &here,
                            format!("user \"{}\" is listed twice; the last secret counts", entry.user),
                        ));
                    }
                }
                Err(message) => problems.push(
                    Problem::warning(&here, format!("line of the auth_file is ignored: {message}"))
                        .hint("a line has the form \"user\" \"password or secret\", both in double quotes"),
                ),
            }
        }
        line += rest[..used].iter().filter(|b| **b == b'\n').count() + 1;
        rest = &rest[(used + 1).min(rest.len())..];
    }
    (users, problems)
}

struct AuthEntry {
    user: String,
    secret: Secret,
    /// The number of bytes read, including the secret's closing quote.
    used: usize,
}

fn entry(bytes: &[u8]) -> Result<AuthEntry, String> {
    let line_end = bytes.iter().position(|b| *b == b'\n').unwrap_or(bytes.len());
    let (user, user_bytes) = quoted(&bytes[..line_end], "the user name")?;
    let after = &bytes[user_bytes..];
    // The search stops at the end of the line. PgBouncer would go on, and take another user's name for the secret.
    let gap = after
        .iter()
        .position(|b| *b == b'"' || *b == b'\n')
        .unwrap_or(after.len());
    let (secret, secret_bytes) = quoted(&after[gap..], "the secret")?;
    if user.len() > USER_NAME_BYTES_MAX {
        return Err(format!("user name is longer than {USER_NAME_BYTES_MAX} bytes"));
    }
    if secret.len() > SECRET_BYTES_MAX {
        return Err(format!("secret is longer than {SECRET_BYTES_MAX} bytes"));
    }
    Ok(AuthEntry {
        user,
        secret: Secret::parse(&secret),
        used: user_bytes + gap + secret_bytes,
    })
}

fn quoted(bytes: &[u8], what: &str) -> Result<(String, usize), String> {
    let body = bytes
        .strip_prefix(b"\"")
        .ok_or_else(|| format!("expected {what} in double quotes"))?;
    let mut end = 0;
    loop {
        end += body[end..]
            .iter()
            .position(|b| *b == b'"')
            .ok_or_else(|| format!("{what} has no closing quote"))?;
        if body.get(end + 1) != Some(&b'"') {
            break;
        }
        end += 2;
    }
    let text = std::str::from_utf8(&body[..=end]).map_err(|_| format!("{what} is not valid UTF-8"))?;
    if text.contains('\0') {
        return Err(format!("{what} contains a null byte"));
    }
    let (text, used) = unquote(text, '"').ok_or_else(|| format!("{what} has no closing quote"))?;
    Ok((text, used + 1))
}

/// A problem if the secret was probably meant to be a stored one, but is not.
fn look_alike(secret: &Secret, user: &str, place: &Place) -> Option<Problem> {
    let Secret::Plain(text) = secret else { return None };
    if text.starts_with("SCRAM-SHA-256$") {
        let message =
            format!("secret of user \"{user}\" is not a valid SCRAM verifier, so the user cannot log in with it");
        Some(Problem::warning(place, message).hint("copy rolpassword from pg_authid whole"))
    } else if text.starts_with("md5") && text.len() == "md5".len() + 32 {
        let message = format!("secret of user \"{user}\" is not a valid MD5 hash, so it is taken as a password");
        Some(Problem::warning(place, message).hint("an MD5 hash is md5 and 32 digits 0-9 a-f"))
    } else if text.contains('\n') {
        let message = format!("secret of user \"{user}\" does not end on its line");
        Some(Problem::warning(place, message).hint("is a closing quote missing?"))
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> (Vec<(String, String)>, Vec<String>) {
        let (users, problems) = parse("u", text.as_bytes());
        let users = users
            .into_iter()
            .map(|(user, secret)| (user, secret.text().to_string()))
            .collect();
        (users, problems.iter().map(Problem::to_string).collect())
    }

    #[test]
    fn lines_hold_user_and_secret_and_the_rest_is_ignored() {
        let (users, problems) = read(
            "; comment\n\n  \"a\" \"1\"\n\"b\"  \"2\" \"more\" ; x\n\"c\"\"d\" \"p\"\"w\"\r\n\"e\" \"\"\n\"f\"\"g\"",
        );
        let want = [("a", "1"), ("b", "2"), ("c\"d", "p\"w"), ("e", "")];
        assert_eq!(users, want.map(|(u, s)| (u.to_string(), s.to_string())));
        assert_eq!(problems.len(), 1, "{problems:?}");
        assert!(problems[0].starts_with("u:7: warning: line of the auth_file is ignored: expected the secret"));
    }

    #[test]
    fn a_bad_line_costs_only_itself() {
        let (users, problems) = read("nope\n\"a\n\"b\" \"2\"\n\"c\"\n\"d\" \"4\"\n# x\n");
        assert_eq!(
            users,
            [("b".to_string(), "2".to_string()), ("d".to_string(), "4".to_string())]
        );
        let lines: Vec<_> = problems
            .iter()
            .map(|p| p.split(':').nth(1).unwrap().to_string())
            .collect();
        assert_eq!(lines, ["1", "2", "4", "6"]);
    }

    #[test]
    fn quoted_text_may_span_lines() {
        let (users, problems) = read("\"a\" \"1\n2\" rest\n\"b\" \"3\"\n\"b\" \"4\"\n");
        assert_eq!(
            users,
            [
                ("a".to_string(), "1\n2".to_string()),
                ("b".to_string(), "4".to_string())
            ]
        );
        assert!(
            problems[0].starts_with("u:1: warning: secret of user \"a\" does not end on"),
            "{problems:?}"
        );
        assert!(
            problems[1].starts_with("u:4: warning: user \"b\" is listed twice"),
            "{problems:?}"
        );
    }

    #[test]
    fn long_secrets_work_up_to_their_limit() {
        let (users, problems) = read(&format!("\"a\" \"{}\"", "x".repeat(SECRET_BYTES_MAX)));
        assert_eq!((users.len(), problems.len()), (1, 0));
        let (users, problems) = read(&format!("\"a\" \"{}\"", "x".repeat(SECRET_BYTES_MAX + 1)));
        assert_eq!((users.len(), problems.len()), (0, 1));
        let (users, _) = read(&format!("\"{}\" \"x\"", "u".repeat(USER_NAME_BYTES_MAX + 1)));
        assert!(users.is_empty());
    }

    #[test]
    fn secrets_that_miss_their_form_are_pointed_out() {
        let (_, problems) = read("\"a\" \"SCRAM-SHA-256$4096:x\"\n\"b\" \"md545F2603610AF569B6155C45067268C6B\"\n");
        assert!(problems[0].contains("not a valid SCRAM verifier, so the user cannot log in with it"));
        assert!(problems[1].contains("not a valid MD5 hash"));
    }

    #[test]
    fn bytes_that_are_no_text_are_refused_by_line() {
        let (users, problems) = parse("u", b"\"a\" \"\xff\"\n\"b\" \"\0\"\n\"c\" \"3\"");
        assert_eq!(users.keys().collect::<Vec<_>>(), ["c"]);
        assert_eq!(problems.len(), 2);
    }
}
