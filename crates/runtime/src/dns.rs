//! Addresses of server names, without blocking the data plane.
//!
//! The system's resolver blocks, so it is called on threads of its own. Answers come back through the inbox and are
//! kept. The resolver reports no lifetimes, so `dns_max_ttl` and `dns_nxdomain_ttl` are used as lifetimes.

use crate::inbox::{InboxSender, Message};
use crate::settings::DnsSettings;
use pgweir_core::Time;
use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, ToSocketAddrs};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;

/// The most names that are looked up at the same time. One look-up that times out takes many seconds, and the others
/// should not wait for it.
const THREADS_MAX: usize = 4;

/// The stack of a resolver thread, bytes. getaddrinfo needs much of it for the modules of nsswitch.conf.
const STACK_BYTES: usize = 256 * 1024;

/// Outcome of [`Resolver::look_up`].
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum LookUp {
    /// The addresses of the name. Each time, another one is the first.
    Known(Vec<IpAddr>),
    /// The name has no address.
    Failed,
    /// The answer will come as a [`Message::Resolved`].
    Asked,
}

/// An answer, and when it expires.
#[derive(Debug)]
struct Answer {
    /// `None` if there is no such name.
    addresses: Option<Vec<IpAddr>>,
    until: Time,
    /// The address that comes first next time.
    turn: usize,
}

/// The kept answers, and the threads that get new ones.
#[derive(Debug)]
pub(crate) struct Resolver {
    settings: DnsSettings,
    answers: HashMap<String, Answer>,
    asked: HashSet<String>,
    inbox: InboxSender,
    threads: usize,
    names: Sender<String>,
    taken_by_threads: Arc<Mutex<Receiver<String>>>,
}

impl Resolver {
    pub(crate) fn new(settings: DnsSettings, inbox: InboxSender) -> Self {
        let (names, receiver) = channel();
        Resolver {
            settings,
            answers: HashMap::new(),
            asked: HashSet::new(),
            inbox,
            threads: 0,
            names,
            taken_by_threads: Arc::new(Mutex::new(receiver)),
        }
    }

    pub(crate) fn use_settings(&mut self, settings: &DnsSettings) {
        self.settings = settings.clone();
    }

    /// The addresses of `host`, from a kept answer or by asking the system's resolver.
    pub(crate) fn look_up(&mut self, host: &str, now: Time) -> LookUp {
        if let Some(answer) = self.answers.get_mut(host)
            && now <= answer.until
        {
            return match &answer.addresses {
                None => LookUp::Failed,
                Some(addresses) => {
                    let mut addresses = addresses.clone();
                    let first = answer.turn % addresses.len();
                    answer.turn = answer.turn.wrapping_add(1);
                    addresses.rotate_left(first);
                    LookUp::Known(addresses)
                }
            };
        }
        if self.asked.insert(host.to_owned()) {
            self.ask(host);
        }
        LookUp::Asked
    }

    /// Keeps an answer.
    pub(crate) fn learn(&mut self, host: &str, addresses: Result<Vec<IpAddr>, String>, now: Time) {
        self.asked.remove(host);
        self.answers.retain(|_, answer| now <= answer.until);
        let addresses = addresses.ok().filter(|a| !a.is_empty());
        let ttl = if addresses.is_some() {
            self.settings.max_ttl
        } else {
            self.settings.nxdomain_ttl
        };
        let turn = self.answers.get(host).map_or(0, |a| a.turn);
        self.answers.insert(
            host.to_owned(),
            Answer {
                addresses,
                until: now + ttl,
                turn,
            },
        );
    }

    fn ask(&mut self, host: &str) {
        if self.threads < THREADS_MAX && self.threads < self.asked.len() {
            let (names, inbox) = (Arc::clone(&self.taken_by_threads), self.inbox.clone());
            let thread = thread::Builder::new().name("dns".into()).stack_size(STACK_BYTES);
            self.threads += usize::from(thread.spawn(move || resolve(&names, &inbox)).is_ok());
        }
        if self.threads == 0 {
            let addresses = Err("no thread could be started for the resolver".to_owned());
            self.inbox.send(Message::Resolved {
                host: host.to_owned(),
                addresses,
            });
            return;
        }
        let _ = self.names.send(host.to_owned());
    }
}

/// Looks up names until the event loop has ended.
fn resolve(names: &Mutex<Receiver<String>>, inbox: &InboxSender) {
    loop {
        // One thread waits for the next name, and the others wait for the lock.
        let name = match names.lock() {
            Ok(names) => names.recv(),
            Err(_) => return,
        };
        let Ok(host) = name else { return };
        let addresses = addresses_of(&host).map_err(|e| e.to_string());
        inbox.send(Message::Resolved { host, addresses });
    }
}

/// All addresses of a name, each once, in the order of the system's resolver. Blocks.
pub(crate) fn addresses_of(host: &str) -> std::io::Result<Vec<IpAddr>> {
    let mut addresses = Vec::new();
    for address in (host, 0).to_socket_addrs()? {
        if !addresses.contains(&address.ip()) {
            addresses.push(address.ip());
        }
    }
    Ok(addresses)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn resolver() -> (Resolver, Receiver<Message>, mio::Poll) {
        let poll = mio::Poll::new().unwrap();
        let (sender, receiver) = crate::inbox::inbox(poll.registry()).unwrap();
        let settings = DnsSettings {
            max_ttl: Duration::from_secs(15),
            nxdomain_ttl: Duration::from_secs(5),
        };
        (Resolver::new(settings, sender), receiver, poll)
    }

    #[test]
    fn answers_are_used_in_turn_until_they_are_too_old() {
        let (mut resolver, _inbox, _poll) = resolver();
        let (a, b): (IpAddr, IpAddr) = ("192.0.2.1".parse().unwrap(), "192.0.2.2".parse().unwrap());
        resolver.learn("db", Ok(vec![a, b]), Time(0));
        assert_eq!(resolver.look_up("db", Time(1)), LookUp::Known(vec![a, b]));
        assert_eq!(resolver.look_up("db", Time(1)), LookUp::Known(vec![b, a]));
        assert_eq!(resolver.look_up("db", Time(15_000_000)), LookUp::Known(vec![a, b]));
        assert_eq!(resolver.look_up("db", Time(15_000_001)), LookUp::Asked);
        resolver.learn("none", Err("no such name".into()), Time(0));
        assert_eq!(resolver.look_up("none", Time(5_000_000)), LookUp::Failed);
        assert_eq!(resolver.look_up("none", Time(5_000_001)), LookUp::Asked);
    }

    #[test]
    fn a_name_is_asked_for_once_and_the_answer_comes_through_the_inbox() {
        let (mut resolver, inbox, _poll) = resolver();
        assert_eq!(resolver.look_up("localhost", Time(0)), LookUp::Asked);
        assert_eq!(resolver.look_up("localhost", Time(0)), LookUp::Asked);
        let Message::Resolved { host, addresses } = inbox.recv_timeout(Duration::from_secs(30)).unwrap() else {
            panic!("expected an answer")
        };
        assert_eq!(host, "localhost");
        assert!(
            addresses.as_ref().unwrap().iter().all(IpAddr::is_loopback),
            "{addresses:?}"
        );
        resolver.learn(&host, addresses, Time(0));
        assert!(matches!(resolver.look_up("localhost", Time(0)), LookUp::Known(_)));
        assert!(inbox.try_recv().is_err());
    }
}
