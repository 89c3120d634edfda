//! The tables `numN`, whose only column has the type `int4` until ALTER TABLE changes it.

use super::error::ServerError;
use super::expression::Expression;
use super::session::Session;
use super::transaction::Shared;
use super::value::Type;
use std::collections::BTreeMap;
use std::rc::Rc;

/// The types of the columns that were changed, by the number of the table.
pub(super) type NumberTypes = BTreeMap<u64, Type>;

impl Session {
    /// The type of a table's column as this transaction sees it.
    pub(super) fn number_type(&self, shared: &Shared, table: u64) -> Type {
        let own = self.transaction.number_types.get(&table);
        *own.or_else(|| shared.number_types.get(&table)).unwrap_or(&Type::Int4)
    }

    pub(super) fn alter_number(&mut self, table: u64, of: Type) {
        Rc::make_mut(&mut self.transaction.number_types).insert(table, of);
    }

    pub(super) fn insert_number(&mut self, value: &Expression) -> Result<(), ServerError> {
        self.value(value, &[]).map(drop)
    }
}
