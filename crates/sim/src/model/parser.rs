//! From tokens to statements, and from statements to the content of a prepared statement.

use super::error::ServerError;
use super::expression::{Expression, Function, Type, Value};
use super::lexer::{Kind, Token, tokens};
use super::objects::{Announcement, HeldCursor, Temporary, missing_relation};
use super::settings::Settings;
use super::statement::{Column, Prepared, Raise, Select, SetTo, Source, Statement};
use super::views::{CHANNELS_COLUMNS, MADE_COLUMNS, REMAINS_COLUMNS, TIES_COLUMNS, in_other_words, question};
use std::collections::BTreeMap;
use std::rc::Rc;

/// All statements of a query text; empty ones between semicolons leave nothing.
pub(super) fn parse(text: &[u8]) -> Result<Vec<Statement>, ServerError> {
    let text = std::str::from_utf8(text).map_err(|_| ServerError::unmodelled("text that is not UTF-8"))?;
    if let Some(question) = question(text) {
        return Ok(vec![question]);
    }
    let mut parser = Parser {
        tokens: tokens(in_other_words(text))?,
        at: 0,
    };
    let mut statements = Vec::new();
    loop {
        while parser.symbol(";") {}
        if parser.peek().is_none() {
            return Ok(statements);
        }
        match parser.statement() {
            Ok(statement) => statements.push(statement),
            // The parser refuses the whole text. Errors of the analyser come when the statement's turn comes.
            Err(e) if e.sqlstate == "42601" => return Err(e),
            Err(e) => {
                statements.push(Statement::Invalid(e));
                while parser.peek().is_some_and(|kind| *kind != Kind::Symbol(";")) {
                    parser.at += 1;
                }
            }
        }
        if parser.peek().is_some() && !parser.symbol(";") {
            return Err(parser.syntax_error());
        }
    }
}

/// The meaning of names when a statement is analysed.
pub(super) struct Catalog<'a> {
    pub(super) settings: &'a Settings,
    pub(super) temporary: &'a Temporary,
    pub(super) statements: &'a BTreeMap<Vec<u8>, Rc<Prepared>>,
    pub(super) cursors: &'a BTreeMap<String, HeldCursor>,
}

impl Catalog<'_> {
    /// 42P01 where there is no such temporary table.
    pub(super) fn temporary_table(&self, name: &str) -> Result<(), ServerError> {
        match self.temporary.get(name) {
            Some(_) => Ok(()),
            None => Err(missing_relation(name)),
        }
    }
}

