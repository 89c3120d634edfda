//! Several clients' transactions outstanding on one server.
//!
//! A *flight* is a client's segment that is a whole transaction and surely leaves nothing behind. Flights of different
//! clients stand one behind the other in the server's reply queue. The server is linked to the client at the front;
//! everything else in the core knows only that client. At the client's ReadyForQuery the link moves to the next one.

use crate::base::ids::ClientId;
use crate::base::reasons::Waited;
use crate::base::time::Time;
use crate::upstream::flight::{Aboard, Again, Flight};
use std::collections::VecDeque;
use std::time::Duration;

/// A flight that has been at work for this long, microseconds, is late: no more flights are sent behind it.
pub(crate) const LATE_US: u64 = 1_000;

/// A flight that has been at work for this long, microseconds, with none behind it, no longer counts as a flight.
const LONG_US: u64 = 100_000;

/// With `pipeline_depth = auto`: the most flights on one server.
pub(crate) const DEPTH_MAX: usize = 32;

/// The most flights that the pooler chooses unless a crowd waits. While the operating system lets another process run,
/// all flights of a server wait; with more flights clients would notice.
const DEPTH_USUAL: usize = 8;

/// A server may have one flight for each group of this many waiting clients, if these are more than [`DEPTH_USUAL`]
/// flights. Then the clients are a crowd.
const CROWD: usize = 16;

/// The most work that the pooler chooses to send to one server, microseconds: the last flight waits that long.
const BACKLOG_US_MAX: u64 = 500;

/// The most work for one server while a crowd waits, microseconds.
const BACKLOG_OF_CROWD_US_MAX: u64 = 2_000;

/// After this many inputs in a row that left the server enough to do, the depth is reduced by one flight.
const AMPLE_INPUTS: u8 = 200;

/// If other flights are behind a flight whose client does not read, that flight must end within this time, counted from
/// when the pooler stopped reading the server.
const UNREAD_TIME_MAX: Duration = Duration::from_secs(10);

/// The flights that were sent to a server and are not answered. The linked client's flight is at the front.
#[derive(Debug, Default, pgweir_freeze::Freeze)]
pub(crate) struct Flights {
    aboard: VecDeque<Aboard>,
    /// When the server could begin the flight at the front.
    began: Time,
    /// Bytes of the reply to the flight at the front that came with earlier input.
    reply_bytes: u32,
    /// Mean time between two ReadyForQuery, in sixteenths of a microsecond.
    mean: u64,
    /// The number of flights that keeps the server from sleeping, as far as has been seen, less one.
    depth: u8,
    /// Inputs in a row that left the server more than enough to do.
    ample: u8,
    /// Flights answered in the present input.
    answered: u32,
    /// It is in its pool's list of servers with room.
    is_listed: bool,
}

/// What became of the flight at the front.
pub(crate) struct Landed {
    aboard: Aboard,
    /// How long the server worked on it, as far as the pooler can tell.
    took_us: u64,
    /// Bytes of its reply, except for those in the last input.
    reply_bytes: u32,
}

impl Landed {
    pub(crate) fn flight(&self) -> &Flight {
        &self.aboard.flight
    }

    /// How long the server worked on it, as far as the pooler can tell.
    pub(crate) fn took_us(&self) -> u64 {
        self.took_us
    }

    /// Bytes of its reply, except for those in the last input.
    pub(crate) fn reply_bytes(&self) -> usize {
        self.reply_bytes as usize
    }

    /// Whether the flight has run to its end, as far as is known: no cancel can have hit it. The work of a client that
    /// has left is cancelled.
    pub(crate) fn ran_to_its_end(&self) -> bool {
        self.aboard.client.is_some() && !self.aboard.is_cancelled && !self.aboard.is_exposed
    }
}

