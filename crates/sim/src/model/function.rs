//! The functions of expressions.

use super::error::ServerError;
use super::value::{Type, Value};

/// Functions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Function {
    Repeat,
    CurrentSetting,
    SetConfig,
    /// Two that only the pooler's question about limits uses, see `views.rs`: whether the session has set a setting, if
    /// it has another value than this, and setting it for the transaction then.
    OtherIsMade,
    Lift,
    BackendPid,
    CancelBackend,
    TerminateBackend,
    NullIf,
    Lock,
    TryLock,
    XactLock,
    Unlock,
    UnlockAll,
    SetVal,
    CurrVal,
    /// A function of the database that draws from random() and has a constant.
    Folded,
}

impl Function {
    pub(super) fn named(name: &str) -> Option<Function> {
        Some(match name {
            "repeat" => Function::Repeat,
            "current_setting" => Function::CurrentSetting,
            "set_config" => Function::SetConfig,
            "other_is_made" => Function::OtherIsMade,
            "lift" => Function::Lift,
            "pg_backend_pid" => Function::BackendPid,
            "pg_cancel_backend" => Function::CancelBackend,
            "pg_terminate_backend" => Function::TerminateBackend,
            "nullif" => Function::NullIf,
            "pg_advisory_lock" => Function::Lock,
            "pg_try_advisory_lock" => Function::TryLock,
            "pg_advisory_xact_lock" => Function::XactLock,
            "pg_advisory_unlock" => Function::Unlock,
            "pg_advisory_unlock_all" => Function::UnlockAll,
            "setval" => Function::SetVal,
            "currval" => Function::CurrVal,
            "folded" => Function::Folded,
            _ => return None,
        })
    }

    /// Types of its arguments, the result, and how many arguments it needs at least.
    pub(super) fn signature(self) -> (&'static [Type], Type, usize) {
        match self {
            Function::Repeat => (&[Type::Text, Type::Int4], Type::Text, 2),
            Function::CurrentSetting => (&[Type::Text, Type::Bool], Type::Text, 1),
            Function::SetConfig => (&[Type::Text, Type::Text, Type::Bool], Type::Text, 3),
            Function::OtherIsMade => (&[Type::Text, Type::Text], Type::Bool, 2),
            Function::Lift => (&[Type::Text, Type::Text], Type::Text, 2),
            Function::BackendPid => (&[], Type::Int4, 0),
            Function::NullIf => (&[Type::Text, Type::Text], Type::Text, 2),
            Function::Lock | Function::XactLock => (&[Type::Int4], Type::Void, 1),
            Function::TryLock | Function::Unlock | Function::CancelBackend | Function::TerminateBackend => {
                (&[Type::Int4], Type::Bool, 1)
            }
            Function::UnlockAll => (&[], Type::Void, 0),
            Function::SetVal => (&[Type::Text, Type::Int4], Type::Int8, 2),
            Function::CurrVal => (&[Type::Text], Type::Int8, 1),
            Function::Folded => (&[Type::Text], Type::Text, 1),
        }
    }

    /// Looks up the relation that its first argument names, if that is a literal. PostgreSQL reads a literal of type
    /// `regclass` when it analyses the statement.
    pub(super) fn check_name(self, literal: Option<&str>) -> Result<(), ServerError> {
        match (self, literal) {
            (Function::SetVal | Function::CurrVal, Some(name)) => the_sequence(name),
            (Function::SetVal | Function::CurrVal, None) => {
                Err(ServerError::unmodelled("sequences that no literal names"))
            }
            _ => Ok(()),
        }
    }

