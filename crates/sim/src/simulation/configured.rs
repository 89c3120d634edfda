//! A pooler with a configuration of its own, for the simulations in which nothing goes wrong.

use super::canary::Canary;
use pgweir_core::{Pooler, Surroundings, Time, WallClock};
use std::sync::Arc;

/// A pooler with this configuration file and auth_file, and perhaps a defect.
pub(super) fn pooler_of(ini: &str, users: &str, canary: Option<Canary>) -> Pooler {
    let files = |name: &str| -> std::io::Result<Vec<u8>> {
        Ok(match name {
            "pooler.ini" => ini.into(),
            _ => users.into(),
        })
    };
    let config = match pgweir_config::load("pooler.ini", &files) {
        Ok(loaded) => Arc::new(loaded.config),
        Err(problems) => panic!("the simulation's own configuration is refused: {problems:?}\n{ini}"),
    };
    let surroundings = Surroundings {
        seed: [7; 32],
        wall: WallClock { unix_us: 0 },
        own_uid: 1000,
        host_name: "here".into(),
        open_files_max: 200_000,
    };
    let mut pooler = Pooler::new(config, surroundings, Time(0));
    if let Some(Canary::Weak(weakness)) = canary {
        pooler.weaken(weakness);
    }
    pooler
}
