//! A client's names for its prepared statements.

use crate::statements::meaning::Meaning;
use crate::statements::prepared::{Kind, NAME_BYTES_MAX, Statement, kept};
use foldhash::fast::RandomState;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// A client's name for a statement, in the client's encoding.
pub(crate) type StatementName = Box<[u8]>;

/// A client's names for its statements.
#[derive(Debug, Default, pgweir_freeze::Freeze)]
pub(crate) struct Names {
    names: HashMap<Box<[u8]>, Meaning, RandomState>,
    /// How many were made by SQL-level PREPARE.
    by_sql: usize,
    /// How many names have characters that a text may spell in several ways.
    odd: usize,
    /// How many begin a transaction block.
    beginning: usize,
    /// How often a name or a meaning may have changed.
    changes: u64,
    /// Bytes of all texts.
    text_bytes: usize,
    /// How many names are beyond ASCII.
    beyond_ascii: usize,
    /// Names beyond ASCII that the client gave under another client_encoding than its present one. PostgreSQL keeps
    /// names in the database's encoding, so they have other bytes now, which the pooler does not know. They are unknown
    /// until the client has that encoding again.
    of_other_encodings: Vec<(StatementName, Meaning)>,
    /// The client_encoding since the last change of it; `None`: it has not changed since the first name was given.
    encoding: Option<Box<str>>,
}

/// Whether a name with this meaning was given under this client_encoding.
fn is_of(encoding: &str, meaning: &Meaning) -> bool {
    let made = meaning.statement().settings.encoding();
    made.is_none_or(|made| made == encoding)
}

/// The most names of a client that are kept. A text that reads `pg_prepared_statements` costs a moment for each.
const NAMES_MAX: usize = 4096;

/// The most names of a client by SQL-level PREPARE that are kept. A transaction of a client that prepares another one
/// costs a moment for each.
pub(crate) const NAMES_BY_SQL_MAX: usize = 128;

/// The most names whose statements are looked at for further names.
const NESTED_MAX: usize = 64;

/// The most bytes of texts that are kept for a client.
const TEXT_BYTES_MAX: usize = 16 << 20;

/// Whether every text that names the statement contains the name itself, possibly in another case of ASCII letters.
fn is_spelled_plainly(name: &[u8]) -> bool {
    (1..=NAME_BYTES_MAX).contains(&name.len()) && name.iter().all(|b| b.is_ascii() && !matches!(b, b'"' | b'\\'))
}

impl Names {
    #[inline]
    pub(crate) fn get(&self, name: &[u8]) -> Option<&Meaning> {
        match self.names.get(name) {
            None if name.len() > NAME_BYTES_MAX => self.names.get(kept(name)),
            found => found,
        }
    }

    /// Whether one of them begins a transaction block.
    #[inline]
    pub(crate) fn some_begin_block(&self) -> bool {
        self.beginning > 0
    }