impl Flights {
    /// The flights, first the one that the server works on.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Aboard> {
        self.aboard.iter()
    }

    pub(crate) fn len(&self) -> usize {
        self.aboard.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.aboard.is_empty()
    }

    /// Whether other flights stand behind the one at the front.
    pub(crate) fn has_riders(&self) -> bool {
        self.aboard.len() > 1
    }

    pub(crate) fn front(&self) -> Option<&Aboard> {
        self.aboard.front()
    }

    /// The clients that wait behind the flight at the front, and since when.
    pub(crate) fn riders(&self) -> impl Iterator<Item = (ClientId, Time)> {
        let riders = self.aboard.iter().skip(1);
        riders.filter_map(|aboard| Some((aboard.client?, aboard.since())))
    }

    /// Since when a client waits behind the flight at the front, if it does.
    pub(crate) fn rides_since(&self, client: ClientId) -> Option<Time> {
        let (_, since) = self.riders().find(|(id, _)| *id == client)?;
        Some(since)
    }

    /// A client that waits behind the flight at the front is to get the NOTICE of query_wait_notify. `false`: it has
    /// got it.
    pub(crate) fn notify_rider(&mut self, client: ClientId) -> bool {
        let aboard = self.aboard.iter_mut().find(|a| a.client == Some(client));
        aboard.is_some_and(|aboard| !std::mem::replace(&mut aboard.waited.notified, true))
    }

    /// How many clients wait behind the flight at the front, if that is late and they have not been counted.
    pub(crate) fn count_late(&mut self, now: Time) -> u64 {
        let is_late = self.at_work_us(now) > LATE_US;
        let Some(front) = self.aboard.front_mut().filter(|front| is_late && !front.is_late) else {
            return 0;
        };
        front.is_late = true;
        self.riders().count() as u64
    }

    /// A client leaves: nobody gets the reply to its flight.
    pub(crate) fn client_leaves(&mut self, client: ClientId) {
        if let Some(aboard) = self.aboard.iter_mut().find(|a| a.client == Some(client)) {
            aboard.client = None;
        }
    }

    /// The linked client leaves, or waits for another server: nobody gets the reply to the flight at the front.
    pub(crate) fn front_leaves(&mut self) {
        if let Some(front) = self.aboard.front_mut() {
            front.client = None;
        }
    }

    /// The linked client cancels its flight.
    pub(crate) fn front_is_cancelled(&mut self) {
        if let Some(front) = self.aboard.front_mut() {
            front.is_cancelled = true;
        }
    }

    /// A client whose flight stands behind others cancels it.
    pub(crate) fn rider_is_cancelled(&mut self, client: ClientId) {
        if let Some(aboard) = self.aboard.iter_mut().find(|a| a.client == Some(client)) {
            aboard.is_cancelled = true;
        }
    }

    /// Whether another client's cancel may hit the flight at the front, and the flight can be run again then: its reply
    /// has not begun.
    pub(crate) fn front_may_run_again(&self) -> bool {
        let exposed = self.aboard.front().filter(|front| front.is_exposed);
        exposed.is_some_and(|front| !front.is_cancelled && !front.flight.runs_again && !self.reply_has_begun())
    }

    /// The flight at the front is to be cancelled because a definition waits for those behind it. It is run again if
    /// that is possible and its client has not left. `at_last`: if it cannot be run again, its client gets the error.
    /// Returns whether it is cancelled.
    pub(crate) fn front_makes_way(&mut self, at_last: bool) -> bool {
        let has_begun = self.reply_has_begun();
        let Some(front) = self.aboard.front_mut() else {
            return false;
        };
        let is_wanted = front.client.is_some();
        let runs_once = has_begun || front.is_cancelled || front.flight.runs_again;
        front.is_exposed |= is_wanted && !runs_once;
        front.is_cancelled |= is_wanted && runs_once && at_last;
        !is_wanted || !runs_once || at_last
    }

    /// Whether the client at the front has not read its reply for this long.
    pub(crate) fn front_is_unread_for(&self, now: Time, least: Duration) -> bool {
        let unread_since = self.aboard.front().and_then(|front| front.unread_since);
        unread_since.is_some_and(|since| now - since > least)
    }

    /// Its reply shows that no cancel has hit the flight at the front.
    pub(crate) fn front_is_not_hit(&mut self) {
        if let Some(front) = self.aboard.front_mut() {
            front.is_exposed = false;
        }
    }

    /// A cancel that was not meant for the flight at the front has hit it: its reply is dropped, and it is run again.
    pub(crate) fn front_runs_again(&mut self, now: Time) -> Option<Again> {
        let in_front = now - self.began;
        Some(self.aboard.front_mut()?.runs_again(in_front))
    }

    /// The server is put into its pool's list of servers with room. Returns `false` if it is there already.
    pub(crate) fn enter_list(&mut self) -> bool {
        !std::mem::replace(&mut self.is_listed, true)
    }

    /// Whether the server is in its pool's list of servers with room.
    #[cfg(any(test, feature = "weaknesses"))]
    pub(crate) fn is_listed(&self) -> bool {
        self.is_listed
    }

    /// The server is taken out of that list.
    pub(crate) fn leave_list(&mut self) {
        self.is_listed = false;
    }

    /// A flight has been sent.
    pub(crate) fn push(&mut self, now: Time, client: ClientId, flight: Box<Flight>, waited: Waited) {
        if self.aboard.is_empty() {
            (self.began, self.reply_bytes) = (now, 0);
        }
        self.aboard.push_back(Aboard::new(client, flight, waited));
    }

    /// The flight at the front has been answered; the server begins the next.
    pub(crate) fn land(&mut self, now: Time) -> Option<Landed> {
        let aboard = self.aboard.pop_front()?;
        let took_us = now.us_since(self.began);
        self.mean = self.mean - self.mean / 16 + took_us;
        self.answered += 1;
        let reply_bytes = std::mem::take(&mut self.reply_bytes);
        self.began = now;
        Some(Landed {
            aboard,
            took_us,
            reply_bytes,
        })
    }

    /// A part of the reply to the flight at the front has come.
    pub(crate) fn note_reply(&mut self, bytes: usize) {
        self.reply_bytes = self.reply_bytes.saturating_add(bytes as u32);
    }

    /// Whether a part of the reply to the flight at the front came with earlier input.
    pub(crate) fn reply_has_begun(&self) -> bool {
        self.reply_bytes > 0
    }

    /// How long the server has worked on the flight at the front, as far as the pooler can tell.
    pub(crate) fn at_work_us(&self, now: Time) -> u64 {
        now.us_since(self.began)
    }

    /// Whether the server would sleep, as far as is known, without another flight. `waiting` is the number of waiting
    /// clients.
    pub(crate) fn needs_more(&self, waiting: usize) -> bool {
        let flights = self.aboard.len();
        let (depth_max, backlog_max) = match waiting / CROWD {
            few if few <= DEPTH_USUAL => (DEPTH_USUAL, BACKLOG_US_MAX),
            many => (many, BACKLOG_OF_CROWD_US_MAX),
        };
        let is_worth_it = flights <= usize::from(self.depth) && flights as u64 * self.mean / 16 < backlog_max;
        is_worth_it && flights < depth_max
    }

    /// The server has sent something. Returns how many flights it has.
    pub(crate) fn input_begins(&mut self) -> usize {
        self.answered = 0;
        self.aboard.len()
    }

    /// All that the server has sent has been handled. `before` is the result of [`Flights::input_begins`]; meanwhile
    /// flights of waiting clients may have been added.
    pub(crate) fn input_ends(&mut self, before: usize) {
        let left = before.saturating_sub(self.answered as usize);
        if self.answered == 0 || self.aboard.is_empty() {
            return;
        }
        self.ample = match left {
            // The server has slept, or is about to.
            0 => {
                self.depth = (self.depth + 1).min(DEPTH_MAX as u8 - 1);
                0
            }
            _ if left > before / 2 => self.ample + 1,
            _ => 0,
        };
        if self.ample == AMPLE_INPUTS {
            (self.ample, self.depth) = (0, self.depth.saturating_sub(1));
        }
    }

    /// A cancel that is meant for the flight at the front goes to the server: it may hit the others.
    pub(crate) fn expose_riders(&mut self) {
        self.aboard.iter_mut().skip(1).for_each(|a| a.is_exposed = true);
    }

    /// Whether there is one flight, and no cancel may hit it.
    pub(crate) fn is_plain_alone(&self) -> bool {
        let alone = self.aboard.front().filter(|_| self.aboard.len() == 1);
        alone.is_some_and(|a| a.client.is_some() && !a.is_cancelled && !a.is_exposed)
    }

    /// Whether the flight at the front takes so long that it no longer counts as a flight, and none stands behind it.
    pub(crate) fn is_long(&self, now: Time) -> bool {
        self.is_plain_alone() && self.at_work_us(now) > LONG_US
    }

    /// The client at the front does not read its reply, and the server is not read until it does.
    pub(crate) fn is_unread(&mut self, now: Time) {
        if let Some(front) = self.aboard.front_mut() {
            front.unread_since.get_or_insert(now);
        }
    }

    /// Whether others have waited for too long behind a client that does not read its reply.
    pub(crate) fn waits_for_reader(&self, now: Time) -> bool {
        self.has_riders() && self.front_is_unread_for(now, UNREAD_TIME_MAX)
    }

    /// Whether a cancel may still hit a flight for which it is not meant.
    pub(crate) fn has_exposed(&self) -> bool {
        self.aboard.iter().any(|a| a.is_exposed)
    }

    /// Takes out all flights: the server is gone.
    pub(crate) fn take_all(&mut self) -> VecDeque<Aboard> {
        std::mem::take(&mut self.aboard)
    }
}

#[cfg(test)]
#[path = "flights_tests.rs"]
mod tests;
