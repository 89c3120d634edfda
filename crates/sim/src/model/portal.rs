//! Portals.

use super::cursor::Cursor;
use super::execute::Plan;
use super::statement::Prepared;
use std::rc::Rc;

/// Whether a portal can run, and if not, with which error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PortalState {
    Ready,
    /// It has run and returns no rows, or has failed: 55000.
    Spent,
    /// Its transaction failed and its plan was released: 25P02.
    Released,
    /// Left by a Query that failed: PostgreSQL reads freed memory when it is executed.
    Dangling,
}

#[derive(Debug)]
pub(super) struct Portal {
    pub(super) prepared: Rc<Prepared>,
    pub(super) plan: Plan,
    /// The columns that are sent in binary.
    pub(super) binary: Vec<bool>,
    /// Level of the transaction it belongs to.
    pub(super) level_id: u32,
    pub(super) state: PortalState,
    /// It has not ended: a ROLLBACK of a failed transaction warns of it.
    pub(super) needs_cleanup: bool,
}

impl Portal {
    /// A portal that cannot run, because the statement failed before or after it was known to the portal.
    pub(super) fn unusable(prepared: Option<Rc<Prepared>>, level_id: u32, state: PortalState) -> Portal {
        let empty = || Prepared {
            statement: None,
            params: Vec::new(),
            columns: None,
            from_sql: false,
            is_of_pooler: false,
        };
        Portal {
            prepared: prepared.unwrap_or_else(|| Rc::new(empty())),
            plan: Plan::Empty,
            binary: Vec::new(),
            level_id,
            state,
            needs_cleanup: true,
        }
    }

    pub(super) fn cursor(&mut self) -> Option<&mut Cursor> {
        match &mut self.plan {
            Plan::Cursor(cursor) => Some(cursor),
            _ => None,
        }
    }
}
