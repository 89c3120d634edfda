//! The configuration of a test: production's defaults, but what scripted servers cannot answer.

use super::Rig;
use pgweir_config::{Config, load};
use pgweir_core::{Pooler, Surroundings, Time, WallClock};
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

impl Rig {
    /// A pooler with one database, `db`, that every client may use as user `u`; `settings` are lines of [pgbouncer].
    pub fn new(settings: &str) -> Rig {
        Rig::with("db = host=127.0.0.1 user=u", settings)
    }

    /// The same with a pool of one server.
    pub fn one_server(settings: &str) -> Rig {
        Rig::new(&format!("default_pool_size = 1\n{settings}"))
    }

    pub fn with(databases: &str, settings: &str) -> Rig {
        Rig::of(&configuration(databases, settings))
    }

    /// A pooler with the database `db` and `auth_type = trust`; `users` are the lines of `auth_file`.
    pub fn with_users(users: &str, settings: &str) -> Rig {
        Rig::with_databases_and_users("db = host=127.0.0.1 user=u", settings, users)
    }

    /// A pooler with these lines of [databases], `auth_type = trust`, and these lines of `auth_file`.
    pub fn with_databases_and_users(databases: &str, settings: &str, users: &str) -> Rig {
        Rig::of(&configuration_with_users(databases, settings, users))
    }

    /// A pooler with these settings for logins, and the files that they name.
    pub fn with_files(settings: &str, files: &[(&str, &str)]) -> Rig {
        Rig::of(&configuration_with_files(settings, files))
    }

    fn of(config: &Config) -> Rig {
        let surroundings = Surroundings {
            seed: [7; 32],
            wall: WallClock { unix_us: 0 },
            own_uid: 0,
            host_name: "here".into(),
            open_files_max: 1000,
        };
        Rig {
            pooler: Pooler::new(Arc::new(config.clone()), surroundings, Time(0)),
            now: Time(0),
            written: HashMap::new(),
            unread: HashMap::new(),
            kept: HashMap::new(),
            connects: VecDeque::new(),
            endpoints: HashMap::new(),
            cancels: VecDeque::new(),
            passed_on: VecDeque::new(),
            handshakes: VecDeque::new(),
            closed: HashSet::new(),
            aborted: Vec::new(),
            log: Vec::new(),
            status: None,
            exited: false,
            stopped_listening: false,
            configured: None,
            tls_changes: VecDeque::new(),
            reloads: VecDeque::new(),
            questions: VecDeque::new(),
            derivations: VecDeque::new(),
            names: HashMap::new(),
            catalogs_are_empty: true,
            replayed: HashMap::new(),
        }
    }
}

fn ini(databases: &str, settings: &str) -> String {
    // Scripted servers answer no SSLRequest.
    let server_tls = if settings.contains("server_tls_sslmode") {
        ""
    } else {
        "server_tls_sslmode = disable\n"
    };
    format!("[databases]\n{databases}\n[pgbouncer]\nauth_type = any\npool_mode = transaction\n{server_tls}{settings}\n")
}

/// The configuration in a file with these lines of [databases] and [pgbouncer].
pub fn configuration(databases: &str, settings: &str) -> Config {
    read(&ini(databases, settings), "")
}

/// The same with `auth_type = trust` and these lines of `auth_file`.
pub fn configuration_with_users(databases: &str, settings: &str, users: &str) -> Config {
    let settings = format!("auth_type = trust\nauth_file = users.txt\n{settings}");
    read(&ini(databases, &settings), users)
}

/// The same with these settings for logins and the files that they name.
pub fn configuration_with_files(settings: &str, files: &[(&str, &str)]) -> Config {
    let ini = ini("db = host=127.0.0.1 user=u", settings);
    let mut files = files.to_vec();
    files.push(("test.ini", &ini));
    read_from(&files)
}

pub(super) fn read(ini: &str, users: &str) -> Config {
    read_from(&[("test.ini", ini), ("users.txt", users)])
}

fn read_from(files: &[(&str, &str)]) -> Config {
    let files = |name: &str| -> std::io::Result<Vec<u8>> {
        let found = files.iter().find(|(n, _)| *n == name);
        found
            .map(|(_, text)| text.as_bytes().to_vec())
            .ok_or_else(|| std::io::ErrorKind::NotFound.into())
    };
    let loaded = load("test.ini", &files).unwrap_or_else(|problems| panic!("{problems:?}"));
    loaded.config
}
