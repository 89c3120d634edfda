//! SHOW CONFIG and SET.

use crate::catalogue::CATALOGUE;
use crate::checks;
use crate::choices::AuthType;
use crate::config::Config;
use crate::line_key::{bad_value, suggest};
use crate::login_files;
use crate::problem::{Place, Problem};
use crate::setting::{ChangeRule, Setting};

/// A row of SHOW CONFIG.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigRow {
    /// The setting's name.
    pub key: &'static str,
    /// Its value in PgBouncer's notation; `None` prints as null.
    pub value: Option<String>,
    /// Its default as the catalogue has it; `None` prints as null.
    pub default: Option<&'static str>,
    /// Whether RELOAD and SET can change it: `yes` or `no` in the output.
    pub changeable: bool,
    /// Whether only administrators may see the value.
    pub is_secret: bool,
}

/// Settings that SET cannot change: the pooler would show the new file name while it uses the
/// content of the old file.
const READ_BY_RELOAD: [&str; 3] = ["auth_file", "auth_hba_file", "auth_ident_file"];

/// The file name of problems with console commands.
const CONSOLE: &str = "console";

impl Config {
    /// The rows of SHOW CONFIG, in its order.
    pub fn rows(&self) -> impl Iterator<Item = ConfigRow> {
        CATALOGUE.iter().map(|setting| ConfigRow {
            key: setting.name,
            value: setting.value(self),
            default: setting.default,
            changeable: setting.change == ChangeRule::Reload,
            is_secret: setting.may_hold_secret(),
        })
    }

    /// SET: changes a setting until the next RELOAD. On an error nothing is changed.
    pub fn set(&mut self, key: &str, value: &str) -> Result<(), Problem> {
        let place = Place::file(CONSOLE);
        let Some(setting) = Setting::find(key) else {
            let hint = suggest(key, CATALOGUE.iter().map(|setting| setting.name));
            return Err(Problem::error(&place, format!("unknown setting \"{key}\"")).maybe_hint(hint));
        };
        if setting.change == ChangeRule::Restart {
            let message = format!("setting \"{key}\" cannot be changed without a restart");
            return Err(Problem::error(&place, message).hint("change it in the configuration file and restart"));
        }
        let mut changed = self.clone();
        (setting.set)(&mut changed.global, value)
            .map_err(|mismatch| bad_value(&place, key, value, mismatch).on_console())?;
        if READ_BY_RELOAD.contains(&setting.name) && setting.value(self) != setting.value(&changed) {
            let message = format!("setting \"{key}\" names a file, which only RELOAD reads");
            return Err(Problem::error(&place, message).hint("change it in the configuration file and give RELOAD"));
        }
        if setting.name == "auth_ldap_options"
            && let Some(Err(why)) = login_files::ldap(&mut changed)
        {
            return Err(login_files::bad_ldap(&place, &why));
        }
        if let Some(fault) = changed
            .login_rules
            .fault
            .as_ref()
            .filter(|_| changed.global.auth_type == AuthType::Hba)
        {
            let message = format!("auth_type = hba needs files that can be used: {}", fault.line());
            return Err(Problem::error(&place, message).hint("correct the file and give RELOAD first"));
        }
        if let Some((_, message, hint)) = checks::unmet_demands(&changed).into_iter().next() {
            return Err(Problem::error(&place, message).hint(hint));
        }
        if changed.named.insert(setting.name) {
            changed.named_by_set.insert(setting.name);
        }
        *self = changed;
        Ok(())
    }
}

impl Setting {
    /// Its value in a configuration, in PgBouncer's notation; `None` is unset.
    pub fn value(&self, config: &Config) -> Option<String> {
        (self.get)(&config.global)
    }
}
