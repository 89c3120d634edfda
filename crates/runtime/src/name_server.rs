//! The thread that looks names up: in /etc/hosts and by DNS, and, if these have no answer, by the system's
//! resolver.

use crate::dns::Found;
use crate::inbox::{InboxSender, Message};
use crate::start_error::StartError;
use hickory_resolver::TokioResolver;
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::proto::rr::RData;
use hickory_resolver::system_conf::parse_resolv_conf;
use std::io;
use std::net::{IpAddr, ToSocketAddrs};
use std::rc::Rc;
use std::thread;
use std::time::Instant;
use tokio::runtime::Builder;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::{LocalSet, spawn_blocking, spawn_local};

/// The resolv.conf of the system.
const SYSTEM_FILE: &str = "/etc/resolv.conf";

/// The most names that the system's resolver is asked for at the same time: it blocks a thread for each.
const BLOCKED_THREADS_MAX: usize = 4;

/// A question.
#[derive(Debug, Clone)]
pub(crate) enum Lookup {
    /// The addresses of a name.
    Addresses(String),
    /// The serial number of a zone.
    Serial(String),
}

/// A question that is being answered. Others wait for the answer, so there always is one: an error if the task that
/// looks the name up panics, or if the thread has ended.
#[derive(Debug)]
struct Asked {
    /// `None`: it has been answered.
    lookup: Option<Lookup>,
    inbox: InboxSender,
}

impl Asked {
    fn answer(mut self, message: Message) {
        self.lookup = None;
        self.inbox.send(message);
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        let why = || String::from("the look-up has ended without an answer");
        let message = match self.lookup.take() {
            None => return,
            Some(Lookup::Addresses(host)) => Message::Resolved {
                host,
                addresses: Err(why()),
            },
            Some(Lookup::Serial(zone)) => Message::ZoneSerial {
                zone,
                serial: Err(why()),
            },
        };
        self.inbox.send(message);
    }
}

/// The sending end for questions. The thread ends when the last sender is dropped.
#[derive(Debug)]
pub(crate) struct NameServer {
    questions: UnboundedSender<Asked>,
    inbox: InboxSender,
}

impl NameServer {
    /// Starts the thread. `resolv_conf` is the setting; empty for the system's file, which may be missing.
    pub(crate) fn start(resolv_conf: &str, inbox: InboxSender) -> Result<NameServer, StartError> {
        let is_own = !resolv_conf.is_empty();
        let file = if is_own { resolv_conf } else { SYSTEM_FILE };
        let parsed = std::fs::read(file).and_then(|text| parse_resolv_conf(text).map_err(io::Error::other));
        let parsed = match parsed {
            Err(source) if is_own => {
                let path = resolv_conf.to_owned();
                return Err(StartError::ResolvConf { path, source });
            }
            parsed => parsed.map_err(|e| format!("{file}: {e}")),
        };
        let runtime = Builder::new_current_thread()
            .enable_all()
            .max_blocking_threads(BLOCKED_THREADS_MAX)
            .build()
            .map_err(StartError::NameServer)?;
        let (questions, asked) = unbounded_channel();
        let thread = thread::Builder::new().name("dns".into());
        let run = move || {
            let by_dns = parsed.and_then(|(servers, mut options)| {
                // [`crate::dns`] keeps the answers.
                options.cache_size = 0;
                let builder = TokioResolver::builder_with_config(servers, TokioRuntimeProvider::default());
                builder.with_options(options).build().map_err(|e| e.to_string())
            });
            let asks_system = !is_own;
            let sources = Rc::new(Sources { by_dns, asks_system });
            let look_up = move |lookup| {
                let sources = Rc::clone(&sources);
                async move { sources.look_up(lookup).await }
            };
            LocalSet::new().block_on(&runtime, serve(asked, look_up));
        };
        thread.spawn(run).map_err(StartError::NameServer)?;
        Ok(NameServer { questions, inbox })
    }

    /// The answer comes as a [`Message`].
    pub(crate) fn ask(&self, lookup: Lookup) {
        let asked = Asked {
            lookup: Some(lookup),
            inbox: self.inbox.clone(),
        };
        // If the thread has ended, the question comes back here, and is answered when it is dropped.
        let _ = self.questions.send(asked);
    }
}

/// Answers each question in a separate task, so that none waits for another.
async fn serve<F>(mut questions: UnboundedReceiver<Asked>, look_up: impl Fn(Lookup) -> F)
where
    F: Future<Output = Message> + 'static,
{
    while let Some(asked) = questions.recv().await {
        if let Some(lookup) = asked.lookup.clone() {
            let found = look_up(lookup);
            spawn_local(async move { asked.answer(found.await) });
        }
    }
}