/// Finds the types of parameters and columns.
pub(super) fn analyse(
    mut statement: Statement,
    declared: &[Option<Type>],
    catalog: &Catalog<'_>,
) -> Result<Prepared, ServerError> {
    let mut params = declared.to_vec();
    if let Some(name) = statement.temporary_table() {
        catalog.temporary_table(name)?;
    }
    let columns = match &mut statement {
        Statement::Select(select) => Some(analyse_select(select, &mut params)?),
        Statement::CopyOut(select) => {
            analyse_select(select, &mut params)?;
            None
        }
        Statement::Sleep { .. } => Some(vec![column("pg_sleep", Type::Void)]),
        Statement::Insert { key, value } => {
            wanted(key, Type::Int4, &[], &mut params)?;
            wanted(value, Type::Text, &[], &mut params)?;
            None
        }
        Statement::Update { value, key } => {
            wanted(value, Type::Text, &TABLE, &mut params)?;
            if let Some(key) = key {
                wanted(key, Type::Int4, &TABLE, &mut params)?;
            }
            None
        }
        Statement::Delete { key } => {
            if let Some(key) = key {
                wanted(key, Type::Int4, &TABLE, &mut params)?;
            }
            None
        }
        Statement::Show(name) => Some(vec![column(&catalog.settings.name(name)?, Type::Text)]),
        Statement::InsertTemporary { value, .. } => {
            wanted(value, Type::Text, &[], &mut params)?;
            None
        }
        Statement::Declare { select, .. } => {
            analyse_select(select, &mut params)?;
            None
        }
        Statement::Execute(name) => catalog
            .statements
            .get(name.as_bytes())
            .and_then(|prepared| prepared.columns.clone()),
        Statement::Fetch { name, .. } => catalog.cursors.get(name).map(|cursor| cursor.columns.clone()),
        Statement::Perform(e) => {
            e.resolve(None, &[], &mut params)?;
            None
        }
        Statement::Ties => Some(TIES_COLUMNS.map(|name| column(name, Type::Bool)).to_vec()),
        Statement::Remains => Some(REMAINS_COLUMNS.map(|name| column(name, Type::Bool)).to_vec()),
        Statement::Channels => Some(CHANNELS_COLUMNS.map(|name| column(name, Type::Text)).to_vec()),
        Statement::Made => Some(MADE_COLUMNS.map(|name| column(name, Type::Text)).to_vec()),
        Statement::Invalid(e) => return Err(e.clone()),
        _ => None,
    };
    let params = params
        .into_iter()
        .enumerate()
        .map(|(index, of)| {
            of.ok_or_else(|| {
                ServerError::error(
                    "42P18",
                    format!("could not determine data type of parameter ${}", index + 1),
                )
            })
        })
        .collect::<Result<_, _>>()?;
    Ok(Prepared {
        statement: Some(statement),
        params,
        columns,
        from_sql: false,
        is_of_pooler: false,
    })
}

/// The beginning of every temporary table's name, so that the name alone shows what it is.
const TEMPORARY_PREFIX: &str = "tmp";

const TABLE: [Type; 2] = [Type::Int4, Type::Text];

fn column(name: &str, of: Type) -> Column {
    Column {
        name: name.into(),
        of,
        attribute: 0,
    }
}

fn wanted(e: &mut Expression, want: Type, columns: &[Type], params: &mut Vec<Option<Type>>) -> Result<(), ServerError> {
    if e.resolve(Some(want), columns, params)? == want {
        return Ok(());
    }
    // Assignment casts int to text, and nothing else here.
    if want == Type::Text {
        *e = Expression::Cast(Box::new(e.clone()), Type::Text);
        return Ok(());
    }
    Err(ServerError::unmodelled("an expression of this type here"))
}

pub(super) fn analyse_select(select: &mut Select, params: &mut Vec<Option<Type>>) -> Result<Vec<Column>, ServerError> {
    let columns: &[Type] = match &select.source {
        Source::Nothing | Source::Temporary(_) => &[],
        Source::Series(..) => &TABLE[..1],
        Source::Table { .. } => &TABLE,
    };
    if let Source::Series(first, last) = &mut select.source {
        wanted(first, Type::Int4, &[], params)?;
        wanted(last, Type::Int4, &[], params)?;
    }
    let mut result = Vec::new();
    let of_table = matches!(select.source, Source::Table { .. });
    for (item, name) in select.items.iter_mut().zip(&select.names) {
        let attribute = match item {
            Expression::Column(index) if of_table => *index as i16 + 1,
            _ => 0,
        };
        let of = if select.count {
            Type::Int8
        } else {
            item.resolve(None, columns, params)?
        };
        result.push(Column {
            attribute,
            ..column(name, of)
        });
    }
    if let Source::Table { key: Some(key) } = &mut select.source {
        wanted(key, Type::Int4, &TABLE, params)?;
    }
    Ok(result)
}

struct Parser {
    tokens: Vec<Token>,
    at: usize,
}

impl Parser {
    fn peek(&self) -> Option<&Kind> {
        self.tokens.get(self.at).map(|t| &t.kind)
    }

    fn syntax_error(&self) -> ServerError {
        let message = match self.tokens.get(self.at) {
            Some(token) => format!("syntax error at or near \"{}\"", token.text),
            None => "syntax error at end of input".into(),
        };
        ServerError::error("42601", message)
    }

