//! PgBouncer's syntax and its pitfalls.

use std::time::Duration;

use pgweir_config::{AuthType, CheckQuery, Host, ListenAddress, PoolMode, PoolSize, Secret, UnixSocketDir};

use crate::support::{assert_one, config, errors, lines, load_files, load_text, sound, warnings};

#[test]
fn a_production_file_loads_whole() {
    let config = config(
        "; a comment\n[users]\nbatch = pool_mode=session max_user_connections=5\n\
         [pgbouncer]\n  listen_addr = 127.0.0.1,::1\n listen_port=6433\nauth_type = SCRAM-SHA-256\n\
         auth_file = users.txt\nadmin_users = root, admin\npool_mode = Transaction\nserver_lifetime = 0.5\n\
         ignore_startup_parameters = extra_float_digits,options\nunix_socket_mode = 0700\npidfile =\n\
         [databases]\napp = host=db1 port=5433 dbname='my db' user=u password='p''w' pool_size=7\n",
    );
    assert_eq!(config.global.listen_addr.addresses().len(), 2);
    assert!(matches!(
        config.global.listen_addr.addresses()[0],
        ListenAddress::Address(_)
    ));
    assert_eq!(
        (config.global.listen_port, config.global.unix_socket_mode),
        (6433, 0o700)
    );
    assert_eq!(
        (config.global.auth_type, config.global.pool_mode),
        (AuthType::ScramSha256, PoolMode::Transaction)
    );
    assert_eq!(config.global.server_lifetime, Duration::from_millis(500));
    assert_eq!(config.global.admin_users.items(), ["root", "admin"]);
    assert!(
        config
            .global
            .ignore_startup_parameters
            .contains_ignore_case("EXTRA_float_digits")
    );
    assert_eq!(config.global.pidfile, "");
    let app = config.database("app").unwrap();
    assert_eq!(
        (app.server_dbname(), app.port, app.pool_size),
        ("my db", 5433, Some(PoolSize::Fixed(7)))
    );
    assert_eq!(app.hosts, [Host::Name("db1".into())]);
    assert_eq!(
        (app.user.as_deref(), app.password),
        (Some("u"), Some(Secret::Plain("p'w".into())))
    );
    assert_eq!(config.users["batch"].pool_mode, Some(PoolMode::Session));
    assert_eq!(config.auth_users["app"].text(), "secret");
    assert_eq!(config.global.conffile.as_deref(), Some("pgbouncer.ini"));
}

#[test]
fn all_problems_come_at_once_in_the_order_of_the_file() {
    let texts = errors(
        "[pgbouncer]\nlisten_port = abc\npoolmode = session\nlog_connections = yes\npool_mode = transation\n\
         [databases]\npgbouncer =\na = host=x colour=red\nb = host=\n[nonsense]\nx = y\n[peers]\n0 = host=a\n1 = port=5\n",
    );
    let want = [
        "pgbouncer.ini:2:15: error: invalid value \"abc\" for parameter listen_port: expected an integer",
        "pgbouncer.ini:3: error: unknown parameter: pgbouncer/poolmode\n    hint: did you mean \"pool_mode\"?",
        "pgbouncer.ini:4:19: error: invalid value \"yes\" for parameter log_connections: expected an integer\n    \
         hint: use 1 for yes",
        "pgbouncer.ini:5:13: error: invalid value \"transation\" for parameter pool_mode: expected session, transaction or \
         statement\n    hint: did you mean \"transaction\"?",
        "pgbouncer.ini:7: error: database name \"pgbouncer\" is reserved",
        "pgbouncer.ini:8:12: error: unrecognized connection parameter: colour, of database \"a\"",
        "pgbouncer.ini:9:10: error: syntax error in connection string of database \"b\": empty value for \"host\"",
        "pgbouncer.ini:10: error: invalid section \"nonsense\"",
        "pgbouncer.ini:13: error: ids of peers must be a number larger than 0 and at most 16383, got \"0\"",
        "pgbouncer.ini:14: error: peer \"1\" has no host",
    ];
    let texts: Vec<_> = texts.iter().filter(|text| text.contains("error:")).collect();
    assert_eq!(texts.len(), want.len(), "{texts:#?}");
    for (text, want) in texts.iter().zip(want) {
        assert!(text.starts_with(want), "{text}\n{want}");
    }
}

