//! The pooler as a process: start, errors at the start, files, signals, daemon, file descriptors.
#![allow(clippy::disallowed_methods)]

mod common;

use common::{Client, Place, Process, error_text, eventually, lives, startup};
use rustix::process::Signal;
use std::fs;
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

#[test]
fn a_missing_configuration_is_named() {
    let place = Place::new("");
    fs::remove_file(place.file("pgweir.ini")).unwrap();
    let (status, _, errors) = place.outcome(&[]);
    assert_eq!(status, Some(1));
    assert!(
        errors.contains("pgweir.ini") && errors.contains("No such file"),
        "{errors}"
    );
}

/// PgBouncer's words and exit status, which scripts look for.
#[test]
fn a_command_line_that_is_wrong_ends_as_in_pgbouncer() {
    let place = Place::new("");
    let ini = place.file("pgweir.ini");
    let ini = ini.to_str().unwrap();
    for (arguments, text) in [
        (&[][..], "pgweir: no configuration file specified\n"),
        (&[ini, "extra"], "pgweir: no configuration file specified\n"),
        (&["-x", ini], "pgweir: invalid option -- 'x'\n"),
        (&["-qx", ini], "pgweir: invalid option -- 'x'\n"),
        (&["--nosuch", ini], "pgweir: unrecognized option '--nosuch'\n"),
        (&["--nosuch=1", ini], "pgweir: unrecognized option '--nosuch"),
        (&["-u"], "pgweir: option requires an argument -- 'u'\n"),
        (&["--user"], "pgweir: option '--user' requires an argument\n"),
        (
            &["-u", "no-such-user-anywhere", ini],
            "pgweir: could not find user 'no-such-user-anywhere' to switch to\n",
        ),
        (
            &["nosuch.ini"],
            "pgweir: nosuch.ini: error: could not load file \"nosuch.ini\": No such file",
        ),
    ] {
        let output = Command::new(env!("CARGO_BIN_EXE_pgweir"))
            .args(arguments)
            .output()
            .unwrap();
        let errors = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {errors}");
        assert!(errors.starts_with(text), "{arguments:?}: {errors}");
        let is_syntax = !text.contains("could not");
        assert_eq!(
            errors.contains("\nTry \"pgweir --help\" for more information.\n"),
            is_syntax,
            "{errors}"
        );
    }
    for arguments in [&["check"][..], &["advise", "--nosuch"]] {
        let output = Command::new(env!("CARGO_BIN_EXE_pgweir"))
            .args(arguments)
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: a command of its own");
    }
}

#[test]
fn every_problem_of_a_bad_configuration_is_printed_with_its_line() {
    let place = Place::new("pool_mode = sometimes\nmax_client_con = 5\n");
    let (status, _, errors) = place.outcome(&[]);
    assert_eq!(status, Some(1));
    for expected in [
        "pgweir.ini:12",
        "pool_mode",
        "pgweir.ini:13",
        "max_client_con",
        "hint: ",
    ] {
        assert!(errors.contains(expected), "no {expected} in {errors}");
    }
    let check = Command::new(env!("CARGO_BIN_EXE_pgweir"))
        .arg("check")
        .arg(place.file("pgweir.ini"))
        .output()
        .unwrap();
    let said = String::from_utf8(check.stdout).unwrap();
    assert_eq!(check.status.code(), Some(1));
    assert!(said.contains("cannot be used, 2 errors"), "{said}");
    place.configure("");
    let check = Command::new(env!("CARGO_BIN_EXE_pgweir"))
        .arg("check")
        .arg(place.file("pgweir.ini"))
        .output()
        .unwrap();
    assert_eq!(
        check.status.code(),
        Some(0),
        "{}",
        String::from_utf8_lossy(&check.stdout)
    );
}

#[test]
fn a_port_in_use_is_reported_with_its_address() {
    let place = Place::new("");
    let _taken = TcpListener::bind(("127.0.0.1", place.port)).unwrap();
    let (status, _, errors) = place.outcome(&["-q"]);
    assert_eq!(status, Some(1));
    assert!(
        errors.contains(&format!(
            "failed to listen on any address in listen_addr list: cannot listen on 127.0.0.1:{}: bind(): Address already in use",
            place.port
        )),
        "{errors}"
    );
    assert!(
        place.log().contains(" FATAL failed to listen on any address "),
        "{}",
        place.log()
    );
    assert!(!lives(&place.file("pgweir.pid")) && !lives(&place.socket()));
}

