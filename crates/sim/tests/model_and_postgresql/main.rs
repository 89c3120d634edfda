//! Random scripts for the model and for real servers: any difference in their answers fails.

mod script;
#[path = "../support/mod.rs"]
mod support;
mod texts;

use pgweir_sim::model::{Session, Shared, Version};
use pgweir_sim::random::Random;
use pgweir_sim::transcript::{frontend_from_text, normal_lines};
use pgweir_wire::CancelKey;
use script::{Script, startup};
use std::fmt::Write as _;
use support::{converse, lines, real_servers};

/// Scripts for each server; `PGWEIR_TEST_SCRIPTS` overrides it.
const SCRIPTS: u64 = 400;

/// The model's answer to bytes in pieces of random sizes; `None` for a script that could crash a real
/// server.
fn model_answer(version: Version, bytes: &[u8], random: &mut Random) -> Option<Vec<u8>> {
    let key = CancelKey {
        process_id: 1,
        secret: vec![0; 4].into(),
    };
    let mut session = Session::new(version, key);
    let mut shared = Shared::new();
    let mut answer = Vec::new();
    let mut rest = bytes;
    while !rest.is_empty() {
        let (piece, behind) = rest.split_at((random.between(1, 300) as usize).min(rest.len()));
        session.receive(&mut shared, 0, piece);
        answer.extend(session.take_sent());
        rest = behind;
    }
    assert!(session.is_closed(), "every script ends in Terminate");
    (!session.met_undefined()).then_some(answer)
}

fn query(port: u16, text: &str) -> Vec<String> {
    let mut bytes = startup();
    frontend_from_text(&format!("Query \"{text}\""), &mut bytes).unwrap();
    frontend_from_text("Terminate", &mut bytes).unwrap();
    lines(&converse(port, &bytes))
}

#[allow(clippy::disallowed_methods)]
fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

#[test]
fn the_model_answers_as_postgresql_does() {
    for (major, port) in real_servers() {
        let version = if major == 15 { Version::V15 } else { Version::V18 };
        query(port, "create table if not exists kv (k int primary key, v text)");
        query(port, "create sequence if not exists seq");
        query(
            port,
            "create table if not exists later (k int references kv deferrable initially deferred)",
        );
        let seeds = match number("PGWEIR_TEST_SCRIPT_SEED") {
            Some(seed) => seed..seed + 1,
            None => 0..number("PGWEIR_TEST_SCRIPTS").unwrap_or(SCRIPTS),
        };
        let mut failed = Vec::new();
        for seed in seeds {
            let script = Script::new(seed);
            let bytes = script.bytes();
            let Some(model) = model_answer(version, &bytes, &mut Random::new(seed)) else {
                continue;
            };
            let model = normal_lines(lines(&model));
            query(
                port,
                "truncate kv, later; drop table if exists num1; create table num1 (n int)",
            );
            let real = normal_lines(lines(&converse(port, &bytes)));
            if real != model {
                failed.push(seed);
                if failed.len() <= 4 {
                    println!("{}", difference(seed, major, &script, &real, &model));
                }
            }
        }
        assert!(
            failed.is_empty(),
            "{} scripts differ from PostgreSQL {major}, seeds {:?}; replay one with PGWEIR_TEST_SCRIPT_SEED={}",
            failed.len(),
            &failed[..failed.len().min(10)],
            failed[0],
        );
    }
}

fn difference(seed: u64, major: u32, script: &Script, real: &[String], model: &[String]) -> String {
    let mut text = format!("seed {seed}, PostgreSQL {major}\n");
    for line in &script.lines {
        let _ = writeln!(text, "C> {line}");
    }
    let same = real.iter().zip(model).take_while(|(a, b)| a == b).count();
    for line in &real[..same] {
        let _ = writeln!(text, "   {line}");
    }
    for line in real[same..].iter().take(8) {
        let _ = writeln!(text, "real  {line}");
    }
    for line in model[same..].iter().take(8) {
        let _ = writeln!(text, "model {line}");
    }
    text
}
