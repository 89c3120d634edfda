//! pgbouncer.ini and its companion files as typed settings: text in, settings and problems out.
//!
//! This crate opens no file, reads no environment and keeps no state. Bytes come through a [`FileSource`] that the
//! caller gives, and become a [`Config`]. The crate knows the meaning of PgBouncer's files and reports what is wrong in
//! them. It does not know how the pooler uses them.
//!
//! - [`load`] reads a configuration with its includes and its password file. All problems are found in one go.
//! - [`Config`] holds it; its lookups ([`Config::pool_size`] and the like) put user, database and global settings
//!   together by PgBouncer's precedence.
//! - [`CATALOGUE`] is the list of the settings of section `[pgbouncer]`; documentation and SHOW CONFIG come from it.
//! - [`Config::reload`] goes over to a newly loaded configuration and says what changed; [`Config::rows`] and
//!   [`Config::set`] are the console's SHOW CONFIG and SET.
#![forbid(unsafe_code)]

mod auth_file;
mod auth_query;
mod catalogue;
mod checks;
mod choices;
mod config;
mod conn_string;
mod console;
mod database;
mod destination_checks;
pub mod docs;
mod docs_logins;
pub mod docs_migrating;
mod file_source;
mod host;
mod idle_files;
mod ini;
mod line_key;
mod load;
mod login_files;
mod login_rules;
mod lookup_checks;
mod losses;
mod mismatch;
mod number;
mod peer;
mod places;
mod problem;
mod reload;
mod secret;
mod setting;
mod tls_checks;
mod tls_ciphers;
mod tls_protocols;
mod user;
mod value;

pub use auth_file::{SECRET_BYTES_MAX, USER_NAME_BYTES_MAX};
pub use catalogue::{CATALOGUE, GlobalSettings};
pub use choices::{
    AuthType, FairBy, IoUringChoice, LinkChoice, LoadBalanceHosts, PoolMode, SessionState, SessionStateProbe,
    SizingChoice, SslMode, SslNegotiation, SyslogFacility, TargetSessionAttrs,
};
pub use config::{CONSOLE_DATABASE, Config, off};
pub use console::ConfigRow;
pub use database::{DatabaseSettings, SERVER_PORT_DEFAULT};
pub use file_source::FileSource;
pub use host::{Host, ListenAddress, ListenAddresses, UnixSocketDir};
pub use ini::{INCLUDE_DEPTH_MAX, INCLUDED_FILES_MAX};
pub use line_key::LineKey;
pub use load::{Loaded, load, settings_as_far_as_read};
pub use login_rules::LoginRules;
pub use losses::{Holder, Holdings};
pub use mismatch::Mismatch;
pub use number::{SCRAM_ITERATIONS_MAX, SECONDS_MAX};
pub use peer::{PEER_ID_MAX, PEER_PORT_DEFAULT, PeerSettings};
pub use pgweir_hba as hba;
pub use problem::{Place, Problem, Severity, nearest};
pub use reload::{Changes, DatabaseChange, Reload, SettingChange};
pub use secret::Secret;
pub use setting::{ChangeRule, Group, Scope, Setting, Support};
pub use tls_ciphers::{EcdhCurves, Tls13Ciphers, TlsCiphers};
pub use tls_protocols::{TlsProtocols, TlsVersion};
pub use user::UserSettings;
pub use value::{AtMost, CheckQuery, CommaList, Flag, Kind, PIPELINE_DEPTH_MAX, PipelineDepth, PoolSize, SettingValue};
