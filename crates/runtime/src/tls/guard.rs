//! A panic in the TLS library ends its connection alone: strangers choose the bytes that the library reads.
//!
//! This includes the parsing and verifying of certificates. A release is built to unwind (`panic` in the workspace's
//! Cargo.toml); without that, nothing here would help.

use super::side::Side;
use std::cell::Cell;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

thread_local! {
    /// The thread is inside the library.
    static IS_INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// The library has panicked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Panicked;

impl fmt::Display for Panicked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the TLS library has failed")
    }
}

/// From now on `report` gets a text for the log at each panic in the library.
pub(crate) fn report_panics(report: impl Fn(String) + Send + Sync + 'static) {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        usual(panic);
        if IS_INSIDE.get() {
            report(format!(
                "{Panicked}, and its connection ends; please report this: {panic}"
            ));
        }
    }));
}

/// Calls the library.
pub(super) fn guarded<T>(call: impl FnOnce() -> T) -> Result<T, Panicked> {
    IS_INSIDE.set(true);
    let outcome = catch_unwind(AssertUnwindSafe(call));
    IS_INSIDE.set(false);
    outcome.map_err(|_| Panicked)
}

/// The library's part of a session. After a panic it is gone, because its state cannot be trusted.
pub(super) struct Guarded(Option<Side>);

impl Guarded {
    pub(super) fn new(side: Side) -> Guarded {
        Guarded(Some(side))
    }

    #[cfg(test)]
    pub(super) fn is_gone(&self) -> bool {
        self.0.is_none()
    }

    /// Calls the library.
    pub(super) fn with<T>(&mut self, call: impl FnOnce(&mut Side) -> T) -> Result<T, Panicked> {
        let side = self.0.as_mut().ok_or(Panicked)?;
        let outcome = guarded(|| call(side));
        if outcome.is_err() {
            let side = self.0.take();
            let _ = guarded(|| drop(side));
        }
        outcome
    }
}
