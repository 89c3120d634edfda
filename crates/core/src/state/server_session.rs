//! What is known of the session on a server.

mod definitions;
mod notable;
mod questions;
mod traces;

use crate::base::ids::ClientId;
use crate::base::pin_reason::Cleanup;
use crate::state::beyond_ascii::text_of;
use crate::state::probe::Probe;
use crate::state::restoration::Restoration;
use crate::state::sequences::Remembered;
use crate::state::server_session::notable::Notable;
use crate::state::shape::Shape;
use crate::state::shape_table::ShapeTable;
use crate::statements::parse_settings::CLIENT_ENCODING;
use foldhash::fast::RandomState;
use pgweir_sql::Effects;
use std::collections::HashSet;
use std::sync::Arc;

/// Effects that may set a setting, at least for the transaction.
const MAY_SET_LOCALLY: Effects = Effects::SETTINGS
    .union(Effects::LOCAL)
    .union(Effects::CODE)
    .union(Effects::READING);

/// Effects for which the server's session notes something before the text runs.
const NOTED: Effects = Effects::LOCAL.union(LEAVES_PLANS);

/// Effects after which plans of functions may be right for this client only: see [`crate::session::function_plans`].
const LEAVES_PLANS: Effects = Effects::READING.union(Effects::FOLDS);

/// What a ParameterStatus means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Report {
    /// The setting is known now.
    Noted,
    /// The server has read its configuration again: no restoration is under way. Plans that were made before may not
    /// suit the client's settings.
    Configured,
    /// The server has reported more than the pooler keeps of a server's settings.
    TooMuch,
}

/// Settings that the present transaction may have set, and that no ReadyForQuery reports before the transaction ends:
/// by SET LOCAL, by code, or a setting that is never reported.
#[derive(Debug, pgweir_freeze::Freeze)]
enum LocalSettings {
    /// There are none.
    No,
    /// There may be some. Statements parsed meanwhile are not shared.
    InDoubt,
    /// There may be some, and at least one by SET LOCAL. The shape is that of the server before the first SET LOCAL.
    BehindSetLocal(Arc<Shape>),
}

/// A server's session: its settings as the server reports them, and what clients may have left there.
#[derive(Debug, pgweir_freeze::Freeze)]
pub(crate) struct ServerSession {
    /// The server's settings, as the server reports them.
    shape: Arc<Shape>,
    /// The server's settings after its login, to which RESET returns.
    base: Arc<Shape>,
    /// Something that may change settings was sent, and the ReadyForQuery that reports them has not come.
    settings_in_doubt: bool,
    /// Settings with values beyond ASCII among those that the server has reported since its last ReadyForQuery.
    reported_beyond_ascii: Vec<Box<str>>,
    /// Settings that the server has reported in another encoding than the database's: the next probe tells the values.
    unread: Vec<Box<str>>,
    local: LocalSettings,
    /// The segment of restored settings at the front of the queue. ParameterStatus in its reply is not for the client.
    restoration: Option<Box<Restoration>>,
    /// A probe that has not been answered.
    probe: Option<Box<Probe>>,
    /// A step of moving channels has failed (see `listening/handover`); its ReadyForQuery follows.
    move_failed: bool,
    /// A request that was sent to the server may change what code the database runs. The transaction has not ended.
    defines: bool,
    /// A request that was sent to the server may create, rename or move objects that statements name. Its transaction
    /// has not ended.
    moves_names: bool,
    /// An unanswered request may have committed definitions.
    publishes: bool,
    /// While the transaction has definitions: the portal that was bound last, if its statement defines nothing and ends
    /// no block.
    harmless_portal: Option<Box<[u8]>>,
    outdating: Option<definitions::Outdating>,
    /// The cleanup that the server needs before another client gets it.
    cleanup: Cleanup,
    /// The client that had the server last.
    last_client: Option<ClientId>,
    /// That client's number of visits at that time. If the number has grown since, the client has been on other
    /// servers, and what it has left here is old.
    last_visit: u32,
    /// The present client had another server before this one.
    visited_anew: bool,
    remembered: Remembered,
    /// The server is reserved for its last client because of that client's values of sequences: see
    /// [`crate::session::sequences`].
    claimed: bool,
    /// Custom settings that sessions have set or tried to set on the server. Since then each has an empty value there,
    /// and asking for it is no error.
    custom_names: HashSet<Box<str>, RandomState>,
    /// What must be minded before the server gets another client.
    notable: Notable,
    /// The plans of functions were discarded, and no client has run anything since.
    plans_are_new: bool,
    /// In session pooling: the client has left state that only the end of the connection undoes.
    leaves_traces: bool,
}

impl ServerSession {
    /// `shape` is the shape of a server of which nothing is known.
    pub(crate) fn new(shape: Arc<Shape>) -> Self {
        ServerSession {
            base: shape.clone(),
            shape,
            settings_in_doubt: false,
            reported_beyond_ascii: Vec::new(),
            unread: Vec::new(),
            local: LocalSettings::No,
            restoration: None,
            probe: None,
            move_failed: false,
            defines: false,
            moves_names: false,
            publishes: false,
            harmless_portal: None,
            outdating: None,
            cleanup: Cleanup::Nothing,
            last_client: None,
            last_visit: 0,
            visited_anew: false,
            remembered: Remembered::OfClient,
            claimed: false,
            custom_names: HashSet::default(),
            notable: Notable::default(),
            plans_are_new: false,
            leaves_traces: false,
        }
    }

    /// The server's settings, as the server reports them.
    #[inline]
    pub(crate) fn shape(&self) -> &Arc<Shape> {
        &self.shape
    }

