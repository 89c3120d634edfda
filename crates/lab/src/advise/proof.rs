//! How to see that a change helped, and which measurement of the laboratory shows the same on a throwaway server.

use super::finding::{Finding, Severity};
use serde::{Deserialize, Serialize};

/// A measurement that shows what a finding is about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Experiment {
    /// The command to paste. It makes a temporary server; `--server` in place of `--throwaway` measures an own one.
    pub command: String,
    /// How long it takes with its defaults on 2 processors, about.
    pub minutes: u32,
}

impl Experiment {
    /// As people are told of it.
    pub(super) fn words(&self) -> String {
        format!("`{}`, about {} minutes", self.command, self.minutes)
    }
}

/// One kind of finding.
struct Proof {
    id: &'static str,
    /// What to look at afterwards, and what it should say.
    helped: &'static str,
    experiment: Option<Measurement>,
}

#[derive(Clone, Copy)]
enum Measurement {
    Connections,
    Connect,
    Idle,
    Buffers,
    Scale,
}

impl Measurement {
    fn experiment(self) -> Experiment {
        let (name, minutes) = match self {
            Measurement::Connections => ("connections", 8),
            Measurement::Connect => ("connect", 5),
            Measurement::Idle => ("idle", 15),
            Measurement::Buffers => ("buffers", 6),
            Measurement::Scale => ("scale", 10),
        };
        Experiment {
            command: format!("pgweir lab {name} --throwaway"),
            minutes,
        }
    }
}

const PROOFS: [Proof; 19] = [
    Proof {
        id: "server.young",
        helped: "pgweir advise after an hour of the usual load says the same, or more",
        experiment: None,
    },
    Proof {
        id: "connections.room",
        helped: "at the busiest time pgweir advise --watch 10m counts fewer than 80 % of the connections in use, and the server's \
                 log has no \"too many clients already\"",
        experiment: Some(Measurement::Scale),
    },
    Proof {
        id: "connections.idle",
        helped: "SELECT count(*) FROM pg_stat_activity WHERE state = 'idle' says no more than the pools have servers, and \
                 MemAvailable in /proc/meminfo is larger by what the idle ones took",
        experiment: Some(Measurement::Idle),
    },
    Proof {
        id: "connections.idle_in_transaction",
        helped: "pgweir advise --watch 10m sees no transaction that is idle for a minute; what the timeout ends stands in the \
                 server's log (\"idle-in-transaction timeout\"), with its application",
        experiment: None,
    },
    Proof {
        id: "connections.at_work",
        helped: "at the same load fewer connections are at work (pgweir advise --watch 10m), and transactions per second are as \
                 many or more",
        experiment: Some(Measurement::Connections),
    },
    Proof {
        id: "connections.limit",
        helped: "SHOW max_connections says the new number after the restart, and the server's log has no \"too many clients \
                 already\" at the busiest time",
        experiment: Some(Measurement::Connections),
    },
    Proof {
        id: "connections.opened",
        helped: "pgweir advise counts hardly any new connections per second, and clients wait less to connect",
        experiment: Some(Measurement::Connect),
    },
    Proof {
        id: "memory.budget",
        helped: "pgweir advise says that the worst case fits; temp_files in pg_stat_database does not grow faster than before",
        experiment: Some(Measurement::Idle),
    },
    Proof {
        id: "memory.shared_buffers",
        helped: "a day after the restart, at the same load, pgweir advise counts fewer blocks that were not in shared_buffers, and \
                 queries take less time (mean_exec_time of pg_stat_statements)",
        experiment: Some(Measurement::Buffers),
    },
    Proof {
        id: "memory.huge_pages",
        helped: "HugePages_Free in /proc/meminfo is smaller than HugePages_Total after the restart (from PostgreSQL 17 on: SHOW \
                 huge_pages_status), and PageTables there stays small",
        experiment: None,
    },
    Proof {
        id: "pooler.waits",
        helped: "SHOW POOLS says less for cl_waiting and maxwait, and transactions per second are as many or more",
        experiment: Some(Measurement::Connections),
    },
    Proof {
        id: "pooler.mode",
        helped: "SHOW POOLS says a sv_active far below cl_active",
        experiment: Some(Measurement::Idle),
    },
    Proof {
        id: "pooler.too_large",
        helped: "SHOW POOLS says a smaller sv_active, and SHOW STATS as many transactions or more, each of less time (avg_xact_time)",
        experiment: Some(Measurement::Connections),
    },
    Proof {
        id: "pooler.sizing",
        helped: "SHOW SIZING says auto, and its latest step changes when the load does",
        experiment: None,
    },
    Proof {
        id: "pooler.sum",
        helped: "the log has no \"too many clients already\"; SHOW DATABASES says a current_connections of no more than the limit",
        experiment: None,
    },
    Proof {
        id: "pooler.clients",
        helped: "SHOW LISTS says a used_clients far below max_client_conn, and clients are no longer refused",
        experiment: Some(Measurement::Scale),
    },
    Proof {
        id: "pooler.prepared",
        helped: "drivers prepare without errors: total_client_parse_count of SHOW STATS grows, and total_server_parse_count more slowly",
        experiment: None,
    },
    Proof {
        id: "pooler.loopback",
        helped: "SHOW SERVERS says unix for addr, and the pooler takes less of a processor at the same load",
        experiment: None,
    },
    Proof {
        id: "pooler.warm",
        helped: "after a quiet hour SHOW POOLS still says sv_idle of min_pool_size",
        experiment: Some(Measurement::Connect),
    },
];

/// Adds to each finding that recommends a change how to see that the change helped, and which measurement shows it.
pub(super) fn add(findings: &mut [Finding]) {
    for finding in findings
        .iter_mut()
        .filter(|finding| finding.severity < Severity::Unknown)
    {
        if let Some(proof) = PROOFS.iter().find(|proof| proof.id == finding.id) {
            finding.helped = proof.helped.to_owned();
            finding.experiment = proof.experiment.map(Measurement::experiment);
        }
    }
}
