//! Whole sessions, over a pair of sockets, with rustls on the other side.

mod panics;
mod parties;

use super::*;
