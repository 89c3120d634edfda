//! SHOW PINS, SHOW SESSION, SHOW LISTENERS and SHOW STATE_STATS.

use crate::base::access::Access;
use crate::console::rows::{Rows, Value};
use crate::operator::view::View;

impl View<'_> {
    /// A row for each client that is pinned by its session. Only administrators see statements, because they may
    /// contain secrets.
    pub(super) fn show_pins(&self, access: Access, rows: &mut Rows<'_>) {
        for (slot, client) in self.clients.iter() {
            let (Some(pinned), Some(server), Some(pool)) = (client.session.pinned(), client.link, client.pool) else {
                continue;
            };
            let key = self.pool(pool).key();
            rows.push(&[
                crate::base::ids::ClientId(slot).to_string().into(),
                server.to_string().into(),
                (&*key.database).into(),
                client.login_user.as_deref().unwrap_or(&key.user).into(),
                (&*client.pin_words().join(", ")).into(),
                (self.now - pinned.since()).as_secs().into(),
                secret(access, pinned.statement()),
            ]);
        }
    }

    /// One client's session: a row for each setting that differs from the server's defaults or is reported, for each
    /// protocol-level prepared statement, and for each reason for a pin. Only administrators see values and statements,
    /// because they may contain secrets; others see names.
    pub(super) fn show_session(&self, number: u32, access: Access, rows: &mut Rows<'_>) {
        let Some(client) = self.client_by_number(number).and_then(|id| self.clients.get(id.0)) else {
            return;
        };
        for setting in client.session.shape().settings() {
            rows.push(&[
                "setting".into(),
                (setting.name()).into(),
                secret(access, setting.value()),
            ]);
        }
        let mut statements: Vec<_> = client
            .statements
            .names()
            .iter()
            .flat_map(|names| names.iter())
            .collect();
        statements.sort_unstable_by_key(|(name, _)| *name);
        for (name, statement) in statements {
            let (name, text) = (String::from_utf8_lossy(name), String::from_utf8_lossy(&statement.query));
            rows.push(&["prepared statement".into(), (&*name).into(), secret(access, &text)]);
        }
        for channel in client.channels.iter().flat_map(|c| c.heard()) {
            rows.push(&["channel".into(), (&*String::from_utf8_lossy(channel)).into(), "".into()]);
        }
        if let Some(pinned) = client.session.pinned() {
            for reason in client.pin_words() {
                let age = (self.now - pinned.since()).as_secs();
                let since = match access {
                    Access::Admin => format!("{age} s, since: {}", pinned.statement()),
                    Access::Stats => format!("{age} s"),
                };
                rows.push(&["pin".into(), reason.into(), (&*since).into()]);
            }
        }
    }

    /// A row for each listener. The column for the server is empty while the server is being opened.
    pub(super) fn show_listeners(&self, rows: &mut Rows<'_>) {
        for (database, user, encoding, server, channels, clients) in self.listeners.rows() {
            rows.push(&[
                database.into(),
                user.into(),
                encoding.into(),
                server.map(|s| s.to_string()).unwrap_or_default().into(),
                (channels as u64).into(),
                (clients as u64).into(),
            ]);
        }
    }

    pub(super) fn show_state_stats(&self, rows: &mut Rows<'_>) {
        for (name, count) in self.state_stats.rows() {
            rows.push(&[name.into(), count.into()]);
        }
    }
}

/// A value that only administrators see.
fn secret(access: Access, text: &str) -> Value<'_> {
    match access {
        Access::Admin => text.into(),
        Access::Stats => Value::Null,
    }
}