/// Where names are looked up.
struct Sources {
    /// The error says why DNS cannot be asked.
    by_dns: Result<TokioResolver, String>,
    asks_system: bool,
}

impl Sources {
    async fn look_up(&self, lookup: Lookup) -> Message {
        match lookup {
            Lookup::Addresses(host) => {
                let addresses = self.addresses(&host).await;
                Message::Resolved { host, addresses }
            }
            Lookup::Serial(zone) => {
                let serial = self.serial(&zone).await;
                Message::ZoneSerial { zone, serial }
            }
        }
    }

    async fn addresses(&self, host: &str) -> Result<Found, String> {
        let error = match &self.by_dns {
            Ok(resolver) => match resolver.lookup_ip(host).await {
                Ok(found) => {
                    return Ok(Found {
                        addresses: each_once(found.iter()),
                        ttl: Some(found.valid_until().saturating_duration_since(Instant::now())),
                    });
                }
                Err(e) => e.to_string(),
            },
            Err(why) => why.clone(),
        };
        if !self.asks_system {
            return Err(error);
        }
        let host = host.to_owned();
        match spawn_blocking(move || addresses_of(&host)).await {
            Ok(Ok(addresses)) => Ok(Found { addresses, ttl: None }),
            Ok(Err(e)) => Err(e.to_string()),
            Err(e) => Err(e.to_string()),
        }
    }

    async fn serial(&self, zone: &str) -> Result<u32, String> {
        let resolver = self.by_dns.as_ref().map_err(String::clone)?;
        let found = resolver
            .soa_lookup(format!("{zone}."))
            .await
            .map_err(|e| e.to_string())?;
        let mut serials = found.answers().iter().filter_map(|record| match &record.data {
            RData::SOA(soa) => Some(soa.serial),
            _ => None,
        });
        serials.next_back().ok_or_else(|| "no SOA record".into())
    }
}

fn each_once(all: impl Iterator<Item = IpAddr>) -> Vec<IpAddr> {
    let mut addresses = Vec::new();
    for address in all {
        if !addresses.contains(&address) {
            addresses.push(address);
        }
    }
    addresses
}

/// All addresses of a name, each once, in the order of the system's resolver. Blocks.
pub(crate) fn addresses_of(host: &str) -> io::Result<Vec<IpAddr>> {
    Ok(each_once((host, 0).to_socket_addrs()?.map(|address| address.ip())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inbox::inbox;

    fn question(host: &str, inbox: &InboxSender) -> Asked {
        Asked {
            lookup: Some(Lookup::Addresses(host.into())),
            inbox: inbox.clone(),
        }
    }

    /// Servers wait for the name until it is answered.
    #[test]
    fn a_look_up_that_panics_is_answered_and_the_next_one_goes_on() {
        let poll = mio::Poll::new().unwrap();
        let (inbox, answers) = inbox(poll.registry()).unwrap();
        let (questions, asked) = unbounded_channel();
        questions.send(question("bad", &inbox)).unwrap();
        questions.send(question("good", &inbox)).unwrap();
        let zone = Some(Lookup::Serial("zone".into()));
        questions
            .send(Asked {
                lookup: zone,
                inbox: inbox.clone(),
            })
            .unwrap();
        drop(questions);
        let runtime = Builder::new_current_thread().build().unwrap();
        let tasks = LocalSet::new();
        let look_up = async |lookup| match lookup {
            Lookup::Addresses(host) if host == "good" => Message::Resolved {
                host,
                addresses: Ok(Found {
                    addresses: Vec::new(),
                    ttl: None,
                }),
            },
            lookup => panic!("{lookup:?}"),
        };
        tasks.block_on(&runtime, serve(asked, look_up));
        runtime.block_on(tasks);
        let mut answered: Vec<_> = answers
            .try_iter()
            .map(|message| match message {
                Message::Resolved { host, addresses } => (host, addresses.is_ok()),
                Message::ZoneSerial { zone, serial } => (zone, serial.is_ok()),
                other => panic!("{other:?}"),
            })
            .collect();
        answered.sort();
        let expected = [("bad", false), ("good", true), ("zone", false)];
        assert_eq!(answered, expected.map(|(name, found)| (name.to_owned(), found)));
    }

    #[test]
    fn questions_to_a_thread_that_has_ended_are_answered() {
        let poll = mio::Poll::new().unwrap();
        let (inbox, answers) = inbox(poll.registry()).unwrap();
        let (questions, asked) = unbounded_channel();
        let names = NameServer { questions, inbox };
        names.ask(Lookup::Addresses("before".into()));
        drop(asked);
        names.ask(Lookup::Addresses("after".into()));
        for name in ["before", "after"] {
            let answer = answers.try_recv().unwrap();
            assert!(matches!(answer, Message::Resolved { host, addresses: Err(_) } if host == name));
        }
    }
}
