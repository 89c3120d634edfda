//! Messages a client sends.

use super::words::{TextError, Words, put_quoted, put_value};
use pgweir_wire::frontend::{FrontendTag, Named, Parse, Target};
use pgweir_wire::{HEADER_BYTES, Header, ReadError, Reader, Writer};
use std::fmt::Write as _;

/// One complete message as text. If its body is malformed, the text is `Raw` and the bytes.
pub fn frontend_to_text(message: &[u8]) -> String {
    known(message).unwrap_or_else(|| {
        let mut text = String::from("Raw");
        put_quoted(&mut text, message);
        text
    })
}

fn known(message: &[u8]) -> Option<String> {
    let header = Header::read(message).ok()??;
    if header.message_bytes as usize != message.len() {
        return None;
    }
    let body = &message[HEADER_BYTES..];
    let tag = FrontendTag::from_byte(header.tag)?;
    let mut text = format!("{tag:?}");
    let string = |body: &[u8]| {
        let mut r = Reader::new(body);
        let s = r.cstr().ok()?.to_vec();
        r.end().ok()?;
        Some(s)
    };
    match tag {
        FrontendTag::Query | FrontendTag::CopyFail => put_quoted(&mut text, &string(body)?),
        FrontendTag::Parse => {
            let parse = Parse::read(body).ok()?;
            put_quoted(&mut text, parse.name);
            put_quoted(&mut text, parse.query);
            let oids = parse.types[2..].chunks_exact(4);
            if oids.len() > 0 {
                text.push_str(" types");
                for oid in oids {
                    let _ = write!(text, " {}", u32::from_be_bytes([oid[0], oid[1], oid[2], oid[3]]));
                }
            }
        }
        FrontendTag::Bind => {
            let mut r = Reader::new(body);
            put_quoted(&mut text, r.cstr().ok()?);
            put_quoted(&mut text, r.cstr().ok()?);
            formats_and_values(&mut text, &mut r).ok()?;
            let results = numbers(&mut r).ok()?;
            r.end().ok()?;
            put_numbers(&mut text, "results", &results);
        }
        FrontendTag::Describe | FrontendTag::Close => {
            let named = Named::read(body).ok()?;
            text.push_str(match named.target {
                Target::Statement => " S",
                Target::Portal => " P",
            });
            put_quoted(&mut text, named.name);
        }
        FrontendTag::Execute => {
            let mut r = Reader::new(body);
            put_quoted(&mut text, r.cstr().ok()?);
            let _ = write!(text, " {}", r.i32().ok()?);
            r.end().ok()?;
        }
        FrontendTag::FunctionCall => {
            let mut r = Reader::new(body);
            let _ = write!(text, " {}", r.u32().ok()?);
            formats_and_values(&mut text, &mut r).ok()?;
            let _ = write!(text, " result {}", r.i16().ok()?);
            r.end().ok()?;
        }
        FrontendTag::CopyData | FrontendTag::Password => put_quoted(&mut text, body),
        FrontendTag::Sync | FrontendTag::Flush | FrontendTag::Terminate | FrontendTag::CopyDone => {
            if !body.is_empty() {
                return None;
            }
        }
    }
    Some(text)
}

fn numbers(r: &mut Reader<'_>) -> Result<Vec<i16>, ReadError> {
    let count = r.i16()?;
    (0..count).map(|_| r.i16()).collect()
}

fn put_numbers(text: &mut String, word: &str, list: &[i16]) {
    if !list.is_empty() {
        let _ = write!(text, " {word}");
        for n in list {
            let _ = write!(text, " {n}");
        }
    }
}

fn formats_and_values(text: &mut String, r: &mut Reader<'_>) -> Result<(), ReadError> {
    put_numbers(text, "formats", &numbers(r)?);
    let count = r.i16()?;
    if count > 0 {
        text.push_str(" values");
    }
    for _ in 0..count {
        match r.i32()? {
            -1 => put_value(text, None),
            n => {
                let n = usize::try_from(n).map_err(|_| ReadError::Count { got: n.into() })?;
                put_value(text, Some(r.bytes(n)?));
            }
        }
    }
    Ok(())
}

fn write_numbers(to: &mut Vec<u8>, list: &[i16]) {
    to.extend((list.len() as u16).to_be_bytes());
    for n in list {
        to.extend(n.to_be_bytes());
    }
}

fn write_values(to: &mut Vec<u8>, values: &[Option<Vec<u8>>]) {
    to.extend((values.len() as u16).to_be_bytes());
    for value in values {
        match value {
            None => to.extend((-1i32).to_be_bytes()),
            Some(v) => {
                to.extend((v.len() as u32).to_be_bytes());
                to.extend_from_slice(v);
            }
        }
    }
}

