//! Pools: idle servers, the queue of clients, limits.

pub(crate) mod choice;
pub(crate) mod classes;
pub(crate) mod databases;
pub(crate) mod fair;
pub(crate) mod held_cancels;
pub(crate) mod hosts;
pub(crate) mod idle_list;
pub(crate) mod index;
pub(crate) mod known_of_servers;
pub(crate) mod members;
pub(crate) mod opening;
pub(crate) mod overload;
pub(crate) mod peers;
pub(crate) mod places;
pub(crate) mod pool;
pub(crate) mod pool_login;
pub(crate) mod sizing;
pub(crate) mod startup_values;
pub(crate) mod together;
pub(crate) mod wait_queue;