#[test]
fn files_come_with_the_process_and_go_with_it() {
    let place = Place::new("unix_socket_mode = 0700");
    let mut pooler = place.start();
    let pid = fs::read_to_string(place.file("pgweir.pid")).unwrap();
    assert_eq!(pid, format!("{}\n", pooler.0.id()));
    assert!(UnixStream::connect(place.socket()).is_ok());
    let mode = std::os::unix::fs::MetadataExt::mode(&fs::metadata(place.socket()).unwrap());
    assert_eq!(mode & 0o777, 0o700);
    // YYYY-MM-DD HH:MM:SS.mmm TZ [pid] LEVEL text
    let log = place.log();
    let up = log.lines().find(|l| l.contains("process up")).unwrap();
    let words: Vec<&str> = up.split(' ').collect();
    assert_eq!(
        (words[0].len(), words[1].len(), words[3]),
        (10, 12, format!("[{}]", pid.trim()).as_str()),
        "{up}"
    );
    assert_eq!(
        words[4..],
        ["LOG", "process", "up:", "pgweir", env!("CARGO_PKG_VERSION")]
    );

    let (status, _, errors) = place.outcome(&["-q"]);
    assert_eq!(status, Some(1));
    assert!(
        errors.contains(&format!(
            "pidfile '{}' exists, another instance running?",
            place.file("pgweir.pid").display()
        )),
        "{errors}"
    );
    assert!(lives(&place.file("pgweir.pid")));

    pooler.signal(Signal::TERM);
    assert_eq!(pooler.wait().code(), Some(0));
    assert!(!lives(&place.file("pgweir.pid")) && !lives(&place.socket()));
}

#[test]
fn a_socket_file_is_taken_from_the_dead_only() {
    let place = Place::new("");
    // A listener that is closed leaves its file.
    drop(UnixListener::bind(place.socket()).unwrap());
    place.give(&place.socket());
    assert!(lives(&place.socket()));
    let mut pooler = place.start();
    assert!(UnixStream::connect(place.socket()).is_ok());
    pooler.signal(Signal::QUIT);
    assert_eq!(pooler.wait().code(), Some(0));

    let _living = UnixListener::bind(place.socket()).unwrap();
    place.give(&place.socket());
    let (status, _, errors) = place.outcome(&["-q"]);
    assert_eq!(status, Some(1));
    assert!(
        errors.contains(".s.PGSQL.") && errors.contains("unix socket is in use, cannot continue: "),
        "{errors}"
    );
    assert!(lives(&place.socket()));

    fs::remove_file(place.socket()).unwrap();
    fs::write(place.socket(), "precious").unwrap();
    let (status, _, errors) = place.outcome(&["-q"]);
    assert_eq!((status, errors.contains("not a socket")), (Some(1), true), "{errors}");
    assert_eq!(fs::read_to_string(place.socket()).unwrap(), "precious");
}

#[test]
fn in_the_background_it_is_ready_when_the_command_returns() {
    let place = Place::new("");
    let (status, _, errors) = place.outcome(&["-d"]);
    assert_eq!(status, Some(0), "{errors}");
    assert!(TcpStream::connect(("127.0.0.1", place.port)).is_ok());
    let pid: u32 = fs::read_to_string(place.file("pgweir.pid"))
        .unwrap()
        .trim()
        .parse()
        .unwrap();
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let session: u32 = stat
        .rsplit_once(") ")
        .unwrap()
        .1
        .split(' ')
        .nth(3)
        .unwrap()
        .parse()
        .unwrap();
    assert_eq!(session, pid, "it leads a session of its own");
    for stream in 0..3 {
        assert_eq!(
            fs::read_link(format!("/proc/{pid}/fd/{stream}")).unwrap().to_str(),
            Some("/dev/null")
        );
    }
    let process = rustix::process::Pid::from_raw(pid.cast_signed()).unwrap();
    rustix::process::kill_process(process, Signal::QUIT).unwrap();
    eventually("it has ended", || !lives(&place.file("pgweir.pid")));
}

#[test]
fn a_background_start_that_fails_fails_the_command() {
    let mut place = Place::new("logfile =\npidfile =");
    let (status, _, errors) = place.outcome(&["-d"]);
    assert_eq!(status, Some(1));
    assert!(errors.contains("daemon needs pidfile configured"), "{errors}");
    // A port that is in use from the beginning; another process could take a free one.
    let taken = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    place.port = taken.local_addr().unwrap().port();
    place.configure("");
    let (status, _, errors) = place.outcome(&["-d"]);
    assert_eq!(status, Some(1));
    assert!(errors.contains("Address already in use"), "{errors}");
}

