//! One line of an HBA file.

use crate::address::{Address, Machine};
use crate::method::{self, ClientCert, Method};
use crate::names::{self, IsMember, Match, Name};
use crate::problem::{Fault, Level, Place, Problem};
use crate::rules::{Connection, Origin};
use crate::token::{Field, Word};

const INSTEAD_OF_ROLES: &str = "set auth_user, name the users, or use a regular expression";

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
    pub(crate) fn matches<'a>(
        &'a self,
        connection: &Connection<'a>,
        machine: &Machine,
        is_member: IsMember<'_>,
    ) -> Match<'a> {
        let fits = match (&self.kind, connection.origin) {
            (Kind::Local, Origin::UnixSocket) => true,
            (Kind::Host { tls, address }, Origin::Tcp { peer, is_tls }) => {
                tls.is_none_or(|tls| tls == is_tls) && address.matches(peer, machine)
            }
            _ => false,
        };
        if !fits {
            return Match::No;
        }
        names::match_database(&self.databases, connection, is_member).and(names::match_user(
            &self.users,
            connection.user,
            is_member,
        ))
    }

    /// The word by which it matches the members of a role, if it has one.
    pub fn word_for_role(&self) -> Option<String> {
        self.databases.iter().chain(&self.users).find_map(|name| match name {
            Name::Members(role) => Some(format!("+{role}")),
            Name::SameRole => Some("samerole".into()),
            _ => None,
        })
    }

    /// Whether it may match clients of this database.
    pub(crate) fn may_match_database(&self, database: &str) -> bool {
        names::may_match_database(&self.databases, database)
    }

    /// Whether it names this database.
    pub(crate) fn names_database(&self, database: &str) -> bool {
        let is_it = |name: &Name| matches!(name, Name::Exact(exact) if exact == database);
        self.databases.iter().any(is_it)
    }

    /// What is wrong with a line for the members of a role, if nobody can tell who they are: the line matches no client.
    /// In a line that lets clients in, this is a warning; in one that rejects them, an error.
    pub(crate) fn matches_nobody(&self, word: &str) -> Problem {
        let (level, what) = match self.method {
            Method::Reject => (Level::Error, "cannot be used in a line that rejects"),
            _ => (Level::Warning, "matches nobody"),
        };
        Fault::new(format!(
            "\"{word}\" {what}: only servers know who is in a role, and there is no auth_user to ask them"
        ))
        .hint(INSTEAD_OF_ROLES)
        .at(&self.place, level)
    }

    /// Whether clients that this rule would match by `word`, if members of a role were known, might enter by a later one
    /// that does not demand the same: why the file cannot be used without an auth_user.
    pub(crate) fn is_passed_by(&self, later: &Rule, word: &str) -> Option<Problem> {
        let meet = match (&self.kind, &later.kind) {
            (Kind::Local, Kind::Local) => true,
            (Kind::Host { tls: one, .. }, Kind::Host { tls: two, .. }) => one.is_none() || two.is_none() || one == two,
            _ => false,
        };
        let demands = |rule: &Rule| (rule.method.family(), rule.client_cert.clone());
        let is_safe = self.method == Method::Trust || later.method == Method::Reject || demands(self) == demands(later);
        (meet && !is_safe).then(|| {
            let text = format!(
                "\"{word}\" cannot be used in front of {}, which does not demand the same: only servers know who is in a \
                 role, and there is no auth_user to ask them",
                later.place
            );
            Fault::new(text).hint(INSTEAD_OF_ROLES).at(&self.place, Level::Error)
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

    /// Reads a line. Warnings go to `problems`. `None`: the line matches no connection.
    pub(crate) fn parse(place: &Place, fields: Vec<Field>, problems: &mut Vec<Problem>) -> Result<Option<Rule>, Fault> {
        let mut fields = Columns(fields.into_iter());
        let kind = fields.one("a connection type")?;
        let is_for_gssapi = kind.text == "hostgssenc";
        let tls = match kind.text.as_str() {
            "local" => None,
            // Encryption by GSSAPI is refused to every client.
            "host" | "hostnogssenc" | "hostgssenc" => Some(None),
            "hostssl" => Some(Some(true)),
            "hostnossl" => Some(Some(false)),
            other => {
                let text =
                    format!("expected local, host, hostssl, hostnossl, hostgssenc or hostnogssenc, got \"{other}\"");
                return Err(Fault::new(text));
            }
        };
        let each = |field: Field, read: fn(Word) -> Result<Name, Fault>| {
            field.into_iter().map(read).collect::<Result<Vec<_>, _>>()
        };
        let databases = fields.next("a database name")?;
        problems.extend(databases.iter().filter_map(|word| plus_of_database(place, word)));
        let databases = each(databases, names::database)?;
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
                problems.extend(address.bits_outside_mask().map(|fault| fault.at(place, Level::Warning)));
                Kind::Host { tls, address }
            }
        };
        let method = fields.one("an authentication method")?;
        if is_for_gssapi {
            let fault = Fault::new("this line matches no connection: encryption by GSSAPI is not supported");
            problems.push(fault.at(place, Level::Warning));
            return Ok(None);
        }
        let options: Vec<String> = fields.0.flatten().map(|word| word.text).collect();
        let is_tls_only = matches!(kind, Kind::Host { tls: Some(true), .. });
        let (method, client_cert) = method::parse(&method.text, &options, is_tls_only)?;
        if matches!(method, Method::Peer { .. }) && kind != Kind::Local {
            return Err(Fault::new("peer authentication is only supported on local sockets"));
        }
        Ok(Some(Rule {
            place: place.clone(),
            method,
            client_cert,
            kind,
            databases,
            users,
        }))
    }
}

/// In PostgreSQL, `+` has no meaning in the database column.
fn plus_of_database(place: &Place, word: &Word) -> Option<Problem> {
    word.behind('+')?;
    let fault = Fault::new(format!("\"{}\" is taken for the name of a database", word.text));
    let fault =
        fault.hint("only the column of users can name the members of a role by +; put the name in quotes if it is one");
    Some(fault.at(place, Level::Warning))
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