    /// The server's settings after its login, to which RESET returns.
    #[inline]
    pub(crate) fn base(&self) -> &Arc<Shape> {
        &self.base
    }

    /// The server's settings before the first SET LOCAL of the present transaction.
    #[inline]
    pub(crate) fn before_local(&self) -> Option<&Arc<Shape>> {
        match &self.local {
            LocalSettings::BehindSetLocal(before) => Some(before),
            LocalSettings::No | LocalSettings::InDoubt => None,
        }
    }

    /// The login, or the examination that follows it, has ended: RESET returns to the settings that the server has now.
    pub(crate) fn starts_here(&mut self) {
        self.base = self.shape.clone();
        self.reported_beyond_ascii.clear();
    }

    /// The server is known to have these settings.
    pub(crate) fn has_settings(&mut self, shape: Arc<Shape>) {
        self.shape = shape;
    }

    /// ParameterStatus has come.
    pub(crate) fn reports(&mut self, name: &str, value: &str, shapes: &mut ShapeTable) -> Report {
        let known = |shape: &Shape| shape.get(name).is_some_and(|s| s.reported && *s.value == *value);
        let mut is_configured = false;
        if !known(&self.shape) {
            if self.shape.reports_too_much(name, value) {
                return Report::TooMuch;
            }
            let before = self.shape.clone();
            self.shape = shapes.change(&before, [(name, Some(value), true)]);
            is_configured = !self.shape.plans_alike(&before) && self.restoration.is_none();
        }
        if let Some(restoration) = self.restoration.as_mut().filter(|r| !known(r.target())) {
            restoration.aims_at(shapes.change(restoration.target(), [(name, Some(value), true)]));
        }
        if is_configured {
            Report::Configured
        } else {
            Report::Noted
        }
    }

    /// ReadyForQuery has come: all changes of settings before it have been reported.
    #[inline]
    pub(crate) fn settings_are_told(&mut self) {
        self.settings_in_doubt = false;
        if !self.reported_beyond_ascii.is_empty() {
            self.forget_reported();
        }
    }

    #[cold]
    fn forget_reported(&mut self) {
        self.reported_beyond_ascii.clear();
    }

    /// ParameterStatus has come. Returns whether its value, or one that was reported with it, is beyond ASCII and may
    /// have other bytes in the database: see [`crate::state::beyond_ascii`]. The server reports the changes of a
    /// segment in any order, and in the client_encoding that the session has afterwards.
    pub(crate) fn may_be_converted(&mut self, name: &str, value: &[u8]) -> bool {
        if !value.is_ascii() {
            let list = match self.shape.converts() || text_of(value).is_none() {
                true => &mut self.unread,
                false => &mut self.reported_beyond_ascii,
            };
            if !list.iter().any(|known| **known == *name) {
                list.push(name.into());
            }
            return self.is_unread(name);
        }
        if name != CLIENT_ENCODING {
            // A value that everybody can read.
            self.unread.retain(|unread| **unread != *name);
            return false;
        }
        let changes = self.shape.value(name).is_some_and(|known| known.as_bytes() != value);
        if changes {
            self.unread.append(&mut self.reported_beyond_ascii);
        }
        changes && !self.unread.is_empty()
    }

    /// Whether the server has reported this setting in another encoding than the database's.
    pub(crate) fn is_unread(&self, name: &str) -> bool {
        self.unread.iter().any(|unread| **unread == *name)
    }

    /// A probe has told what was reported in another encoding.
    pub(crate) fn take_unread(&mut self) -> Vec<Box<str>> {
        std::mem::take(&mut self.unread)
    }

    /// Something that may change settings was sent, and the ReadyForQuery that reports them has not come.
    #[inline]
    pub(crate) fn settings_in_doubt(&self) -> bool {
        self.settings_in_doubt
    }

    /// The present transaction may have set a setting that no ReadyForQuery reports before the transaction ends.
    #[inline]
    pub(crate) fn local_in_doubt(&self) -> bool {
        !matches!(self.local, LocalSettings::No)
    }

    /// Whether the settings under which a Parse would run now are not known.
    #[inline]
    pub(crate) fn parses_in_doubt(&self) -> bool {
        self.settings_in_doubt || self.local_in_doubt()
    }

    /// Whether a reply that is due reports settings.
    pub(crate) fn awaits_settings(&self) -> bool {
        self.settings_in_doubt || self.probe.as_ref().is_some_and(|p| p.asks_settings())
    }

    /// A text with these effects is about to run.
    #[inline]
    pub(crate) fn may_set(&mut self, effects: Effects) {
        self.settings_in_doubt |= effects.intersects(Effects::SETTINGS);
        if effects.intersects(MAY_SET_LOCALLY) && !self.local_in_doubt() {
            self.local = LocalSettings::InDoubt;
        }
        if effects.intersects(NOTED) {
            self.notes(effects);
        }
    }

    #[cold]
    fn notes(&mut self, effects: Effects) {
        if effects.intersects(Effects::LOCAL) && self.before_local().is_none() {
            self.local = LocalSettings::BehindSetLocal(self.shape.clone());
        }
        if effects.intersects(LEAVES_PLANS) {
            self.keeps_foreign_plans();
        }
    }

    /// The transaction has ended, and with it the settings of SET LOCAL. Returns whether there may have been some.
    #[inline]
    pub(crate) fn transaction_ends(&mut self) -> bool {
        let had = self.local_in_doubt();
        if had {
            self.local_settings_end();
        }
        had
    }

    #[cold]
    fn local_settings_end(&mut self) {
        self.local = LocalSettings::No;
    }
}
