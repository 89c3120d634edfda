//! LDAP URLs (RFC 4516): `ldap[s]://host[:port]/base[?attribute[?scope[?filter]]]`.

use crate::ldap::{self, Given, LdapScope};
use percent_encoding::percent_decode_str;

/// Adds the parts of a URL to the options.
pub(crate) fn read(url: &str, given: &mut Given) -> Result<(), String> {
    let Some((scheme, rest)) = url.split_once("://") else {
        return Err(format!("could not parse LDAP URL \"{url}\": expected ldap://host/base"));
    };
    given.scheme = Some(
        ldap::scheme(&scheme.to_ascii_lowercase())
            .map_err(|_| format!("unsupported LDAP URL scheme: {scheme}, expected ldap or ldaps"))?,
    );
    let (place, rest) = rest.split_once('/').unwrap_or((rest, ""));
    host(place, given)?;
    let mut parts = rest.split('?');
    let mut next = || parts.next().map(decoded).transpose().map(Option::unwrap_or_default);
    let (base, attribute, scope, filter, extensions) = (next()?, next()?, next()?, next()?, next()?);
    if !extensions.is_empty() {
        return Err("extensions in an LDAP URL are not supported".into());
    }
    given.base_dn = Some(base);
    // If there are several, PostgreSQL uses the first.
    let attribute = attribute.split(',').next().unwrap_or_default();
    given.attribute = (!attribute.is_empty()).then(|| attribute.to_owned());
    given.scope = Some(match scope.to_ascii_lowercase().as_str() {
        "" | "base" => LdapScope::Base,
        "one" => LdapScope::One,
        "sub" => LdapScope::Sub,
        _ => {
            return Err(format!(
                "invalid scope \"{scope}\" in LDAP URL, expected base, one or sub"
            ));
        }
    });
    given.filter = (!filter.is_empty()).then_some(filter);
    Ok(())
}

fn host(place: &str, given: &mut Given) -> Result<(), String> {
    let (host, port) = match place.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => (host, Some(ldap::port(port)?)),
        _ => (place, None),
    };
    if host.contains(char::is_whitespace) {
        return Err("expected one host in an LDAP URL".into());
    }
    given.port = port;
    given.server = Some(decoded(host)?).filter(|host| !host.is_empty());
    Ok(())
}

fn decoded(text: &str) -> Result<String, String> {
    let bytes = text.as_bytes();
    let is_hex = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_hexdigit);
    let percents = bytes.iter().enumerate().filter(|(_, b)| **b == b'%');
    if percents.into_iter().any(|(at, _)| !is_hex(at + 1) || !is_hex(at + 2)) {
        return Err("LDAP URL has a percent sign without two hexadecimal digits".into());
    }
    let text = percent_decode_str(text).decode_utf8();
    text.map(Into::into).map_err(|_| "LDAP URL is not valid UTF-8".into())
}
