//! One line of an HBA file.

use crate::address::{Address, Machine};
use crate::method::{self, ClientCert, Method};
use crate::names::{self, Name};
use crate::problem::{Fault, Level, Place, Problem};
use crate::rules::{Connection, Origin};
use crate::token::{Field, Word};

/// The kind of connection that a line matches.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Kind {
    Local,
    /// TCP. `tls`: `Some(true)` only with TLS, `Some(false)` only without.
    Host {
        tls: Option<bool>,
        address: Address,
    },
}

/// A line of an HBA file.
#[derive(Clone, Debug, PartialEq)]
pub struct Rule {
    /// Its place in the files.
    pub place: Place,
    /// How clients that match must authenticate.
    pub method: Method,
    /// The certificate that they must have in addition.
    pub client_cert: ClientCert,
    kind: Kind,
    databases: Vec<Name>,
    users: Vec<Name>,
}

impl Rule {
    pub(crate) fn matches(&self, connection: &Connection<'_>, machine: &Machine) -> bool {
        let fits = match (&self.kind, connection.origin) {
            (Kind::Local, Origin::UnixSocket) => true,
            (Kind::Host { tls, address }, Origin::Tcp { peer, is_tls }) => {
                tls.is_none_or(|tls| tls == is_tls) && address.matches(peer, machine)
            }
            _ => false,
        };
        let Connection {
            database,
            user,
            is_physical_replication,
            ..
        } = *connection;
        fits && names::matches_database(&self.databases, database, user, is_physical_replication)
            && names::matches_user(&self.users, user)
    }

    /// The word by which it would match members of a role, if it has one: it matches none.
    pub(crate) fn unanswerable(&self) -> Option<&str> {
        self.databases.iter().chain(&self.users).find_map(|name| match name {
            Name::Unanswerable(word) => Some(&**word),
            _ => None,
        })
    }

    /// Whether clients that this rule would match by `word`, if members of a role were known, might enter by a later one
    /// that does not demand the same: why the file cannot be used.
    pub(crate) fn is_passed_by(&self, later: &Rule, word: &str) -> Option<Fault> {
        let meet = match (&self.kind, &later.kind) {
            (Kind::Local, Kind::Local) => true,
            (Kind::Host { tls: one, .. }, Kind::Host { tls: two, .. }) => one.is_none() || two.is_none() || one == two,
            _ => false,
        };
        let demands = |rule: &Rule| (rule.method.family(), rule.client_cert.clone());
        let is_safe = self.method == Method::Trust || later.method == Method::Reject || demands(self) == demands(later);
        (meet && !is_safe).then(|| {
            Fault::new(format!(
                "\"{word}\" cannot be used in front of {}, which does not demand the same: only servers know who is in a \
                 role",
                later.place
            ))
            .hint("name the users, or use a regular expression")
        })
    }

    /// Whether it depends on the addresses of this machine.
    pub(crate) fn asks_for_machine(&self) -> bool {
        matches!(&self.kind, Kind::Host { address, .. } if address.asks_for_machine())
    }

    /// The name of its ident map.
    pub fn map(&self) -> Option<&str> {
        match (&self.method, &self.client_cert) {
            (Method::Peer { map } | Method::Cert { map }, _) | (_, ClientCert::VerifyFull { map }) => map.as_deref(),
            _ => None,
        }
    }

    /// Reads a line. Warnings go to `problems`.
    pub(crate) fn parse(place: &Place, fields: Vec<Field>, problems: &mut Vec<Problem>) -> Result<Rule, Fault> {
        let mut fields = Columns(fields.into_iter());
        let kind = fields.one("a connection type")?;
        let tls = match kind.text.as_str() {
            "local" => None,
            "host" => Some(None),
            "hostssl" => Some(Some(true)),
            "hostnossl" => Some(Some(false)),
            other => {
                let text = format!("expected local, host, hostssl or hostnossl, got \"{other}\"");
                return Err(Fault::new(text));
            }
        };
        let each = |field: Field, read: fn(Word) -> Result<Name, Fault>| {
            field.into_iter().map(read).collect::<Result<Vec<_>, _>>()
        };
        let databases = each(fields.next("a database name")?, names::database)?;
        let users = each(fields.next("a user name")?, names::user)?;
        let kind = match tls {
            None => Kind::Local,
            Some(tls) => {
                let address = fields.one("an address")?;
                let mask = fields.peek().filter(|_| !address.text.contains('/'));
                let (address, used) = Address::parse(&address, mask)?;
                if used {
                    fields.next("a mask")?;
                }
                Kind::Host { tls, address }
            }
        };
        let method = fields.one("an authentication method")?;
        let options: Vec<String> = fields.0.flatten().map(|word| word.text).collect();
        let is_tls_only = matches!(kind, Kind::Host { tls: Some(true), .. });
        let (method, client_cert) = method::parse(&method.text, &options, is_tls_only)?;
        if matches!(method, Method::Peer { .. }) && kind != Kind::Local {
            return Err(Fault::new("peer authentication is only supported on local sockets"));
        }
        unanswerable(place, &databases, &users, &method, problems)?;
        Ok(Rule {
            place: place.clone(),
            method,
            client_cert,
            kind,
            databases,
            users,
        })
    }
}

/// A role's members match no line, because only servers know them. In a line that lets clients in, this is a warning;
/// in one that rejects them, an error.
fn unanswerable(
    place: &Place,
    databases: &[Name],
    users: &[Name],
    method: &Method,
    problems: &mut Vec<Problem>,
) -> Result<(), Fault> {
    for name in databases.iter().chain(users) {
        let Name::Unanswerable(word) = name else { continue };
        if *method == Method::Reject {
            let fault = Fault::new(format!(
                "\"{word}\" cannot be used in a line that rejects: only servers know who is in a role"
            ));
            return Err(fault.hint("name the users, or use a regular expression"));
        }
        let fault = Fault::new(format!("\"{word}\" matches nobody: only servers know who is in a role"));
        problems.push(
            fault
                .hint("name the users, or use a regular expression")
                .at(place, Level::Warning),
        );
    }
    Ok(())
}

/// The columns of a line that remain to be read.
struct Columns(std::vec::IntoIter<Field>);

impl Columns {
    fn next(&mut self, what: &str) -> Result<Field, Fault> {
        match self.0.next() {
            // If the file after `@` is empty the column has no words, and matches no client.
            Some(field) => Ok(field),
            None => Err(Fault::new(format!("expected {what}, got the end of the line"))),
        }
    }

    fn one(&mut self, what: &str) -> Result<Word, Fault> {
        let mut words = self.next(what)?.into_iter();
        match (words.next(), words.next()) {
            (Some(word), None) => Ok(word),
            (None, _) => Err(Fault::new(format!("expected {what}, got nothing"))),
            (_, Some(_)) => Err(Fault::new(format!("expected {what}, got a list"))),
        }
    }

    fn peek(&self) -> Option<&Word> {
        self.0.as_slice().first()?.first()
    }
}
