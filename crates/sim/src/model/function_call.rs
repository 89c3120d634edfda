//! FunctionCall, the old fast path.

use super::error::ServerError;
use super::execute::failed_transaction;
use super::session::Session;
use super::transaction::{Block, Shared};
use super::value::{Type, Value};
use pgweir_wire::Reader;

/// `int4pl(int4, int4)`, the one function the model knows.
const INT4PL: u32 = 177;

impl Session {
    /// `HandleFunctionRequest`.
    pub(super) fn function_call(&mut self, shared: &mut Shared, body: &[u8]) -> Result<(), ServerError> {
        self.start_command()?;
        if self.transaction.block == Block::Failed {
            return Err(failed_transaction());
        }
        let mut r = Reader::new(body);
        let oid = r.u32()?;
        if oid != INT4PL {
            return Err(ServerError::error(
                "42883",
                format!("function with OID {oid} does not exist"),
            ));
        }
        let mut formats = Vec::new();
        for _ in 0..r.i16()? {
            formats.push(r.i16()?);
        }
        let count = r.i16()?;
        if count != 2 {
            return Err(ServerError::protocol(format!(
                "function call message contains {count} arguments but function requires 2"
            )));
        }
        let mut sum = Some(0);
        for index in 0..2 {
            let binary = *formats.get(index).or(formats.first()).unwrap_or(&0) == 1;
            let length = r.i32()?;
            if length < 0 {
                sum = None;
                continue;
            }
            if let Value::Int(n) = Value::read(r.bytes(length as usize)?, Type::Int4, binary)? {
                sum = sum.map(|sum| sum + n);
            }
        }
        let binary = r.i16()? == 1;
        r.end()?;
        let value = sum.map_or(Value::Null, Value::Int).write(Type::Int4, binary);
        self.out.write(|w| {
            w.message(b'V', |b| match &value {
                None => b.extend((-1i32).to_be_bytes()),
                Some(bytes) => {
                    b.extend((bytes.len() as u32).to_be_bytes());
                    b.extend_from_slice(bytes);
                }
            });
        });
        self.finish_command(shared)?;
        self.ready(shared);
        Ok(())
    }
}
