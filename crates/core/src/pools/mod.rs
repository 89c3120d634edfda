//! Pools: idle servers, the queue of clients, linking one to the other.

pub(crate) mod database_ddl;
pub(crate) mod databases;
pub(crate) mod idle_list;
pub(crate) mod pool;
pub(crate) mod wait_queue;
