//! The parts that all measurements share: server, consent, the lab's own database, results.

mod arguments;
mod consent;
mod database;
mod load_seen;
mod target;

pub use arguments::CommonArguments;
pub use consent::Plan;
pub use database::LabDatabase;
pub use target::Target;

use crate::interrupt::Interrupt;
use crate::machine::Machine;
use crate::pgbench::{Pgbench, WorkloadArguments, fill};
use crate::progress::Progress;
use crate::results::Results;
use crate::server::query_error;
use crate::{Error, Result};
use std::time::Duration;

/// The time for filling the tables that the plan announces, seconds per unit of scale.
const FILL_SECONDS_PER_SCALE: f64 = 0.35;

/// A measurement under way. When it is dropped, everything that the lab has made is removed; the results stay only if
/// [`Results::finish`] was called.
pub struct Session {
    /// The progress that the user sees.
    pub progress: Progress,
    /// Whether the user has asked to end it.
    pub interrupt: Interrupt,
    /// The load generator.
    pub pgbench: Pgbench,
    /// The folder of the results.
    pub results: Results,
    /// The server and the lab's database in it.
    pub target: Target,
    /// The machine that the lab runs on.
    pub machine: Machine,
}

impl Session {
    /// Finds the programs, asks for consent, and makes the database. `command` names the measurement, such as
    /// `connections`. `throwaway_settings` are for a throwaway PostgreSQL.
    pub fn open(
        command: &str,
        common: &CommonArguments,
        throwaway_settings: &[String],
        plan: impl FnOnce(&Target) -> Result<Plan>,
    ) -> Result<Self> {
        let pgbench = Pgbench::find(common.bin_dir.as_deref())?;
        let mut target = Target::open(common, throwaway_settings)?;
        // Not earlier: while a connection is opened nothing checks for signals, so they end the process. The keeper of
        // a throwaway server cleans up even then.
        let interrupt = Interrupt::install()?;
        let plan = plan(&target)?;
        if !target.is_throwaway() {
            target.refuse_if_unfit(common.force, &interrupt)?;
            consent::ask(command, &plan, &target, common.yes, &interrupt)?;
        }
        let results = Results::create(command, common.output.as_deref())?;
        target.make_database(common)?;
        interrupt.check()?;
        Ok(Session {
            progress: Progress::new(),
            interrupt,
            pgbench,
            results,
            target,
            machine: Machine::here(),
        })
    }

    /// Makes the tables of the load: pgbench's, and those of the user's scripts.
    pub fn fill(&mut self, workload: &WorkloadArguments) -> Result<()> {
        let planned = fill_time(workload.scale);
        self.progress
            .begin(&format!("filling pgbench's tables, scale {}", workload.scale), planned);
        let progress = &mut self.progress;
        let live = |text: &str| progress.live(text);
        fill(
            &self.pgbench,
            &self.target.server,
            workload.scale,
            &self.interrupt,
            live,
        )?;
        if let Some(file) = &workload.setup {
            let text = std::fs::read_to_string(file);
            let text = text.map_err(|e| Error::new(format!("could not read {}: {e}", file.display())))?;
            let mut client = self.target.server.connect()?;
            let _cancel = self.target.server.cancel_on_signal(&client, &self.interrupt)?;
            let made = client.batch_execute(&text);
            self.interrupt
                .instead_of(made.map_err(|e| query_error(&e).context(file.display())))?;
        }
        self.progress.done("done");
        Ok(())
    }
}

/// The time that filling the tables should take.
pub fn fill_time(scale: u32) -> Duration {
    Duration::from_secs_f64(1.0 + f64::from(scale) * FILL_SECONDS_PER_SCALE)
}
