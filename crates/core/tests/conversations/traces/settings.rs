//! Settings that cannot be undone: temp_buffers, custom settings, a search_path with pg_temp.

use super::temporary::{answers, asks, does, does_query_on_new, done, pool_of, server_with_schema};
use crate::rig::{EMPTIED, NOTHING, TEMPORARY};

#[test]
fn temp_buffers_are_restored_where_they_can_be() {
    let mut rig = pool_of(1);
    let other = rig.client();
    asks(&mut rig, other, "set temp_buffers = 200");
    let server = done(
        &mut rig,
        other,
        "set temp_buffers = 200",
        NOTHING.with(&[("temp_buffers", "200")]),
    );
    let third = rig.client();
    asks(&mut rig, third, "select 1");
    answers(&mut rig, server, NOTHING);
    rig.completes(server, "SELECT 1");
    let (marked, _) = server_with_schema(&mut rig);
    assert_eq!(marked, server);
    asks(&mut rig, other, "select 1");
    let new = rig.server_of(other).expect("linked");
    assert_ne!(new, marked, "it would be refused there");
    assert_eq!(answers(&mut rig, new, NOTHING), ["Query select 1"]);
}

/// Guards against a table that is lost between two transactions: with `pg_temp` first in search_path, CREATE TABLE
/// makes a temporary table, and its text does not say so.
#[test]
fn what_is_created_under_a_search_path_with_pg_temp_pins() {
    let mut rig = pool_of(1);
    let client = rig.client();
    let text = "set search_path = pg_temp, public";
    asks(&mut rig, client, text);
    let server = done(
        &mut rig,
        client,
        text,
        NOTHING.with(&[("search_path", "pg_temp, public")]),
    );
    assert_eq!(rig.server_of(client), None, "the path alone is restored elsewhere");
    asks(&mut rig, client, "create table t (a int)");
    rig.told(server);
    rig.completes(server, "CREATE TABLE");
    answers(&mut rig, server, TEMPORARY);
    assert_eq!(rig.server_of(client), Some(server), "pinned");
    does(&mut rig, client, "drop table t", EMPTIED);
    assert_eq!(rig.server_of(client), None);
    let other = rig.client();
    asks(&mut rig, other, "select pg_my_temp_schema()");
    // Its search_path is restored first, which the server must confirm.
    assert!(answers(&mut rig, server, NOTHING).is_empty());
    assert!(rig.is_closed(server), "it is known to have the schema");
    rig.servers_log_in();
    does_query_on_new(&mut rig, other, server);
}

/// Guards against an empty `current_setting('app.x', true)` for a client that has never set this setting, while a
/// server on which no client has set it is idle.
#[test]
fn a_strange_custom_setting_is_asked_for_where_nobody_has_made_it() {
    for makes in [
        "set app.x = 'v'",
        "set local app.x = 'v'",
        "select set_config('app.x', 'v', true)",
    ] {
        for asks_for in ["select current_setting('app.x', true)", "show app.x;"] {
            let mut rig = pool_of(2);
            let (a, b) = (rig.client(), rig.client());
            // Two idle servers, of which that of `a` is taken first.
            asks(&mut rig, a, "select 1");
            asks(&mut rig, b, "select 1");
            let (first, second) = (rig.server_of(a).unwrap(), rig.server_of(b).unwrap());
            done(&mut rig, b, "select 1", NOTHING);
            done(&mut rig, a, "select 1", NOTHING);
            asks(&mut rig, a, makes);
            assert_eq!(done(&mut rig, a, makes, NOTHING), first);
            assert_eq!(does(&mut rig, b, asks_for, NOTHING), second, "{makes}, {asks_for}");
            let other = "select current_setting('app.y', true)";
            assert_eq!(does(&mut rig, b, other, NOTHING), second, "the one used last");
            does(&mut rig, a, makes, NOTHING);
            // Now both servers have the setting, and neither is closed because of that.
            asks(&mut rig, b, asks_for);
            assert!(rig.server_of(b).is_some() && rig.connects.is_empty());
        }
    }
}
