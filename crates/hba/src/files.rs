//! Files that name other files: `include` lines and `@file` words.

use crate::problem::{Fault, Level, Place, Problem};
use crate::token::{self, Field, Line, Word};
use std::io;

/// The longest chain of files that include one another.
pub const INCLUDE_DEPTH_MAX: usize = 10;

/// The most files that one file may include, directly and indirectly.
pub const INCLUDED_FILES_MAX: usize = 200;

/// Returns the bytes of a file by its name; relative names are relative to the working directory. Any closure
/// `Fn(&str) -> io::Result<Vec<u8>>` is one.
pub trait Files {
    /// The whole content of `name`.
    fn read(&self, name: &str) -> io::Result<Vec<u8>>;
}

impl<F: Fn(&str) -> io::Result<Vec<u8>>> Files for F {
    fn read(&self, name: &str) -> io::Result<Vec<u8>> {
        self(name)
    }
}

/// The lines of a file and of the files that it includes, in order.
pub(crate) struct Reader<'a> {
    files: &'a dyn Files,
    read: usize,
    pub(crate) lines: Vec<(Place, Line)>,
    pub(crate) problems: Vec<Problem>,
}

impl<'a> Reader<'a> {
    /// `kind`: `hba` or `ident`.
    pub(crate) fn read(kind: &str, name: &str, files: &'a dyn Files) -> Reader<'a> {
        let mut reader = Reader {
            files,
            read: 0,
            lines: Vec::new(),
            problems: Vec::new(),
        };
        match files.read(name) {
            Ok(bytes) => reader.take(name, &bytes, 0),
            Err(e) => {
                let place = Place {
                    file: name.into(),
                    line: 0,
                };
                reader.fail(
                    &place,
                    Fault::new(format!("could not open {kind} config file {name}: {e}")),
                );
            }
        }
        reader
    }

    fn fail(&mut self, place: &Place, fault: Fault) {
        self.problems.push(fault.at(place, Level::Error));
    }

    fn take(&mut self, name: &str, bytes: &[u8], depth: usize) {
        let file = name.into();
        for (number, fields) in token::lines(bytes) {
            let place = Place {
                file: std::sync::Arc::clone(&file),
                line: number,
            };
            let fields = match fields {
                Ok(fields) => fields,
                Err(fault) => {
                    self.fail(&place, fault);
                    continue;
                }
            };
            match fields[0][0].text.as_str() {
                word @ ("include" | "include_if_exists") => {
                    self.include(&place, &fields, depth, word == "include_if_exists");
                }
                "include_dir" => {
                    let fault = Fault::new("include_dir is not supported");
                    self.fail(&place, fault.hint("name each file of the folder by include"));
                }
                _ => {
                    let expanded: Vec<Field> = fields.into_iter().map(|f| self.expand(&place, f, depth)).collect();
                    self.lines.push((
                        place,
                        Line {
                            number,
                            fields: expanded,
                        },
                    ));
                }
            }
        }
    }

    fn include(&mut self, place: &Place, fields: &[Field], depth: usize, may_be_absent: bool) {
        let [_, field] = fields else {
            return self.fail(place, Fault::new("expected one file name behind include"));
        };
        for word in field {
            match self.open(place, &word.text, depth) {
                Ok((name, bytes)) => self.take(&name, &bytes, depth + 1),
                Err((Some(io::ErrorKind::NotFound), _)) if may_be_absent => {}
                Err((_, fault)) => self.fail(place, fault),
            }
        }
    }

    /// A file named by a line of another one, relative to the other's folder.
    fn open(
        &mut self,
        from: &Place,
        name: &str,
        depth: usize,
    ) -> Result<(String, Vec<u8>), (Option<io::ErrorKind>, Fault)> {
        let refused = |text: String| Err((None, Fault::new(text)));
        if name.is_empty() {
            return refused("expected a file name, got nothing".into());
        }
        if depth >= INCLUDE_DEPTH_MAX {
            return refused(format!("more than {INCLUDE_DEPTH_MAX} files include one another"));
        }
        self.read += 1;
        if self.read > INCLUDED_FILES_MAX {
            return refused(format!("more than {INCLUDED_FILES_MAX} files are included"));
        }
        let name = match from.file.rfind('/') {
            Some(slash) if !name.starts_with('/') => format!("{}{name}", &from.file[..=slash]),
            _ => name.to_owned(),
        };
        match self.files.read(&name) {
            Ok(bytes) => Ok((name, bytes)),
            Err(e) => Err((
                Some(e.kind()),
                Fault::new(format!("could not read file \"{name}\": {e}")),
            )),
        }
    }

    /// Replaces `@file` words by the words of the file.
    fn expand(&mut self, place: &Place, field: Field, depth: usize) -> Field {
        let mut words = Vec::new();
        for word in field {
            match word.behind('@') {
                None => words.push(word),
                Some(name) => match self.open(place, name, depth) {
                    Ok((name, bytes)) => words.extend(self.words(&name, &bytes, depth + 1)),
                    Err((_, fault)) => self.fail(place, fault),
                },
            }
        }
        words
    }

    fn words(&mut self, name: &str, bytes: &[u8], depth: usize) -> Vec<Word> {
        let mut words = Vec::new();
        for (number, fields) in token::lines(bytes) {
            let place = Place {
                file: name.into(),
                line: number,
            };
            match fields {
                Ok(fields) => {
                    for field in fields {
                        words.extend(self.expand(&place, field, depth));
                    }
                }
                Err(fault) => self.fail(&place, fault),
            }
        }
        words
    }
}
