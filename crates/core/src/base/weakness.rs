//! Defects that were mended, to be brought back on purpose: the simulation must find each of them.
//!
//! A weakness can be switched on only where the crate is built with the feature `weaknesses`, which nothing but the
//! simulation asks for. Without it `is_weak()` is `false` at compile time.

/// What the pooler does wrong when it is told to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Weakness {
    /// A client's statement is sent behind its restored settings, before the server has confirmed them.
    SharesUnconfirmed,
    /// Settings count as made although the server refused them behind a client that has left.
    TrustsAbandoned,
    /// A cancel is passed on whatever the server works on, the pooler's questions included.
    CancelsQuestions,
    /// The pooler asks while a cancel is on its way.
    AsksUnderCancel,
    /// The connection of a CancelRequest is closed before the server has been told, and its client may send on.
    ClosesCancelEarly,
    /// A question that failed is not asked again, and the client goes on without what it has made.
    ForgetsFailedProbe,
    /// RESET ROLE is believed to take no role, as if no server began with one.
    ForgetsDefaultRole,
    /// A client that leaves before a question about its session is answered leaves its server as it is.
    TrustsUnanswered,
    /// Settings are made under the time limits of the session.
    HurriesRestorations,
    /// A client is told that its transaction was cancelled, where another's cancel has hit it on the server that they share.
    TellsWhatOthersCancel,
    /// Whatever a Query does, it is sent to a server that works for others.
    SharesAnything,
    /// Who shares a server that is lost is forgotten.
    ForgetsRiders,
}

/// What the pooler does with a server in its own name, for the simulation to disturb.
#[cfg(feature = "weaknesses")]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OwnWork {
    /// A client's settings are being made.
    Restoration,
    /// The session is being asked for its state.
    Probe,
}

impl Weakness {
    /// All that the simulation must find.
    pub const ALL: [Weakness; 12] = [
        Weakness::SharesUnconfirmed,
        Weakness::TrustsAbandoned,
        Weakness::CancelsQuestions,
        Weakness::AsksUnderCancel,
        Weakness::ForgetsFailedProbe,
        Weakness::ClosesCancelEarly,
        Weakness::ForgetsDefaultRole,
        Weakness::TrustsUnanswered,
        Weakness::HurriesRestorations,
        Weakness::TellsWhatOthersCancel,
        Weakness::SharesAnything,
        Weakness::ForgetsRiders,
    ];
}
