//! Expressions: their types, constant folding, their values.

use super::error::ServerError;
use super::function::{Environment, Function};
use super::value::{Type, Value};

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

/// Constant folding, which knows only the arguments.
struct NoEnvironment;

impl Environment for NoEnvironment {
    fn current_setting(&mut self, _: &str, _: bool) -> Result<Value, ServerError> {
        unreachable!("not folded")
    }
    fn set_config(&mut self, _: &str, _: Option<&str>, _: bool) -> Result<Value, ServerError> {
        unreachable!("not folded")
    }
    fn is_made(&self, _: &str) -> bool {
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
    fn drawn(&self) -> Option<i64> {
        unreachable!("not folded")
    }
    fn set_drawn(&mut self, _: i64) {
        unreachable!("not folded")
    }
    fn signal(&mut self, _: i64) {
        unreachable!("not folded")
    }
    fn fold(&mut self, _: &str) {
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
                function.check_name(match arguments.first() {
                    Some(Expression::Value(Value::Text(text))) => Some(text),
                    _ => None,
                })?;
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
                function.call(&values, environment)?
            }
        })
    }
}
