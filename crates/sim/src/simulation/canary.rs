//! Drivers that are broken on purpose.

use crate::transcript::split_messages;
use pgweir_core::Weakness;
use pgweir_wire::{HEADER_BYTES, Writer, backend};

/// The defects. Each occurs now and then, not always.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Canary {
    /// Bytes for one client go to another.
    Misroute,
    /// A server's ReadyForQuery says idle when it is not.
    FalseIdle,
    /// Bytes the core did not consume are forgotten.
    ForgetKept,
    /// Two parts for one connection change places.
    SwapParts,
    /// A cancel request goes to another server.
    MisdirectCancel,
    /// The core is told that a cancel request has ended before it has.
    EarlyCancelEnd,
    /// A Resume is ignored.
    ForgetResume,
    /// A server connection that the core closed is left open.
    LeaveOpen,
    /// A reply to a client is swallowed.
    SwallowPart,
    /// A restoration lacks one setting.
    ForgetSetting,
    /// A server's answer to a probe denies a reason for a pin.
    DropPin,
    /// The DISCARD ALL after a client has left does nothing.
    SkipCleanup,
    /// A server begins without the default settings of its role and database.
    ForgetDefaults,
    /// A standby says that it is the primary.
    HideStandby,
    /// A repaired defect of the core is brought back.
    Weak(Weakness),
}

impl Canary {
    /// Defects of the driver.
    pub const OF_DRIVER: [Canary; 14] = [
        Canary::Misroute,
        Canary::FalseIdle,
        Canary::ForgetKept,
        Canary::SwapParts,
        Canary::MisdirectCancel,
        Canary::EarlyCancelEnd,
        Canary::ForgetResume,
        Canary::LeaveOpen,
        Canary::SwallowPart,
        Canary::ForgetSetting,
        Canary::DropPin,
        Canary::SkipCleanup,
        Canary::ForgetDefaults,
        Canary::HideStandby,
    ];

    /// All of them.
    pub fn all() -> Vec<Canary> {
        let weak = Weakness::ALL.into_iter().map(Canary::Weak);
        Canary::OF_DRIVER.into_iter().chain(weak).collect()
    }

    /// Whether only clients that share servers by flights can show it.
    pub fn is_of_flights(self) -> bool {
        use Weakness::{ForgetsRiders, RefusesRiders, RunsBegunAgain, SharesAnything, TellsWhatOthersCancel};
        matches!(
            self,
            Canary::Weak(ForgetsRiders | RefusesRiders | RunsBegunAgain | SharesAnything | TellsWhatOthersCancel)
        )
    }

    /// Whether only replicas that lag can show it.
    pub fn is_of_replicas(self) -> bool {
        matches!(self, Canary::Weak(Weakness::TrustsReplicas))
    }

    /// Whether it takes clients that replace code under flights.
    pub fn is_of_replaced_code(self) -> bool {
        matches!(self, Canary::Weak(Weakness::PublishesAmongFlights))
    }

    /// Whether it takes clients with many encodings: then restorations often need two transactions.
    pub fn is_of_encodings(self) -> bool {
        matches!(self, Canary::Weak(Weakness::TrustsHalves))
    }

    /// Whether only processes that take over can show it.
    pub fn is_of_successors(self) -> bool {
        use Weakness::{ForgetsAttempts, KeepsOldServers};
        matches!(self, Canary::Weak(ForgetsAttempts | KeepsOldServers))
    }

    /// Whether a crowd can show it.
    pub fn is_of_queue(self) -> bool {
        use Weakness::{ForgetsToCharge, ServesNewestFirst};
        matches!(self, Canary::Weak(ForgetsToCharge | ServesNewestFirst))
    }

    /// Whether a flood can show it.
    pub fn is_of_floods(self) -> bool {
        use Weakness::{CountsReplies, LooksAtAllPools};
        matches!(self, Canary::Weak(CountsReplies | LooksAtAllPools))
    }

    /// Its name on the command line.
    pub fn name(self) -> String {
        match self {
            Canary::Weak(weakness) => format!("{weakness:?}"),
            of_driver => format!("{of_driver:?}"),
        }
    }

