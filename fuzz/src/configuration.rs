//! Configurations, each described by a few choices at the beginning of a story.

use crate::story::Story;
use pgweir_config::Config;
use std::cell::RefCell;
use std::collections::HashMap;
use std::io;
use std::sync::Arc;

/// Ports of the databases' servers; the port of a connection identifies its database.
pub const PORT_FORCED_USER: u16 = 5001;
pub const PORT_LIMITED: u16 = 5002;

/// The most servers of one pool, including the reserve.
pub const POOL_SERVERS_MAX: usize = 3;

/// `max_db_connections` of the database at [`PORT_LIMITED`].
pub const LIMITED_SERVERS_MAX: usize = 2;

/// Names and passwords of users; only auth_query knows `eve`.
pub const USERS: [(&str, &str); 4] = [("alice", "pw"), ("bob", "pw"), ("carol", "pw"), ("eve", "pw")];

/// The `auth_file`: a plain text password, a SCRAM verifier of one iteration, an MD5 hash, and the user that runs
/// auth_query.
fn auth_file() -> String {
    let keys = pgweir_auth::ScramKeys::derive(b"pw", b"salt", 1);
    let verifier = pgweir_auth::ScramVerifier::from(&keys).to_stored_text();
    let hash = pgweir_auth::Md5Secret::derive(b"pw", b"carol");
    let hash = String::from_utf8_lossy(hash.as_bytes()).into_owned();
    format!("\"alice\" \"pw\"\n\"bob\" \"{verifier}\"\n\"carol\" \"{hash}\"\n\"lookup\" \"pw\"\n")
}

/// The choices, in their order; each is one character of a seed.
const CHOICES: [&[&str]; 8] = [
    &[
        "pool_mode = session\n",
        "pool_mode = transaction\n",
        "pool_mode = statement\n",
    ],
    &[
        "auth_type = trust\n",
        "auth_type = plain\n",
        "auth_type = md5\n",
        "auth_type = scram-sha-256\n",
        "auth_type = any\n",
        "auth_type = scram-sha-256\nauth_user = lookup\n",
    ],
    &[
        "max_prepared_statements = 100\n",
        "max_prepared_statements = 1\n",
        "max_prepared_statements = 0\n",
    ],
    &[
        "default_pool_size = 1\n",
        "default_pool_size = 2\n",
        "default_pool_size = 2\nreserve_pool_size = 1\nreserve_pool_timeout = 1\n",
    ],
    &["", "deferred_begin = 0\n"],
    &[
        "",
        "server_reset_query_always = 1\n",
        "server_check_delay = 0\nserver_check_query = select 1\n",
        "server_reset_query =\nserver_round_robin = 1\n",
        "application_name_add_host = 1\nserver_check_query =\nserver_check_delay = 0\n",
        "disable_pqexec = 1\n",
    ],
    &[
        "",
        "query_timeout = 2\nclient_idle_timeout = 3\n",
        "query_wait_timeout = 2\nquery_wait_notify = 1\nidle_transaction_timeout = 1\n",
        "transaction_timeout = 2\nserver_lifetime = 1\nserver_idle_timeout = 1\n",
        "max_client_conn = 2\nclient_login_timeout = 1\npool_idle_timeout = 1\n",
    ],
    &[
        "",
        "connect_query",
        "max_user_connections = 1\n",
        "client_tls_sslmode = allow\n",
        "client_tls_sslmode = require\nserver_tls_sslmode = prefer\n",
        "client_tls_sslmode = verify-full\nauth_type = cert\nserver_tls_sslmode = require\n",
        "server_tls_sslmode = require\nserver_tls_sslnegotiation = direct\n",
    ],
];

/// Reads a configuration's choices.
pub fn read(story: &mut Story<'_>) -> Arc<Config> {
    let picks = CHOICES.map(|among| story.pick(among.len()));
    thread_local! {
        static MADE: RefCell<HashMap<[usize; CHOICES.len()], Arc<Config>>> = RefCell::default();
    }
    MADE.with_borrow_mut(|made| made.entry(picks).or_insert_with(|| make(picks)).clone())
}

fn make(picks: [usize; CHOICES.len()]) -> Arc<Config> {
    let mut settings = String::new();
    let mut connect_query = "";
    for (among, pick) in CHOICES.iter().zip(picks) {
        match among[pick] {
            "connect_query" => connect_query = " connect_query='set search_path to x'",
            lines => settings.push_str(lines),
        }
    }
    let ini = format!(
        "[databases]\n\
         forced = host=10.0.0.1 port={PORT_FORCED_USER} user=pool password=pw{connect_query}\n\
         limited = host=10.0.0.2,10.0.0.3 port={PORT_LIMITED} max_db_connections={LIMITED_SERVERS_MAX}{connect_query}\n\
         * = host=10.0.0.4 port=5003\n\
         [pgbouncer]\nauth_file = users\nscram_iterations = 1\nadmin_users = alice\nserver_tls_sslmode = disable\n\
         client_tls_key_file = key\nclient_tls_cert_file = certificate\nclient_tls_ca_file = authorities\n{settings}"
    );
    let files = move |name: &str| -> io::Result<Vec<u8>> {
        Ok(if name == "users" {
            auth_file().into_bytes()
        } else {
            ini.clone().into_bytes()
        })
    };
    match pgweir_config::load("pgweir.ini", &files) {
        Ok(loaded) => Arc::new(loaded.config),
        Err(problems) => panic!("the harness's own configuration is bad: {problems:?}"),
    }
}