    fn symbol(&mut self, symbol: &str) -> bool {
        let found = matches!(self.peek(), Some(Kind::Symbol(s)) if *s == symbol);
        self.at += usize::from(found);
        found
    }

    fn keyword(&mut self, word: &str) -> bool {
        let found = matches!(self.peek(), Some(Kind::Word(w)) if w == word);
        self.at += usize::from(found);
        found
    }

    fn expect_symbol(&mut self, symbol: &str) -> Result<(), ServerError> {
        if self.symbol(symbol) {
            Ok(())
        } else {
            Err(self.syntax_error())
        }
    }

    fn expect(&mut self, word: &str) -> Result<(), ServerError> {
        if self.keyword(word) {
            Ok(())
        } else {
            Err(self.syntax_error())
        }
    }

    fn name(&mut self) -> Result<String, ServerError> {
        match self.peek() {
            Some(Kind::Word(word)) => {
                let word = word.clone();
                self.at += 1;
                Ok(word)
            }
            _ => Err(self.syntax_error()),
        }
    }

    fn statement(&mut self) -> Result<Statement, ServerError> {
        let start = self.at;
        let word = self.name()?;
        Ok(match word.as_str() {
            "select" => self.select()?,
            "insert" => {
                self.expect("into")?;
                let temporary = self.table_name()?;
                self.expect("values")?;
                self.expect_symbol("(")?;
                if let Some(name) = temporary {
                    let value = self.expression(&[])?;
                    self.expect_symbol(")")?;
                    return Ok(Statement::InsertTemporary { name, value });
                }
                let key = self.expression(&[])?;
                self.expect_symbol(",")?;
                let value = self.expression(&[])?;
                self.expect_symbol(")")?;
                Statement::Insert { key, value }
            }
            "update" => {
                self.table()?;
                self.expect("set")?;
                self.expect("v")?;
                self.expect_symbol("=")?;
                let value = self.expression(&["k", "v"])?;
                let key = self.where_key()?;
                Statement::Update { value, key }
            }
            "delete" => {
                self.expect("from")?;
                self.table()?;
                let key = self.where_key()?;
                Statement::Delete { key }
            }
            "copy" => self.copy()?,
            "begin" => {
                let _ = self.keyword("work") || self.keyword("transaction");
                for word in ["isolation", "level", "read", "committed", "not", "deferrable"] {
                    self.keyword(word);
                }
                Statement::Begin { tag: "BEGIN" }
            }
            "start" => {
                self.expect("transaction")?;
                Statement::Begin {
                    tag: "START TRANSACTION",
                }
            }
            "commit" | "end" => Statement::Commit { chain: self.chain()? },
            "abort" => Statement::Rollback { chain: self.chain()? },
            "rollback" => {
                let chain = self.chain()?;
                if self.keyword("to") {
                    self.keyword("savepoint");
                    Statement::RollbackTo(self.name()?)
                } else {
                    Statement::Rollback { chain }
                }
            }
            "savepoint" => Statement::Savepoint(self.name()?),
            "release" => {
                self.keyword("savepoint");
                Statement::Release(self.name()?)
            }
            "set" => self.set()?,
            "reset" => {
                if self.keyword("all") {
                    Statement::ResetAll
                } else {
                    Statement::Set {
                        name: self.dotted()?,
                        value: SetTo::Reset,
                        local: false,
                    }
                }
            }
            "show" => Statement::Show(self.dotted()?),
            "deallocate" => {
                self.keyword("prepare");
                if self.keyword("all") {
                    Statement::Deallocate(None)
                } else {
                    Statement::Deallocate(Some(self.name()?))
                }
            }
            "discard" => {
                let kinds = [
                    ("plans", "DISCARD PLANS"),
                    ("sequences", "DISCARD SEQUENCES"),
                    ("temp", "DISCARD TEMP"),
                ];
                match kinds.into_iter().find(|(word, _)| self.keyword(word)) {
                    Some((_, tag)) => Statement::Discard(tag),
                    None => {
                        self.expect("all")?;
                        Statement::DiscardAll
                    }
                }
            }
            "create" => self.create_temporary()?,
            "drop" => {
                self.expect("table")?;
                Statement::DropTable(self.name()?)
            }
            "declare" => {
                let name = self.name()?;
                for word in ["cursor", "with", "hold", "for", "select"] {
                    self.expect(word)?;
                }
                match self.select()? {
                    Statement::Select(select) => Statement::Declare { name, select },
                    _ => return Err(ServerError::unmodelled("DECLARE of this query")),
                }
            }
            "fetch" => {
                let count = self.number().unwrap_or(1);
                self.expect("from")?;
                Statement::Fetch {
                    name: self.name()?,
                    count,
                }
            }
            "close" => Statement::Close(if self.keyword("all") { None } else { Some(self.name()?) }),
            "listen" => Statement::Announce(Announcement::Listen(self.name()?)),
            "unlisten" => Statement::Announce(Announcement::Unlisten(if self.symbol("*") {
                None
            } else {
                Some(self.name()?)
            })),
            "notify" => {
                let channel = self.name()?;
                let payload = if self.symbol(",") {
                    self.string()?
                } else {
                    String::new()
                };
                Statement::Announce(Announcement::Notify { channel, payload })
            }
            "prepare" => {
                let name = self.name()?;
                self.expect("as")?;
                let statement = Box::new(self.statement()?);
                match *statement {
                    Statement::Select(_)
                    | Statement::Insert { .. }
                    | Statement::Update { .. }
                    | Statement::Delete { .. } => Statement::Prepare { name, statement },
                    _ => return Err(self.syntax_error()),
                }
            }
            "execute" => Statement::Execute(self.name()?),
            "vacuum" => {
                self.table()?;
                Statement::Vacuum
            }
            "load" => match self.string()?.as_str() {
                "plpgsql" => Statement::Load,
                other => return Err(ServerError::unmodelled(format!("library {other}"))),
            },
            "do" => self.raise()?,
            _ => {
                self.at = start;
                return Err(self.syntax_error());
            }
        })
    }

