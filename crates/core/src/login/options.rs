//! `options` of a startup packet: command-line options of postgres(1).

use crate::login::rejection::Rejection;

/// Plans that `-f` with this letter forbids.
const PLANS: [(char, &str); 8] = [
    ('s', "enable_seqscan"),
    ('i', "enable_indexscan"),
    ('o', "enable_indexonlyscan"),
    ('b', "enable_bitmapscan"),
    ('t', "enable_tidscan"),
    ('n', "enable_nestloop"),
    ('m', "enable_mergejoin"),
    ('h', "enable_hashjoin"),
];

/// Settings in `options`: `-c name=value`, `-cname=value`, `--name=value`, and the letters that stand for settings that
/// a session may change. A backslash keeps the character behind it.
pub(super) fn options(text: &str) -> Result<Vec<(String, String)>, Rejection> {
    let mut settings = Vec::new();
    let mut words = words(text).into_iter();
    while let Some(word) = words.next() {
        if let Some(assignment) = word.strip_prefix("--").filter(|rest| !rest.is_empty()) {
            settings.push(assigned(assignment)?);
            continue;
        }
        let Some(letters) = word.strip_prefix('-').filter(|rest| !rest.is_empty()) else {
            return Err(unsupported(&word));
        };
        let mut letters = letters.chars();
        while let Some(letter) = letters.next() {
            // The rest of the word, or the next word.
            let mut argument = || match std::mem::replace(&mut letters, "".chars()).as_str() {
                "" => words.next().unwrap_or_default(),
                attached => attached.to_string(),
            };
            match letter {
                'c' | '-' => settings.push(assigned(&argument())?),
                'e' => settings.push(("DateStyle".into(), "euro".into())),
                'f' => settings.push(forbidden(&argument()).ok_or_else(|| unsupported(&word))?),
                'S' => settings.push(("work_mem".into(), argument())),
                _ => return Err(unsupported(&word)),
            }
        }
    }
    Ok(settings)
}

fn words(text: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut word: Option<String> = None;
    let mut characters = text.chars();
    while let Some(c) = characters.next() {
        match c {
            '\\' => word.get_or_insert_default().extend(characters.next()),
            c if c.is_ascii_whitespace() => words.extend(word.take()),
            c => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    words
}

/// The setting of `name=value`.
fn assigned(assignment: &str) -> Result<(String, String), Rejection> {
    match assignment.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.replace('-', "_"), value.to_string())),
        _ => Err(Rejection::bad_parameter(format!(
            "invalid option: expected name=value, got \"{assignment}\""
        ))),
    }
}

/// The setting of `-f` with this argument.
fn forbidden(argument: &str) -> Option<(String, String)> {
    let plan = argument.chars().next()?;
    let (_, name) = PLANS.iter().find(|(letter, _)| *letter == plan)?;
    Some(((*name).into(), "off".into()))
}

fn unsupported(word: &str) -> Rejection {
    // PgBouncer's words.
    let message = "unsupported options startup parameter: only '-c config=val' and '--config=val' are allowed";
    Rejection::bad_parameter(format!("{message}, got \"{word}\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read_as_postgres_reads_them() {
        let read = |text: &str| {
            let pairs = options(text).unwrap();
            pairs.into_iter().map(|(n, v)| format!("{n}={v}")).collect::<Vec<_>>()
        };
        assert_eq!(
            read("-c work_mem=1MB -cjit=off --search-path=a,b"),
            ["work_mem=1MB", "jit=off", "search_path=a,b"]
        );
        assert_eq!(
            read(r"-c search_path=a\ b -c x.y=a\\b"),
            ["search_path=a b", r"x.y=a\b"]
        );
        assert!(read("  ").is_empty());
        assert!(options("-d 5").is_err() && options("-c work_mem").is_err() && options("-c").is_err());
    }

    #[test]
    fn letters_stand_for_settings() {
        for (text, expected) in [
            ("-e", vec![("DateStyle", "euro")]),
            ("-fs -f n", vec![("enable_seqscan", "off"), ("enable_nestloop", "off")]),
            ("-S 3000 -S4000", vec![("work_mem", "3000"), ("work_mem", "4000")]),
            (
                "-efh -c a=b",
                vec![("DateStyle", "euro"), ("enable_hashjoin", "off"), ("a", "b")],
            ),
            ("-ec a=b", vec![("DateStyle", "euro"), ("a", "b")]),
        ] {
            let expected: Vec<_> = expected.into_iter().map(|(n, v)| (n.into(), v.into())).collect();
            assert_eq!(options(text).unwrap(), expected, "{text}");
        }
        for text in ["-f", "-fx", "-W 0", "-", "--", "x", "-p 5432", "-c", "-S -- -"] {
            assert!(options(text).is_err(), "{text}");
        }
    }
}
