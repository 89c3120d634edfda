//! Addresses of server names: the kept answers, and when they are asked for again.
//!
//! An answer is used for the lifetime of its DNS records, and for at most `dns_max_ttl`. With `dns_zone_check_period`,
//! the names of a zone whose serial number has changed are looked up at once.

use crate::inbox::InboxSender;
use crate::name_server::{Lookup, NameServer};
use crate::settings::DnsSettings;
use crate::start_error::StartError;
use pgweir_core::{DnsFacts, DnsHost, DnsZone, Time};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::net::IpAddr;
use std::time::Duration;

/// An answer is dropped if it has expired this long ago and has not been asked for since.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(3600);

/// The addresses of a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) addresses: Vec<IpAddr>,
    /// The lifetime of the records, if it is known.
    pub(crate) ttl: Option<Duration>,
}

/// Outcome of [`Resolver::look_up`].
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum LookUp {
    /// The addresses of the name. Each time, another one is the first.
    Known(Vec<IpAddr>),
    /// The name has no address.
    Failed,
    /// The answer will come as a [`crate::inbox::Message::Resolved`].
    Asked,
}

/// An answer, and when it expires.
#[derive(Debug)]
struct Answer {
    /// Empty if there is no such name.
    addresses: Vec<IpAddr>,
    until: Time,
    /// The address that comes first next time.
    turn: usize,
}

/// The kept answers.
#[derive(Debug)]
pub(crate) struct Resolver {
    settings: DnsSettings,
    answers: BTreeMap<String, Answer>,
    asked: HashSet<String>,
    /// The serial numbers of zones.
    serials: HashMap<String, u32>,
    names: NameServer,
}

/// The zone of a name: the text after its first dot.
fn zone_of(host: &str) -> Option<&str> {
    let (_, zone) = host.trim_end_matches('.').split_once('.')?;
    Some(zone)
}

impl Resolver {
    pub(crate) fn new(settings: DnsSettings, inbox: InboxSender) -> Result<Self, StartError> {
        let names = NameServer::start(&settings.resolv_conf, inbox)?;
        Ok(Resolver {
            settings,
            answers: BTreeMap::new(),
            asked: HashSet::new(),
            serials: HashMap::new(),
            names,
        })
    }

    pub(crate) fn use_settings(&mut self, settings: &DnsSettings) {
        self.settings = settings.clone();
    }

    /// The addresses of `host`, from a kept answer or by asking.
    pub(crate) fn look_up(&mut self, host: &str, now: Time) -> LookUp {
        if let Some(answer) = self.answers.get_mut(host)
            && now <= answer.until
        {
            if answer.addresses.is_empty() {
                return LookUp::Failed;
            }
            let mut addresses = answer.addresses.clone();
            let first = answer.turn % addresses.len();
            answer.turn = answer.turn.wrapping_add(1);
            addresses.rotate_left(first);
            return LookUp::Known(addresses);
        }
        self.ask(host);
        LookUp::Asked
    }

    fn ask(&mut self, host: &str) {
        if self.asked.insert(host.to_owned()) {
            self.names.ask(Lookup::Addresses(host.to_owned()));
        }
    }

    /// Keeps an answer. Returns the addresses that the name no longer has; none if the look-up failed.
    pub(crate) fn learn(&mut self, host: &str, found: Option<Found>, now: Time) -> Vec<IpAddr> {
        self.asked.remove(host);
        self.answers
            .retain(|name, answer| name == host || now <= answer.until + FORGOTTEN_AFTER);
        let found = found.filter(|found| !found.addresses.is_empty());
        let lifetime = match &found {
            None => self.settings.nxdomain_ttl,
            Some(found) => found
                .ttl
                .map_or(self.settings.max_ttl, |ttl| ttl.min(self.settings.max_ttl)),
        };
        let addresses = found.map(|found| found.addresses).unwrap_or_default();
        let before = self.answers.remove(host);
        let turn = before.as_ref().map_or(0, |answer| answer.turn);
        let mut gone = before.map(|answer| answer.addresses).unwrap_or_default();
        gone.retain(|address| !addresses.is_empty() && !addresses.contains(address));
        let until = now + lifetime;
        self.answers.insert(host.to_owned(), Answer { addresses, until, turn });
        gone
    }

    /// Asks for the serial number of each zone. Returns when to do this again; `None` for never.
    pub(crate) fn check_zones(&mut self) -> Option<Duration> {
        let period = self.settings.zone_check_period?;
        let zones: HashSet<&str> = self.answers.keys().filter_map(|host| zone_of(host)).collect();
        self.serials.retain(|zone, _| zones.contains(zone.as_str()));
        for zone in zones {
            self.names.ask(Lookup::Serial(zone.to_owned()));
        }
        Some(period)
    }

    /// A zone has this serial number. If it had another one, which is given back, its names are looked up.
    pub(crate) fn learn_serial(&mut self, zone: &str, serial: u32) -> Option<u32> {
        let before = self.serials.insert(zone.to_owned(), serial);
        let before = before.filter(|before| *before != serial)?;
        let hosts = self.answers.keys().filter(|host| zone_of(host) == Some(zone));
        for host in hosts.cloned().collect::<Vec<_>>() {
            self.ask(&host);
        }
        Some(before)
    }