    fn chain(&mut self) -> Result<bool, ServerError> {
        let _ = self.keyword("work") || self.keyword("transaction");
        if !self.keyword("and") {
            return Ok(false);
        }
        let no = self.keyword("no");
        self.expect("chain")?;
        Ok(!no)
    }

    fn dotted(&mut self) -> Result<String, ServerError> {
        let mut name = self.name()?;
        while self.symbol(".") {
            name.push('.');
            name.push_str(&self.name()?);
        }
        Ok(name)
    }

    fn create_temporary(&mut self) -> Result<Statement, ServerError> {
        if !self.keyword("temp") && !self.keyword("temporary") {
            return Err(self.syntax_error());
        }
        self.expect("table")?;
        let name = self.name()?;
        self.expect_symbol("(")?;
        self.expect("v")?;
        self.expect("text")?;
        self.expect_symbol(")")?;
        let drop_on_commit = self.keyword("on");
        if drop_on_commit {
            self.expect("commit")?;
            self.expect("drop")?;
        }
        Ok(Statement::CreateTemporary { name, drop_on_commit })
    }

    fn number(&mut self) -> Option<u64> {
        let Some(Kind::Number(number)) = self.peek() else {
            return None;
        };
        let number = number.parse().ok()?;
        self.at += 1;
        Some(number)
    }

    fn string(&mut self) -> Result<String, ServerError> {
        let Some(Kind::String(text)) = self.peek() else {
            return Err(self.syntax_error());
        };
        let text = text.clone();
        self.at += 1;
        Ok(text)
    }

    /// The name of a temporary table, or none for `kv`.
    fn table_name(&mut self) -> Result<Option<String>, ServerError> {
        let start = self.at;
        let name = self.dotted()?;
        if name.starts_with(TEMPORARY_PREFIX) {
            return Ok(Some(name));
        }
        self.at = start;
        self.table().map(|()| None)
    }