/// As in PgBouncer.
#[test]
fn a_pid_file_suffices_in_the_background() {
    let place = Place::new("logfile =");
    let (status, _, errors) = place.outcome(&["-d"]);
    assert_eq!(status, Some(0), "{errors}");
    let pid = fs::read_to_string(place.file("pgweir.pid")).unwrap();
    let pid = rustix::process::Pid::from_raw(pid.trim().parse().unwrap()).unwrap();
    rustix::process::kill_process(pid, Signal::QUIT).unwrap();
    eventually("it has ended", || !lives(&place.file("pgweir.pid")));
}

#[test]
fn hangup_opens_the_log_anew_and_keeps_a_good_configuration() {
    let place = Place::new("");
    let mut pooler = place.start();
    fs::rename(place.file("pgweir.log"), place.file("pgweir.log.1")).unwrap();
    place.configure("pool_mode = sometimes");
    pooler.signal(Signal::HUP);
    eventually("the problem is logged to a new file", || {
        place.log().contains("pool_mode")
    });
    assert!(place.log().contains("pgweir.ini:12"), "{}", place.log());
    assert!(TcpStream::connect(("127.0.0.1", place.port)).is_ok());
    pooler.signal(Signal::QUIT);
    assert_eq!(pooler.wait().code(), Some(0));
}

#[test]
fn taking_over_starts_where_nobody_is_and_ends_who_was_there() {
    let place = Place::new("");
    let start = || Process(place.command(&["-q", "-R"]).spawn().unwrap());
    let mut old = start();
    place.wait_until_listening();
    assert!(place.log().contains("old process not found, try to continue normally"));
    let mut new = start();
    assert_eq!(old.wait().code(), Some(0), "{}", place.log());
    assert!(TcpStream::connect(("127.0.0.1", place.port)).is_ok());
    let pid = fs::read_to_string(place.file("pgweir.pid")).unwrap();
    assert_eq!(pid, format!("{}\n", new.0.id()));
    new.signal(Signal::QUIT);
    assert_eq!(new.wait().code(), Some(0));
    assert!(!lives(&place.file("pgweir.pid")) && !lives(&place.socket()));
}

#[test]
fn root_is_refused() {
    if !nix::unistd::geteuid().is_root() {
        return;
    }
    let place = Place::new("");
    let output = Command::new(env!("CARGO_BIN_EXE_pgweir"))
        .arg(place.file("pgweir.ini"))
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(
        errors.contains("should not run as root") && errors.contains("-u USER"),
        "{errors}"
    );
}

#[test]
fn without_file_descriptors_clients_are_told_and_nothing_spins() {
    let place = Place::new("max_client_conn = 1000");
    let mut limited = Command::new("sh");
    limited.args(["-c", "ulimit -n 40; exec \"$0\" \"$@\""]);
    let plain = place.command(&["-q"]);
    limited.arg(plain.get_program()).args(plain.get_args()).arg0("sh");
    let mut pooler = Process(limited.spawn().unwrap());
    place.wait_until_listening();
    // Silent clients take all descriptors.
    let silent: Vec<TcpStream> = (0..45)
        .map(|_| TcpStream::connect(("127.0.0.1", place.port)).unwrap())
        .collect();
    eventually("descriptors run out", || {
        place
            .log()
            .contains("clients are refused until file descriptors are free")
    });
    let before = (Instant::now(), pooler.cpu());
    thread::sleep(Duration::from_secs(1));
    let busy = pooler.cpu() - before.1;
    assert!(
        busy * 4 < before.0.elapsed(),
        "{busy:?} of processor time while nobody can be served"
    );

    let mut client = Client::new(TcpStream::connect(("127.0.0.1", place.port)).unwrap());
    client.send(&startup("db"));
    let answer = client.next().unwrap().expect("an error message");
    assert_eq!(error_text(&answer), "53300 sorry, too many clients already");
    assert!(client.next().unwrap().is_none());
    assert_eq!(place.log().matches("clients are refused").count(), 1);

    drop(silent);
    eventually("clients are accepted again", || {
        let mut client = Client::new(TcpStream::connect(("127.0.0.1", place.port)).unwrap());
        client.send(&startup("no such database"));
        let answer = client.next().unwrap();
        !answer.is_some_and(|m| m.tag == b'E' && error_text(&m).starts_with("53300 sorry"))
    });
    pooler.signal(Signal::QUIT);
    assert_eq!(pooler.wait().code(), Some(0));
}
