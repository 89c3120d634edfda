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
                'd' => settings.extend(debugging(&argument())),
                'f' => settings.push(forbidden(&argument()).ok_or_else(|| unsupported(&word))?),
                'S' => settings.push(("work_mem".into(), argument())),
                't' => settings.push(timed(&argument()).ok_or_else(|| unsupported(&word))?),
                'W' => settings.push(("post_auth_delay".into(), argument())),
                // Letters for a postgres that is started by hand: a session takes them, and does nothing.
                'C' | 'D' | 'r' | 'v' => drop(argument()),
                'b' | 'E' | 'j' | 'n' | 'T' => {}
                _ => settings.push(switched(letter).ok_or_else(|| unsupported(&word))?),
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
        _ => Err(unsupported(assignment)),
    }
}

/// The setting of `-f` with this argument.
fn forbidden(argument: &str) -> Option<(String, String)> {
    let plan = argument.chars().next()?;
    let (_, name) = PLANS.iter().find(|(letter, _)| *letter == plan)?;
    Some(((*name).into(), "off".into()))
}

/// The setting of a letter without an argument.
fn switched(letter: char) -> Option<(String, String)> {
    let (name, value) = match letter {
        'e' => ("DateStyle", "euro"),
        'O' => ("allow_system_table_mods", "true"),
        'P' => ("ignore_system_indexes", "true"),
        's' => ("log_statement_stats", "true"),
        _ => return None,
    };
    Some((name.into(), value.into()))
}

/// The setting of `-t` with this argument.
fn timed(argument: &str) -> Option<(String, String)> {
    let name = match argument.as_bytes() {
        [b'p', b'a', ..] => "log_parser_stats",
        [b'p', b'l', ..] => "log_planner_stats",
        [b'e', ..] => "log_executor_stats",
        _ => return None,
    };
    Some((name.into(), "true".into()))
}

/// The settings of `-d` with this argument: a level, of which PostgreSQL reads the digits at the beginning.
fn debugging(argument: &str) -> Vec<(String, String)> {
    let text = argument.trim_start();
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let level: u32 = text[..digits].parse().unwrap_or(0);
    let messages = if level == 0 {
        "notice".to_string()
    } else {
        format!("debug{level}")
    };
    let logged = [
        (2, "log_statement", "all"),
        (3, "debug_print_parse", "true"),
        (4, "debug_print_plan", "true"),
        (5, "debug_print_rewritten", "true"),
    ];
    let logged = logged.into_iter().filter(|(from, ..)| level >= *from);
    let logged = logged.map(|(_, name, value)| (name.into(), value.into()));
    std::iter::once(("log_min_messages".into(), messages))
        .chain(logged)
        .collect()
}

fn unsupported(word: &str) -> Rejection {
    // PgBouncer's words.
    let message = "unsupported options startup parameter: only '-c config=val' and '--config=val' are allowed";
    Rejection::bad_options(format!("{message}, got \"{word}\""))
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
        assert!(options("-c work_mem").is_err() && options("-c").is_err());
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
            ("-d0", vec![("log_min_messages", "notice")]),
            ("-d 2", vec![("log_min_messages", "debug2"), ("log_statement", "all")]),
            (
                "-tpa -t plan -te -sPO",
                vec![
                    ("log_parser_stats", "true"),
                    ("log_planner_stats", "true"),
                    ("log_executor_stats", "true"),
                    ("log_statement_stats", "true"),
                    ("ignore_system_indexes", "true"),
                    ("allow_system_table_mods", "true"),
                ],
            ),
            ("-W 0 -jv 3.0 -r x -D y", vec![("post_auth_delay", "0")]),
        ] {
            let expected: Vec<_> = expected.into_iter().map(|(n, v)| (n.into(), v.into())).collect();
            assert_eq!(options(text).unwrap(), expected, "{text}");
        }
        for text in ["-f", "-fx", "-tx", "-B 1", "-", "--", "x", "-p 5432", "-c", "-S -- -"] {
            assert!(options(text).is_err(), "{text}");
        }
    }
}
