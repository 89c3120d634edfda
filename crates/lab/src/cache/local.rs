//! Whether the server's processes and files can be seen from here.

use crate::server::Server;
use std::fs;
use std::path::PathBuf;

/// Whether the process that serves our connection is on this machine, and shows itself in /proc.
///
/// A socket on this machine is not enough: it may be a tunnel, or lead into a container. So the process is looked at: it
/// must call itself as PostgreSQL's backends do (ps_status.c): `postgres: 15/main: user database ...`.
pub(crate) fn backend_is_visible(server: &Server, backend_pid: i32, user: &str, database: &str) -> bool {
    if !server.is_local() {
        return false;
    }
    let Ok(title) = fs::read(format!("/proc/{backend_pid}/cmdline")) else {
        return false;
    };
    is_backend_title(&String::from_utf8_lossy(&title), user, database)
}

fn is_backend_title(title: &str, user: &str, database: &str) -> bool {
    title.starts_with("postgres: ") && title.contains(&format!(" {user} {database} "))
}

/// Where a relation's segments are, given where its first one is.
///
/// PostgreSQL cuts files at 1 GB (RELSEG_SIZE): `16384`, `16384.1`, `16384.2` ... They end at the first that is missing.
pub(crate) fn segments(first: PathBuf) -> impl Iterator<Item = PathBuf> {
    (0u32..)
        .map(move |number| match number {
            0 => first.clone(),
            _ => {
                let mut path = first.clone().into_os_string();
                path.push(format!(".{number}"));
                PathBuf::from(path)
            }
        })
        .take_while(|path| path.exists())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn titles_of_backends() {
        assert!(is_backend_title("postgres: bob shop [local] idle\0\0", "bob", "shop"));
        assert!(is_backend_title(
            "postgres: 15/main: bob shop 127.0.0.1(4242) SELECT",
            "bob",
            "shop"
        ));
        assert!(!is_backend_title("postgres: bob warehouse [local] idle", "bob", "shop"));
        assert!(!is_backend_title("vi bob shop x", "bob", "shop"));
    }

    #[test]
    fn segments_end_at_the_first_gap() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["1", "1.1", "1.3", "1_fsm"] {
            fs::write(folder.path().join(name), "").unwrap();
        }
        let found: Vec<_> = segments(folder.path().join("1")).collect();
        assert_eq!(found, [folder.path().join("1"), folder.path().join("1.1")]);
    }
}
