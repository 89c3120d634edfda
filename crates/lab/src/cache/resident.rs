//! How much of a file the operating system's page cache holds. The one file of this crate with unsafe code.
//!
//! Neither cachestat(2) nor mincore(2) has a wrapper in the crates that this one stands on, and there is no safe call with
//! the same answer. What is unsafe here is two system calls on memory that the same function owns; nothing leaves it but
//! a number.
#![allow(unsafe_code)]

use std::fs::File;
use std::io;

/// Bytes of the file in the page cache.
///
/// Asks cachestat (Linux 6.5), which touches nothing, and mincore on a mapping where that is not known. mincore tells the
/// truth only to who may write to the file (Linux 5.2); to others it says that everything is there, so it is not asked.
#[cfg(target_os = "linux")]
pub(super) fn cached_bytes(file: &File) -> io::Result<u64> {
    match linux::cachestat(file) {
        Err(e) if matches!(e.raw_os_error(), Some(libc::ENOSYS | libc::EOPNOTSUPP)) => linux::mincore(file),
        outcome => outcome,
    }
}

/// Only Linux is asked.
#[cfg(not(target_os = "linux"))]
pub(super) fn cached_bytes(_file: &File) -> io::Result<u64> {
    Err(io::ErrorKind::Unsupported.into())
}

#[cfg(target_os = "linux")]
mod linux {
    use rustix::fs::{Access, AtFlags, CWD, accessat};
    use std::fs::File;
    use std::io;
    use std::os::fd::AsRawFd;
    use std::ptr;

    /// The same on all architectures (include/uapi/asm-generic/unistd.h); libc names it for a few only.
    const SYS_CACHESTAT: libc::c_long = 451;

    /// As much of a file as is mapped at a time.
    const WINDOW_BYTES: u64 = 256 << 20;

    /// struct cachestat_range of linux/mman.h: a length of 0 means to the end of the file.
    #[repr(C)]
    struct Range {
        offset: u64,
        length: u64,
    }

    /// struct cachestat of linux/mman.h, all in pages.
    #[repr(C)]
    #[derive(Default)]
    struct Counts {
        cached: u64,
        dirty: u64,
        writeback: u64,
        evicted: u64,
        recently_evicted: u64,
    }

    pub(super) fn cachestat(file: &File) -> io::Result<u64> {
        let range = Range { offset: 0, length: 0 };
        let mut counts = Counts::default();
        // SAFETY: both structures have the kernel's layout and live until the call returns; the descriptor is open as long
        // as `file` is borrowed. The kernel reads the first and writes the second, and keeps neither.
        let result = unsafe {
            libc::syscall(
                SYS_CACHESTAT,
                file.as_raw_fd(),
                &raw const range,
                &raw mut counts,
                0 as libc::c_uint,
            )
        };
        match result {
            0 => Ok(counts.cached * rustix::param::page_size() as u64),
            _ => Err(io::Error::last_os_error()),
        }
    }

    pub(super) fn mincore(file: &File) -> io::Result<u64> {
        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        accessat(CWD, path.as_str(), Access::WRITE_OK, AtFlags::EACCESS)?;
        let page = rustix::param::page_size() as u64;
        let length = file.metadata()?.len();
        let mut cached = 0;
        let mut offset = 0;
        while offset < length {
            let window = (length - offset).min(WINDOW_BYTES) as usize;
            cached += mincore_window(file, offset, window)?;
            offset += WINDOW_BYTES;
        }
        Ok(cached * page)
    }

    /// Pages in the cache from `offset`, a multiple of the page size, over `window` bytes.
    fn mincore_window(file: &File, offset: u64, window: usize) -> io::Result<u64> {
        let mut pages = vec![0u8; window.div_ceil(rustix::param::page_size())];
        let offset = libc::off_t::try_from(offset).map_err(|_| io::ErrorKind::FileTooLarge)?;
        // SAFETY: a fresh, shared, read-only mapping at an address that the kernel chooses. It is never read, so that a
        // file cut short meanwhile does no harm; mincore writes one byte for each page of it into `pages`, which has as
        // many; and it is gone before this function returns.
        unsafe {
            let address = libc::mmap(
                ptr::null_mut(),
                window,
                libc::PROT_READ,
                libc::MAP_SHARED,
                file.as_raw_fd(),
                offset,
            );
            if address == libc::MAP_FAILED {
                return Err(io::Error::last_os_error());
            }
            let result = libc::mincore(address, window, pages.as_mut_ptr());
            let error = io::Error::last_os_error();
            libc::munmap(address, window);
            if result != 0 {
                return Err(error);
            }
        }
        Ok(pages.iter().filter(|page| **page & 1 == 1).count() as u64)
    }

    #[cfg(test)]
    mod tests {
        use super::*;
        use std::io::Write;

        #[test]
        fn both_calls_see_what_was_just_written() {
            let mut file = tempfile::tempfile().unwrap();
            let page = rustix::param::page_size() as u64;
            file.write_all(&vec![1; 10 * page as usize + 1]).unwrap();
            assert_eq!(mincore(&file).unwrap(), 11 * page);
            // Kernels before 6.5 do not know it, and some sandboxes refuse it.
            match cachestat(&file) {
                Ok(bytes) => assert_eq!(bytes, 11 * page),
                Err(e) => assert!(matches!(e.raw_os_error(), Some(libc::ENOSYS | libc::EPERM)), "{e}"),
            }
        }

        #[test]
        fn an_empty_file_has_nothing_in_the_cache() {
            let file = tempfile::tempfile().unwrap();
            assert_eq!(super::super::cached_bytes(&file).unwrap(), 0);
        }
    }
}
