//! Host-based authentication: files like PostgreSQL's pg_hba.conf and pg_ident.conf, and the line that decides about a
//! connection.
//!
//! This crate opens no file and knows no socket: bytes come through a [`Files`] of the caller's, and the facts of a
//! connection as a [`Connection`]. It decides which method a client must use, not whether the client passes.
//!
//! - [`Rules::read`] reads an HBA file with its includes; [`Rules::find`] is the first line that fits a connection,
//!   or says of which roles it must be known whether the user is a member.
//! - [`IdentMaps::read`] reads an ident file; [`IdentMaps::allows`] says whether a system user may be a database user.
//! - [`LdapOptions::parse`] reads the options behind method `ldap`, which `auth_ldap_options` takes, too.
//!
//! A file with one bad line is refused as a whole: without that line, clients could be let in or kept out against the
//! author's intention.
#![forbid(unsafe_code)]

mod address;
mod expression;
mod files;
mod ident;
mod ldap;
mod ldap_url;
mod method;
mod names;
mod problem;
mod rule;
mod rules;
mod token;

pub use address::{Interface, Machine};
pub use files::{Files, INCLUDE_DEPTH_MAX, INCLUDED_FILES_MAX};
pub use ident::IdentMaps;
pub use ldap::{LdapBind, LdapOptions, LdapScheme, LdapScope, SearchFilter};
pub use method::{ClientCert, Method};
pub use problem::{Level, Place, Problem};
pub use rule::Rule;
pub use rules::{Connection, Found, Origin, Rules};
