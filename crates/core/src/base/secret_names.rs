//! Names of internal objects on servers. No client can guess one.
//!
//! A client that has read such a name in its session (by dynamic SQL on `pg_prepared_statements`) can use it there.
//! Statements that it may have changed are prepared again before their next use: see
//! [`crate::statements::held::Held::doubt`].

use pgweir_sql::Effects;
use rand_chacha::ChaCha20Rng;
use rand_core::{RngCore, SeedableRng};
use std::sync::Arc;

/// The beginning of every such name. Clients may use names that begin so. If a client-named statement with such a name
/// is prepared on a server, the server's statements are doubted.
pub(crate) const PREFIX: &str = "pgweir_";

/// Random bytes in a name.
const SECRET_BYTES: usize = 16;

/// Digits in names. Names of statements are sent with every Bind, so they use all digits, to be short. Other names may
/// be folded to lower case, so they use the first 16 digits only.
const DIGITS: &[u8; 62] = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";

/// Random digits in the name of a statement: as many as 16 bytes need in base 62.
const STATEMENT_DIGITS: usize = 22;

/// Whether a client's name could be an internal name.
pub(crate) fn could_be_internal(name: &[u8]) -> bool {
    name.starts_with(PREFIX.as_bytes())
}

/// What a text may do to the session. If it prepares, runs or ends a statement whose name could be internal, it counts
/// as code: it may run or replace an internal statement, or another client's.
pub(crate) fn effects_of(text: &[u8]) -> Effects {
    let effects = pgweir_sql::effects(text);
    if effects.intersects(Effects::PREPARE) && pgweir_sql::may_spell(text, PREFIX.as_bytes()) {
        effects | Effects::CODE
    } else {
        effects
    }
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

    /// `pgweir_<what>_<32 digits>`: at most 63 bytes, which is what PostgreSQL keeps of a name, if `what` has at most
    /// 23.
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

/// Internal names of other objects than statements; one set for each process.
#[derive(Debug, pgweir_freeze::Freeze)]
pub(crate) struct InternalNames {
    /// A name that no statement has on any server.
    pub(crate) nowhere: Arc<[u8]>,
    /// The statements that move channels.
    pub(crate) channels: Arc<[u8]>,
    /// The statement and the portal in which an internal PREPARE runs, because the client's unnamed ones may be in use.
    pub(crate) preparing: Arc<[u8]>,
    /// The portal in which settings are set for an internal Parse, because the client's unnamed portal may be in use.
    pub(crate) portal: Arc<[u8]>,
    /// The prefix of the custom settings that keep the earlier values of settings during an internal Parse.
    pub(crate) kept_prefix: Arc<str>,
    /// The savepoint behind which a client's names are lent in its transaction block.
    pub(crate) savepoint: Arc<str>,
}

impl InternalNames {
    pub(crate) fn new(names: &mut SecretNames) -> Self {
        let mut bytes = |what| Arc::from(names.draw(what).into_bytes());
        InternalNames {
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
    fn a_text_with_a_name_that_could_be_internal_counts_as_code() {
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
        let names = InternalNames::new(&mut names);
        let all = [&names.nowhere, &names.channels, &names.preparing, &names.portal];
        assert!(all.iter().all(|n| n.len() <= 63 && could_be_internal(n)));
        let other = SecretNames::new([2; 32]).of_statement(1);
        assert_ne!(
            other,
            SecretNames::new([3; 32]).of_statement(1),
            "each process has its own"
        );
    }
}
