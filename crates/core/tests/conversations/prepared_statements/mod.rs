//! Prepared statements on shared servers: one conversation for each way in which other poolers got it wrong.

mod answered_by_the_pooler;
mod behind_a_set;
mod closing;
mod constants_read_again;
mod failed_segments;
mod one_statement;
mod other_settings;
mod parse_again;
mod plans_and_portals;