    /// A defect occurs at one in this many opportunities.
    pub fn one_in(self) -> u64 {
        match self {
            Canary::ForgetSetting => 1,
            Canary::DropPin | Canary::SkipCleanup => 4,
            Canary::MisdirectCancel | Canary::EarlyCancelEnd | Canary::LeaveOpen | Canary::ForgetDefaults => 2,
            Canary::HideStandby => 2,
            Canary::ForgetResume => 10,
            _ => 40,
        }
    }
}

/// The internal statement that sets settings, in the unnamed portal; the secret digits follow.
const SET_CONFIG: &[u8] = b"\0pgweir_1_";

/// Columns of the probe of pins, and of the schema for temporary objects.
const PINS: usize = 6;

/// The core's cleanup after a client has left.
const DISCARD_ALL: &[u8] = b"DISCARD ALL\0";

/// The internal statement that asks for the settings of a session, in the unnamed portal.
const QUESTION: &[u8] = b"\0pgweir_7_";

/// Bytes for a server without one of the restored settings: its Bind sets another one.
pub(super) fn without_a_setting(bytes: &[u8]) -> Option<Vec<u8>> {
    with_bind(bytes, SET_CONFIG, &[Some(b"app.forgotten"), Some(b"1")])
}

/// Bytes for a server that refuses a restored setting.
pub(super) fn with_bad_setting(bytes: &[u8]) -> Option<Vec<u8>> {
    with_bind(bytes, SET_CONFIG, &[Some(b"work_mem"), Some(b"much")])
}

/// Bytes for a server that does not answer a probe.
pub(super) fn with_bad_question(bytes: &[u8]) -> Option<Vec<u8>> {
    with_bind(bytes, QUESTION, &[])
}

/// The same bytes with other values in the first Bind of an internal statement.
fn with_bind(bytes: &[u8], of: &[u8], values: &[Option<&[u8]>]) -> Option<Vec<u8>> {
    let messages = split_messages(bytes);
    let at = messages
        .iter()
        .position(|m| m[0] == b'B' && m.get(HEADER_BYTES..).is_some_and(|body| body.starts_with(of)))?;
    let statement = messages[at][HEADER_BYTES + 1..].split(|&b| b == 0).next()?;
    let mut forged = Vec::new();
    for (index, &message) in messages.iter().enumerate() {
        if index == at {
            Writer::new(&mut forged).bind_text(statement, values);
        } else {
            forged.extend_from_slice(message);
        }
    }
    Some(forged)
}

/// Bytes for a server whose DISCARD ALL does nothing.
pub(super) fn without_cleanup(bytes: &[u8]) -> Option<Vec<u8>> {
    let is_cleanup = bytes.first() == Some(&b'Q') && bytes.get(HEADER_BYTES..) == Some(DISCARD_ALL);
    is_cleanup.then(|| {
        let mut forged = Vec::new();
        Writer::new(&mut forged).query(b"select 1");
        forged
    })
}

/// A server's answer to the probe of pins with all pins denied; `None` if it is no such answer, or contains no pin.
pub(super) fn without_pins(bytes: &[u8]) -> Option<Vec<u8>> {
    change_row(bytes, |row| {
        let all_bool = row.len() == PINS && row.iter().all(|v| matches!(v, Some(b"t" | b"f")));
        (all_bool && row.contains(&Some(b"t"))).then(|| Some(vec![Some(b"f".to_vec()); PINS]))
    })
}

/// The change to a row: `None` leaves it, `Some(None)` removes it.
type Change = Option<Option<Vec<Option<Vec<u8>>>>>;

fn change_row(bytes: &[u8], change: impl Fn(&[Option<&[u8]>]) -> Change) -> Option<Vec<u8>> {
    let mut forged = Vec::new();
    let mut changed = false;
    for message in split_messages(bytes) {
        let row = (message[0] == b'D')
            .then(|| backend::data_row(message.get(HEADER_BYTES..)?).ok())
            .flatten();
        match row.filter(|_| !changed).and_then(|row| change(&row)) {
            None => forged.extend_from_slice(message),
            Some(new) => {
                changed = true;
                if let Some(values) = new {
                    Writer::new(&mut forged).data_row(values.len(), values.iter().map(Option::as_deref));
                }
            }
        }
    }
    changed.then_some(forged)
}