    /// `kv`, or the analyser's error: nothing else can fail after this.
    fn table(&mut self) -> Result<(), ServerError> {
        let name = self.dotted()?;
        if name == "kv" {
            Ok(())
        } else {
            Err(ServerError::error(
                "42P01",
                format!("relation \"{name}\" does not exist"),
            ))
        }
    }

    fn where_key(&mut self) -> Result<Option<Expression>, ServerError> {
        if !self.keyword("where") {
            return Ok(None);
        }
        self.expect("k")?;
        self.expect_symbol("=")?;
        self.expression(&["k", "v"]).map(Some)
    }

    fn select(&mut self) -> Result<Statement, ServerError> {
        // The source decides what names mean, so it is read first.
        let start = self.at;
        if self.call("generate_series") {
            let (first, last) = self.series()?;
            return Ok(Statement::Select(Select {
                items: vec![Expression::Column(0)],
                names: vec!["generate_series".into()],
                source: Source::Series(first, last),
                count: false,
            }));
        }
        if self.call("pg_sleep") {
            let seconds = match self.peek() {
                Some(Kind::Number(number)) => number.parse().map_err(|_| self.syntax_error())?,
                _ => return Err(ServerError::unmodelled("pg_sleep of anything but a number")),
            };
            self.at += 1;
            self.expect_symbol(")")?;
            return Ok(Statement::Sleep { seconds });
        }
        let mut depth = 0;
        let mut source_at = None;
        for (index, token) in self.tokens[start..].iter().enumerate() {
            match &token.kind {
                Kind::Symbol("(") => depth += 1,
                Kind::Symbol(")") if depth == 0 => break,
                Kind::Symbol(")") => depth -= 1,
                Kind::Symbol(";") => break,
                Kind::Word(w) if w == "from" && depth == 0 => {
                    source_at = Some(start + index);
                    break;
                }
                _ => {}
            }
        }
        let mut source = Source::Nothing;
        let mut columns: Vec<String> = Vec::new();
        let mut end = None;
        if let Some(at) = source_at {
            self.at = at + 1;
            if self.call("generate_series") {
                let (first, last) = self.series()?;
                self.keyword("as");
                columns.push(self.name()?);
                source = Source::Series(first, last);
            } else {
                source = match self.table_name()? {
                    Some(name) => Source::Temporary(name),
                    None => {
                        columns.extend(["k".into(), "v".into()]);
                        let key = self.where_key()?;
                        if self.keyword("order") {
                            self.expect("by")?;
                            self.expect("k")?;
                        }
                        Source::Table { key }
                    }
                };
            }
            end = Some(self.at);
            self.at = start;
        }
        let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
        let mut select = Select {
            items: Vec::new(),
            names: Vec::new(),
            source,
            count: false,
        };
        if self.call("count") {
            self.expect_symbol("*")?;
            self.expect_symbol(")")?;
            select.count = true;
            select.items.push(Expression::Value(Value::Null));
            select.names.push("count".into());
        } else {
            loop {
                let item = self.expression(&columns)?;
                select.names.push(name_of(&item, &columns));
                select.items.push(item);
                if !self.symbol(",") {
                    break;
                }
            }
        }
        match (end, source_at) {
            (Some(end), Some(at)) if self.at == at => self.at = end,
            (None, _) => {}
            _ => return Err(self.syntax_error()),
        }
        Ok(Statement::Select(select))
    }

    /// `name(`, with or without pg_catalog in front.
    fn call(&mut self, name: &str) -> bool {
        let start = self.at;
        if self.keyword("pg_catalog") && !self.symbol(".") {
            self.at = start;
            return false;
        }
        if self.keyword(name) && self.symbol("(") {
            return true;
        }
        self.at = start;
        false
    }

