//! From the command line to a running pooler, and to its end.

use crate::accept::Accepting;
use crate::activation;
use crate::configuration::ConfigurationFile;
use crate::connections::Connections;
use crate::control;
use crate::daemon::{self, Background};
use crate::dns::Resolver;
use crate::event_loop::{EventLoop, Parts};
use crate::inbox::{Message, inbox};
use crate::limits::{self, OpenFiles};
use crate::listener::{self, Listener};
use crate::log::Log;
use crate::pidfile::OwnPidFile;
use crate::privileges::drop_privileges;
use crate::service_manager::{Environment, ServiceManager};
use crate::settings::{LogSettings, Settings};
use crate::signals::{self, Interrupt};
use crate::start_error::StartError;
use crate::takeover::{self, Beginning, Succession};
use crate::tls::{TlsContexts, report_panics};
use crate::verifier::Verifier;
use mio::Poll;
use nix::unistd::geteuid;
use pgweir_config::{Config, Problem, Severity};
use pgweir_core::{ConnectionId, LogLevel, Predecessor, Surroundings, WallClock};
use std::collections::HashSet;
use std::io;
use std::os::fd::OwnedFd;
use std::time::{SystemTime, UNIX_EPOCH};

/// Called with the addresses that the pooler listens on.
pub type OnReady = Box<dyn FnOnce(&[String])>;

/// The options of the command line.
#[derive(Default)]
pub struct RunOptions {
    /// Path of the configuration file.
    pub config_file: String,
    /// `-d`: go into the background.
    pub daemon: bool,
    /// `-q`: no log lines on stderr.
    pub quiet: bool,
    /// `-v`: DEBUG lines.
    pub verbose: bool,
    /// `-u`: run as this system user; overrides the setting.
    pub user: Option<String>,
    /// `-R`: take over from a running process.
    pub reboot: bool,
    /// The effect of SIGINT and SIGTERM.
    pub interrupt: Interrupt,
    /// Called once clients can connect.
    pub on_ready: Option<OnReady>,
}

/// File descriptors that the process needs for itself: standard streams, event loop, files, listening sockets.
const OWN_DESCRIPTORS: u64 = 20;

/// Runs a pooler until it is told to end. Call it from the main thread, before there are other threads.
pub fn run(options: RunOptions) -> Result<(), StartError> {
    if options.daemon && !daemon::is_second() {
        return daemon::start_second();
    }
    if options.daemon {
        daemon::leave_session();
    }
    let given = activation::descriptors();
    let mut log = Log::new(!options.quiet, options.verbose);
    let file = ConfigurationFile::new(&options.config_file);
    let (config, warnings) = file
        .load()
        .map_err(|problems| refused(&options, &file, problems, &mut log))?;
    let settings = Settings::of(&config);
    let user = options.user.as_deref().unwrap_or(&settings.user);
    drop_privileges(user).map_err(|e| not_begun(e, &settings.log, &mut log))?;
    let has_log = !settings.log.logfile.is_empty() || settings.log.syslog;
    if options.daemon && settings.pidfile.is_empty() && !has_log {
        return Err(StartError::DaemonWithoutPidFile);
    }
    log.open(&settings.log)?;
    for warning in warnings {
        log.write(LogLevel::Warning, &warning.line());
    }
    let outcome = start(options, given, config, settings, &mut log);
    if let Err(e) = &outcome {
        // The caller prints the error on stderr.
        log.leave_stderr();
        log.write(LogLevel::Fatal, &e.log_line());
    }
    outcome
}

/// The configuration has errors. They are logged where it says, as far as it can be read, because nobody may read stderr.
fn refused(options: &RunOptions, file: &ConfigurationFile, problems: Vec<Problem>, log: &mut Log) -> StartError {
    let global = file.settings_as_far_as_read();
    let user = options.user.as_deref().or(global.user.as_deref());
    let has_user = drop_privileges(user.unwrap_or_default());
    let error = StartError::Configuration(problems);
    match has_user {
        Ok(()) => not_begun(error, &LogSettings::of(&global), log),
        Err(_) => error,
    }
}

/// Logs an error before the log is open. Root does not: the log file would be root's, and the next start could not open it.
fn not_begun(error: StartError, settings: &LogSettings, log: &mut Log) -> StartError {
    // The caller prints the error on stderr.
    log.leave_stderr();
    if !geteuid().is_root() && log.open(settings).is_ok() {
        let (before, last) = error.log_lines();
        for problem in before {
            let level = match problem.severity {
                Severity::Error => LogLevel::Error,
                Severity::Warning => LogLevel::Warning,
            };
            log.write(level, &problem.line());
        }
        log.write(LogLevel::Fatal, &last);
    }
    error
}

