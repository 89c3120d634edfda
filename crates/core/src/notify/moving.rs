//! How far a client's channels are on their way between its server and a listener.

use crate::notify::channels::ChannelName;

/// Where a client's channels are on their way to.
#[derive(Debug, Default, PartialEq, Eq, pgweir_freeze::Freeze)]
pub(crate) enum Moving {
    /// Nowhere.
    #[default]
    No,
    /// The server is asked for the channels.
    Asking {
        names: Vec<ChannelName>,
        /// Something was sent behind the question that may change the answer.
        stale: bool,
    },
    /// The listener was told of them; `listens`: it has them now.
    Wanted {
        channels: Vec<ChannelName>,
        /// Which of the client's wishes it is.
        ticket: u64,
        listens: bool,
    },
    /// From the server to the listener: channels that this does not hear for the client yet.
    Away { channels: Vec<ChannelName>, at: Progress },
    /// From the listener to the server.
    Back(Progress),
    /// Back on the server, until the client's transaction has ended.
    Stays,
    /// They cannot be moved, as they are now.
    GivenUp,
}

/// How far a move is.
#[derive(Debug, Default, PartialEq, Eq, pgweir_freeze::Freeze)]
pub(crate) struct Progress {
    pub(crate) mark: u64,
    /// Of the server that sends the mark: the same words from any other process are no mark.
    pub(crate) process_id: Option<u32>,
    pub(crate) server_passed: bool,
    pub(crate) listener_passed: bool,
    /// The mark is sent, and the server is told to stop.
    pub(crate) last_step: bool,
    /// The server has done everything asked of it.
    pub(crate) done: bool,
}

impl Moving {
    /// The listener tells what comes from here on.
    pub(crate) fn server_has_done(&self) -> bool {
        matches!(self, Moving::Away { at, .. } if at.server_passed)
    }

    /// The server tells what comes from here on.
    pub(crate) fn is_back_and_passed(&self) -> bool {
        matches!(self, Moving::Back(at) if at.server_passed)
    }

    /// What the listener tells of a channel must wait for what the server still has to tell of it.
    pub(crate) fn waits_for_server(&self, channel: &[u8]) -> bool {
        matches!(self, Moving::Away { channels, at } if !at.server_passed && channels.iter().any(|c| **c == *channel))
    }

    /// Only the listener has yet to hear the mark.
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
