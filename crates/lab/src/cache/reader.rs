//! Reading blocks by pg_prewarm, in pieces, so that there is progress and Ctrl-C ends it soon.

use super::extension;
use super::look::bytes;
use super::survey::{self, unsigned};
use crate::interrupt::Interrupt;
use crate::{Error, Result};
use clap::ValueEnum;
use postgres::Client;
use postgres::error::SqlState;
use std::io::IsTerminal;
use std::time::{Duration, Instant};

/// How often the progress is shown anew: at a terminal, and in a log.
const TERMINAL_INTERVAL: Duration = Duration::from_millis(200);
const LOG_INTERVAL: Duration = Duration::from_secs(5);

/// What is done with the blocks, as pg_prewarm names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Mode {
    /// Into shared_buffers.
    Buffer,
    /// Into the operating system's page cache only.
    Read,
}

impl Mode {
    pub(super) fn word(self) -> &'static str {
        match self {
            Mode::Buffer => "buffer",
            Mode::Read => "read",
        }
    }

    pub(super) fn destination(self) -> &'static str {
        match self {
            Mode::Buffer => "shared_buffers",
            Mode::Read => "the page cache",
        }
    }
}

/// Reads pieces, tells how far it is, and remembers what was refused.
pub(super) struct Reader {
    client: Client,
    schema: String,
    mode: Mode,
    interrupt: Interrupt,
    block_bytes: u64,
    /// Blocks to come at the beginning.
    planned: u64,
    pub(super) read: u64,
    /// What the passes before have read.
    read_before: u64,
    started: Instant,
    shown: Instant,
    terminal: bool,
    relation: String,
    skipped: Vec<String>,
}

impl Reader {
    pub(super) fn new(
        client: Client,
        schema: String,
        mode: Mode,
        planned: u64,
        block_bytes: u64,
        interrupt: Interrupt,
    ) -> Self {
        let now = Instant::now();
        Reader {
            client,
            schema,
            mode,
            interrupt,
            block_bytes,
            planned,
            read: 0,
            read_before: 0,
            started: now,
            shown: now,
            terminal: std::io::stderr().is_terminal(),
            relation: String::new(),
            skipped: Vec::new(),
        }
    }

    /// The next pieces belong to this relation.
    pub(super) fn begin(&mut self, relation: &str) {
        relation.clone_into(&mut self.relation);
    }

    /// Another pass over the same blocks begins.
    pub(super) fn again(&mut self, planned: u64) {
        self.read_before += self.read;
        (self.read, self.planned) = (0, planned);
        self.skipped.clear();
    }

    /// How many blocks of these runs are in shared_buffers; None where that cannot be seen.
    pub(super) fn buffered(&mut self, database: &str, runs: &[(u32, u64, u64)]) -> Result<Option<u64>> {
        match survey::buffercache(&mut self.client, database)? {
            Ok(shown_by) => survey::buffered_of(&mut self.client, &shown_by.schema, runs).map(Some),
            Err(_) => Ok(None),
        }
    }

    /// Reads ranges of blocks, first to last. False where the relation cannot be read: its other pieces are skipped.
    pub(super) fn read(&mut self, oid: u32, ranges: &[(u64, u64)]) -> Result<bool> {
        let interrupted = self.interrupt.check();
        if let Err(e) = interrupted {
            self.end_line();
            crate::tell(&format!(
                "pgweir: {} of {} were read\n",
                self.size(self.read),
                self.size(self.planned)
            ));
            return Err(e);
        }
        let signed = |block: u64| i64::try_from(block).unwrap_or(i64::MAX);
        let firsts: Vec<i64> = ranges.iter().map(|r| signed(r.0)).collect();
        let lasts: Vec<i64> = ranges.iter().map(|r| signed(r.1)).collect();
        let outcome = self.client.query_one(
            &format!(
                "select sum({}.pg_prewarm($1::oid::regclass, '{}', 'main', r.first, r.last))::int8 \
                 from unnest($2::int8[], $3::int8[]) r(first, last)",
                self.schema,
                self.mode.word()
            ),
            &[&oid, &firsts, &lasts],
        );
        match outcome {
            Ok(row) => {
                self.read += unsigned(row.get::<_, Option<i64>>(0).unwrap_or(0));
                self.progress();
                Ok(true)
            }
            // No privilege, dropped or cut short meanwhile, locked by somebody: the others can still be read.
            Err(e) if e.code().is_some_and(is_of_relation) => {
                let why = e.as_db_error().map_or("", |answer| answer.message());
                let skipped = format!("{}: {why}", self.relation);
                if !self.skipped.contains(&skipped) {
                    self.skipped.push(skipped);
                }
                Ok(false)
            }
            Err(e) => {
                self.end_line();
                crate::tell(&format!(
                    "pgweir: {} of {} were read\n",
                    self.size(self.read),
                    self.size(self.planned)
                ));
                Err(extension::failed(&e))
            }
        }
    }

