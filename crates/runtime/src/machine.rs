//! What a configuration needs of the machine on which pgweir will start.

use crate::privileges::find_user;
use pgweir_config::{Config, ListenAddress, Problem, UnixSocketDir};
use std::io;
use std::net::{IpAddr, UdpSocket};
use std::path::Path;

const MAKE_DIRECTORY: &str = "make it, so that the user of pgweir can write there; systemd makes the directories of \
                              RuntimeDirectory= and LogsDirectory= when it starts the unit";

/// Whether this machine has an address; `true` if that is not known.
fn has_address(address: IpAddr) -> bool {
    let bound = UdpSocket::bind((address, 0));
    !bound.is_err_and(|error| error.kind() == io::ErrorKind::AddrNotAvailable)
}

/// The directory of a file, if it does not exist.
fn missing_directory(file: &str) -> Option<&Path> {
    let directory = Path::new(file).parent()?;
    let is_current = directory.as_os_str().is_empty();
    (!is_current && !directory.is_dir()).then_some(directory)
}

/// Warns of settings with which pgweir would not start on this machine.
pub fn check_machine(config: &Config) -> Vec<Problem> {
    let global = &config.global;
    let place = config.place();
    let warning = |message: String, hint: &str| Problem::warning(&place, message).hint(hint);
    let mut found = Vec::new();
    for address in global.listen_addr.addresses() {
        if let ListenAddress::Address(address) = address
            && !has_address(*address)
        {
            let message = format!("listen_addr: this machine has no address {address}");
            found.push(warning(
                message,
                "pgweir does not start without it; * stands for all addresses",
            ));
        }
    }
    for (setting, file) in [("logfile", &global.logfile), ("pidfile", &global.pidfile)] {
        if let Some(directory) = missing_directory(file) {
            let message = format!("{setting}: there is no directory {}", directory.display());
            found.push(warning(message, MAKE_DIRECTORY));
        }
    }
    if let UnixSocketDir::At(host) = &global.unix_socket_dir {
        let directory = host.to_string();
        if directory.starts_with('/') && !Path::new(&directory).is_dir() {
            let message = format!("unix_socket_dir: there is no directory {directory}");
            found.push(warning(message, MAKE_DIRECTORY));
        }
    }
    if let Some(user) = &global.user
        && !user.is_empty()
        && find_user(user).is_none()
    {
        let message = format!("user: this machine has no user \"{user}\"");
        found.push(warning(
            message,
            "make it, or leave the setting out and start pgweir as the user it should have",
        ));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn warnings(settings: &str) -> Vec<String> {
        let text = format!("[databases]\n* = host=127.0.0.1\n[pgbouncer]\nauth_type = any\n{settings}\n");
        let read = |_: &str| Ok(text.clone().into_bytes());
        let loaded = pgweir_config::load("x.ini", &read).expect("it can be used");
        let found = check_machine(&loaded.config);
        found.into_iter().map(|problem| problem.message).collect()
    }

    #[test]
    fn each_thing_that_the_machine_lacks_is_named() {
        let lacks = [
            (
                "listen_addr = 127.0.0.1, 192.0.2.77",
                "listen_addr: this machine has no address 192.0.2.77",
            ),
            ("logfile = /no/such/x.log", "logfile: there is no directory /no/such"),
            ("pidfile = /no/such/x.pid", "pidfile: there is no directory /no/such"),
            (
                "unix_socket_dir = /no/such",
                "unix_socket_dir: there is no directory /no/such",
            ),
            (
                "user = nobody at all",
                "user: this machine has no user \"nobody at all\"",
            ),
        ];
        for (setting, expected) in lacks {
            let settings = format!("{setting}\n");
            assert!(
                warnings(&settings).contains(&expected.to_owned()),
                "{setting}: {:?}",
                warnings(&settings)
            );
        }
    }

    #[test]
    fn what_the_machine_has_is_no_problem() {
        let has = "listen_addr = *, 127.0.0.1, localhost\nlogfile = x.log\npidfile = /x.pid\nunix_socket_dir = /\nuser = root";
        assert_eq!(warnings(has), [""; 0]);
    }
}
