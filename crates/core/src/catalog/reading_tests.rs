use super::tests::{catalog, effects};
use super::*;

/// On a shared server a plan would keep the result that another client had.
#[test]
fn immutable_routines_that_read_the_session_are_found() {
    let catalog = catalog(&[
        &["r", "1", "tenant", "8"],
        &["r", "2", "tenant_stable", "0"],
        &["r", "3", "by_another", "8"],
        &["r", "4", "plus", "8"],
        &["r", "5", "caller", "0"],
        &["r", "6", "in_perl", "10"],
        &["v", "10", "secrets", "1"],
        &["1", "s", "select current_setting('app.tenant')", ""],
        &["2", "s", "select current_user", ""],
        &["3", "s", "select tenant_stable()", ""],
        &["4", "s", "select $1 + 1", ""],
        &["5", "p", "begin return tenant(); end", ""],
        &["r", "7", "in_c", "8"],
        &["7", "i", "show_config_by_name", ""],
        &["r", "8", "input", "8"],
        &["8", "i", "textin", ""],
    ]);
    for text in [
        "select tenant()",
        "select in_c('app.tenant')",
        "select by_another()",
        "select caller()",
        "table secrets",
    ] {
        assert_eq!(effects(&catalog, text), Effects::FOLDS, "{text}");
    }
    assert!(effects(&catalog, "select in_perl()").contains(Effects::FOLDS));
    for text in ["select tenant_stable()", "select plus(1)", "select input('a')"] {
        assert_eq!(effects(&catalog, text), Effects::NONE, "{text}");
    }
    assert!(!catalog.reads_no_constants, "plans must be discarded");
}

#[test]
fn routines_whose_plans_depend_on_settings_are_found() {
    let reads = |rows: &[&[&str]]| !catalog(rows).reads_no_constants;
    let source = |language, source| {
        let rows: [&[&str]; 2] = [&["r", "1", "f", "0"], &["1", language, source, ""]];
        reads(&rows)
    };
    assert!(source("p", "begin return '01/02/2024'::date; end"));
    assert!(source("s", "select $$01/02/2024$$::date"));
    assert!(!source("p", "begin new.changed = now(); return new; end"));
    assert!(!source("i", "it's C"));
    assert!(reads(&[&["r", "1", "in_perl", "2"]]), "code that is not read");
    assert!(!reads(&[&["r", "1", "in_c", "1"]]) && !reads(&[]));
    assert!(!Catalog::default().reads_no_constants, "nothing has been read");
    assert!(!Catalog::default().keeps_no_plans, "nothing has been read");
    let keeps = |rows: &[&[&str]]| !catalog(rows).keeps_no_plans;
    assert!(keeps(&[&["r", "1", "f", "0"], &["1", "p", "begin return 1; end", ""]]));
    assert!(keeps(&[&["r", "1", "in_perl", "2"]]) && keeps(&[&["r", "1", "in_c", "1"]]));
    assert!(!keeps(&[&["r", "1", "in_c", "4"]]) && !keeps(&[]));
    assert!(!keeps(&[&["r", "1", "f", "0"], &["1", "i", "textin", ""]]));
    // The functions that it calls keep plans that were made under its settings.
    let catalog = catalog(&[&["r", "1", "under", "0"], &["s", "1", "DateStyle", "0"]]);
    assert_eq!(effects(&catalog, "select under()"), Effects::READING);
}