    /// The facts for the console.
    pub(crate) fn facts(&self) -> DnsFacts {
        let host = |(name, answer): (&String, &Answer)| DnsHost {
            name: name.clone(),
            until: answer.until,
            addresses: answer.addresses.clone(),
        };
        let mut hosts: BTreeMap<&str, usize> = BTreeMap::new();
        for zone in self.answers.keys().filter_map(|host| zone_of(host)) {
            *hosts.entry(zone).or_default() += 1;
        }
        // As in PgBouncer: 0 until the serial number is known.
        let zone = |(name, hosts): (&str, usize)| DnsZone {
            name: name.to_owned(),
            serial: self.serials.get(name).copied().unwrap_or(0),
            hosts,
        };
        DnsFacts {
            hosts: self.answers.iter().map(host).collect(),
            zones: hosts.into_iter().map(zone).collect(),
            asked: self.asked.len(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inbox::Message;
    use std::sync::mpsc::Receiver;

    fn resolver() -> (Resolver, Receiver<Message>, mio::Poll) {
        let poll = mio::Poll::new().unwrap();
        let (sender, receiver) = crate::inbox::inbox(poll.registry()).unwrap();
        let settings = DnsSettings {
            max_ttl: Duration::from_secs(15),
            nxdomain_ttl: Duration::from_secs(5),
            zone_check_period: Some(Duration::from_secs(7)),
            resolv_conf: String::new(),
        };
        (Resolver::new(settings, sender).unwrap(), receiver, poll)
    }

    fn found(addresses: &[&str], ttl_seconds: Option<u64>) -> Option<Found> {
        Some(Found {
            addresses: addresses.iter().map(|address| address.parse().unwrap()).collect(),
            ttl: ttl_seconds.map(Duration::from_secs),
        })
    }

    fn known(addresses: &[&str]) -> LookUp {
        LookUp::Known(found(addresses, None).unwrap().addresses)
    }

    const SECOND: u64 = 1_000_000;

    #[test]
    fn answers_are_used_in_turn_until_they_are_too_old() {
        let (mut resolver, _inbox, _poll) = resolver();
        resolver.learn("db", found(&["192.0.2.1", "192.0.2.2"], None), Time(0));
        assert_eq!(resolver.look_up("db", Time(1)), known(&["192.0.2.1", "192.0.2.2"]));
        assert_eq!(resolver.look_up("db", Time(1)), known(&["192.0.2.2", "192.0.2.1"]));
        assert_eq!(
            resolver.look_up("db", Time(15 * SECOND)),
            known(&["192.0.2.1", "192.0.2.2"])
        );
        assert_eq!(resolver.look_up("db", Time(15 * SECOND + 1)), LookUp::Asked);
        resolver.learn("none", None, Time(0));
        assert_eq!(resolver.look_up("none", Time(5 * SECOND)), LookUp::Failed);
        assert_eq!(resolver.look_up("none", Time(5 * SECOND + 1)), LookUp::Asked);
    }

    #[test]
    fn records_live_as_long_as_they_say_but_not_longer_than_dns_max_ttl() {
        for (ttl, lifetime) in [(2, 2), (15, 15), (86_400, 15), (0, 0)] {
            let (mut resolver, _inbox, _poll) = resolver();
            resolver.learn("db", found(&["192.0.2.1"], Some(ttl)), Time(0));
            assert_eq!(resolver.look_up("db", Time(lifetime * SECOND)), known(&["192.0.2.1"]));
            assert_eq!(resolver.look_up("db", Time(lifetime * SECOND + 1)), LookUp::Asked);
        }
    }

    #[test]
    fn addresses_that_a_name_has_no_longer_are_told() {
        let (mut resolver, _inbox, _poll) = resolver();
        let two = found(&["192.0.2.1", "192.0.2.2"], None);
        assert!(resolver.learn("db", two.clone(), Time(0)).is_empty());
        assert!(resolver.learn("db", two, Time(1)).is_empty());
        let gone = resolver.learn("db", found(&["192.0.2.2", "192.0.2.3"], None), Time(60 * SECOND));
        assert_eq!(gone, found(&["192.0.2.1"], None).unwrap().addresses);
        assert!(
            resolver.learn("db", None, Time(61 * SECOND)).is_empty(),
            "an error is no news"
        );
    }

    #[test]
    fn the_names_of_a_zone_are_asked_for_when_its_serial_changes() {
        let (mut resolver, _inbox, _poll) = resolver();
        for host in ["a.example.org", "b.example.org.", "a.other.org", "local"] {
            resolver.learn(host, found(&["192.0.2.1"], None), Time(0));
        }
        let zones = |resolver: &Resolver| {
            resolver
                .facts()
                .zones
                .into_iter()
                .map(|z| (z.name, z.serial, z.hosts))
                .collect::<Vec<_>>()
        };
        let other = ("other.org".to_owned(), 0, 1);
        assert_eq!(
            zones(&resolver),
            [("example.org".to_owned(), 0, 2), other.clone()],
            "not asked yet"
        );
        assert_eq!(resolver.check_zones(), Some(Duration::from_secs(7)));
        assert_eq!(resolver.learn_serial("example.org", 5), None);
        assert_eq!(resolver.learn_serial("example.org", 5), None);
        assert!(resolver.asked.is_empty());
        assert_eq!(zones(&resolver), [("example.org".to_owned(), 5, 2), other]);
        assert_eq!(resolver.learn_serial("example.org", 6), Some(5));
        assert_eq!(
            resolver.asked,
            HashSet::from(["a.example.org".into(), "b.example.org.".into()])
        );
        assert_eq!(
            resolver.look_up("a.example.org", Time(1)),
            known(&["192.0.2.1"]),
            "until the answer comes"
        );
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
        let addresses = addresses.unwrap();
        assert!(addresses.addresses.iter().all(IpAddr::is_loopback), "{addresses:?}");
        resolver.learn(&host, Some(addresses), Time(0));
        assert!(matches!(resolver.look_up("localhost", Time(0)), LookUp::Known(_)));
        assert!(inbox.try_recv().is_err());
    }
}
