//! Conversations with the core in virtual time, each naming what it guards against.

mod rig;

mod catalog;
mod chains;
mod client_named;
mod console;
mod fair_queue;
mod flights;
mod hosts;
mod last_words;
mod limits;
mod listen;
mod long_names;
mod long_queries;
mod misbehaving;
mod names;
mod operating;
mod overload;
mod parameter_types;
mod parse_without_server;
mod peers;
mod pipelines;
mod plans;
mod prepared_statements;
mod refused_logins;
mod replication;
mod sequences;
mod server_keys;
mod session_state;
mod sharing;
mod sizing;
mod taking_over;
mod tls;
mod traces;
mod trust;
mod ways_in;
