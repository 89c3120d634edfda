//! Whole sessions, over a pair of sockets, with rustls on the other side.

mod hostile;
mod panics;
mod parties;
mod random;
mod records;

use super::*;
