//! An operator's orders, from the console and by signals: conversations in virtual time.

#[path = "../rig/mod.rs"]
mod rig;

mod kill_and_disable;
mod orders;
mod pause;
mod reload;
mod shutdown;
