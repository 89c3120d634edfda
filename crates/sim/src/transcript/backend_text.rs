//! Messages a server sends.

use super::words::{TextError, Words, put_quoted, put_value};
use pgweir_wire::backend::{self, BackendTag, TransactionStatus};
use pgweir_wire::{CancelKey, HEADER_BYTES, Header, Reader, Writer};
use std::fmt::Write as _;

/// One complete message as text. If its body is malformed, the text is `Raw` and the bytes.
pub fn backend_to_text(message: &[u8]) -> String {
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
    let tag = BackendTag::from_byte(header.tag)?;
    let mut text = format!("{tag:?}");
    let mut r = Reader::new(body);
    match tag {
        BackendTag::Authentication => {
            let _ = write!(text, " {}", r.u32().ok()?);
            if !r.rest().is_empty() {
                put_quoted(&mut text, r.rest());
            }
        }
        BackendTag::BackendKeyData => {
            let key = CancelKey::read(body).ok()?;
            let _ = write!(text, " {}", key.process_id);
            put_quoted(&mut text, &key.secret);
        }
        BackendTag::CommandComplete => put_quoted(&mut text, backend::command_tag(body).ok()?),
        BackendTag::CopyInResponse | BackendTag::CopyOutResponse | BackendTag::CopyBothResponse => {
            let _ = write!(text, " {}", r.u8().ok()?);
            for _ in 0..r.i16().ok()? {
                let _ = write!(text, " {}", r.i16().ok()?);
            }
            r.end().ok()?;
        }
        BackendTag::DataRow => {
            for value in backend::data_row(body).ok()? {
                put_value(&mut text, value);
            }
        }
        BackendTag::ErrorResponse | BackendTag::NoticeResponse => loop {
            match r.u8().ok()? {
                0 => {
                    r.end().ok()?;
                    break;
                }
                letter if letter.is_ascii_graphic() && letter != b'"' => {
                    let _ = write!(text, " {}", char::from(letter));
                    put_quoted(&mut text, r.cstr().ok()?);
                }
                _ => return None,
            }
        },
        BackendTag::FunctionCallResponse => match r.i32().ok()? {
            -1 => {
                r.end().ok()?;
                put_value(&mut text, None);
            }
            n => {
                put_value(&mut text, Some(r.bytes(usize::try_from(n).ok()?).ok()?));
                r.end().ok()?;
            }
        },
        BackendTag::NegotiateProtocolVersion => {
            let newest = r.u32().ok()?;
            let _ = write!(text, " {newest}");
            for _ in 0..r.u32().ok()? {
                put_quoted(&mut text, r.cstr().ok()?);
            }
            r.end().ok()?;
        }
        BackendTag::NotificationResponse => {
            let _ = write!(text, " {}", r.u32().ok()?);
            put_quoted(&mut text, r.cstr().ok()?);
            put_quoted(&mut text, r.cstr().ok()?);
            r.end().ok()?;
        }
        BackendTag::ParameterDescription => {
            for _ in 0..r.i16().ok()? {
                let _ = write!(text, " {}", r.u32().ok()?);
            }
            r.end().ok()?;
        }
        BackendTag::ParameterStatus => {
            let (name, value) = backend::parameter_status(body).ok()?;
            put_quoted(&mut text, name);
            put_quoted(&mut text, value);
        }
        BackendTag::ReadyForQuery => {
            let status = TransactionStatus::read(body)?;
            let _ = write!(text, " {}", char::from(status as u8));
        }
        BackendTag::RowDescription => {
            for _ in 0..r.i16().ok()? {
                put_quoted(&mut text, r.cstr().ok()?);
                let _ = write!(text, " table {} {}", r.u32().ok()?, r.i16().ok()?);
                let _ = write!(text, " type {} {} {}", r.u32().ok()?, r.i16().ok()?, r.i32().ok()?);
                let _ = write!(text, " format {}", r.i16().ok()?);
            }
            r.end().ok()?;
        }
        BackendTag::CopyData => put_quoted(&mut text, body),
        BackendTag::BindComplete
        | BackendTag::CloseComplete
        | BackendTag::CopyDone
        | BackendTag::EmptyQueryResponse
        | BackendTag::NoData
        | BackendTag::ParseComplete
        | BackendTag::PortalSuspended => {
            if !body.is_empty() {
                return None;
            }
        }
    }
    Some(text)
}

