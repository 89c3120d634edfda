//! The part of two servers' answers that must be equal.

use super::words::{Words, put_quoted};

/// A server's lines without what differs between servers and runs. Errors and notices keep only severity, SQLSTATE and
/// message. Process ids, secrets, table OIDs and version numbers are removed. Adjacent ParameterStatus lines are
/// sorted, because PostgreSQL promises no order among them.
pub fn normal_lines(lines: impl IntoIterator<Item = String>) -> Vec<String> {
    let mut normal: Vec<String> = lines.into_iter().map(|line| normal_line(&line)).collect();
    for run in normal.chunk_by_mut(|a, b| a.starts_with(STATUS) && b.starts_with(STATUS)) {
        run.sort();
    }
    normal
}

const STATUS: &str = "ParameterStatus ";

fn normal_line(line: &str) -> String {
    let (name, rest) = line.split_once(' ').unwrap_or((line, ""));
    match name {
        "ErrorResponse" | "NoticeResponse" => {
            let mut normal = String::from(name);
            let Ok(mut words) = Words::new(rest) else {
                return line.into();
            };
            while let (Ok(letter), Ok(text)) = (words.word(), words.quoted()) {
                if ["V", "C", "M"].contains(&letter.as_str()) {
                    normal.push(' ');
                    normal.push_str(&letter);
                    put_quoted(&mut normal, &text);
                }
            }
            normal
        }
        "BackendKeyData" => name.into(),
        "NotificationResponse" => match rest.split_once(' ') {
            Some((_process_id, rest)) => format!("{name} {rest}"),
            None => line.into(),
        },
        "ParameterStatus" if rest.starts_with("\"server_version\"") => "ParameterStatus \"server_version\"".into(),
        "RowDescription" => {
            let words: Vec<&str> = line.split(' ').collect();
            let mut normal: Vec<&str> = Vec::new();
            for (index, word) in words.iter().enumerate() {
                let is_table_oid = index > 0 && words[index - 1] == "table";
                normal.push(if is_table_oid && *word != "0" { "*" } else { word });
            }
            normal.join(" ")
        }
        _ => line.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_differ_is_gone_and_the_rest_stays() {
        let lines = [
            r#"ErrorResponse S "ERROR" V "ERROR" C "22012" M "division \" by zero" F "int.c" L "1""#,
            r#"NoticeResponse S "N" V "NOTICE" C "00000" M "x""#,
            r#"ParameterStatus "b" "1""#,
            r#"ParameterStatus "a" "1""#,
            r#"RowDescription "k" table 4711 1 type 23 4 -1 format 0"#,
            r#"BackendKeyData 7 "\x00""#,
            r#"DataRow "x""#,
        ];
        assert_eq!(
            normal_lines(lines.map(String::from)),
            [
                r#"ErrorResponse V "ERROR" C "22012" M "division \" by zero""#,
                r#"NoticeResponse V "NOTICE" C "00000" M "x""#,
                r#"ParameterStatus "a" "1""#,
                r#"ParameterStatus "b" "1""#,
                r#"RowDescription "k" table * 1 type 23 4 -1 format 0"#,
                "BackendKeyData",
                r#"DataRow "x""#,
            ]
        );
    }
}
