//! From files to a [`Config`] and a list of problems.

use std::sync::Arc;

use crate::auth_file;
use crate::catalogue::{CATALOGUE, GlobalSettings};
use crate::config::{CONSOLE_DATABASE, Config};
use crate::database::{self, DatabaseSettings};
use crate::file_source::FileSource;
use crate::ini::{self, Entry};
use crate::line_key::{Findings, bad_value, read_line, suggest};
use crate::peer::{self, PEER_ID_ACCEPTED_MAX, PEER_ID_MAX, PeerLine, PeerSettings};
use crate::places::Places;
use crate::problem::{Place, Problem, Severity};
use crate::setting::Setting;
use crate::user::{self, UserSettings};
use crate::value::Kind;
use crate::{checks, idle_files, login_files, number};

/// A configuration that can be used.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// The settings.
    pub config: Config,
    /// Warnings for the author of the files, in the order of the files.
    pub warnings: Vec<Problem>,
}

const SECTIONS: [&str; 4] = ["pgbouncer", "databases", "users", "peers"];

/// Reads the configuration file `path`, its includes and its `auth_file` through `files`.
///
/// All problems are found in one pass. If one of them is an error, the whole list is returned, including warnings;
/// otherwise the warnings are returned together with the configuration. `conffile` is set to `path` unless the file
/// names another one.
pub fn load(path: &str, files: &dyn FileSource) -> Result<Loaded, Vec<Problem>> {
    let ini = ini::read(path, files);
    if ini.sections.is_empty() && ini.entries.is_empty() && !ini.problems.is_empty() {
        // Nothing could be read, so what seems to be missing is no further problem.
        return Err(ini.problems);
    }
    let mut loader = Loader {
        problems: ini.problems,
        ..Loader::default()
    };
    for (section, place) in &ini.sections {
        loader.section(section, place);
    }
    if !ini.sections.iter().any(|(section, _)| &**section == "pgbouncer") {
        let missing = Problem::error(&Place::file(path), "main section missing from config file");
        let hint = "settings stand below a line [pgbouncer]; without one, the file may have been cut off";
        loader.problems.push(missing.hint(hint));
    }
    for entry in ini.entries {
        loader.entry(&entry);
    }
    loader.config.read_from = path.to_string();
    loader.config.global.conffile.get_or_insert_with(|| path.to_string());
    loader.auth_file(files);
    login_files::read(&mut loader.config, files, &loader.places, &mut loader.problems);
    idle_files::read(&mut loader.config, files, &loader.places, &mut loader.problems);
    sort(&mut loader.problems, path);
    // Problems of the configuration as a whole come last, because they may be caused by a line that could not be read.
    let causes = loader.problems.len();
    checks::check(&loader.config, &loader.places, &Place::file(path), &mut loader.problems);
    sort(&mut loader.problems[causes..], path);
    loader.finish()
}

/// The settings in a file that [`load`] refuses, as far as they can be read: they say where its problems are logged.
pub fn settings_as_far_as_read(path: &str, files: &dyn FileSource) -> GlobalSettings {
    let mut loader = Loader::default();
    let ini = ini::read(path, files);
    for entry in ini.entries.iter().filter(|entry| &*entry.section == "pgbouncer") {
        loader.setting(entry);
    }
    loader.config.global
}

/// Sorts problems by place, the main file first. The sort is stable, so the problems of a line stay in the order in which
/// they were found.
fn sort(problems: &mut [Problem], main_file: &str) {
    problems.sort_by_key(|problem| (&*problem.place.file != main_file, problem.place.clone()));
}

#[derive(Default)]
struct Loader {
    config: Config,
    places: Places,
    problems: Vec<Problem>,
}

impl Loader {
    fn section(&mut self, name: &Arc<str>, place: &Place) {
        if &**name == "databases" {
            self.places.databases_section.get_or_insert_with(|| place.clone());
        }
        if !SECTIONS.contains(&&**name) {
            let hint = suggest(name, SECTIONS)
                .unwrap_or_else(|| "the sections are [pgbouncer], [databases], [users] and [peers]".into());
            self.problems
                .push(Problem::error(place, format!("invalid section \"{name}\" in configuration")).hint(hint));
        }
    }

    fn entry(&mut self, entry: &Entry) {
        match &*entry.section {
            "pgbouncer" => self.setting(entry),
            "databases" => self.database(entry),
            "users" => self.user(entry),
            "peers" => self.peer(entry),
            // The unknown section has been reported as a whole.
            _ => {}
        }
    }

    fn setting(&mut self, entry: &Entry) {
        let Some(setting) = Setting::find(&entry.name) else {
            let hint =
                misplaced(&entry.name, &entry.value).or_else(|| suggest(&entry.name, CATALOGUE.iter().map(|s| s.name)));
            let message = format!("unknown parameter: pgbouncer/{}", entry.name);
            return self
                .problems
                .push(Problem::error(&entry.place, message).maybe_hint(hint));
        };
        self.note_twice(
            &format!("setting \"{}\"", entry.name),
            self.places.settings.get(setting.name).cloned(),
            entry,
        );
        self.places.settings.insert(setting.name, entry.place.clone());
        let place = entry.place.at_column(entry.value_column);
        match (setting.set)(&mut self.config.global, &entry.value) {
            Ok(()) => {
                self.config.named.insert(setting.name);
                if setting.kind == Kind::Integer && number::integer(&entry.value).is_ok_and(|value| value < 0) {
                    let message = format!("{}: a negative number is read as 0", entry.name);
                    self.problems.push(Problem::warning(&place, message));
                }
            }
            Err(mismatch) => self
                .problems
                .push(bad_value(&place, &entry.name, &entry.value, mismatch)),
        }
    }

