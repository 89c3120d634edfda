//! What the client's transactions may have done to its session since the last probe.

use super::ClientSession;
use crate::state::shape::Shape;
use crate::state::suspicion::{RefusalProof, Suspicion};
use pgweir_sql::Effects;
use pgweir_wire::ErrorFields;
use std::sync::Arc;

impl ClientSession {
    /// What the transactions may have done.
    #[inline]
    pub(crate) fn suspicion(&self) -> Option<&Suspicion> {
        self.suspicion.as_deref()
    }

    /// The number of suspected texts with effects that no probe can see.
    #[inline]
    pub(crate) fn suspected_texts(&self) -> u32 {
        self.suspicion.as_ref().map_or(0, |suspicion| suspicion.texts())
    }

    /// A text is about to be sent. `hidden` are settings that it may set and `pg_settings` does not show; `proof` tells
    /// what errors about it prove, if it may have effects that no probe can see; `before_local` are the server's settings before a SET LOCAL of the transaction.
    /// Returns whether the session may have more hidden settings than are kept.
    pub(crate) fn suspects(
        &mut self,
        effects: Effects,
        text: &[u8],
        hidden: Vec<Box<str>>,
        proof: Option<RefusalProof>,
        before_local: Option<&Arc<Shape>>,
    ) -> bool {
        let shape = &self.shape;
        let suspicion = self
            .suspicion
            .get_or_insert_with(|| Box::new(Suspicion::of(text, before_local.unwrap_or(shape).clone())));
        if effects.intersects(Effects::SETTINGS) {
            suspicion.add_limits_of(text);
        }
        suspicion.add(effects, hidden, proof)
    }

    /// The server has refused a text without running any of it; `refused` texts with `unseen` effects, which no probe can
    /// see, fail with it. If no other text has such effects, they have not happened. Otherwise it is not known which text
    /// has which effect.
    pub(crate) fn text_is_refused(&mut self, refused: u32, by: &ErrorFields<'_>, unseen: Effects) {
        if let Some(suspicion) = &mut self.suspicion {
            suspicion.text_is_refused(refused, by, unseen);
        }
    }

    /// Adds what a failed probe was about to what later texts may have done.
    pub(crate) fn suspects_again(&mut self, mut about: Suspicion) {
        if let Some(newer) = self.suspicion.take() {
            about.absorb(*newer);
        }
        self.suspicion = Some(Box::new(about));
    }

    /// A probe asks what became of the suspected texts. `always`: even if it would wait for a new text.
    pub(crate) fn take_suspicion(&mut self, always: bool) -> Option<Suspicion> {
        let suspicion = self.suspicion.take_if(|s| always || !s.waits_for_text());
        suspicion.map(|suspicion| *suspicion)
    }

    /// A cancel request would hit the probe. The suspicion is kept for later.
    pub(crate) fn keeps_suspicion(&mut self, about: Suspicion) {
        self.suspicion = Some(Box::new(about));
    }

    /// With probes after every transaction: the client has used its server.
    pub(crate) fn uses_server(&mut self) {
        self.used_server = true;
    }

    /// A probe is due. Returns whether the client has used its server since the last one.
    pub(crate) fn take_used_server(&mut self) -> bool {
        std::mem::take(&mut self.used_server)
    }
}
