//! Who is served next among those that wait: start-time fair queueing.
//!
//! Each flow has a *tag*: the server time that it has used, divided by its weight, in virtual time. The flow with the
//! smallest tag goes first. Server time is known only at the end of its use, so it is charged then. Therefore a flow's
//! tag, and with it its place in the order, is known when the flow begins to wait.
//!
//! These types know neither clients nor servers: see [`crate::pools::wait_queue`].

pub(crate) mod flow;
pub(crate) mod groups;
mod heap;
pub(crate) mod level;
