//! An operator's orders, from the console and by signals: conversations in virtual time.

mod kill_and_disable;
pub mod orders;
mod pause;
mod reload;
mod set_tls;
mod shutdown;
