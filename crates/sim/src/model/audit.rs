//! Which statement ran under which settings.
//!
//! Every statement of a simulated client contains a token that no other statement has. A session records the settings
//! under which it begins to run each of them, so that they can be checked even after the client has left.

use super::execute::Plan;
use super::expression::Expression;
use super::function::Function;
use super::settings::Snapshot;
use super::statement::Statement;
use super::value::Value;

/// The beginning of tokens.
const TOKEN: &str = "tok";

/// A statement that has begun to run.
#[derive(Debug, Clone)]
pub struct Ran {
    /// The first token in it.
    pub token: String,
    /// Under these settings.
    pub settings: Snapshot,
}

/// The tokens of statements in messages. A token that ends with `x` is that of a session, which settings have as values.
pub fn tokens_in(messages: &[u8]) -> impl Iterator<Item = String> {
    let begins = messages.windows(TOKEN.len()).enumerate();
    let begins = begins.filter(|(_, bytes)| *bytes == TOKEN.as_bytes()).map(|(at, _)| at);
    let tokens = begins.map(|at| {
        let token = messages[at..].iter().take_while(|byte| byte.is_ascii_alphanumeric());
        token.map(|byte| char::from(*byte)).collect()
    });
    tokens.filter(|token: &String| !token.ends_with('x'))
}

/// The first token in a statement that is ready to run.
pub(super) fn token(plan: &Plan) -> Option<&str> {
    match plan {
        Plan::Empty => None,
        Plan::Cursor(cursor) => cursor.expressions().find_map(in_expression),
        Plan::Utility(statement) => in_statement(statement),
    }
}

fn in_statement(statement: &Statement) -> Option<&str> {
    match statement {
        Statement::Insert { value, .. }
        | Statement::Update { value, .. }
        | Statement::InsertTemporary { value, .. } => in_expression(value),
        Statement::CopyOut(select) | Statement::Declare { select, .. } => select.items.iter().find_map(in_expression),
        Statement::Perform(e) => in_expression(e),
        Statement::DoExecute(statement) => in_statement(statement),
        Statement::Raise { text, .. } => in_text(text),
        _ => None,
    }
}

fn in_expression(e: &Expression) -> Option<&str> {
    match e {
        Expression::Value(Value::Text(text)) => in_text(text),
        Expression::Value(_) | Expression::Param(_) | Expression::Column(_) => None,
        Expression::Operator(_, left, right) => in_expression(left).or_else(|| in_expression(right)),
        Expression::Cast(inner, _) => in_expression(inner),
        // A restoration names the client's settings, but it is not the client's statement.
        Expression::Call(Function::SetConfig, _) => None,
        Expression::Call(_, arguments) => arguments.iter().find_map(in_expression),
    }
}

fn in_text(text: &str) -> Option<&str> {
    text.starts_with(TOKEN).then_some(text)
}
