//! Where the settings stand in the files.

use crate::problem::Place;
use std::collections::BTreeMap;

/// The places of settings in the files, for problems that are found later.
#[derive(Default)]
pub(crate) struct Places {
    pub settings: BTreeMap<&'static str, Place>,
    pub databases: BTreeMap<String, Place>,
    pub users: BTreeMap<String, Place>,
    pub peers: BTreeMap<u32, Place>,
    /// The first line `[databases]`.
    pub databases_section: Option<Place>,
    /// Values of 0 in `[databases]` and `[users]` that stand for the global setting of that name.
    pub inherited: Vec<(Place, &'static str)>,
}
