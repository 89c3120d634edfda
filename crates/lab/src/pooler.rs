//! A pooler in front of the server, for the time of a run: the same program, as another process.

use crate::certificate::Certificate;
use crate::server::Server;
use crate::throwaway::{give_to, launched, unprivileged_user};
use crate::{Error, Result};
use pgweir_maths::{PoolInputs, pool_size};
use std::fs;
use std::io::Read;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Stdio};
use std::thread;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// The user that clients of the pooler log in as.
const USER: &str = "pgweir_lab";

/// The name under which the database has a second pool, of one server, if the settings ask for it.
const OWN_POOL: &str = "pgweir_lab_own_pool";

/// Its files.
const CONFIGURATION: &str = "pgweir.ini";
const CERTIFICATE: &str = "tls.crt";
const KEY: &str = "tls.key";

/// The time that it has to start listening, and to end.
const START_MAX: Duration = Duration::from_secs(20);

/// The time between two checks whether it listens.
const LOOK_INTERVAL: Duration = Duration::from_millis(10);

/// Open files besides those of clients and servers.
const SPARE_FILES: u64 = 64;

/// The settings of the pooler.
#[derive(Debug, Clone)]
pub struct PoolerSettings {
    /// Server connections; the most of them, if the pooler finds out how many.
    pub pool_size: u32,
    /// The pooler finds out by experiment how many servers should work: `default_pool_size = auto`.
    pub finds_size: bool,
    /// The largest number of client connections.
    pub clients_max: u32,
    /// How clients prove who they are, with a password that is made for the run: an `auth_type`, such as `plain`.
    pub auth_type: &'static str,
    /// Whether clients use TLS. Towards the server it is used as that server's sslmode says.
    pub tls: bool,
    /// `session`, `transaction` or `statement`.
    pub pool_mode: &'static str,
    /// Whether the server's database has a second pool, of one server, which [`Pooler::server_by_own_pool`] uses.
    pub own_pool: bool,
}

/// Servers of a pool on this machine, where the user does not say.
pub fn pool_size_here() -> u32 {
    let cores = thread::available_parallelism()
        .ok()
        .and_then(|cores| u32::try_from(cores.get()).ok());
    let inputs = PoolInputs {
        cores: cores.or(Some(1)),
        spindles: 1,
        measured: None,
    };
    pool_size(&inputs).map_or(1, |sized| sized.value)
}

impl PoolerSettings {
    /// A pool of this many servers for this many clients, in transaction mode.
    pub fn new(pool_size: u32, clients_max: u32) -> Self {
        PoolerSettings {
            pool_size,
            finds_size: false,
            clients_max,
            auth_type: "plain",
            tls: false,
            pool_mode: "transaction",
            own_pool: false,
        }
    }
}

/// A running pooler. It is ended and removed when dropped.
#[derive(Debug)]
pub struct Pooler {
    process: Child,
    /// Its configuration file. Only its user may read it, because it may contain a password.
    folder: TempDir,
    port: u16,
    password: String,
    tls: bool,
}

impl Pooler {
    /// Starts one in front of `server` on a free port of loopback.
    pub fn start(server: &Server, settings: &PoolerSettings) -> Result<Self> {
        crate::machine::raise_open_files(
            u64::from(settings.clients_max) + u64::from(settings.pool_size) + SPARE_FILES,
        )?;
        // Like PgBouncer, it refuses to run as root.
        let user = unprivileged_user()?;
        let folder = tempfile::Builder::new().prefix("pgweir-lab-pooler-").tempdir()?;
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port();
        let password = random_password()?;
        let mut files = vec![
            (CONFIGURATION, configuration(server, settings, port, folder.path())?),
            ("userlist.txt", format!("\"{USER}\" \"{password}\"\n")),
        ];
        if settings.tls {
            let made = Certificate::make()?;
            files.extend([(CERTIFICATE, made.certificate), (KEY, made.key)]);
        }
        for (name, text) in files {
            let path = folder.path().join(name);
            fs::write(&path, text)?;
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600))?;
            give_to(user.as_ref(), &path)?;
        }
        give_to(user.as_ref(), folder.path())?;
        let program = std::env::current_exe()?;
        let mut command = launched("", program.as_os_str())?;
        if let Some(user) = &user {
            command.arg("--user").arg(&user.name);
        }
        command.arg("--quiet").arg(folder.path().join(CONFIGURATION));
        // Ctrl-C at the terminal is meant for this process. The pooler ends because this process ends it.
        command.process_group(0).stdin(Stdio::null()).stdout(Stdio::null());
        command.stderr(fs::File::create(folder.path().join("stderr"))?);
        let process = command
            .spawn()
            .map_err(|e| Error::new(format!("could not start the pooler: {e}")))?;
        let mut pooler = Pooler {
            process,
            folder,
            port,
            password,
            tls: settings.tls,
        };
        pooler.wait_until_it_listens()?;
        Ok(pooler)
    }

    /// The server, reached through the pooler.
    pub fn server(&self, behind: &Server) -> Result<Server> {
        let mut parameters = behind.only_of_session();
        let certificate = self.folder.path().join(CERTIFICATE);
        if self.tls {
            let file = certificate.to_string_lossy();
            parameters.set("sslrootcert", &file).map_err(Error::new)?;
        }
        let sslmode = if self.tls { "verify-ca" } else { "disable" };
        for (name, value) in [
            ("host", "127.0.0.1"),
            ("port", &self.port.to_string()),
            ("user", USER),
            ("password", &self.password),
            ("sslmode", sslmode),
            ("gssencmode", "disable"),
        ] {
            parameters.set(name, value).map_err(Error::new)?;
        }
        Server::new(parameters)
    }

    /// The server, reached through the second pool, which the other clients do not use. Only if the settings ask for
    /// it.
    pub fn server_by_own_pool(&self, behind: &Server) -> Result<Server> {
        Ok(self.server(behind)?.in_database(OWN_POOL))
    }

    /// The id of its process, for measuring memory and processor time.
    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Its resident memory; `None` if the system does not tell.
    pub fn memory_bytes(&self) -> Option<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid())).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
        let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
        Some(kilobytes * 1024)
    }

    /// Its port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// A connection to its admin console, which supports only the simple protocol.
    pub fn console(&self, behind: &Server) -> Result<Server> {
        Ok(self.server(behind)?.in_database("pgbouncer"))
    }

    fn wait_until_it_listens(&mut self) -> Result<()> {
        let started = Instant::now();
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, self.port));
        loop {
            if let Some(status) = self.process.try_wait()? {
                return Err(Error::new(format!(
                    "the pooler ended with {status}{}",
                    self.complaints()
                )));
            }
            if TcpStream::connect_timeout(&address, START_MAX).is_ok() {
                return Ok(());
            }
            if started.elapsed() > START_MAX {
                return Err(Error::new(format!("the pooler does not listen{}", self.complaints())));
            }
            thread::sleep(LOOK_INTERVAL);
        }
    }

    /// The output that it wrote before it ended.
    fn complaints(&self) -> String {
        let read = |name: &str| fs::read_to_string(self.folder.path().join(name)).unwrap_or_default();
        let text = read("stderr") + &read("log");
        let lines: Vec<&str> = text.lines().collect();
        let last = &lines[lines.len().saturating_sub(5)..];
        last.iter().map(|line| format!("\n    {line}")).collect()
    }
}

