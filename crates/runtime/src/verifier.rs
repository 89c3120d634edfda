//! Questions that logins wait for, asked on threads: the operating system for users, PAM and directories for passwords;
//! and slow derivations of keys.
//!
//! Each kind of question has a lane. A lane has a greatest number of questions at a time; the others wait. So a
//! directory that hangs does not delay PAM. A question whose client leaves while it waits is never asked.
//!
//! The addresses that questions come from take turns, and one address never has all threads of a lane. So guesses from
//! one address do not keep out those who come from others.
//!
//! A question that is not answered in time gives its place to the next one. Its thread goes on.

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
    /// A derivation of SCRAM keys for a login to a server, which guesses of clients must not delay.
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

    /// Whether the answer depends on others, and may never come.
    fn may_hang(self) -> bool {
        !matches!(self, Lane::Keys | Lane::ServerKeys)
    }

    /// Who is asked.
    fn name(self) -> &'static str {
        match self {
            Lane::SystemUsers => "the list of system users",
            Lane::Pam => "PAM",
            Lane::Ldap => "a directory",
            Lane::Keys | Lane::ServerKeys => "this machine",
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

/// The most questions of one lane that are not answered in time and whose threads still wait: a module of PAM that
/// hangs cannot be ended from outside. With more, further questions are refused.
const HUNG_MAX: usize = 64;

/// The most of them that come from one origin.
const HUNG_OF_ORIGIN_MAX: usize = 16;

/// The number of a question that is being asked.
pub(crate) type QuestionId = u64;

/// No question: it was refused.
const REFUSED: QuestionId = 0;

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
    last: QuestionId,
    /// The questions that are being asked.
    asked: HashMap<QuestionId, (Lane, Origin)>,
    /// The questions that were not answered in time. They do not count in the queues.
    hung: HashMap<QuestionId, (Lane, Origin)>,
}

impl Verifier {
    pub(crate) fn new(inbox: InboxSender) -> Self {
        Verifier {
            inbox,
            queues: Default::default(),
            last: REFUSED,
            asked: HashMap::new(),
            hung: HashMap::new(),
        }
    }

    /// Asks a question that comes from `origin`. The answer comes as a [`Message::Verified`], which must be followed by
    /// [`Verifier::answered`]. If a number is returned, [`Verifier::is_overdue`] must be called when the time for this
    /// question is over.
    pub(crate) fn ask(
        &mut self,
        asker: ConnectionId,
        origin: Origin,
        question: Verification,
        waits: impl FnMut(ConnectionId) -> bool,
    ) -> Option<QuestionId> {
        let lane = Lane::of(asker, &question);
        if self.refuses(lane, asker, origin) {
            return None;
        }
        let queue = &mut self.queues[lane as usize];
        if !queue.may_ask(lane, origin) {
            queue.wait(origin, asker, question, waits);
            return None;
        }
        self.start(lane, asker, origin, question)
    }

    /// A question has been answered: asks the next one whose client still waits. Returns what [`Verifier::ask`] does.
    pub(crate) fn answered(
        &mut self,
        question: QuestionId,
        waits: impl FnMut(ConnectionId) -> bool,
    ) -> Option<QuestionId> {
        self.hung.remove(&question);
        let (lane, origin) = self.asked.remove(&question)?;
        self.ask_next(lane, origin, waits)
    }

    /// The time for a question is over. If it has not been answered, another one gets its place. Returns what the log
    /// should say, and what [`Verifier::ask`] does.
    pub(crate) fn is_overdue(
        &mut self,
        question: QuestionId,
        waits: impl FnMut(ConnectionId) -> bool,
    ) -> Option<(String, Option<QuestionId>)> {
        let (lane, origin) = self.asked.remove(&question)?;
        self.hung.insert(question, (lane, origin));
        let text = format!(
            "a question to {} has not been answered in time; {} such threads are left, {HUNG_MAX} may be",
            lane.name(),
            self.hung_in(lane, |_| true)
        );
        Some((text, self.ask_next(lane, origin, waits)))
    }

    fn hung_in(&self, lane: Lane, of: impl Fn(Origin) -> bool) -> usize {
        let is_counted = |(other, origin): &&(Lane, Origin)| *other == lane && of(*origin);
        self.hung.values().filter(is_counted).count()
    }

    /// Refuses a question if too many others hang.
    fn refuses(&self, lane: Lane, asker: ConnectionId, origin: Origin) -> bool {
        let (all, own) = (
            self.hung_in(lane, |_| true),
            self.hung_in(lane, |other| other == origin),
        );
        if all < HUNG_MAX && own < HUNG_OF_ORIGIN_MAX {
            return false;
        }
        let count = if own < HUNG_OF_ORIGIN_MAX { all } else { own };
        let why = format!("{count} earlier questions to {} have not been answered", lane.name());
        self.inbox.send(Message::Verified {
            asker,
            question: REFUSED,
            answer: Verified::Wrong(why),
        });
        true
    }

