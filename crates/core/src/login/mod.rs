//! Startup packets, and logins of clients and to servers: rules and state machines without a connection, a pooler or a
//! clock. `flow/logins` carries out what they decide.

pub(crate) mod admission;
pub(crate) mod arrivals;
pub(crate) mod backend_start;
pub(crate) mod cancel_keys;
pub(crate) mod client_login;
pub(crate) mod found_secrets;
pub(crate) mod kept_secrets;
pub(crate) mod login_step;
pub(crate) mod lookups;
pub(crate) mod membership;
pub(crate) mod method;
mod options;
pub(crate) mod process_ids;
pub(crate) mod rejection;
pub(crate) mod spelling;
pub(crate) mod startup;
pub(crate) mod trial;
pub(crate) mod welcome;
