//! What clients are charged for whose flights are answered together.

use super::crowd::SHARED;
use crate::rig::Rig;
use pgweir_core::{ClientId, ServerId};
use pgweir_wire::TransactionStatus::Idle;
use std::collections::BTreeMap;
use std::time::Duration;

/// The server works for this long on a flight.
const TIME: Duration = Duration::from_micros(100);

/// One server, and clients that send their next query as soon as they have their answer.
struct Load {
    rig: Rig,
    server: ServerId,
    runs: BTreeMap<ClientId, u32>,
}

impl Load {
    fn new(settings: &str, clients: usize) -> Self {
        let mut rig = Rig::new(&format!("{SHARED}\nmax_client_conn = 1000\n{settings}"));
        let clients: Vec<_> = (0..clients).map(|_| rig.client()).collect();
        for client in &clients {
            rig.told(*client);
            rig.query(*client, "select 1");
        }
        let server = rig.server_of(clients[0]).expect("the pool's only server");
        let runs = clients.into_iter().map(|id| (id, 0)).collect();
        Load { rig, server, runs }
    }

    /// The server answers all flights that it has got, in one input.
    fn all_end(&mut self) {
        let flights = self.rig.told(self.server).len();
        self.rig.now = self.rig.now + TIME * flights as u32;
        self.rig.says(self.server, |w| {
            for _ in 0..flights {
                w.command_complete("SELECT 1");
                w.ready_for_query(Idle);
            }
        });
        for (id, runs) in &mut self.runs {
            if !self.rig.told(*id).is_empty() {
                *runs += 1;
                self.rig.query(*id, "select 1");
            }
        }
    }
}

#[test]
fn clients_whose_flights_are_answered_together_are_charged_alike() {
    for settings in ["", "fair_by = user"] {
        let mut load = Load::new(settings, 40);
        for _ in 0..200 {
            load.all_end();
        }
        let (fewest, most) = (load.runs.values().min().unwrap(), load.runs.values().max().unwrap());
        assert!(*fewest > 10 && most - fewest <= 3, "{settings}: {:?}", load.runs);
    }
}