/// `given`: the descriptors of a service manager, or the error of taking them.
fn start(
    options: RunOptions,
    given: io::Result<Vec<OwnedFd>>,
    config: Config,
    settings: Settings,
    log: &mut Log,
) -> Result<(), StartError> {
    let given = given.map_err(StartError::Activation)?;
    let tls = TlsContexts::load(&config)?;
    let open_files = limits::raise_open_files();
    report_limits(log, &config, open_files);
    let poll = Poll::new()?;
    let (sender, inbox) = inbox(poll.registry())?;
    let reports = sender.clone();
    report_panics(move |text| reports.send(Message::TlsPanic(text)));
    let control = control::start(sender.clone())?;
    let resolver = Resolver::new(settings.dns.clone(), sender.clone())?;
    let verifier = Verifier::new(sender.clone());
    let mut connections = Connections::new(poll.registry().try_clone()?);
    // Other processes may send signals as soon as they see the pid file or the sockets.
    let mut caught = signals::catch()?;
    let mut beginning = Beginning::find(options.reboot, &config, log)?;
    let pidfile = OwnPidFile::begin(&settings, beginning.is_take_over(), log)?;
    let listeners = listeners(&settings, given, &mut beginning, log)?;
    let places: Vec<String> = listeners.iter().map(|l: &Listener| l.place.to_string()).collect();
    let mut begun = beginning.pooler(config, surroundings(open_files.now)?, log);
    let predecessor = begun.predecessor();
    let unwatched = begun.take_up(&mut connections);
    let mut accepting = Accepting::new(listeners, poll.registry())?;
    let mut succession = succession(&settings, &mut beginning, poll.registry(), log);
    let background = options.daemon.then(Background::prepare).transpose()?;
    if beginning.is_take_over() && caught.ask_for_end() {
        return Err(StartError::Interrupted);
    }
    caught.pass_on(options.interrupt, sender)?;
    // From here on no error may end this process: it has all connections.
    beginning.take_place(predecessor.is_some(), log)?;
    if beginning.is_take_over() {
        accepting.own(&settings, log);
        succession.own();
    }
    let _pidfile = pidfile.take_place(log);
    announce(&places, background, log);
    if let Some(on_ready) = options.on_ready {
        on_ready(&places);
    }
    let service_manager = tell_ready(beginning.environment(), log);
    let parts = Parts {
        poll,
        pooler: begun.pooler,
        connections,
        accepting,
        succession,
        resolver,
        verifier,
        inbox,
        control,
        service_manager,
        settings,
        tls,
        log: std::mem::replace(log, Log::new(false, false)),
        started: begun.started,
    };
    work(parts, predecessor, unwatched, log)
}

/// Runs the event loop to its end, and gives the log back. `predecessor`: the process that this one replaces, with the
/// connections that it has handed over.
fn work(
    parts: Parts,
    predecessor: Option<(Predecessor, HashSet<ConnectionId>)>,
    unwatched: Vec<ConnectionId>,
    log: &mut Log,
) -> Result<(), StartError> {
    let mut event_loop = EventLoop::new(parts);
    if let Some((predecessor, has)) = predecessor {
        event_loop.go_on(predecessor, &has, unwatched);
    }
    let outcome = event_loop.run();
    *log = event_loop.log;
    Ok(outcome?)
}

/// The default of `unix_socket_dir`.
const USUAL_SOCKET_DIR: &str = "/tmp";

/// The listening sockets. If a service manager has opened some (for this process, or for the earlier one), only these
/// are used. Otherwise those of the earlier process are used, and the missing ones are opened.
fn listeners(
    settings: &Settings,
    given: Vec<OwnedFd>,
    beginning: &mut Beginning,
    log: &mut Log,
) -> Result<Vec<Listener>, StartError> {
    let given = match beginning.is_take_over() {
        true => beginning.listeners().extract_if(.., |l| l.is_given).collect(),
        false => activation::sockets(given, settings.listen.port).map_err(StartError::Activation)?,
    };
    if !given.is_empty() {
        let is_usual = |dir: &String| dir == USUAL_SOCKET_DIR;
        let has_dir = !settings.listen.unix_socket_dir.as_ref().is_none_or(is_usual);
        for (name, is_set) in [
            ("listen_addr", !settings.listen.addresses.is_empty()),
            ("unix_socket_dir", has_dir),
        ] {
            if is_set {
                let text = format!("sockets passed from service manager, cf_{name} ignored");
                log.write(LogLevel::Warning, &text);
            }
        }
        return Ok(given);
    }
    listener::listen(&settings.listen, &settings.tcp, beginning.listeners(), log)
}