    fn progress(&mut self) {
        let interval = if self.terminal { TERMINAL_INTERVAL } else { LOG_INTERVAL };
        if self.shown.elapsed() < interval {
            return;
        }
        self.shown = Instant::now();
        let elapsed = self.started.elapsed().as_secs_f64();
        let rate = self.read as f64 / elapsed;
        let left = (self.planned.saturating_sub(self.read)) as f64 / rate.max(1.0);
        let line = format!(
            "{:.0} %  {} of {}  {}/s  about {left:.0} s left  {}",
            100.0 * self.read as f64 / self.planned.max(1) as f64,
            self.size(self.read),
            self.size(self.planned),
            self.size(rate as u64),
            self.relation
        );
        match self.terminal {
            true => crate::tell(&format!("\r\x1b[K{line}")),
            false => crate::tell(&format!("{line}\n")),
        }
    }

    fn end_line(&self) {
        if self.terminal {
            crate::tell("\r\x1b[K");
        }
    }

    fn size(&self, blocks: u64) -> String {
        bytes(blocks * self.block_bytes)
    }

    /// Says what has become of it; `buffered` are blocks in shared_buffers, and blocks wanted there.
    pub(super) fn finish(self, mode: Mode, buffered: Option<(u64, u64)>) -> Result<()> {
        self.end_line();
        for skipped in &self.skipped {
            crate::say(&format!("skipped {skipped}\n"));
        }
        if self.read == 0 && !self.skipped.is_empty() {
            return Err(Error::new("nothing could be read").hint(
                "it takes the privilege SELECT on the tables: their owner's, a superuser's, or pg_read_all_data's",
            ));
        }
        let time = self.started.elapsed().as_secs_f64();
        let read = self.size(self.read.max(self.read_before.min(self.planned)));
        crate::say(&format!("read {read} into {} in {time:.1} s\n", mode.destination()));
        match (mode, buffered) {
            (Mode::Buffer, Some((there, wanted))) => {
                crate::say(&format!(
                    "of {} {} are in shared_buffers now\n",
                    self.size(wanted),
                    self.size(there)
                ));
            }
            (Mode::Buffer, None) => crate::say("how much of it is still there only pg_buffercache can tell\n"),
            (Mode::Read, _) => {}
        }
        Ok(())
    }
}

/// Errors that concern one relation and leave the connection usable.
fn is_of_relation(code: &SqlState) -> bool {
    [
        SqlState::INSUFFICIENT_PRIVILEGE,
        SqlState::UNDEFINED_TABLE,
        SqlState::UNDEFINED_OBJECT,
        SqlState::INVALID_PARAMETER_VALUE,
        SqlState::LOCK_NOT_AVAILABLE,
        SqlState::WRONG_OBJECT_TYPE,
        SqlState::FEATURE_NOT_SUPPORTED,
    ]
    .contains(code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lost_connection_is_not_a_relation_s_fault() {
        assert!(is_of_relation(&SqlState::INSUFFICIENT_PRIVILEGE));
        assert!(!is_of_relation(&SqlState::ADMIN_SHUTDOWN) && !is_of_relation(&SqlState::IO_ERROR));
    }
}
