//! Moves of a client's channels between its server and a listener.

use crate::base::ids::ListenerId;
use crate::notify::channels::{CHANNELS_MAX, ChannelName, Channels, Notification};
use crate::notify::obstacle::Obstacle;
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
        /// A request that may change the answer was sent after the question.
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
    GivenUp(Obstacle),
}

#[derive(Debug, Default, PartialEq, Eq, pgweir_freeze::Freeze)]
pub(crate) struct Progress {
    mark: u64,
    /// The process id of the server that sends the mark. The same payload from another process is
    /// no mark.
    process_id: Option<u32>,
    server_passed: bool,
    listener_passed: bool,
    step: Step,
}

/// How far the server has come with its part of a move.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, pgweir_freeze::Freeze)]
enum Step {
    /// It has been sent the mark, and LISTEN if the channels move to it.
    #[default]
    Mark,
    /// It has answered that, and has been sent UNLISTEN.
    Unlisten,
    /// It has answered everything.
    Done,
}

/// What follows when a server has answered a step of a move.
#[derive(Debug)]
pub(crate) enum Answered {
    /// Nothing.
    Nothing,
    /// The server listens to these channels.
    Listed(Vec<ChannelName>),
    /// The server has refused the move, which has this mark.
    Refused(u64),
    /// The server has sent the mark. `away`: it no longer listens for the client; otherwise it still listens to the
    /// channel for marks.
    Marked { away: bool },
    /// The server has answered the last step.
    Done,
}

/// How far a move has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Advanced {
    /// There is none.
    NoMove,
    /// It goes on.
    UnderWay,
    /// The move with this mark has ended. `away`: the channels are at the listener now.
    Over { mark: u64, away: bool },
}

/// The mark in the payload of a notification.
pub(crate) fn number(payload: &[u8]) -> Option<u64> {
    std::str::from_utf8(payload).ok()?.parse().ok()
}

impl Progress {
    fn new(mark: u64, process_id: Option<u32>) -> Self {
        Progress {
            mark,
            process_id,
            ..Progress::default()
        }
    }

    fn is_marked_by(&self, mark: &Notification<'_>) -> bool {
        number(mark.payload) == Some(self.mark) && self.process_id.is_none_or(|p| p == mark.process_id)
    }
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

    /// Whether neither the server nor the listener owes anything for a move.
    pub(crate) fn is_at_rest(&self) -> bool {
        matches!(self, Moving::No | Moving::Stays | Moving::GivenUp(_))
    }

    /// The mark that is on its way.
    pub(crate) fn mark(&self) -> Option<u64> {
        self.progress().map(|at| at.mark)
    }

    fn progress(&self) -> Option<&Progress> {
        match self {
            Moving::Away { at, .. } | Moving::Back(at) => Some(at),
            _ => None,
        }
    }

    fn progress_mut(&mut self) -> Option<&mut Progress> {
        match self {
            Moving::Away { at, .. } | Moving::Back(at) => Some(at),
            _ => None,
        }
    }
}

/// The steps of a move.
impl Channels {
    /// The move that is under way.
    pub(crate) fn moving(&self) -> &Moving {
        &self.moving
    }

    /// The server is asked for its channels.
    pub(crate) fn asks_server(&mut self) {
        self.moving = Moving::Asking {
            names: Vec::new(),
            stale: false,
        };
    }

    /// Whether the server has been asked for its channels, and has not answered.
    pub(crate) fn is_server_asked(&self) -> bool {
        matches!(self.moving, Moving::Asking { .. })
    }

    /// The server, if it was asked, lists a channel. One channel more than [`CHANNELS_MAX`] is noted, to show that there
    /// are more.
    pub(crate) fn server_lists(&mut self, name: &[u8]) {
        if let Moving::Asking { names, .. } = &mut self.moving
            && names.len() <= CHANNELS_MAX
        {
            names.push(name.into());
        }
    }

    /// The client may have changed its channels: the channels that its server has listed are no longer valid. If the
    /// listener was asked to listen, returns the channels to which it need not listen any more.
    pub(crate) fn may_have_changed(&mut self) -> Option<BTreeSet<ChannelName>> {
        match &mut self.moving {
            Moving::Wanted { channels, .. } => {
                let wanted = std::mem::take(channels);
                self.moving = Moving::No;
                Some(wanted.into_iter().filter(|w| !self.heard.contains(w)).collect())
            }
            Moving::Asking { stale, .. } => {
                *stale = true;
                None
            }
            Moving::GivenUp(_) => {
                self.moving = Moving::No;
                None
            }
            _ => None,
        }
    }

    /// The present channels cannot be moved.
    pub(crate) fn give_up_moving(&mut self, obstacle: Obstacle) {
        self.moving = Moving::GivenUp(obstacle);
    }

    /// The listener is asked to listen to these channels, by the request with this number.
    pub(crate) fn wants(&mut self, channels: BTreeSet<ChannelName>, ticket: u64) {
        self.moving = Moving::Wanted {
            channels,
            ticket,
            listens: false,
        };
        self.awaits_listener = true;
    }