    /// Its value for these arguments.
    pub(super) fn call(self, values: &[Value], environment: &mut impl Environment) -> Result<Value, ServerError> {
        Ok(match (self, values) {
            (Function::Repeat, [Value::Text(text), Value::Int(count)]) => {
                let count = usize::try_from(*count).unwrap_or(0);
                if text.len().saturating_mul(count) > REPEAT_BYTES_MAX {
                    return Err(ServerError::unmodelled("such long strings"));
                }
                Value::Text(text.repeat(count))
            }
            (Function::CurrentSetting, [Value::Text(name)]) => environment.current_setting(name, false)?,
            (Function::CurrentSetting, [Value::Text(name), Value::Bool(missing_ok)]) => {
                environment.current_setting(name, *missing_ok)?
            }
            (Function::SetConfig, [Value::Text(name), value, local]) => {
                let value = match value {
                    Value::Text(value) => Some(value.as_str()),
                    _ => None,
                };
                environment.set_config(name, value, *local == Value::Bool(true))?
            }
            (Function::SetConfig, _) => {
                return Err(ServerError::error("22004", "SET requires parameter name"));
            }
            (Function::OtherIsMade | Function::Lift, [Value::Text(name), value])
                if environment.current_setting(name, false)? == *value =>
            {
                Value::Null
            }
            (Function::OtherIsMade, [Value::Text(name), _]) => Value::Bool(environment.is_made(name)),
            (Function::Lift, [Value::Text(name), Value::Text(value)]) => {
                environment.set_config(name, Some(value), true)?
            }
            (Function::NullIf, [value, nothing]) if value == nothing => Value::Null,
            (Function::NullIf, [value, _]) => value.clone(),
            (Function::Lock, [Value::Int(key)]) => {
                if !environment.lock(*key) {
                    return Err(ServerError::unmodelled("waiting for ever"));
                }
                Value::Text(String::new())
            }
            (Function::XactLock, [Value::Int(_)]) => Value::Text(String::new()),
            (Function::TryLock, [Value::Int(key)]) => Value::Bool(environment.lock(*key)),
            (Function::Unlock, [Value::Int(key)]) => Value::Bool(environment.unlock(*key)),
            (Function::UnlockAll, []) => {
                environment.unlock_all();
                Value::Text(String::new())
            }
            // A real server first sends the row, because the signal counts from the next row on.
            (Function::CancelBackend, [Value::Int(id)]) if *id == environment.process_id().into() => {
                return Err(ServerError::error("57014", "canceling statement due to user request"));
            }
            (Function::CancelBackend | Function::TerminateBackend, [Value::Int(id)]) => {
                environment.signal(*id);
                Value::Bool(false)
            }
            (Function::BackendPid, _) => Value::Int(environment.process_id().into()),
            (Function::SetVal, [_, Value::Int(value)]) => {
                environment.set_drawn(*value);
                Value::Int(*value)
            }
            (Function::CurrVal, _) => Value::Int(environment.drawn().ok_or_else(not_drawn)?),
            (Function::Folded, [Value::Text(text)]) => {
                environment.fold(text);
                Value::Text(text.clone())
            }
            _ => Value::Null,
        })
    }
}

/// The longest string `repeat` makes here, bytes; PostgreSQL goes to 1 GB.
const REPEAT_BYTES_MAX: usize = 16 << 20;

/// The only sequence.
const SEQUENCE: &str = "seq";

fn the_sequence(name: &str) -> Result<(), ServerError> {
    match name {
        SEQUENCE => Ok(()),
        _ => Err(ServerError::error(
            "42P01",
            format!("relation \"{name}\" does not exist"),
        )),
    }
}

fn not_drawn() -> ServerError {
    let message = format!("currval of sequence \"{SEQUENCE}\" is not yet defined in this session");
    ServerError::error("55000", message)
}

/// The state outside of their arguments that functions use.
pub(super) trait Environment {
    fn current_setting(&mut self, name: &str, missing_ok: bool) -> Result<Value, ServerError>;
    fn set_config(&mut self, name: &str, value: Option<&str>, local: bool) -> Result<Value, ServerError>;
    /// Whether the session has set it.
    fn is_made(&self, name: &str) -> bool;
    fn process_id(&self) -> u32;
    /// Takes an advisory lock if it is free; returns whether it was.
    fn lock(&mut self, key: i64) -> bool;
    /// Gives an advisory lock back; returns whether it was held.
    fn unlock(&mut self, key: i64) -> bool;
    fn unlock_all(&mut self);
    /// The session's latest value of the sequence.
    fn drawn(&self) -> Option<i64>;
    fn set_drawn(&mut self, value: i64);
    /// There is no such process.
    fn signal(&mut self, process_id: i64);
    /// Runs `folded()`.
    fn fold(&mut self, text: &str);
}
