//! Simple query (`exec_simple_query`).

use super::error::ServerError;
use super::execute::{Plan, Ran};
use super::parser::parse;
use super::portal::{Portal, PortalState};
use super::session::{Caller, Session};
use super::statement::Statement;
use super::transaction::{Block, Shared};
use pgweir_wire::frontend::FrontendTag;
use std::rc::Rc;

/// The state of a Query.
#[derive(Debug)]
pub(super) struct SimpleRun {
    statements: Rc<[Statement]>,
    /// The statement that runs, or runs next.
    at: usize,
    /// Its plan, if it has been interrupted.
    plan: Option<Plan>,
    /// It has already paused before this statement.
    has_paused: bool,
}

impl Session {
    pub(super) fn query(&mut self, shared: &mut Shared, now_us: u64, body: &[u8]) -> Result<(), ServerError> {
        let [text @ .., 0] = body else {
            return Err(ServerError::protocol("invalid string in message"));
        };
        if text.contains(&0) {
            return Err(ServerError::protocol("invalid message format"));
        }
        self.start_command()?;
        self.unnamed = None;
        let statements: Rc<[Statement]> = parse(&self.received(text))?.into();
        if statements.is_empty() {
            self.finish_command(shared)?;
            self.out.write(|w| w.empty(b'I'));
            self.ready(shared);
            return Ok(());
        }
        let run = SimpleRun {
            statements,
            at: 0,
            plan: None,
            has_paused: true,
        };
        self.simple_run(shared, now_us, run)
    }

    pub(super) fn simple_resume(
        &mut self,
        shared: &mut Shared,
        now_us: u64,
        mut run: SimpleRun,
        tag: Option<String>,
    ) -> Result<(), ServerError> {
        if let Some(tag) = tag {
            run.plan = None;
            self.simple_complete(shared, &mut run, &tag)?;
        }
        self.simple_run(shared, now_us, run)
    }

    fn simple_run(&mut self, shared: &mut Shared, now_us: u64, mut run: SimpleRun) -> Result<(), ServerError> {
        while run.at < run.statements.len() {
            if !std::mem::replace(&mut run.has_paused, true)
                && let Some(us) = self.pace.pause_us(FrontendTag::Query)
            {
                self.sleep(now_us.saturating_add(us), Caller::Simple(run));
                return Ok(());
            }
            let mut plan = match run.plan.take() {
                Some(plan) => plan,
                None => self.simple_plan(shared, &run)?,
            };
            match self.run(shared, &mut plan, 0, &[])? {
                Ran::Done(tag) => self.simple_complete(shared, &mut run, &tag)?,
                Ran::Suspended => unreachable!("a Query has no row limit"),
                Ran::CopyIn => {
                    self.begin_copy_in(Caller::Simple(run));
                    return Ok(());
                }
                Ran::Sleep { us } => {
                    run.plan = Some(plan);
                    self.sleep(now_us.saturating_add(us), Caller::Simple(run));
                    return Ok(());
                }
            }
        }
        self.ready(shared);
        Ok(())
    }

    fn simple_plan(&mut self, shared: &mut Shared, run: &SimpleRun) -> Result<Plan, ServerError> {
        let statement = &run.statements[run.at];
        self.refuse_if_failed(statement)?;
        self.start_command()?;
        if run.statements.len() > 1 && self.transaction.block == Block::Started {
            self.transaction.block = Block::Implicit;
        }
        let prepared = match self.analyse(shared, statement.clone(), &[]) {
            Err(e) if matches!(statement, Statement::Show(_)) => {
                // The error comes when the portal starts.
                let portal = Portal::unusable(None, self.transaction.level_id(), PortalState::Dangling);
                self.portals.insert(Vec::new(), portal);
                return Err(e);
            }
            prepared => prepared?,
        };
        if !prepared.params.is_empty() {
            return Err(ServerError::error("42P02", "there is no parameter $1"));
        }
        let statement = prepared.plan(&[])?;
        let plan = self.plan(shared, statement);
        // An EXECUTE that cannot be planned fails before its rows are described.
        let fails = matches!(plan, Plan::Utility(Statement::Invalid(_)));
        if let Some(columns) = prepared.columns.as_ref().filter(|_| !fails) {
            let binary = vec![false; columns.len()];
            self.row_description(columns, &binary);
        }
        // CreatePortal("", true, true): it replaces any unnamed portal, and stays as a failed one if the statement
        // fails in a transaction block.
        let portal = Portal::unusable(
            Some(Rc::new(prepared)),
            self.transaction.level_id(),
            PortalState::Dangling,
        );
        self.portals.insert(Vec::new(), portal);
        Ok(plan)
    }

    fn simple_complete(&mut self, shared: &mut Shared, run: &mut SimpleRun, tag: &str) -> Result<(), ServerError> {
        self.portals.remove(&b""[..]);
        let last = run.at + 1 == run.statements.len();
        if last {
            if run.statements.len() > 1 && self.transaction.block == Block::Implicit {
                self.transaction.block = Block::Started;
            }
            self.finish_command(shared)?;
        } else if run.statements[run.at].is_transaction() {
            self.finish_command(shared)?;
        }
        self.out.write(|w| w.command_complete(tag));
        run.at += 1;
        run.has_paused = false;
        Ok(())
    }
}
