//! Secrets that auth_query has found, kept for `auth_query_cache_time`, so that a storm of logins does not ask
//! PostgreSQL about the same users again and again.
//!
//! A secret is kept only after it has let its user in, so that clients that are not authenticated cannot fill the
//! memory. It is forgotten when the time is over, when a login of the user fails, when a server refuses the user, when
//! this pooler sees a role made or changed, and when the configuration changes.

use crate::base::time::Time;
use foldhash::fast::RandomState;
use pgweir_auth::Secret;
use std::collections::HashMap;
use std::time::Duration;

/// The most secrets that are kept. A further one takes the place of the oldest.
const KEPT_SECRETS_MAX: usize = 10_000;

/// A user who asks for a database: both decide where auth_query runs, and with which text.
#[derive(Debug, Clone, PartialEq, Eq, Hash, pgweir_freeze::Freeze)]
struct Asked {
    database: Box<str>,
    user: Box<str>,
}

impl Asked {
    fn new(database: &str, user: &str) -> Self {
        let (database, user) = (database.into(), user.into());
        Asked { database, user }
    }
}

/// A secret, and when auth_query was asked for it.
#[derive(Debug, Clone, PartialEq, Eq, pgweir_freeze::Freeze)]
pub(crate) struct KeptSecret {
    secret: Secret,
    as_of: Time,
}

impl KeptSecret {
    pub(crate) fn secret(&self) -> &Secret {
        &self.secret
    }

    pub(crate) fn as_of(&self) -> Time {
        self.as_of
    }
}

/// The secrets that are kept.
#[derive(Debug, Default, pgweir_freeze::Freeze)]
pub(crate) struct KeptSecrets {
    secrets: HashMap<Asked, KeptSecret, RandomState>,
    /// What was asked for until this time may have changed.
    void_until: Option<Time>,
}

impl KeptSecrets {
    /// The secret of a user, unless auth_query must be asked.
    pub(crate) fn find(&self, now: Time, kept_for: Duration, database: &str, user: &str) -> Option<KeptSecret> {
        if kept_for.is_zero() || self.secrets.is_empty() {
            return None;
        }
        let kept = self.secrets.get(&Asked::new(database, user))?;
        (now < kept.as_of + kept_for).then(|| kept.clone())
    }

    /// This secret, for which auth_query was asked at `as_of`, has let its user in.
    pub(crate) fn keep(&mut self, database: &str, user: &str, secret: &Secret, as_of: Time) {
        if self.void_until.is_some_and(|until| as_of <= until) {
            return;
        }
        let asked = Asked::new(database, user);
        if self.secrets.len() >= KEPT_SECRETS_MAX && !self.secrets.contains_key(&asked) {
            self.drop_oldest();
        }
        let kept = self.secrets.entry(asked).or_insert_with(|| KeptSecret {
            secret: secret.clone(),
            as_of,
        });
        // Of two logins at a time, the one that asked later knows better.
        if kept.as_of < as_of {
            kept.secret.clone_from(secret);
            kept.as_of = as_of;
        }
    }

    fn drop_oldest(&mut self) {
        let oldest = self.secrets.iter().min_by_key(|(_, kept)| kept.as_of);
        if let Some(asked) = oldest.map(|(asked, _)| asked.clone()) {
            self.secrets.remove(&asked);
        }
    }

    /// The user may have another secret now.
    pub(crate) fn forget_user(&mut self, user: &str) {
        if !self.secrets.is_empty() {
            self.secrets.retain(|asked, _| &*asked.user != user);
        }
    }

    /// Any user may have another secret now. What logins under way have been told before is not kept, either.
    pub(crate) fn forget_all(&mut self, now: Time) {
        self.secrets.clear();
        self.void_until = Some(now);
    }

    /// Drops what is no longer used.
    pub(crate) fn forget_old(&mut self, now: Time, kept_for: Duration) {
        self.secrets.retain(|_, kept| now < kept.as_of + kept_for);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEPT_FOR: Duration = Duration::from_secs(10);

    fn secret(text: &str) -> Secret {
        Secret::parse(text.as_bytes()).unwrap()
    }

    fn found(kept: &KeptSecrets, now: Time, database: &str, user: &str) -> Option<Secret> {
        let kept = kept.find(now, KEPT_FOR, database, user);
        kept.map(|kept| kept.secret().clone())
    }

    #[test]
    fn a_secret_is_kept_for_its_user_database_and_time() {
        let mut kept = KeptSecrets::default();
        let asked_at = Time(5_000_000);
        kept.keep("db", "u", &secret("one"), asked_at);
        assert_eq!(found(&kept, asked_at, "db", "u"), Some(secret("one")));
        assert_eq!(found(&kept, asked_at, "db", "v"), None);
        assert_eq!(found(&kept, asked_at, "other", "u"), None);
        assert_eq!(found(&kept, Time(14_999_999), "db", "u"), Some(secret("one")));
        assert_eq!(found(&kept, Time(15_000_000), "db", "u"), None);
        assert_eq!(kept.find(asked_at, Duration::ZERO, "db", "u"), None);
        kept.forget_old(Time(15_000_000), KEPT_FOR);
        assert!(kept.secrets.is_empty());
    }

    #[test]
    fn a_login_that_asked_earlier_changes_nothing() {
        let mut kept = KeptSecrets::default();
        kept.keep("db", "u", &secret("new"), Time(2));
        kept.keep("db", "u", &secret("old"), Time(1));
        assert_eq!(found(&kept, Time(3), "db", "u"), Some(secret("new")));
        kept.keep("db", "u", &secret("newest"), Time(3));
        assert_eq!(found(&kept, Time(3), "db", "u"), Some(secret("newest")));
    }

    #[test]
    fn a_user_is_forgotten_for_all_databases() {
        let mut kept = KeptSecrets::default();
        for database in ["one", "two"] {
            for user in ["u", "v"] {
                kept.keep(database, user, &secret("x"), Time(1));
            }
        }
        kept.forget_user("u");
        assert_eq!(found(&kept, Time(1), "one", "u"), None);
        assert_eq!(found(&kept, Time(1), "two", "u"), None);
        assert_eq!(found(&kept, Time(1), "two", "v"), Some(secret("x")));
    }

    #[test]
    fn what_was_asked_before_a_change_is_not_kept() {
        let mut kept = KeptSecrets::default();
        kept.keep("db", "u", &secret("x"), Time(1));
        kept.forget_all(Time(5));
        assert_eq!(found(&kept, Time(5), "db", "u"), None);
        kept.keep("db", "u", &secret("x"), Time(5));
        assert_eq!(found(&kept, Time(5), "db", "u"), None);
        kept.keep("db", "u", &secret("y"), Time(6));
        assert_eq!(found(&kept, Time(6), "db", "u"), Some(secret("y")));
    }

    #[test]
    fn the_oldest_makes_room() {
        let mut kept = KeptSecrets::default();
        for at in 1..=KEPT_SECRETS_MAX as u64 + 1 {
            kept.keep("db", &format!("u{at}"), &secret("x"), Time(at));
        }
        assert_eq!(kept.secrets.len(), KEPT_SECRETS_MAX);
        assert_eq!(found(&kept, Time(1), "db", "u1"), None);
        assert!(found(&kept, Time(1), "db", "u2").is_some());
        let last = format!("u{}", KEPT_SECRETS_MAX + 1);
        assert!(found(&kept, Time(1), "db", &last).is_some());
    }
}
