use super::*;

#[test]
fn transaction_statements_in_all_their_spellings() {
    for text in [
        "begin",
        "BEGIN;",
        " begin work ;",
        "Begin Transaction",
        "/* a /* b */ */ begin -- x",
    ] {
        assert_eq!(classify(text.as_bytes()), Statement::Begin, "{text}");
    }
    for text in [
        "commit",
        "COMMIT WORK;",
        "end",
        "end transaction",
        "commit and no chain",
    ] {
        assert_eq!(classify(text.as_bytes()), Statement::Commit, "{text}");
    }
    for text in ["rollback", "abort", "ROLLBACK TRANSACTION"] {
        assert_eq!(classify(text.as_bytes()), Statement::Rollback, "{text}");
    }
}

#[test]
fn start_transaction_is_a_begin_with_another_tag() {
    for text in ["start transaction;;", "START /* x */ TRANSACTION"] {
        assert_eq!(classify(text.as_bytes()), Statement::StartTransaction, "{text}");
    }
}

#[test]
fn what_only_looks_like_one_is_other() {
    for text in [
        "",
        "begin isolation level serializable",
        "begin; select 1",
        "begin read only",
        "start",
        "start transaction read only",
        "commit and chain; select 1",
        "commit and",
        "commit prepared 'x'",
        "rollback to",
        "rollback to a b",
        "rollback prepared 'x'",
        "beginning",
        "\"begin\"",
        "select 1",
        "update t set a = 1",
        "discard",
        "discard plans all",
        "deallocate",
        "deallocate \"\"",
        "deallocate a b",
        "deallocate U&\"\\00e4\"",
        "deallocate U&\"\\00\"",
        "deallocate U&\"\"",
        "deallocate U&\"!0061\" uescape '!'",
        "prepare U&\"!0061\" uescape '!' as select 1",
        "execute U&\"!0061\" uescape '!'",
        "/* open begin",
        "begin $1",
    ] {
        assert_eq!(classify(text.as_bytes()), Statement::Other, "{text}");
    }
}

#[test]
fn deallocate_names_fold_as_in_the_catalog() {
    let name = |t: &str| match classify(t.as_bytes()) {
        Statement::Deallocate(name) => String::from_utf8(name.into()).unwrap(),
        other => panic!("{t}: {other:?}"),
    };
    assert_eq!(name("DEALLOCATE Foo"), "foo");
    assert_eq!(name("deallocate prepare \"Foo \"\"x\"\"\";"), "Foo \"x\"");
    assert_eq!(name("deallocate prepare"), "prepare");
    assert_eq!(name("deallocate U&\"S1\""), "S1");
    assert_eq!(name("deallocate prepare u&\"\\0041\\+000062\\\\\"\"é\";"), "Ab\\\"é");
    assert_eq!(name("deallocate prepare prepare"), "prepare");
    assert_eq!(name("deallocate \"all\""), "all");
    assert_eq!(name(&format!("deallocate {}", "x".repeat(80))).len(), 63);
    assert_eq!(classify(b"deallocate all;"), Statement::DeallocateAll);
    assert_eq!(classify(b"DEALLOCATE PREPARE ALL"), Statement::DeallocateAll);
    assert_eq!(classify(b"discard ALL ;"), Statement::DiscardAll);
}

fn is(text: &str, statement: fn(Box<[u8]>) -> Statement, name: &str) {
    assert_eq!(classify(text.as_bytes()), statement(name.as_bytes().into()), "{text}");
}

#[test]
fn savepoints_are_known_by_name() {
    is("savepoint A;", Statement::Savepoint, "a");
    is("savepoint savepoint", Statement::Savepoint, "savepoint");
    is("release savepoint \"A\"", Statement::Release, "A");
    is("release savepoint", Statement::Release, "savepoint");
    is("rollback work to savepoint a", Statement::RollbackTo, "a");
    is("abort to savepoint", Statement::RollbackTo, "savepoint");
    assert_eq!(classify(b"commit and chain"), Statement::CommitAndChain);
    assert_eq!(classify(b"abort transaction and chain;"), Statement::RollbackAndChain);
}

#[test]
fn settings_are_known_by_name() {
    is("set search_path = a, b; ;", Statement::Set, "search_path");
    is("SET SESSION App.X TO 'y;z'", Statement::Set, "app.x");
    is("set time zone local", Statement::Set, "timezone");
    is("set names 'utf8'", Statement::Set, "client_encoding");
    is("set xml option content", Statement::Set, "xmloption");
    is("set schema 'x'", Statement::Set, "search_path");
    is("set role none", Statement::Set, "role");
    is("set local role x", Statement::SetLocal, "role");
    is(
        "set local session authorization x",
        Statement::SetLocal,
        "session_authorization",
    );
    is("reset Role", Statement::Reset, "role");
    is("reset time zone", Statement::Reset, "timezone");
    assert_eq!(classify(b"reset all"), Statement::ResetAll);
    for text in [
        "set a = 1; set b = 2",
        "set transaction read only",
        "set session characteristics as transaction read only",
        "set constraints all deferred",
        "set a = 'x",
        r"set a = '\'; set b = '",
        "reset transaction isolation level",
    ] {
        assert_eq!(classify(text.as_bytes()), Statement::Other, "{text}");
    }
}

#[test]
fn statements_on_channels_cursors_and_all_else() {
    is("LISTEN Foo", Statement::Listen, "foo");
    is("listen \"Foo bar\";", Statement::Listen, "Foo bar");
    is("unlisten foo", Statement::Unlisten, "foo");
    assert_eq!(classify(b"unlisten *;"), Statement::UnlistenAll);
    assert_eq!(classify(b"close all"), Statement::CloseAll);
    assert_eq!(classify(b"discard plans"), Statement::DiscardPlans);
    assert_eq!(classify(b"discard temporary"), Statement::DiscardTemp);
    assert_eq!(classify(b"discard temp"), Statement::DiscardTemp);
    assert_eq!(classify(b"discard sequences"), Statement::DiscardSequences);
}

#[test]
fn statements_on_prepared_statements_may_be_long() {
    let long = "x".repeat(2 * STATEMENT_BYTES_MAX);
    is(
        &format!("prepare Q (text) as select ';{long}'"),
        Statement::Prepare,
        "q",
    );
    is(
        &format!("/* {long} */ execute \"Q\" ('{long}');"),
        Statement::Execute,
        "Q",
    );
    is("prepare transaction as select 1", Statement::Prepare, "transaction");
    for text in [
        "prepare transaction 'x'",
        "prepare a as select 1; select 2",
        "execute a; execute b",
        r"execute a('\'); execute b(' --')",
        "execute 'a'",
        "prepare a as select '",
        "prepare a as select /*",
        "prepare a as select (",
    ] {
        assert_eq!(classify(text.as_bytes()), Statement::Other, "{text}");
    }
}

#[test]
fn every_prefix_and_every_byte_is_survived() {
    let text = b"/* x */ deallocate prepare \"a\"\"b\" ; -- end";
    for cut in 0..text.len() {
        classify(&text[..cut]);
    }
    for b in 0..=255u8 {
        classify(&[b]);
        classify(&[b'b', b, b'"', b]);
    }
}