    fn series(&mut self) -> Result<(Expression, Expression), ServerError> {
        let first = self.expression(&[])?;
        self.expect_symbol(",")?;
        let last = self.expression(&[])?;
        self.expect_symbol(")")?;
        Ok((first, last))
    }

    fn copy(&mut self) -> Result<Statement, ServerError> {
        if self.symbol("(") {
            self.expect("select")?;
            let Statement::Select(select) = self.select()? else {
                return Err(ServerError::unmodelled("COPY of this query"));
            };
            self.expect_symbol(")")?;
            self.expect("to")?;
            self.expect("stdout")?;
            return Ok(Statement::CopyOut(select));
        }
        self.table()?;
        self.expect("from")?;
        self.expect("stdin")?;
        Ok(Statement::CopyIn)
    }

    fn set(&mut self) -> Result<Statement, ServerError> {
        let local = self.keyword("local");
        let _ = !local && self.keyword("session");
        let name = self.dotted()?;
        if !self.symbol("=") && !self.keyword("to") && name != "role" {
            return Err(self.syntax_error());
        }
        if self.keyword("default") {
            return Ok(Statement::Set {
                name,
                value: SetTo::Default,
                local,
            });
        }
        let negative = self.symbol("-");
        let mut value = match self.peek() {
            Some(Kind::Word(v) | Kind::String(v) | Kind::Number(v)) => v.clone(),
            _ => return Err(self.syntax_error()),
        };
        self.at += 1;
        if negative {
            value.insert(0, '-');
        }
        while self.symbol(",") {
            value.push_str(", ");
            match self.peek() {
                Some(Kind::Word(v) | Kind::String(v)) => value.push_str(v),
                _ => return Err(self.syntax_error()),
            }
            self.at += 1;
        }
        Ok(Statement::Set {
            name,
            value: SetTo::Value(value),
            local,
        })
    }

    fn raise(&mut self) -> Result<Statement, ServerError> {
        let body = match self.peek() {
            Some(Kind::String(body)) => body.clone(),
            _ => return Err(self.syntax_error()),
        };
        self.at += 1;
        let mut inner = Parser {
            tokens: tokens(&body)?,
            at: 0,
        };
        if inner.keyword("begin") && inner.keyword("perform") {
            return Ok(Statement::Perform(inner.expression(&[])?));
        }
        if inner.keyword("execute") {
            let text = inner.string()?;
            let statement = parse(text.as_bytes())?.pop();
            let statement = statement.ok_or_else(|| ServerError::unmodelled("such DO blocks"))?;
            return Ok(Statement::DoExecute(Box::new(statement)));
        }
        let parts: Vec<Kind> = tokens(&body)?.into_iter().map(|t| t.kind).collect();
        let word = |index: usize| match parts.get(index) {
            Some(Kind::Word(w)) => w.as_str(),
            _ => "",
        };
        let severity = match (word(0), word(1), word(2)) {
            ("begin", "raise", "notice") => Raise::Notice,
            ("begin", "raise", "warning") => Raise::Warning,
            ("begin", "raise", "exception") => Raise::Exception,
            _ => return Err(ServerError::unmodelled("such DO blocks")),
        };
        match parts.get(3) {
            Some(Kind::String(text)) => Ok(Statement::Raise {
                severity,
                text: text.clone(),
            }),
            _ => Err(ServerError::unmodelled("such DO blocks")),
        }
    }

    fn expression(&mut self, columns: &[&str]) -> Result<Expression, ServerError> {
        let mut left = self.product(columns)?;
        loop {
            let operator = if self.symbol("+") {
                '+'
            } else if self.symbol("-") {
                '-'
            } else {
                return Ok(left);
            };
            left = Expression::Operator(operator, Box::new(left), Box::new(self.product(columns)?));
        }
    }

    fn product(&mut self, columns: &[&str]) -> Result<Expression, ServerError> {
        let mut left = self.cast(columns)?;
        loop {
            let operator = if self.symbol("*") {
                '*'
            } else if self.symbol("/") {
                '/'
            } else {
                return Ok(left);
            };
            left = Expression::Operator(operator, Box::new(left), Box::new(self.cast(columns)?));
        }
    }

