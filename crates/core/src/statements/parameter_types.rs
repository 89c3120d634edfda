//! The types of a statement's parameters that its client relies on.
//!
//! If Parse leaves a type open, PostgreSQL infers it, once: on a direct connection the parameters of a prepared
//! statement keep their types whatever DDL does to the tables. Here the statement may be prepared again on another
//! server, which would infer the types again and might then misread a binary value. So the types that a client was
//! first told (ParameterDescription) are kept, and given explicitly whenever its statement is prepared again. If a
//! client does not ask for them, an internal Describe goes with the Parse. PostgreSQL refuses some statements with the
//! types that it has told: see [`crate::preparing::told_types`].

use std::sync::Arc;

/// Parameter types as in Parse and ParameterDescription: a count (two bytes) and OIDs (four bytes each).
#[derive(Debug, Clone, PartialEq, Eq, pgweir_freeze::Freeze)]
pub(crate) struct Types(Arc<[u8]>);

impl Types {
    /// Reads the body of a ParameterDescription. `None` if it is malformed.
    pub(crate) fn read(body: &[u8]) -> Option<Types> {
        let (count, oids) = body.split_first_chunk::<2>()?;
        (oids.len() == usize::from(u16::from_be_bytes(*count)) * 4).then(|| Types(body.into()))
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }
}

/// The OIDs in the parameter types of a Parse: a count and OIDs, as in [`Types`].
pub(crate) fn oids(types: &[u8]) -> &[[u8; 4]] {
    types.get(2..).unwrap_or_default().as_chunks::<4>().0
}

/// Whether a Parse leaves the type of some parameter open. `types` as in [`Types`].
pub(crate) fn are_inferred(query: &[u8], types: &[u8]) -> bool {
    let given = oids(types);
    let is_open = |number: usize| given.get(number.wrapping_sub(1)).is_none_or(|oid| *oid == [0; 4]);
    pgweir_sql::parameter_numbers(query).any(is_open) || given.contains(&[0; 4])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_type_is_inferred_where_none_is_given() {
        let inferred = |query: &str, types: &[u8]| are_inferred(query.as_bytes(), types);
        assert!(inferred("select $1", &[0, 0]));
        assert!(inferred("select $1", &[0, 1, 0, 0, 0, 0]));
        assert!(inferred("select $1, $2", &[0, 1, 0, 0, 0, 23]));
        assert!(!inferred("select $1", &[0, 1, 0, 0, 0, 23]));
        assert!(!inferred("select 1", &[0, 0]) && !inferred("select '$'", &[0, 0]));
        assert!(!inferred("select $$a$$", &[0, 0]));
    }

    #[test]
    fn types_are_read_if_they_are_all_there() {
        assert_eq!(Types::read(&[0, 1, 0, 0, 0, 23]).unwrap().bytes(), [0, 1, 0, 0, 0, 23]);
        assert!(Types::read(&[0, 1, 0, 0, 0]).is_none() && Types::read(&[0]).is_none());
        assert!(Types::read(&[0, 0]).is_some());
    }
}
