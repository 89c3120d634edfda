//! Names of what the pooler makes for itself on servers: no client can guess one.
//!
//! A client that has read such a name in its own session (`pg_prepared_statements` in dynamic SQL) can use it there. What
//! that may have changed is prepared again before its next use: see [`crate::statements::held::Held::doubt`].

use pgweir_sql::Effects;
use rand_chacha::ChaCha20Rng;
use rand_core::{RngCore, SeedableRng};
use std::sync::Arc;

/// What every such name begins with. Clients may use such names, too; where one comes to a server under its own name, what
/// the server holds is in doubt.
pub(crate) const PREFIX: &str = "pgweir_";

/// Random bytes in a name.
const SECRET_BYTES: usize = 16;

/// Digits of the names of statements, which travel with every Bind. Other names may be folded to small letters: theirs are the
/// first 16.
const DIGITS: &[u8; 62] = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";

/// Random digits in the name of a statement: as many as 16 bytes need in base 62.
const STATEMENT_DIGITS: usize = 22;

/// Whether a client's name could be one of the pooler's.
pub(crate) fn could_be_ours(name: &[u8]) -> bool {
    name.starts_with(PREFIX.as_bytes())
}

/// What a text may do to the session. One that prepares, runs or ends a statement under a name that could be one of ours
/// may do anything: it may run or replace a statement of the pooler's, or another client's.
pub(crate) fn effects_of(text: &[u8]) -> Effects {
    let effects = pgweir_sql::effects(text);
    if effects.intersects(Effects::PREPARE) && could_name_ours(text) {
        effects | Effects::CODE
    } else {
        effects
    }
}

/// Whether a text spells the beginning of our names, in whatever case, or may spell it by escapes.
fn could_name_ours(text: &[u8]) -> bool {
    let spells = |word: &[u8]| text.windows(word.len()).any(|w| w.eq_ignore_ascii_case(word));
    spells(PREFIX.as_bytes()) || spells(b"u&")
}

/// Draws names.
#[derive(Debug, pgweir_freeze::Freeze)]
pub(crate) struct SecretNames {
    random: ChaCha20Rng,
}

impl SecretNames {
    pub(crate) fn new(seed: [u8; 32]) -> Self {
        SecretNames {
            random: ChaCha20Rng::from_seed(seed),
        }
    }

    /// `pgweir_<what>_<32 digits>`: at most 63 bytes, which is what PostgreSQL keeps of a name, for a `what` of up to 23.
    pub(crate) fn draw(&mut self, what: &str) -> String {
        format!("{PREFIX}{what}_{:032x}", self.secret())
    }

    /// `pgweir_<id>_<22 digits>`, the name of the statement with this id.
    pub(crate) fn of_statement(&mut self, id: u64) -> Box<[u8]> {
        let mut secret = self.secret();
        let mut name = format!("{PREFIX}{id:x}_").into_bytes();
        for _ in 0..STATEMENT_DIGITS {
            name.push(DIGITS[(secret % DIGITS.len() as u128) as usize]);
            secret /= DIGITS.len() as u128;
        }
        name.into()
    }

    fn secret(&mut self) -> u128 {
        let mut secret = [0; SECRET_BYTES];
        self.random.fill_bytes(&mut secret);
        u128::from_be_bytes(secret)
    }
}

/// Names of what is no shared statement; one of each for a process.
#[derive(Debug, pgweir_freeze::Freeze)]
pub(crate) struct OwnNames {
    /// A name that no statement has on any server.
    pub(crate) nowhere: Arc<[u8]>,
    /// The statements that move channels.
    pub(crate) channels: Arc<[u8]>,
    /// The statement and the portal in which a PREPARE of ours runs; the client's unnamed ones may be in use.
    pub(crate) preparing: Arc<[u8]>,
    /// The portal in which settings are made around a Parse of our own; the client's unnamed portal may be in use.
    pub(crate) portal: Arc<[u8]>,
    /// In front of the name of a setting: the custom setting that keeps its value meanwhile.
    pub(crate) kept_prefix: Arc<str>,
    /// The savepoint behind which a client's names are lent to its transaction block.
    pub(crate) savepoint: Arc<str>,
}

impl OwnNames {
    pub(crate) fn new(names: &mut SecretNames) -> Self {
        let mut bytes = |what| Arc::from(names.draw(what).into_bytes());
        OwnNames {
            nowhere: bytes("nowhere"),
            channels: bytes("channels"),
            preparing: bytes("preparing"),
            portal: bytes("portal"),
            kept_prefix: names.draw("kept").into(),
            savepoint: names.draw("savepoint").into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_names_what_could_be_ours_runs_code() {
        let code = |text: &str| effects_of(text.as_bytes()).intersects(Effects::CODE);
        assert!(code("deallocate \"pgweir_6_00\"") && code("begin; prepare PGWEIR_x as select 1"));
        assert!(code("execute U&\"\\0070gweir_1\"('a', 'b')"));
        assert!(!code("select 'pgweir_1'") && !code("deallocate a") && !code("execute a"));
    }

    #[test]
    fn names_differ_and_postgresql_keeps_all_of_them() {
        let mut names = SecretNames::new([1; 32]);
        let (a, b) = (names.of_statement(u64::MAX), names.of_statement(u64::MAX));
        assert_ne!(a, b, "a name is not drawn twice for the same id");
        let digits = a.strip_prefix(b"pgweir_ffffffffffffffff_").unwrap();
        assert!(digits.len() == STATEMENT_DIGITS && digits.iter().all(|d| DIGITS.contains(d)));
        assert!(
            62u128.checked_pow(STATEMENT_DIGITS as u32).is_none(),
            "no secret is cut"
        );
        assert!(a.len() <= 63);
        let own = OwnNames::new(&mut names);
        let all = [&own.nowhere, &own.channels, &own.preparing, &own.portal];
        assert!(all.iter().all(|n| n.len() <= 63 && could_be_ours(n)));
        let other = SecretNames::new([2; 32]).of_statement(1);
        assert_ne!(
            other,
            SecretNames::new([3; 32]).of_statement(1),
            "each process has its own"
        );
    }
}