/// Says that clients can connect: in the log, and to the process that has started this one in the background.
fn announce(places: &[String], background: Option<Background>, log: &mut Log) {
    for place in places {
        log.write(LogLevel::Log, &format!("listening on {place}"));
    }
    log.write(
        LogLevel::Log,
        &format!("process up: pgweir {}", env!("CARGO_PKG_VERSION")),
    );
    if let Some(background) = background {
        background.tell_ready();
        log.leave_stderr();
    }
}

/// Opens the socket for a process that will replace this one. If that is not possible, everything else still works.
fn succession(settings: &Settings, beginning: &mut Beginning, registry: &mio::Registry, log: &mut Log) -> Succession {
    let Some(dir) = &settings.listen.unix_socket_dir else {
        return Succession::default();
    };
    let path = takeover::socket_path(dir, settings.listen.port);
    Succession::new(path.clone(), beginning.take_gate(), registry).unwrap_or_else(|e| {
        log.write(LogLevel::Warning, &takeover::cannot_wait(&path, &e));
        Succession::default()
    })
}

/// Tells the service manager that clients can connect. If its socket cannot be used, the pooler serves all the same.
fn tell_ready(environment: &Environment, log: &mut Log) -> ServiceManager {
    match ServiceManager::new(environment) {
        Ok(mut manager) => {
            manager.ready();
            manager
        }
        Err(e) => {
            log.write(
                LogLevel::Warning,
                &format!("could not notify the service manager: NOTIFY_SOCKET: {e}"),
            );
            ServiceManager::default()
        }
    }
}

fn report_limits(log: &mut Log, config: &Config, open_files: OpenFiles) {
    let clients = u64::from(config.global.max_client_conn);
    let expected = expected_descriptors(config);
    let raised = match open_files.given {
        given if given == open_files.now => String::new(),
        given => format!(", raised from {given}"),
    };
    let text = format!(
        "kernel file descriptor limit: {} (hard: {}{raised}); max_client_conn: {clients}, max expected fd use: {expected}",
        open_files.now, open_files.hard
    );
    log.write(LogLevel::Log, &text);
    if expected > open_files.now {
        let text = format!(
            "max_client_conn and pool sizes allow {expected} connections, but only {} files may be open (HINT: raise the \
             limit on open files, LimitNOFILE= or ulimit -n)",
            open_files.now
        );
        log.write(LogLevel::Warning, &text);
    }
}

/// The number of descriptors in use when the number of clients is at its limit, and every pool of the users known by
/// name is full.
fn expected_descriptors(config: &Config) -> u64 {
    let users = config.auth_users.len().max(1) as u64;
    let pools = config.databases.values().chain(&config.autodb).map(|database| {
        let (user, pools) = match &database.user {
            Some(user) => (user.as_str(), 1),
            None => ("", users),
        };
        let size = config.pool_size(database, user).map_or(0, u64::from);
        let reserve = config.reserve_pool_size(database, user);
        (size + u64::from(reserve)).saturating_mul(pools)
    });
    pools.fold(
        u64::from(config.global.max_client_conn) + OWN_DESCRIPTORS,
        u64::saturating_add,
    )
}

/// Facts that the core needs from outside.
fn surroundings(open_files_max: u64) -> Result<Surroundings, StartError> {
    Ok(Surroundings {
        seed: seed()?,
        wall: wall_clock(),
        own_uid: rustix::process::getuid().as_raw(),
        host_name: rustix::system::uname().nodename().to_string_lossy().into_owned(),
        open_files_max,
    })
}

fn wall_clock() -> WallClock {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    WallClock {
        unix_us: i64::try_from(since.as_micros()).unwrap_or(i64::MAX),
    }
}

/// Random bytes of the operating system.
fn seed() -> Result<[u8; 32], StartError> {
    let mut seed = [0; 32];
    let mut filled = 0;
    while filled < seed.len() {
        match rustix::rand::getrandom(&mut seed[filled..], rustix::rand::GetRandomFlags::empty()) {
            Ok(count) => filled += count,
            Err(rustix::io::Errno::INTR) => {}
            Err(e) => return Err(StartError::EventLoop(e.into())),
        }
    }
    Ok(seed)
}
