//! Questions about clients that are logging in, asked on threads: the operating system for users, PAM and directories
//! for passwords.
//!
//! Each kind of question has a lane. A lane has a greatest number of questions at a time; the others wait in order. So
//! a directory that hangs does not delay PAM. A question whose client leaves while it waits is never asked.

use crate::inbox::{InboxSender, Message};
use crate::{ldap, pam};
use nix::unistd::{Uid, User};
use pgweir_core::{ClientId, Verification, Verified};
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;

/// The kinds of questions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lane {
    /// The operating system's list of users. It may be a directory, too.
    SystemUsers,
    Pam,
    Ldap,
    /// A derivation of SCRAM keys, on this machine's processors.
    Keys,
}

impl Lane {
    fn of(question: &Verification) -> Lane {
        match question {
            Verification::SystemUser { .. } => Lane::SystemUsers,
            Verification::Pam { .. } => Lane::Pam,
            Verification::Ldap { .. } => Lane::Ldap,
            Verification::Keys(_) => Lane::Keys,
        }
    }

    /// The most questions at a time. PAM's modules sleep for two seconds after a wrong password, so this number is
    /// large.
    fn threads_max(self) -> usize {
        match self {
            Lane::SystemUsers => 4,
            Lane::Pam | Lane::Ldap => 16,
            // A derivation keeps one processor busy, and PostgreSQL and the event loop need the others.
            Lane::Keys => 1,
        }
    }
}

/// The questions of one lane.
#[derive(Debug, Default)]
struct Queue {
    asked: usize,
    waiting: VecDeque<(ClientId, Verification)>,
}

/// All questions, both those that are being asked and those that wait.
#[derive(Debug)]
pub(crate) struct Verifier {
    inbox: InboxSender,
    queues: [Queue; 4],
}

impl Verifier {
    pub(crate) fn new(inbox: InboxSender) -> Self {
        Verifier {
            inbox,
            queues: Default::default(),
        }
    }

    /// Asks a question. The answer comes as a [`Message::Verified`], which must be followed by [`Verifier::answered`].
    pub(crate) fn ask(&mut self, client: ClientId, question: Verification) {
        let lane = Lane::of(&question);
        let queue = &mut self.queues[lane as usize];
        if queue.asked >= lane.threads_max() {
            return queue.waiting.push_back((client, question));
        }
        queue.asked += 1;
        self.start(lane, client, question);
    }

    /// A question has been answered: asks the next one whose client still waits.
    pub(crate) fn answered(&mut self, lane: Lane, mut waits: impl FnMut(ClientId) -> bool) {
        let queue = &mut self.queues[lane as usize];
        while let Some((client, question)) = queue.waiting.pop_front() {
            if waits(client) {
                return self.start(lane, client, question);
            }
        }
        queue.asked -= 1;
    }

    fn start(&self, lane: Lane, client: ClientId, question: Verification) {
        let inbox = self.inbox.clone();
        let thread = thread::Builder::new().name("verifier".into());
        let started = thread.spawn(move || {
            // A panic must not occupy the lane for ever.
            let answer = catch_unwind(AssertUnwindSafe(|| find_out(question)));
            let answer = answer.unwrap_or_else(|_| Verified::Wrong("the check ended in a panic".into()));
            inbox.send(Message::Verified { client, lane, answer });
        });
        if let Err(e) = started {
            let answer = Verified::Wrong(format!("no thread could be started: {e}"));
            self.inbox.send(Message::Verified { client, lane, answer });
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

    fn client(index: u32) -> ClientId {
        pgweir_core::ids::ClientId(pgweir_core::ids::Slot { index, generation: 1 })
    }

    fn next(inbox: &Receiver<Message>) -> (ClientId, Verified) {
        match inbox.recv_timeout(Duration::from_secs(30)).unwrap() {
            Message::Verified { client, answer, .. } => (client, answer),
            other => panic!("expected an answer, got {other:?}"),
        }
    }

    #[test]
    fn the_system_knows_its_users() {
        let (mut verifier, inbox, _poll) = verifier();
        verifier.ask(client(1), Verification::SystemUser { uid: 0 });
        assert_eq!(next(&inbox), (client(1), Verified::SystemUser(Some("root".into()))));
        verifier.ask(client(2), Verification::SystemUser { uid: u32::MAX - 7 });
        assert_eq!(next(&inbox), (client(2), Verified::SystemUser(None)));
    }

    /// Guards against clients that have left and still delay others.
    #[test]
    fn so_many_are_asked_at_a_time_and_none_whose_client_has_gone() {
        let (mut verifier, inbox, _poll) = verifier();
        let lane = Lane::SystemUsers;
        let max = u32::try_from(lane.threads_max()).unwrap();
        for index in 0..max + 3 {
            verifier.ask(client(index), Verification::SystemUser { uid: 0 });
        }
        let queue = |verifier: &Verifier| (verifier.queues[0].asked, verifier.queues[0].waiting.len());
        assert_eq!(queue(&verifier), (lane.threads_max(), 3));
        for _ in 0..max {
            next(&inbox);
        }
        assert!(inbox.try_recv().is_err(), "the others wait");
        verifier.answered(lane, |id| id == client(max + 2));
        assert_eq!(next(&inbox).0, client(max + 2));
        for _ in 0..max {
            verifier.answered(lane, |_| true);
        }
        assert_eq!(queue(&verifier), (0, 0));
    }
}