    fn cast(&mut self, columns: &[&str]) -> Result<Expression, ServerError> {
        let mut inner = self.primary(columns)?;
        while self.symbol("::") {
            let to = match self.name()?.as_str() {
                "int" | "int4" | "integer" => Type::Int4,
                "text" => Type::Text,
                "bool" | "boolean" => Type::Bool,
                other => return Err(ServerError::unmodelled(format!("type {other}"))),
            };
            inner = Expression::Cast(Box::new(inner), to);
        }
        Ok(inner)
    }

    fn primary(&mut self, columns: &[&str]) -> Result<Expression, ServerError> {
        let kind = self.peek().cloned().ok_or_else(|| self.syntax_error())?;
        match kind {
            Kind::Number(number) => {
                let number: i64 = number.parse().map_err(|_| ServerError::unmodelled("fractions"))?;
                if i32::try_from(number).is_err() {
                    return Err(ServerError::unmodelled("numbers beyond int"));
                }
                self.at += 1;
                Ok(Expression::Value(Value::Int(number)))
            }
            Kind::String(text) => {
                self.at += 1;
                Ok(Expression::Value(Value::Text(text)))
            }
            Kind::Param(number) => {
                self.at += 1;
                Ok(Expression::Param(number))
            }
            Kind::Symbol("(") => {
                self.at += 1;
                let inner = self.expression(columns)?;
                self.expect_symbol(")")?;
                Ok(inner)
            }
            Kind::Word(word) => self.word(&word, columns),
            Kind::Symbol(_) => Err(self.syntax_error()),
        }
    }

    fn word(&mut self, word: &str, columns: &[&str]) -> Result<Expression, ServerError> {
        let start = self.at;
        self.at += 1;
        let mut word = word.to_string();
        if word == "pg_catalog" && self.symbol(".") {
            word = self.name()?;
        }
        if self.symbol("(") {
            let Some(function) = Function::named(&word) else {
                return Err(ServerError::unmodelled(format!("function {word}")));
            };
            let mut arguments = Vec::new();
            if !self.symbol(")") {
                loop {
                    arguments.push(self.expression(columns)?);
                    if !self.symbol(",") {
                        break;
                    }
                }
                self.expect_symbol(")")?;
            }
            return Ok(Expression::Call(function, arguments));
        }
        Ok(match word.as_str() {
            "null" => Expression::Value(Value::Null),
            "true" => Expression::Value(Value::Bool(true)),
            "false" => Expression::Value(Value::Bool(false)),
            "from" | "where" | "select" => {
                self.at = start;
                return Err(self.syntax_error());
            }
            name => match columns.iter().position(|c| *c == name) {
                Some(index) => Expression::Column(index),
                None => {
                    return Err(ServerError::error("42703", format!("column \"{name}\" does not exist")));
                }
            },
        })
    }
}

/// The name of a result column (`FigureColname`).
fn name_of(item: &Expression, columns: &[&str]) -> String {
    match item {
        Expression::Column(index) => columns[*index].into(),
        Expression::Call(function, _) => match function {
            Function::Repeat => "repeat",
            Function::CurrentSetting => "current_setting",
            Function::SetConfig => "set_config",
            Function::BackendPid => "pg_backend_pid",
            Function::NullIf => "nullif",
            Function::Lock => "pg_advisory_lock",
            Function::TryLock => "pg_try_advisory_lock",
            Function::XactLock => "pg_advisory_xact_lock",
            Function::Unlock => "pg_advisory_unlock",
            Function::UnlockAll => "pg_advisory_unlock_all",
        }
        .into(),
        Expression::Cast(inner, to) => match inner.as_ref() {
            Expression::Call(..) | Expression::Column(_) => name_of(inner, columns),
            _ => to.name().into(),
        },
        _ => "?column?".into(),
    }
}
