//! The console of a PgBouncer or pgweir: SHOW commands by simple queries, which is all that an older PgBouncer takes.

use crate::cache::extension::failed;
use crate::server::Server;
use crate::server::conninfo::Parameters;
use crate::{Error, Result};
use postgres::{Client, SimpleQueryMessage};
use std::collections::BTreeMap;

/// The database that is the console.
pub(crate) const DATABASE: &str = "pgbouncer";

/// A row of a console's table. Columns come and go with versions, so they are looked up by name.
pub(crate) type Row = BTreeMap<String, String>;

/// The console that a connection string or URI names. Its database need not be named.
pub(crate) fn server(console: &str) -> Result<Server> {
    of_parameters(Parameters::parse(console).map_err(Error::new)?)
}

/// The console with these parameters.
pub(crate) fn of_parameters(given: Parameters) -> Result<Server> {
    let named = given.get("dbname").is_some();
    let server = Server::new(given)?;
    Ok(if named { server } else { server.in_database(DATABASE) })
}

/// The rows of `SHOW what`.
pub(crate) fn show(client: &mut Client, what: &str) -> Result<Vec<Row>> {
    let messages = client
        .simple_query(&format!("SHOW {what}"))
        .map_err(|e| failed(&e).context(format!("console: SHOW {what}")))?;
    Ok(messages
        .iter()
        .filter_map(|message| match message {
            SimpleQueryMessage::Row(row) => Some(
                row.columns()
                    .iter()
                    .enumerate()
                    .map(|(i, column)| (column.name().to_owned(), row.get(i).unwrap_or_default().to_owned()))
                    .collect(),
            ),
            _ => None,
        })
        .collect())
}

/// A column; empty where it is null or missing.
pub(crate) fn text(row: &Row, column: &str) -> String {
    row.get(column).cloned().unwrap_or_default()
}

/// A column that is a number.
pub(crate) fn number(row: &Row, column: &str) -> Option<u64> {
    row.get(column)?.parse().ok()
}
