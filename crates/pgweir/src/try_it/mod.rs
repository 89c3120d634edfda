//! `pgweir try`: a throwaway PostgreSQL with a pooler in front, in this process.

use crate::arguments::TryArguments;
use nix::unistd::User;
use pgweir_lab::throwaway::{Cluster, DATA_FOLDER, NOT_DURABLE, Options, SERVER_PORT, give_to};
use pgweir_lab::{say, tell};
use pgweir_runtime::{Interrupt, RunOptions, run};
use std::fs;
use std::io::{self, Read};
use std::net::TcpListener;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

/// Connections that PostgreSQL allows beyond the pool's.
const SPARE_CONNECTIONS: u32 = 20;

/// Runs until Ctrl-C.
pub(crate) fn try_it(arguments: &TryArguments) -> ExitCode {
    match run_try(arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            tell(&format!("pgweir: {why}\n"));
            ExitCode::FAILURE
        }
    }
}

fn run_try(arguments: &TryArguments) -> Result<(), String> {
    let port = match arguments.port {
        Some(port) => port,
        None => free_port().map_err(|e| format!("no free port on 127.0.0.1: {e}"))?,
    };
    let connections_max = arguments.pool_size + SPARE_CONNECTIONS;
    let settings = [
        format!("max_connections={connections_max}"),
        "listen_addresses=".to_owned(),
    ];
    let options = Options {
        bin_dir: arguments.bin_dir.clone(),
        settings: settings.into_iter().chain(NOT_DURABLE.map(str::to_owned)).collect(),
        keep: arguments.keep,
    };
    let mut cluster = Cluster::begin(&options).map_err(|e| e.to_string())?;
    let folder = cluster.folder().to_owned();
    say(&format!(
        "{} from {}, in {}\n",
        cluster.installation().version,
        cluster.installation().bin_dir.display(),
        folder.display()
    ));
    cluster.wait_until_ready().map_err(|e| e.to_string())?;
    let file = folder.join("pgweir.ini");
    let written = write_configuration(&file, &folder, port, arguments.pool_size, cluster.user());
    written.map_err(|e| format!("could not write {}: {e}", file.display()))?;
    let ending = watch(&mut cluster);
    let options = RunOptions {
        config_file: path_text(&file)?,
        quiet: !arguments.verbose,
        user: cluster.user().map(|u| u.name.clone()),
        interrupt: Interrupt::AtOnce,
        on_ready: Some(Box::new(move |_| print_how_to_connect(port))),
        ..RunOptions::default()
    };
    let outcome = run(options).map_err(|e| e.to_string());
    let server_ended = ending.swap(true, Ordering::Relaxed);
    say("\n");
    cluster.stop();
    match outcome {
        Ok(()) if server_ended => Err("PostgreSQL has ended by itself".to_owned()),
        Ok(()) if arguments.keep => {
            say(&format!(
                "stopped; the cluster is in {}\n",
                folder.join(DATA_FOLDER).display()
            ));
            Ok(())
        }
        Ok(()) => {
            say(&format!("stopped; {} is removed\n", folder.display()));
            Ok(())
        }
        Err(e) => Err(e),
    }
}

/// Ends the pooler, by SIGTERM to this process, if PostgreSQL ends before it. Then the returned flag is true.
fn watch(cluster: &mut Cluster) -> Arc<AtomicBool> {
    let ending = Arc::new(AtomicBool::new(false));
    if let Some(mut said) = cluster.take_output() {
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

fn print_how_to_connect(port: u16) {
    say(&format!(
        "\npgweir is ready.\n\n  \
         psql \"host=127.0.0.1 port={port} user=postgres dbname=postgres\"     your database, pooled\n  \
         psql \"host=127.0.0.1 port={port} user=postgres dbname=pgbouncer\"    the admin console: SHOW POOLS; SHOW HELP;\n\n\
         Ctrl-C stops both and removes everything.\n"
    ));
}

fn free_port() -> io::Result<u16> {
    Ok(TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port())
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
