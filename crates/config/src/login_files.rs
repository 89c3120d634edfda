//! Reading `auth_hba_file`, `auth_ident_file` and `auth_ldap_options`.

use crate::choices::{AuthType, SslMode};
use crate::config::{CONSOLE_DATABASE, Config};
use crate::file_source::FileSource;
use crate::places::Places;
use crate::problem::{Place, Problem, Severity};
use pgweir_hba::{IdentMaps, LdapOptions, Level, Rules};
use std::sync::Arc;

/// Reads the files that `config` names. Unless `auth_type` is `hba`, the problems of its files are warnings, because
/// the files are not used.
pub(crate) fn read(config: &mut Config, files: &dyn FileSource, places: &Places, problems: &mut Vec<Problem>) {
    let mut found = Vec::new();
    let source = |name: &str| files.read(name);
    let hba_file = config.global.auth_hba_file.clone();
    let ident_file = config.global.auth_ident_file.clone().filter(|name| !name.is_empty());
    let mut rules = None;
    let mut maps = None;
    if !hba_file.is_empty() {
        let (read, problems) = Rules::read(&hba_file, &source);
        rules = read;
        found.extend(problems.into_iter().map(|problem| of_file(problem, "hba")));
        found.extend(rules.iter().flat_map(|rules| problems_of_roles(rules, config)));
    }
    if let Some(name) = &ident_file {
        let (read, problems) = IdentMaps::read(name, &source);
        maps = read;
        found.extend(problems.into_iter().map(|problem| of_file(problem, "ident")));
    }
    let has_maps = maps.is_some() || ident_file.is_none();
    let maps = maps.unwrap_or_default();
    if let Some(rules) = &rules
        && has_maps
    {
        found.extend(missing_maps(rules, &maps));
    }
    let is_used = config.global.auth_type == AuthType::Hba;
    let fault = found
        .iter()
        .find(|problem| problem.severity == Severity::Error)
        .cloned();
    if !is_used {
        for problem in &mut found {
            problem.severity = Severity::Warning;
        }
    }
    problems.extend(found);
    config.login_rules.hba = rules.filter(|_| fault.is_none()).map(Arc::new);
    config.login_rules.fault = fault;
    config.login_rules.ident = Arc::new(maps);
    if let Some(Err(why)) = ldap(config) {
        let place = places.settings.get("auth_ldap_options").cloned();
        let place = place.unwrap_or_else(|| Place::file("auth_ldap_options"));
        problems.push(bad_ldap(&place, &why));
    }
}

/// Reads `auth_ldap_options` again; `None` if there are none.
pub(crate) fn ldap(config: &mut Config) -> Option<Result<(), String>> {
    config.login_rules.ldap = None;
    let text = config
        .global
        .auth_ldap_options
        .as_deref()
        .filter(|text| !text.is_empty())?;
    Some(LdapOptions::parse(text).map(|options| config.login_rules.ldap = Some(Arc::new(options))))
}

pub(crate) fn bad_ldap(place: &Place, why: &str) -> Problem {
    let hint = "the options are those behind method ldap in pg_hba.conf, such as ldapserver=... ldapprefix=...";
    Problem::error(place, format!("auth_ldap_options: {why}")).hint(hint)
}

/// What `auth_type` needs and the configuration lacks: setting, message, hint.
pub(crate) fn unmet(config: &Config) -> Option<(&'static str, String, &'static str)> {
    let global = &config.global;
    match global.auth_type {
        AuthType::Hba if config.login_rules.hba.is_none() && global.auth_hba_file.is_empty() => Some((
            "auth_type",
            "auth_type = hba needs auth_hba_file".into(),
            "name a file of lines like those of pg_hba.conf",
        )),
        AuthType::Ldap if config.login_rules.ldap.is_none() && global.auth_ldap_options.is_none() => Some((
            "auth_type",
            "auth_type = ldap needs auth_ldap_options".into(),
            "set it to options such as ldapserver=... ldapprefix=...",
        )),
        AuthType::Cert if global.client_tls_sslmode != SslMode::VerifyFull => Some((
            "auth_type",
            "auth_type=cert requires client_tls_sslmode=SSLMODE_VERIFY_FULL".into(),
            "set client_tls_sslmode = verify-full; without it nobody has a certificate that was checked",
        )),
        _ => None,
    }
}

fn missing_maps(rules: &Rules, maps: &IdentMaps) -> Vec<Problem> {
    let named = rules.iter().filter_map(|rule| Some((&rule.place, rule.map()?)));
    let missing = named.filter(|(_, map)| !maps.has(map));
    missing
        .map(|(place, map)| {
            let why = format!("map \"{map}\" is not in auth_ident_file");
            Problem::error(&line(place), not_parsed("hba", place.line, &why)).hint("nobody could pass the rule")
        })
        .collect()
}

/// Where nobody can tell who is in a role.
fn problems_of_roles(rules: &Rules, config: &Config) -> Vec<Problem> {
    if !config.has_auth_user() {
        let problems = rules.problems_without_roles().into_iter();
        return problems.map(|problem| of_file(problem, "hba")).collect();
    }
    let mut silent: Vec<(&str, &str)> = config
        .databases
        .values()
        .chain(&config.autodb)
        .filter(|database| config.auth_user(database).is_none())
        .map(|database| (&*database.name, "which has no auth_user"))
        .collect();
    silent.sort_unstable();
    let global = &config.global;
    if global.auth_user.is_none() || global.auth_dbname.is_none() {
        let why = "which only auth_user and auth_dbname in [pgbouncer] can tell";
        silent.push((CONSOLE_DATABASE, why));
    }
    let refused = |(database, why): (&str, &str)| {
        let rule = rules.first_for_roles(database)?;
        let word = rule.word_for_role()?;
        let text = format!(
            "this line refuses clients of database \"{database}\": it needs to know who is in a role (\"{word}\"), {why}"
        );
        let hint = "put a line that names the database in front of it, or name the users";
        Some(Problem::warning(&line(&rule.place), text).hint(hint))
    };
    silent.into_iter().filter_map(refused).collect()
}

fn line(place: &pgweir_hba::Place) -> Place {
    Place {
        file: Arc::clone(&place.file),
        line: Some(place.line).filter(|line| *line > 0),
        column: None,
    }
}

/// What PgBouncer says of a line that it cannot use, and why that is so.
fn not_parsed(kind: &str, line: u32, why: &str) -> String {
    format!("could not parse {kind} config line {line}: {why}")
}

/// `kind`: PgBouncer's word for the file.
fn of_file(problem: pgweir_hba::Problem, kind: &str) -> Problem {
    let place = line(&problem.place);
    let hint = (!problem.hint.is_empty()).then(|| problem.hint.to_owned());
    match (problem.level, place.line) {
        (Level::Error, Some(line)) => Problem::error(&place, not_parsed(kind, line, &problem.message)).maybe_hint(hint),
        (Level::Error, None) => Problem::error(&place, problem.message).maybe_hint(hint),
        (Level::Warning, _) => Problem::warning(&place, problem.message).maybe_hint(hint),
    }
}
