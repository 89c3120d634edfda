//! The documentation of the settings, made from the catalogue: `docs/settings.md` and the manual page.

use std::fmt::Write;

use crate::catalogue::CATALOGUE;
use crate::database;
use crate::docs_logins::{HBA, LDAP};
use crate::line_key::LineKey;
use crate::peer;
use crate::setting::{ChangeRule, Group, Scope, Setting, Support};
use crate::user;
use crate::value::Kind;

const INTRODUCTION: &str = "\
pgweir reads PgBouncer's configuration file. It knows every setting of PgBouncer 1.26. \
Settings that only pgweir has are marked \"pgweir's own\". A complete example is [examples/pgweir.ini](../examples/pgweir.ini).

`pgweir check FILE` reads a file and reports everything that is wrong in it, with the line and a suggestion.
";

const FILE_FORMAT: &str = "\
- The sections are `[pgbouncer]`, `[databases]`, `[users]` and `[peers]`, in any order.
- A line is `name = value`. Blanks before the name and around `=` do not count. If a name is given twice, the last value \
counts.
- A comment starts with `;` or `#` at the start of a line; later in a line both are ordinary characters.
- Put names of databases and users in double quotes if they contain characters other than letters, digits and \
`_ . - *`. Inside, `\"\"` is one quote: `\"my \"\"db\"\"\" = host=db1`.
- Yes and no are the numbers `1` and `0`. Numbers may be decimal, `0x` hexadecimal, or octal with a leading `0`.
- Times are seconds. In `[pgbouncer]` they may have a decimal point: `0.5`. In `[databases]` and `[users]` they are \
whole numbers.
- Words such as `session` may be written in any case.
- `%include FILE` reads another file at that point, up to ten files deep. Names are relative to the working directory.
- An unknown section or setting, or a value that is not allowed, stops loading; a running pooler keeps its old \
configuration.
";

const LINES: &str = "\
Lines of these sections are `name = key=value key=value ...`, separated by spaces. Put a value that contains spaces \
in single quotes; inside, `''` is one quote: `connect_query='select ''x'''`. No value may be empty. Numbers are decimal \
and whole; anything else is read as 0, as in PgBouncer, with a warning.
";

const DATABASES: &str = "\
The name is what clients ask for. `*` stands for every name that has no line of its own. `pgbouncer` is the admin \
console and cannot be used.
";

const USERS: &str = "\
Settings for one user. Users need no line here to log in: they come from `auth_file` and `auth_query`.
";

const PEERS: &str = "\
Other processes behind the same load balancer, of pgweir or PgBouncer; the name is the `peer_id`, from 1 to 16383. A cancel \
request for one of their clients is passed on to them. `server_tls_sslmode` applies to these connections, too; `allow` means no \
TLS. Each process needs an address of its own for this. If all share a port by `so_reuseport`, each needs a `unix_socket_dir`.
";

const PASSWORD_FILE: &str = "\
Each line of `auth_file` is `\"user\" \"secret\"`, both in double quotes; inside, `\"\"` is one quote. The rest of the \
line is ignored; a line that starts with `;` is a comment. The secret is one of

- the password itself,
- `md5` followed by the MD5 of password and user name, as PostgreSQL stores it,
- `SCRAM-SHA-256$<iterations>:<salt>$<StoredKey>:<ServerKey>`, as PostgreSQL stores it.

With a SCRAM verifier the pooler can check clients with `auth_type = scram-sha-256` or `md5`. It can also log in to a \
server that has the same verifier, if the client logged in by SCRAM and the database has no `user=`. An MD5 hash cannot \
be used with `auth_type = scram-sha-256`.
";

/// The text of `docs/settings.md`.
pub fn settings_markdown() -> String {
    let mut out = String::from("# Settings\n\n");
    out.push_str("<!-- Made by: cargo run -p pgweir-config --example settings_doc > docs/settings.md -->\n\n");
    out.push_str(INTRODUCTION);
    contents(&mut out);
    put(
        &mut out,
        format_args!("\n## The file\n\n{FILE_FORMAT}\n## Section [pgbouncer]\n"),
    );
    for group in Group::ALL {
        settings_section(&mut out, group);
    }
    put(&mut out, format_args!("\n## Lines of the other sections\n\n{LINES}"));
    for (title, text, keys) in line_sections() {
        keys_section(&mut out, title, text, keys);
    }
    put(&mut out, format_args!("\n## The password file\n\n{PASSWORD_FILE}"));
    put(
        &mut out,
        format_args!("\n## Host-based authentication\n\n{HBA}\n### LDAP\n\n{LDAP}"),
    );
    out
}

