//! libpq's connection strings and URIs (PostgreSQL manual, "Connection Strings"). Pure: text in, parameters out.

use super::keywords;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Parameters by libpq's names. One that is set to nothing is here, too: it stands before the environment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Parameters(BTreeMap<&'static str, String>);

impl Parameters {
    /// Reads `postgresql://...`, `postgres://...` or `keyword=value ...`; text without `=` is the name of a database,
    /// as the programs of PostgreSQL have it.
    pub fn parse(text: &str) -> Result<Self, String> {
        if let Some(rest) = text
            .strip_prefix("postgresql://")
            .or_else(|| text.strip_prefix("postgres://"))
        {
            return parse_uri(rest);
        }
        if text.contains('=') {
            return parse_words(text);
        }
        let mut parameters = Parameters::default();
        if !text.is_empty() {
            parameters.set("dbname", text)?;
        }
        Ok(parameters)
    }

    /// The value, where there is one that is not empty.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// Whether it is given, empty or not.
    pub fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// Sets a parameter that libpq knows.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        let known = keywords::find(name).ok_or_else(|| format!("invalid connection option \"{name}\""))?;
        self.0.insert(known, value.to_owned());
        Ok(())
    }

    /// Takes one away.
    pub fn remove(&mut self, name: &str) -> Option<String> {
        self.0.remove(name)
    }

    /// All of them, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.0.iter().map(|(name, value)| (*name, value.as_str()))
    }

    /// As a connection string that libpq reads back to the same parameters.
    pub fn to_words(&self) -> String {
        let mut text = String::new();
        for (name, value) in self.iter() {
            let quoted = value.replace('\\', "\\\\").replace('\'', "\\'");
            let space = if text.is_empty() { "" } else { " " };
            let plain = !value.is_empty() && !quoted.contains(['\\', ' ', '\t', '\n', '\r', '=']);
            let quote = if plain { "" } else { "'" };
            let _ = write!(text, "{space}{name}={quote}{quoted}{quote}");
        }
        text
    }
}

/// `keyword = 'value with \' and \\' ...`
fn parse_words(text: &str) -> Result<Parameters, String> {
    let mut parameters = Parameters::default();
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        let end = rest
            .find(|c: char| c == '=' || c.is_ascii_whitespace())
            .unwrap_or(rest.len());
        let name = &rest[..end];
        rest = rest[end..]
            .trim_start()
            .strip_prefix('=')
            .ok_or_else(|| format!("missing \"=\" after \"{name}\" in connection info string"))?
            .trim_start();
        let (value, after) = word(rest)?;
        parameters.set(name, &value)?;
        rest = after.trim_start();
    }
    Ok(parameters)
}

/// A value, quoted or not, and what follows it.
fn word(text: &str) -> Result<(String, &str), String> {
    let (body, quoted) = match text.strip_prefix('\'') {
        Some(body) => (body, true),
        None => (text, false),
    };
    let mut value = String::new();
    let mut characters = body.char_indices();
    while let Some((at, c)) = characters.next() {
        match c {
            '\\' => value.extend(characters.next().map(|(_, escaped)| escaped)),
            '\'' if quoted => return Ok((value, &body[at + 1..])),
            c if !quoted && c.is_ascii_whitespace() => return Ok((value, &body[at..])),
            c => value.push(c),
        }
    }
    if quoted {
        Err("unterminated quoted string in connection info string".to_owned())
    } else {
        Ok((value, ""))
    }
}

/// What follows the scheme: `[user[:password]@][host[:port],...][/dbname][?name=value&...]`
fn parse_uri(rest: &str) -> Result<Parameters, String> {
    let mut parameters = Parameters::default();
    let (before_query, query) = match rest.split_once('?') {
        Some((before, query)) => (before, query),
        None => (rest, ""),
    };
    let (authority, database) = match before_query.split_once('/') {
        Some((authority, database)) => (authority, Some(database)),
        None => (before_query, None),
    };
    let hosts = match authority.split_once('@') {
        Some((login, hosts)) => {
            let (user, password) = match login.split_once(':') {
                Some((user, password)) => (user, Some(password)),
                None => (login, None),
            };
            set_decoded(&mut parameters, "user", user)?;
            if let Some(password) = password {
                set_decoded(&mut parameters, "password", password)?;
            }
            hosts
        }
        None => authority,
    };
    set_hosts(&mut parameters, hosts)?;
    if let Some(database) = database {
        set_decoded(&mut parameters, "dbname", database)?;
    }
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair
            .split_once('=')
            .ok_or_else(|| format!("missing key/value separator \"=\" in URI query parameter: \"{pair}\""))?;
        if value.contains('=') {
            return Err(format!(
                "extra key/value separator \"=\" in URI query parameter: \"{name}\""
            ));
        }
        let (name, value) = (decode(name)?, decode(value)?);
        // What JDBC calls it (fe-connect.c, conninfo_uri_parse_params).
        match (name.as_str(), value.as_str()) {
            ("ssl", "true") => parameters.set("sslmode", "require")?,
            _ => parameters
                .set(&name, &value)
                .map_err(|_| format!("invalid URI query parameter: \"{name}\""))?,
        }
    }
    Ok(parameters)
}