#[test]
fn a_comment_behind_a_value_is_a_part_of_it() {
    let texts = errors(
        "[databases]\na = host=x\n[pgbouncer]\nauth_file=users.txt\nlisten_port = 6432 ; the port\n\
         pool_mode = transaction\t# few servers\nquery_timeout = 5s#\n",
    );
    let problems = texts.iter().filter(|text| text.contains("error:"));
    let hints: Vec<_> = problems.filter_map(|text| text.split("hint: ").nth(1)).collect();
    let want = "a comment needs a line of its own";
    assert_eq!(hints, [want, want], "{texts:#?}");
}

#[test]
fn a_database_among_the_settings_is_recognised() {
    let texts = errors("[pgbouncer]\nauth_file=users.txt\nshop = host=10.0.0.5 port=5432\n");
    assert!(
        texts
            .iter()
            .any(|text| text.contains("unknown parameter: pgbouncer/shop")
                && text.ends_with("hint: a database belongs in the section [databases]")),
        "{texts:#?}"
    );
}

#[test]
fn the_last_of_several_equal_names_counts() {
    let text = "[databases]\na = port=1\n[pgbouncer]\nauth_file=users.txt\nverbose = 1\n[databases]\n\"a\" = port=2\n\
                [pgbouncer]\nverbose = 2\nlog_stats = 0\n[users]\nu = pool_size=1\nu = pool_size=2\n";
    let config = config(text);
    assert_eq!((config.global.verbose, config.databases["a"].port), (2, 2));
    assert_eq!(config.users["u"].pool_size, Some(PoolSize::Fixed(2)));
    assert_eq!(config.global.auth_file.as_deref(), Some("users.txt"));
    let twice: Vec<_> = warnings(text)
        .into_iter()
        .filter(|text| text.contains("given twice"))
        .collect();
    assert_eq!(twice.len(), 3, "{twice:#?}");
    assert!(twice[0].contains(
        "pgbouncer.ini:7: warning: database \"a\" is given twice; this one counts, not the one at pgbouncer.ini:2"
    ));
}

#[test]
fn times_are_floats_in_pgbouncer_and_integers_elsewhere() {
    let text = "[databases]\na = host=h server_lifetime=1.5\n[users]\nu = query_timeout=0.5 client_idle_timeout=10s\n\
                [pgbouncer]\nauth_file=users.txt\nquery_timeout = 0.25\n";
    let config = config(text);
    assert_eq!(config.databases["a"].server_lifetime, Some(Duration::from_secs(1)));
    assert_eq!(config.users["u"].query_timeout, None);
    assert_eq!(config.query_timeout("u"), Some(Duration::from_millis(250)));
    assert_eq!(config.client_idle_timeout("u"), Some(Duration::from_secs(10)));
    let texts = warnings(text);
    assert!(
        texts[0].contains("2:28: warning: server_lifetime: \"1.5\" is not a whole number and is read as 1"),
        "{texts:#?}"
    );
    assert!(texts[0].contains("only section [pgbouncer] takes fractions"));
    assert!(texts[1].contains("query_timeout: \"0.5\" is not a whole number and is read as 0"));
    assert!(texts[2].contains("client_idle_timeout: \"10s\" is not a whole number and is read as 10"));
    assert_one(
        &errors("[pgbouncer]\nauth_file=users.txt\nquery_timeout = 5s\n[databases]\n*=\n"),
        &["write 5"],
    );
    assert_one(
        &errors("[pgbouncer]\nauth_file=users.txt\nquery_timeout = -1\n[databases]\n*=\n"),
        &["0 or more"],
    );
}

