//! `pgweir try`: a throwaway PostgreSQL with a pooler in front.
//!
//! Three processes, so that nothing is left behind however any of them ends:
//!
//! ```text
//! pgweir try          the pooler; prints the connection string, ends on Ctrl-C
//!   pgweir try-keeper     holds the folder; its standard input ends with its parent, and then it cleans up
//!     postgres                started through try-launch: ends with the keeper (PR_SET_PDEATHSIG)
//! ```

mod installation;
mod keeper;
mod launch;

pub(crate) use keeper::keep;
pub(crate) use launch::launch;

use crate::arguments::TryArguments;
use installation::Installation;
use nix::unistd::User;
use pgweir_runtime::{Interrupt, RunOptions, run};
use std::fs;
use std::io::{self, BufRead, BufReader, Read};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitCode, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

/// Port in the name of the throwaway PostgreSQL's socket; it has no TCP port.
const SERVER_PORT: u16 = 5432;

/// What PostgreSQL keeps for others than the pool.
const SPARE_CONNECTIONS: u32 = 20;

/// The system users to run PostgreSQL as when we are root.
const UNPRIVILEGED_USERS: [&str; 2] = ["postgres", "nobody"];

/// The longest path of a Unix-domain socket, bytes, with its closing zero (`sun_path`).
const SOCKET_PATH_BYTES_MAX: usize = 107;

/// Runs until Ctrl-C.
pub(crate) fn try_it(arguments: &TryArguments) -> ExitCode {
    match run_try(arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("pgweir: {why}");
            ExitCode::FAILURE
        }
    }
}

fn run_try(arguments: &TryArguments) -> Result<(), String> {
    let installation = Installation::find(arguments.bin_dir.as_deref())?;
    let user = unprivileged_user()?;
    let port = match arguments.port {
        Some(port) => port,
        None => free_port().map_err(|e| format!("no free port on 127.0.0.1: {e}"))?,
    };
    let folder = make_folder(user.as_ref()).map_err(|e| format!("could not make a temporary folder: {e}"))?;
    println!(
        "{} from {}, in {}",
        installation.version,
        installation.bin_dir.display(),
        folder.display()
    );
    let mut keeper = Keeper::start(arguments, &installation, user.as_ref(), folder.clone())?;
    keeper.wait_until_ready()?;
    let file = folder.join("pgweir.ini");
    let written = write_configuration(&file, &folder, port, arguments.pool_size, user.as_ref());
    written.map_err(|e| format!("could not write {}: {e}", file.display()))?;
    let ending = keeper.watch();
    let options = RunOptions {
        config_file: path_text(&file)?,
        quiet: !arguments.verbose,
        user: user.map(|u| u.name),
        interrupt: Interrupt::AtOnce,
        on_ready: Some(Box::new(move |_| print_how_to_connect(port))),
        ..RunOptions::default()
    };
    let outcome = run(options).map_err(|e| e.to_string());
    let server_ended = ending.swap(true, Ordering::Relaxed);
    println!();
    keeper.stop();
    match outcome {
        Ok(()) if server_ended => Err("PostgreSQL has ended by itself".to_owned()),
        Ok(()) if arguments.keep => {
            println!(
                "stopped; the cluster is in {}",
                folder.join(keeper::DATA_FOLDER).display()
            );
            Ok(())
        }
        Ok(()) => {
            println!("stopped; {} is removed", folder.display());
            Ok(())
        }
        Err(e) => Err(e),
    }
}

fn print_how_to_connect(port: u16) {
    println!(
        "\npgweir is ready.\n\n  \
         psql \"host=127.0.0.1 port={port} user=postgres dbname=postgres\"     your database, pooled\n  \
         psql \"host=127.0.0.1 port={port} user=postgres dbname=pgbouncer\"    the admin console: SHOW POOLS; SHOW HELP;\n\n\
         Ctrl-C stops both and removes everything."
    );
}

/// Who PostgreSQL, which refuses root, and the pooler run as; `None`: as we are.
fn unprivileged_user() -> Result<Option<User>, String> {
    if !nix::unistd::geteuid().is_root() {
        return Ok(None);
    }
    let user = UNPRIVILEGED_USERS
        .iter()
        .find_map(|name| User::from_name(name).ok().flatten());
    let names = UNPRIVILEGED_USERS.join(" nor ");
    user.map(Some).ok_or_else(|| {
        format!(
            "PostgreSQL does not run as root, and there is neither {names}\n    hint: run pgweir try as another user"
        )
    })
}