    /// A place that a question of `origin` had is free.
    fn ask_next(
        &mut self,
        lane: Lane,
        origin: Origin,
        mut waits: impl FnMut(ConnectionId) -> bool,
    ) -> Option<QuestionId> {
        self.queues[lane as usize].note_answered(origin);
        loop {
            let queue = &mut self.queues[lane as usize];
            let may_ask = |queue: &Queue, origin| queue.may_ask(lane, origin);
            let place = queue.waiting.first(|origin| may_ask(queue, origin))?;
            let (origin, (asker, question)) = queue.waiting.take(place)?;
            if waits(asker) && !self.refuses(lane, asker, origin) {
                return self.start(lane, asker, origin, question);
            }
        }
    }

    fn start(&mut self, lane: Lane, asker: ConnectionId, origin: Origin, question: Verification) -> Option<QuestionId> {
        self.queues[lane as usize].note_asked(origin);
        self.last += 1;
        let id = self.last;
        self.asked.insert(id, (lane, origin));
        let inbox = self.inbox.clone();
        let thread = thread::Builder::new().name("verifier".into());
        let started = thread.spawn(move || {
            // A panic must not occupy the lane for ever.
            let answer = catch_unwind(AssertUnwindSafe(|| find_out(question)));
            let answer = answer.unwrap_or_else(|_| Verified::Wrong("the check ended in a panic".into()));
            inbox.send(Message::Verified {
                asker,
                question: id,
                answer,
            });
        });
        if let Err(e) = started {
            let answer = Verified::Wrong(format!("no thread could be started: {e}"));
            self.inbox.send(Message::Verified {
                asker,
                question: id,
                answer,
            });
        }
        lane.may_hang().then_some(id)
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

    /// A question of this origin.
    fn one_of(verifier: &Verifier, origin: Origin) -> QuestionId {
        let mut asked = verifier.asked.iter();
        *asked.find(|(_, of)| **of == (LANE, origin)).unwrap().0
    }

    fn answer_one(verifier: &mut Verifier, origin: Origin, waits: impl FnMut(ConnectionId) -> bool) {
        verifier.answered(one_of(verifier, origin), waits);
    }

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
        answer_one(&mut verifier, origin(0), |id| id == client(max + 2));
        assert_eq!(next(&inbox).0, client(max + 2));
        for index in (1..max).chain([max + 2]) {
            answer_one(&mut verifier, origin(index), |_| true);
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
        answer_one(&mut verifier, few, |_| true);
        assert_eq!(next(&inbox).0, client(102));
        answer_one(&mut verifier, many, |_| true);
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

    /// Guards against a module that hangs and keeps out everybody who comes from its client's address.
    #[test]
    fn those_who_are_not_answered_in_time_give_their_places_to_others() {
        let (mut verifier, inbox, _poll) = verifier();
        let question = || Verification::SystemUser { uid: 0 };
        // Each question counts as one that hangs, because its answer is not looked at.
        for index in 0..u32::try_from(HUNG_OF_ORIGIN_MAX).unwrap() {
            verifier.ask(client(index), origin(1), question(), |_| true).unwrap();
            assert!(matches!(next(&inbox).1, Verified::SystemUser(_)));
            let overdue = one_of(&verifier, origin(1));
            let (text, next) = verifier.is_overdue(overdue, |_| true).unwrap();
            assert!(text.contains("the list of system users") && next.is_none(), "{text}");
            assert!(verifier.is_overdue(overdue, |_| true).is_none());
            assert_eq!(asked(&verifier), (0, 0));
        }
        assert_eq!(verifier.ask(client(99), origin(1), question(), |_| true), None);
        assert!(
            matches!(next(&inbox), (id, Verified::Wrong(why)) if id == client(99) && why.starts_with("16 earlier"))
        );
        verifier.answered(REFUSED, |_| true);
        let other = verifier.ask(client(100), origin(2), question(), |_| true).unwrap();
        assert_eq!(next(&inbox).0, client(100));
        verifier.answered(other, |_| true);
        // One of those that hung has ended after all.
        verifier.answered(1, |_| true);
        assert!(verifier.ask(client(101), origin(1), question(), |_| true).is_some());
        assert_eq!(asked(&verifier), (1, 1));
    }

    #[test]
    fn the_next_one_gets_the_place_of_one_that_hangs() {
        let (mut verifier, inbox, _poll) = verifier();
        let max = u32::try_from(LANE.threads_of_origin_max()).unwrap();
        for index in 0..=max {
            verifier.ask(client(index), origin(1), Verification::SystemUser { uid: 0 }, |_| true);
        }
        for _ in 0..max {
            next(&inbox);
        }
        let overdue = one_of(&verifier, origin(1));
        assert!(verifier.is_overdue(overdue, |_| true).unwrap().1.is_some());
        assert_eq!(next(&inbox).0, client(max));
    }
}
