use super::*;

fn parse(text: &str) -> Command {
    Command::parse(text).unwrap_or_else(|refusal| panic!("{text}: {refusal:?}"))
}

#[test]
fn words_in_any_case_with_or_without_a_semicolon() {
    for text in [
        "show pools",
        "SHOW POOLS;",
        " Show\n\"pools\" ; ",
        "select pools",
        "show pools -- all\n;",
    ] {
        assert_eq!(parse(text), Command::Show(Show::Pools), "{text}");
    }
    assert_eq!(parse("pause"), Command::Pause(None));
    assert_eq!(
        parse("PAUSE \"my \"\"db\"\"\";"),
        Command::Pause(Some("my \"db\"".into()))
    );
    assert_eq!(parse("resume Shop-1"), Command::Resume(Some("Shop-1".into())));
    assert_eq!(
        parse("shutdown WAIT_FOR_CLIENTS"),
        Command::Shutdown(Shutdown::WaitForClients)
    );
    assert_eq!(parse("SHOW Pools EXTENDED;"), Command::Show(Show::PoolsExtended));
    assert_eq!(parse("show servers extended"), Command::Show(Show::ServersExtended));
    assert_eq!(parse("show sizing steps"), Command::Show(Show::SizingSteps));
    assert_eq!(parse("show session 4098"), Command::Show(Show::Session(4098)));
    assert_eq!(Command::parse("show session x").unwrap_err().sqlstate, "22023");
    assert_eq!(parse("show help"), Command::Help);
    assert_eq!(parse("kill_client 17"), Command::KillClient("17".into()));
}

#[test]
fn one_command_at_a_time_and_nothing_else() {
    for text in [
        "show version; show version",
        "show",
        "show foo",
        "select 1",
        "reload p0",
        "shutdown soon",
        "pause a b",
        "show \"pools",
        "'show' pools",
        "set verbose",
        "set verbose = 1 2",
    ] {
        let refusal = Command::parse(text).expect_err(text);
        assert_eq!(refusal.message, format!("invalid command '{text}', use SHOW HELP;"));
        assert_eq!(refusal.sqlstate, "42601");
    }
    assert_eq!(Command::parse("disable").unwrap_err().message, "a database is required");
    let long = format!("show {}", "ä".repeat(500));
    assert!(Command::parse(&long).unwrap_err().message.len() < 300);
}

#[test]
fn set_reaches_settings_and_lets_drivers_have_their_way() {
    let set = |key: &str, value: &str| Command::Set {
        key: key.into(),
        value: value.into(),
    };
    assert_eq!(parse("set verbose=1"), set("verbose", "1"));
    assert_eq!(parse("SET Admin_Users TO 'a,b'';c'"), set("admin_users", "a,b';c"));
    assert_eq!(parse("set server_reset_query = ''"), set("server_reset_query", ""));
    assert_eq!(
        parse("SET application_name = 'x'"),
        Command::SetApplicationName("x".into())
    );
    for text in [
        "SET extra_float_digits = 3",
        "set client_encoding to 'UTF8'",
        "SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY",
        "SET TRANSACTION ISOLATION LEVEL READ COMMITTED",
        "set time zone 'UTC'",
        "SET SESSION search_path = a, b",
    ] {
        assert_eq!(parse(text), Command::SetSession, "{text}");
    }
}

#[test]
fn set_reaches_every_setting_of_the_pooler() {
    for setting in pgweir_config::CATALOGUE {
        let key = setting.name.to_string();
        let value = "1".to_string();
        assert_eq!(
            parse(&format!("SET {key} = 1")),
            Command::Set { key, value },
            "{}",
            setting.name
        );
    }
    assert_eq!(parse("SET SESSION transaction_timeout = 1"), Command::SetSession);
    assert_eq!(parse("SET LOCAL transaction_timeout TO '5s'"), Command::SetSession);
}

#[test]
fn what_drivers_ping_and_begin_with_is_understood() {
    for text in ["", "  ", ";", "-- ping", "/* x */;"] {
        assert_eq!(parse(text), Command::Empty, "{text}");
    }
    assert_eq!(parse("BEGIN"), Command::Begin);
    assert_eq!(parse("begin isolation level read committed"), Command::Begin);
    assert_eq!(parse("commit;"), Command::Commit);
    assert_eq!(parse("ROLLBACK"), Command::Rollback);
    assert_eq!(parse("DISCARD ALL"), Command::Acknowledge("DISCARD ALL"));
}

#[test]
fn only_looking_is_for_everyone() {
    for text in ["show stats", "show help", "begin", "", "set timezone = 'x'"] {
        assert!(parse(text).is_for_everyone(), "{text}");
    }
    for text in [
        "pause",
        "set verbose = 1",
        "show fds",
        "reload",
        "kill_client 1",
        "shutdown",
    ] {
        assert!(!parse(text).is_for_everyone(), "{text}");
    }
}