    fn database(&mut self, entry: &Entry) {
        let name = entry.name.as_str();
        if name == CONSOLE_DATABASE {
            let message = format!("database name \"{CONSOLE_DATABASE}\" is reserved for the admin console");
            let hint = "give the entry another name and write dbname=pgbouncer in it";
            return self.problems.push(Problem::error(&entry.place, message).hint(hint));
        }
        let what = format!("database \"{name}\"");
        self.note_twice(&what, self.places.databases.get(name).cloned(), entry);
        self.places.databases.insert(name.to_string(), entry.place.clone());
        let mut settings = DatabaseSettings::new(name);
        let at = (&entry.place, entry.value_column);
        read_line(
            &mut settings,
            database::KEYS,
            &entry.value,
            &what,
            at,
            &mut self.findings(),
        );
        if name == "*" {
            self.config.autodb = Some(settings);
        } else {
            self.config.databases.insert(name.to_string(), settings);
        }
    }

    fn user(&mut self, entry: &Entry) {
        let what = format!("user \"{}\"", entry.name);
        self.note_twice(&what, self.places.users.get(&entry.name).cloned(), entry);
        self.places.users.insert(entry.name.clone(), entry.place.clone());
        let mut settings = UserSettings::default();
        let at = (&entry.place, entry.value_column);
        read_line(&mut settings, user::KEYS, &entry.value, &what, at, &mut self.findings());
        self.config.users.insert(entry.name.clone(), settings);
    }

    fn peer(&mut self, entry: &Entry) {
        let what = format!("peer \"{}\"", entry.name);
        let digits = entry.name.bytes().all(|b| b.is_ascii_digit());
        let id = entry
            .name
            .parse()
            .ok()
            .filter(|id| digits && (1..=PEER_ID_ACCEPTED_MAX).contains(id));
        let Some(id) = id else {
            let message = format!(
                "ids of peers must be a number larger than 0 and at most {PEER_ID_MAX}, got \"{}\"",
                entry.name
            );
            return self.problems.push(Problem::error(&entry.place, message));
        };
        self.note_twice(&what, self.places.peers.get(&id).cloned(), entry);
        self.places.peers.insert(id, entry.place.clone());
        let mut line = PeerLine::default();
        let at = (&entry.place, entry.value_column);
        let good = read_line(&mut line, peer::KEYS, &entry.value, &what, at, &mut self.findings());
        match line.host {
            Some(host) => {
                let PeerLine { port, pool_size, .. } = line;
                self.config.peers.insert(
                    id,
                    PeerSettings {
                        id,
                        host,
                        port,
                        pool_size,
                    },
                );
            }
            None if good => self
                .problems
                .push(Problem::error(&entry.place, format!("{what} has no host"))),
            None => {}
        }
    }

    fn findings(&mut self) -> Findings<'_> {
        Findings {
            problems: &mut self.problems,
            inherited: &mut self.places.inherited,
        }
    }

    fn note_twice(&mut self, what: &str, earlier: Option<Place>, entry: &Entry) {
        if let Some(earlier) = earlier {
            let message = format!("{what} is given twice; this one counts, not the one at {earlier}");
            self.problems.push(Problem::warning(&entry.place, message));
        }
    }

    fn auth_file(&mut self, files: &dyn FileSource) {
        let Some(name) = &self.config.global.auth_file else {
            return;
        };
        match files.read(name) {
            Ok(bytes) => {
                let (users, problems) = auth_file::parse(name, &bytes);
                self.config.auth_users = users;
                self.problems.extend(problems);
            }
            Err(e) => {
                let place = self
                    .places
                    .settings
                    .get("auth_file")
                    .cloned()
                    .unwrap_or_else(|| Place::file(name));
                let problem = Problem::warning(&place, format!("could not open auth_file {name}: {e}"))
                    .hint("no user of it can log in; relative names are relative to the working directory");
                self.config.unread_files.push(problem.clone());
                self.problems.push(problem);
            }
        }
    }

    fn finish(self) -> Result<Loaded, Vec<Problem>> {
        let Loader { config, problems, .. } = self;
        if problems.iter().any(|problem| problem.severity == Severity::Error) {
            Err(problems)
        } else {
            Ok(Loaded {
                config,
                warnings: problems,
            })
        }
    }
}

/// A hint if a name that is unknown in `[pgbouncer]` belongs to another section.
fn misplaced(name: &str, value: &str) -> Option<String> {
    match name {
        _ if ["host=", "dbname="].iter().any(|key| value.starts_with(key)) => {
            Some("a database belongs in the section [databases]".into())
        }
        "pool_size" => Some("here it is called \"default_pool_size\"".into()),
        "reserve_pool" => Some("here it is called \"reserve_pool_size\"".into()),
        _ if database::KEYS.iter().any(|key| key.info.name == name) => {
            Some(format!("\"{name}=\" belongs in a line of [databases]"))
        }
        _ => None,
    }
}
