//! The server's answer to a probe so far.

use crate::state::beyond_ascii::text_of;
use crate::state::pins::PROBED;
use crate::state::suspicion::Suspicion;
use crate::upstream::job::ProbeRows;
use crate::upstream::nature;
use pgweir_sql::Effects;
use pgweir_wire::{ErrorFields, HEADER_BYTES, Header, backend};

/// The most custom settings of a session that are kept. Their names are the client's choice; those of other settings
/// are the server's.
const CUSTOM_MAX: usize = 256;

/// The most settings that are kept. PostgreSQL 18 has some 400.
const KEPT_MAX: usize = 2048;

/// The most bytes that are kept of their names and values.
const KEPT_BYTES_MAX: usize = 1024 * 1024;

/// A setting and its value; `None` is NULL.
pub(crate) type Row = (Box<str>, Option<Box<str>>);

/// A setting that the probe has set for itself.
#[derive(Debug, pgweir_freeze::Freeze)]
struct Lifted {
    row: Row,
    /// The session had set it. Otherwise it had the value that RESET returns to.
    is_made: bool,
}

/// A probe that has not been answered yet.
#[derive(Debug, Default, pgweir_freeze::Freeze)]
pub(crate) struct Probe {
    /// Whether settings were asked for.
    settings: bool,
    /// Name and value of every setting that the session has set.
    rows: Vec<Row>,
    /// The custom settings among them.
    custom: usize,
    /// The bytes of their names and values.
    bytes: usize,
    /// The texts may have made temporary objects.
    temporary: bool,
    /// The texts may have made statements by SQL-level PREPARE.
    prepares: bool,
    /// Time limits that the probe has lifted for itself, and client_encoding, with the values that they had.
    lifted: Vec<Lifted>,
    /// One value for each of [`PROBED`].
    pins: Option<[bool; PROBED.len()]>,
    /// The value of the latest row with a single column.
    value: Option<Box<str>>,
    /// The session has a schema for temporary objects.
    temporary_schema: bool,
    /// A name or value has no text, or a row was too long to be kept, or there were too many.
    unreadable: bool,
    /// The session has set a setting that only a superuser may set, and its user may not.
    guarded: bool,
    /// The message of the error with which the probe failed.
    failed: Option<Box<str>>,
    /// The error is one that consoles give for a command that they do not know.
    failed_on_console: bool,
    /// What the probe asks about.
    about: Suspicion,
}

/// The question.
impl Probe {
    /// A probe about these texts. `settings`: it asks for settings.
    pub(crate) fn about(about: Suspicion, settings: bool) -> Self {
        Probe {
            settings,
            temporary: about.may_have(Effects::TEMPORARY),
            prepares: about.may_have(Effects::PREPARE),
            about,
            ..Probe::default()
        }
    }

    /// Whether settings were asked for.
    #[inline]
    pub(crate) fn asks_settings(&self) -> bool {
        self.settings
    }

    /// Whether the texts may have made temporary objects.
    pub(crate) fn may_find_temporary(&self) -> bool {
        self.temporary
    }

    /// Whether the texts may have made statements by SQL-level PREPARE.
    pub(crate) fn may_find_prepared(&self) -> bool {
        self.prepares
    }

    /// What the probe asks about.
    pub(crate) fn suspicion(&self) -> &Suspicion {
        &self.about
    }

    /// What the probe has asked about; it is suspected again.
    pub(crate) fn into_suspicion(self) -> Suspicion {
        self.about
    }
}

/// The answer.
impl Probe {
    /// The server has refused a statement of the probe.
    pub(crate) fn fails(&mut self, message: &str) {
        self.failed = Some(message.into());
    }

    /// The server has refused a statement of the probe with this error.
    pub(crate) fn is_refused(&mut self, error: &ErrorFields<'_>) {
        self.fails(&String::from_utf8_lossy(error.message));
        self.failed_on_console = nature::is_of_console(error);
    }

    /// Whether the probe failed with an error that consoles give for a command that they do not know.
    pub(crate) fn has_failed_on_console(&self) -> bool {
        self.failed_on_console
    }

    /// A row has come; `message` is the DataRow, or its beginning.
    pub(crate) fn row(&mut self, rows: ProbeRows, message: &[u8]) {
        if Header::read(message).is_ok_and(|h| h.is_some_and(|h| h.message_bytes as usize > message.len())) {
            // The value is too long to be kept.
            self.unreadable = true;
            return;
        }
        match backend::data_row(&message[HEADER_BYTES..]) {
            Ok(row) => self.values(rows, &row),
            Err(_) => self.fails("malformed row"),
        }
    }