impl Drop for Pooler {
    fn drop(&mut self) {
        if let Ok(None) = self.process.try_wait() {
            // At once: all connected clients belong to the lab.
            let pid = i32::try_from(self.process.id())
                .ok()
                .and_then(rustix::process::Pid::from_raw);
            if let Some(pid) = pid {
                let _ = rustix::process::kill_process(pid, rustix::process::Signal::QUIT);
            }
            let started = Instant::now();
            while started.elapsed() < START_MAX && matches!(self.process.try_wait(), Ok(None)) {
                thread::sleep(LOOK_INTERVAL);
            }
            let _ = self.process.kill();
            let _ = self.process.wait();
        }
    }
}

/// The configuration file.
fn configuration(server: &Server, settings: &PoolerSettings, port: u16, folder: &Path) -> Result<String> {
    let tls = tls_settings(server, settings, folder)?;
    let folder = folder.display();
    let mut database = String::new();
    for (name, parameter) in [
        ("host", "host"),
        ("port", "port"),
        ("user", "user"),
        ("password", "password"),
    ] {
        let value = server
            .get(parameter)
            .or(if name == "host" { server.get("hostaddr") } else { None });
        if let Some(value) = value {
            database += &format!(" {name}='{}'", value.replace('\'', "''"));
        }
    }
    let mut own_pool = String::new();
    if let Some(name) = server.get("dbname").filter(|_| settings.own_pool) {
        let name = name.replace('\'', "''");
        own_pool = format!("{OWN_POOL} ={database} dbname='{name}' pool_size=1\n");
    }
    let size = match settings.finds_size {
        true => format!("auto\npool_size_max = {}", settings.pool_size),
        false => settings.pool_size.to_string(),
    };
    Ok(format!(
        "[databases]\n{own_pool}* ={database}\n\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\n\
         auth_type = {}\nauth_file = {folder}/userlist.txt\nadmin_users = {USER}\nlogfile = {folder}/log\n\
         pool_mode = {}\ndefault_pool_size = {size}\nmax_client_conn = {}\nquery_wait_timeout = 0\nserver_login_retry = 1\n\
         ignore_startup_parameters = extra_float_digits,options\nlog_connections = 0\nlog_disconnections = 0\n{tls}",
        settings.auth_type, settings.pool_mode, settings.clients_max,
    ))
}

/// The settings of TLS: towards clients as the settings say, towards the server as its parameters do.
fn tls_settings(server: &Server, settings: &PoolerSettings, folder: &Path) -> Result<String> {
    let mode = server.get("sslmode").unwrap_or("prefer");
    let roots = server.file_of("sslrootcert", "root.crt");
    // With a root certificate at hand, require is verify-ca, as in libpq.
    let mode = if mode == "require" && roots.is_some() {
        "verify-ca"
    } else {
        mode
    };
    let mut lines = format!("server_tls_sslmode = {mode}\n");
    if mode.starts_with("verify-") {
        match roots {
            Some(file) if file != Path::new("system") => lines += &format!("server_tls_ca_file = {}\n", file.display()),
            _ => {
                return Err(Error::new(format!(
                    "sslmode={mode}, and there is no file with root certificates for the pooler"
                ))
                .hint("name one in sslrootcert"));
            }
        }
    }
    let own = server
        .file_of("sslcert", "postgresql.crt")
        .zip(server.file_of("sslkey", "postgresql.key"));
    if let Some((certificate, key)) = own.filter(|_| mode != "disable" && server.get("sslcertmode") != Some("disable"))
    {
        lines += &format!(
            "server_tls_cert_file = {}\nserver_tls_key_file = {}\n",
            certificate.display(),
            key.display()
        );
    }
    if settings.tls {
        let (certificate, key) = (folder.join(CERTIFICATE), folder.join(KEY));
        lines += &format!(
            "client_tls_sslmode = require\nclient_tls_cert_file = {}\nclient_tls_key_file = {}\n",
            certificate.display(),
            key.display()
        );
    }
    Ok(lines)
}

fn random_password() -> Result<String> {
    let mut bytes = [0; 16];
    fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
