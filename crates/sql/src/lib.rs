//! What the text of a statement does to the session it runs in.
//!
//! This crate reads SQL text and knows nothing of the protocol: no messages, no connections, no state. It answers two
//! questions, and is cheap for ordinary statements: Is this text, as a whole, one of the few statements that a pooler
//! must treat specially ([`classify`])? And what may it do to the session beyond its transaction ([`effects`])?
#![forbid(unsafe_code)]

mod bodies;
mod built_in;
mod called;
mod calls;
mod channels;
mod condensed;
mod database_ddl;
mod definitions;
pub mod effects;
mod encodings;
mod executing;
mod facts;
mod given;
mod harmless_calls;
mod harmless_names;
mod key_words;
mod known_names;
mod lexer;
mod literals;
mod moved_names;
mod names;
mod outdated;
mod passed_names;
mod prefilter;
mod read_under;
mod reading;
mod refusals;
mod returns;
mod scan;
mod search;
mod search_path;
mod session_reads;
mod set_config;
mod settings;
mod signals;
mod split;
pub mod statement;
mod trapping;
mod type_names;
mod validators;
mod verbs;

pub use bodies::{Body, Language, judge_body, may_create};
pub use called::called;
pub use calls::{UNREAD, effects_of_name, effects_of_own};
pub use channels::{
    channel_command, may_concern_channels, may_end_or_list_channels, may_listen, may_notify, may_unlisten, unlistened,
};
pub use condensed::Condensed;
pub use database_ddl::{database_needed_alone, may_need_database_alone};
pub use definitions::{is_definition, may_change_tables};
pub use effects::Effects;
pub use encodings::{is_converted, may_lack_characters};
pub use executing::{is_one_execute, only_executes};
pub use facts::{begins_code, has_constants, has_parameters, may_return_rows, setting_shown};
pub use given::is_given_as_text;
pub use key_words::{KeyWordNames, Needs};
pub use known_names::{KnownNames, Passed, word_of, words};
pub use lexer::IDENTIFIER_BYTES_MAX;
pub use literals::array_literal;
pub use outdated::{Outdated, Outdates, outdates};
pub use read_under::{READ_UNDER, is_read_under, reads_clock, reads_constants};
pub use reading::{class_of_read, cost_class};
pub use refusals::{Proof, Span, proof};
pub use returns::{Change, Returns};
pub use scan::{effects, encoding_hides_ascii, is_plain, may_hide_ascii};
pub use search::{between_quotes, contains, may_spell, possible_names};
pub use search_path::{SearchPath, may_name_schema};
pub use session_reads::reads_session;
pub use set_config::{SEED, setting_parameters};
pub use settings::{body_settings, constant_arguments, hidden_settings, is_askable, is_hidden};
pub use signals::{Signal, SignalCall, SignalTarget, is_signal, signal_call};
pub use split::{
    commits_prepared, deallocated, is_commit_prepared, leaves_block_open, may_end_block, may_end_with_deallocate_all,
    prepares_transaction, statements, statements_before_deallocate,
};
pub use statement::{Statement, classify};
pub use type_names::{casts_to_unknown, may_name_types, parameter_numbers};
pub use verbs::{begins_without_snapshot, belongs_to_session, is_unescaped_ascii, must_come_first};
