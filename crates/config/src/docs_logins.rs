//! The chapters of the documentation about HBA files and LDAP.

/// Host-based authentication.
pub(crate) const HBA: &str = "\
With `auth_type = hba`, the first line of `auth_hba_file` that matches a connection says how its client must authenticate. \
If no line matches, the client gets the error `no authentication method is found`. The format is that of PostgreSQL 16's pg_hba.conf:

- Each line is a type (`local` for Unix sockets, `host` for TCP, `hostssl` for TCP with TLS, `hostnossl` for TCP without, `hostnogssenc` for TCP, `hostgssenc` for no connection: GSSAPI is not supported), \
databases, users, for TCP an address, a method, and the method's options.
- Databases and users are lists separated by commas. `all` means all, `sameuser` the database with the user's name, \
`replication` physical replication connections, and `@file` the words of a file next to this one. A keyword in quotes is a name. A word that begins with a slash is a regular expression, in [most of PostgreSQL's syntax](differences.md). `+role` in the column of users \
means the members of a role, and `samerole` (or `samegroup`) in that of databases the members of the role with the database's name: see below.
- An address is `all`, `samehost`, `samenet`, a network such as `10.0.0.0/8` or `2001:db8::/32`, or an address and a mask. Bits outside the mask do not count, as in PostgreSQL; in PgBouncer a line that has some matches nobody. \
The addresses of the machine are those that it has when the client connects.
- `include FILE` and `include_if_exists FILE` read other files at that point. A backslash at the end of a line continues it.

Only PostgreSQL knows the members of a role. So where such a line may decide about a client, the pooler asks before it chooses a line, as it asks by \
`auth_query`: as `auth_user`, in `auth_dbname` or the database that the client asks for. Any role may ask. Members of members count, those without INHERIT \
too, and the role itself; a superuser is not a member of every role. The answer is not kept for other logins. A client is refused, as if no line matched, if \
the server does not answer, or if there is no `auth_user` for its database; the log has the reason. Lines in front of the one for a role still decide. For clients of the \
console nobody can answer unless section [pgbouncer] has both `auth_user` and `auth_dbname`, so put the line for database `pgbouncer` first. `pgweir check` names the databases \
whose clients would be refused. Without any `auth_user`, lines for roles match no client: `pgweir check` warns of them, and they are an error in a line that \
rejects, and in front of a line by which the members could enter with another proof than theirs.

The methods are:

- `trust`, without a question (but the user must be in `auth_file` or found by `auth_query`), and `reject`;
- `scram-sha-256`, `md5` and `password` (in clear text), as the values of `auth_type`;
- `peer`, for `local`: the system user at the other end of the socket must have the user's name, or be mapped to it by `map=`;
- `cert`, for `hostssl`: the common name of the client's verified certificate must be the user's name, or be mapped to it;
- `ldap`, with the options below;
- `pam`, with `pamservice=` for another service than `pgbouncer`.

On `hostssl` lines `clientcert=verify-ca` demands a verified certificate in addition to the method, and `clientcert=verify-full` \
one with the user's name.

A file with a bad line is refused as a whole. PgBouncer ignores bad lines, which may let in a client that the line was to reject.
";

/// LDAP.
pub(crate) const LDAP: &str = "\
The options of method `ldap` are PostgreSQL's, in HBA files and in `auth_ldap_options`:

- `ldapserver` (several are separated by blanks, and tried in turn), `ldapport`, `ldapscheme` (`ldap` or `ldaps`), `ldaptls=1` \
for StartTLS. Certificates are checked against those of the system, of `LDAPTLS_CACERT` in the environment, and of \
`TLS_CACERT` in `/etc/ldap/ldap.conf`.
- Simple bind: the name is `ldapprefix`, the user's name, `ldapsuffix`.
- Search and bind: `ldapbasedn`, and `ldapsearchattribute` (`uid` if it is not given) or `ldapsearchfilter`, in which \
`$username` stands for the user's name; `ldapbinddn` and `ldapbindpasswd` for the search.
- `ldapurl=ldap[s]://host[:port]/basedn[?attribute[?scope[?filter]]]` gives the same options in one text.

The user's name is always escaped. Empty passwords are refused, because a directory would take them for an anonymous bind. \
A password that the directory has accepted is also used to log in to servers that ask for one.

What a directory answers is checked before it is read. A message that is longer than 64 kB or nested deeper than 16 levels, or more than 32 \
messages for one login, refuse the login, as if the directory could not be reached. The log tells which limit it was.
";