/// Links to all sections.
fn contents(out: &mut String) {
    out.push_str("\n- [The file](#the-file)\n- [Section [pgbouncer]](#section-pgbouncer)\n");
    for group in Group::ALL {
        put(
            out,
            format_args!("  - [{}](#{})\n", group.title(), anchor(group.title())),
        );
    }
    out.push_str(
        "- [Lines of the other sections](#lines-of-the-other-sections)\n  - [Section [databases]](#section-databases)\n  \
         - [Section [users]](#section-users)\n  - [Section [peers]](#section-peers)\n- [The password file](#the-password-file)\n\
         - [Host-based authentication](#host-based-authentication)\n  - [LDAP](#ldap)\n",
    );
}

/// The settings of a group: a table of all, and each by itself.
fn settings_section(out: &mut String, group: Group) {
    put(out, format_args!("\n### {}\n\n", group.title()));
    out.push_str("| setting | default | |\n|---|---|---|\n");
    for setting in settings_of(group) {
        let name = setting.name;
        put(
            out,
            format_args!(
                "| [`{name}`](#{name}) | {} | {} |\n",
                default_cell(setting),
                setting.help()
            ),
        );
    }
    for setting in settings_of(group) {
        put(out, format_args!("\n#### {}\n\n{}\n\n", setting.name, setting.help()));
        put(out, format_args!("*{}*\n", facts(setting)));
        if !setting.long_help.is_empty() {
            put(out, format_args!("\n{}\n", setting.long_help));
        }
        if let Some(note) = support_note(setting) {
            put(out, format_args!("\n**{note}.**\n"));
        }
    }
}

/// A section whose lines have keys of their own.
fn keys_section(out: &mut String, title: &str, text: &str, keys: Vec<LineKey>) {
    put(
        out,
        format_args!("\n### Section [{title}]\n\n{text}\n| key | value | without it | |\n|---|---|---|---|\n"),
    );
    for key in keys {
        let LineKey {
            name, default, help, ..
        } = key;
        let value = kind_text(key.kind, key.unit);
        put(
            out,
            format_args!("| <a id=\"{title}-{name}\"></a>`{name}` | {value} | {default} | {help} |\n"),
        );
    }
}

/// A manual page for section 5, in roff; `man -l` can show it.
pub fn settings_man() -> String {
    let mut out =
        String::from(".TH PGWEIR.INI 5 \"\" \"pgweir\" \"pgweir\"\n.SH NAME\npgweir.ini \\- settings of pgweir\n");
    out.push_str(".SH DESCRIPTION\n");
    roff_text(&mut out, INTRODUCTION);
    out.push_str(".SH THE FILE\n");
    roff_text(&mut out, FILE_FORMAT);
    out.push_str(".SH SECTION [pgbouncer]\n");
    for group in Group::ALL {
        put(&mut out, format_args!(".SS {}\n", group.title()));
        for setting in settings_of(group) {
            put(&mut out, format_args!(".TP\n.B {}\n", roff_line(setting.name)));
            roff_text(&mut out, setting.help());
            put(
                &mut out,
                format_args!(
                    ".sp\n.I \"{}\"\n",
                    roff_line(&plain(&facts(setting)).replace('"', "\\(dq"))
                ),
            );
            if !setting.long_help.is_empty() {
                out.push_str(".sp\n");
                roff_text(&mut out, setting.long_help);
            }
            if let Some(note) = support_note(setting) {
                out.push_str(".sp\n");
                roff_text(&mut out, &format!("{note}."));
            }
        }
    }
    out.push_str(".SH LINES OF THE OTHER SECTIONS\n");
    roff_text(&mut out, LINES);
    for (title, text, keys) in line_sections() {
        put(&mut out, format_args!(".SS Section [{title}]\n"));
        roff_text(&mut out, text);
        for key in keys {
            put(&mut out, format_args!(".TP\n.B {}\n", roff_line(key.name)));
            roff_text(&mut out, &format!("{} Without it: {}.", key.help, key.default));
        }
    }
    out.push_str(".SH THE PASSWORD FILE\n");
    roff_text(&mut out, PASSWORD_FILE);
    out.push_str(".SH HOST-BASED AUTHENTICATION\n");
    roff_text(&mut out, HBA);
    out.push_str(".SS LDAP\n");
    roff_text(&mut out, LDAP);
    out
}

fn settings_of(group: Group) -> impl Iterator<Item = &'static Setting> {
    CATALOGUE.iter().filter(move |setting| setting.group == group)
}

