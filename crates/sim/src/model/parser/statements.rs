//! The statements, by their first word.

use super::{Parser, parse};
use crate::model::error::ServerError;
use crate::model::lexer::{Kind, tokens};
use crate::model::objects::Announcement;
use crate::model::statement::{Raise, SetTo, Source, Statement};

impl Parser {
    pub(super) fn statement(&mut self) -> Result<Statement, ServerError> {
        let start = self.at;
        let word = self.name()?;
        Ok(match word.as_str() {
            "select" => self.select()?,
            "insert" => self.insert()?,
            "alter" => self.alter_number()?,
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
            "declare" => self.declare()?,
            "fetch" => {
                let count = self.number().unwrap_or(1);
                self.expect("from")?;
                Statement::Fetch {
                    name: self.name()?,
                    count,
                }
            }
            "prepare" => self.prepare()?,
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
            other => match self.transaction_statement(other)? {
                Some(statement) => statement,
                None => self.session_statement(other, start)?,
            },
        })
    }

    /// A statement with this first word, if it begins, ends or nests transactions.
    fn transaction_statement(&mut self, word: &str) -> Result<Option<Statement>, ServerError> {
        Ok(Some(match word {
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
            _ => return Ok(None),
        }))
    }

    /// A statement with this first word about settings and objects of the session.
    fn session_statement(&mut self, word: &str, start: usize) -> Result<Statement, ServerError> {
        Ok(match word {
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
            "discard" => self.discard()?,
            "create" => self.create_temporary()?,
            "drop" => {
                self.expect("table")?;
                Statement::DropTable(self.name()?)
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
            _ => {
                self.at = start;
                return Err(self.syntax_error());
            }
        })
    }

    /// INSERT, after its first word.
    fn insert(&mut self) -> Result<Statement, ServerError> {
        self.expect("into")?;
        if let Some(table) = self.number_table() {
            self.expect("values")?;
            self.expect_symbol("(")?;
            let value = self.expression(&[])?;
            self.expect_symbol(")")?;
            return Ok(Statement::InsertNumber { table, value });
        }
        if self.keyword("later") {
            self.expect("values")?;
            self.expect_symbol("(")?;
            let key = self.expression(&[])?;
            self.expect_symbol(")")?;
            return Ok(Statement::InsertLater { key });
        }
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
        Ok(Statement::Insert { key, value })
    }

    /// DECLARE, after its first word.
    fn declare(&mut self) -> Result<Statement, ServerError> {
        let name = self.name()?;
        for word in ["cursor", "with", "hold", "for", "select"] {
            self.expect(word)?;
        }
        match self.select()? {
            // The rows of a cursor are made at once in the model, and those of the view are not.
            Statement::Select(select) if select.source != Source::PreparedStatements => {
                Ok(Statement::Declare { name, select })
            }
            _ => Err(ServerError::unmodelled("DECLARE of this query")),
        }
    }

    /// PREPARE, after its first word.
    fn prepare(&mut self) -> Result<Statement, ServerError> {
        let name = self.name()?;
        self.expect("as")?;
        let statement = Box::new(self.statement()?);
        match *statement {
            Statement::Select(_) | Statement::Insert { .. } | Statement::Update { .. } | Statement::Delete { .. } => {
                Ok(Statement::Prepare { name, statement })
            }
            _ => Err(self.syntax_error()),
        }
    }

    /// DISCARD, after its first word.
    fn discard(&mut self) -> Result<Statement, ServerError> {
        let kinds = [
            ("plans", "DISCARD PLANS"),
            ("sequences", "DISCARD SEQUENCES"),
            ("temp", "DISCARD TEMP"),
        ];
        match kinds.into_iter().find(|(word, _)| self.keyword(word)) {
            Some((_, tag)) => Ok(Statement::Discard(tag)),
            None => {
                self.expect("all")?;
                Ok(Statement::DiscardAll)
            }
        }
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
            end: body.chars().count() + 1,
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
}
