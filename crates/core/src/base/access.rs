//! What a console user may do.

/// What a console user may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, pgweir_freeze::Freeze)]
pub(crate) enum Access {
    /// Everything.
    Admin,
    /// SHOW, except secrets.
    Stats,
}