pub(crate) fn line_sections() -> [(&'static str, &'static str, Vec<LineKey>); 3] {
    [
        (
            "databases",
            DATABASES,
            database::KEYS.iter().map(|key| key.info).collect(),
        ),
        ("users", USERS, user::KEYS.iter().map(|key| key.info).collect()),
        ("peers", PEERS, peer::KEYS.iter().map(|key| key.info).collect()),
    ]
}

/// Writing to a `String` cannot fail.
fn put(out: &mut String, text: std::fmt::Arguments<'_>) {
    let _ = out.write_fmt(text);
}

fn default_cell(setting: &Setting) -> String {
    const CELL_BYTES_MAX: usize = 30;
    match setting.default {
        None => "unset".into(),
        Some("") => "empty".into(),
        Some(text) if text.len() > CELL_BYTES_MAX => "see below".into(),
        Some(text) => format!("`{text}`"),
    }
}

fn facts(setting: &Setting) -> String {
    let default = match setting.default {
        None => "unset".into(),
        Some("") => "empty".into(),
        Some(text) => format!("`{text}`"),
    };
    let mut facts = format!("{}; default {default}", kind_text(setting.kind, setting.unit));
    if setting.change == ChangeRule::Restart {
        facts.push_str("; needs a restart");
    }
    let places: Vec<&str> = setting.scopes.iter().filter_map(|scope| section(*scope)).collect();
    if !places.is_empty() {
        put(&mut facts, format_args!("; also in lines of {}", places.join(", ")));
    }
    facts
}

fn section(scope: Scope) -> Option<&'static str> {
    match scope {
        Scope::Global => None,
        Scope::Database => Some("[databases]"),
        Scope::User => Some("[users]"),
        Scope::Peer => Some("[peers]"),
    }
}

fn kind_text(kind: Kind, unit: &str) -> String {
    match kind {
        Kind::Choice(words) => words.join(", "),
        Kind::Integer if !unit.is_empty() => format!("whole number of {unit}"),
        Kind::Integer => "whole number".into(),
        Kind::Seconds => "number of seconds".into(),
        Kind::List => "list, separated by commas".into(),
        Kind::Flag | Kind::Text => kind.word().into(),
    }
}

fn support_note(setting: &Setting) -> Option<String> {
    match setting.support {
        Support::Full => None,
        Support::AcceptedNoEffect(reason) => Some(format!("Accepted without effect: {reason}")),
    }
}

/// The anchor that GitHub gives a heading.
fn anchor(title: &str) -> String {
    title.to_ascii_lowercase().replace(' ', "-")
}

/// Markdown without its marks.
fn plain(markdown: &str) -> String {
    markdown.replace("**", "").replace(['`', '*'], "")
}

/// One line of text as roff. It is escaped so that it cannot be read as a request.
fn roff_line(text: &str) -> String {
    let escaped = text.replace('\\', "\\e").replace('-', "\\-");
    if escaped.starts_with(['.', '\'']) {
        format!("\\&{escaped}")
    } else {
        escaped
    }
}

/// Paragraphs, lists, `code` and links of the Markdown that the help texts use.
fn roff_text(out: &mut String, markdown: &str) {
    let mut after_item = false;
    for line in markdown.trim_end().lines() {
        match line.strip_prefix("- ") {
            Some(item) => {
                put(out, format_args!(".IP \\(bu 2\n{}\n", roff_inline(item)));
                after_item = true;
            }
            None if line.is_empty() => {
                out.push_str(if after_item { ".PP\n" } else { ".sp\n" });
                after_item = false;
            }
            None => put(out, format_args!("{}\n", roff_inline(line))),
        }
    }
    if after_item {
        out.push_str(".PP\n");
    }
}

/// Code between backticks becomes bold; a link `[text](link)` becomes its text.
fn roff_inline(markdown: &str) -> String {
    let mut out = String::new();
    for (index, part) in markdown.split('`').enumerate() {
        if index % 2 == 1 {
            put(
                &mut out,
                format_args!("\\fB{}\\fR", roff_line(part).replace('*', "\\(**")),
            );
        } else {
            let mut rest = part;
            while let Some((before, link)) = rest.split_once("](") {
                let (text_start, text) = before.rsplit_once('[').unwrap_or((before, ""));
                put(
                    &mut out,
                    format_args!("{}{}", text_start.replace('-', "\\-"), text.replace('-', "\\-")),
                );
                rest = link.split_once(')').map_or("", |(_, after)| after);
            }
            out.push_str(&rest.replace('\\', "\\e").replace('-', "\\-"));
        }
    }
    if out.starts_with(['.', '\'']) {
        format!("\\&{out}")
    } else {
        out
    }
}
