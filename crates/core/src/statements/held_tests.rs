use super::*;
use crate::statements::parse_settings::ParseSettings;
use crate::statements::table::StatementTable;

fn statements(count: u8) -> Vec<Arc<Statement>> {
    let mut table = StatementTable::new(crate::base::secret_names::SecretNames::new([0; 32]));
    let text = |n: u8| table.intern(&[n], &[0, 0], &ParseSettings::default());
    (0..count).map(text).collect()
}

/// One statement, prepared at moment 1 in a transaction that has lasted.
fn one_copy() -> (Held, u64) {
    let s = statements(1);
    let mut held = Held::new();
    held.insert(s[0].clone(), Moment(1));
    held.note_ready(Moment(1), true, false);
    (held, s[0].id)
}

fn good(held: &mut Held, id: u64) -> u64 {
    held.copies.get_mut(id).unwrap().good.0
}

#[test]
fn the_least_recently_used_statement_goes_first() {
    let s = statements(3);
    let mut held = Held::new();
    held.insert(s[0].clone(), Moment(1));
    held.insert(s[1].clone(), Moment(1));
    assert!(held.touch(s[0].id));
    assert!(held.evict_for(3).is_none());
    assert_eq!(held.evict_for(2).unwrap().id, s[1].id);
    assert!(!held.touch(s[1].id) && held.touch(s[0].id));
}

#[test]
fn a_name_of_the_client_is_not_evicted() {
    let mut table = StatementTable::new(crate::base::secret_names::SecretNames::new([0; 32]));
    let settings = ParseSettings::default();
    let named = table.intern_client_named(
        crate::statements::prepared::Kind::ClientNamed,
        b"a",
        b"select 1",
        &[0, 0],
        &settings,
        false,
    );
    let shared = table.intern(b"select 2", &[0, 0], &settings);
    let mut held = Held::new();
    held.insert(named.clone(), Moment(1));
    held.insert(shared.clone(), Moment(1));
    assert_eq!(held.evict_for(1).unwrap().id, shared.id);
    assert!(held.evict_for(1).is_none() && held.touch(named.id));
}

#[test]
fn a_use_that_went_well_shows_that_the_plan_was_good_then() {
    let (mut held, id) = one_copy();
    held.using(id).unwrap().is_used(Moment(5));
    held.using(id).unwrap().is_used(Moment(6));
    assert_eq!(good(&mut held, id), 1, "neither has been answered");
    held.note_ready(Moment(7), true, false);
    held.using(id).unwrap().is_used(Moment(8));
    assert_eq!(good(&mut held, id), 6);
}

#[test]
fn a_look_at_a_statement_that_is_not_used_shows_nothing() {
    let (mut held, id) = one_copy();
    held.using(id);
    held.note_ready(Moment(7), true, false);
    held.using(id);
    assert_eq!(good(&mut held, id), 1);
}

#[test]
fn what_a_transaction_prepares_may_name_what_it_made_whatever_ended_before() {
    let (mut held, id) = one_copy();
    held.names_move(Moment(2));
    held.names_have_moved(true);
    let s = statements(2);
    held.insert(s[1].clone(), Moment(3));
    held.names_have_moved(false);
    assert!(!held.usable(s[1].id) && held.usable(id));
}

#[test]
fn a_use_before_an_error_shows_nothing() {
    let (mut held, id) = one_copy();
    held.using(id).unwrap().is_used(Moment(5));
    held.note_error(Moment(6));
    held.note_ready(Moment(7), true, false);
    held.using(id).unwrap().is_used(Moment(8));
    assert_eq!(good(&mut held, id), 1);
}

#[test]
fn what_was_seen_in_a_transaction_counts_only_if_it_lasts() {
    for (committed, rolled_back, expected) in [(true, false, 5), (false, true, 0), (true, true, 0), (false, false, 0)] {
        let (mut held, id) = one_copy();
        held.described(id, Moment(5), Rows::NONE);
        held.note_ready(Moment(6), false, true);
        assert_eq!(good(&mut held, id), 5, "within the transaction");
        (held.committed, held.rolled_back) = (committed, rolled_back);
        held.note_ready(Moment(7), true, true);
        assert_eq!(good(&mut held, id), expected);
    }
}

#[test]
fn what_was_prepared_beside_temporary_objects_is_prepared_again_without_them() {
    let s = statements(3);
    let (mut held, now) = (Held::new(), Moment(1));
    held.insert(s[0].clone(), now);
    held.temporary_objects(true);
    held.insert(s[1].clone(), now);
    assert!(held.usable(s[0].id) && !held.answers_parse(&s[0], Moment::default()));
    held.temporary_objects(true);
    assert!(held.usable(s[1].id));
    held.temporary_objects(false);
    held.insert(s[2].clone(), now);
    let answers = s.iter().map(|s| held.answers_parse(s, Moment::default()));
    assert_eq!(answers.collect::<Vec<_>>(), [true, false, true]);
}

#[test]
fn an_error_does_not_make_old_plans_doubtful() {
    let (mut held, id) = one_copy();
    held.note_error(Moment(1));
    held.note_ready(Moment(1), true, false);
    assert_eq!(good(&mut held, id), 1);
}
