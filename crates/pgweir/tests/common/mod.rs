//! A pooler as a process, and a client that speaks just enough of the protocol.
#![allow(dead_code)]

use pgweir_wire::{ErrorFields, Header, ProtocolVersion, StartupPacket, Writer};
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

/// The longest time that any wait may take.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Waits until `what` holds.
pub fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let started = Instant::now();
    while !holds() {
        assert!(started.elapsed() < PATIENCE, "{what} did not come true");
        thread::sleep(Duration::from_millis(20));
    }
}

pub fn free_port() -> u16 {
    TcpListener::bind(("127.0.0.1", 0))
        .unwrap()
        .local_addr()
        .unwrap()
        .port()
}

/// The user to run a pooler as, because it refuses root.
fn unprivileged() -> Option<nix::unistd::User> {
    let is_root = nix::unistd::geteuid().is_root();
    is_root.then(|| nix::unistd::User::from_name("nobody").unwrap().unwrap())
}

/// A folder that the pooler can write to, with a configuration in it.
pub struct Place {
    folder: tempfile::TempDir,
    pub port: u16,
}

impl Place {
    /// `settings` go into section [pgbouncer].
    pub fn new(settings: &str) -> Self {
        let place = Place {
            folder: tempfile::tempdir().unwrap(),
            port: free_port(),
        };
        place.give(place.folder.path());
        place.configure(settings);
        place
    }

    pub fn configure(&self, settings: &str) {
        let (port, dir) = (self.port, self.folder.path().display());
        let text = format!(
            "[databases]\ndb = host=127.0.0.1 port=1 user=postgres\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\n\
             unix_socket_dir = {dir}\nauth_type = any\nlogfile = {dir}/pgweir.log\npidfile = {dir}/pgweir.pid\n\
             tcp_defer_accept = 0\nserver_tls_sslmode = disable\n{settings}\n"
        );
        fs::write(self.file("pgweir.ini"), text).unwrap();
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn log(&self) -> String {
        fs::read_to_string(self.file("pgweir.log")).unwrap_or_default()
    }

    pub fn socket(&self) -> PathBuf {
        self.file(&format!(".s.PGSQL.{}", self.port))
    }

    /// Gives a file to the pooler's user.
    pub fn give(&self, path: &Path) {
        if let Some(user) = unprivileged() {
            std::os::unix::fs::chown(path, Some(user.uid.as_raw()), Some(user.gid.as_raw())).unwrap();
        }
    }

    /// The command, which may be changed before it is run.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_pgweir"));
        if let Some(user) = unprivileged() {
            command.args(["-u", &user.name]);
        }
        command
            .args(arguments)
            .arg(self.file("pgweir.ini"))
            .stdin(Stdio::null());
        command
    }

    /// Starts a pooler that writes its log only to the file, and waits until it listens.
    pub fn start(&self) -> Process {
        let process = Process(self.command(&["-q"]).spawn().unwrap());
        self.wait_until_listening();
        process
    }

    /// Waits until a pooler has opened all its sockets, and answers.
    pub fn wait_until_listening(&self) {
        eventually("the pooler is up", || self.log().contains("process up"));
        eventually("the pooler listens", || {
            TcpStream::connect(("127.0.0.1", self.port)).is_ok()
        });
    }

    /// Runs a command until it ends; returns its exit status, output and errors.
    pub fn outcome(&self, arguments: &[&str]) -> (Option<i32>, String, String) {
        let files = [self.file("outcome.stdout"), self.file("outcome.stderr")];
        let [stdout, stderr] = files.each_ref().map(|f| fs::File::create(f).unwrap());
        let child = self.command(arguments).stdout(stdout).stderr(stderr).spawn();
        let status = Process(child.unwrap()).wait();
        let [stdout, stderr] = files.map(|f| fs::read_to_string(f).unwrap());
        (status.code(), stdout, stderr)
    }
}

/// A running program, killed when dropped.
pub struct Process(pub Child);

