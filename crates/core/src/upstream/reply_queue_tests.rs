//! The reply queue alone.

use super::*;
use crate::upstream::fifo::work;
use crate::upstream::job::ProbeRows;

/// Guards against work for each message that grows with the number of unanswered requests.
#[test]
fn what_is_counted_is_what_there_is() {
    let mut q = ReplyQueue::default();
    let mut random = 1u64;
    for step in 0..4000 {
        random = random
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        match (random >> 33) % 12 {
            0 => q.push(Entry::forward(Expect::Bind)),
            1 => q.push(Entry::forward(Expect::Execute)),
            2 => q.push(Entry::skip([Expect::Sync, Expect::Query][step % 2])),
            3 => q.push(Entry::forward(Expect::ParseUnnamed)),
            4 => q.push(Entry::forward(Expect::Parse).with(Effect::default())),
            5 => q.push(Entry::forward(Expect::Sync)),
            6 => q.push(Entry::forward(Expect::CopyEnd)),
            7 => drop(q.enter_copy_in()),
            8 if step % 5 == 0 => drop(q.take_to_sync()),
            _ => drop(q.pop()),
        }
        assert_eq!(q.check(), Ok(()), "{step}");
    }
}

/// Guards against work for each copy or failed segment that grows with everything that stands behind it.
#[test]
fn a_long_pipeline_of_copies_and_of_failures_costs_what_its_length_costs() {
    let work = |part: &[Expect], count: usize, answer: fn(&mut ReplyQueue)| {
        let mut q = ReplyQueue::default();
        for _ in 0..count {
            part.iter().for_each(|&e| q.push(Entry::forward(e)));
        }
        work::counted(|| {
            while !q.is_empty() {
                answer(&mut q);
            }
        })
    };
    let copies = |q: &mut ReplyQueue| {
        assert!(q.enter_copy_in().ended);
        q.pop();
    };
    let fails = |q: &mut ReplyQueue| {
        q.take_to_sync();
        q.pop();
    };
    let of_copies = [Expect::Query, Expect::Sync, Expect::CopyEnd];
    for (part, answer) in [
        (&of_copies[..], copies as fn(&mut _)),
        (&[Expect::Bind, Expect::Sync], fails),
    ] {
        let (once, twice) = (work(part, 5_000, answer), work(part, 10_000, answer));
        assert!(twice <= once * 5 / 2, "{once} {twice}");
    }
}

fn queue(of: &[Expect]) -> ReplyQueue {
    let mut q = ReplyQueue::default();
    of.iter().for_each(|&e| q.push(Entry::forward(e)));
    q
}

fn rest(q: &ReplyQueue) -> Vec<Expect> {
    q.entries.iter().map(|e| e.expect).collect()
}

#[test]
fn an_error_takes_everything_up_to_the_next_sync_a_query_included() {
    let mut q = queue(&[
        Expect::Bind,
        Expect::Query,
        Expect::Execute,
        Expect::Sync,
        Expect::Query,
    ]);
    assert_eq!(q.take_to_sync().len(), 3);
    assert_eq!(rest(&q), [Expect::Sync, Expect::Query]);
    assert_eq!(q.ready_owed, 2);
    let mut q = queue(&[Expect::Parse, Expect::Query]);
    assert_eq!(q.take_to_sync().len(), 2);
    assert!(q.is_empty() && !q.segment_outstanding());
}

#[test]
fn copy_in_swallows_the_syncs_before_its_end_only() {
    let mut q = queue(&[
        Expect::Execute,
        Expect::Sync,
        Expect::Sync,
        Expect::CopyEnd,
        Expect::Sync,
    ]);
    assert!(q.enter_copy_in().ended);
    assert_eq!(rest(&q), [Expect::Execute, Expect::Sync]);
    let mut q = queue(&[Expect::Execute, Expect::Sync]);
    assert!(!q.enter_copy_in().ended);
    assert_eq!(rest(&q), [Expect::Execute]);
    assert!(!q.segment_outstanding() && q.segment_open());
}

