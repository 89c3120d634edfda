//! The sources of a catalog's routines: what a routine does, and what it mentions, by its text.

use crate::catalog::code::{Draft, RUNS_MAX, SETTINGS_MAX, SOURCE_BYTES_MAX};
use crate::catalog::runs::{Kind, Run};
use pgweir_sql::{Effects, KeyWordNames, Language, SearchPath};

/// A routine that sets more settings that `pg_settings` does not show is not followed: who calls it keeps its server.
const SETTINGS_OF_ONE_MAX: usize = 16;

/// What the words of a source have shown.
struct Mentioned {
    /// It inserts, or calls nextval().
    draws: bool,
    /// It may run something that has a name.
    calls: bool,
}

/// The language with this letter in the answer to [`crate::statements::catalog_query`].
fn language_of(letter: u8) -> Option<Language> {
    match letter {
        b's' => Some(Language::Sql),
        b'b' => Some(Language::SqlStandard),
        b'p' => Some(Language::Plpgsql),
        b'i' => Some(Language::Internal),
        _ => None,
    }
}

impl Draft {
    /// Adds the source of a routine, after all names have come. `None`: the source is too long. The source is judged
    /// like any text ([`pgweir_sql::judge_body`]). Returns `false` if the row is malformed.
    pub(super) fn add_source(&mut self, oid: u32, language: u8, source: Option<&[u8]>, parameters: &[u8]) -> bool {
        let Some(language) = language_of(language) else {
            return false;
        };
        self.keeps_plans |= language != Language::Internal;
        // The routine was created after the names had been read; the next reading finds it.
        let Some(&who) = self.by_oid.get(&(Kind::Routine, oid)) else {
            return true;
        };
        let Some(source) = source else {
            self.nodes[who as usize].read |= pgweir_sql::UNREAD;
            self.nodes[who as usize].reads_session = true;
            self.reads_constants = true;
            return true;
        };
        self.reads_constants |= language != Language::Internal && pgweir_sql::reads_constants(source);
        self.nodes[who as usize].reads_session |= pgweir_sql::reads_session(source);
        self.source_bytes += source.len();
        if self.source_bytes > SOURCE_BYTES_MAX || self.runs.len() >= RUNS_MAX {
            self.too_much = true;
            return true;
        }
        let parameters: Vec<&[u8]> = parameters.split(|b| *b == b',').collect();
        let judged = pgweir_sql::judge_body(language, source, &parameters);
        let mut effects = SearchPath::adds_to(judged.effects, source, None);
        self.nodes[who as usize].passes |= judged.passes;
        self.nodes[who as usize].changes_tables = pgweir_sql::may_change_tables(language, source);
        if effects.intersects(Effects::SETTINGS | Effects::CODE) {
            effects |= self.keep_settings_of(source);
        }
        let mentioned = self.mention_all(who, language, source);
        if !mentioned.calls && !pgweir_sql::may_create(language, source) {
            // It calls nothing and makes no table, so it does not matter whether its search_path contains pg_temp.
            self.nodes[who as usize].read = self.nodes[who as usize].read.without(Effects::TEMPORARY);
        }
        self.nodes[who as usize].read |= with_names(effects, &mentioned, source);
        true
    }

    /// Keeps the settings that a source sets and `pg_settings` does not show. If some server cannot be asked for one of
    /// them, or they are too many, only who runs this routine is concerned: [`Effects::UNTOLD`].
    fn keep_settings_of(&mut self, source: &[u8]) -> Effects {
        let names = pgweir_sql::body_settings(source);
        let new: Vec<_> = names
            .iter()
            .filter(|name| !self.hidden.contains(name))
            .cloned()
            .collect();
        let is_asked = names.len() <= SETTINGS_OF_ONE_MAX
            && names.iter().all(|name| pgweir_sql::is_askable(name))
            && self.hidden.len() + new.len() <= SETTINGS_MAX;
        if !is_asked {
            return Effects::UNTOLD;
        }
        self.hidden.extend(new);
        Effects::NONE
    }

    /// The routine `who` runs everything that its source may mention.
    fn mention_all(&mut self, who: u32, language: Language, source: &[u8]) -> Mentioned {
        let (mut selects, mut into) = (false, false);
        let nameless = [Kind::Nameless, Kind::OthersOperator].map(|kind| self.by_oid.contains_key(&(kind, 0)));
        let (mut draws, mut calls) = (false, nameless.contains(&true));
        for word in pgweir_sql::words(source) {
            let mut folded = [0; 64];
            let folded = &mut folded[..word.len()];
            folded.copy_from_slice(word);
            folded.make_ascii_lowercase();
            draws |= matches!(&*folded, b"insert" | b"nextval");
            selects |= &*folded == b"select";
            into |= &*folded == b"into" && language != Language::Plpgsql;
            if let Some(&word) = self.by_word.get(&*folded) {
                calls = true;
                self.mentions(who, word);
            }
        }
        if let Some(&definition) = self.by_oid.get(&(Kind::Definition, 0)).filter(|_| selects && into) {
            self.mentions(who, definition);
        }
        if source.iter().any(|b| !b.is_ascii() || *b == b'"')
            && let Some(&unreadable) = self.by_word.get(&b""[..])
        {
            calls = true;
            self.mentions(who, unreadable);
        }
        calls |= self.mention_key_words(who, source);
        Mentioned { draws, calls }
    }

    /// The routine `who` runs the objects whose names are key words, where its source may use these as names. Returns
    /// whether there are any.
    fn mention_key_words(&mut self, who: u32, source: &[u8]) -> bool {
        if self.by_key_word.is_empty() {
            return false;
        }
        let used = KeyWordNames::of(source);
        let is_used = |(word, needs): &(Box<[u8]>, _)| used.may_name(word, *needs);
        let objects: Vec<u32> = self
            .by_key_word
            .iter()
            .filter(|(key, _)| is_used(key))
            .map(|(_, &node)| node)
            .collect();
        objects.iter().for_each(|&object| self.mentions(who, object));
        !objects.is_empty()
    }

    fn mentions(&mut self, who: u32, what: u32) {
        let node = &mut self.nodes[what as usize];
        if node.mentioned_by != who {
            node.mentioned_by = who;
            let on_write = false;
            self.runs.push(Run { who, what, on_write });
        }
    }
}

/// The effects of a source, in view of the names in it.
fn with_names(mut effects: Effects, mentioned: &Mentioned, source: &[u8]) -> Effects {
    if mentioned.draws && effects.intersects(Effects::SEQUENCE) {
        // A currval() in such a function usually asks for a value that the function itself has drawn. If it does not,
        // the value must not be another client's.
        effects = effects.without(Effects::SEQUENCE) | Effects::DRAWN;
    }
    if source.windows(2).any(|pair| pair == b"&\"") {
        // U&"..": letters may be escapes, so any name may be meant.
        effects |= pgweir_sql::UNREAD;
    }
    effects
}
