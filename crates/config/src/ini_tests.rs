use std::io;

use super::*;

fn read_text(text: &str) -> Ini {
    let text = text.to_string();
    read("a.ini", &move |_: &str| Ok(text.clone().into_bytes()))
}

fn pairs(ini: &Ini) -> Vec<(&str, &str, &str)> {
    ini.entries.iter().map(|e| (&*e.section, &*e.name, &*e.value)).collect()
}

fn only_problem(text: &str) -> String {
    let ini = read_text(text);
    assert_eq!(ini.problems.len(), 1, "{:?}", ini.problems);
    ini.problems[0].to_string()
}

#[test]
fn comments_start_only_where_a_line_starts() {
    let ini = read_text("; a\n# b\n   ; c\n[s]\n\t# d\nx = 1 ; not # a comment\ny = #z\n");
    assert_eq!(pairs(&ini), [("s", "x", "1 ; not # a comment"), ("s", "y", "#z")]);
    assert!(ini.problems.is_empty());
}

#[test]
fn blanks_may_stand_nearly_anywhere() {
    let ini = read_text("\n  [s]\n   x\t=\t 1 2  \r\ny=\n z =   \n[t]w=3");
    assert_eq!(
        pairs(&ini),
        [("s", "x", "1 2"), ("s", "y", ""), ("s", "z", ""), ("t", "w", "3")]
    );
    assert_eq!(ini.entries[0].value_column, 9);
}

#[test]
fn names_may_be_quoted() {
    let ini = read_text("[d]\n\"x \"\"y\"\"\" = 1\n\"\u{e9}=\" = 2\n*=3\na.b-c_1 = 4");
    assert_eq!(
        pairs(&ini),
        [
            ("d", "x \"y\"", "1"),
            ("d", "\u{e9}=", "2"),
            ("d", "*", "3"),
            ("d", "a.b-c_1", "4")
        ]
    );
    assert!(only_problem("[d]\n\"x = 1").contains("a.ini:2:1: error: syntax error: quoted name does not end"));
    assert!(only_problem("[d]\n\u{e9} = 1").contains("need double quotes"));
}

#[test]
fn every_bad_line_is_reported_and_the_rest_is_read() {
    let ini = read_text("x=1\n[s\n[s]\nnope\n= 3\ny = 2\n%exclude z\n%include\n// c\n");
    assert_eq!(pairs(&ini), [("s", "y", "2")]);
    let lines: Vec<_> = ini.problems.iter().map(|p| p.place.line.unwrap()).collect();
    assert_eq!(lines, [1, 2, 4, 5, 7, 8, 9]);
    assert!(ini.problems[6].hint.as_ref().unwrap().contains("comments start with"));
}

#[test]
fn odd_bytes_are_named_with_their_column() {
    let bytes = b"[s]\nx = a\xff\n; \xff is fine here\ny = \0\n".to_vec();
    let ini = read("a.ini", &move |_: &str| Ok(bytes.clone()));
    let texts: Vec<_> = ini.problems.iter().map(|p| p.to_string()).collect();
    assert!(texts[0].starts_with("a.ini:2:6: error: invalid UTF-8"), "{texts:?}");
    assert!(texts[1].starts_with("a.ini:4:5: error: null byte"), "{texts:?}");
    assert_eq!(texts.len(), 2);
    assert!(only_problem("\u{feff}[s]\nx=1").contains("byte order mark"));
}

#[test]
fn includes_share_the_open_section() {
    let files = |name: &str| -> io::Result<Vec<u8>> {
        Ok(match name {
            "a.ini" => "[s]\n%include sub/b.ini\nz=3\n",
            "sub/b.ini" => "x=1\n[t]\ny=2",
            _ => return Err(io::ErrorKind::NotFound.into()),
        }
        .into())
    };
    let ini = read("a.ini", &files);
    assert_eq!(pairs(&ini), [("s", "x", "1"), ("t", "y", "2"), ("t", "z", "3")]);
    assert_eq!(ini.entries[1].place.to_string(), "sub/b.ini:3");
}

#[test]
fn a_missing_file_is_blamed_on_the_line_that_includes_it() {
    let files = |name: &str| -> io::Result<Vec<u8>> {
        if name == "a.ini" {
            Ok(b"[s]\n %include gone.ini".into())
        } else {
            Err(io::ErrorKind::NotFound.into())
        }
    };
    let ini = read("a.ini", &files);
    assert!(
        ini.problems[0]
            .to_string()
            .starts_with("a.ini:2:2: error: could not load file \"gone.ini\"")
    );
    assert!(ini.problems[0].hint.as_ref().unwrap().contains("working directory"));
    let missing = read("b.ini", &files);
    assert!(
        missing.problems[0]
            .to_string()
            .starts_with("b.ini: error: could not load file")
    );
}

#[test]
fn includes_nest_ten_deep_and_never_in_a_circle() {
    let chain = |name: &str| -> io::Result<Vec<u8>> {
        let level: usize = name.parse().unwrap();
        Ok(format!("[s]\nx{level}=1\n%include {}\n", level + 1).into_bytes())
    };
    let ini = read("0", &chain);
    assert_eq!(ini.entries.len(), 1 + INCLUDE_DEPTH_MAX);
    assert!(ini.problems[0].message.contains("deeper than 10"));

    let circle = |_: &str| -> io::Result<Vec<u8>> { Ok(b"%include a".into()) };
    assert!(read("a", &circle).problems[0].message.contains("includes itself"));

    let tree = |name: &str| -> io::Result<Vec<u8>> {
        Ok(format!("%include {name}a\n%include {name}b\n%include {name}c\n").into_bytes())
    };
    let problems = read("r", &tree).problems;
    assert!(problems.iter().any(|p| p.message.contains("more than 1000 files")));
}
