//! The thread that looks names up: in /etc/hosts and by DNS, and, if these have no answer, by the system's
//! resolver.

use crate::dns::Found;
use crate::inbox::{InboxSender, Message};
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
#[derive(Debug)]
pub(crate) enum Lookup {
    /// The addresses of a name.
    Addresses(String),
    /// The serial number of a zone.
    Serial(String),
}

/// The sending end for questions. The thread ends when the last sender is dropped.
#[derive(Debug)]
pub(crate) struct NameServer(UnboundedSender<Lookup>);

impl NameServer {
    /// Starts the thread. `resolv_conf` is the setting; empty for the system's file, which may be missing.
    pub(crate) fn start(resolv_conf: &str, inbox: InboxSender) -> io::Result<NameServer> {
        let is_own = !resolv_conf.is_empty();
        let file = if is_own { resolv_conf } else { SYSTEM_FILE };
        let builder = std::fs::read(file).and_then(|text| parse_resolv_conf(text).map_err(io::Error::other));
        let builder = match builder {
            Ok(parsed) => Some(parsed),
            Err(_) if !is_own => None,
            Err(e) => return Err(e),
        };
        let (sender, lookups) = unbounded_channel();
        thread::Builder::new().name("dns".into()).spawn(move || {
            let by_dns = builder.and_then(|(servers, mut options)| {
                // [`crate::dns`] keeps the answers.
                options.cache_size = 0;
                let builder = TokioResolver::builder_with_config(servers, TokioRuntimeProvider::default());
                builder.with_options(options).build().ok()
            });
            let runtime = Builder::new_current_thread()
                .enable_all()
                .max_blocking_threads(BLOCKED_THREADS_MAX)
                .build();
            if let Ok(runtime) = runtime {
                LocalSet::new().block_on(&runtime, serve(lookups, by_dns, !is_own, inbox));
            }
        })?;
        Ok(NameServer(sender))
    }

    /// The answer comes as a [`Message`].
    pub(crate) fn ask(&self, lookup: Lookup) {
        // The thread ends only with the process.
        let _ = self.0.send(lookup);
    }
}

/// Answers each question in a separate task, so that none waits for another.
async fn serve(
    mut lookups: UnboundedReceiver<Lookup>,
    by_dns: Option<TokioResolver>,
    asks_system: bool,
    inbox: InboxSender,
) {
    let by_dns = Rc::new(by_dns);
    while let Some(lookup) = lookups.recv().await {
        let (by_dns, inbox) = (Rc::clone(&by_dns), inbox.clone());
        spawn_local(async move {
            let message = match lookup {
                Lookup::Addresses(host) => {
                    let addresses = addresses(by_dns.as_ref().as_ref(), &host, asks_system).await;
                    Message::Resolved { host, addresses }
                }
                Lookup::Serial(zone) => {
                    let serial = serial(by_dns.as_ref().as_ref(), &zone).await;
                    Message::ZoneSerial { zone, serial }
                }
            };
            inbox.send(message);
        });
    }
}

async fn addresses(by_dns: Option<&TokioResolver>, host: &str, asks_system: bool) -> Result<Found, String> {
    let mut error = "there is no resolv.conf".to_owned();
    if let Some(resolver) = by_dns {
        match resolver.lookup_ip(host).await {
            Ok(found) => {
                return Ok(Found {
                    addresses: each_once(found.iter()),
                    ttl: Some(found.valid_until().saturating_duration_since(Instant::now())),
                });
            }
            Err(e) => error = e.to_string(),
        }
    }
    if !asks_system {
        return Err(error);
    }
    let host = host.to_owned();
    match spawn_blocking(move || addresses_of(&host)).await {
        Ok(Ok(addresses)) => Ok(Found { addresses, ttl: None }),
        Ok(Err(e)) => Err(e.to_string()),
        Err(e) => Err(e.to_string()),
    }
}

async fn serial(by_dns: Option<&TokioResolver>, zone: &str) -> Result<u32, String> {
    let resolver = by_dns.ok_or("there is no resolv.conf")?;
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
