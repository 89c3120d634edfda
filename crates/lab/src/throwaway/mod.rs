//! A throwaway PostgreSQL: a cluster in a temporary folder, removed when the command that asked for it ends.
//!
//! There are three processes, so that nothing is left behind however one of them ends:
//!
//! ```text
//! pgweir try, pgweir lab      asks for the cluster
//!   pgweir throwaway-keeper     holds the folder; its standard input ends with its parent, and then it cleans up
//!     postgres                    started through throwaway-launch: ends with the keeper (PR_SET_PDEATHSIG)
//! ```

pub(crate) mod installation;
mod keeper;
mod launch;

pub use installation::Installation;
pub use keeper::{DATA_FOLDER, KeeperArguments, keep};
pub use launch::{LaunchArguments, launch, launched};

use crate::{Error, Result};
use nix::unistd::User;
use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

/// The port in the name of the throwaway PostgreSQL's socket. It listens on TCP only if its settings say so.
pub const SERVER_PORT: u16 = 5432;

/// Its folder's name begins so.
pub(crate) const FOLDER_PREFIX: &str = "pgweir-throwaway-";

/// Settings of a cluster that need not be durable.
pub const NOT_DURABLE: [&str; 3] = ["fsync=off", "synchronous_commit=off", "full_page_writes=off"];

/// The system users that PostgreSQL may run as when this process is root.
const UNPRIVILEGED_USERS: [&str; 2] = ["postgres", "nobody"];

/// The longest path of a Unix-domain socket, bytes, with its closing zero (`sun_path`).
const SOCKET_PATH_BYTES_MAX: usize = 107;

/// The options of a throwaway cluster.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Folder of PostgreSQL's programs; by default it is searched for.
    pub bin_dir: Option<PathBuf>,
    /// Settings, NAME=VALUE. Authentication is trust. The cluster listens on a Unix-domain socket, and on TCP if these
    /// settings say so.
    pub settings: Vec<String>,
    /// Keep the folder.
    pub keep: bool,
}

/// A running throwaway PostgreSQL, as its user sees it. Dropping it stops and removes it.
#[derive(Debug)]
pub struct Cluster {
    installation: Installation,
    folder: PathBuf,
    user: Option<User>,
    keeper: Child,
    said: Option<BufReader<ChildStdout>>,
}

impl Cluster {
    /// Starts to make a cluster. It can be used after [`Cluster::wait_until_ready`].
    pub fn begin(options: &Options) -> Result<Self> {
        let installation = Installation::find(options.bin_dir.as_deref())?;
        let user = unprivileged_user()?;
        let folder =
            make_folder(user.as_ref()).map_err(|e| Error::new(format!("could not make a temporary folder: {e}")))?;
        let started = start_keeper(options, &installation, user.as_ref(), &folder);
        let mut keeper = started.map_err(|e| {
            let _ = fs::remove_dir_all(&folder);
            Error::new(format!("could not start the keeper: {e}"))
        })?;
        let said = keeper.stdout.take().map(BufReader::new);
        Ok(Cluster {
            installation,
            folder,
            user,
            keeper,
            said,
        })
    }

    /// Makes a cluster and waits until it runs.
    pub fn start(options: &Options) -> Result<Self> {
        let mut cluster = Cluster::begin(options)?;
        cluster.wait_until_ready()?;
        Ok(cluster)
    }

    /// Waits until PostgreSQL runs.
    pub fn wait_until_ready(&mut self) -> Result<()> {
        let mut said = String::new();
        if let Some(output) = &mut self.said {
            output
                .read_line(&mut said)
                .map_err(|e| Error::new(format!("the keeper cannot be heard: {e}")))?;
            if said.trim_end() == keeper::READY {
                return Ok(());
            }
            let _ = output.read_to_string(&mut said);
        }
        Err(Error::new(format!("could not start PostgreSQL: {}", said.trim_end())))
    }

    /// Stops PostgreSQL and starts it with these settings in place of the previous ones.
    pub fn restart(&mut self, settings: &[String]) -> Result<()> {
        let order = [&[keeper::RESTART.to_owned()], settings].concat().join("\t");
        if let Some(input) = &mut self.keeper.stdin {
            writeln!(input, "{order}")
                .and_then(|()| input.flush())
                .map_err(|e| Error::new(format!("the keeper does not listen: {e}")))?;
        }
        self.wait_until_ready()
    }

    /// The further output of the keeper, for a thread that waits for PostgreSQL's end. After this call, no restart is
    /// possible.
    pub fn take_output(&mut self) -> Option<impl Read + Send + 'static> {
        self.said.take()
    }

    /// The installation that it was made with.
    pub fn installation(&self) -> &Installation {
        &self.installation
    }

    /// The temporary folder. It contains the socket, and the cluster in its [`DATA_FOLDER`].
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The user that the server runs as, if it is not the present user. Its pooler runs as the same user.
    pub fn user(&self) -> Option<&User> {
        self.user.as_ref()
    }

    /// Stops and removes everything, and waits for that.
    pub fn stop(&mut self) {
        drop(self.keeper.stdin.take());
        let _ = self.keeper.wait();
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.stop();
    }
}

/// The user for PostgreSQL and the pooler, which refuse to run as root; `None` for the present user.
pub fn unprivileged_user() -> Result<Option<User>> {
    if !nix::unistd::geteuid().is_root() {
        return Ok(None);
    }
    let user = UNPRIVILEGED_USERS
        .iter()
        .find_map(|name| User::from_name(name).ok().flatten());
    let names = UNPRIVILEGED_USERS.join(" nor ");
    user.map(Some).ok_or_else(|| {
        Error::new(format!("PostgreSQL does not run as root, and there is neither {names}"))
            .hint("run it as another user")
    })
}

/// Makes `user`, if there is one, the owner of a file or folder.
pub fn give_to(user: Option<&User>, path: &Path) -> io::Result<()> {
    match user {
        Some(user) => std::os::unix::fs::chown(path, Some(user.uid.as_raw()), Some(user.gid.as_raw())),
        None => Ok(()),
    }
}

fn start_keeper(
    options: &Options,
    installation: &Installation,
    user: Option<&User>,
    folder: &Path,
) -> io::Result<Child> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("throwaway-keeper").arg("--folder").arg(folder);
    command.arg("--bin-dir").arg(&installation.bin_dir);
    command.arg("--user").arg(user.map_or("", |u| &u.name));
    for setting in &options.settings {
        command.arg("--set").arg(setting);
    }
    if options.keep {
        command.arg("--keep");
    }
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()
}

/// A folder that only one user may read. Its path is short enough for a socket in it.
fn make_folder(user: Option<&User>) -> io::Result<PathBuf> {
    let make = |parent: &Path| tempfile::Builder::new().prefix(FOLDER_PREFIX).tempdir_in(parent);
    let mut folder = make(&std::env::temp_dir())?;
    let socket = format!(".s.PGSQL.{SERVER_PORT}");
    if folder.path().as_os_str().len() + 1 + socket.len() > SOCKET_PATH_BYTES_MAX {
        folder = make(Path::new("/tmp"))?;
    }
    give_to(user, folder.path())?;
    Ok(folder.keep())
}

fn path_text(path: &Path) -> Result<String, String> {
    path.to_str()
        .map(str::to_owned)
        .ok_or_else(|| format!("the path {} is not UTF-8", path.display()))
}
