//! The settings for sockets, files and the log, taken from the configuration.

use crate::configuration::ConfigurationFile;
use pgweir_config::{Config, GlobalSettings, Holdings, IoUringChoice, ListenAddress, UnixSocketDir, off};
use std::time::Duration;

/// The part of the configuration that the runtime uses.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Settings {
    pub(crate) listen: ListenSettings,
    pub(crate) tcp: TcpSettings,
    pub(crate) dns: DnsSettings,
    pub(crate) log: LogSettings,
    /// The time in which clients must log in; `None` for no limit.
    pub(crate) login_wait: Option<Duration>,
    /// Path of the pid file; empty for none.
    pub(crate) pidfile: String,
    pub(crate) io_uring: IoUringChoice,
    /// What a process that takes over may not lose.
    pub(crate) holdings: Holdings,
    /// What the next RELOAD reads.
    pub(crate) file: ConfigurationFile,
    /// The system user to run as; empty to keep the present one.
    pub(crate) user: String,
}

/// Where to listen. This cannot change while running.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ListenSettings {
    pub(crate) addresses: Vec<ListenAddress>,
    pub(crate) port: u16,
    pub(crate) backlog: i32,
    pub(crate) so_reuseport: bool,
    /// A directory, or an abstract name that begins with `@`.
    pub(crate) unix_socket_dir: Option<String>,
    /// Access mode of the socket file.
    pub(crate) unix_socket_mode: u32,
    /// The group of the socket file; empty for the group of the process.
    pub(crate) unix_socket_group: String,
}

/// Options of TCP sockets; 0 leaves the system's value.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct TcpSettings {
    /// Seconds for which the kernel keeps a new connection back until its first bytes have come; 0 is off.
    pub(crate) defer_accept_seconds: u32,
    pub(crate) keepalive: bool,
    pub(crate) keepidle_seconds: u32,
    pub(crate) keepintvl_seconds: u32,
    pub(crate) keepcnt: u32,
    pub(crate) user_timeout_ms: u32,
    pub(crate) socket_buffer_bytes: usize,
}

/// How names are looked up, and how long answers are used.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct DnsSettings {
    pub(crate) max_ttl: Duration,
    pub(crate) nxdomain_ttl: Duration,
    /// How often the serial numbers of zones are looked at; `None` for never.
    pub(crate) zone_check_period: Option<Duration>,
    /// A file in the place of the system's resolv.conf, or empty. This cannot change while running.
    pub(crate) resolv_conf: String,
}

/// The destinations of log lines.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct LogSettings {
    /// Path of the log file; empty for none.
    pub(crate) logfile: String,
    pub(crate) syslog: bool,
    pub(crate) syslog_facility: String,
    pub(crate) syslog_ident: String,
    /// Above 0: DEBUG lines are written too.
    pub(crate) verbose: u32,
}

impl LogSettings {
    pub(crate) fn of(global: &GlobalSettings) -> Self {
        LogSettings {
            logfile: global.logfile.clone(),
            syslog: global.syslog.is_on(),
            syslog_facility: global.syslog_facility.word().to_owned(),
            syslog_ident: global.syslog_ident.clone(),
            verbose: global.verbose,
        }
    }
}

/// PgBouncer's meaning of `tcp_defer_accept = 1`.
const DEFER_ACCEPT_SECONDS: u32 = 45;

impl Settings {
    /// The settings of `config`.
    pub(crate) fn of(config: &Config) -> Self {
        let global = &config.global;
        Settings {
            listen: ListenSettings {
                addresses: global.listen_addr.addresses().to_vec(),
                port: global.listen_port,
                backlog: i32::try_from(global.listen_backlog).unwrap_or(i32::MAX),
                so_reuseport: global.so_reuseport.is_on(),
                unix_socket_dir: match &global.unix_socket_dir {
                    UnixSocketDir::Off => None,
                    UnixSocketDir::At(host) => Some(host.to_string()),
                },
                unix_socket_mode: global.unix_socket_mode,
                unix_socket_group: global.unix_socket_group.clone(),
            },
            tcp: TcpSettings {
                defer_accept_seconds: match global.tcp_defer_accept {
                    1 => DEFER_ACCEPT_SECONDS,
                    seconds => seconds,
                },
                keepalive: global.tcp_keepalive.is_on(),
                keepidle_seconds: global.tcp_keepidle.get(),
                keepintvl_seconds: global.tcp_keepintvl.get(),
                keepcnt: global.tcp_keepcnt.get(),
                user_timeout_ms: global.tcp_user_timeout,
                socket_buffer_bytes: global.tcp_socket_buffer as usize,
            },
            dns: DnsSettings {
                max_ttl: global.dns_max_ttl,
                nxdomain_ttl: global.dns_nxdomain_ttl,
                zone_check_period: off(global.dns_zone_check_period),
                resolv_conf: global.resolv_conf.clone(),
            },
            log: LogSettings::of(global),
            login_wait: off(global.client_login_timeout),
            io_uring: global.io_uring,
            holdings: config.holdings(),
            file: ConfigurationFile::new(global.conffile.as_deref().unwrap_or(&config.read_from)),
            pidfile: global.pidfile.clone(),
            user: global.user.clone().unwrap_or_default(),
        }
    }

    /// Uses the new values of settings that can change while running. The others need a restart and keep their values.
    pub(crate) fn take_changeable(&mut self, new: Settings) {
        let Settings {
            tcp,
            dns,
            log,
            login_wait,
            holdings,
            file,
            ..
        } = new;
        *self = Settings {
            tcp,
            dns,
            log,
            login_wait,
            holdings,
            file,
            ..self.clone()
        };
    }
}
