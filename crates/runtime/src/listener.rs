//! Listening sockets.

use crate::log::Log;
use crate::name_server;
use crate::settings::{ListenSettings, TcpSettings};
use crate::socket::{self, SocketAddress};
use crate::start_error::StartError;
use pgweir_config::ListenAddress;
use pgweir_core::LogLevel;
use rustix::fs::{AtFlags, CWD, FileType, Mode};
use rustix::io::Errno;
use rustix::net::sockopt;
use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::path::Path;

/// A socket that accepts clients. Closing it removes its file, if it has one.
#[derive(Debug)]
pub(crate) struct Listener {
    pub(crate) socket: OwnedFd,
    pub(crate) place: ListenPlace,
    /// Connections may be waiting: set by an event, cleared when accept() finds none.
    pub(crate) readable: bool,
    /// accept() has failed: nothing is accepted until the timer's next attempt.
    pub(crate) rests: bool,
    /// Another process will remove its file.
    pub(crate) leaves_file: bool,
    /// A service manager has opened it. It is used whatever the configuration says, even after a take-over.
    pub(crate) is_given: bool,
}

impl Listener {
    /// A socket of another process, which still uses it.
    pub(crate) fn inherited(socket: OwnedFd, place: ListenPlace) -> Self {
        Listener {
            socket,
            place,
            readable: true,
            rests: false,
            leaves_file: true,
            is_given: false,
        }
    }

    /// A socket of the service manager.
    pub(crate) fn given(socket: OwnedFd, place: ListenPlace) -> Self {
        let mut listener = Listener::inherited(socket, place);
        listener.is_given = true;
        listener
    }

    /// Applies settings to a socket that another process has opened.
    pub(crate) fn use_settings(&self, settings: &ListenSettings) -> Result<(), StartError> {
        if self.is_given {
            return Ok(());
        }
        // Another call changes the backlog.
        let _ = rustix::net::listen(&self.socket, settings.backlog);
        match &self.place {
            ListenPlace::Unix { path, .. } if !path.starts_with('@') => set_access(path, &self.place, settings),
            _ => Ok(()),
        }
    }
}

/// Where a socket listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ListenPlace {
    Tcp(SocketAddr),
    Unix {
        /// Path of the socket, or an abstract name that begins with `@`.
        path: String,
        port: u16,
    },
}