impl Process {
    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.0), signal).unwrap();
    }

    pub fn wait(&mut self) -> ExitStatus {
        let mut status = None;
        eventually("the process ends", || {
            status = self.0.try_wait().unwrap();
            status.is_some()
        });
        status.unwrap()
    }

    /// Processor time used so far.
    pub fn cpu(&self) -> Duration {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.0.id())).unwrap();
        let fields: Vec<&str> = stat.rsplit_once(") ").unwrap().1.split(' ').collect();
        let ticks: u64 = fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap();
        // USER_HZ is 100 everywhere.
        Duration::from_millis(ticks * 10)
    }

    /// Resident memory, bytes.
    pub fn memory(&self) -> usize {
        let status = fs::read_to_string(format!("/proc/{}/status", self.0.id())).unwrap();
        let line = status.lines().find(|l| l.starts_with("VmRSS:")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() * 1024
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// `pgweir try`, running.
pub struct TryIt {
    pub process: Process,
    pub port: u16,
    pub folder: PathBuf,
    lines: Receiver<String>,
}

impl TryIt {
    pub fn start(arguments: &[&str]) -> Self {
        let port = free_port();
        let mut command = Command::new(env!("CARGO_BIN_EXE_pgweir"));
        command.args(["try", "--port", &port.to_string()]).args(arguments);
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let (sender, lines) = channel();
        let output = BufReader::new(child.stdout.take().unwrap());
        thread::spawn(move || output.lines().map_while(Result::ok).for_each(|l| drop(sender.send(l))));
        let mut it = TryIt {
            process: Process(child),
            port,
            folder: PathBuf::new(),
            lines,
        };
        let first = it.line_with(", in ");
        it.folder = PathBuf::from(first.rsplit_once(", in ").unwrap().1);
        it.line_with("pgweir is ready");
        it
    }

    /// The next line of output that contains `part`.
    pub fn line_with(&self, part: &str) -> String {
        loop {
            let line = self
                .lines
                .recv_timeout(PATIENCE)
                .unwrap_or_else(|e| panic!("no line with \"{part}\": {e}"));
            if line.contains(part) {
                return line;
            }
        }
    }

    pub fn client(&self) -> Client {
        Client::log_in(TcpStream::connect(("127.0.0.1", self.port)).unwrap(), "postgres")
    }
}

/// One message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    pub tag: u8,
    pub body: Vec<u8>,
}

/// A client connection.
pub struct Client {
    pub stream: TcpStream,
    received: Vec<u8>,
    /// Process id and secret of BackendKeyData.
    pub key: Vec<u8>,
}

/// A startup packet.
pub fn startup(database: &str) -> Vec<u8> {
    let mut packet = Vec::new();
    let parameters = [(&b"user"[..], &b"postgres"[..]), (b"database", database.as_bytes())];
    StartupPacket::write_startup(&mut packet, ProtocolVersion::V3_0, parameters);
    packet
}

/// Messages as bytes.
pub fn messages(write: impl FnOnce(&mut Writer<'_>)) -> Vec<u8> {
    let mut bytes = Vec::new();
    write(&mut Writer::new(&mut bytes));
    bytes
}

impl Client {
    pub fn new(stream: TcpStream) -> Self {
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Client {
            stream,
            received: Vec::new(),
            key: Vec::new(),
        }
    }

    pub fn log_in(stream: TcpStream, database: &str) -> Self {
        let mut client = Client::new(stream);
        client.send(&startup(database));
        client.finish_log_in();
        client
    }

    /// Reads the answer to the startup packet.
    pub fn finish_log_in(&mut self) {
        for message in self.until_ready() {
            match message.tag {
                b'E' => panic!("{}", error_text(&message)),
                b'K' => self.key = message.body,
                _ => {}
            }
        }
    }

    pub fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).unwrap();
    }

    pub fn query(&mut self, text: &str) -> Vec<Message> {
        self.send(&messages(|w| w.query(text.as_bytes())));
        self.until_ready()
    }

    /// The first column of the first row.
    pub fn value(&mut self, query: &str) -> String {
        let answer = self.query(query);
        let row = answer
            .iter()
            .find(|m| m.tag == b'D')
            .unwrap_or_else(|| panic!("no row: {answer:?}"));
        let values = pgweir_wire::backend::data_row(&row.body).unwrap();
        String::from_utf8(values[0].unwrap().to_vec()).unwrap()
    }

    /// The next message; `None` at the end of the connection.
    pub fn next(&mut self) -> io::Result<Option<Message>> {
        loop {
            if let Ok(Some(header)) = Header::read(&self.received) {
                let length = header.message_bytes as usize;
                if self.received.len() >= length {
                    let body = self.received[5..length].to_vec();
                    self.received.drain(..length);
                    return Ok(Some(Message { tag: header.tag, body }));
                }
            }
            let mut bytes = [0; 65536];
            match self.stream.read(&mut bytes)? {
                0 => return Ok(None),
                count => self.received.extend_from_slice(&bytes[..count]),
            }
        }
    }

    /// Messages up to ReadyForQuery, or up to the end of the connection.
    pub fn until_ready(&mut self) -> Vec<Message> {
        let mut messages = Vec::new();
        while let Some(message) = self.next().unwrap() {
            let is_ready = message.tag == b'Z';
            messages.push(message);
            if is_ready {
                break;
            }
        }
        messages
    }
}

/// SQLSTATE and text of an ErrorResponse.
pub fn error_text(message: &Message) -> String {
    assert_eq!(message.tag, b'E', "{message:?}");
    let fields = ErrorFields::read(&message.body).unwrap();
    format!(
        "{} {}",
        String::from_utf8_lossy(fields.sqlstate),
        String::from_utf8_lossy(fields.message)
    )
}

pub fn lives(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok()
}