#[test]
fn integers_take_c_notation() {
    let config = config(&sound(
        "unix_socket_mode = 0x1ff\nlog_stats = 2\nmax_client_conn = 0200",
    ));
    assert_eq!(
        (config.global.unix_socket_mode, config.global.max_client_conn),
        (0o777, 128)
    );
    assert!(config.global.log_stats.is_on());
    assert_one(
        &warnings(&sound("max_db_connections = -1")),
        &["a negative number is read as 0"],
    );
    assert_one(
        &errors(&sound("listen_port = 70000")),
        &["expected an integer from 0 to 65535"],
    );
}

#[test]
fn the_check_query_has_three_forms() {
    assert_eq!(config(&sound("")).global.server_check_query, CheckQuery::Empty);
    assert_eq!(
        config(&sound("server_check_query =")).global.server_check_query,
        CheckQuery::Off
    );
    let sql = config(&sound("server_check_query = select 1"))
        .global
        .server_check_query;
    assert_eq!(sql.query(), Some("select 1"));
}

#[test]
fn sockets_can_be_switched_off_or_abstract() {
    assert_eq!(
        config(&sound("listen_addr=*\nunix_socket_dir=")).global.unix_socket_dir,
        UnixSocketDir::Off
    );
    let abstract_dir = config(&sound("unix_socket_dir=@pgweir")).global.unix_socket_dir;
    assert_eq!(abstract_dir, UnixSocketDir::At(Host::Abstract("pgweir".into())));
}

#[test]
fn problems_in_included_files_name_those_files() {
    let problems = load_files(&[
        (
            "pgbouncer.ini",
            "[databases]\n%include more.ini\n[pgbouncer]\nverbos = 1\n%include none.ini\n",
        ),
        ("more.ini", "a = prot=5\n"),
    ])
    .unwrap_err();
    let texts = lines(&problems);
    assert!(
        texts[0].starts_with("pgbouncer.ini:4: error: unknown parameter: pgbouncer/verbos"),
        "{texts:#?}"
    );
    assert!(texts[1].starts_with("pgbouncer.ini:5:1: error: could not load file \"none.ini\": no such file"));
    assert!(
        texts[2].starts_with(
            "more.ini:1:5: error: unrecognized connection parameter: prot, of database \"a\"\n    hint: did you mean \"port\"?"
        )
    );
}

#[test]
fn a_missing_file_is_one_plain_error() {
    let problems = load_files(&[]).unwrap_err();
    assert_eq!(
        problems.len(),
        1,
        "what is missing in it is no further problem: {problems:#?}"
    );
    assert!(
        lines(&problems)[0].starts_with("pgbouncer.ini: error: could not load file \"pgbouncer.ini\": no such file")
    );
}

#[test]
fn the_password_file_is_read_with_its_own_problems() {
    let loaded = load_files(&[
        ("pgbouncer.ini", &sound("")),
        (
            "users.txt",
            "\"a\" \"1\"\nnonsense\n\"b\" \"md545f2603610af569b6155c45067268c6b\"\n",
        ),
    ])
    .unwrap();
    assert_eq!(loaded.config.auth_users.len(), 2);
    assert_one(
        &lines(&loaded.warnings),
        &["users.txt:2: warning: line of the auth_file is ignored"],
    );
    let loaded = load_files(&[("pgbouncer.ini", &sound(""))]).unwrap();
    assert_one(
        &lines(&loaded.warnings),
        &["pgbouncer.ini:4: warning: could not open auth_file users.txt: "],
    );
}

#[test]
fn names_that_stand_in_the_wrong_section_are_sent_to_theirs() {
    assert_one(
        &errors(&sound("pool_size = 5")),
        &["here it is called \"default_pool_size\""],
    );
    assert_one(
        &errors(&sound("connect_query = x")),
        &["belongs in a line of [databases]"],
    );
    assert_one(
        &errors("[PgBouncer]\n[databases]\n*=\n[pgbouncer]\nauth_file=users.txt"),
        &["did you mean \"pgbouncer\"?"],
    );
}