impl fmt::Display for ListenPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ListenPlace::Tcp(address) => address.fmt(f),
            ListenPlace::Unix { path, .. } => write!(f, "unix:{path}"),
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let ListenPlace::Unix { path, .. } = &self.place
            && !path.starts_with('@')
            && !self.leaves_file
        {
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Opens every socket of `settings` that is not among the inherited ones.
pub(crate) fn listen(
    settings: &ListenSettings,
    tcp: &TcpSettings,
    inherited: &mut Vec<Listener>,
    log: &mut Log,
) -> Result<Vec<Listener>, StartError> {
    let mut listeners = listen_by_tcp(settings, tcp, inherited, log)?;
    if let Some(dir) = &settings.unix_socket_dir {
        let place = ListenPlace::Unix {
            path: unix_socket_path(dir, settings.port),
            port: settings.port,
        };
        listeners.push(match take(inherited, &place) {
            Some(listener) => listener,
            None => listen_unix(dir, settings)?,
        });
    }
    if listeners.is_empty() {
        return Err(StartError::NowhereToListen);
    }
    Ok(listeners)
}

/// An address where nobody can listen is a warning, unless it is so with all of them.
fn listen_by_tcp(
    settings: &ListenSettings,
    tcp: &TcpSettings,
    inherited: &mut Vec<Listener>,
    log: &mut Log,
) -> Result<Vec<Listener>, StartError> {
    let mut listeners = Vec::new();
    let mut refused = Vec::new();
    for address in &settings.addresses {
        let (places, some_suffice) = places_of(address, settings.port)?;
        let before = listeners.len();
        let mut of_family = None;
        for place in places {
            if let Some(listener) = take(inherited, &ListenPlace::Tcp(place)) {
                listeners.push(listener);
                continue;
            }
            match listen_tcp(place, settings, tcp, log) {
                Ok(listener) => listeners.push(listener),
                // A machine without IPv6 listens only on IPv4.
                Err(e) if some_suffice && is_no_such_family(e) => of_family = Some((place, e)),
                Err(e) => refused.push((place, e)),
            }
        }
        refused.extend(of_family.filter(|_| listeners.len() == before));
    }
    let mut errors = refused
        .into_iter()
        .map(|(place, e)| cannot_listen(ListenPlace::Tcp(place), e.into()));
    if listeners.is_empty()
        && let Some(error) = errors.next()
    {
        return Err(StartError::NoAddress(Box::new(error)));
    }
    for error in errors {
        log.write(LogLevel::Warning, &error.to_string());
    }
    Ok(listeners)
}

/// Where to listen for one item of `listen_addr`, and whether some of these places suffice.
fn places_of(address: &ListenAddress, port: u16) -> Result<(Vec<SocketAddr>, bool), StartError> {
    let (addresses, some_suffice) = match address {
        ListenAddress::Any => {
            let any = [IpAddr::V4(Ipv4Addr::UNSPECIFIED), IpAddr::V6(Ipv6Addr::UNSPECIFIED)];
            (any.to_vec(), true)
        }
        ListenAddress::Address(address) => (vec![*address], false),
        ListenAddress::Name(name) => {
            let addresses = name_server::addresses_of(name).map_err(|e| StartError::ListenName {
                name: name.clone(),
                port,
                why: e.to_string().replace("failed to lookup address information: ", ""),
            })?;
            (addresses, true)
        }
    };
    let places = addresses.into_iter().map(|address| SocketAddr::new(address, port));
    Ok((places.collect(), some_suffice))
}

/// The inherited socket of this place.
fn take(inherited: &mut Vec<Listener>, place: &ListenPlace) -> Option<Listener> {
    let at = inherited.iter().position(|listener| listener.place == *place)?;
    Some(inherited.swap_remove(at))
}

fn is_no_such_family(e: Errno) -> bool {
    matches!(e, Errno::AFNOSUPPORT | Errno::ADDRNOTAVAIL | Errno::PROTONOSUPPORT)
}

fn listen_tcp(
    place: SocketAddr,
    settings: &ListenSettings,
    tcp: &TcpSettings,
    log: &mut Log,
) -> rustix::io::Result<Listener> {
    let address = SocketAddress::Tcp(place);
    let socket = socket::open(&address)?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    if settings.so_reuseport {
        sockopt::set_socket_reuseport(&socket, true)?;
    }
    if place.is_ipv6() {
        sockopt::set_ipv6_v6only(&socket, true)?;
    }
    socket::bind(&socket, &address)?;
    socket::set_listener_options(&socket, tcp, log);
    rustix::net::listen(&socket, settings.backlog)?;
    // The port may have been 0.
    let bound = rustix::net::getsockname(&socket)?;
    let place = SocketAddr::try_from(bound).unwrap_or(place);
    Ok(Listener {
        socket,
        place: ListenPlace::Tcp(place),
        readable: false,
        rests: false,
        leaves_file: false,
        is_given: false,
    })
}

fn listen_unix(dir: &str, settings: &ListenSettings) -> Result<Listener, StartError> {
    let port = settings.port;
    let path = unix_socket_path(dir, port);
    let place = ListenPlace::Unix {
        path: path.clone(),
        port,
    };
    let error = |e: io::Error| cannot_listen(place.clone(), e);
    let address = SocketAddress::unix(&path).map_err(error)?;
    let is_file = !path.starts_with('@');
    if is_file {
        remove_if_stale(&path, &address).map_err(error)?;
    }
    let socket = socket::open(&address).map_err(|e| error(e.into()))?;
    socket::bind(&socket, &address).map_err(|e| error(e.into()))?;
    let listener = Listener {
        socket,
        place: place.clone(),
        readable: false,
        rests: false,
        leaves_file: false,
        is_given: false,
    };
    if is_file {
        set_access(&path, &place, settings)?;
    }
    rustix::net::listen(&listener.socket, settings.backlog).map_err(|e| error(e.into()))?;
    Ok(listener)
}

/// The socket of `port` in a directory, or under an abstract name.
pub(crate) fn unix_socket_path(dir: &str, port: u16) -> String {
    format!("{}/.s.PGSQL.{port}", dir.trim_end_matches('/'))
}

/// Removes the socket file of a process that is gone. The file stays if it is not a socket, or if a process listens on
/// it.
fn remove_if_stale(path: &str, address: &SocketAddress) -> io::Result<()> {
    let Ok(status) = rustix::fs::statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW) else {
        return Ok(());
    };
    if FileType::from_raw_mode(status.st_mode) != FileType::Socket {
        return Err(io::Error::new(
            io::ErrorKind::AlreadyExists,
            "a file that is not a socket is in the way",
        ));
    }
    let probe = socket::open(address)?;
    match socket::connect(&probe, address) {
        Err(Errno::CONNREFUSED) => std::fs::remove_file(path),
        Err(Errno::NOENT) => Ok(()),
        Ok(()) | Err(Errno::AGAIN) => Err(Errno::ADDRINUSE.into()),
        Err(e) => Err(e.into()),
    }
}

/// Who may connect to the socket at `path`.
fn set_access(path: &str, place: &ListenPlace, settings: &ListenSettings) -> Result<(), StartError> {
    let mode = Mode::from_raw_mode(settings.unix_socket_mode);
    rustix::fs::chmod(path, mode).map_err(|e| cannot_listen(place.clone(), e.into()))?;
    give_to_group(path, &settings.unix_socket_group)
}

fn give_to_group(path: &str, group: &str) -> Result<(), StartError> {
    if group.is_empty() {
        return Ok(());
    }
    let unknown = || StartError::UnknownGroup {
        group: group.to_owned(),
    };
    let gid = match group.parse() {
        Ok(number) => number,
        Err(_) => nix::unistd::Group::from_name(group)
            .ok()
            .flatten()
            .ok_or_else(unknown)?
            .gid
            .as_raw(),
    };
    std::os::unix::fs::chown(Path::new(path), None, Some(gid)).map_err(|source| StartError::Group {
        path: path.to_owned(),
        group: group.to_owned(),
        source,
    })
}

fn cannot_listen(place: ListenPlace, source: io::Error) -> StartError {
    let is_unix = matches!(place, ListenPlace::Unix { .. });
    match source.raw_os_error().map(Errno::from_raw_os_error) {
        Some(Errno::ADDRINUSE) if is_unix => StartError::UnixSocketInUse {
            place: place.to_string(),
        },
        Some(Errno::ADDRINUSE) => StartError::InUse {
            place: place.to_string(),
        },
        _ => StartError::Listen {
            place: place.to_string(),
            source,
        },
    }
}
