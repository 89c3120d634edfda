//! The most servers that a host may have.

use super::{auto, crowd, show, works};
use crate::rig::configuration;

#[test]
fn pool_size_max_does_not_exceed_what_the_server_allows() {
    let mut rig = auto("pool_size_max = 200");
    let client = rig.client_begins(&[("user", "u"), ("database", "db")]);
    rig.query(client, "select 1");
    assert_eq!(
        show(&mut rig, "servers_max"),
        "200",
        "no server has said what it allows"
    );
    rig.servers_log_in();
    assert_eq!(show(&mut rig, "servers_max"), "97");
    rig.reloads(configuration(
        "db = host=127.0.0.1 user=u",
        "default_pool_size = auto\npool_size_max = 20",
    ));
    assert_eq!(show(&mut rig, "servers_max"), "20");
}

#[test]
fn a_limit_above_new_bounds_takes_a_step_with_a_reason_and_a_line_in_the_log() {
    let mut rig = auto("");
    let clients = crowd(&mut rig, 60);
    works(&mut rig, &clients, |_| {});
    let found = show(&mut rig, "settled");
    assert!(found.parse::<u32>().unwrap() >= 51, "{found}");
    let settings = "default_pool_size = auto\npool_size_max = 20";
    rig.reloads(configuration("db = host=127.0.0.1 user=u", settings));
    assert_eq!(
        (show(&mut rig, "limit"), show(&mut rig, "settled")),
        ("20".into(), "20".into())
    );
    let reason = "between 1 and 20 servers are allowed now";
    assert_eq!(show(&mut rig, "reason"), reason);
    let told = format!("20 servers may work at once instead of {found}: {reason}");
    assert!(
        rig.log.iter().any(|(_, line)| line.ends_with(&told)),
        "{:?}",
        rig.log.last()
    );
}
