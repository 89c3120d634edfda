//! Questions that logins wait for, asked on threads: the operating system for users, PAM and directories for passwords;
//! and slow derivations of keys.
//!
//! Each kind of question has a lane. A lane has a greatest number of questions at a time; the others wait. So a
//! directory that hangs does not delay PAM. A question whose client leaves while it waits is never asked.
//!
//! The addresses that questions come from take turns, and one address never has all threads of a lane. So guesses from
//! one address do not keep out those who come from others.

use crate::inbox::{InboxSender, Message};
use crate::turns::{Origin, Turns};
use crate::{ldap, pam};
use nix::unistd::{Uid, User};
use pgweir_core::{ConnectionId, Verification, Verified};
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;

/// The kinds of questions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lane {
    /// The operating system's list of users. It may be a directory, too.
    SystemUsers,
    Pam,
    Ldap,
    /// A derivation of SCRAM keys for a client's password, on this machine's processors.
    Keys,
    /// The same for a login to a server, so that guesses of clients do not delay it.
    ServerKeys,
}

impl Lane {
    fn of(asker: ConnectionId, question: &Verification) -> Lane {
        match question {
            Verification::SystemUser { .. } => Lane::SystemUsers,
            Verification::Pam { .. } => Lane::Pam,
            Verification::Ldap { .. } => Lane::Ldap,
            Verification::Keys(_) => match asker {
                ConnectionId::Client(_) => Lane::Keys,
                ConnectionId::Server(_) => Lane::ServerKeys,
            },
        }
    }

    /// The most questions at a time. PAM's modules sleep for two seconds after a wrong password, so this number is
    /// large.
    fn threads_max(self) -> usize {
        match self {
            Lane::SystemUsers => 4,
            Lane::Pam | Lane::Ldap => 16,
            // A derivation keeps one processor busy, and PostgreSQL and the event loop need the others.
            Lane::Keys | Lane::ServerKeys => 1,
        }
    }

    /// The most questions at a time that come from one origin.
    fn threads_of_origin_max(self) -> usize {
        match self {
            Lane::SystemUsers => 2,
            Lane::Pam | Lane::Ldap => 4,
            Lane::Keys | Lane::ServerKeys => 1,
        }
    }
}

/// A queue that is shorter is not searched for questions whose clients have left.
const SWEPT_MIN: usize = 64;

/// The questions of one lane.
#[derive(Debug, Default)]
struct Queue {
    asked: usize,
    /// How many are being asked for an origin, where there are some. Invariant: their sum is `asked`.
    asked_of: HashMap<Origin, usize>,
    waiting: Turns<(ConnectionId, Verification)>,
    /// The number of waiting questions at which those whose clients have left are removed, from [`SWEPT_MIN`] on. It is
    /// always at most twice the number that was left the last time, so their number is bounded, and so is the work.
    sweep_at: usize,
}

impl Queue {
    fn may_ask(&self, lane: Lane, origin: Origin) -> bool {
        let asked = self.asked_of.get(&origin).copied().unwrap_or_default();
        self.asked < lane.threads_max() && asked < lane.threads_of_origin_max()
    }

    fn wait(
        &mut self,
        origin: Origin,
        asker: ConnectionId,
        question: Verification,
        mut waits: impl FnMut(ConnectionId) -> bool,
    ) {
        self.waiting.push(origin, (asker, question));
        if self.waiting.len() >= self.sweep_at.max(SWEPT_MIN) {
            self.waiting.retain(|(asker, _)| waits(*asker));
            self.sweep_at = 2 * self.waiting.len();
        }
    }

    fn note_asked(&mut self, origin: Origin) {
        self.asked += 1;
        *self.asked_of.entry(origin).or_default() += 1;
    }

    fn note_answered(&mut self, origin: Origin) {
        self.asked -= 1;
        if let Some(asked) = self.asked_of.get_mut(&origin) {
            *asked -= 1;
            if *asked == 0 {
                self.asked_of.remove(&origin);
            }
        }
    }
}

