//! The pooler's own requests to a server: how they are sent, and who reads their answers. What each [`Job`] asks is
//! told where it is sent from.

use crate::catalog::code::CatalogRows;
use crate::reply::Reply;
use crate::server_side::ServerSide;
use crate::statements::prepared::Statement;
use crate::statements::unnamed::Unnamed;
use crate::upstream::entry::To;
use crate::upstream::job::{Job, ProbeRows};
use crate::upstream::phase::ServerPhase;
use pgweir_sql::SignalCall;
use pgweir_wire::{ErrorFields, HEADER_BYTES, backend};
use std::sync::Arc;

impl ServerSide<'_> {
    /// Runs an internal statement as a part of this job.
    pub(crate) fn runs_for(&mut self, job: Job, statement: &Arc<Statement>, values: &[Option<&[u8]>]) {
        self.prepare(statement);
        self.server.conversation.queue_mut().preparing_is_for(job);
        self.asks(To::Job(job), |r| {
            r.bind(b"", statement.server_name(), values);
            r.execute(b"");
        });
    }

    /// Runs a text without parameters for a job, under the name for statements that are used once.
    pub(crate) fn runs_once_for(&mut self, job: Job, text: &[u8]) {
        let scratch = self.shared.internal.scratch.clone();
        self.prepare_scratch(text, &[0, 0]);
        self.server.conversation.queue_mut().preparing_is_for(job);
        self.asks(To::Job(job), |r| {
            r.bind(b"", scratch.server_name(), &[]);
            r.execute(b"");
        });
    }

    /// Asks, in a portal of its own, whether a call means PostgreSQL's own function, and whether the client may call it.
    pub(crate) fn asks_right(&mut self, call: SignalCall) {
        let scratch = self.shared.internal.scratch.clone();
        let portal = self.shared.internal.names.portal.clone();
        self.prepare_scratch(call.question().as_bytes(), &[0, 0]);
        self.server.conversation.queue_mut().preparing_is_for(Job::AskRight);
        self.asks(To::Job(Job::AskRight), |r| {
            r.run_in(&portal, scratch.server_name(), &[]);
        });
    }

    /// Begins a transaction for a job's statements. The client's defaults cannot delay it.
    pub(crate) fn begin_internal(&mut self, job: Job) {
        let begin = self.shared.internal.begin_plain.clone();
        self.runs_for(job.without_rows(), &begin, &[]);
    }

    /// Ends the transaction that [`ServerSide::begin_internal`] began.
    pub(crate) fn commit_internal(&mut self, job: Job) {
        let commit = self.shared.internal.commit.clone();
        self.runs_for(job.without_rows(), &commit, &[]);
    }

    /// Ends the segment of a job.
    pub(crate) fn sync_for(&mut self, job: Job) {
        self.asks(To::Job(job.without_rows()), |r| r.sync());
    }

    /// Sends ROLLBACK after the Sync of a transaction that [`ServerSide::begin_internal`] began on a client's server.
    /// The client may have sent its next request, which must not meet a failed internal transaction.
    pub(crate) fn rollback_internal(&mut self) {
        if matches!(self.server.phase, ServerPhase::Linked) {
            self.query_for_nothing(b"ROLLBACK");
        }
    }

    /// Sends a client's server a Query whose reply is ignored, even if it is an error.
    pub(crate) fn query_for_nothing(&mut self, text: &[u8]) {
        self.server.held.unnamed_becomes(Unnamed::Nothing);
        self.asks(To::Job(Job::Nothing), |r| r.query(text));
    }

    /// The server has refused a request of this job.
    pub(crate) fn job_refused(&mut self, job: Job, fields: &ErrorFields<'_>) {
        let server = &mut *self.server;
        match job {
            // The refused request may have been DISCARD PLANS.
            Job::Nothing => server.session.keeps_foreign_plans(),
            Job::Probe(_) => {
                if let Some(probe) = server.session.probe_mut() {
                    probe.is_refused(fields);
                }
            }
            Job::ReadCatalog | Job::ReadPosition | Job::ReadObjects | Job::ReadSources => {
                if let Some(reading) = &mut server.reading {
                    reading.is_refused(fields.sqlstate, fields.message);
                }
            }
            Job::MoveChannels | Job::ListChannels => server.session.move_fails(),
            Job::CheckPlan => self.check_failed(fields.sqlstate),
            // The restoration has the error already. A right that was not granted is refused.
            Job::Restore | Job::AskRight => {}
        }
    }
}

impl Reply<'_> {
    /// A row of the answer to a job.
    pub(crate) fn answer_row(&mut self, job: Job, message: &[u8]) {
        match job {
            Job::Probe(ProbeRows::Ignored)
            | Job::ReadCatalog
            | Job::MoveChannels
            | Job::Nothing
            | Job::Restore
            | Job::CheckPlan => {}
            Job::Probe(rows) => {
                if let Some(probe) = self.server.session.probe_mut() {
                    probe.row(rows, message);
                }
            }
            Job::ReadPosition => {
                if let Some(reading) = &mut self.server.reading {
                    reading.position_row(message);
                }
            }
            Job::ReadObjects => self.catalog_row(CatalogRows::Object, message),
            Job::ReadSources => self.catalog_row(CatalogRows::Source, message),
            Job::ListChannels => self.channel_row(message),
            Job::AskRight => self.right_row(message),
        }
    }

    /// The answer to [`ServerSide::asks_right`].
    fn right_row(&mut self, message: &[u8]) {
        let says_yes = message
            .get(HEADER_BYTES..)
            .is_some_and(|body| backend::data_row(body).is_ok_and(|row| row == [Some(&b"t"[..])]));
        if let Some(asked) = self.client().and_then(|client| client.session.asked_right())
            && says_yes
        {
            asked.grant();
        }
    }

    fn catalog_row(&mut self, rows: CatalogRows, message: &[u8]) {
        if let Some(reading) = &mut self.server.reading {
            reading.row(rows, message);
        }
    }
}
