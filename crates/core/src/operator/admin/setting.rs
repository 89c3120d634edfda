//! SET.

use crate::base::ids::ClientId;
use crate::base::request::{LogLevel, OrderId, Request, TlsChange, TriedTls};
use crate::base::time::Time;
use crate::client::Client;
use crate::console::refusal::Refusal;
use crate::console::waiting::Waits;
use crate::pooler::Pooler;
use pgweir_config::{Config, Group, Problem, Setting};
use std::sync::Arc;

/// Where a SET stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SetProgress {
    /// The new value is used.
    Done,
    /// The driver reads files first.
    Waits(OrderId),
}

impl Pooler {
    /// SET: changes a setting until the next RELOAD. A setting of TLS counts when the files can be used with it, so that
    /// SHOW CONFIG never shows a certificate, or a way to verify one, that is not used.
    pub(crate) fn change_setting(
        &mut self,
        now: Time,
        by: ClientId,
        key: &str,
        value: &str,
    ) -> Result<SetProgress, Refusal> {
        let to = self.with_setting(key, value)?;
        let is_of_tls = |setting: &Setting| setting.group == Group::Tls;
        let old = &self.shared.config;
        let changes = |setting: &Setting| setting.value(old) != setting.value(&to);
        if Setting::find(key).is_some_and(|setting| is_of_tls(setting) && changes(setting)) {
            let order = self.admin.next_order(by);
            self.try_tls(order, key, value, to);
            return Ok(SetProgress::Waits(order));
        }
        self.use_setting(now, key, value, to);
        Ok(SetProgress::Done)
    }

    /// The driver has read the files for a SET of a setting of TLS.
    pub(crate) fn tls_tried(&mut self, now: Time, change: TlsChange, outcome: Result<(), Problem>) -> TriedTls {
        let TlsChange {
            by,
            key,
            value,
            from,
            to,
        } = change;
        let (answer, tried) = match outcome {
            Err(problem) => (Err(Refusal::set_failed(&problem)), TriedTls::Dropped),
            Ok(()) if !Arc::ptr_eq(&from, &self.shared.config) => match self.with_setting(&key, &value) {
                Ok(to) => {
                    self.try_tls(by, &key, &value, to);
                    return TriedTls::Dropped;
                }
                Err(refusal) => (Err(refusal), TriedTls::Dropped),
            },
            Ok(()) => {
                self.use_setting(now, &key, &value, to);
                (Ok(set_tag(&key, &value)), TriedTls::Used)
            }
        };
        if self.console_waits_for(by.client, &Waits::Set(by)) {
            self.answer_console(by.client, answer.as_deref());
        }
        tried
    }

    /// Whether a client of the console waits for this.
    pub(super) fn console_waits_for(&self, id: ClientId, waits: &Waits) -> bool {
        self.clients.get(id.0).and_then(Client::console_waits) == Some(waits)
    }

    fn with_setting(&self, key: &str, value: &str) -> Result<Arc<Config>, Refusal> {
        let mut config = (*self.shared.config).clone();
        config
            .set(key, value)
            .map_err(|problem| Refusal::set_failed(&problem))?;
        Ok(Arc::new(config))
    }

    fn try_tls(&mut self, by: OrderId, key: &str, value: &str, to: Arc<Config>) {
        let change = TlsChange {
            by,
            key: key.to_owned(),
            value: value.to_owned(),
            from: self.shared.config.clone(),
            to,
        };
        self.shared.requests.push_back(Request::TryTls(Box::new(change)));
    }

    fn use_setting(&mut self, now: Time, key: &str, value: &str, config: Arc<Config>) {
        self.shared.requests.push_back(Request::Configure(config.clone()));
        let before = self.before_change();
        self.use_config(now, config, before);
        let is_secret = Setting::find(key).is_none_or(Setting::may_hold_secret);
        let logged = if is_secret { "(not logged)" } else { value };
        self.log(LogLevel::Log, format!("SET {key}={logged} command issued"));
    }
}

/// The tag of a SET's CommandComplete.
pub(crate) fn set_tag(key: &str, value: &str) -> String {
    format!("SET {key}={value}")
}
