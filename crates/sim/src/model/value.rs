//! Values and their types.

use super::error::ServerError;

/// The types the model knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Type {
    Int4,
    Int8,
    Text,
    Bool,
    Void,
    TextArray,
}

impl Type {
    /// OID in pg_type.
    pub(super) fn oid(self) -> u32 {
        match self {
            Type::Bool => 16,
            Type::Int8 => 20,
            Type::Int4 => 23,
            Type::Text => 25,
            Type::Void => 2278,
            Type::TextArray => 1009,
        }
    }

    pub(super) fn from_oid(oid: u32) -> Option<Type> {
        [Type::Bool, Type::Int8, Type::Int4, Type::Text, Type::TextArray]
            .into_iter()
            .find(|t| t.oid() == oid)
    }

    /// `pg_type.typlen`.
    pub(super) fn bytes(self) -> i16 {
        match self {
            Type::Bool => 1,
            Type::Int8 => 8,
            Type::Int4 | Type::Void => 4,
            Type::Text | Type::TextArray => -1,
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Type::Bool => "bool",
            Type::Int8 => "int8",
            Type::Int4 => "int4",
            Type::Text => "text",
            Type::Void => "void",
            Type::TextArray => "_text",
        }
    }
}

/// A value of a known type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Value {
    Null,
    Int(i64),
    Text(String),
    Bool(bool),
}

/// The message for a value with too many bytes, to which the number of the parameter belongs.
pub(super) const INCORRECT_BINARY: &str = "incorrect binary data format in bind parameter";

impl Value {
    /// Reads a parameter as a client sent it.
    pub(super) fn read(bytes: &[u8], of: Type, binary: bool) -> Result<Value, ServerError> {
        if binary {
            let wrong = |needed| match bytes.len() < needed {
                true => ServerError::error("08P01", "insufficient data left in message"),
                false => ServerError::error("22P03", INCORRECT_BINARY),
            };
            return Ok(match of {
                Type::Int4 => Value::Int(i32::from_be_bytes(bytes.try_into().map_err(|_| wrong(4))?).into()),
                Type::Int8 => Value::Int(i64::from_be_bytes(bytes.try_into().map_err(|_| wrong(8))?)),
                Type::Bool => Value::Bool(bytes == [1]),
                Type::Text | Type::Void | Type::TextArray => Value::Text(text(bytes)?),
            });
        }
        Value::Text(text(bytes)?).cast(of)
    }

    /// The value in another type, as the input function or a cast makes it.
    pub(super) fn cast(self, to: Type) -> Result<Value, ServerError> {
        Ok(match (self, to) {
            (Value::Text(t), Type::Int4 | Type::Int8) => {
                let kind = if to == Type::Int4 { "integer" } else { "bigint" };
                let wrong = || ServerError::error("22P02", format!("invalid input syntax for type {kind}: \"{t}\""));
                let number: i64 = t.trim_matches(' ').parse().map_err(|_| wrong())?;
                if to == Type::Int4 && i32::try_from(number).is_err() {
                    return Err(ServerError::error(
                        "22003",
                        format!("value \"{t}\" is out of range for type integer"),
                    ));
                }
                Value::Int(number)
            }
            (Value::Text(t), Type::Bool) => match t.as_str() {
                "t" | "true" | "on" | "1" | "yes" => Value::Bool(true),
                "f" | "false" | "off" | "0" | "no" => Value::Bool(false),
                _ => {
                    return Err(ServerError::error(
                        "22P02",
                        format!("invalid input syntax for type boolean: \"{t}\""),
                    ));
                }
            },
            (Value::Int(n), Type::Text) => Value::Text(n.to_string()),
            (value, _) => value,
        })
    }

    /// The value as DataRow carries it; `None` is NULL.
    pub(super) fn write(&self, of: Type, binary: bool) -> Option<Vec<u8>> {
        Some(match self {
            Value::Null => return None,
            Value::Int(n) if binary && of == Type::Int4 => (*n as i32).to_be_bytes().to_vec(),
            Value::Int(n) if binary => n.to_be_bytes().to_vec(),
            Value::Int(n) => n.to_string().into_bytes(),
            Value::Bool(b) if binary => vec![u8::from(*b)],
            Value::Bool(b) => vec![if *b { b't' } else { b'f' }],
            Value::Text(t) => t.clone().into_bytes(),
        })
    }
}

fn text(bytes: &[u8]) -> Result<String, ServerError> {
    if bytes.contains(&0) {
        let message = "invalid byte sequence for encoding \"UTF8\": 0x00";
        return Err(ServerError::error("22021", message));
    }
    String::from_utf8(bytes.to_vec()).map_err(|_| ServerError::unmodelled("text that is not UTF-8"))
}
