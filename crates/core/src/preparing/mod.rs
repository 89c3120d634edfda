//! Preparing again what a server does not hold, under whatever name it is needed.

pub(crate) mod lending;
pub(crate) mod own_names;
pub(crate) mod prepare_again;
pub(crate) mod replanning;
pub(crate) mod told_types;
pub(crate) mod untracked;
