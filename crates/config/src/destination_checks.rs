//! Checks of databases and peers: whether the lines of a configuration fit together.

use crate::checks::Checks;
use crate::config::CONSOLE_DATABASE;
use crate::database::DatabaseSettings;
use crate::host::{Host, UnixSocketDir};
use crate::peer::PEER_ID_MAX;
use crate::problem::{Place, Problem};

const NO_AUTH_DBNAME: &str = "cannot use the reserved \"pgbouncer\" database as an auth_dbname";

const AUTH_DBNAME_HINT: &str = "name an entry of [databases]";

/// The longest name that PostgreSQL keeps (NAMEDATALEN - 1), in bytes. It cuts longer ones.
const SERVER_NAME_BYTES_MAX: usize = 63;

impl Checks<'_> {
    pub(crate) fn databases(&mut self) {
        if self.config.databases.is_empty() && self.config.autodb.is_none() {
            let message = "no databases are defined: only the admin console can be reached";
            let (place, hint) = match &self.places.databases_section {
                Some(place) => (place, "add a line such as: shop = host=10.0.0.5 port=5432 dbname=shop"),
                None => (self.file, "add a section [databases]"),
            };
            self.warn(place, message, hint);
        }
        for database in self.each_database() {
            let place = self.database_place(&database.name);
            let name = &database.name;
            if self.config.hosts(database).is_empty() {
                self.warn(
                    place,
                    format!("database \"{name}\" has no host, and unix_socket_dir is empty"),
                    "add host=",
                );
            }
            for host in self.config.hosts(database) {
                if let Some(hint) = why_no_host(host) {
                    self.warn(
                        place,
                        format!("database \"{name}\": \"{host}\" is neither an address nor a host name"),
                        hint,
                    );
                }
            }
            if self.leads_back_here(database) {
                self.warn(
                    place,
                    format!("database \"{name}\" connects to this pooler itself"),
                    format!(
                        "port={} is listen_port; PostgreSQL's port is usually 5432",
                        database.port
                    ),
                );
            }
            if name != "*" && database.server_dbname().len() > SERVER_NAME_BYTES_MAX {
                self.warn(
                    place,
                    format!("database name of more than {SERVER_NAME_BYTES_MAX} bytes"),
                    "PostgreSQL cuts it off",
                );
            }
            if let Some(auth_dbname) = &database.auth_dbname {
                self.auth_dbname(auth_dbname, place);
            }
            if database.password.is_some() && database.user.is_none() {
                self.warn(
                    place,
                    format!("database \"{name}\": password= is not used without user="),
                    "add user=",
                );
            }
        }
        if let Some(auth_dbname) = &self.global.auth_dbname {
            let place = self.setting_place("auth_dbname");
            match auth_dbname == CONSOLE_DATABASE {
                // PgBouncer does not start with it. In a line of a database it only refuses logins.
                true => self
                    .problems
                    .push(Problem::error(place, NO_AUTH_DBNAME).hint(AUTH_DBNAME_HINT)),
                false => self.auth_dbname(auth_dbname, place),
            }
        }
    }

    fn auth_dbname(&mut self, name: &str, place: &Place) {
        if name == CONSOLE_DATABASE {
            self.warn(place, NO_AUTH_DBNAME, AUTH_DBNAME_HINT);
        } else if self.config.database(name).is_none() {
            self.warn(
                place,
                format!("authentication database \"{name}\" is not configured"),
                "auth_dbname names an entry of [databases], not a database on the server",
            );
        }
    }

    fn leads_back_here(&self, database: &DatabaseSettings) -> bool {
        let tcp = !self.global.listen_addr.addresses().is_empty();
        database.port == self.global.listen_port
            && self.config.hosts(database).iter().any(|host| match host {
                Host::Address(address) => tcp && address.is_loopback(),
                Host::Name(name) => tcp && name == "localhost",
                unix => self.global.unix_socket_dir == UnixSocketDir::At(unix.clone()),
            })
    }

    pub(crate) fn peers(&mut self) {
        let id = self.global.peer_id;
        if id > PEER_ID_MAX {
            let message = format!("peer_id {id} is above {PEER_ID_MAX}");
            self.problems
                .push(Problem::error(self.setting_place("peer_id"), message));
        } else if id > 0 && self.config.peers.keys().all(|peer| *peer == id) {
            self.warn_setting(
                "peer_id",
                "peer_id is set, but there are no peers",
                "list them in section [peers]",
            );
        }
        for (id, place) in &self.places.peers {
            if *id > PEER_ID_MAX {
                self.warn(
                    place,
                    format!("peer id {id} is above {PEER_ID_MAX}"),
                    "no process can have it",
                );
            }
        }
    }
}

/// What to write instead, if this is neither an address nor a name that DNS could know.
fn why_no_host(host: &Host) -> Option<&'static str> {
    let Host::Name(name) = host else { return None };
    let is_number = |c: char| c.is_ascii_digit() || c == '.';
    let is_of_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_') || !c.is_ascii();
    // A tab, and what is behind it, has a warning of its own.
    let name = name.split('\t').next().unwrap_or_default();
    if name.contains('/') {
        Some("a directory of Unix-domain sockets begins with a slash")
    } else if name.contains(':') {
        Some("name the port with port=, and write IPv6 addresses without brackets")
    } else if name.chars().all(is_number) {
        Some("an IPv4 address consists of four numbers up to 255")
    } else if !name.chars().all(is_of_name) {
        Some("separate the hosts of a list by commas")
    } else {
        None
    }
}
