//! From statements to the content of a prepared statement.

use super::error::ServerError;
use super::expression::Expression;
use super::objects::{HeldCursor, Temporary, missing_relation};
use super::rights;
use super::session::Session;
use super::settings::Settings;
use super::statement::{Column, Prepared, Select, Source, Statement};
use super::transaction::Shared;
use super::value::Type;
use super::views::{CHANNELS_COLUMNS, MADE_COLUMNS, REMAINS_COLUMNS, TIES_COLUMNS};
use std::collections::BTreeMap;
use std::rc::Rc;

/// The meaning of names when a statement is analysed.
struct Catalog<'a> {
    settings: &'a Settings,
    temporary: &'a Temporary,
    statements: &'a BTreeMap<Vec<u8>, Rc<Prepared>>,
    cursors: &'a BTreeMap<String, HeldCursor>,
    /// The type of the column of a table `numN`.
    number_type: &'a dyn Fn(u64) -> Type,
}

impl Session {
    /// Analyses a statement with the meanings that names have now.
    pub(super) fn analyse(
        &self,
        shared: &Shared,
        statement: Statement,
        declared: &[Option<Type>],
    ) -> Result<Prepared, ServerError> {
        let catalog = Catalog {
            settings: &self.settings,
            temporary: &self.transaction.temporary,
            statements: &self.statements,
            cursors: &self.cursors,
            number_type: &|table| self.number_type(shared, table),
        };
        analyse(statement, declared, &catalog)
    }
}

/// 42P01 where there is no such temporary table.
pub(super) fn temporary_table(all: &Temporary, name: &str) -> Result<(), ServerError> {
    match all.get(name) {
        Some(_) => Ok(()),
        None => Err(missing_relation(name)),
    }
}

/// Finds the types of parameters and columns.
fn analyse(
    mut statement: Statement,
    declared: &[Option<Type>],
    catalog: &Catalog<'_>,
) -> Result<Prepared, ServerError> {
    let mut params = declared.to_vec();
    if let Some(name) = statement.temporary_table() {
        temporary_table(catalog.temporary, name)?;
    }
    let columns = columns_of(&mut statement, &mut params, catalog)?;
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

/// The columns of a statement's rows, if it returns any.
fn columns_of(
    statement: &mut Statement,
    params: &mut Vec<Option<Type>>,
    catalog: &Catalog<'_>,
) -> Result<Option<Vec<Column>>, ServerError> {
    Ok(match statement {
        Statement::Select(select) => Some(analyse_select(select, params)?),
        Statement::CopyOut(select) => {
            analyse_select(select, params)?;
            None
        }
        Statement::Sleep { .. } => Some(vec![column("pg_sleep", Type::Void)]),
        Statement::Insert { key, value } => {
            wanted(key, Type::Int4, &[], params)?;
            wanted(value, Type::Text, &[], params)?;
            None
        }
        Statement::Update { value, key } => {
            wanted(value, Type::Text, &TABLE, params)?;
            if let Some(key) = key {
                wanted(key, Type::Int4, &TABLE, params)?;
            }
            None
        }
        Statement::Delete { key } => {
            if let Some(key) = key {
                wanted(key, Type::Int4, &TABLE, params)?;
            }
            None
        }
        Statement::Show(name) => Some(vec![column(&catalog.settings.name(name)?, Type::Text)]),
        Statement::InsertLater { key } => {
            wanted(key, Type::Int4, &[], params)?;
            None
        }
        Statement::InsertTemporary { value, .. } => {
            wanted(value, Type::Text, &[], params)?;
            None
        }
        Statement::InsertNumber { table, value } => {
            wanted(value, (catalog.number_type)(*table), &[], params)?;
            None
        }
        Statement::Declare { select, .. } => {
            analyse_select(select, params)?;
            None
        }
        Statement::Execute(name) => catalog
            .statements
            .get(name.as_bytes())
            .and_then(|prepared| prepared.columns.clone()),
        Statement::Fetch { name, .. } => catalog.cursors.get(name).map(|cursor| cursor.columns.clone()),
        Statement::Perform(e) => {
            e.resolve(None, &[], params)?;
            None
        }
        Statement::Ties => Some(TIES_COLUMNS.map(|name| column(name, Type::Bool)).to_vec()),
        Statement::Remains { .. } => Some(REMAINS_COLUMNS.map(|name| column(name, Type::Bool)).to_vec()),
        Statement::Channels => Some(CHANNELS_COLUMNS.map(|name| column(name, Type::Text)).to_vec()),
        Statement::Made => Some(MADE_COLUMNS.map(|(name, of_type)| column(name, of_type)).to_vec()),
        Statement::Vault => {
            rights::check(&catalog.settings.get("role")?)?;
            Some(vec![column("gold", Type::Text)])
        }
        Statement::CallChanging => Some(vec![column("changing", Type::Text)]),
        // Nobody asks for their columns.
        Statement::Position => Some(vec![column("", Type::Text); 2]),
        Statement::Objects | Statement::Sources => Some(vec![column("", Type::Text); 4]),
        Statement::Invalid(e) => return Err(e.clone()),
        _ => None,
    })
}

const TABLE: [Type; 2] = [Type::Int4, Type::Text];

fn column(name: &str, of: Type) -> Column {
    Column {
        name: name.into(),
        of,
        attribute: 0,
    }
}

fn wanted(e: &mut Expression, want: Type, columns: &[Type], params: &mut Vec<Option<Type>>) -> Result<(), ServerError> {
    let found = e.resolve(Some(want), columns, params)?;
    if found == want {
        return Ok(());
    }
    // Assignment casts int to text, and small numbers to any int; nothing else here.
    if want == Type::Text || [found, want].iter().all(|of| matches!(of, Type::Int4 | Type::Int8)) {
        *e = Expression::Cast(Box::new(e.clone()), Type::Text);
        return Ok(());
    }
    Err(ServerError::unmodelled("an expression of this type here"))
}

pub(super) fn analyse_select(select: &mut Select, params: &mut Vec<Option<Type>>) -> Result<Vec<Column>, ServerError> {
    let columns: &[Type] = match &select.source {
        Source::Nothing | Source::Temporary(_) => &[],
        Source::Series(..) => &TABLE[..1],
        Source::PreparedStatements => &TABLE[1..],
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
