//! The settings of ALTER ROLE .. SET and ALTER DATABASE .. SET (`pg_db_role_setting`), with which
//! sessions begin.

/// One default.
#[derive(Debug, Clone)]
pub struct RoleDefault {
    /// For sessions of this user; `None` is all users.
    pub user: Option<String>,
    /// For sessions in this database; `None` is all databases.
    pub database: Option<String>,
    /// Name of the setting.
    pub name: &'static str,
    /// Its value.
    pub value: &'static str,
}

impl RoleDefault {
    fn applies_to(&self, user: &str, database: &str) -> bool {
        self.user.as_deref().is_none_or(|u| u == user) && self.database.as_deref().is_none_or(|d| d == database)
    }

    /// A role takes precedence over a database, and a role in a database over both (`process_settings`).
    fn rank(&self) -> (bool, bool) {
        (self.user.is_some(), self.database.is_some())
    }
}

/// The defaults of a session; later ones take precedence.
pub(super) fn for_session<'a>(
    all: &'a [RoleDefault],
    user: &str,
    database: &str,
) -> impl Iterator<Item = (&'static str, &'static str)> + use<'a> {
    let mut these: Vec<&'a RoleDefault> = all.iter().filter(|d| d.applies_to(user, database)).collect();
    these.sort_by_key(|d| d.rank());
    these.into_iter().map(|d| (d.name, d.value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_closest_default_comes_last() {
        let default = |user: Option<&str>, database: Option<&str>, value| RoleDefault {
            user: user.map(str::to_string),
            database: database.map(str::to_string),
            name: "work_mem",
            value,
        };
        let all = [
            default(Some("a"), Some("d"), "4MB"),
            default(Some("a"), None, "3MB"),
            default(None, Some("d"), "2MB"),
            default(Some("b"), None, "1MB"),
        ];
        let values = |user, database| for_session(&all, user, database).map(|(_, v)| v).collect::<Vec<_>>();
        assert_eq!(values("a", "d"), ["2MB", "3MB", "4MB"]);
        assert_eq!(values("a", "e"), ["3MB"]);
        assert_eq!(values("c", "d"), ["2MB"]);
    }
}
