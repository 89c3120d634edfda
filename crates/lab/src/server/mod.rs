//! The PostgreSQL that is looked at: named as for psql, connected to with every parameter that libpq takes.

mod cancel;
mod connect;
pub mod conninfo;
mod facts;
mod keywords;
mod probe;
pub mod resolve;
mod spy;
mod tls;

use crate::{Error, Result};
pub use cancel::CancelOnSignal;
use clap::Args;
use conninfo::Parameters;
pub use facts::{Facts, is_connection_lost, query_error};
use postgres::Client;
pub use probe::{Authentication, ConnectTimes};
use resolve::{Surroundings, resolve};
use std::fs;
use std::path::{Path, PathBuf};

/// The folders of the local server's socket: of Debian's packages, and PostgreSQL's own.
const SOCKET_FOLDERS: [&str; 2] = ["/var/run/postgresql", "/tmp"];

/// How a server is named on the command line. Flatten it into a command's arguments.
#[derive(Debug, Clone, Default, Args)]
pub struct ServerArguments {
    /// The server as for psql: a connection string or URI; missing parameters come from PGHOST and the other
    /// environment variables, the service file and ~/.pgpass
    #[arg(short, long, value_name = "CONNINFO", default_value = "", hide_default_value = true)]
    pub server: String,
}

/// A server that connections can be opened to.
#[derive(Debug, Clone)]
pub struct Server {
    /// What the user gave.
    given: Parameters,
    /// What comes of it.
    resolved: Parameters,
}

impl Server {
    /// The one that the arguments name, with the environment and the files of this process.
    pub fn from_arguments(arguments: &ServerArguments) -> Result<Self> {
        Server::new(Parameters::parse(&arguments.server).map_err(Error::new)?)
    }

    /// The one with these parameters, with the environment and the files of this process.
    pub fn new(given: Parameters) -> Result<Self> {
        let socket_folder = SOCKET_FOLDERS.iter().find(|folder| Path::new(folder).is_dir());
        let user = nix::unistd::User::from_uid(nix::unistd::geteuid()).ok().flatten();
        let around = Surroundings {
            variable: &|name| std::env::var(name).ok(),
            file: &|path| read_unless_open_to_others(path),
            home: std::env::home_dir(),
            system_user: user.map(|u| u.name),
            socket_folder: socket_folder.map(|folder| (*folder).to_owned()),
        };
        let resolved = resolve(&given, &around).map_err(Error::new)?;
        Ok(Server { given, resolved })
    }

    /// The same server, another database.
    pub fn in_database(&self, database: &str) -> Self {
        let mut server = self.clone();
        for parameters in [&mut server.given, &mut server.resolved] {
            parameters.set("dbname", database).expect("dbname is a parameter");
        }
        server
    }

    /// The same server with these parameters in place of its own.
    pub fn with(&self, changes: &[(&str, &str)]) -> Result<Self> {
        let mut server = self.clone();
        for (name, value) in changes {
            for parameters in [&mut server.given, &mut server.resolved] {
                parameters.set(name, value).map_err(Error::new)?;
            }
        }
        Ok(server)
    }

    /// Opens a connection, which names itself `pgweir lab` unless the user has named it.
    pub fn connect(&self) -> Result<Client> {
        let mut parameters = self.resolved.clone();
        if parameters.get("application_name").is_none() {
            parameters
                .set("application_name", APPLICATION_NAME)
                .map_err(Error::new)?;
        }
        connect::connect(&parameters)
    }

    /// Opens one connection and closes it, and tells how long each part took.
    pub fn probe(&self) -> Result<ConnectTimes> {
        probe::probe(&self.resolved)
    }

    /// A file for TLS: the one that the parameter names, or libpq's default in ~/.postgresql where that exists.
    pub(crate) fn file_of(&self, name: &str, default: &str) -> Option<PathBuf> {
        tls::file_of(&self.resolved, name, default)
    }

    /// A parameter of the connection, resolved.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.resolved.get(name)
    }

    /// `server at "db.example", port 5432, database "shop", user "bob"`
    pub fn place(&self) -> String {
        connect::place(&self.resolved)
    }

    /// For PostgreSQL's programs, which resolve the rest themselves: a connection string without the password, which
    /// everybody could see in the list of processes ...
    pub fn libpq_words(&self) -> String {
        let mut words = self.given.clone();
        words.remove("password");
        words
            .set("dbname", self.get("dbname").unwrap_or_default())
            .expect("dbname is a parameter");
        words.to_words()
    }

    /// ... and the environment that goes with it.
    pub fn libpq_environment(&self) -> Vec<(&'static str, String)> {
        let password = self.given.get("password").map(|p| ("PGPASSWORD", p.to_owned()));
        password.into_iter().collect()
    }

    /// Of what the user gave, what concerns the session and not the way to the server.
    pub fn only_of_session(&self) -> Parameters {
        let mut kept = Parameters::default();
        for name in [
            "dbname",
            "options",
            "application_name",
            "client_encoding",
            "connect_timeout",
        ] {
            if let Some(value) = self.given.get(name) {
                kept.set(name, value).expect("the names are libpq's");
            }
        }
        kept
    }

    /// Whether the server is on this machine: reached through a Unix-domain socket or the loopback interface.
    pub fn is_local(&self) -> bool {
        let hosts = self.get("hostaddr").or(self.get("host")).unwrap_or_default();
        hosts.split(',').all(|host| {
            let loopback = host
                .parse::<std::net::IpAddr>()
                .is_ok_and(|address| address.is_loopback());
            host.is_empty() || host == "localhost" || host.starts_with(['/', '@']) || loopback
        })
    }
}

/// What our connections call themselves.
pub const APPLICATION_NAME: &str = "pgweir lab";

/// The text of a file; a password file that others may read is passed over, with a warning, as libpq does.
fn read_unless_open_to_others(path: &Path) -> Option<String> {
    use std::os::unix::fs::PermissionsExt;
    let is_passwords = path.extension().is_none_or(|e| e != "conf");
    let mode = fs::metadata(path).ok()?.permissions().mode();
    if is_passwords && mode & 0o077 != 0 {
        crate::tell(&format!(
            "pgweir: password file \"{}\" has group or world access; permissions should be u=rw (0600) or less\n",
            path.display()
        ));
        return None;
    }
    fs::read_to_string(PathBuf::from(path)).ok()
}