/// All questions, both those that are being asked and those that wait.
#[derive(Debug)]
pub(crate) struct Verifier {
    inbox: InboxSender,
    queues: [Queue; 5],
}

impl Verifier {
    pub(crate) fn new(inbox: InboxSender) -> Self {
        Verifier {
            inbox,
            queues: Default::default(),
        }
    }

    /// Asks a question that comes from `origin`. The answer comes as a [`Message::Verified`], which must be followed by
    /// [`Verifier::answered`].
    pub(crate) fn ask(
        &mut self,
        asker: ConnectionId,
        origin: Origin,
        question: Verification,
        waits: impl FnMut(ConnectionId) -> bool,
    ) {
        let lane = Lane::of(asker, &question);
        let queue = &mut self.queues[lane as usize];
        if !queue.may_ask(lane, origin) {
            return queue.wait(origin, asker, question, waits);
        }
        queue.note_asked(origin);
        self.start(lane, asker, origin, question);
    }

    /// A question that came from `origin` has been answered: asks the next one whose client still waits.
    pub(crate) fn answered(&mut self, lane: Lane, origin: Origin, mut waits: impl FnMut(ConnectionId) -> bool) {
        let queue = &mut self.queues[lane as usize];
        queue.note_answered(origin);
        let may_ask = |queue: &Queue, origin| queue.may_ask(lane, origin);
        while let Some(place) = queue.waiting.first(|origin| may_ask(queue, origin)) {
            let Some((origin, (asker, question))) = queue.waiting.take(place) else {
                return;
            };
            if waits(asker) {
                queue.note_asked(origin);
                return self.start(lane, asker, origin, question);
            }
        }
    }

    fn start(&self, lane: Lane, asker: ConnectionId, origin: Origin, question: Verification) {
        let inbox = self.inbox.clone();
        let thread = thread::Builder::new().name("verifier".into());
        let started = thread.spawn(move || {
            // A panic must not occupy the lane for ever.
            let answer = catch_unwind(AssertUnwindSafe(|| find_out(question)));
            let answer = answer.unwrap_or_else(|_| Verified::Wrong("the check ended in a panic".into()));
            inbox.send(Message::Verified {
                asker,
                lane,
                origin,
                answer,
            });
        });
        if let Err(e) = started {
            let answer = Verified::Wrong(format!("no thread could be started: {e}"));
            self.inbox.send(Message::Verified {
                asker,
                lane,
                origin,
                answer,
            });
        }
    }
}

