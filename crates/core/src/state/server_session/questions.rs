//! What a server has been asked about its session and has not answered: restored settings, probes, moves of channels.

use super::ServerSession;
use crate::state::probe::Probe;
use crate::state::restoration::{Restoration, Segments};
use crate::state::shape::Shape;
use pgweir_wire::ErrorFields;
use std::sync::Arc;

impl ServerSession {
    /// Restored settings were sent. If the server confirms them, its settings are `target`.
    pub(crate) fn restoration_begins(&mut self, target: Arc<Shape>, segments: Segments) {
        self.restoration = Some(Box::new(Restoration::new(target, segments)));
    }

    /// The first of two segments of restored settings has been answered; `false`: there was only one, or it is the
    /// second.
    pub(crate) fn is_half_restored(&mut self) -> bool {
        self.restoration.as_mut().is_some_and(|r| r.takes_first_answer())
    }

    /// The segment of restored settings that the server has not answered completely.
    #[inline]
    pub(crate) fn restoration(&self) -> Option<&Restoration> {
        self.restoration.as_deref()
    }

    /// The server has refused a message in the segment of restored settings: none of them is set.
    pub(crate) fn restoration_refused(&mut self, error: &ErrorFields<'_>) {
        if let Some(restoration) = &mut self.restoration {
            restoration.refuse(error);
        }
    }

    /// The server has answered the segment of restored settings.
    pub(crate) fn restoration_ends(&mut self) -> Option<Restoration> {
        self.restoration.take().map(|restoration| *restoration)
    }

    /// A probe was sent.
    pub(crate) fn probe_begins(&mut self, probe: Probe) {
        self.probe = Some(Box::new(probe));
    }

    /// The probe that the server has not answered completely.
    #[inline]
    pub(crate) fn probe(&self) -> Option<&Probe> {
        self.probe.as_deref()
    }

    /// The probe that the server has not answered completely, for a further part of the answer.
    pub(crate) fn probe_mut(&mut self) -> Option<&mut Probe> {
        self.probe.as_deref_mut()
    }

    /// The server has answered the probe.
    pub(crate) fn probe_ends(&mut self) -> Option<Probe> {
        self.probe.take().map(|probe| *probe)
    }

    /// The server has refused a step of moving channels.
    pub(crate) fn move_fails(&mut self) {
        self.move_failed = true;
    }

    /// The ReadyForQuery behind a step of moving channels has come. Returns whether the step has failed.
    pub(crate) fn move_ends(&mut self) -> bool {
        std::mem::take(&mut self.move_failed)
    }
}
