//! Whether the user of a login is a member of the roles that lines of an HBA file name: the question, and its answer.

/// Asks about user `$1` and roles `$2`. As for PostgreSQL's own pg_hba.conf, memberships without INHERIT count, a role is
/// a member of itself, and a superuser is no member of every role. The answer is one row with a letter for each role, in
/// their order, also for a user who does not exist: after an error, there is none. All names have a schema, because the
/// database's owner chooses the search_path. Names are compared as text, too, because those of type `name` are cut.
pub(crate) const QUERY: &str = "\
WITH RECURSIVE held (role) AS (\
SELECT r.oid FROM pg_catalog.pg_roles AS r \
WHERE r.rolname OPERATOR(pg_catalog.=) $1::pg_catalog.text::pg_catalog.name \
AND r.rolname::pg_catalog.text OPERATOR(pg_catalog.=) $1::pg_catalog.text \
UNION \
SELECT m.roleid FROM held AS h JOIN pg_catalog.pg_auth_members AS m ON m.member OPERATOR(pg_catalog.=) h.role\
) SELECT pg_catalog.string_agg(CASE WHEN EXISTS (\
SELECT 1 FROM held AS h JOIN pg_catalog.pg_roles AS r ON r.oid OPERATOR(pg_catalog.=) h.role \
WHERE r.rolname::pg_catalog.text OPERATOR(pg_catalog.=) a.role\
) THEN 't' ELSE 'f' END, '' ORDER BY a.place) \
FROM pg_catalog.unnest($2::pg_catalog.text[]) WITH ORDINALITY AS a (role, place)";

/// The roles as an array, in PostgreSQL's notation.
pub(crate) fn array<'a>(roles: impl Iterator<Item = &'a str>) -> String {
    let mut text = String::from("{");
    for (at, role) in roles.enumerate() {
        text.push_str(if at == 0 { "\"" } else { ",\"" });
        for c in role.chars() {
            if matches!(c, '"' | '\\') {
                text.push('\\');
            }
            text.push(c);
        }
        text.push('"');
    }
    text.push('}');
    text
}

/// A question about roles.
#[derive(Debug, pgweir_freeze::Freeze)]
pub(crate) struct RoleQuestion {
    roles: Vec<Box<str>>,
    /// For each role, whether the user is a member.
    answer: Option<Vec<bool>>,
}

impl RoleQuestion {
    pub(crate) fn new(roles: Vec<Box<str>>) -> RoleQuestion {
        RoleQuestion { roles, answer: None }
    }

    pub(crate) fn roles(&self) -> &[Box<str>] {
        &self.roles
    }

    /// The first column of a row. What does not answer for each role is no answer.
    pub(crate) fn is_answered(&mut self, letters: Option<&[u8]>) {
        let letters = letters.unwrap_or_default();
        if letters.len() == self.roles.len() && letters.iter().all(|letter| matches!(letter, b't' | b'f')) {
            self.answer = Some(letters.iter().map(|letter| *letter == b't').collect());
        }
    }
}

/// What is known of a user's roles.
#[derive(Debug, pgweir_freeze::Freeze)]
pub(crate) enum Membership {
    /// Whether the user is a member of these roles; nothing is known of others.
    Known(Vec<(Box<str>, bool)>),
    /// Nobody can tell, because the database does not exist. The user counts as a member of nothing, and gets in by no
    /// proof.
    InVain,
}

impl Default for Membership {
    fn default() -> Self {
        Membership::Known(Vec::new())
    }
}

impl Membership {
    /// Whether the user is a member of a role; `None` if this is not known.
    pub(crate) fn of(&self, role: &str) -> Option<bool> {
        match self {
            Membership::Known(known) => known
                .iter()
                .find(|(of, _)| **of == *role)
                .map(|(_, is_member)| *is_member),
            Membership::InVain => Some(false),
        }
    }

    pub(crate) fn is_in_vain(&self) -> bool {
        matches!(self, Membership::InVain)
    }

    /// Adds the answer of a question. `false`: it has none. Answers of earlier questions stay: rules that a RELOAD has
    /// changed in between may need both.
    pub(crate) fn learn(&mut self, question: RoleQuestion) -> bool {
        let (Membership::Known(known), Some(answer)) = (self, question.answer) else {
            return false;
        };
        known.extend(question.roles.into_iter().zip(answer));
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn roles(names: &[&str]) -> Vec<Box<str>> {
        names.iter().map(|name| Box::from(*name)).collect()
    }

    #[test]
    fn names_stay_names_in_an_array() {
        assert_eq!(array(std::iter::empty()), "{}");
        let names = ["a b", "NULL", "x\"y", "\\", "{,}", ""];
        assert_eq!(array(names.into_iter()), r#"{"a b","NULL","x\"y","\\","{,}",""}"#);
    }

    /// Anything but a whole answer must not count as "no member": a line that rejects would be passed.
    #[test]
    fn half_an_answer_is_none() {
        for letters in [None, Some(&b""[..]), Some(b"t"), Some(b"tft"), Some(b"t "), Some(b"tF")] {
            let mut question = RoleQuestion::new(roles(&["a", "b"]));
            question.is_answered(letters);
            let mut membership = Membership::default();
            assert!(!membership.learn(question), "{letters:?}");
            assert_eq!(membership.of("a"), None);
        }
    }

    #[test]
    fn answers_add_up() {
        let mut membership = Membership::default();
        for (names, letters) in [(["a", "b"], b"tf"), (["c", "d"], b"ft")] {
            let mut question = RoleQuestion::new(roles(&names));
            question.is_answered(Some(letters));
            assert!(membership.learn(question));
        }
        let known = ["a", "b", "c", "d", "e"].map(|role| membership.of(role));
        assert_eq!(known, [Some(true), Some(false), Some(false), Some(true), None]);
        assert_eq!(Membership::InVain.of("a"), Some(false));
    }
}
