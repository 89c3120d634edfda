//! What libpq would connect to.

use super::*;
use std::collections::HashMap;

/// Resolves `given` with this environment and these files, as user eve with home /home/eve.
fn resolved(given: &str, environment: &[(&str, &str)], files: &[(&str, &str)]) -> Result<Parameters, String> {
    let environment: HashMap<_, _> = environment.iter().copied().collect();
    let files: HashMap<_, _> = files.iter().copied().collect();
    let around = Surroundings {
        variable: &|name| environment.get(name).map(|v| (*v).to_owned()),
        file: &|path| files.get(path.to_str().unwrap()).map(|v| (*v).to_owned()),
        home: Some("/home/eve".into()),
        system_user: Some("eve".to_owned()),
        socket_folder: Some("/run/postgresql".to_owned()),
    };
    resolve(&Parameters::parse(given).unwrap(), &around)
}

fn value(given: &str, environment: &[(&str, &str)], files: &[(&str, &str)], name: &str) -> String {
    let parameters = resolved(given, environment, files).unwrap();
    parameters.get(name).unwrap_or_default().to_owned()
}

#[test]
fn defaults_are_libpqs() {
    let parameters = resolved("", &[], &[]).unwrap();
    for (name, expected) in [
        ("user", "eve"),
        ("dbname", "eve"),
        ("host", "/run/postgresql"),
        ("port", "5432"),
        ("sslmode", "prefer"),
    ] {
        assert_eq!(parameters.get(name), Some(expected), "{name}");
    }
    assert_eq!(value("user=bob", &[], &[], "dbname"), "bob");
}

#[test]
fn the_string_stands_before_the_service_before_the_environment() {
    let files = [(
        "/home/eve/.pg_service.conf",
        "# mine\n[other]\nhost=wrong\n[shop]\nhost=from-service\nport=1111\n[last]\nuser=wrong\n",
    )];
    let environment = [
        ("PGSERVICE", "shop"),
        ("PGPORT", "2222"),
        ("PGUSER", "env"),
        ("PGHOST", "env"),
    ];
    let get = |name| value("host=given", &environment, &files, name);
    assert_eq!(
        (get("host").as_str(), get("port").as_str(), get("user").as_str()),
        ("given", "1111", "env")
    );
    assert_eq!(value("service=other", &environment, &files, "host"), "wrong");
}

#[test]
fn services_that_are_not_there() {
    let error = |given, files: &[(&str, &str)]| resolved(given, &[], files).unwrap_err();
    assert_eq!(error("service=none", &[]), "definition of service \"none\" not found");
    let nested = [("/home/eve/.pg_service.conf", "[a]\nservice=b\n")];
    assert!(error("service=a", &nested).starts_with("nested service specifications not supported"));
    let unknown = [("/etc/postgresql-common/pg_service.conf", "[a]\nhots=b\n")];
    assert!(error("service=a", &unknown).starts_with("invalid connection option \"hots\", in /etc"));
}

#[test]
fn the_password_file_is_read_as_libpq_reads_it() {
    let text = "# comment\nother:*:*:*:wrong\ndb.example:5433:shop:bob:secret\\:1\n*:*:a\\:b:*:colon\n\\*:*:*:*:star\nlocalhost:*:*:*:local\n";
    let files = [("/home/eve/.pgpass", text), ("/elsewhere", "*:*:*:*:other file")];
    let password = |given| value(given, &[], &files, "password");
    assert_eq!(password("host=db.example port=5433 dbname=shop user=bob"), "secret:1");
    assert_eq!(password("host=h dbname=a:b"), "colon");
    assert_eq!(password(""), "local");
    assert_eq!(password("host=h"), "");
    assert_eq!(password("host=h password=given"), "given");
    assert_eq!(password("host=h passfile=/elsewhere"), "other file");
    assert_eq!(value("host=h", &[("PGPASSWORD", "env")], &files, "password"), "env");
}
