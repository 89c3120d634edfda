//! Catalogs that other sessions have locked: internal statements wait for them.
//!
//! The model does not know which catalog a statement reads. Any internal statement may have to wait before its Execute:
//! for a while, or until a time limit of the session ends it. Another session of the same role may cancel the pooler's
//! first question.

use super::error::ServerError;
use super::execute::Plan;
use super::expression::Expression;
use super::function::Function;
use super::session::Session;
use super::settings::Settings;
use super::value::Value;
use super::views;
use crate::random::Random;
use pgweir_wire::frontend::FrontendTag;
use pgweir_wire::{HEADER_BYTES, Reader};

/// How many of the pooler's first questions in a hundred are cancelled.
const FIRST_QUESTIONS_CANCELLED_PERCENT: u64 = 4;

/// Which statements must wait, and how long.
#[derive(Debug)]
pub struct CatalogLocks {
    /// The source of random numbers.
    pub random: Random,
    /// How many statements in a hundred wait.
    pub percent: u64,
    /// The longest wait, microseconds.
    pub us_max: u64,
    /// No wait begins after this time, microseconds.
    pub until_us: u64,
}

/// A wait, and the error that ends it if it is longer than the session allows.
#[derive(Debug)]
pub(super) struct Wait {
    pub(super) us: u64,
    pub(super) ends_with: Option<ServerError>,
}

/// Time limits that end a wait: setting, SQLSTATE, message.
const LIMITS: [(&str, &str, &str); 2] = [
    ("lock_timeout", "55P03", "canceling statement due to lock timeout"),
    (
        "statement_timeout",
        "57014",
        "canceling statement due to statement timeout",
    ),
];

impl CatalogLocks {
    /// Whether another session cancels the pooler's first question. The waits stay the same.
    fn cancels(&self, now_us: u64) -> bool {
        now_us < self.until_us && self.random.clone().percent(FIRST_QUESTIONS_CANCELLED_PERCENT)
    }

    fn wait(&mut self, now_us: u64, settings: &Settings) -> Option<Wait> {
        if now_us >= self.until_us || !self.random.percent(self.percent) {
            return None;
        }
        let us = self.random.between(1, self.us_max);
        let limit = |(name, sqlstate, message): &(&str, &'static str, &'static str)| {
            let limit_us = settings.milliseconds(name)?.checked_mul(1000)?;
            (0 < limit_us && limit_us < us).then(|| (limit_us, ServerError::error(sqlstate, *message)))
        };
        let first = LIMITS.iter().filter_map(limit).min_by_key(|(limit_us, _)| *limit_us);
        Some(match first {
            Some((us, error)) => Wait {
                us,
                ends_with: Some(error),
            },
            None => Wait { us, ends_with: None },
        })
    }
}

/// A limit on a whole transaction; no wait is that long.
const TRANSACTION_LIMIT: &str = "transaction_timeout";

/// Whether a plan sets one of the time limits, which reads no catalog.
fn makes_limit(plan: &Plan) -> bool {
    let Plan::Cursor(cursor) = plan else { return false };
    cursor.expressions().any(|e| match e {
        Expression::Call(Function::SetConfig, arguments) => match arguments.first() {
            Some(Expression::Value(Value::Text(name))) => {
                name == TRANSACTION_LIMIT || LIMITS.iter().any(|(limit, ..)| limit == name)
            }
            _ => false,
        },
        _ => false,
    })
}

impl Session {
    /// How long an internal message waits for a lock, if it has to.
    pub(super) fn wait_for_lock(&mut self, tag: FrontendTag, message: &[u8], now_us: u64) -> Option<Wait> {
        let locks = self.catalog_locks.as_mut()?;
        let mut body = Reader::new(message.get(HEADER_BYTES..)?);
        let name = body.cstr().ok()?;
        let reads = match tag {
            FrontendTag::Execute => self
                .portals
                .get(name)
                .is_some_and(|portal| portal.prepared.is_of_pooler && !makes_limit(&portal.plan)),
            FrontendTag::Query => views::is_of_pooler(name),
            _ => false,
        };
        let is_first = tag == FrontendTag::Query && name == views::WHOSE_SESSION.as_bytes();
        if is_first && locks.cancels(now_us) {
            return Some(Wait {
                us: 1,
                ends_with: Some(ServerError::error("57014", "canceling statement due to user request")),
            });
        }
        let mut wait = reads.then(|| locks.wait(now_us, &self.settings)).flatten()?;
        // Values that are set again behind a RESET use an internal portal. A limit may end that (docs/differences.md).
        if tag == FrontendTag::Execute && !name.is_empty() {
            wait.ends_with = None;
        }
        Some(wait)
    }
}
