//! `TCP_DEFER_ACCEPT`, which no safe wrapper offers.

use rustix::io::Errno;
use std::os::fd::{AsFd, AsRawFd};

/// Makes the kernel keep new connections back until their first bytes have come, for about this many seconds.
#[cfg(target_os = "linux")]
#[allow(unsafe_code)]
pub(crate) fn set_defer_accept(socket: impl AsFd, seconds: u32) -> rustix::io::Result<()> {
    let value = libc::c_int::try_from(seconds).unwrap_or(libc::c_int::MAX);
    // SAFETY: the descriptor is open while `socket` is borrowed, and pointer and length are those of a living c_int.
    let outcome = unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_DEFER_ACCEPT,
            (&raw const value).cast(),
            size_of_val(&value) as libc::socklen_t,
        )
    };
    match outcome {
        0 => Ok(()),
        _ => Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::INVAL)),
    }
}

/// Other systems accept at once.
#[cfg(not(target_os = "linux"))]
pub(crate) fn set_defer_accept(_: impl AsFd, _: u32) -> rustix::io::Result<()> {
    Ok(())
}
