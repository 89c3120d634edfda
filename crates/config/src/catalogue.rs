//! Every setting of section `[pgbouncer]` is one entry of this list. The struct that holds the values, SHOW CONFIG, the
//! documentation and the manual page are made from it.
//!
//! Entries are sorted by name, which is the order of SHOW CONFIG. The doc comment of an entry is its one-line help. To
//! change or add a setting, edit its entry and run `make docs`.

use std::time::Duration;

use crate::choices::{
    AuthType, FairBy, IoUringChoice, LinkChoice, PoolMode, SessionState, SessionStateProbe, SizingChoice, SslMode,
    SslNegotiation, SyslogFacility,
};
use crate::host::{ListenAddresses, UnixSocketDir};
use crate::setting::ChangeRule::{Reload, Restart};
use crate::setting::Scope::{Database, Global, Peer, User};
use crate::setting::Support::{AcceptedNoEffect, Full};
use crate::setting::{Group, Setting};
use crate::tls_ciphers::{EcdhCurves, Tls13Ciphers, TlsCiphers};
use crate::tls_protocols::TlsProtocols;
use crate::value::{AtMost, CheckQuery, CommaList, Flag, PipelineDepth, PoolSize, SettingValue};

macro_rules! catalogue {
    ($(
        #[doc = $help:literal]
        $name:ident: $type:ty {
            default: $default:expr,
            unit: $unit:literal,
            group: $group:ident,
            scopes: [$($scope:ident),+],
            change: $change:ident,
            support: $support:expr,
            help: $long_help:literal,
        }
    )+) => {
        /// The settings of section `[pgbouncer]`. `Default` gives every setting its catalogue default.
        #[derive(Clone, Debug, PartialEq)]
        pub struct GlobalSettings {
            $( #[doc = $help] pub $name: $type, )+
        }

        impl Default for GlobalSettings {
            fn default() -> GlobalSettings {
                GlobalSettings { $( $name: default_of::<$type>(stringify!($name), $default), )+ }
            }
        }

        /// Every setting of section `[pgbouncer]`, sorted by name.
        pub static CATALOGUE: &[Setting] = &[ $( Setting {
            name: stringify!($name),
            kind: <$type as SettingValue>::KIND,
            unit: $unit,
            default: $default,
            group: Group::$group,
            scopes: &[$($scope),+],
            change: $change,
            support: $support,
            help: $help,
            long_help: $long_help,
            set: |settings, text| {
                settings.$name = <$type as SettingValue>::parse(text)?;
                Ok(())
            },
            get: |settings| SettingValue::show(&settings.$name),
            copy: |to, from| to.$name.clone_from(&from.$name),
        }, )+ ];
    };
}

fn default_of<T: SettingValue>(name: &str, text: Option<&str>) -> T {
    match T::parse(text.unwrap_or_default()) {
        Ok(value) => value,
        // Every entry's default is parsed by the tests, so this is a mistake in this file.
        Err(mismatch) => unreachable!("default of {name}: expected {}", mismatch.expected),
    }
}

catalogue! {
    /// Database users who may run every command on the console.
    admin_users: CommaList {
        default: Some(""), unit: "", group: Console, scopes: [Global], change: Reload, support: Full,
        help: "User names separated by commas. They authenticate on database `pgbouncer` like anyone else. With `auth_type = any` every client is an administrator and the list is ignored. User `pgbouncer` on the Unix socket, from the account that the process runs under, is always an administrator, without a password.",
    }
    /// Whether to append the client's address to application_name.
    application_name_add_host: Flag {
        default: Some("0"), unit: "", group: Session, scopes: [Global], change: Reload, support: Full,
        help: "The pooler appends ` - address:port` to the `application_name` of a client's startup packet, so that a bad query in `pg_stat_activity` leads to the machine it came from. A later `SET application_name` is left alone.",
    }
    /// The database to run auth_query in.
    auth_dbname: Option<String> {
        default: None, unit: "", group: Authentication, scopes: [Global, Database], change: Reload, support: Full,
        help: "The name of an entry of [databases] (or one that `*` would serve). Unset: the query runs in the database that the client asks for, so a function that the query calls must exist in each database. The console's own `pgbouncer` cannot be named here.",
    }
    /// The file of user names and passwords.
    auth_file: Option<String> {
        default: None, unit: "", group: Authentication, scopes: [Global], change: Reload, support: Full,
        help: "See [The password file](#the-password-file). Relative names are relative to the working directory. The passwords are used both to check clients and to log in to servers. Most values of `auth_type` need this file or `auth_user`.",
    }
    /// The file of host-based authentication rules.
    auth_hba_file: String {
        default: Some(""), unit: "", group: Authentication, scopes: [Global], change: Reload, support: Full,
        help: "The rules of `auth_type = hba`: see [Host-based authentication](#host-based-authentication). Read at the start and by RELOAD. A file with a bad line, or without a rule, is refused as a whole: the process does not start, or the RELOAD fails and the old rules stay.",
    }
    /// The file of user name maps for HBA rules.
    auth_ident_file: Option<String> {
        default: None, unit: "", group: Authentication, scopes: [Global], change: Reload, support: Full,
        help: "Lines of `map system-user database-user`, as in pg_ident.conf, used by `map=` in HBA rules. A system user may be a regular expression behind a slash; `\\1` in the third column is what its first group matched. The third column may be `all` or a regular expression.",
    }
    /// LDAP options when auth_type is ldap.
    auth_ldap_options: Option<String> {
        default: None, unit: "", group: Authentication, scopes: [Global], change: Reload, support: Full,
        help: "The options of method `ldap`: see [LDAP](#ldap). An example: `ldapserver=dir.example.com ldaptls=1 ldapprefix=\"uid=\" ldapsuffix=\",ou=people,dc=example,dc=com\"`.",
    }
    /// The query that finds the secret of a user who is not in auth_file.
    auth_query: String {
        default: Some(crate::auth_query::DEFAULT),
        unit: "", group: Authentication, scopes: [Global, Database], change: Reload, support: Full,
        help: "The query gets the user name as `$1` and returns one row of name and secret. The default reads `pg_authid`, which only superusers may read. A SECURITY DEFINER function of your own with a fixed `search_path`, called by a role that may do nothing else, is better. Without `auth_dbname` the query runs in the database that the client asks for, and that database's owner chooses its search_path. So write a schema in front of each table, function, type and operator, as the default does (`OPERATOR(pg_catalog.=)`), in a schema that belongs to nobody else; `pgweir check` and the log warn about a query that does not. The query is used only where `auth_user` is set. It runs at each login of a user who is not in `auth_file`, as in PgBouncer, so that a changed or locked password counts at once; `auth_query_cache_time` changes that.",
    }
    /// How long a secret that auth_query has found is used for further logins.
    auth_query_cache_time: Duration {
        default: Some("0"), unit: "seconds", group: Authentication, scopes: [Global], change: Reload, support: Full,
        help: "0: each login asks PostgreSQL. A few seconds spare it the same question in a storm of logins, as after a restart of the applications. Until this time is over, a user can log in with a password that was changed, locked or has expired meanwhile; such a user still meets PostgreSQL's own answer where pgweir must open a new server connection. A secret is kept only after its user has logged in, for at most 10,000 pairs of user and database. It is forgotten when a login of that user fails, here or at a server, so that the login after the first failure asks PostgreSQL; when CREATE ROLE or ALTER ROLE passes through this process; and at RELOAD. While a secret is kept, the time that a login takes tells that its user has logged in recently.",
    }
    /// How clients prove who they are.
    auth_type: AuthType {
        default: Some("md5"), unit: "", group: Authentication, scopes: [Global], change: Reload,
        support: Full,
        help: "`scram-sha-256`: SCRAM; the file holds SCRAM verifiers or passwords.\n\n`md5`: an MD5 challenge, or SCRAM for users whose secret is a SCRAM verifier.\n\n`plain`: the password crosses the network in clear text.\n\n`trust`: no check, but the user must be known.\n\n`any`: no check, and the user name is ignored. Each database needs `user=`, and every client is an administrator of the console.\n\n`cert`: the client needs a verified TLS certificate whose common name is the user's name. It requires `client_tls_sslmode = verify-full`.\n\n`hba`: the rules of `auth_hba_file` choose the method for each connection.\n\n`pam`: the PAM modules of service `pgbouncer` check the password. Users need not be in `auth_file`.\n\n`ldap`: a directory checks the password, according to `auth_ldap_options`. Users need not be in `auth_file`.\n\nWith `plain`, `pam` and `ldap` the password crosses the network in clear text, unless the connection is encrypted.\n\nA RELOAD of a file that no longer names this setting keeps the running value.",
    }
    /// The role that runs auth_query, and asks about roles.
    auth_user: Option<String> {
        default: None, unit: "", group: Authentication, scopes: [Global, Database], change: Reload, support: Full,
        help: "If set, users who are not in `auth_file` are looked up by `auth_query` under this role, and PostgreSQL is asked who is a member of the roles that `auth_hba_file` names. The role's password comes from `auth_file`. If the file has none, the server must let the role in without a password.",
    }
    /// How long a database made from the * entry lives unused.
    autodb_idle_timeout: Duration {
        default: Some("3600"), unit: "seconds", group: Timeouts, scopes: [Global], change: Reload, support: Full,
        help: "After this time its pools and statistics are dropped. 0 keeps them.",
    }
    /// How long a cancel request may wait to be passed on.
    cancel_wait_timeout: Duration {
        default: Some("10"), unit: "seconds", group: Timeouts, scopes: [Global], change: Reload, support: Full,
        help: "A cancel request waits while its client's request waits for other work on the server to end. Its connection is closed when the cancel has been passed on, or after this time. 0 is off.",
    }
    /// How long a client may be idle outside a transaction.
    client_idle_timeout: Duration {
        default: Some("0"), unit: "seconds", group: Timeouts, scopes: [Global, User], change: Reload, support: Full,
        help: "After this time it is disconnected. The value should be larger than the lifetime of connections in the clients' own pools. In session pooling it does not end clients that have a server. 0 is off.",
    }
    /// How long a client may take to log in.
    client_login_timeout: Duration {
        default: Some("60"), unit: "seconds", group: Timeouts, scopes: [Global], change: Reload, support: Full,
        help: "It closes connections that never finish their login. Time in a pool's queue counts until the first server of the pool has let the pooler in; later it is limited by `query_wait_timeout`. 0 is off.",
    }
    /// TLS 1.3 cipher suites for clients.
    client_tls13_ciphers: Tls13Ciphers {
        default: None, unit: "", group: Tls, scopes: [Global], change: Reload, support: Full,
        help: "OpenSSL's names, separated by colons: `TLS_AES_256_GCM_SHA384`, `TLS_AES_128_GCM_SHA256`, `TLS_CHACHA20_POLY1305_SHA256`. Unset: all of them, in this order.",
    }
    /// The certificate authority that client certificates must come from.
    client_tls_ca_file: String {
        default: Some(""), unit: "", group: Tls, scopes: [Global], change: Reload, support: Full,
        help: "Needed by `client_tls_sslmode = verify-ca` and `verify-full`. With `allow`, `prefer` and `require` it is why clients are asked for a certificate: they need not have one, but one that cannot be verified is refused, and lines of `auth_hba_file` with `cert` or `clientcert` can be met.",
    }
    /// The pooler's certificate towards clients.
    client_tls_cert_file: String {
        default: Some(""), unit: "", group: Tls, scopes: [Global], change: Reload, support: Full,
        help: "A PEM file: the certificate, followed by those of intermediate authorities. RELOAD reads it again; existing connections keep the old one. If it cannot be read or used, the process does not start, or RELOAD fails and changes nothing.",
    }
    /// Cipher suites for clients with TLS 1.2 and older.
    client_tls_ciphers: TlsCiphers {
        default: Some("default"), unit: "", group: Tls, scopes: [Global], change: Reload, support: Full,
        help: "A cipher list as OpenSSL writes it, or one of the words `default`, `secure`, `compat`, `legacy`, `insecure`, `all`, `normal`, `fast`, which all mean the same: the six suites of TLS 1.2 that have forward secrecy and authenticated encryption (`ECDHE-ECDSA-` or `ECDHE-RSA-` with `AES256-GCM-SHA384`, `AES128-GCM-SHA256` or `CHACHA20-POLY1305`). There are no others. As with OpenSSL, a word for other suites, or for none, adds nothing; if no suite is left, the list is an error. OpenSSL's commands `@STRENGTH` and `@SECLEVEL=0` to `5` have no effect, others are errors. An empty value stands for `default`.",
    }
    /// Diffie-Hellman parameters for clients with TLS 1.2 and older.
    client_tls_dheparams: String {
        default: Some("auto"), unit: "", group: Tls, scopes: [Global], change: Reload, support: AcceptedNoEffect("no cipher suite of pgweir uses them"),
        help: "`auto`, `none` or `legacy`. All suites use elliptic curves.",
    }
    /// The elliptic curve for key exchange with clients.
    client_tls_ecdhcurve: EcdhCurves {
        default: Some("auto"), unit: "", group: Tls, scopes: [Global], change: Reload, support: Full,
        help: "`auto` (all of them), or names separated by colons: `X25519`, `prime256v1`, `secp384r1`.",
    }
    /// The private key of client_tls_cert_file.
    client_tls_key_file: String {
        default: Some(""), unit: "", group: Tls, scopes: [Global], change: Reload, support: Full,
        help: "A PEM file without a passphrase. Read at the same moments as `client_tls_cert_file`.",
    }
    /// TLS versions that clients may use.
    client_tls_protocols: TlsProtocols {
        default: Some("secure"), unit: "", group: Tls, scopes: [Global], change: Reload, support: Full,
        help: "Any of `tlsv1.0`, `tlsv1.1`, `tlsv1.2`, `tlsv1.3`, separated by commas or colons, or `secure` and `default` (1.2 and 1.3), `all`, `legacy` and `tlsv1` (all); `!` takes one out. pgweir speaks 1.2 and 1.3: one of them must be among the values, and the older ones have no effect.",
    }
    /// Whether clients may or must use TLS.
    client_tls_sslmode: SslMode {
        default: Some("disable"), unit: "", group: Tls, scopes: [Global], change: Reload, support: Full,
        help: "`disable`: requests for TLS are declined. `allow` and `prefer`: the client chooses. `require`: plain connections are refused. `verify-ca` and `verify-full`: the client must show a certificate that comes from `client_tls_ca_file`. All but `disable` need `client_tls_key_file` and `client_tls_cert_file`.\n\nWith `client_tls_ca_file`, no TLS session is resumed, so that each connection proves its certificate anew. Without it, clients may resume their sessions until the next RELOAD.\n\nUnix-domain sockets never use TLS, and are not refused. A client may ask for TLS by SSLRequest, or begin with TLS at once (`sslnegotiation=direct`, PostgreSQL 17), which needs the ALPN protocol `postgresql`. Over TLS, clients may log in with SCRAM-SHA-256-PLUS (`channel_binding=require`).",
    }
    /// The configuration file that RELOAD reads.
    conffile: Option<String> {
        default: None, unit: "", group: Process, scopes: [Global], change: Reload, support: Full,
        help: "By default the name given on the command line. If the file or SET names another one, the next RELOAD reads that, and so do later ones unless it names another itself.",
    }
    /// Server connections per pool, that is per database and user.
    default_pool_size: PoolSize {
        default: Some("20"), unit: "connections", group: Limits, scopes: [Global, Database, User, Peer], change: Reload, support: Full,
        help: "The key is `pool_size` in [databases], [users] and [peers]; a user's value overrides a database's. 0 is no limit. For [peers] it is the number of cancel requests under way.\n\n`auto` is pgweir's own: the pooler finds out, by experiment, how many servers of a host should work at once, and goes on trying. See docs/sizing.md and `pool_size_max`.",
    }
    /// How long a bare BEGIN may wait for its first statement before it takes a server.
    deferred_begin: Duration {
        default: Some("1"), unit: "seconds", group: Session, scopes: [Global], change: Reload, support: Full,
        help: "pgweir's own. In transaction pooling a bare `BEGIN` or `START TRANSACTION` is answered at once and takes no server until the transaction's first statement. BEGIN and that statement are sent to the server in one write. The one visible effect is that `now()` is taken later. After this many seconds the BEGIN is sent by itself. 0 is off.",
    }
    /// Whether to refuse the simple query protocol.
    disable_pqexec: Flag {
        default: Some("0"), unit: "", group: Session, scopes: [Global], change: Restart, support: Full,
        help: "The simple protocol allows several statements in one message, and some SQL injections need that. Clients that use the extended protocol throughout keep working; others do not.",
    }
    /// How long DNS answers are kept.
    dns_max_ttl: Duration {
        default: Some("15"), unit: "seconds", group: Dns, scopes: [Global], change: Reload, support: Full,
        help: "The time to live of the DNS records counts where it is shorter. Names in /etc/hosts, and names that only the system's resolver knows, are kept for this time. When the addresses of a name change, servers at the old ones are replaced when they become free.",
    }
    /// How long failures to find a name are kept.
    dns_nxdomain_ttl: Duration {
        default: Some("15"), unit: "seconds", group: Dns, scopes: [Global], change: Reload, support: Full,
        help: "",
    }
    /// How often to check the serial number of DNS zones.
    dns_zone_check_period: Duration {
        default: Some("0"), unit: "seconds", group: Dns, scopes: [Global], change: Reload, support: Full,
        help: "When the serial number changes, all names in the zone are looked up again. 0 is off.",
    }
    /// Whose use of servers is compared when clients wait for one.
    fair_by: FairBy {
        default: Some("client"), unit: "", group: Pooling, scopes: [Global], change: Reload, support: Full,
        help: "pgweir's own: see docs/fair-queue.md. While clients wait for a server, the one that has used the least server time, divided by its `weight`, is served next. `client`: each client counts by itself. `application`: clients with the same user and `application_name` count together, and inside that each by itself. `user`: all clients of a user count together, and inside that each by itself. `off`: first come, first served, as in PgBouncer.",
    }
    /// How long a client may be idle inside a transaction.
    idle_transaction_timeout: Duration {
        default: Some("0"), unit: "seconds", group: Timeouts, scopes: [Global, User], change: Reload, support: Full,
        help: "After this time client and server are disconnected, because an idle transaction keeps its server from all other clients. Two more cases count as idle in a transaction: the server has answered the messages before a Flush, and then the client sends no Sync, or sends only a part of its next message. 0 is off.",
    }
    /// Startup parameters to accept and not pass on.
    ignore_startup_parameters: CommaList {
        default: Some(""), unit: "", group: Session, scopes: [Global], change: Reload, support: Full,
        help: "Names separated by commas. pgweir accepts startup parameters of any name: a server checks them, and they follow the client. The parameters named here are dropped without an error, also in `options`; only `application_name` is kept as a parameter of its own. With `options` in the list, only these settings in `options` reach the session, as in PgBouncer: `application_name`, `client_encoding`, `DateStyle`, `IntervalStyle`, `search_path`, `standard_conforming_strings`, `TimeZone`. Leave the list empty unless a client sends a parameter that must not reach the server.",
    }
    /// How many bytes of a message's text are examined at once.
    inspect_bytes_max: u32 {
        default: Some("65536"), unit: "bytes", group: Session, scopes: [Global], change: Reload, support: AcceptedNoEffect("the number of bytes read is fixed: 64 kB of a Query, 1 MiB of a Parse"),
        help: "pgweir's own. A longer Query is judged by its text without constants. If that text is longer than 64 kB, or contains PREPARE or dollar quotes, the client keeps its server (`SHOW PINS`). A client also keeps its server after a Bind longer than 64 kB for a statement that takes the name of a setting from a parameter.",
    }
    /// Whether output goes to the kernel for all connections at once.
    io_uring: IoUringChoice {
        default: Some("auto"), unit: "", group: Network, scopes: [Global], change: Restart, support: Full,
        help: "pgweir's own. `auto`: up to 32 sends of a turn of the event loop are one system call (io_uring), if the kernel allows it and no seccomp filter restricts the process; a filter may end a process that tries. With many busy clients that was 9 to 37 % less CPU time for each transaction. `on`: if the kernel allows it. `off`: each send is a system call. The log says at the start which of them is the case. Kernels before 5.6, `kernel.io_uring_disabled`, and the default filters of Docker and of many systemd units do not allow it.",
    }
    /// A name for the process.
    job_name: String {
        default: Some("pgbouncer"), unit: "", group: Process, scopes: [Global], change: Restart, support: AcceptedNoEffect("only a Windows service uses it"),
        help: "",
    }
    /// Which of several idle servers a client gets.
    link: LinkChoice {
        default: Some("matching"), unit: "", group: Session, scopes: [Global], change: Reload, support: Full,
        help: "pgweir's own. `matching`: a server whose settings equal the client's, if there is one. `adversarial` is for tests: the server whose settings differ most from the client's; also, every statement counts as short (see `pipeline_depth`).",
    }
    /// Addresses to listen on for TCP connections.
    listen_addr: ListenAddresses {
        default: Some(""), unit: "", group: Listening, scopes: [Global], change: Restart, support: Full,
        help: "Addresses or host names separated by commas; `*` is every address. Empty: clients reach the pooler over its Unix socket only.",
    }
    /// The kernel's queue of connections not yet accepted.
    listen_backlog: u32 {
        default: Some("128"), unit: "connections", group: Listening, scopes: [Global], change: Restart, support: Full,
        help: "The argument of listen(2). The kernel drops connections beyond it, so raise it where many clients connect at once. It cannot exceed `net.core.somaxconn`.",
    }
    /// The port for TCP and in the name of the Unix socket.
    listen_port: u16 {
        default: Some("6432"), unit: "", group: Listening, scopes: [Global], change: Restart, support: Full,
        help: "",
    }
    /// Whether to log login attempts of clients, and connections to servers.
    log_connections: Flag {
        default: Some("1"), unit: "", group: Logging, scopes: [Global], change: Reload, support: Full,
        help: "",
    }
    /// Whether to log why connections of clients and servers end.
    log_disconnections: Flag {
        default: Some("1"), unit: "", group: Logging, scopes: [Global], change: Reload, support: Full,
        help: "",
    }
    /// Whether to log the errors that the pooler itself sends to clients.
    log_pooler_errors: Flag {
        default: Some("1"), unit: "", group: Logging, scopes: [Global], change: Reload, support: Full,
        help: "",
    }
    /// Whether to log statistics every stats_period.
    log_stats: Flag {
        default: Some("1"), unit: "", group: Logging, scopes: [Global], change: Reload, support: Full,
        help: "",
    }
    /// The log file.
    logfile: String {
        default: Some(""), unit: "", group: Logging, scopes: [Global], change: Reload, support: Full,
        help: "RELOAD opens it again, for log rotation. The log also goes to stderr unless `-q` or `-d` is given. The pooler does not wait for the reader of a pipe: lines without room are lost, and a later line says how many. A daemon needs `logfile`, `syslog` or `pidfile`.",
    }
    /// A notice sent to each client after it has logged in.
    login_notify_message: String {
        default: Some(""), unit: "", group: Session, scopes: [Global], change: Reload, support: Full,
        help: "Empty: none.",
    }
    /// Client connections in all.
    max_client_conn: u32 {
        default: Some("100"), unit: "connections", group: Limits, scopes: [Global], change: Reload, support: Full,
        help: "Clients that log in beyond it are refused with an error; clients of the console do not count. Connections that have not logged in yet may take the free places and 16 more. When still more come, the oldest of them is closed. Each client and each server connection takes a file descriptor, so the limit on open files (`ulimit -n`) must be above this number plus 100 plus the sizes of all pools.",
    }
    /// Client connections per database.
    max_db_client_connections: u32 {
        default: Some("0"), unit: "connections", group: Limits, scopes: [Global, Database], change: Reload, support: Full,
        help: "Connections beyond it are refused. 0 is no limit; in a line of [databases] 0 means the value here.",
    }
    /// Server connections per database, over all users.
    max_db_connections: u32 {
        default: Some("0"), unit: "connections", group: Limits, scopes: [Global, Database], change: Reload, support: Full,
        help: "Connections are counted for each entry of [databases], not for each database on the server. A pool that reaches this limit waits until another pool's idle server is closed. 0 is no limit; in a line of [databases] 0 means the value here.",
    }
    /// Notifications that may wait for one client.
    max_notification_backlog: u64 {
        default: Some("4194304"), unit: "bytes", group: Limits, scopes: [Global], change: Reload, support: Full,
        help: "pgweir's own: notifications wait for a client that listens through a listener connection while the client is in a transaction, or does not read from its connection. If more bytes of them wait, the client gets error 53400 and is disconnected. PostgreSQL has no right for NOTIFY, so every user of a database can send so many. Each client that listens may need this much memory, and twice as much if it begins a transaction while it does not read. Values below 4194304 count as 4194304.",
    }
    /// The largest message let through.
    max_packet_size: u64 {
        default: Some("2147483647"), unit: "bytes", group: Network, scopes: [Global], change: Reload, support: Full,
        help: "A message is one query or one row. If a client sends a longer message, or would get one from its server, it gets error 08P01 and is disconnected. Large messages pass through in constant memory, whatever the value.",
    }
    /// Prepared statements kept on each server connection.
    max_prepared_statements: u32 {
        default: Some("200"), unit: "statements", group: Session, scopes: [Global], change: Reload, support: Full,
        help: "In transaction and statement pooling, protocol-level prepared statements follow the client. If its server does not hold a statement, the pooler prepares it there, and closes the statement that has been unused for longest when there are too many. The value should be above the number of statements that your clients use often; each costs memory in every server process. 0 switches this off: then a client keeps its server as long as it has named statements there, and the unnamed one ends with its transaction.",
    }
    /// Client connections per user.
    max_user_client_connections: u32 {
        default: Some("0"), unit: "connections", group: Limits, scopes: [Global, User], change: Reload, support: Full,
        help: "Connections beyond it are refused. 0 is no limit; in a line of [users] 0 means the value here.",
    }
    /// Server connections per user, over all databases.
    max_user_connections: u32 {
        default: Some("0"), unit: "connections", group: Limits, scopes: [Global, User], change: Reload, support: Full,
        help: "The user is the one that the server knows: `user=` in [databases] if it is given, otherwise the client's user. 0 is no limit; in a line of [users] 0 means the value here.",
    }
    /// Server connections a pool keeps open even when idle.
    min_pool_size: u32 {
        default: Some("0"), unit: "connections", group: Limits, scopes: [Global, Database], change: Reload, support: Full,
        help: "With it the first clients after a quiet time do not wait for logins to servers. It is capped at the pool's size. If [databases] gives the user (`user=`) and the password is known, the connections are opened before any client comes. While no server can be opened and no client waits, this is tried every `server_login_retry`.",
    }
    /// Whether a Parse that would have to wait for a server is answered without one.
    parse_without_server: Flag {
        default: Some("1"), unit: "", group: Session, scopes: [Global], change: Reload, support: Full,
        help: "pgweir's own. While all servers of a pool are at work, the pooler itself answers a Parse that is followed only by Sync or Flush, if a server of the pool has prepared the same text before. So a program that prepares a statement while its other connections hold all servers does not wait for itself. If a table of the statement has been dropped or changed since, the client gets the error at its first Bind.",
    }
    /// This process's number among its peers.
    peer_id: u32 {
        default: Some("0"), unit: "", group: Process, scopes: [Global], change: Reload, support: Full,
        help: "From 1 to 16383; each process behind one load balancer needs another number, and [peers] lists all of them. A process that gets a cancel request for a client of another process passes the request on, at most three times. Processes of PgBouncer can be peers: their cancel keys have the same form. With a peer_id a cancel key has 45 random bits, also under protocol 3.2. 0 is off.",
    }
    /// The file that holds the process id while the pooler runs.
    pidfile: String {
        default: Some(""), unit: "", group: Process, scopes: [Global], change: Restart, support: Full,
        help: "A daemon needs it, unless it has `logfile` or `syslog`.",
    }
    /// How long a client that is pinned to its server may be idle.
    pin_idle_timeout: Duration {
        default: Some("0"), unit: "seconds", group: Timeouts, scopes: [Global], change: Reload, support: Full,
        help: "pgweir's own. A client whose session cannot be moved to another server (because of temporary tables, advisory locks or another reason that SHOW PINS lists) keeps its server from other clients even while it is idle. After this time the client is disconnected. 0 is no limit.",
    }
    /// How many clients' short transactions one server may have outstanding.
    pipeline_depth: PipelineDepth {
        default: Some("1"), unit: "", group: Session, scopes: [Global], change: Reload, support: Full,
        help: "pgweir's own: see docs/flights.md. While clients wait for a server, their short statements that only read are sent to a server that still works for other clients. The server answers them in order, and does not sleep in between. `1`: one client's statements at a time, as in other poolers. `2` to `64`: at most so many. `auto`: as many as keep the server from sleeping.",
    }
    /// PgBouncer's buffer size.
    pkt_buf: u32 {
        default: Some("4096"), unit: "bytes", group: Network, scopes: [Global], change: Restart, support: AcceptedNoEffect("the process has one buffer of a fixed size for all connections"),
        help: "",
    }
    /// How long a pool without clients and servers is kept.
    pool_idle_timeout: Duration {
        default: Some("0"), unit: "seconds", group: Timeouts, scopes: [Global], change: Reload, support: Full,
        help: "After this time the pool is dropped. Its servers are closed by `server_idle_timeout` and `server_lifetime`; those within `min_pool_size` stay, and the pool with them. 0 is off.",
    }
    /// When a server connection goes back to its pool.
    pool_mode: PoolMode {
        default: Some("session"), unit: "", group: Pooling, scopes: [Global, Database, User], change: Reload, support: Full,
        help: "`session`: when the client disconnects. `transaction`: when its transaction ends; this mode needs the fewest servers. `statement`: when each query ends; transactions of several statements are refused.\n\nA user's value overrides a database's, and that one overrides the value here. Replication connections are always pooled by session.",
    }
    /// The most servers of one host that `default_pool_size = auto` may have.
    pool_size_max: u32 {
        default: Some("0"), unit: "connections", group: Limits, scopes: [Global], change: Reload, support: Full,
        help: "pgweir's own. 0: what the server allows, which is its `max_connections` less the connections that it reserves for others. They never have more than that. All pools of a host whose size is `auto` share it.",
    }
    /// How long a query may run.
    query_timeout: Duration {
        default: Some("0"), unit: "seconds", group: Timeouts, scopes: [Global, User], change: Reload, support: Full,
        help: "After this time client and server are disconnected. It is meant for failing networks, and should be somewhat longer than PostgreSQL's `statement_timeout`, which ends a query without ending the connection. The time runs from the client's request until the client has taken the whole answer, and includes the wait for a server. While a client waits, also under PAUSE, only this value counts, not that of its user, and the error's text is `query_timeout`. So it also ends a COPY or a long message whose client does not send the rest, extended-protocol messages that no Sync follows, and a client that does not read its answer. 0 is off.",
    }
    /// How long a client waits for a server before it gets a notice.
    query_wait_notify: u32 {
        default: Some("5"), unit: "seconds", group: Timeouts, scopes: [Global], change: Reload, support: Full,
        help: "The NOTICE says that the client is in the queue. 0 is off.",
    }
    /// How long a client may wait for a server.
    query_wait_timeout: Duration {
        default: Some("120"), unit: "seconds", group: Timeouts, scopes: [Global, Database, User], change: Reload, support: Full,
        help: "After this time it gets an error and is disconnected, so that clients do not pile up in front of a dead or overloaded server. With `pipeline_depth` above 1 the wait behind another client's transaction counts, too. 0 is no limit, also in a line of [databases] or [users].",
    }
    /// How long clients may have to wait before some are refused.
    queue_target: Duration {
        default: Some("0"), unit: "seconds", group: Timeouts, scopes: [Global], change: Reload, support: Full,
        help: "pgweir's own: see docs/fair-queue.md. If the expected wait for a server stays above this time for 100 ms, the pooler refuses some of the clients that wait outside a transaction with error 53300; they stay connected. It refuses the newest clients of the group (see `fair_by`) that has the most clients waiting, and more of them the longer the overload lasts. Without it all clients may run into `query_wait_timeout`. Fractions are allowed: 0.2 is 200 ms. 0 is off.",
    }
    /// Server connections a pool may have beyond its size.
    reserve_pool_size: u32 {
        default: Some("0"), unit: "connections", group: Limits, scopes: [Global, Database, User], change: Reload, support: Full,
        help: "They are opened when a client has waited for `reserve_pool_timeout`. [databases] also takes the older key `reserve_pool`. 0 is none.",
    }
    /// How long a client waits before the reserve is used.
    reserve_pool_timeout: Duration {
        default: Some("5"), unit: "seconds", group: Timeouts, scopes: [Global], change: Reload, support: Full,
        help: "0 keeps the reserve unused.",
    }
    /// A resolv.conf to use in place of the system's.
    resolv_conf: String {
        default: Some(""), unit: "", group: Dns, scopes: [Global], change: Restart, support: Full,
        help: "With it, names are looked up in /etc/hosts and by DNS only. Otherwise the system's resolver (nsswitch.conf) is asked for names that these do not know.",
    }
    /// How many buffers of one connection PgBouncer handles in a row.
    sbuf_loopcnt: u32 {
        default: Some("5"), unit: "buffers", group: Network, scopes: [Global], change: Reload, support: AcceptedNoEffect("connections take turns by design"),
        help: "",
    }
    /// Iterations of SCRAM verifiers that the pooler makes itself.
    scram_iterations: u32 {
        default: Some("4096"), unit: "", group: Authentication, scopes: [Global], change: Reload, support: Full,
        help: "For users whose password is stored in plain text and who log in by SCRAM. More iterations make guessing more expensive, but also the first login of each user, and each failed login. At most 1,000,000.",
    }
    /// How long a released server counts as healthy without a check.
    server_check_delay: Duration {
        default: Some("30"), unit: "seconds", group: Servers, scopes: [Global], change: Reload, support: Full,
        help: "A server that has been idle for longer is checked with `server_check_query` before a client gets it. 0 checks always.",
    }
    /// The query that checks whether a server is alive.
    server_check_query: CheckQuery {
        default: Some("<empty>"), unit: "", group: Servers, scopes: [Global], change: Reload, support: Full,
        help: "The word `<empty>` is an empty query, the cheapest there is. An empty value switches checks off.",
    }
    /// How long connecting and logging in to a server may take.
    server_connect_timeout: Duration {
        default: Some("15"), unit: "seconds", group: Timeouts, scopes: [Global], change: Reload, support: Full,
        help: "",
    }
    /// Whether clients wait while no server can be reached.
    server_down_wait: Flag {
        default: Some("1"), unit: "", group: Servers, scopes: [Global], change: Reload, support: Full,
        help: "pgweir's own. While a server that has served before cannot be reached, clients that are logged in wait for it, `query_wait_timeout` at most. The pooler tries again at least once a second, as long as a client waits. 0: they get the error at once and are disconnected, as in PgBouncer. In either case a client that is logging in gets the error if its login needs an answer of the server. If the server refuses the login, all clients get the error.",
    }
    /// Whether RECONNECT and changed settings end sessions early.
    server_fast_close: Flag {
        default: Some("0"), unit: "", group: Servers, scopes: [Global], change: Reload, support: Full,
        help: "In session pooling, a server that is due to be closed is closed together with its client when the transaction ends, not when the session ends. In the other modes such a server is always closed when the transaction ends, and the client stays connected.",
    }
    /// How long a server may be idle before it is closed.
    server_idle_timeout: Duration {
        default: Some("600"), unit: "seconds", group: Servers, scopes: [Global], change: Reload, support: Full,
        help: "Servers within `min_pool_size` stay. 0 is off.",
    }
    /// How old a server connection may get.
    server_lifetime: Duration {
        default: Some("3600"), unit: "seconds", group: Servers, scopes: [Global, Database], change: Reload, support: Full,
        help: "An older connection is closed when it is not in use. The ages at which a pool's connections are closed are spread out. 0: each connection is closed after its first use. In a line of [databases] 0 means the value here.",
    }
    /// How long to wait after a server has refused a login.
    server_login_retry: Duration {
        default: Some("15"), unit: "seconds", group: Servers, scopes: [Global], change: Reload, support: Full,
        help: "During this time, clients of the pool get the server's error at once. A server that cannot be reached, or has no place or is not ready yet, is tried again after 0.25, 0.5 and then every second, or at shorter intervals if this setting is shorter: see `server_down_wait`. Use PAUSE around planned restarts.",
    }
    /// The query that cleans a server between sessions.
    server_reset_query: String {
        default: Some("DISCARD ALL"), unit: "", group: Servers, scopes: [Global], change: Reload, support: Full,
        help: "It runs when a client of a session pool leaves, outside any transaction, so it needs no ROLLBACK. Empty: none. The other modes do not use it unless `server_reset_query_always` is on.",
    }
    /// Whether server_reset_query runs in every mode.
    server_reset_query_always: Flag {
        default: Some("0"), unit: "", group: Servers, scopes: [Global], change: Reload, support: Full,
        help: "It costs a round trip for each transaction and loses the server's prepared statements each time. Its only use is to make applications that misuse transaction pooling fail always, not only sometimes.",
    }
    /// Whether to take idle servers in turn rather than the last used first.
    server_round_robin: Flag {
        default: Some("0"), unit: "", group: Servers, scopes: [Global], change: Reload, support: Full,
        help: "With the last used first, few servers are busy and their caches stay warm. Taking them in turn is better where several machines share one address.",
    }
    /// TLS 1.3 cipher suites for servers.
    server_tls13_ciphers: Tls13Ciphers {
        default: None, unit: "", group: Tls, scopes: [Global], change: Reload, support: Full,
        help: "OpenSSL's names, separated by colons: `TLS_AES_256_GCM_SHA384`, `TLS_AES_128_GCM_SHA256`, `TLS_CHACHA20_POLY1305_SHA256`. Unset: all of them, in this order.",
    }
    /// The certificate authority that server certificates must come from.
    server_tls_ca_file: String {
        default: Some(""), unit: "", group: Tls, scopes: [Global], change: Reload, support: Full,
        help: "For `server_tls_sslmode = verify-ca` and `verify-full`. Unset: the authorities of the system, which `SSL_CERT_FILE` and `SSL_CERT_DIR` in the environment replace.",
    }
    /// The pooler's certificate towards servers.
    server_tls_cert_file: String {
        default: Some(""), unit: "", group: Tls, scopes: [Global], change: Reload, support: Full,
        help: "A PEM file, shown to servers that ask for a client certificate. Needs `server_tls_key_file`.",
    }
    /// Cipher suites for servers with TLS 1.2 and older.
    server_tls_ciphers: TlsCiphers {
        default: Some("default"), unit: "", group: Tls, scopes: [Global], change: Reload, support: Full,
        help: "As `client_tls_ciphers`.",
    }
    /// The private key of server_tls_cert_file.
    server_tls_key_file: String {
        default: Some(""), unit: "", group: Tls, scopes: [Global], change: Reload, support: Full,
        help: "A PEM file without a passphrase.",
    }
    /// TLS versions to use with servers.
    server_tls_protocols: TlsProtocols {
        default: Some("secure"), unit: "", group: Tls, scopes: [Global], change: Reload, support: Full,
        help: "As `client_tls_protocols`.",
    }
    /// Whether server connections may or must use TLS.
    server_tls_sslmode: SslMode {
        default: Some("prefer"), unit: "", group: Tls, scopes: [Global], change: Reload, support: Full,
        help: "`disable`: never. `allow` and `prefer`: if the server can. `require`: always, without checking its certificate. `verify-ca`: its certificate must come from `server_tls_ca_file`, or from an authority of the system if that is not set. `verify-full`: the certificate must also carry the name or address of the host as the database's line has it. With `verify-ca` and `verify-full`, no TLS session is resumed, so that each connection proves its certificate anew.\n\nUnix-domain sockets never use TLS. Cancel requests use TLS where the server's connection does. SCRAM-SHA-256-PLUS is used where the server offers it. When a TLS setting for servers changes, servers are replaced when they become free. When only the content of a file changes, new connections use it after RELOAD, and existing ones stay.",
    }
    /// How TLS begins on server connections.
    server_tls_sslnegotiation: SslNegotiation {
        default: Some("postgres"), unit: "", group: Tls, scopes: [Global], change: Reload, support: Full,
        help: "pgweir's own; libpq's `sslnegotiation`. `postgres`: the pooler asks by an SSLRequest and waits for the answer. `direct`: TLS begins at once, which saves a round trip for each login, and proxies that only know TLS can pass it on. The server must choose the protocol `postgresql` by ALPN: PostgreSQL 17 and later do. Needs `server_tls_sslmode = require`, `verify-ca` or `verify-full`. Connections to peers always begin with an SSLRequest.",
    }
    /// A name for the Windows service.
    service_name: String {
        default: Some("pgbouncer"), unit: "", group: Process, scopes: [Global], change: Restart, support: AcceptedNoEffect("only a Windows service uses it"),
        help: "Another name for `job_name`.",
    }
    /// How much of a client's session follows it from server to server.
    session_state: SessionState {
        default: Some("full"), unit: "", group: Session, scopes: [Global], change: Reload, support: Full,
        help: "pgweir's own. `full`: everything that can be restored on another server follows the client; anything else pins the client to its server. `pgbouncer`: only the reported parameters and protocol-level prepared statements follow it, as with PgBouncer.",
    }
    /// After which transactions a server is asked what became of the session.
    session_state_probe: SessionStateProbe {
        default: Some("suspected"), unit: "", group: Session, scopes: [Global], change: Reload, support: Full,
        help: "pgweir's own, with `session_state = full`. `suspected`: after transactions whose text names something that outlives a transaction. `always`: after every transaction, for settings, temporary objects and cursors, so that effects of functions and triggers are seen as well. That costs the server a query of about half a millisecond for each transaction: `pgbench -S` with 16 clients on two processors ran at a seventh of the TPS. `always_locks`: after every transaction, and for advisory locks too, which reads the locks of all backends. The same test ran at a ninth of the TPS, and at less where many locks are held.",
    }
    /// Whether the pooler goes on looking for the best `auto` pool size.
    sizing: SizingChoice {
        default: Some("auto"), unit: "", group: Limits, scopes: [Global], change: Reload, support: Full,
        help: "pgweir's own, for pools whose size is `auto`: see docs/sizing.md. `auto`: the pooler tries other limits on servers at work for short times, and keeps the best. `hold`: the present limits stay as they are, and no others are tried; `SET sizing = 'hold'` on the console does this at once.",
    }
    /// Whether several processes may listen on the same port.
    so_reuseport: Flag {
        default: Some("0"), unit: "", group: Listening, scopes: [Global], change: Restart, support: Full,
        help: "Sets SO_REUSEPORT, with which Linux spreads connections over the processes. Cancel requests may then arrive at the wrong process: see `peer_id`.",
    }
    /// How often averages are computed and statistics logged.
    stats_period: u32 {
        default: Some("60"), unit: "seconds", group: Logging, scopes: [Global], change: Reload, support: Full,
        help: "",
    }
    /// Database users who may read statistics on the console.
    stats_users: CommaList {
        default: Some(""), unit: "", group: Console, scopes: [Global], change: Reload, support: Full,
        help: "User names separated by commas. They may use SHOW, except SHOW FDS.",
    }
    /// How long SUSPEND waits for buffers to empty.
    suspend_timeout: Duration {
        default: Some("10"), unit: "seconds", group: Timeouts, scopes: [Global], change: Reload, support: AcceptedNoEffect("no connection is dropped: after SUSPEND output is still written, and -R hands over the rest"),
        help: "Connections whose buffers are not empty by then are dropped.",
    }
    /// Whether to log to syslog.
    syslog: Flag {
        default: Some("0"), unit: "", group: Logging, scopes: [Global], change: Reload, support: Full,
        help: "",
    }
    /// The syslog facility.
    syslog_facility: SyslogFacility {
        default: Some("daemon"), unit: "", group: Logging, scopes: [Global], change: Reload, support: Full,
        help: "",
    }
    /// The name in syslog lines.
    syslog_ident: String {
        default: Some("pgbouncer"), unit: "", group: Logging, scopes: [Global], change: Reload, support: Full,
        help: "",
    }
    /// Whether to accept TCP connections only once they have sent data.
    tcp_defer_accept: u32 {
        default: Some("1"), unit: "", group: Network, scopes: [Global], change: Reload, support: Full,
        help: "Sets TCP_DEFER_ACCEPT on Linux: 1 waits up to 45 seconds, a larger number that many seconds.",
    }
    /// Whether TCP connections are kept alive.
    tcp_keepalive: Flag {
        default: Some("1"), unit: "", group: Network, scopes: [Global], change: Reload, support: Full,
        help: "The times are the system's unless `tcp_keepidle`, `tcp_keepintvl` and `tcp_keepcnt` are set.",
    }
    /// Keepalive probes before a connection counts as dead.
    tcp_keepcnt: AtMost<127> {
        default: Some("0"), unit: "probes", group: Network, scopes: [Global], change: Reload, support: Full,
        help: "At most 127, which is the largest value that Linux takes. 0 is the system's default.",
    }
    /// Quiet time before the first keepalive probe.
    tcp_keepidle: AtMost<32767> {
        default: Some("0"), unit: "seconds", group: Network, scopes: [Global], change: Reload, support: Full,
        help: "At most 32767, which is the largest value that Linux takes. 0 is the system's default.",
    }
    /// Time between keepalive probes.
    tcp_keepintvl: AtMost<32767> {
        default: Some("0"), unit: "seconds", group: Network, scopes: [Global], change: Reload, support: Full,
        help: "At most 32767, which is the largest value that Linux takes. 0 is the system's default.",
    }
    /// The kernel's socket buffers.
    tcp_socket_buffer: u32 {
        default: Some("0"), unit: "bytes", group: Network, scopes: [Global], change: Reload, support: Full,
        help: "0 is the system's default.",
    }
    /// How long sent data may stay unacknowledged.
    tcp_user_timeout: u32 {
        default: Some("0"), unit: "milliseconds", group: Network, scopes: [Global], change: Reload, support: Full,
        help: "Sets TCP_USER_TIMEOUT on Linux. 0 is the system's default.",
    }
    /// Further parameters that follow a client to each server.
    track_extra_parameters: CommaList {
        default: Some("IntervalStyle"), unit: "", group: Session, scopes: [Global], change: Restart, support: AcceptedNoEffect("every parameter that the server reports follows its client"),
        help: "For PgBouncer: names separated by commas. pgweir needs no list.",
    }
    /// How long a transaction may take.
    transaction_timeout: Duration {
        default: Some("0"), unit: "seconds", group: Timeouts, scopes: [Global, User], change: Reload, support: Full,
        help: "After this time client and server are disconnected. The time runs from the first request of the transaction (or of the extended-protocol messages up to Sync) until the server is free again. It includes the wait for a server and the time in which the server waits for the client. 0 is off.",
    }
    /// The directory of the Unix socket.
    unix_socket_dir: UnixSocketDir {
        default: Some("/tmp"), unit: "", group: Listening, scopes: [Global], change: Restart, support: Full,
        help: "The socket is `.s.PGSQL.PORT` there. The pooler also connects to servers there when a database has no `host=`. A name that starts with `@` is in Linux's abstract namespace. Empty: no Unix sockets.",
    }
    /// The group that the Unix socket belongs to.
    unix_socket_group: String {
        default: Some(""), unit: "", group: Listening, scopes: [Global], change: Restart, support: Full,
        help: "Empty: the group of the process.",
    }
    /// The permissions of the Unix socket.
    unix_socket_mode: u32 {
        default: Some("0777"), unit: "", group: Listening, scopes: [Global], change: Restart, support: Full,
        help: "Octal, as for chmod: mind the leading 0.",
    }
    /// The account to run under when started as root.
    user: Option<String> {
        default: None, unit: "", group: Process, scopes: [Global], change: Restart, support: Full,
        help: "",
    }
    /// How much more to log.
    verbose: u32 {
        default: Some("0"), unit: "", group: Logging, scopes: [Global], change: Reload, support: Full,
        help: "Each `-v` on the command line adds one.",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_sorted_and_unique() {
        assert!(CATALOGUE.windows(2).all(|pair| pair[0].name < pair[1].name));
    }

    #[test]
    fn every_default_is_a_value_and_prints_as_written() {
        let settings = GlobalSettings::default();
        for setting in CATALOGUE {
            let shown = (setting.get)(&settings);
            // An octal value is shown in decimal, as PgBouncer shows it.
            let want = if setting.name == "unix_socket_mode" {
                Some("511")
            } else {
                setting.default
            };
            assert_eq!(shown.as_deref(), want, "{}", setting.name);
        }
    }

    #[test]
    fn every_setting_can_be_found_has_help_and_is_global() {
        for (index, setting) in CATALOGUE.iter().enumerate() {
            assert_eq!(Setting::index(setting.name), Some(index));
            assert!(
                setting.help().ends_with('.') && setting.help().len() < 100,
                "{}",
                setting.name
            );
            assert!(setting.scopes.contains(&Global), "{}", setting.name);
            assert!(!setting.long_help.contains('|'), "{}", setting.name);
        }
        assert!(Setting::find("nonsense").is_none());
    }

    #[test]
    fn each_entry_sets_and_copies_its_own_field() {
        for setting in CATALOGUE {
            let text = match setting.kind {
                crate::Kind::Choice(words) => words.last().unwrap().to_string(),
                crate::Kind::Text if setting.name.ends_with("protocols") => "tlsv1.3".into(),
                crate::Kind::List if setting.name.ends_with("protocols") => "tlsv1.3".into(),
                crate::Kind::Text if setting.name.ends_with("tls13_ciphers") => "TLS_AES_128_GCM_SHA256".into(),
                crate::Kind::Text if setting.name.ends_with("ciphers") => "fast".into(),
                crate::Kind::Text if setting.name.ends_with("ecdhcurve") => "P-256".into(),
                crate::Kind::Text if setting.name == "pipeline_depth" => "auto".into(),
                crate::Kind::Text | crate::Kind::List => "other".into(),
                crate::Kind::Integer | crate::Kind::Flag | crate::Kind::Seconds => "7".into(),
            };
            let mut settings = GlobalSettings::default();
            (setting.set)(&mut settings, &text).unwrap();
            assert_eq!(
                (setting.get)(&settings).as_deref(),
                Some(text.as_str()),
                "{}",
                setting.name
            );
            let changed: Vec<_> = CATALOGUE
                .iter()
                .filter(|s| (s.get)(&settings) != (s.get)(&GlobalSettings::default()))
                .collect();
            assert_eq!(changed.iter().map(|s| s.name).collect::<Vec<_>>(), [setting.name]);
            let mut other = GlobalSettings::default();
            (setting.copy)(&mut other, &settings);
            assert_eq!(other, settings, "{}", setting.name);
        }
    }
}