    /// Names and what they mean, in no order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&[u8], &Arc<Statement>)> {
        self.names.iter().map(|(name, m)| (&**name, m.statement()))
    }

    /// How often a name or a meaning may have changed.
    pub(crate) fn changes(&self) -> u64 {
        self.changes
    }

    pub(crate) fn get_mut(&mut self, name: &[u8]) -> Option<&mut Meaning> {
        self.changes += 1;
        self.names.get_mut(kept(name))
    }

    /// A name of the statement with this id. If there are several, the first in alphabetical order, so that the result
    /// is always the same.
    pub(crate) fn name_of(&self, id: u64) -> Option<(&[u8], &Arc<Statement>)> {
        let named = self.names.iter().filter(|(_, m)| m.statement().id == id);
        named
            .map(|(name, m)| (&**name, m.statement()))
            .min_by_key(|(name, _)| *name)
    }

    /// Whether one more statement of this size can be kept.
    pub(crate) fn have_room_for(&self, bytes: usize) -> bool {
        let of_others: usize = self.of_other_encodings().map(|other| other.query.len()).sum();
        self.names.len() + self.of_other_encodings.len() < NAMES_MAX
            && self.text_bytes + of_others + bytes <= TEXT_BYTES_MAX
    }

    /// Whether one more statement of SQL-level PREPARE can be kept.
    pub(crate) fn have_room_for_prepare(&self, bytes: usize) -> bool {
        let of_others = self.of_other_encodings().filter(|other| other.kind == Kind::Sql);
        self.by_sql + of_others.count() < NAMES_BY_SQL_MAX && self.have_room_for(bytes)
    }

    /// The statements whose names are unknown until the client has another encoding.
    fn of_other_encodings(&self) -> impl Iterator<Item = &Statement> {
        self.of_other_encodings
            .iter()
            .map(|(_, meaning)| &**meaning.statement())
    }

    /// Whether only the client's server knows under which settings one of the statements was read.
    pub(super) fn some_are_uncertain(&self) -> bool {
        let of_present = self.names.values().map(|meaning| &**meaning.statement());
        let mut all = of_present.chain(self.of_other_encodings());
        all.any(|statement| statement.settings.are_uncertain())
    }

    /// The client has this client_encoding now.
    pub(crate) fn encoding_becomes(&mut self, encoding: &str) {
        self.encoding = Some(encoding.into());
        if self.beyond_ascii > 0 {
            let names = self
                .names
                .iter()
                .filter(|(name, m)| !name.is_ascii() && !is_of(encoding, m));
            let gone: Vec<StatementName> = names.map(|(name, _)| name.clone()).collect();
            for name in gone {
                let meaning = self.set(&name, None);
                self.of_other_encodings.extend(meaning.map(|meaning| (name, meaning)));
            }
        }
        let (back, other) = std::mem::take(&mut self.of_other_encodings)
            .into_iter()
            .partition(|(_, meaning)| is_of(encoding, meaning));
        self.of_other_encodings = other;
        for (name, meaning) in back {
            self.set(&name, Some(meaning));
        }
    }

    /// A name means again what it meant before, perhaps under another client_encoding than the present one.
    pub(crate) fn restore(&mut self, name: &[u8], meaning: Option<Meaning>) {
        match meaning {
            Some(meaning)
                if !name.is_ascii()
                    && self
                        .encoding
                        .as_ref()
                        .is_some_and(|encoding| !is_of(encoding, &meaning)) =>
            {
                self.of_other_encodings.push((name.into(), meaning));
            }
            meaning => drop(self.set(name, meaning)),
        }
    }

    /// Sets what a name means; `None` removes the name. Returns its earlier meaning.
    pub(crate) fn set(&mut self, name: &[u8], meaning: Option<Meaning>) -> Option<Meaning> {
        self.changes += 1;
        let name = kept(name);
        let odd = usize::from(!is_spelled_plainly(name));
        let by_sql = |m: &Option<Meaning>| m.as_ref().map(|m| usize::from(m.statement().kind == Kind::Sql));
        let begins = |m: &Option<Meaning>| usize::from(m.as_ref().is_some_and(|m| m.statement().begins_block()));
        let bytes = |m: &Option<Meaning>| m.as_ref().map_or(0, |m| m.statement().query.len());
        let is_there = |m: &Option<Meaning>| usize::from(m.is_some() && !name.is_ascii());
        self.text_bytes += bytes(&meaning);
        self.beyond_ascii += is_there(&meaning);
        let gained = by_sql(&meaning);
        let beginning = self.beginning + begins(&meaning);
        let before = match meaning {
            Some(meaning) => self.names.insert(name.into(), meaning),
            None => self.names.remove(name),
        };
        self.text_bytes -= bytes(&before);
        self.beyond_ascii -= is_there(&before);
        let lost = by_sql(&before);
        self.beginning = beginning - begins(&before);
        self.by_sql = self.by_sql + gained.unwrap_or(0) - lost.unwrap_or(0);
        self.odd = self.odd + gained.map_or(0, |_| odd) - lost.map_or(0, |_| odd);
        before
    }

    /// All names that the text may mention, and possibly some that it does not. One pass over the text and one look-up
    /// for each of its words, however many names there are.
    pub(crate) fn mentioned_in(&self, text: &[u8]) -> Vec<Box<[u8]>> {
        let mut found: HashSet<&[u8], RandomState> = HashSet::default();
        let Some(words) = pgweir_sql::possible_names(text) else {
            return self.names.keys().cloned().collect();
        };
        for word in words {
            let word = &word[..word.len().min(NAME_BYTES_MAX)];
            found.extend(self.names.get_key_value(word).map(|(name, _)| &**name));
            let folded = word.to_ascii_lowercase();
            found.extend(self.names.get_key_value(&*folded).map(|(name, _)| &**name));
        }
        if self.odd > 0 {
            let odd = self.names.keys().filter(|name| !is_spelled_plainly(name));
            found.extend(odd.map(|name| &**name));
        }
        found.into_iter().map(Into::into).collect()
    }

    /// Adds the names that the statements of these names may mention themselves, if they are EXECUTE or the like.
    pub(crate) fn add_nested(&self, found: &mut Vec<StatementName>) {
        let naming_text = |name: &StatementName| self.get(name).and_then(|meaning| meaning.statement().naming_text());
        if found.iter().take(NESTED_MAX).all(|name| naming_text(name).is_none()) {
            return;
        }
        let mut seen: HashSet<StatementName, RandomState> = found.iter().cloned().collect();
        let mut next = 0;
        while next < found.len().min(NESTED_MAX) {
            let text = naming_text(&found[next]);
            for name in text.map(|text| self.mentioned_in(text)).into_iter().flatten() {
                if seen.insert(name.clone()) {
                    found.push(name);
                }
            }
            next += 1;
        }
    }

    /// The names that SQL-level PREPARE has made.
    pub(crate) fn made_by_sql(&self) -> Vec<Box<[u8]>> {
        if self.by_sql == 0 {
            return Vec::new();
        }
        let by_sql = self.names.iter().filter(|(_, m)| m.statement().kind == Kind::Sql);
        by_sql.map(|(name, _)| name.clone()).collect()
    }

    pub(crate) fn all(&self) -> Vec<Box<[u8]>> {
        self.names.keys().cloned().collect()
    }

    /// Sorts names in the order in which the client prepared their statements.
    pub(crate) fn in_order(&self, names: &mut [Box<[u8]>]) {
        names.sort_by_cached_key(|name| self.names.get(name).map(Meaning::made));
    }

    /// Forgets all names but those in `names`.
    pub(crate) fn keep_only(&mut self, names: &HashSet<Box<[u8]>>) {
        for name in self.all() {
            if !names.contains(&name) {
                self.set(&name, None);
            }
        }
        self.of_other_encodings.retain(|(name, _)| names.contains(name));
    }

    /// Forgets all names. Returns what they meant, those of other encodings last.
    pub(crate) fn take_all(&mut self) -> Vec<(StatementName, Meaning)> {
        let none = Names {
            changes: self.changes + 1,
            encoding: self.encoding.clone(),
            ..Names::default()
        };
        let all = std::mem::replace(self, none);
        all.names.into_iter().chain(all.of_other_encodings).collect()
    }

    pub(crate) fn len(&self) -> usize {
        self.names.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::secret_names::SecretNames;
    use crate::statements::held::Moment;
    use crate::statements::parse_settings::ParseSettings;
    use crate::statements::table::StatementTable;

    #[test]
    fn a_text_mentions_what_it_spells_in_any_case() {
        let mentions = |text: &str, name: &[u8]| {
            let mut names = Names::default();
            let mut table = StatementTable::new(SecretNames::new([0; 32]));
            let statement = table.intern(b"select 1", &[0, 0], &ParseSettings::default());
            names.set(b"another", Some(Meaning::new(statement.clone(), Moment(1), Moment(0))));
            names.set(name, Some(Meaning::new(statement, Moment(2), Moment(0))));
            names.mentioned_in(text.as_bytes()) == [Box::from(name)]
        };
        assert!(mentions("execute S1 (2)", b"s1"));
        assert!(mentions("execute \"Mixed Case\"", b"Mixed Case"));
        assert!(mentions("execute \"a\"\"b\"", b"a\"b"));
        assert!(mentions("execute é", "É".as_bytes()));
        assert!(!mentions("execute s2", b"s1"));
        assert!(!mentions("execute s11", b"s1"));
        assert!(!mentions("execute _s1", b"s1"));
        assert!(mentions("execute 'it\"s' \"x y\"", b"x y"));
    }

    #[test]
    fn a_long_name_is_known_by_its_first_63_bytes() {
        let mut names = Names::default();
        let mut table = StatementTable::new(SecretNames::new([0; 32]));
        let statement = table.intern(b"select 1", &[0, 0], &ParseSettings::default());
        let long = "x".repeat(80);
        names.set(long.as_bytes(), Some(Meaning::new(statement, Moment(1), Moment(0))));
        for end in [63, 64, 80] {
            assert!(names.get(&long.as_bytes()[..end]).is_some());
            assert!(names.get_mut(&long.as_bytes()[..end]).is_some());
        }
        assert!(names.get(&long.as_bytes()[..62]).is_none());
        assert_eq!(
            names.mentioned_in(format!("execute {long}").as_bytes()),
            [Box::from(&long.as_bytes()[..63])]
        );
        assert!(names.set(&long.as_bytes()[..63], None).is_some());
        assert_eq!(names.len(), 0);
    }

    /// Guards against a client that has as many names as it likes: the limits counted only those of its present
    /// client_encoding.
    #[test]
    fn names_of_other_encodings_count_for_the_limits() {
        let mut names = Names::default();
        let mut table = StatementTable::new(SecretNames::new([0; 32]));
        for encoding in ["UTF8", "LATIN1", "WIN1252"] {
            names.encoding_becomes(encoding);
            let settings = ParseSettings::new([("client_encoding", encoding)]);
            let query = vec![b' '; TEXT_BYTES_MAX / 3];
            assert!(names.have_room_for(query.len()));
            let statement = table.intern(&query, &[0, 0], &settings);
            names.set(&[0xe9], Some(Meaning::new(statement, Moment(1), Moment(0))));
        }
        names.encoding_becomes("SQL_ASCII");
        assert_eq!(names.len(), 0);
        assert!(!names.have_room_for(TEXT_BYTES_MAX / 3));
    }

    /// Guards against names that a refused DEALLOCATE ALL ended for good, or gave other bytes, and against some that it
    /// did not end: those of another client_encoding.
    #[test]
    fn names_of_other_encodings_end_with_all_and_come_back_with_all() {
        let mut table = StatementTable::new(SecretNames::new([0; 32]));
        let mut meaning = |encoding| {
            let settings = ParseSettings::new([("client_encoding", encoding)]);
            let statement = table.intern(b"select 1", &[0, 0], &settings);
            Meaning::new(statement, Moment(1), Moment(0))
        };
        let name: &[u8] = &[0xe9];
        let mut names = Names::default();
        names.set(name, Some(meaning("WIN1252")));
        names.encoding_becomes("LATIN1");
        names.set(name, Some(meaning("LATIN1")));
        let before = names.take_all();
        assert_eq!((before.len(), names.len()), (2, 0));
        for (name, meaning) in before {
            names.restore(&name, Some(meaning));
        }
        let encoding = |names: &Names| {
            names
                .get(name)
                .and_then(|m| m.statement().settings.encoding().map(str::to_owned))
        };
        assert_eq!(encoding(&names).as_deref(), Some("LATIN1"));
        names.set(name, None);
        names.encoding_becomes("WIN1252");
        assert_eq!(encoding(&names).as_deref(), Some("WIN1252"));
        names.encoding_becomes("LATIN1");
        names.keep_only(&HashSet::default());
        names.encoding_becomes("WIN1252");
        assert_eq!(names.len(), 0, "it has ended, too");
    }
}
