//! Moves of a client's channels between its server and a listener.

use crate::notify::channels::ChannelName;
use std::collections::BTreeSet;

/// The move of a client's channels that is under way.
#[derive(Debug, Default, PartialEq, Eq, pgweir_freeze::Freeze)]
pub(crate) enum Moving {
    /// None.
    #[default]
    No,
    /// The server is asked for its channels.
    Asking {
        names: Vec<ChannelName>,
        /// After the question a request was sent that may change the answer.
        stale: bool,
    },
    /// The listener has been asked to listen; `listens`: it does now.
    Wanted {
        channels: BTreeSet<ChannelName>,
        /// The number of this request among the client's.
        ticket: u64,
        listens: bool,
    },
    /// From the server to the listener: the channels for which the client does not get the
    /// listener's notifications yet.
    Away {
        channels: BTreeSet<ChannelName>,
        at: Progress,
    },
    /// From the listener to the server.
    Back(Progress),
    /// The channels are on the server until the client's transaction has ended.
    Stays,
    /// The present channels cannot be moved.
    GivenUp,
}

#[derive(Debug, Default, PartialEq, Eq, pgweir_freeze::Freeze)]
pub(crate) struct Progress {
    pub(crate) mark: u64,
    /// The process id of the server that sends the mark. The same payload from another process is
    /// no mark.
    pub(crate) process_id: Option<u32>,
    pub(crate) server_passed: bool,
    pub(crate) listener_passed: bool,
    /// The mark has been sent, and then UNLISTEN.
    pub(crate) last_step: bool,
    /// The server has answered everything.
    pub(crate) done: bool,
}

impl Moving {
    /// Whether the client gets the listener's notifications, because the server has passed the mark.
    pub(crate) fn server_has_done(&self) -> bool {
        matches!(self, Moving::Away { at, .. } if at.server_passed)
    }

    /// Whether the client gets the server's notifications again, because the server has passed the mark.
    pub(crate) fn is_back_and_passed(&self) -> bool {
        matches!(self, Moving::Back(at) if at.server_passed)
    }

    /// Whether the listener's notifications on a channel must wait for those that the server still
    /// has to deliver.
    pub(crate) fn waits_for_server(&self, channel: &[u8]) -> bool {
        matches!(self, Moving::Away { channels, at } if !at.server_passed && channels.contains(channel))
    }

    /// Whether only the listener has not heard the mark yet.
    pub(crate) fn is_owed_by_listener(&self) -> bool {
        match self {
            Moving::Away { at, .. } | Moving::Back(at) => at.server_passed && !at.listener_passed,
            _ => false,
        }
    }

    pub(crate) fn transaction_ended(&mut self) {
        if *self == Moving::Stays {
            *self = Moving::No;
        }
    }

    pub(crate) fn progress_mut(&mut self) -> Option<&mut Progress> {
        match self {
            Moving::Away { at, .. } | Moving::Back(at) => Some(at),
            _ => None,
        }
    }
}
