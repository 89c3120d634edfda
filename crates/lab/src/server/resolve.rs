//! From what was given, the environment and the files beside it to the parameters of a connection, as libpq does it
//! (PostgreSQL manual, "Connection Control Functions", "The Connection Service File", "The Password File").
//! Pure: environment and files are arguments.

use super::conninfo::Parameters;
use super::keywords::KEYWORDS;
use std::path::{Path, PathBuf};

/// What libpq looks at beside the connection string.
pub struct Surroundings<'a> {
    /// An environment variable.
    pub variable: &'a dyn Fn(&str) -> Option<String>,
    /// The text of a file; `None` where there is none that may be read.
    pub file: &'a dyn Fn(&Path) -> Option<String>,
    /// The home folder.
    pub home: Option<PathBuf>,
    /// Who runs this, the user where no other is named.
    pub system_user: Option<String>,
    /// The folder of the local server's socket, where no host is named; `None`: localhost.
    pub socket_folder: Option<String>,
}

/// Where the service file of all users is, where `PGSYSCONFDIR` does not say so (Debian's packages).
const SYSTEM_CONFIGURATION_FOLDER: &str = "/etc/postgresql-common";

/// Adds what `given` leaves open: the service, the environment, the defaults, the password file.
pub fn resolve(given: &Parameters, around: &Surroundings<'_>) -> Result<Parameters, String> {
    let mut resolved = given.clone();
    let variable = |name: &str| (around.variable)(name).filter(|value| !value.is_empty());
    if let Some(service) = given
        .get("service")
        .map(str::to_owned)
        .or_else(|| variable("PGSERVICE"))
    {
        add_service(&mut resolved, &service, around)?;
    }
    for (name, environment, default) in KEYWORDS {
        if resolved.has(name) {
            continue;
        }
        let value = Some(environment).filter(|e| !e.is_empty()).and_then(variable);
        if let Some(value) = value.or_else(|| Some(default.to_owned()).filter(|d| !d.is_empty())) {
            resolved.set(name, &value)?;
        }
    }
    if resolved.get("user").is_none() {
        let user = around.system_user.as_deref();
        resolved.set("user", user.ok_or("could not find out who you are: name a user")?)?;
    }
    if resolved.get("dbname").is_none() {
        let user = resolved.get("user").unwrap_or_default().to_owned();
        resolved.set("dbname", &user)?;
    }
    if resolved.get("host").is_none() && resolved.get("hostaddr").is_none() {
        resolved.set("host", around.socket_folder.as_deref().unwrap_or("localhost"))?;
    }
    if resolved.get("password").is_none()
        && let Some(password) = password_from_file(&resolved, around)
    {
        resolved.set("password", &password)?;
    }
    Ok(resolved)
}

/// Adds the parameters of a service that are not given themselves.
fn add_service(parameters: &mut Parameters, service: &str, around: &Surroundings<'_>) -> Result<(), String> {
    let variable = |name: &str| (around.variable)(name).filter(|value| !value.is_empty());
    let named = parameters.get("servicefile").map(PathBuf::from);
    let named = named.or_else(|| variable("PGSERVICEFILE").map(PathBuf::from));
    if let Some(file) = &named
        && (around.file)(file).is_none()
    {
        return Err(format!("service file \"{}\" not found", file.display()));
    }
    let of_user = named.or_else(|| Some(around.home.as_ref()?.join(".pg_service.conf")));
    let system = variable("PGSYSCONFDIR").unwrap_or_else(|| SYSTEM_CONFIGURATION_FOLDER.to_owned());
    let of_system = Path::new(&system).join("pg_service.conf");
    for file in of_user.into_iter().chain([of_system]) {
        let Some(text) = (around.file)(&file) else { continue };
        if let Some(found) = service_in(&text, service).map_err(|why| format!("{}, in {}", why, file.display()))? {
            for (name, value) in found {
                if !parameters.has(&name) {
                    parameters
                        .set(&name, &value)
                        .map_err(|why| format!("{why}, in {}", file.display()))?;
                }
            }
            return Ok(());
        }
    }
    Err(format!("definition of service \"{service}\" not found"))
}

/// The lines of section `[service]`.
fn service_in(text: &str, service: &str) -> Result<Option<Vec<(String, String)>>, String> {
    let mut found: Option<Vec<(String, String)>> = None;
    for line in text.lines().map(str::trim) {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if let Some(section) = line.strip_prefix('[') {
            if found.is_some() {
                return Ok(found);
            }
            if section.strip_suffix(']') == Some(service) {
                found = Some(Vec::new());
            }
        } else if let Some(lines) = &mut found {
            let (name, value) = line
                .split_once('=')
                .ok_or_else(|| format!("syntax error in service \"{service}\": \"{line}\""))?;
            if name == "service" {
                return Err("nested service specifications not supported".to_owned());
            }
            lines.push((name.to_owned(), value.to_owned()));
        }
    }
    Ok(found)
}

/// The password of the first line of the password file that fits; of the first host, where there are several.
fn password_from_file(parameters: &Parameters, around: &Surroundings<'_>) -> Option<String> {
    let file = match parameters.get("passfile") {
        Some(file) => PathBuf::from(file),
        None => around.home.as_ref()?.join(".pgpass"),
    };
    let text = (around.file)(&file)?;
    let first = |list: Option<&str>| {
        list.unwrap_or_default()
            .split(',')
            .next()
            .unwrap_or_default()
            .to_owned()
    };
    let host = first(parameters.get("host").or(parameters.get("hostaddr")));
    let default_folder = around.socket_folder.as_deref();
    // The default socket folder is spelled localhost in the file.
    let host = if Some(host.as_str()) == default_folder {
        "localhost".to_owned()
    } else {
        host
    };
    let wanted = [
        host.as_str(),
        &first(parameters.get("port")),
        parameters.get("dbname").unwrap_or_default(),
        parameters.get("user").unwrap_or_default(),
    ];
    text.lines().find_map(|line| password_in(line, &wanted))
}

/// `hostname:port:database:username:password`, `*` for any, `\` before a `:` or `\` that is meant.
fn password_in(line: &str, wanted: &[&str; 4]) -> Option<String> {
    if line.starts_with('#') {
        return None;
    }
    let mut fields = vec![String::new()];
    let mut any = [false; 4];
    let mut characters = line.chars();
    let mut start = line;
    while let Some(c) = characters.next() {
        let at = fields.len() - 1;
        match c {
            '\\' => fields[at].extend(characters.next()),
            ':' if at < wanted.len() => {
                any[at] = start.starts_with("*:");
                fields.push(String::new());
                start = characters.as_str();
            }
            c => fields[at].push(c),
        }
    }
    let fits = |at: usize| any[at] || fields[at] == wanted[at];
    (fields.len() == wanted.len() + 1 && (0..wanted.len()).all(fits)).then(|| fields[wanted.len()].clone())
}

#[cfg(test)]
#[path = "resolve_tests.rs"]
mod tests;
