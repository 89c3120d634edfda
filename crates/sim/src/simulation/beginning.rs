//! How the world of a run begins.

use super::canary::Canary;
use super::client::Client;
use super::faults::Fault;
use super::hosts::Hosts;
use super::postgres::Postgres;
use super::shutdown::Ending;
use super::takeover::{Successors, TakeOvers};
use super::topology::Topology;
use super::trace::Trace;
use super::visitors::Visitors;
use super::world::{Event, World};
use crate::random::Random;
use foldhash::HashMap;
use pgweir_config::Config;
use pgweir_core::{Pooler, Surroundings, Time, WallClock};
use std::collections::{BTreeMap, BinaryHeap};
use std::sync::Arc;

/// How often replies are lost with a server where clients share servers.
const BREAKS_IN_CROWDS: u64 = 8;

impl World {
    /// The world of a topology; with a canary its driver has a defect.
    pub fn new(topology: Topology, canary: Option<Canary>, take_overs: TakeOvers, print: bool) -> Self {
        let mut random = Random::new(topology.seed ^ 0x7e1e_0000);
        let config = config_of(&topology, 0);
        let surroundings = surroundings(&mut random);
        let successors = Successors {
            config: config.clone(),
            surroundings: surroundings.clone(),
            how_often: take_overs,
            waits: false,
            starts_at_us: 0,
            random: Random::new(topology.seed ^ 0x7a6e_0000),
        };
        let mut pooler = Pooler::new(config, surroundings, Time(0));
        if let Some(Canary::Weak(weakness)) = canary {
            pooler.weaken(weakness);
        }
        let postgres = Postgres::new(topology.version, &topology.role_defaults)
            .with_code_that_sets(topology.code_sets_at_first)
            .with_common_users(topology.signals)
            .with_lag(topology.replica_lag);
        let hosts = Hosts::new(
            topology.hosts,
            topology.hosts_differ,
            Random::new(topology.seed ^ 0x4057_5000),
        );
        let mut world = World {
            now_us: 0,
            events: BinaryHeap::new(),
            event_number: 0,
            pooler,
            postgres,
            clients: Vec::new(),
            retired: BTreeMap::new(),
            incomplete: BTreeMap::new(),
            connections: BTreeMap::new(),
            by_id: HashMap::default(),
            by_process: HashMap::default(),
            wakes: BTreeMap::new(),
            has_grown: false,
            next_connection: 1,
            next_session: 1,
            drained: Vec::new(),
            holds_back: false,
            connecting: BTreeMap::new(),
            hosts,
            cancels: BTreeMap::new(),
            signals: Vec::new(),
            visitors: Visitors::new(&topology),
            doing_requests: false,
            turn_ends: false,
            changes: 0,
            ending: Ending::No,
            successors,
            canary,
            broken: 0,
            trace: Trace::new(print),
            steps: 0,
            violation: None,
            random,
            topology,
        };
        world.add_clients();
        world.add_faults();
        world.add_host_faults();
        world.add_reloads();
        world.add_visitors();
        world
    }

    fn add_clients(&mut self) {
        for number in 0..self.topology.clients {
            let client = Client::new(number, self.random.split(), &self.topology);
            self.clients.push(client);
            let at = self.random.below(self.topology.calm_at_us / 2);
            self.schedule(at, Event::ClientActs(number));
        }
    }

    fn add_reloads(&mut self) {
        let mut random = Random::new(self.topology.seed ^ 0x4e10_5700);
        for _ in 0..self.topology.reloads {
            let at = random.below(self.topology.calm_at_us);
            self.schedule(at, Event::Fault(Fault::Reload));
        }
    }

    fn add_faults(&mut self) {
        for _ in 0..self.topology.server_faults {
            let at = self.random.below(self.topology.calm_at_us);
            let fault = match self.random.below(4) {
                0 => Fault::Crash(self.random.between(1_000, 400_000)),
                1 => Fault::BreakOne,
                _ => Fault::TerminateOne,
            };
            self.schedule(at, Event::Fault(fault));
        }
        // Servers with the transactions of several clients are rare.
        if self.topology.crowds() && self.topology.server_faults > 0 {
            let mut random = Random::new(self.topology.seed ^ 0x10_5700);
            for _ in 0..BREAKS_IN_CROWDS {
                let at = random.below(self.topology.calm_at_us);
                self.schedule(at, Event::Fault(Fault::BreakUnheard));
            }
        }
    }
}

pub(super) fn config_of(topology: &Topology, changes: u64) -> Arc<Config> {
    let (ini, users) = (topology.ini(changes), topology.users_file());
    let files = |name: &str| -> std::io::Result<Vec<u8>> {
        match name {
            "sim.ini" => Ok(ini.clone().into_bytes()),
            "users" => Ok(users.clone().into_bytes()),
            _ => Err(std::io::ErrorKind::NotFound.into()),
        }
    };
    match pgweir_config::load("sim.ini", &files) {
        Ok(loaded) => Arc::new(loaded.config),
        Err(problems) => panic!("the simulation's own configuration is refused: {problems:?}\n{ini}"),
    }
}

fn surroundings(random: &mut Random) -> Surroundings {
    let mut seed = [0; 32];
    for part in seed.chunks_mut(8) {
        part.copy_from_slice(&random.next().to_le_bytes());
    }
    Surroundings {
        seed,
        wall: WallClock { unix_us: 0 },
        own_uid: 1000,
        host_name: "here".into(),
        open_files_max: 1024,
    }
}