/// Asks a question and waits for the answer.
fn find_out(question: Verification) -> Verified {
    let verdict = match question {
        Verification::SystemUser { uid } => {
            let user = User::from_uid(Uid::from_raw(uid)).ok().flatten();
            return Verified::SystemUser(user.map(|user| user.name));
        }
        Verification::Keys(derivation) => return Verified::Keys(derivation.derive()),
        Verification::Pam {
            service,
            user,
            peer,
            password,
        } => pam::check(&service, &user, &peer.host(), &password),
        Verification::Ldap {
            options,
            user,
            password,
        } => ldap::check(&options, &user, &password),
    };
    match verdict {
        Ok(()) => Verified::Right,
        Err(why) => Verified::Wrong(why),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::Receiver;
    use std::time::Duration;

    fn verifier() -> (Verifier, Receiver<Message>, mio::Poll) {
        let poll = mio::Poll::new().unwrap();
        let (sender, receiver) = crate::inbox::inbox(poll.registry()).unwrap();
        (Verifier::new(sender), receiver, poll)
    }

    fn client(index: u32) -> ConnectionId {
        pgweir_core::ids::ClientId(pgweir_core::ids::Slot { index, generation: 1 }).into()
    }

    fn next(inbox: &Receiver<Message>) -> (ConnectionId, Verified) {
        match inbox.recv_timeout(Duration::from_secs(30)).unwrap() {
            Message::Verified { asker, answer, .. } => (asker, answer),
            other => panic!("expected an answer, got {other:?}"),
        }
    }

    fn origin(uid: u32) -> Origin {
        Origin::LocalUser(Some(uid))
    }

    #[test]
    fn the_system_knows_its_users() {
        let (mut verifier, inbox, _poll) = verifier();
        verifier.ask(client(1), origin(1), Verification::SystemUser { uid: 0 }, |_| true);
        assert_eq!(next(&inbox), (client(1), Verified::SystemUser(Some("root".into()))));
        verifier.ask(
            client(2),
            origin(1),
            Verification::SystemUser { uid: u32::MAX - 7 },
            |_| true,
        );
        assert_eq!(next(&inbox), (client(2), Verified::SystemUser(None)));
    }

    const LANE: Lane = Lane::SystemUsers;

    /// How many are being asked, and how many in all.
    fn asked(verifier: &Verifier) -> (usize, usize) {
        let queue = &verifier.queues[LANE as usize];
        assert_eq!(queue.asked, queue.asked_of.values().sum());
        (queue.asked, queue.asked + queue.waiting.len())
    }

    /// Guards against clients that have left and still delay others.
    #[test]
    fn so_many_are_asked_at_a_time_and_none_whose_client_has_gone() {
        let (mut verifier, inbox, _poll) = verifier();
        let max = u32::try_from(LANE.threads_max()).unwrap();
        for index in 0..max + 3 {
            verifier.ask(
                client(index),
                origin(index),
                Verification::SystemUser { uid: 0 },
                |_| true,
            );
        }
        assert_eq!(asked(&verifier), (LANE.threads_max(), LANE.threads_max() + 3));
        for _ in 0..max {
            next(&inbox);
        }
        assert!(inbox.try_recv().is_err(), "the others wait");
        verifier.answered(LANE, origin(0), |id| id == client(max + 2));
        assert_eq!(next(&inbox).0, client(max + 2));
        for index in (1..max).chain([max + 2]) {
            verifier.answered(LANE, origin(index), |_| true);
        }
        assert_eq!(asked(&verifier), (0, 0));
    }

    /// Guards against guesses from one address that keep everybody else out.
    #[test]
    fn one_origin_has_neither_all_threads_nor_all_turns() {
        let (mut verifier, inbox, _poll) = verifier();
        let (many, few) = (origin(1), origin(2));
        for index in 0..20 {
            verifier.ask(client(index), many, Verification::SystemUser { uid: 0 }, |_| true);
        }
        let max = LANE.threads_of_origin_max();
        assert_eq!(asked(&verifier), (max, 20));
        assert!(max < LANE.threads_max());
        for index in [100, 101, 102] {
            verifier.ask(client(index), few, Verification::SystemUser { uid: 0 }, |_| true);
        }
        assert_eq!(
            asked(&verifier),
            (2 * max, 23),
            "the others' questions are in front of nobody else's"
        );
        let answers: Vec<_> = (0..2 * max).map(|_| next(&inbox).0).collect();
        assert!(answers.contains(&client(100)) && answers.contains(&client(101)));
        verifier.answered(LANE, few, |_| true);
        assert_eq!(next(&inbox).0, client(102));
        verifier.answered(LANE, many, |_| true);
        assert_eq!(next(&inbox).0, client(u32::try_from(max).unwrap()));
    }

    /// Guards against clients that ask and leave, again and again, while the threads are busy.
    #[test]
    fn the_questions_of_those_who_have_left_are_few() {
        let (mut verifier, _inbox, _poll) = verifier();
        for index in 0..10_000 {
            let stays = |id| id == client(index) || (0..100).any(|kept| id == client(kept * 100));
            verifier.ask(client(index), origin(1), Verification::SystemUser { uid: 0 }, stays);
        }
        let waiting = verifier.queues[LANE as usize].waiting.len();
        assert!((98..=2 * 100).contains(&waiting), "{waiting}");
    }
}