/// Guards against a server that waits for the data of a Query's second copy for ever, because the end of the first one
/// was taken for its end.
#[test]
fn each_copy_of_a_query_has_its_own_end() {
    let mut q = queue(&[Expect::Query]);
    q.copy_data_sent();
    q.push(Entry::forward(Expect::CopyEnd));
    assert!(q.enter_copy_in().ended);
    assert!(!q.enter_copy_in().ended);
    q.pop();
    assert!(q.is_empty());

    let mut q = queue(&[Expect::Query, Expect::CopyEnd]);
    q.copy_data_sent();
    for expect in [Expect::Sync, Expect::CopyEnd, Expect::CopyEnd, Expect::Sync] {
        q.push(Entry::forward(expect));
    }
    let first = q.enter_copy_in();
    assert!(first.ended && !first.sync_among_data);
    assert_eq!(q.ready_owed, 3, "the Sync belongs to the second copy");
    let second = q.enter_copy_in();
    assert!(second.ended && second.sync_among_data);
    assert_eq!(rest(&q), [Expect::Query, Expect::CopyEnd, Expect::Sync]);
    q.pop();
    assert_eq!(rest(&q), [Expect::Sync], "the server ignores the last end");
}

/// Guards against an internal query inside a client's segment, whose Sync would commit what the client has not
/// committed.
#[test]
fn a_swallowed_sync_does_not_make_the_queue_quiet() {
    let mut q = queue(&[Expect::Execute, Expect::Sync]);
    q.enter_copy_in();
    q.pop();
    assert!(q.is_empty() && !q.is_quiet());
}

#[test]
fn whether_a_sync_among_copy_data_counts_is_open() {
    let copy = |order: &[u8]| {
        let mut q = queue(&[Expect::Execute]);
        for of in order {
            match of {
                b'd' => q.copy_data_sent(),
                _ => q.push(Entry::forward(Expect::Sync)),
            }
        }
        q.enter_copy_in().sync_among_data
    };
    assert!(!copy(b"Sd") && !copy(b"SSd"));
    assert!(copy(b"dS") && copy(b"SdS"));
}

#[test]
fn statements_are_in_doubt_only_behind_a_segment_that_changes_them() {
    let mut q = queue(&[Expect::ParseUnnamed, Expect::Bind]);
    assert!(
        !q.statements_in_doubt(),
        "within its own segment a message sees what came before it"
    );
    q.push(Entry::forward(Expect::Sync));
    assert!(q.statements_in_doubt());
    assert!(!queue(&[Expect::Bind, Expect::Execute, Expect::Sync]).statements_in_doubt());
}

/// Guards against a reply to an internal request, or one that the pooler must see, going to the client unseen.
#[test]
fn only_what_nobody_else_must_know_passes_plainly() {
    let passes = |entry: Entry, tag| {
        let mut q = ReplyQueue::default();
        q.push(entry);
        (q.passes_plainly(tag), q.is_empty())
    };
    assert_eq!(passes(Entry::forward(Expect::Bind), b'2'), (true, true));
    assert_eq!(passes(Entry::forward(Expect::Execute), b'D'), (true, false));
    assert_eq!(passes(Entry::forward(Expect::Query), b'T'), (true, false));
    assert_eq!(passes(Entry::forward(Expect::Describe), b'T'), (true, true));
    let not = (false, false);
    assert_eq!(passes(Entry::forward(Expect::Describe).using(20), b'T'), not);
    assert_eq!(passes(Entry::forward(Expect::Bind), b'1'), not);
    assert_eq!(passes(Entry::skip(Expect::Bind), b'2'), not);
    assert_eq!(
        passes(
            Entry::skip(Expect::Query).answered_to(To::Job(Job::Probe(ProbeRows::Pins))),
            b'D'
        ),
        not
    );
    assert_eq!(passes(Entry::fake(Expect::Parse), b'1'), not);
    let replaced = Entry::forward(Expect::Parse).replacing(*b"42P05", Instead::Error(Vec::new()));
    assert_eq!(passes(replaced, b'1'), not);
    assert!(!ReplyQueue::default().passes_plainly(b'D'));
}

#[test]
fn fakes_are_counted_in_and_out() {
    let mut q = queue(&[Expect::Bind]);
    q.push(Entry::fake(Expect::Parse));
    assert!(!q.fake_in_front());
    q.pop();
    assert!(q.fake_in_front());
    q.pop();
    assert!(!q.fake_in_front() && q.is_empty() && q.fakes == 0);
}