fn cstr(to: &mut Vec<u8>, text: &[u8]) {
    to.extend_from_slice(text);
    to.push(0);
}

fn expect(words: &mut Words, word: &'static str) -> Result<(), TextError> {
    if words.take(word) {
        Ok(())
    } else {
        Err(TextError::Expected {
            expected: word,
            got: words.word().unwrap_or_default(),
        })
    }
}

/// Appends the message of one line, as [`backend_to_text`] writes it.
pub fn backend_from_text(line: &str, to: &mut Vec<u8>) -> Result<(), TextError> {
    let mut words = Words::new(line)?;
    let name = words.word()?;
    let mut body = Vec::new();
    let tag = match name.as_str() {
        "Raw" => {
            to.extend(words.quoted()?);
            return words.end();
        }
        "Authentication" => {
            body.extend(words.number::<u32>()?.to_be_bytes());
            body.extend(words.quoted().unwrap_or_default());
            BackendTag::Authentication
        }
        "BackendKeyData" => {
            body.extend(words.number::<u32>()?.to_be_bytes());
            body.extend(words.quoted()?);
            BackendTag::BackendKeyData
        }
        "CommandComplete" => {
            cstr(&mut body, &words.quoted()?);
            BackendTag::CommandComplete
        }
        "CopyInResponse" | "CopyOutResponse" | "CopyBothResponse" => {
            body.push(words.number()?);
            let columns: Vec<i16> = words.numbers();
            body.extend((columns.len() as u16).to_be_bytes());
            columns.iter().for_each(|c| body.extend(c.to_be_bytes()));
            match name.as_str() {
                "CopyInResponse" => BackendTag::CopyInResponse,
                "CopyOutResponse" => BackendTag::CopyOutResponse,
                _ => BackendTag::CopyBothResponse,
            }
        }
        "DataRow" => {
            let values = words.values();
            words.end()?;
            Writer::new(to).data_row(values.len(), values.iter().map(Option::as_deref));
            return Ok(());
        }
        "ErrorResponse" | "NoticeResponse" => {
            while let Ok(letter) = words.word() {
                let [letter] = letter.as_bytes() else {
                    return Err(TextError::Expected {
                        expected: "a field letter",
                        got: letter,
                    });
                };
                body.push(*letter);
                cstr(&mut body, &words.quoted()?);
            }
            body.push(0);
            if name == "ErrorResponse" {
                BackendTag::ErrorResponse
            } else {
                BackendTag::NoticeResponse
            }
        }
        "FunctionCallResponse" => {
            if words.take("NULL") {
                body.extend((-1i32).to_be_bytes());
            } else {
                let value = words.quoted()?;
                body.extend((value.len() as u32).to_be_bytes());
                body.extend(value);
            }
            BackendTag::FunctionCallResponse
        }
        "NegotiateProtocolVersion" => {
            body.extend(words.number::<u32>()?.to_be_bytes());
            let options: Vec<Vec<u8>> = std::iter::from_fn(|| words.quoted().ok()).collect();
            body.extend((options.len() as u32).to_be_bytes());
            options.iter().for_each(|o| cstr(&mut body, o));
            BackendTag::NegotiateProtocolVersion
        }
        "NotificationResponse" => {
            body.extend(words.number::<u32>()?.to_be_bytes());
            cstr(&mut body, &words.quoted()?);
            cstr(&mut body, &words.quoted()?);
            BackendTag::NotificationResponse
        }
        "ParameterDescription" => {
            let oids: Vec<u32> = words.numbers();
            body.extend((oids.len() as u16).to_be_bytes());
            oids.iter().for_each(|o| body.extend(o.to_be_bytes()));
            BackendTag::ParameterDescription
        }
        "ParameterStatus" => {
            cstr(&mut body, &words.quoted()?);
            cstr(&mut body, &words.quoted()?);
            BackendTag::ParameterStatus
        }
        "ReadyForQuery" => {
            let status = words.word()?;
            if TransactionStatus::read(status.as_bytes()).is_none() {
                return Err(TextError::Expected {
                    expected: "I, T or E",
                    got: status,
                });
            }
            body.extend(status.as_bytes());
            BackendTag::ReadyForQuery
        }
        "RowDescription" => {
            let mut count = 0u16;
            let mut columns = Vec::new();
            while let Ok(column) = words.quoted() {
                count += 1;
                cstr(&mut columns, &column);
                expect(&mut words, "table")?;
                columns.extend(words.number::<u32>()?.to_be_bytes());
                columns.extend(words.number::<i16>()?.to_be_bytes());
                expect(&mut words, "type")?;
                columns.extend(words.number::<u32>()?.to_be_bytes());
                columns.extend(words.number::<i16>()?.to_be_bytes());
                columns.extend(words.number::<i32>()?.to_be_bytes());
                expect(&mut words, "format")?;
                columns.extend(words.number::<i16>()?.to_be_bytes());
            }
            body.extend(count.to_be_bytes());
            body.extend(columns);
            BackendTag::RowDescription
        }
        "CopyData" => {
            body = words.quoted()?;
            BackendTag::CopyData
        }
        "BindComplete" => BackendTag::BindComplete,
        "CloseComplete" => BackendTag::CloseComplete,
        "CopyDone" => BackendTag::CopyDone,
        "EmptyQueryResponse" => BackendTag::EmptyQueryResponse,
        "NoData" => BackendTag::NoData,
        "ParseComplete" => BackendTag::ParseComplete,
        "PortalSuspended" => BackendTag::PortalSuspended,
        _ => return Err(TextError::UnknownMessage { got: name }),
    };
    words.end()?;
    Writer::new(to).message(tag as u8, |b| b.extend_from_slice(&body));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_message_comes_back_as_it_was() {
        for line in [
            "Authentication 0",
            r#"Authentication 5 "\x01\x02\x03\x04""#,
            r#"BackendKeyData 1 "\x00\x00\x00\x01""#,
            "BindComplete",
            "CloseComplete",
            r#"CommandComplete "SELECT 1""#,
            "CopyBothResponse 0",
            r#"CopyData "1\n""#,
            "CopyDone",
            "CopyInResponse 0 0 0",
            "CopyOutResponse 1 1",
            r#"DataRow "x" NULL """#,
            "DataRow",
            "EmptyQueryResponse",
            r#"ErrorResponse S "ERROR" C "22012" M "division by zero""#,
            r#"FunctionCallResponse "3""#,
            "FunctionCallResponse NULL",
            r#"NegotiateProtocolVersion 196608 "_pq_.x""#,
            "NoData",
            r#"NoticeResponse S "NOTICE" M "hi""#,
            r#"NotificationResponse 7 "c" "p""#,
            "ParameterDescription 23 25",
            r#"ParameterStatus "DateStyle" "ISO, MDY""#,
            "ParseComplete",
            "PortalSuspended",
            "ReadyForQuery T",
            r#"RowDescription "a" table 0 0 type 23 4 -1 format 0 "b" table 16384 2 type 25 -1 -1 format 1"#,
            r#"Raw "Z\x00\x00\x00\x05X""#,
        ] {
            let mut bytes = Vec::new();
            backend_from_text(line, &mut bytes).unwrap();
            assert_eq!(backend_to_text(&bytes), line);
        }
    }
}