    /// The listener has answered the request with this number. If it has refused, returns the channels that it
    /// was asked for. `None`: the client does not want them any more.
    pub(crate) fn listener_answers(&mut self, of: u64, refused: bool) -> Option<Result<(), BTreeSet<ChannelName>>> {
        self.awaits_listener = false;
        match &mut self.moving {
            Moving::Wanted { ticket, channels, .. } if *ticket == of && refused => {
                let names = std::mem::take(channels);
                self.moving = Moving::GivenUp(Obstacle::Refused);
                Some(Err(names))
            }
            Moving::Wanted { ticket, listens, .. } if *ticket == of => {
                *listens = true;
                self.lost_requests = 0;
                Some(Ok(()))
            }
            _ => None,
        }
    }

    /// The server that has this process id sends the mark, after which it can stop listening. Returns `false` if the
    /// listener was not asked to listen.
    pub(crate) fn move_away(&mut self, mark: u64, process_id: Option<u32>) -> bool {
        let Moving::Wanted { mut channels, .. } = std::mem::take(&mut self.moving) else {
            return false;
        };
        channels.retain(|name| !self.heard.contains(name));
        self.moving = Moving::Away {
            channels,
            at: Progress::new(mark, process_id),
        };
        true
    }

    /// The channels move to the server that has this process id. Returns their names.
    pub(crate) fn move_back(&mut self, mark: u64, process_id: Option<u32>) -> BTreeSet<ChannelName> {
        self.moving = Moving::Back(Progress::new(mark, process_id));
        self.heard.clone()
    }

    /// The server has answered a step, perhaps with an error.
    pub(crate) fn server_answers(&mut self, failed: bool) -> Answered {
        let away = matches!(self.moving, Moving::Away { .. });
        match &mut self.moving {
            Moving::Asking { names, stale } => {
                let (names, stale) = (std::mem::take(names), *stale);
                self.moving = match failed {
                    true => Moving::GivenUp(Obstacle::Refused),
                    false => Moving::No,
                };
                match failed || stale {
                    true => Answered::Nothing,
                    false => Answered::Listed(names),
                }
            }
            Moving::Away { at, .. } | Moving::Back(at) if at.step != Step::Mark => {
                at.step = Step::Done;
                Answered::Done
            }
            Moving::Away { at, .. } | Moving::Back(at) if failed => {
                let mark = at.mark;
                self.moving = match away {
                    true => Moving::GivenUp(Obstacle::Refused),
                    false => Moving::Stays,
                };
                Answered::Refused(mark)
            }
            Moving::Away { at, .. } | Moving::Back(at) => {
                at.step = Step::Unlisten;
                Answered::Marked { away }
            }
            _ => Answered::Nothing,
        }
    }

    /// The server has sent all notifications before a mark. Returns whether it is the mark of the present move.
    pub(crate) fn server_passes(&mut self, mark: &Notification<'_>) -> bool {
        let at = self.moving.progress_mut().filter(|at| at.is_marked_by(mark));
        at.map(|at| at.server_passed = true).is_some()
    }

    /// Whether a mark that this listener has received is that of the present move.
    pub(crate) fn is_marked_by(&self, listener: ListenerId, mark: &Notification<'_>) -> bool {
        let at = self.moving.progress().filter(|_| self.listener() == Some(listener));
        at.is_some_and(|at| at.is_marked_by(mark))
    }

    /// The listener has received all notifications before the mark, or there is no listener that could. Returns `false`
    /// if it had received them before, or if nothing moves.
    pub(crate) fn listener_passes(&mut self) -> bool {
        let at = self.moving.progress_mut();
        at.is_some_and(|at| !std::mem::replace(&mut at.listener_passed, true))
    }

    /// The channels that move to the listener, if they do.
    pub(crate) fn moved_away(&self) -> Option<&BTreeSet<ChannelName>> {
        match &self.moving {
            Moving::Away { channels, .. } => Some(channels),
            _ => None,
        }
    }

    /// The listener is lost while channels move back: the server has them all.
    pub(crate) fn listener_hears_nothing(&mut self) {
        self.heard.clear();
    }

    /// The listener is lost. If channels were moving to it, and the server has not passed the mark, the channels stay
    /// on the server. Returns the channels and the mark.
    pub(crate) fn stay_without_listener(&mut self) -> Option<(BTreeSet<ChannelName>, u64)> {
        let Moving::Away { channels, at } = &mut self.moving else {
            return None;
        };
        if at.server_passed {
            return None;
        }
        let stay = (std::mem::take(channels), at.mark);
        self.moving = Moving::No;
        self.forget_later();
        Some(stay)
    }

    /// Ends the move if both places have passed the mark and the server has answered everything.
    pub(crate) fn advance(&mut self) -> Advanced {
        let Some(at) = self.moving.progress() else {
            return Advanced::NoMove;
        };
        let (mark, done) = (at.mark, at.step == Step::Done);
        if !(at.server_passed && at.listener_passed) {
            return Advanced::UnderWay;
        }
        self.join();
        let away = match &self.moving {
            Moving::Away { channels, .. } => {
                self.heard.extend(channels.iter().cloned());
                true
            }
            _ => {
                self.heard.clear();
                false
            }
        };
        if !done {
            return Advanced::UnderWay;
        }
        self.moving = if away { Moving::No } else { Moving::Stays };
        Advanced::Over { mark, away }
    }

    /// The client's transaction has ended: channels that stayed on the server may move again.
    pub(crate) fn transaction_ended(&mut self) {
        if self.moving == Moving::Stays {
            self.moving = Moving::No;
        }
    }
}
