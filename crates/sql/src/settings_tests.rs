use super::*;

#[test]
fn settings_of_bodies_are_named() {
    let named = |body: &str| body_settings(body.as_bytes()).join(" ");
    assert_eq!(
        named("begin set app.one = 1; perform set_config('app.two', 'x', false); end"),
        "app.two app.one"
    );
    assert_eq!(
        named("begin if x then reset app.three; end if; set role to y; end"),
        "role app.three"
    );
    assert_eq!(named("begin execute 'set app.four = 1'; end"), "app.four");
    assert_eq!(named("begin set work_mem = '1MB'; end"), "");
}

fn hidden(text: &str) -> Vec<String> {
    hidden_settings(text.as_bytes()).iter().map(|n| n.to_string()).collect()
}

#[test]
fn settings_that_pg_settings_does_not_show_are_named() {
    for (text, names) in [
        ("set app.tenant = 'x'", &["app.tenant"][..]),
        ("SET SESSION \"App\".\"Tenant\" TO 1;", &["app.tenant"]),
        ("set local app.a.b to default", &["app.a.b"]),
        ("set local.x = 1; set session.y to 1", &["local.x", "session.y"]),
        ("reset app . x", &["app.x"]),
        ("set role none; set role = 'x'; reset role", &["role"]),
        ("set session authorization default", &["session_authorization"]),
        ("set session session authorization x", &["session_authorization"]),
        ("reset session authorization", &["session_authorization"]),
        (
            "select set_config('App.x', $1, false), set_config('work_mem', '1', true)",
            &["app.x"],
        ),
        (
            "select pg_catalog.\"set_config\" /* */ ( $$role$$, 'x', false)",
            &["role"],
        ),
        (
            "select set_config(setting_name => 'a.b', new_value => '', is_local => false)",
            &["a.b"],
        ),
        ("do $$begin perform set_config('a.b', '', false); end$$", &["a.b"]),
        ("do language plpgsql $$begin set a.b = 1; end$$", &["a.b"]),
        ("do 'begin perform set_config(''a.b'', '''', false); end'", &["a.b"]),
        ("do $$begin set a.b = 'x'; reset role; end$$", &["a.b", "role"]),
        ("do $x$set session authorization y$x$", &["session_authorization"]),
        (
            "do $$begin if true then SET LOCAL c.d to 1; end if; x_set = 1; end$$",
            &["c.d"],
        ),
    ] {
        assert_eq!(hidden(text), names, "{text}");
    }
    for text in [
        "",
        "set work_mem = '1MB'",
        "set search_path to a, b.c",
        "set time zone 'Europe/Rome'",
        "select a.b from a",
        "set",
        "set local",
        "set app.",
        "set a.\"\" = 1",
        "select set_config",
        "select set_config(x.y, '', false)",
    ] {
        assert_eq!(hidden(text), [""; 0], "{text}");
    }
}

/// Under one reading the string ends before the SET, under the other after it.
#[test]
fn a_set_that_only_one_reading_of_a_string_shows_is_found() {
    assert_eq!(hidden(r"select '\'; set a.b = 1 --'"), ["a.b"]);
    assert_eq!(hidden(r"select '\''; set a.b = 1 --'"), ["a.b"]);
}

#[test]
fn constants_that_execute_gives_are_read() {
    for text in [
        "select length('a.b'); execute p('app.tenant')",
        "execute p('app.one'); execute p('app.tenant')",
        "execute p('app.'\n'tenant')",
        "execute p('a.b') ; select 1",
        "explain execute p('a.b')",
        "execute p('a.b', f(1))",
    ] {
        assert_eq!(constant_arguments(text.as_bytes()), None, "{text}");
    }
    let given = |text: &str| constant_arguments(text.as_bytes()).map(|names| names.join(" "));
    assert_eq!(
        given("execute p('App.X', 'attacker', -1.5, null);").as_deref(),
        Some("app.x")
    );
    for text in [
        "execute p",
        "execute p('a' || '.b')",
        "execute p(e'a\\x2eb')",
        "execute p('a'), ('b')",
        "execute p('a",
    ] {
        assert_eq!(given(text), None, "{text}");
    }
}