#[test]
fn tabs_inside_connection_strings_are_pointed_out() {
    let loaded = load_text("[pgbouncer]\nauth_file=users.txt\n[databases]\na = host=h\tdbname=x\n").unwrap();
    assert_eq!(loaded.config.databases["a"].host_text().as_deref(), Some("h\tdbname=x"));
    assert_one(&lines(&loaded.warnings), &["value of \"host\" contains a tab"]);
}

#[test]
fn secrets_do_not_reach_debug_output() {
    let config = config("[pgbouncer]\nauth_file=users.txt\n[databases]\na = user=u password=hunter2\n");
    let debug = format!("{config:?}");
    assert!(!debug.contains("hunter2") && !debug.contains("secret\""), "{debug}");
}

/// Guards against a list that begins with the consequences of its later lines.
#[test]
fn causes_come_before_consequences() {
    let texts = errors("[pgbouncer]\nauth_type = scram-sha-256\nauth_fil = users.txt\n[database]\na = host=x\n");
    let order: Vec<usize> = [
        "unknown parameter: pgbouncer/auth_fil",
        "invalid section",
        "no databases are defined",
        "no user can log in",
    ]
    .iter()
    .map(|part| {
        texts
            .iter()
            .position(|text| text.contains(part))
            .unwrap_or_else(|| panic!("{part}: {texts:#?}"))
    })
    .collect();
    assert!(order.is_sorted_by_key(|place| *place), "{texts:#?}");
}

#[test]
fn a_section_without_databases_needs_a_line_not_a_section() {
    let texts = warnings("[databases]\n[pgbouncer]\nauth_file = users.txt\n");
    assert_one(
        &texts,
        &[
            "pgbouncer.ini:1: warning: no databases are defined",
            "hint: add a line such as",
        ],
    );
    assert_one(
        &warnings("[pgbouncer]\nauth_file = users.txt\n"),
        &["hint: add a section [databases]"],
    );
}

#[test]
fn a_word_that_is_cut_off_is_completed() {
    assert_one(
        &errors(&sound("auth_type = scram")),
        &["did you mean \"scram-sha-256\"?"],
    );
    assert_one(&errors(&sound("pool_mode = trans")), &["did you mean \"transaction\"?"]);
}

/// A password with a space needs quotes. Messages go to the log, and must not show the rest of it.
#[test]
fn the_rest_of_a_password_is_not_shown() {
    for line in [
        "a = host=h password=correct horse",
        "a = host=h password=correct horse=3",
    ] {
        let texts = errors(&format!("[databases]\n{line}\n"));
        assert!(
            texts
                .iter()
                .any(|text| text.contains("behind the value of \"password\"")),
            "{texts:?}"
        );
        assert!(!texts.iter().any(|text| text.contains("horse")), "{texts:?}");
    }
}

/// With a value that Linux does not take, no TCP connection could be opened.
#[test]
fn keepalive_settings_have_the_limits_of_linux() {
    for (name, largest) in [("tcp_keepcnt", 127), ("tcp_keepidle", 32767), ("tcp_keepintvl", 32767)] {
        let config = config(&sound(&format!("{name} = {largest}")));
        let row = config.rows().find(|row| row.key == name).unwrap();
        assert_eq!(row.value, Some(largest.to_string()));
        for value in [largest + 1, i32::MAX] {
            assert_one(
                &errors(&sound(&format!("{name} = {value}"))),
                &[&format!(
                    "invalid value \"{value}\" for parameter {name}: expected an integer from 0 to {largest}"
                )],
            );
            let mut config = config.clone();
            let problem = config.set(name, &value.to_string()).unwrap_err();
            assert!(
                problem.to_string().contains(&format!("from 0 to {largest}")),
                "{problem}"
            );
        }
    }
}
