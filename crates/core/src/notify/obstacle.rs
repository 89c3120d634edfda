//! Why a client's channels stay on its server, instead of moving to a listener.

use crate::notify::channels::{CHANNELS_MAX, ChannelName, Channels};
use std::collections::BTreeSet;

/// After so many losses of the listener during requests for one client, the listener is not asked for that client again:
/// its request may be the reason.
const LOST_REQUESTS_MAX: u8 = 2;

/// Why the present channels cannot be moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, pgweir_freeze::Freeze)]
pub(crate) enum Obstacle {
    /// The server or the listener has refused the move.
    Refused,
    /// One of them is the internal channel for marks.
    Marks,
    /// They are more than [`CHANNELS_MAX`].
    TooMany,
    /// The listener was lost again and again while it worked on the request for them.
    Unanswered,
}

impl Obstacle {
    /// What SHOW PINS shows.
    pub(crate) fn words(self) -> &'static str {
        match self {
            Obstacle::Refused => "listening to channels that could not be moved to a listener",
            Obstacle::Marks => "listening to the pooler's internal channel",
            Obstacle::TooMany => {
                "listening to more than 64 channels (listen to fewer, and name the subject in the payload)"
            }
            Obstacle::Unanswered => "listening to channels during whose LISTEN the listener was lost twice",
        }
    }
}

impl Channels {
    /// The server listens to these channels. Returns why they cannot move to the listener, if they cannot.
    pub(crate) fn obstacle_to(&self, names: &BTreeSet<ChannelName>) -> Option<Obstacle> {
        if self.lost_requests >= LOST_REQUESTS_MAX {
            return Some(Obstacle::Unanswered);
        }
        let too_many = self.heard.union(names).nth(CHANNELS_MAX).is_some();
        too_many.then_some(Obstacle::TooMany)
    }

    /// Whether a listener has yet to answer a request for this client. It gets no other until then: a client that
    /// changes its channels again and again would fill its queue.
    pub(crate) fn awaits_listener(&self) -> bool {
        self.awaits_listener
    }

    /// The listener was lost before it answered a request for this client; `at_work`: while it worked on it.
    pub(crate) fn request_is_lost(&mut self, at_work: bool) {
        self.awaits_listener = false;
        self.lost_requests = self.lost_requests.saturating_add(u8::from(at_work));
    }

    /// The client listens to nothing on its server.
    pub(crate) fn listens_no_more(&mut self) {
        self.lost_requests = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(numbers: std::ops::Range<usize>) -> BTreeSet<ChannelName> {
        let name = |number: usize| ChannelName::from(format!("c{number}").into_bytes());
        numbers.map(name).collect()
    }

    #[test]
    fn the_channels_that_are_heard_count_with_those_that_are_to_be() {
        let mut channels = Channels::default();
        assert_eq!(channels.obstacle_to(&names(0..CHANNELS_MAX)), None);
        assert_eq!(
            channels.obstacle_to(&names(0..CHANNELS_MAX + 1)),
            Some(Obstacle::TooMany)
        );
        channels.heard = names(1..CHANNELS_MAX);
        assert_eq!(channels.obstacle_to(&names(0..10)), None);
        channels.heard = names(0..CHANNELS_MAX);
        assert_eq!(
            channels.obstacle_to(&names(CHANNELS_MAX..CHANNELS_MAX + 1)),
            Some(Obstacle::TooMany)
        );
        let limit = format!(" {CHANNELS_MAX} ");
        assert!(Obstacle::TooMany.words().contains(&limit));
    }

    #[test]
    fn no_more_channels_are_noted_than_show_that_they_are_too_many() {
        let mut channels = Channels::default();
        channels.asks_server();
        for name in names(0..10 * CHANNELS_MAX) {
            channels.server_lists(&name);
        }
        let crate::notify::moving::Answered::Listed(names) = channels.server_answers(false) else {
            panic!("it has listed channels");
        };
        assert_eq!(names.len(), CHANNELS_MAX + 1);
    }
}
