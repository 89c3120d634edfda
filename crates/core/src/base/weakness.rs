//! Defects that were mended, to be brought back on purpose: the simulation must find each of them.
//!
//! A weakness can be switched on only where the crate is built with the feature `weaknesses`, which nothing but the
//! simulation asks for. Without it [`Pooler::is_weak`] is `false` at compile time.

use crate::pooler::Pooler;

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
    pub const ALL: [Weakness; 9] = [
        Weakness::SharesUnconfirmed,
        Weakness::TrustsAbandoned,
        Weakness::CancelsQuestions,
        Weakness::AsksUnderCancel,
        Weakness::ForgetsFailedProbe,
        Weakness::ClosesCancelEarly,
        Weakness::ForgetsDefaultRole,
        Weakness::TrustsUnanswered,
        Weakness::HurriesRestorations,
    ];
}

impl Pooler {
    /// Brings a defect back.
    #[cfg(feature = "weaknesses")]
    pub fn weaken(&mut self, weakness: Weakness) {
        self.shared.weakness = Some(weakness);
    }

    /// What a server does for the session of its client in the pooler's own name.
    #[cfg(feature = "weaknesses")]
    pub fn own_work(&self, id: crate::ServerId) -> Option<OwnWork> {
        let server = self.servers.get(id.0)?;
        let client = self.clients.get(server.link?.0)?;
        match (server.restoration.is_some(), server.probe.is_some()) {
            _ if !client.is_session() => None,
            (true, _) => Some(OwnWork::Restoration),
            (_, true) => Some(OwnWork::Probe),
            _ => None,
        }
    }

    /// Whether a client keeps its server for a reason that no question to the server could end.
    #[cfg(feature = "weaknesses")]
    pub fn is_pinned_for_good(&self, id: crate::ClientId) -> bool {
        self.clients.get(id.0).is_some_and(|c| c.pins.for_good())
    }

    #[inline(always)]
    pub(crate) fn is_weak(&self, weakness: Weakness) -> bool {
        self.shared.is_weak(weakness)
    }
}
