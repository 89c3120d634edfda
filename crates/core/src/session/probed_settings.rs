//! The settings of a client and its server after a probe. The server has told all settings that the session has set.

use crate::base::close_reason::CloseReason;
use crate::base::pin_reason::PinReason;
use crate::base::weakness::Weakness;
use crate::exchange::Exchange;
use crate::session::suspicion::NO_ROLE;
use crate::state::beyond_ascii::bytes_of;
use crate::state::difference::difference;
use crate::state::probe::Row;
use crate::state::shape::{Setting, Shape, order};
use crate::state::suspicion::{ROLE, Suspicion};
use std::sync::Arc;

/// Settings of the transaction, not of the session.
pub(super) const TRANSACTION_SETTINGS: [&str; 3] = [
    "transaction_deferrable",
    "transaction_isolation",
    "transaction_read_only",
];

/// The rows of a probe, and whether a role of `none` among them was set by the session.
struct Told<'a> {
    rows: &'a [Row],
    /// The names of the settings that the session has set, in their [`order`].
    made: Vec<&'a str>,
    tells_none: bool,
    /// Some settings are not among the rows: their names or values cannot be kept.
    is_incomplete: bool,
    /// Settings whose reported values are not known.
    unread: Vec<Box<str>>,
}

impl<'a> Told<'a> {
    fn new(rows: &'a [Row], tells_none: bool, is_incomplete: bool, unread: Vec<Box<str>>) -> Self {
        let mut told = Told {
            rows,
            made: Vec::new(),
            tells_none,
            is_incomplete,
            unread,
        };
        told.made = told.made().map(|(name, _)| name).collect();
        told.made.sort_unstable_by(|one, other| order(one, other));
        told
    }

    /// The settings that the session has set, and their values.
    fn made(&self) -> impl Iterator<Item = (&'a str, &'a str)> {
        let rows = self
            .rows
            .iter()
            .filter_map(|(name, value)| Some((&**name, value.as_deref()?)));
        let tells_none = self.tells_none;
        rows.filter(move |row| tells_none || *row != (ROLE, NO_ROLE))
    }

    /// Whether the rows, and not ParameterStatus, tell the value of this setting.
    fn has_read(&self, setting: &Setting) -> bool {
        !setting.is_reported() || self.unread.iter().any(|name| **name == *setting.name())
    }

    fn is_made(&self, name: &str) -> bool {
        self.made.binary_search_by(|made| order(made, name)).is_ok()
    }
}

impl Exchange<'_> {
    /// Takes over the settings that the session has set, from the server's answer. If it is incomplete, the client
    /// keeps its server.
    pub(super) fn settings_found(&mut self, rows: &[Row], about: &Suspicion, is_incomplete: bool) {
        let before = about.before().unwrap_or(self.client.session.shape()).clone();
        let tells_none = self.tells_no_role(&before, about);
        let told = Told::new(rows, tells_none, is_incomplete, self.server.session.take_unread());
        if told.unread.iter().any(|name| !told.is_made(name)) {
            // The session has returned to a value that only PostgreSQL knows.
            self.pin_by(PinReason::UnreadableSetting, about.statement());
            self.server.close_reason.get_or_insert(CloseReason::StateUnknown);
        }
        let server_shape = self.shape_of_server(&told);
        let client_shape = self.shape_of_client(&before, &server_shape, &told);
        self.tell_returned(&server_shape, &client_shape);
        self.server.session.has_settings(server_shape);
        self.client.session.has_settings(client_shape);
    }

    /// Whether a role of `none` is a setting. It is the same as no setting, unless the server has logged in with a
    /// role, or the client has given up the role of its startup packet. If a RESET ROLE was rolled back, the client had
    /// that role for a while and does not have it any more.
    fn tells_no_role(&self, before: &Shape, about: &Suspicion) -> bool {
        let is_none = |shape: &Shape| shape.get(ROLE).is_some_and(|s| s.value() == NO_ROLE);
        let had_none = is_none(before) || is_none(self.client.session.shape());
        let gave_up_role = self.client.session.base().get(ROLE).is_some() && (about.sets_role() || had_none);
        let starts_with_role = self.server.session.base().get(ROLE).is_some();
        (starts_with_role || gave_up_role) && !self.shared.is_weak(Weakness::ForgetsDefaultRole)
    }

    /// Settings that ParameterStatus reports keep the reported spelling; the view would spell them differently. Those
    /// that it has reported in another encoding get the value of the view.
    fn shape_of_server(&mut self, told: &Told<'_>) -> Arc<Shape> {
        let now = self.server.session.shape().clone();
        let unreported = now.settings().iter().filter(|s| !s.is_reported());
        let gone = unreported.filter(|s| !told.is_made(s.name()) && pgweir_sql::is_askable(s.name()));
        let mut changes: Vec<(&str, Option<&str>, bool)> = gone.map(|s| (s.name(), None, false)).collect();
        let differs = |(name, value): &(&str, &str)| {
            !TRANSACTION_SETTINGS.contains(name)
                && now.get(name).is_none_or(|s| told.has_read(s) && *s.value() != **value)
        };
        let different = told.made().filter(differs);
        changes.extend(different.map(|(name, value)| (name, Some(value), false)));
        if changes.is_empty() {
            now
        } else {
            self.shared.shapes.change(&now, changes)
        }
    }

    /// A setting of the client's startup packet that the session no longer sets was reset: the server went back to the
    /// server's startup value, and the client must go back to the value of its packet. A value that the server had from
    /// the beginning was not set by the session. Nothing is known of a setting that an incomplete answer does not tell.
    fn shape_of_client(&mut self, before: &Shape, server_shape: &Arc<Shape>, told: &Told<'_>) -> Arc<Shape> {
        if told.is_incomplete {
            return server_shape.clone();
        }
        let server_base = self.server.session.base();
        let value_in = |shape: &Shape, name: &str| shape.value(name).cloned();
        let was_made = |name: &str| {
            let value = value_in(before, name);
            // Values of connect_query are the server's startup values; another client's RESET may have removed them
            // earlier.
            value != value_in(server_base, name) && value != value_in(server_shape, name)
        };
        let at_startup = difference(server_base, self.client.session.base());
        let returned: Vec<(&str, Option<&str>, bool)> = at_startup
            .iter()
            .filter(|(name, value)| value.is_some() && !told.is_made(name) && was_made(name))
            .filter(|(name, _)| pgweir_sql::is_askable(name))
            .map(|(name, value)| (&**name, value.as_deref(), false))
            .collect();
        if returned.is_empty() {
            server_shape.clone()
        } else {
            self.shared.shapes.change(server_shape, returned)
        }
    }

    /// Tells the client the values that its session has returned to, where the server's values differ.
    fn tell_returned(&mut self, server_shape: &Shape, client_shape: &Shape) {
        let reported = client_shape.settings().iter().filter(|s| s.is_reported());
        for setting in reported.filter(|s| server_shape.get(s.name()).is_none_or(|r| r.value() != s.value())) {
            self.tell(|w| w.parameter_status(setting.name().as_bytes(), &bytes_of(setting.value())));
        }
    }
}
