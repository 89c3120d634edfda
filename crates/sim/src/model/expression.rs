//! Expressions: their types, constant folding, their values.

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

impl Value {
    /// Reads a parameter as a client sent it.
    pub(super) fn read(bytes: &[u8], of: Type, binary: bool) -> Result<Value, ServerError> {
        if binary {
            let wrong = || ServerError::error("22P03", "incorrect binary data format in bind parameter");
            return Ok(match of {
                Type::Int4 => Value::Int(i32::from_be_bytes(bytes.try_into().map_err(|_| wrong())?).into()),
                Type::Int8 => Value::Int(i64::from_be_bytes(bytes.try_into().map_err(|_| wrong())?)),
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
    String::from_utf8(bytes.to_vec()).map_err(|_| ServerError::unmodelled("text that is not UTF-8"))
}

/// An expression.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Expression {
    Value(Value),
    /// `$n`, from 1.
    Param(u16),
    /// Column of the source, from 0.
    Column(usize),
    Operator(char, Box<Expression>, Box<Expression>),
    Cast(Box<Expression>, Type),
    Call(Function, Vec<Expression>),
}

/// Functions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Function {
    Repeat,
    CurrentSetting,
    SetConfig,
    BackendPid,
    NullIf,
    Lock,
    TryLock,
    XactLock,
    Unlock,
    UnlockAll,
}

impl Function {
    pub(super) fn named(name: &str) -> Option<Function> {
        Some(match name {
            "repeat" => Function::Repeat,
            "current_setting" => Function::CurrentSetting,
            "set_config" => Function::SetConfig,
            "pg_backend_pid" => Function::BackendPid,
            "nullif" => Function::NullIf,
            "pg_advisory_lock" => Function::Lock,
            "pg_try_advisory_lock" => Function::TryLock,
            "pg_advisory_xact_lock" => Function::XactLock,
            "pg_advisory_unlock" => Function::Unlock,
            "pg_advisory_unlock_all" => Function::UnlockAll,
            _ => return None,
        })
    }

    /// Types of its arguments, the result, and how many arguments it needs at least.
    pub(super) fn signature(self) -> (&'static [Type], Type, usize) {
        match self {
            Function::Repeat => (&[Type::Text, Type::Int4], Type::Text, 2),
            Function::CurrentSetting => (&[Type::Text, Type::Bool], Type::Text, 1),
            Function::SetConfig => (&[Type::Text, Type::Text, Type::Bool], Type::Text, 3),
            Function::BackendPid => (&[], Type::Int4, 0),
            Function::NullIf => (&[Type::Text, Type::Text], Type::Text, 2),
            Function::Lock | Function::XactLock => (&[Type::Int4], Type::Void, 1),
            Function::TryLock | Function::Unlock => (&[Type::Int4], Type::Bool, 1),
            Function::UnlockAll => (&[], Type::Void, 0),
        }
    }
}

/// The longest string `repeat` makes here, bytes; PostgreSQL goes to 1 GB.
const REPEAT_BYTES_MAX: usize = 16 << 20;

/// The state outside of their arguments that functions use.
pub(super) trait Environment {
    fn current_setting(&mut self, name: &str, missing_ok: bool) -> Result<Value, ServerError>;
    fn set_config(&mut self, name: &str, value: Option<&str>, local: bool) -> Result<Value, ServerError>;
    fn process_id(&self) -> u32;
    /// Takes an advisory lock if it is free; returns whether it was.
    fn lock(&mut self, key: i64) -> bool;
    /// Gives an advisory lock back; returns whether it was held.
    fn unlock(&mut self, key: i64) -> bool;
    fn unlock_all(&mut self);
}

/// Constant folding, which knows only the arguments.
struct NoEnvironment;

impl Environment for NoEnvironment {
    fn current_setting(&mut self, _: &str, _: bool) -> Result<Value, ServerError> {
        unreachable!("not folded")
    }
    fn set_config(&mut self, _: &str, _: Option<&str>, _: bool) -> Result<Value, ServerError> {
        unreachable!("not folded")
    }
    fn process_id(&self) -> u32 {
        unreachable!("not folded")
    }
    fn lock(&mut self, _: i64) -> bool {
        unreachable!("not folded")
    }
    fn unlock(&mut self, _: i64) -> bool {
        unreachable!("not folded")
    }
    fn unlock_all(&mut self) {
        unreachable!("not folded")
    }
}

impl Expression {
    /// Finds its type. `want` is the type of an unknown literal or parameter, and is recorded in `params`.
    pub(super) fn resolve(
        &mut self,
        want: Option<Type>,
        columns: &[Type],
        params: &mut Vec<Option<Type>>,
    ) -> Result<Type, ServerError> {
        let found = match self {
            Expression::Value(value) => match value {
                Value::Null => want.unwrap_or(Type::Text),
                Value::Int(_) => Type::Int4,
                Value::Bool(_) => Type::Bool,
                Value::Text(_) => {
                    let of = want.unwrap_or(Type::Text);
                    *value = value.clone().cast(of)?;
                    of
                }
            },
            Expression::Param(number) => {
                let index = usize::from(*number)
                    .checked_sub(1)
                    .ok_or_else(|| ServerError::error("42P02", "there is no parameter $0"))?;
                if params.len() <= index {
                    params.resize(index + 1, None);
                }
                *params[index].get_or_insert(want.unwrap_or(Type::Text))
            }
            Expression::Column(index) => columns[*index],
            Expression::Operator(_, left, right) => {
                for side in [left, right] {
                    if side.resolve(Some(Type::Int4), columns, params)? != Type::Int4 {
                        return Err(ServerError::unmodelled("arithmetic on other types than int"));
                    }
                }
                Type::Int4
            }
            Expression::Cast(inner, to) => {
                inner.resolve(Some(*to), columns, params)?;
                *to
            }
            Expression::Call(function, arguments) => {
                let (types, result, least) = function.signature();
                if arguments.len() < least || arguments.len() > types.len() {
                    return Err(ServerError::unmodelled(format!("{function:?} with so many arguments")));
                }
                for (argument, want) in arguments.iter_mut().zip(types) {
                    if argument.resolve(Some(*want), columns, params)? != *want {
                        return Err(ServerError::unmodelled(format!("{function:?} with such arguments")));
                    }
                }
                result
            }
        };
        Ok(found)
    }

    pub(super) fn put_params(&mut self, values: &[Value]) {
        match self {
            Expression::Param(number) => *self = Expression::Value(values[usize::from(*number) - 1].clone()),
            Expression::Operator(_, left, right) => {
                left.put_params(values);
                right.put_params(values);
            }
            Expression::Cast(inner, _) => inner.put_params(values),
            Expression::Call(_, arguments) => arguments.iter_mut().for_each(|a| a.put_params(values)),
            Expression::Value(_) | Expression::Column(_) => {}
        }
    }

    /// Evaluates the parts that are the same for all rows at all times, as the planner does. Fails if such a part
    /// fails.
    pub(super) fn fold(&mut self) -> Result<(), ServerError> {
        let constant = match self {
            Expression::Operator(_, left, right) => {
                left.fold()?;
                right.fold()?;
                left.is_value() && right.is_value()
            }
            Expression::Cast(inner, _) => {
                inner.fold()?;
                inner.is_value()
            }
            Expression::Call(function, arguments) => {
                for a in arguments.iter_mut() {
                    a.fold()?;
                }
                *function == Function::Repeat && arguments.iter().all(Expression::is_value)
            }
            Expression::Value(_) | Expression::Param(_) | Expression::Column(_) => false,
        };
        if constant {
            *self = Expression::Value(self.value(&[], &mut NoEnvironment)?);
        }
        Ok(())
    }

    fn is_value(&self) -> bool {
        matches!(self, Expression::Value(_))
    }

    /// Its value for one row of the source.
    pub(super) fn value(&self, row: &[Value], environment: &mut impl Environment) -> Result<Value, ServerError> {
        Ok(match self {
            Expression::Value(value) => value.clone(),
            Expression::Param(_) => unreachable!("parameters are in place before a plan runs"),
            Expression::Column(index) => row[*index].clone(),
            Expression::Cast(inner, to) => inner.value(row, environment)?.cast(*to)?,
            Expression::Operator(operator, left, right) => {
                let (left, right) = (left.value(row, environment)?, right.value(row, environment)?);
                let (Value::Int(left), Value::Int(right)) = (left, right) else {
                    return Ok(Value::Null);
                };
                let result = match operator {
                    '+' => left + right,
                    '-' => left - right,
                    '*' => left * right,
                    _ if right == 0 => return Err(ServerError::error("22012", "division by zero")),
                    _ => left / right,
                };
                if i32::try_from(result).is_err() {
                    return Err(ServerError::error("22003", "integer out of range"));
                }
                Value::Int(result)
            }
            Expression::Call(function, arguments) => {
                let mut values = Vec::with_capacity(arguments.len());
                for argument in arguments {
                    values.push(argument.value(row, environment)?);
                }
                match (function, values.as_slice()) {
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
                    (Function::BackendPid, _) => Value::Int(environment.process_id().into()),
                    _ => Value::Null,
                }
            }
        })
    }
}