fn set_hosts(parameters: &mut Parameters, text: &str) -> Result<(), String> {
    if text.is_empty() {
        return Ok(());
    }
    let (mut hosts, mut ports) = (Vec::new(), Vec::new());
    for part in text.split(',') {
        let (host, port) = match part.strip_prefix('[') {
            Some(rest) => {
                let (address, after) = rest.split_once(']').ok_or_else(|| {
                    format!(
                        "end of string reached when looking for matching \"]\" in IPv6 host address in URI: \"{text}\""
                    )
                })?;
                if address.is_empty() {
                    return Err(format!("IPv6 host address may not be empty in URI: \"{text}\""));
                }
                match after.strip_prefix(':') {
                    Some(port) => (address, port),
                    None if after.is_empty() => (address, ""),
                    None => {
                        return Err(format!(
                            "unexpected \"{after}\" after the IPv6 host address in URI: \"{text}\""
                        ));
                    }
                }
            }
            None => part.split_once(':').unwrap_or((part, "")),
        };
        hosts.push(decode(host)?);
        ports.push(decode(port)?);
    }
    if hosts.iter().any(|host| !host.is_empty()) {
        parameters.set("host", &hosts.join(","))?;
    }
    if ports.iter().any(|port| !port.is_empty()) {
        parameters.set("port", &ports.join(","))?;
    }
    Ok(())
}

fn set_decoded(parameters: &mut Parameters, name: &str, value: &str) -> Result<(), String> {
    match decode(value)? {
        value if value.is_empty() => Ok(()),
        value => parameters.set(name, &value),
    }
}

/// Undoes percent-encoding.
fn decode(text: &str) -> Result<String, String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        rest = after;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let byte = after
            .get(..2)
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .filter(|digits| digits.bytes().all(|b| b.is_ascii_hexdigit()))
            .and_then(|digits| u8::from_str_radix(digits, 16).ok())
            .ok_or_else(|| format!("invalid percent-encoded token: \"{text}\""))?;
        if byte == 0 {
            return Err(format!("forbidden value %00 in percent-encoded value: \"{text}\""));
        }
        bytes.push(byte);
        rest = &after[2..];
    }
    String::from_utf8(bytes).map_err(|_| format!("not UTF-8 in percent-encoded value: \"{text}\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Vec<(&'static str, String)> {
        let parameters = Parameters::parse(text).unwrap();
        parameters.iter().map(|(n, v)| (n, v.to_owned())).collect()
    }

    fn error(text: &str) -> String {
        Parameters::parse(text).unwrap_err()
    }

    fn is(text: &str, expected: &[(&'static str, &str)]) {
        let expected: Vec<_> = expected.iter().map(|(n, v)| (*n, (*v).to_owned())).collect();
        assert_eq!(parsed(text), expected, "{text}");
    }

    #[test]
    fn words() {
        is(
            "host=a port = 5433  dbname= shop",
            &[("dbname", "shop"), ("host", "a"), ("port", "5433")],
        );
        is(
            r"password='it\'s a \\ b' user=bob",
            &[("password", r"it's a \ b"), ("user", "bob")],
        );
        is(r"password=a\ b\'c user=", &[("password", "a b'c"), ("user", "")]);
        is("shop", &[("dbname", "shop")]);
        is("", &[]);
    }

    #[test]
    fn words_that_libpq_refuses() {
        assert_eq!(
            error("host=a what"),
            "missing \"=\" after \"what\" in connection info string"
        );
        assert_eq!(
            error("password='abc"),
            "unterminated quoted string in connection info string"
        );
        assert_eq!(error("hots=a"), "invalid connection option \"hots\"");
    }

    #[test]
    fn uris() {
        is("postgresql://", &[]);
        is(
            "postgres://localhost/mydb",
            &[("dbname", "mydb"), ("host", "localhost")],
        );
        is(
            "postgresql://us%40er:p%2Fw@h1:5433,h2,[2001:db8::1]:99/db?connect_timeout=10&application_name=my%20app",
            &[
                ("application_name", "my app"),
                ("connect_timeout", "10"),
                ("dbname", "db"),
                ("host", "h1,h2,2001:db8::1"),
                ("password", "p/w"),
                ("port", "5433,,99"),
                ("user", "us@er"),
            ],
        );
        is(
            "postgresql://%2Fvar%2Frun/db",
            &[("dbname", "db"), ("host", "/var/run")],
        );
        is(
            "postgresql:///db?host=/tmp&ssl=true",
            &[("dbname", "db"), ("host", "/tmp"), ("sslmode", "require")],
        );
    }

    #[test]
    fn uris_that_libpq_refuses() {
        assert_eq!(
            error("postgres://h/db?nothing=1"),
            "invalid URI query parameter: \"nothing\""
        );
        assert!(error("postgres://h/db?user").starts_with("missing key/value separator \"=\""));
        assert!(error("postgres://a%zz/").starts_with("invalid percent-encoded token"));
        assert!(error("postgres://a%00/").starts_with("forbidden value %00"));
        assert!(error("postgres://[::1/db").contains("matching \"]\""));
    }

    #[test]
    fn what_is_written_is_read_back() {
        let mut parameters = Parameters::default();
        for (name, value) in [
            ("password", r"a'b\c d="),
            ("host", "/tmp"),
            ("options", ""),
            ("user", "böb"),
        ] {
            parameters.set(name, value).unwrap();
        }
        assert_eq!(Parameters::parse(&parameters.to_words()).unwrap(), parameters);
    }
}