    fn values(&mut self, rows: ProbeRows, row: &[Option<&[u8]>]) {
        let text = |value: &[u8]| text_of(value).map(|text| Box::<str>::from(&*text));
        match (rows, row) {
            (ProbeRows::Value, &[value]) => self.value = value.and_then(text),
            (ProbeRows::TemporarySchema, &[value]) => self.temporary_schema = value == Some(b"t"),
            (ProbeRows::Pins, [pins @ .., temporary_schema]) if pins.len() == PROBED.len() => {
                self.temporary_schema = *temporary_schema == Some(b"t");
                let mut held = [false; PROBED.len()];
                for (held, value) in held.iter_mut().zip(pins) {
                    *held = *value == Some(b"t");
                }
                self.pins = Some(held);
            }
            (ProbeRows::Setting, &[Some(name), value, guarded]) => {
                self.guarded |= guarded == Some(b"t");
                match (text(name), value.map(text)) {
                    (Some(name), None) => self.keep(name, None),
                    (Some(name), Some(Some(value))) => self.keep(name, Some(value)),
                    _ => self.unreadable = true,
                }
            }
            // It had the probe's value already.
            (ProbeRows::LiftedLimit, &[Some(_), Some(_), None, _]) => {}
            (ProbeRows::LiftedLimit, &[Some(name), Some(before), is_made, _]) => {
                self.lifts(text(name), text(before), is_made == Some(b"t"));
            }
            // The server was not asked whether the session has set it.
            (ProbeRows::LiftedLimit, &[Some(name), Some(before), _]) => self.lifts(text(name), text(before), true),
            _ => self.fails("an unexpected row"),
        }
    }

    /// A setting that the probe has set for itself had this value before.
    fn lifts(&mut self, name: Option<Box<str>>, before: Option<Box<str>>, is_made: bool) {
        match (name, before) {
            (Some(name), Some(before)) => self.lifted.push(Lifted {
                row: (name, Some(before)),
                is_made,
            }),
            _ => self.unreadable = true,
        }
    }

    /// Keeps a setting that the session has set, unless there are too many: then the client keeps its server.
    fn keep(&mut self, name: Box<str>, value: Option<Box<str>>) {
        let custom = usize::from(name.contains('.'));
        let bytes = name.len() + value.as_ref().map_or(0, |value| value.len());
        let is_one_more = self.custom + custom <= CUSTOM_MAX && self.rows.len() < KEPT_MAX;
        if is_one_more && self.bytes + bytes <= KEPT_BYTES_MAX {
            self.custom += custom;
            self.bytes += bytes;
            self.rows.push((name, value));
        } else {
            self.unreadable = true;
        }
    }

    /// The message of the error with which the probe failed.
    pub(crate) fn failed(&self) -> Option<&str> {
        self.failed.as_deref()
    }

    /// The reasons for pins that the server has found, in the order of [`PROBED`], if it was asked for them.
    pub(crate) fn pins(&self) -> Option<[bool; PROBED.len()]> {
        self.pins
    }

    /// The value of the latest row with a single column.
    pub(crate) fn value(&self) -> Option<&str> {
        self.value.as_deref()
    }

    /// Whether the session has a schema for temporary objects.
    pub(crate) fn has_temporary_schema(&self) -> bool {
        self.temporary_schema
    }

    /// Whether a name or value has no text, or a row was too long to be kept, or there were too many.
    pub(crate) fn is_unreadable(&self) -> bool {
        self.unreadable
    }

    /// Whether the session has set a setting that only a superuser may set, and its user may not.
    pub(crate) fn finds_guarded(&self) -> bool {
        self.guarded
    }

    /// Every setting that the session has set. For the time limits that the probe has lifted, the view has shown the
    /// probe's own values: they are replaced by the session's. A limit that the session had reset is not among them.
    pub(crate) fn take_rows(&mut self) -> Vec<Row> {
        let lifted = std::mem::take(&mut self.lifted);
        let mut rows = std::mem::take(&mut self.rows);
        rows.retain(|(name, _)| lifted.iter().all(|lifted| lifted.row.0 != *name));
        rows.extend(
            lifted
                .into_iter()
                .filter(|lifted| lifted.is_made)
                .map(|lifted| lifted.row),
        );
        rows
    }

    /// Every setting that the session has set, of a probe that has lifted no time limits.
    pub(crate) fn rows(&self) -> &[Row] {
        &self.rows
    }
}
