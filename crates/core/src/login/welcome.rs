//! The messages for a client whose login succeeds: AuthenticationOk, ParameterStatus, BackendKeyData,
//! ReadyForQuery.

use crate::state::beyond_ascii::bytes_of;
use crate::state::shape::Shape;
use pgweir_sql::IDENTIFIER_BYTES_MAX;
use pgweir_wire::write::ErrorText;
use pgweir_wire::{CancelKey, TransactionStatus, Writer};
use std::sync::Arc;

/// The end of a login.
#[derive(Debug)]
pub(crate) struct Welcome<'a> {
    /// AuthenticationSASLFinal, if the client was authenticated by SCRAM.
    pub(crate) closing: Option<&'a [u8]>,
    /// The key for its cancel requests.
    pub(crate) key: &'a CancelKey,
    /// The application_name of the startup packet, if the server has cut it, and says so.
    pub(crate) cut_name: Option<&'a str>,
    /// `login_notify_message`; empty: none.
    pub(crate) notice: &'a str,
    pub(crate) status: TransactionStatus,
}

impl Welcome<'_> {
    /// Writes the messages, with these settings as ParameterStatus.
    pub(crate) fn write<'p>(&self, w: &mut Writer<'_>, parameters: impl IntoIterator<Item = (&'p str, &'p str)>) {
        if let Some(closing) = self.closing {
            w.authentication(closing);
        }
        w.authentication(&0u32.to_be_bytes());
        if let Some(name) = self.cut_name {
            let end = (0..=IDENTIFIER_BYTES_MAX).rfind(|at| name.is_char_boundary(*at));
            let kept = &name[..end.unwrap_or_default()];
            let message = format!("identifier \"{name}\" will be truncated to \"{kept}\"");
            notice(w, "42622", &message);
        }
        for (name, value) in parameters {
            w.parameter_status(name.as_bytes(), &bytes_of(value));
        }
        w.backend_key_data(self.key.process_id, &self.key.secret);
        if !self.notice.is_empty() {
            notice(w, "00000", self.notice);
        }
        w.ready_for_query(self.status);
    }
}

fn notice(w: &mut Writer<'_>, sqlstate: &str, message: &str) {
    w.notice(&ErrorText {
        severity: "NOTICE",
        sqlstate,
        message,
        detail: "",
        hint: "",
    });
}

/// The application_name among the settings of a startup packet, if PostgreSQL cuts it and tells the client.
/// `client_min_messages` counts if it stands before it.
pub(crate) fn cut_name<'s>(settings: &'s [(String, String)], shape: &Shape) -> Option<&'s str> {
    let is = |name: &str, of: &str| name.eq_ignore_ascii_case(of);
    let at = settings.iter().rposition(|(name, _)| is(name, "application_name"))?;
    let name = &*settings[at].1;
    let is_cut = |kept: &Arc<str>| name.len() > IDENTIFIER_BYTES_MAX && kept.len() <= IDENTIFIER_BYTES_MAX;
    let least = settings[..at].iter().rfind(|(name, _)| is(name, "client_min_messages"));
    let hides = |least: &str| {
        ["warning", "error", "fatal", "panic"]
            .iter()
            .any(|hiding| is(least, hiding))
    };
    let is_told = least.is_none_or(|(_, least)| !hides(least));
    (is_told && shape.value("application_name").is_some_and(is_cut)).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::shape_table::ShapeTable;

    #[test]
    fn a_client_is_told_that_its_name_is_cut_unless_it_wants_no_notices() {
        let long = "a".repeat(64);
        let mut table = ShapeTable::new();
        let empty = table.empty();
        let mut told = |settings: &[(&str, &str)], kept: &str| {
            let settings: Vec<_> = settings.iter().map(|(n, v)| (n.to_string(), v.to_string())).collect();
            let shape = table.change(&empty, [("application_name", Some(kept), true)]);
            cut_name(&settings, &shape).is_some()
        };
        let name = ("Application_Name", &*long);
        assert!(told(&[name], &long[1..]));
        assert!(!told(&[name], &long), "a server that is no PostgreSQL keeps all of it");
        assert!(!told(&[("application_name", &long[1..])], &long[1..]));
        assert!(!told(&[("client_min_messages", "Error"), name], &long[1..]));
        assert!(told(&[("client_min_messages", "log"), name], &long[1..]));
        assert!(told(&[name, ("client_min_messages", "error")], &long[1..]));
    }
}
