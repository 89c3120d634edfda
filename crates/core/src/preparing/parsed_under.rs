//! The settings under which a client's statement is prepared again: those of its first Parse, where its constants would be
//! read otherwise now.

use crate::server_side::ServerSide;
use crate::state::beyond_ascii::bytes_of;
use crate::state::difference::Change;
use crate::statements::parse_settings::{CLIENT_ENCODING, SEARCH_PATH, is_client_encoding};
use crate::statements::prepared::{INTERNAL_ID_MAX, Kind, Statement};
use std::sync::Arc;

impl ServerSide<'_> {
    /// The settings whose present values differ, or may differ, from those under which the statement was first parsed,
    /// with the earlier values: its constants must be read as they were then (recording E12). Usually there are none.
    pub(super) fn settings_to_parse_under(&mut self, statement: &Statement) -> Vec<Change> {
        let server = &mut *self.server;
        // A statement without constants means the same under any settings. A failed transaction refuses SET.
        let reads_otherwise = server.session.local_in_doubt() || server.held.may_read_otherwise();
        let in_doubt = server.session.settings_in_doubt() || reads_otherwise && statement.has_constants;
        if server.conversation.is_surely_failed() {
            return Vec::new();
        }
        if statement.id <= INTERNAL_ID_MAX
            || !in_doubt && *server.session.shape().parse_settings() == statement.settings
        {
            return Vec::new();
        }
        // The server's present settings are more likely to be those of the Parse than the ones before the SET.
        if statement.settings.are_uncertain() {
            return Vec::new();
        }
        // DISCARD ALL must be the first statement of its pipeline (25001), and SET TRANSACTION the first of its
        // transaction, so no internal statement may precede them, unless their text could be read otherwise.
        if pgweir_sql::must_come_first(&statement.query) && pgweir_sql::is_unescaped_ascii(&statement.query) {
            return Vec::new();
        }
        // Whenever PostgreSQL uses a plan, it looks up names again if search_path has changed. But the names need not
        // be found under the path that the client had: it may have chosen another one in the transaction of its Parse.
        // What other clients share must be prepared for their path. A PREPARE finds the types of its parameters anew.
        let keeps_path = statement.is_private && statement.kind != Kind::Sql;
        let stays = |name: &str| keeps_path && name.eq_ignore_ascii_case(SEARCH_PATH);
        let now = server.session.shape();
        let then = statement.settings.pairs().filter(|(name, _)| !stays(name));
        let differ = then.filter(|(name, then)| {
            let now = now.get(name).map(|setting| setting.value());
            in_doubt || now.is_none_or(|now| *now != **then)
        });
        let differ = differ.map(|(name, then)| (name.clone(), Some(then.clone())));
        // Settings that had no value at the Parse, and that the client has set since.
        let had_no_value = |(name, _): &&(Arc<str>, Arc<str>)| {
            let mut then = statement.settings.pairs();
            !then.any(|(then, _)| then.eq_ignore_ascii_case(name))
        };
        let set_since = now
            .parse_settings()
            .pairs()
            .filter(|(name, _)| !stays(name))
            .filter(had_no_value);
        differ.chain(set_since.map(|(name, _)| (name.clone(), None))).collect()
    }

    /// Whether a text would be read otherwise than when its client prepared it. A failed transaction refuses SET.
    #[cold]
    pub(crate) fn would_be_read_otherwise(&self, statement: &Statement) -> bool {
        let now = self.server.session.shape().parse_settings();
        !pgweir_sql::is_unescaped_ascii(&statement.query)
            && !statement.settings.are_uncertain()
            && !statement.settings.reads_alike(now)
    }

    /// Sets settings for an internal request, in the same segment. The server keeps their present values, because an
    /// earlier message of this segment may have changed them, and only the server knows. The settings end with the
    /// transaction at the latest, so those of the client's session stay unchanged.
    pub(crate) fn set_and_keep(&mut self, settings: &[Change]) {
        let encodings = self.encodings_around(settings);
        if let Some([database, _]) = &encodings {
            self.keep_and_set(CLIENT_ENCODING, Some(database));
        }
        for (name, value) in settings {
            if encodings.is_none() || !is_client_encoding(name) {
                self.keep_and_set(name, value.as_deref());
            }
        }
        if let Some([_, client]) = &encodings {
            self.set_encoding(client);
        }
    }

    /// Keeps a setting's value, and sets it.
    fn keep_and_set(&mut self, name: &str, value: Option<&str>) {
        let statement = self.shared.internal.set_for_parse.clone();
        let kept = self.kept_name(name);
        let value = value.map(bytes_of);
        let values = [Some(name.as_bytes()), value.as_deref(), Some(kept.as_bytes())];
        self.run_in_internal_portal(&statement, &values);
    }

    /// Gives settings the values that [`ServerSide::set_and_keep`] has kept.
    pub(crate) fn set_back(&mut self, settings: &[Change]) {
        let encodings = self.encodings_around(settings);
        if let Some([database, _]) = &encodings {
            self.set_encoding(database);
        }
        let names = settings.iter().map(|(name, _)| &**name);
        let names = names.filter(|name| encodings.is_none() || !is_client_encoding(name));
        for name in names.chain(encodings.is_some().then_some(CLIENT_ENCODING)) {
            let statement = self.shared.internal.set_back.clone();
            let kept = self.kept_name(name);
            self.run_in_internal_portal(&statement, &[Some(name.as_bytes()), Some(kept.as_bytes())]);
        }
    }

    /// The encoding in which these settings must be set and set back, and the one in which the statement is parsed, if
    /// they differ: see `state/beyond_ascii`.
    fn encodings_around(&self, settings: &[Change]) -> Option<[Arc<str>; 2]> {
        let now = self.server.session.shape();
        let values = settings
            .iter()
            .flat_map(|(name, value)| [now.value(name), value.as_ref()]);
        if values.flatten().all(|value| value.is_ascii()) {
            return None;
        }
        let [database, client] = now.encodings()?;
        let then = settings.iter().find(|(name, _)| is_client_encoding(name));
        let then = then.and_then(|(_, value)| value.as_ref()).unwrap_or(client);
        let is_converted = |client: &str| pgweir_sql::is_converted(database, client);
        let are_others = is_converted(client) || is_converted(then);
        are_others.then(|| [database.clone(), then.clone()])
    }

    /// Sets client_encoding, which was kept before, for the transaction.
    fn set_encoding(&mut self, encoding: &str) {
        let statement = self.shared.internal.set_config_local.clone();
        self.run_in_internal_portal(
            &statement,
            &[Some(CLIENT_ENCODING.as_bytes()), Some(encoding.as_bytes())],
        );
    }

    /// Closes the statements that set settings for a Parse: the statement that was parsed may read
    /// `pg_prepared_statements`, and the other internal statements have been closed before.
    #[cold]
    pub(super) fn hides_settings_statements(&mut self) {
        let set_encoding = self.shared.internal.set_config_local.clone();
        if self.server.held.touch(set_encoding.id) {
            self.close_held(&set_encoding);
        }
        for statement in [
            self.shared.internal.set_for_parse.clone(),
            self.shared.internal.set_back.clone(),
        ] {
            self.close_held(&statement);
        }
    }

    /// The custom setting that keeps a setting's value.
    fn kept_name(&self, name: &str) -> String {
        [&self.shared.internal.names.kept_prefix, ".", name].concat()
    }
}
