//! What belongs to a session: inspection of texts, restoration, probes, RESET, sequences, channels.

pub(crate) mod analysis;
pub(crate) mod bound;
pub(crate) mod catalog_reading;
pub(crate) mod catalogs;
pub(crate) mod channels;
pub(crate) mod definition_costs;
pub(crate) mod definitions;
pub(crate) mod function_plans;
pub(crate) mod inspection;
pub(crate) mod jobs;
pub(crate) mod known_code;
mod listing;
pub(crate) mod long_query;
pub(crate) mod misread;
pub(crate) mod probe;
pub(crate) mod probe_answer;
pub(crate) mod probed_settings;
pub(crate) mod replicas;
pub(crate) mod resetting;
pub(crate) mod restoration;
pub(crate) mod sequences;
pub(crate) mod suspicion;
pub(crate) mod traces;
