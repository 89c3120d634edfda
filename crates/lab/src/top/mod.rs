//! `pgweir top`: a pooler at work, live in a terminal or as plain text.
//!
//! | file | concept |
//! |---|---|
//! | `look` | one look at a console: what its tables say |
//! | `view` | two looks as what is shown: rates, order (pure) |
//! | `page`, `table` | the lines, cut for the terminal (pure) |
//! | `watching` | looks again and again; a lost connection is made again |
//! | `live`, `terminal` | the live view: keys, signals, the screen |

mod live;
mod look;
mod page;
mod table;
mod terminal;
mod view;
mod watching;

use crate::server::Server;
use crate::server::conninfo::Parameters;
use crate::{Error, Result};
use clap::Args;
use look::Console;
use page::{Frame, page};
use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};
use view::{Order, View};

/// Arguments of `top`.
#[derive(Debug, Args)]
pub struct TopArguments {
    /// Connection string or URI of the console, as for psql; missing parameters come from PGHOST and the other environment
    /// variables, the service file and ~/.pgpass; the port is 6432 where none is given
    #[arg(value_name = "CONNINFO", default_value = "", hide_default_value = true)]
    conninfo: String,

    /// The same, as for pgweir advise
    #[arg(long, value_name = "CONNINFO", conflicts_with = "conninfo")]
    console: Option<String>,

    /// Seconds from one look to the next
    #[arg(short, long, value_name = "SECONDS", default_value = "1", value_parser = interval)]
    interval: Duration,

    /// Print this many views as plain text and end
    #[arg(short, long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..))]
    batch: Option<u32>,

    /// Print one view as plain text and end, as --batch 1 does
    #[arg(long, conflicts_with = "batch")]
    once: bool,

    /// What comes first
    #[arg(short, long, value_enum, default_value_t)]
    order: Order,

    /// Show clients instead of pools, the longest wait first
    #[arg(long)]
    clients: bool,
}

/// PgBouncer's and pgweir's default.
const PORT: &str = "6432";

/// Seconds until a connection that nobody answers has failed, unless the user says otherwise.
const CONNECT_TIMEOUT: &str = "10";

/// Runs the command.
pub fn run(arguments: &TopArguments) -> Result<()> {
    let server = console(arguments.console.as_deref().unwrap_or(&arguments.conninfo))?;
    // An address that cannot be reached is an error at once; later it is tried again.
    let console = watching::connect(&server)?;
    let terminal = std::io::stdout().is_terminal() && std::env::var("TERM").is_ok_and(|term| term != "dumb");
    match (arguments.batch, arguments.once || !terminal) {
        (Some(count), _) => print(&server, console, arguments, count),
        (None, true) => print(&server, console, arguments, 1),
        (None, false) => live::watch(
            &server,
            console,
            (arguments.interval, arguments.order, arguments.clients),
        ),
    }
}

/// The console that is meant.
fn console(conninfo: &str) -> Result<Server> {
    let mut given = Parameters::parse(conninfo).map_err(Error::new)?;
    let is_set =
        |parameter: &str, variable: &str| given.get(parameter).is_some() || std::env::var_os(variable).is_some();
    if !is_set("port", "PGPORT") && !is_set("service", "PGSERVICE") {
        given.set("port", PORT).map_err(Error::new)?;
    }
    let mut server = crate::console::of_parameters(given)?;
    for (name, value) in [("application_name", "pgweir top"), ("connect_timeout", CONNECT_TIMEOUT)] {
        if server.get(name).is_none() {
            server = server.with(&[(name, value)])?;
        }
    }
    Ok(server)
}

/// Prints so many views, each of the time since the look before it.
fn print(server: &Server, mut console: Console, arguments: &TopArguments, count: u32) -> Result<()> {
    let frame = Frame {
        width: std::io::stdout().is_terminal().then(|| terminal::size().0),
        title: format!("pgweir top: {}  {}", place(server), console.version),
        ..Frame::default()
    };
    let started = Instant::now();
    let mut before = console.look(started.elapsed(), arguments.clients)?;
    for number in 1..=count {
        std::thread::sleep((arguments.interval * number).saturating_sub(started.elapsed()));
        let now = console.look(started.elapsed(), arguments.clients)?;
        let view = View::new(Some(&before), &now, arguments.order);
        let mut text = String::new();
        for line in page(&view, &frame) {
            text.push_str(&line.text);
            text.push('\n');
        }
        if number < count {
            text.push('\n');
        }
        let mut output = std::io::stdout().lock();
        match output.write_all(text.as_bytes()).and_then(|()| output.flush()) {
            // Whoever reads has seen enough.
            Err(e) if e.kind() == std::io::ErrorKind::BrokenPipe => return Ok(()),
            outcome => outcome?,
        }
        before = now;
    }
    Ok(())
}

/// `127.0.0.1:6432`
fn place(server: &Server) -> String {
    let get = |name| server.get(name).unwrap_or_default();
    let host = server.get("host").or(server.get("hostaddr")).unwrap_or_default();
    format!("{host}:{}", get("port"))
}

/// Seconds, such as `2` or `0.5`.
fn interval(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "a number of seconds is needed".to_owned())?;
    match (0.1..=3600.0).contains(&seconds) {
        true => Ok(Duration::from_secs_f64(seconds)),
        false => Err("between 0.1 and 3600 seconds".to_owned()),
    }
}
