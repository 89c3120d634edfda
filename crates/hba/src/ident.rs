//! Ident files: which system users, or names in certificates, may be which database users.

use crate::expression::Capture;
use crate::files::{Files, Reader};
use crate::names::{self, Pattern};
use crate::problem::{Fault, Level, Place, Problem};
use crate::token::{Field, Word};

/// The second column: a system user, or the name in a certificate.
#[derive(Clone, Debug, PartialEq)]
enum Outside {
    Exact(String),
    Regex(Pattern),
}

/// The third column: a database user.
#[derive(Clone, Debug, PartialEq)]
enum Inside {
    All,
    Exact(String),
    Regex(Pattern),
    /// `\1` stands for the text that the first group of the second column has matched. The texts stand before and behind
    /// it.
    Capture(String, FirstGroup, String),
    /// `+group`.
    Unanswerable,
}

/// Finds the text of the first group. Two are the same, because they follow from the second column.
#[derive(Clone, Debug)]
struct FirstGroup(Box<Capture>);

impl PartialEq for FirstGroup {
    fn eq(&self, _: &FirstGroup) -> bool {
        true
    }
}

#[derive(Clone, Debug, PartialEq)]
struct Entry {
    map: String,
    outside: Outside,
    inside: Inside,
}

/// The maps of an ident file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct IdentMaps {
    entries: Vec<Entry>,
}

impl IdentMaps {
    /// Reads the file `name` and the files that it includes. Returns no maps if a problem is an error.
    pub fn read(name: &str, files: &dyn Files) -> (Option<IdentMaps>, Vec<Problem>) {
        let mut reader = Reader::read("ident", name, files);
        let mut problems = std::mem::take(&mut reader.problems);
        let mut entries = Vec::new();
        for (place, line) in reader.lines {
            match entry(&place, &line.fields, &mut problems) {
                Ok(entry) => entries.push(entry),
                Err(fault) => problems.push(fault.at(&place, Level::Error)),
            }
        }
        let is_good = problems.iter().all(|problem| problem.level == Level::Warning);
        (is_good.then_some(IdentMaps { entries }), problems)
    }

    /// Whether there is a map of this name.
    pub fn has(&self, map: &str) -> bool {
        self.entries.iter().any(|entry| entry.map == map)
    }

    /// Whether `outside` (a system user, or the name in a certificate) may be database user `user`. Without a map both
    /// must be the same.
    pub fn allows(&self, map: Option<&str>, outside: &str, user: &str) -> bool {
        let Some(map) = map else {
            return outside == user;
        };
        let mut entries = self.entries.iter().filter(|entry| entry.map == map);
        entries.any(|entry| entry.allows(outside, user))
    }
}

impl Entry {
    fn allows(&self, outside: &str, user: &str) -> bool {
        let fits = match &self.outside {
            Outside::Exact(name) => name == outside,
            Outside::Regex(regex) => regex.0.is_match(outside),
        };
        if !fits {
            return false;
        }
        match &self.inside {
            Inside::All => true,
            Inside::Exact(name) => name == user,
            Inside::Regex(regex) => regex.0.is_match(user),
            // The captured text is a name only: a system user called "all" does not match every user.
            Inside::Capture(before, group, behind) => group.0.of(outside).is_some_and(|captured| {
                let rest = user
                    .strip_prefix(before.as_str())
                    .and_then(|rest| rest.strip_suffix(behind.as_str()));
                rest == Some(captured)
            }),
            Inside::Unanswerable => false,
        }
    }
}

fn entry(place: &Place, fields: &[Field], problems: &mut Vec<Problem>) -> Result<Entry, Fault> {
    let [map, outside, inside] = fields else {
        let text = format!(
            "expected three columns (map, system user, database user), got {}",
            fields.len()
        );
        return Err(Fault::new(text));
    };
    let (map, outside, inside) = (one(map)?, one(outside)?, one(inside)?);
    let outside = match outside.regex() {
        Some(text) => Outside::Regex(names::regex(text)?),
        None => Outside::Exact(outside.text.clone()),
    };
    let inside = match (inside.regex(), inside.text.split_once("\\1"), &outside) {
        (Some(text), _, _) => Inside::Regex(names::regex(text)?),
        (None, Some((before, behind)), Outside::Regex(regex)) => {
            if regex.0.captures_len() < 2 {
                let text = format!(
                    "regular expression \"{}\" has no subexpressions as requested by \"\\1\"",
                    regex.0
                );
                return Err(Fault::new(text));
            }
            let group = FirstGroup(Box::new(Capture::new(&regex.0)?));
            Inside::Capture(before.into(), group, behind.into())
        }
        _ if inside.is("all") => Inside::All,
        _ if inside.behind('+').is_some() => {
            let text = format!("\"{}\" matches nobody: only servers know who is in a role", inside.text);
            problems.push(
                Fault::new(text)
                    .hint("name the users, or use a regular expression")
                    .at(place, Level::Warning),
            );
            Inside::Unanswerable
        }
        _ => Inside::Exact(inside.text.clone()),
    };
    Ok(Entry {
        map: map.text.clone(),
        outside,
        inside,
    })
}

fn one(field: &Field) -> Result<&Word, Fault> {
    match field.as_slice() {
        [word] => Ok(word),
        _ => Err(Fault::new("expected one word in each column, got a list")),
    }
}
