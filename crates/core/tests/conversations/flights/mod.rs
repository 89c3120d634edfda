//! Several clients' short transactions on one server at a time: conversations in virtual time.

mod cancel_requests;
mod code;
pub(crate) mod crowd;
mod how_long;
mod leaving;
mod own_answers;
mod publications;
mod sharing_time;
mod waiting;
mod who_flies;
