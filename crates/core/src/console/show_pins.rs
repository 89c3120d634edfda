//! SHOW PINS and SHOW STATE_STATS: which clients keep their servers, and what keeping sessions costs.

use crate::console::rows::Rows;
use crate::pooler::Pooler;
use crate::time::Time;

impl Pooler {
    /// A row for each client whose session ties it to its server.
    pub(super) fn show_pins(&self, now: Time, rows: &mut Rows<'_>) {
        for (slot, client) in self.clients.iter() {
            let (Some(pinned), Some(server), Some(pool)) = (&client.pinned, client.link, client.pool) else {
                continue;
            };
            let key = &self.pool(pool).key;
            rows.push(&[
                crate::ids::ClientId(slot).to_string().into(),
                server.to_string().into(),
                (&*key.database).into(),
                client.login_user.as_deref().unwrap_or(&key.user).into(),
                client.pins.to_string().into(),
                (now - pinned.since).as_secs().into(),
                (&*pinned.statement).into(),
            ]);
        }
    }

    pub(super) fn show_state_stats(&self, rows: &mut Rows<'_>) {
        for (name, count) in self.state_stats.rows() {
            rows.push(&[name.into(), count.into()]);
        }
    }
}