/// Guards against losing track of a statement that was prepared behind the end of all statements and then closed in a
/// segment that failed: its next Parse would be refused as a duplicate.
#[test]
fn what_was_prepared_behind_the_end_of_all_is_brought_back_when_its_close_fails() {
    let statement =
        crate::statements::internal::InternalStatements::new(&mut crate::base::secret_names::SecretNames::new([0; 32]))
            .set_config
            .clone();
    let lost = || Some(statement.clone());
    let close = |server_loses| {
        Entry::forward(Expect::Close).with(Effect {
            server_loses,
            ..Effect::default()
        })
    };
    let mut q = queue(&[Expect::Query]);
    q.push(close(lost()));
    q.push(Entry::forward(Expect::Parse).with(Effect {
        server_gains: lost(),
        ..Effect::default()
    }));
    q.push(close(lost()));
    let later = q.all_ended_in_front().unwrap();
    assert!(later.statements().contains(&statement.id));
    assert!(q.all_ended_in_front().is_none(), "it is found out once");
    let brought_back = |e: &Entry| e.effect().is_some_and(|e| e.server_loses.is_some());
    assert_eq!(
        q.entries.iter().map(brought_back).collect::<Vec<_>>(),
        [false, false, false, true]
    );
}

/// A queue of these entries.
fn queue_of(entries: impl IntoIterator<Item = Entry>) -> ReplyQueue {
    let mut q = ReplyQueue::default();
    entries.into_iter().for_each(|e| q.push(e));
    q
}

/// A cancel may go to a server while it prepares a statement, if the client's message then fails for certain.
#[test]
fn what_is_prepared_for_the_message_of_a_client() {
    let prepares = |id: u64| [Entry::skip(Expect::Parse), Entry::skip(Expect::Sync).using(id)];
    let bind = |id: u64| Entry::forward(Expect::Bind).using(id);
    let query = || Entry::forward(Expect::Query);
    let behind = |front: Vec<Entry>, message: Entry| queue_of(front.into_iter().chain([message])).prepares_for_client();
    assert!(behind(prepares(7).into(), bind(7)));
    assert!(
        !behind(prepares(7).into(), bind(8)),
        "a statement that the message may do without"
    );
    assert!(!behind([prepares(8), prepares(7)].concat(), bind(7)));
    assert!(behind([prepares(8), prepares(7)].concat(), query().executing()));
    assert!(
        !behind(prepares(7).into(), query()),
        "it may go on without the statement"
    );
    assert!(!behind(Vec::new(), query().executing()));
    let question = Entry::skip(Expect::Sync);
    assert!(!behind([vec![question.clone()], prepares(7).into()].concat(), bind(7)));
    assert!(!behind([prepares(7).into(), vec![question]].concat(), bind(7)));
}

/// The error that is a consequence of an earlier one does not take its place.
#[test]
fn the_error_that_came_first_is_told() {
    let told = |q: &mut ReplyQueue| match &q.back()?.replacement()?.instead {
        Instead::Error(error) => Some(error.clone()),
        Instead::Named { .. } => None,
    };
    let sync = || Entry::skip(Expect::Sync).using(7);
    let mut q = queue_of([sync(), sync(), Entry::forward(Expect::Query)]);
    assert!(q.replace_behind_internal_parse(false, false, &[], || b"first".to_vec()));
    q.pop();
    assert!(q.replace_behind_internal_parse(false, true, &[], || b"follows".to_vec()));
    assert_eq!(told(&mut q).as_deref(), Some(&b"first"[..]));
    assert!(q.replace_behind_internal_parse(false, false, &[], || b"of a statement".to_vec()));
    assert_eq!(told(&mut q).as_deref(), Some(&b"of a statement"[..]));
}

/// Guards against an error about a statement that the text does not use: its name is also that of a column.
#[test]
fn a_missing_statement_gets_its_own_error() {
    let sync = || Entry::skip(Expect::Sync).using(7);
    let mut q = queue_of([sync(), sync(), Entry::forward(Expect::Query)]);
    for name in ["v", "w"] {
        let error = || format!("{name} fails").into_bytes();
        assert!(q.replace_behind_internal_parse(false, false, &[name.as_bytes().into()], error));
        q.pop();
    }
    let told = |message: &str| match q.front()?.replacement()?.instead_of(b"26000", message.as_bytes())? {
        Instead::Error(error) => Some(&**error),
        Instead::Named { .. } => panic!("a Query gets an error"),
    };
    assert_eq!(told("prepared statement \"v\" does not exist"), Some(&b"v fails"[..]));
    assert_eq!(told("la sentencia preparada «w» no existe"), Some(&b"w fails"[..]));
    assert_eq!(told("prepared statement \"a\" does not exist"), None);
    assert_eq!(told("prepared statement \"v2\" does not exist"), None);
}
