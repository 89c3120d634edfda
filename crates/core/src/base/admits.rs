//! Statements after which a server may admit logins that it has refused.

use crate::base::pool_id::LoginFailure;

/// The SQLSTATE of a login to a database that does not exist.
pub(crate) const NO_SUCH_DATABASE: &str = "3D000";

/// A role that does not exist or may not log in, and a line of pg_hba.conf that refuses it (`+role` is for members).
const NOT_AUTHORIZED: &str = "28000";
/// A wrong password. A role that does not exist gets the same.
const WRONG_PASSWORD: &str = "28P01";
/// CONNECT or a right of `connect_query` is missing.
const NO_RIGHT: &str = "42501";
/// A startup parameter is refused, as `role` is if that role does not exist.
const BAD_VALUE: &str = "22023";
/// The database takes no connections.
const CLOSED_DATABASE: &str = "55000";

/// A statement that may make a server admit logins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Admits {
    CreateDatabase,
    AlterDatabase,
    CreateRole,
    AlterRole,
    Grant,
    GrantRole,
}

impl Admits {
    /// The statement that has this command tag.
    pub(crate) fn by_tag(tag: &[u8]) -> Option<Admits> {
        Some(match tag {
            b"CREATE DATABASE" => Admits::CreateDatabase,
            b"ALTER DATABASE" => Admits::AlterDatabase,
            b"CREATE ROLE" => Admits::CreateRole,
            b"ALTER ROLE" => Admits::AlterRole,
            b"GRANT" => Admits::Grant,
            b"GRANT ROLE" => Admits::GrantRole,
            _ => return None,
        })
    }

    /// Whether a login that was refused with this SQLSTATE may be admitted after the statement.
    pub(crate) fn may_undo(self, sqlstate: &str) -> bool {
        let undone: &[&str] = match self {
            Admits::CreateDatabase => &[NO_SUCH_DATABASE],
            Admits::AlterDatabase => &[NO_SUCH_DATABASE, CLOSED_DATABASE, NO_RIGHT],
            Admits::CreateRole => &[NOT_AUTHORIZED, WRONG_PASSWORD, BAD_VALUE],
            Admits::AlterRole => &[NOT_AUTHORIZED, WRONG_PASSWORD, BAD_VALUE, NO_RIGHT],
            Admits::Grant => &[NO_RIGHT],
            Admits::GrantRole => &[NOT_AUTHORIZED, NO_RIGHT],
        };
        undone.contains(&sqlstate)
    }

    /// Whether this failure may be over after the statement.
    pub(crate) fn may_end(self, failure: &LoginFailure) -> bool {
        let sqlstate = failure.sqlstate.as_deref();
        !failure.temporary && sqlstate.is_some_and(|sqlstate| self.may_undo(sqlstate))
    }
}
