//! Defects that are brought back on purpose, and what the simulation must know in order to
//! disturb the pooler.

#[cfg(feature = "weaknesses")]
use crate::base::ids::{ClientId, ServerId};
#[cfg(feature = "weaknesses")]
use crate::base::weakness::InternalWork;
use crate::base::weakness::Weakness;
use crate::pooler::Pooler;

impl Pooler {
    /// Brings a defect back.
    #[cfg(feature = "weaknesses")]
    pub fn weaken(&mut self, weakness: Weakness) {
        self.shared.weakness = Some(weakness);
        if weakness == Weakness::SharesAcrossRoles {
            self.shared.shapes.share_across_roles();
        }
    }

    /// The internal work that a server does for the session of its client.
    #[cfg(feature = "weaknesses")]
    pub fn internal_work(&self, id: ServerId) -> Option<InternalWork> {
        let server = self.servers.get(id.0)?;
        let client = self.clients.get(server.link?.0)?;
        match (server.session.restoration().is_some(), server.session.probe().is_some()) {
            _ if !client.is_session() => None,
            (true, _) => Some(InternalWork::Restoration),
            (_, true) => Some(InternalWork::Probe),
            _ => None,
        }
    }

    /// Whether a server works on flights.
    #[cfg(feature = "weaknesses")]
    pub fn flies(&self, id: ServerId) -> bool {
        self.servers.get(id.0).is_some_and(|server| server.flies())
    }

    /// How many flights were sent to a server behind those of other clients.
    #[cfg(feature = "weaknesses")]
    pub fn flights_shared(&self) -> u64 {
        self.shared.state_stats.flights_shared
    }

    /// Whether a client is pinned by a reason that no probe can end.
    #[cfg(feature = "weaknesses")]
    pub fn is_pinned_for_good(&self, id: ClientId) -> bool {
        self.clients.get(id.0).is_some_and(|c| c.session.pins().for_good())
    }

    /// Whether the driver is not told how many bytes are needed.
    #[inline(always)]
    pub(crate) fn hides_needs(&self) -> bool {
        self.is_weak(Weakness::LooksAtEachPiece)
    }

    #[inline(always)]
    pub(crate) fn is_weak(&self, weakness: Weakness) -> bool {
        self.shared.is_weak(weakness)
    }
}