fn free_port() -> io::Result<u16> {
    Ok(TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port())
}

/// A folder for one user alone, short enough for a socket in it.
fn make_folder(user: Option<&User>) -> io::Result<PathBuf> {
    let make = |parent: &Path| tempfile::Builder::new().prefix("pgweir-try-").tempdir_in(parent);
    let mut folder = make(&std::env::temp_dir())?;
    let socket = format!(".s.PGSQL.{SERVER_PORT}");
    if folder.path().as_os_str().len() + 1 + socket.len() > SOCKET_PATH_BYTES_MAX {
        folder = make(Path::new("/tmp"))?;
    }
    give_to(user, folder.path())?;
    Ok(folder.keep())
}

fn give_to(user: Option<&User>, path: &Path) -> io::Result<()> {
    match user {
        Some(user) => std::os::unix::fs::chown(path, Some(user.uid.as_raw()), Some(user.gid.as_raw())),
        None => Ok(()),
    }
}

fn write_configuration(file: &Path, folder: &Path, port: u16, pool_size: u32, user: Option<&User>) -> io::Result<()> {
    let host = folder.display().to_string().replace('\'', "''");
    let text = format!(
        "[databases]\n\
         * = host='{host}' port={SERVER_PORT} user=postgres\n\n\
         [pgbouncer]\n\
         listen_addr = 127.0.0.1\n\
         listen_port = {port}\n\
         unix_socket_dir =\n\
         auth_type = any\n\
         admin_users = postgres\n\
         pool_mode = transaction\n\
         default_pool_size = {pool_size}\n\
         max_client_conn = 10000\n\
         log_connections = 0\n\
         log_disconnections = 0\n"
    );
    fs::write(file, text)?;
    give_to(user, file)
}

fn path_text(path: &Path) -> Result<String, String> {
    path.to_str()
        .map(str::to_owned)
        .ok_or_else(|| format!("the path {} is not UTF-8", path.display()))
}

/// The keeper, seen from its parent. Dropping it lets go of its standard input, upon which it cleans up.
struct Keeper {
    child: Child,
    said: Option<BufReader<ChildStdout>>,
}

impl Keeper {
    fn start(
        arguments: &TryArguments,
        installation: &Installation,
        user: Option<&User>,
        folder: PathBuf,
    ) -> Result<Self, String> {
        let error = |e: io::Error| format!("could not start the keeper: {e}");
        let program = std::env::current_exe().map_err(error)?;
        let connections_max = arguments.pool_size + SPARE_CONNECTIONS;
        let mut command = Command::new(program);
        command
            .arg("try-keeper")
            .arg("--folder")
            .arg(&folder)
            .arg("--bin-dir")
            .arg(&installation.bin_dir);
        command.arg("--user").arg(user.map_or("", |u| &u.name));
        command.arg("--connections-max").arg(connections_max.to_string());
        if arguments.keep {
            command.arg("--keep");
        }
        let started = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        match started {
            Ok(mut child) => {
                let said = child.stdout.take().map(BufReader::new);
                Ok(Keeper { child, said })
            }
            Err(e) => {
                let _ = fs::remove_dir_all(&folder);
                Err(error(e))
            }
        }
    }

    /// Waits until PostgreSQL runs.
    fn wait_until_ready(&mut self) -> Result<(), String> {
        let mut said = String::new();
        if let Some(output) = &mut self.said {
            output
                .read_line(&mut said)
                .map_err(|e| format!("the keeper cannot be heard: {e}"))?;
            if said.trim_end() == keeper::READY {
                return Ok(());
            }
            let _ = output.read_to_string(&mut said);
        }
        Err(format!("could not start PostgreSQL: {}", said.trim_end()))
    }

    /// Ends the pooler, by SIGTERM to ourselves, when PostgreSQL ends by itself. The answer is true then.
    fn watch(&mut self) -> Arc<AtomicBool> {
        let ending = Arc::new(AtomicBool::new(false));
        if let Some(mut said) = self.said.take() {
            let ending = Arc::clone(&ending);
            thread::spawn(move || {
                let _ = said.read_to_end(&mut Vec::new());
                if !ending.swap(true, Ordering::Relaxed) {
                    let _ = signal_hook::low_level::raise(signal_hook::consts::SIGTERM);
                }
            });
        }
        ending
    }

    /// Has everything stopped and removed.
    fn stop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.stop();
    }
}