fn cstr(to: &mut Vec<u8>, text: &[u8]) {
    to.extend_from_slice(text);
    to.push(0);
}

/// Appends the message of one line, as [`frontend_to_text`] writes it.
pub fn frontend_from_text(line: &str, to: &mut Vec<u8>) -> Result<(), TextError> {
    let mut words = Words::new(line)?;
    let name = words.word()?;
    let mut body = Vec::new();
    let tag = match name.as_str() {
        "Raw" => {
            to.extend(words.quoted()?);
            return words.end();
        }
        "Query" | "CopyFail" => {
            cstr(&mut body, &words.quoted()?);
            if name == "Query" { b'Q' } else { b'f' }
        }
        "Parse" => {
            cstr(&mut body, &words.quoted()?);
            cstr(&mut body, &words.quoted()?);
            let types: Vec<u32> = if words.take("types") { words.numbers() } else { vec![] };
            body.extend((types.len() as u16).to_be_bytes());
            types.iter().for_each(|oid| body.extend(oid.to_be_bytes()));
            b'P'
        }
        "Bind" => {
            cstr(&mut body, &words.quoted()?);
            cstr(&mut body, &words.quoted()?);
            let formats = if words.take("formats") { words.numbers() } else { vec![] };
            write_numbers(&mut body, &formats);
            let values = if words.take("values") { words.values() } else { vec![] };
            write_values(&mut body, &values);
            let results = if words.take("results") { words.numbers() } else { vec![] };
            write_numbers(&mut body, &results);
            b'B'
        }
        "Describe" | "Close" => {
            body.push(match words.word()?.as_str() {
                "S" => b'S',
                "P" => b'P',
                got => {
                    return Err(TextError::Expected {
                        expected: "S or P",
                        got: got.into(),
                    });
                }
            });
            cstr(&mut body, &words.quoted()?);
            if name == "Describe" { b'D' } else { b'C' }
        }
        "Execute" => {
            cstr(&mut body, &words.quoted()?);
            body.extend(words.number::<i32>()?.to_be_bytes());
            b'E'
        }
        "FunctionCall" => {
            body.extend(words.number::<u32>()?.to_be_bytes());
            let formats = if words.take("formats") { words.numbers() } else { vec![] };
            write_numbers(&mut body, &formats);
            let values = if words.take("values") { words.values() } else { vec![] };
            write_values(&mut body, &values);
            let result: i16 = if words.take("result") { words.number()? } else { 0 };
            body.extend(result.to_be_bytes());
            b'F'
        }
        "CopyData" => {
            body = words.quoted()?;
            b'd'
        }
        "Password" => {
            body = words.quoted()?;
            b'p'
        }
        "CopyDone" => b'c',
        "Sync" => b'S',
        "Flush" => b'H',
        "Terminate" => b'X',
        _ => return Err(TextError::UnknownMessage { got: name }),
    };
    words.end()?;
    Writer::new(to).message(tag, |b| b.extend_from_slice(&body));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_message_comes_back_as_it_was() {
        for line in [
            r#"Query "select 'a\"b\\c', \x00\xff\n""#,
            r#"Parse "s1" "select $1""#,
            r#"Parse "" "select $1, $2" types 23 0"#,
            r#"Bind "p" "s" formats 0 1 values "x" NULL "" results 1"#,
            r#"Bind "" """#,
            r#"Describe S "s1""#,
            r#"Describe P """#,
            r#"Close S "s1""#,
            r#"Execute "p" 10"#,
            r#"FunctionCall 177 formats 1 values "\x00\x00\x00\x01" NULL result 1"#,
            r#"CopyData "1\t2\n""#,
            r#"CopyFail "no""#,
            r#"Password "p\x00""#,
            "CopyDone",
            "Sync",
            "Flush",
            "Terminate",
            r#"Raw "Z\x00\x00\x00\x05I""#,
            r#"Raw "P\x00\x00\x00\x05x""#,
        ] {
            let mut bytes = Vec::new();
            // A zero byte inside a C string makes the message malformed: it is read back as Raw without loss.
            frontend_from_text(line, &mut bytes).unwrap();
            let text = frontend_to_text(&bytes);
            if !line.contains("\\x00\\xff") {
                assert_eq!(text, line);
            }
            let mut again = Vec::new();
            frontend_from_text(&text, &mut again).unwrap();
            assert_eq!(again, bytes);
        }
    }

    #[test]
    fn lines_that_are_no_message_are_refused() {
        for line in [
            "",
            "Quary \"x\"",
            "Query",
            "Query x",
            "Sync 1",
            "Query \"x",
            "Describe X \"\"",
            "Query \"\\q\"",
        ] {
            assert!(frontend_from_text(line, &mut Vec::new()).is_err(), "{line}");
        }
    }
}
