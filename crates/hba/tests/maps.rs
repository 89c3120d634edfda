//! Ident files: which outside names may be which users.

use pgweir_hba::{IdentMaps, Problem};

fn read(text: &str) -> (Option<IdentMaps>, Vec<Problem>) {
    IdentMaps::read("ident", &|_: &str| Ok(text.as_bytes().to_vec()))
}

fn maps(text: &str) -> IdentMaps {
    let (maps, problems) = read(text);
    maps.unwrap_or_else(|| panic!("{problems:?}"))
}

#[test]
fn maps_say_who_may_be_whom() {
    let maps = maps(
        "m root postgres\nm joe /^app_\nm \"all\" \"all\"\nm boss all\n\
         r /^(.*)@example\\.com$ \\1\nr /^(.*)@ops$ ops_\\1_role\nr /^guest$ guest\n",
    );
    let allows = |map, outside, user| maps.allows(map, outside, user);
    assert!(allows(None, "a", "a") && !allows(None, "a", "b"));
    assert!(allows(Some("m"), "root", "postgres") && !allows(Some("m"), "root", "root"));
    assert!(allows(Some("m"), "joe", "app_1") && !allows(Some("m"), "joe", "x"));
    assert!(allows(Some("m"), "boss", "anybody"));
    assert!(
        allows(Some("m"), "all", "all") && !allows(Some("m"), "all", "x"),
        "quotes make it a name"
    );
    assert!(allows(Some("r"), "bob@example.com", "bob") && !allows(Some("r"), "bob@example.org", "bob"));
    assert!(allows(Some("r"), "x@ops", "ops_x_role") && !allows(Some("r"), "x@ops", "ops_y_role"));
    assert!(allows(Some("r"), "guest", "guest"));
    assert!(!allows(Some("none"), "root", "root"));
    assert!(maps.has("m") && !maps.has("none"));
}

/// Guards against a system user whose name, as a captured text, would match other database users.
#[test]
fn what_is_captured_is_taken_literally() {
    let maps = maps("r /^(.*)@x$ \\1\n");
    for name in ["all", "/.*", "+staff", "\\1"] {
        assert!(!maps.allows(Some("r"), &format!("{name}@x"), "postgres"), "{name}");
        assert!(maps.allows(Some("r"), &format!("{name}@x"), name), "{name}");
    }
}

/// Guards against a certificate of "administrator" that opens user "admin".
#[test]
fn what_is_captured_is_the_longest_match() {
    let maps = maps("m /^(admin|administrator) \\1\n");
    assert!(maps.allows(Some("m"), "administrator", "administrator"));
    assert!(!maps.allows(Some("m"), "administrator", "admin"));
    assert!(maps.allows(Some("m"), "admin", "admin"));
}

#[test]
fn bad_lines_of_an_ident_file() {
    for line in [
        "m a",
        "m a b c",
        "m a,b c",
        "m /( x",
        "m /^x$ \\1",
        "m /^(x)?y$ \\1",
        "m /\\bx y",
    ] {
        let (maps, problems) = read(line);
        assert!(maps.is_none() && problems[0].place.line == 1, "{line}");
    }
}
