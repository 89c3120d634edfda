//! Becoming an unprivileged user.

use crate::start_error::StartError;
use nix::unistd::{User, geteuid, initgroups, setgid, setuid};
use std::ffi::CString;
use std::io;

/// Changes to `user` if one is given, and refuses to continue as root. Call it while there is only one thread.
pub(crate) fn drop_privileges(user: &str) -> Result<(), StartError> {
    if !user.is_empty() {
        change_user(user)?;
    }
    if geteuid().is_root() {
        Err(StartError::Root)
    } else {
        Ok(())
    }
}

/// The user with this name or number.
pub(crate) fn find_user(user: &str) -> Option<User> {
    User::from_name(user).ok().flatten().or_else(|| {
        let number = user.parse().ok()?;
        User::from_uid(nix::unistd::Uid::from_raw(number)).ok().flatten()
    })
}

/// Changes to `user`, with its groups, for good. Call it while there is only one thread.
pub fn change_user(user: &str) -> Result<(), StartError> {
    let entry = find_user(user).ok_or_else(|| StartError::UnknownUser { user: user.to_owned() })?;
    if entry.uid == geteuid() {
        return Ok(());
    }
    let error = |source: io::Error| StartError::ChangeUser {
        user: user.to_owned(),
        source,
    };
    let name = CString::new(entry.name).map_err(|e| error(e.into()))?;
    initgroups(&name, entry.gid).map_err(|e| error(e.into()))?;
    setgid(entry.gid).map_err(|e| error(e.into()))?;
    setuid(entry.uid).map_err(|e| error(e.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_user_is_named() {
        let e = drop_privileges("no-such-user-anywhere").unwrap_err();
        assert_eq!(
            e.to_string(),
            "could not find user 'no-such-user-anywhere' to switch to"
        );
    }
}
