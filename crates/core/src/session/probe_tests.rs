//! Tests of probes, without a pooler.

use super::*;
use crate::alone::{Alone, CLIENT, SERVER};
use crate::base::pin_reason::PinReason;
use crate::base::request::CancelEnd;
use crate::session::probe_answer::PROBES_FAILED_MAX;
use crate::state::pins::PROBED;
use crate::upstream::entry::To;
use pgweir_wire::Writer;

fn suspected(effects: Effects) -> Alone {
    let mut alone = Alone::linked();
    alone.exchange().suspect(effects, b"select f()", Vec::new());
    alone
}

/// The server answers with this row.
fn tells(alone: &mut Alone, rows: ProbeRows, values: &[Option<&[u8]>]) {
    let mut message = Vec::new();
    Writer::new(&mut message).data_row(values.len(), values.iter().copied());
    alone.reply().answer_row(Job::Probe(rows), &message);
}

/// The names of the statements that were bound.
fn bound(alone: &mut Alone) -> Vec<String> {
    let binds = alone.written(SERVER).into_iter().filter(|(tag, _)| *tag == 'B');
    let name = |body: &[u8]| String::from_utf8_lossy(body.split(|b| *b == 0).nth(1).unwrap()).into_owned();
    binds.map(|(_, body)| name(&body)).collect()
}

fn name_of(statement: &Statement) -> String {
    String::from_utf8_lossy(statement.server_name()).into_owned()
}

#[test]
fn nothing_is_asked_without_suspicion() {
    let mut alone = Alone::linked();
    assert!(!alone.exchange().probe());
    assert!(alone.written(SERVER).is_empty() && alone.server.is_clean());
}

#[test]
fn only_what_is_suspected_is_asked_for() {
    let internal = Alone::new().shared.internal;
    let pins = name_of(&internal.probe_pins);
    let settings = name_of(&internal.probe_settings);
    for (effects, asked) in [
        (Effects::SETTINGS, vec![&settings]),
        (Effects::LOCKS, vec![&pins]),
        (Effects::SETTINGS | Effects::TEMPORARY, vec![&pins, &settings]),
    ] {
        let mut alone = suspected(effects);
        assert!(alone.exchange().probe(), "{effects:?}");
        assert_eq!(bound(&mut alone).iter().collect::<Vec<_>>(), asked, "{effects:?}");
        assert!(alone.client.session.suspicion().is_none(), "it is with the probe");
        let queue = alone.server.conversation.queue_mut();
        while let Some(entry) = queue.pop() {
            assert!(matches!(entry.to(), To::Job(Job::Probe(_))));
        }
    }
}

#[test]
fn time_limits_are_lifted_before_the_questions() {
    let mut alone = Alone::linked();
    let shape = alone.with("statement_timeout", "5s");
    alone.client.session.has_settings(shape.clone());
    alone.server.session.has_settings(shape);
    alone.exchange().suspect(Effects::LOCKS, b"select f()", Vec::new());
    assert!(alone.exchange().probe());
    let lifts = name_of(&alone.shared.internal.set_config_local);
    let asks = name_of(&alone.shared.internal.probe_pins);
    assert_eq!(bound(&mut alone), [lifts.clone(), lifts.clone(), lifts, asks]);
}

/// Guards against a limit of some milliseconds that ends the connection in the probe behind the SET.
#[test]
fn a_limit_on_transactions_is_lifted_behind_the_text_that_sets_it() {
    let internal = Alone::new().shared.internal;
    let (lifts, asks) = (name_of(&internal.set_config_local), name_of(&internal.probe_settings));
    for (text, asked) in [
        (&b"SET Transaction_Timeout = '5ms'"[..], vec![&lifts, &asks]),
        (b"set statement_timeout = 5", vec![&asks]),
    ] {
        let mut alone = Alone::linked();
        alone.exchange().suspect(Effects::SETTINGS, text, Vec::new());
        assert!(alone.exchange().probe());
        assert_eq!(bound(&mut alone).iter().collect::<Vec<_>>(), asked);
    }
}

/// Guards against a probe that waits for other sessions' transactions, behind the very text that makes its snapshot wait.
#[test]
fn a_text_that_may_defer_transactions_is_probed_in_a_transaction_that_does_not_wait() {
    let internal = Alone::new().shared.internal;
    let (begins, asks) = (name_of(&internal.begin_plain), name_of(&internal.probe_settings));
    for (text, read_only, is_delayed) in [
        (&b"set DEFAULT_transaction_deferrable = on"[..], "on", true),
        (b"set session characteristics as transaction read only", "on", true),
        (b"set U&\"\\0064efault_transaction_deferrable\" = on", "on", true),
        (b"set default_transaction_deferrable = on", "off", false),
        (b"set work_mem = '1MB'", "on", false),
    ] {
        let mut alone = Alone::linked();
        let shape = alone.with("default_transaction_read_only", read_only);
        alone.server.session.has_settings(shape);
        alone.exchange().suspect(Effects::SETTINGS, text, Vec::new());
        assert!(alone.exchange().probe());
        let bound = bound(&mut alone);
        assert_eq!(bound.contains(&begins), is_delayed, "{}", String::from_utf8_lossy(text));
        assert!(bound.contains(&asks));
    }
    let mut alone = Alone::linked();
    let shape = alone.with("default_transaction_read_only", "on");
    alone.server.session.has_settings(shape);
    alone
        .exchange()
        .suspect(Effects::CODE | Effects::SETTINGS, b"do 'x'", Vec::new());
    assert!(alone.exchange().probe());
    assert!(bound(&mut alone).contains(&begins));
}

#[test]
fn a_cancel_on_its_way_would_hit_the_probe() {
    let mut alone = suspected(Effects::LOCKS);
    alone.server.cancels.one_is_sent();
    assert!(alone.exchange().probe(), "the client keeps the server");
    assert!(alone.written(SERVER).is_empty() && alone.server.session.probe().is_none());
    assert!(alone.client.session.suspicion().is_some());
    alone.server.cancels.one_is_over(CancelEnd::Over);
    assert!(alone.exchange().probe() && alone.server.session.probe().is_some());
}

/// Guards against a client that waits for ever for a probe that a cancel request has put off: the suspicion itself
/// waits for a text, and only the rule that a probe follows every transaction asks.
#[test]
fn a_probe_that_was_put_off_is_sent_when_the_cancel_is_over() {
    let mut alone = suspected(Effects::CODE | Effects::SETTINGS);
    alone.shared.settings.probe_always = true;
    for _ in 0..PROBES_FAILED_MAX {
        alone.exchange().probe();
        alone.server.session.probe_mut().unwrap().fails("out of memory");
        alone.reply().probed();
    }
    alone.written(SERVER);
    alone.client.session.uses_server();
    alone.server.cancels.one_is_sent();
    assert!(alone.exchange().probe() && alone.server.session.probe().is_none());
    alone.server.cancels.one_is_over(CancelEnd::Over);
    assert!(alone.exchange().probe() && alone.server.session.probe().is_some());
}

#[test]
fn the_answer_sets_and_ends_pins() {
    let mut alone = suspected(Effects::LOCKS);
    alone.exchange().probe();
    let mut row = vec![Some(&b"f"[..]); PROBED.len() + 1];
    row[1] = Some(b"t");
    tells(&mut alone, ProbeRows::Pins, &row);
    alone.reply().probed();
    assert!(alone.client.session.pins().contains(PinReason::AdvisoryLocks));
    alone.exchange().suspect(Effects::ENDS, b"select g()", Vec::new());
    alone.exchange().probe();
    row[1] = Some(b"f");
    tells(&mut alone, ProbeRows::Pins, &row);
    alone.reply().probed();
    assert!(alone.client.session.pins().is_empty());
}

#[test]
fn the_answer_gives_client_and_server_their_settings() {
    let mut alone = suspected(Effects::SETTINGS);
    alone.exchange().probe();
    tells(
        &mut alone,
        ProbeRows::Setting,
        &[Some(b"work_mem"), Some(b"1MB"), Some(b"f")],
    );
    alone.reply().probed();
    for shape in [alone.client.session.shape(), alone.server.session.shape()] {
        assert_eq!(shape.get("work_mem").map(|s| s.value()), Some("1MB"));
    }
}

/// Guards against a limit of the startup packet that is lost: the probe lifts it, and took the value that RESET had left
/// for one that the session had set.
#[test]
fn a_lifted_limit_counts_only_if_the_session_has_set_it() {
    for (is_made, value) in [(&b"t"[..], Some("5s")), (b"f", None)] {
        let mut alone = suspected(Effects::CODE | Effects::SETTINGS);
        alone.exchange().probe();
        let lifted = [Some(&b"lock_timeout"[..]), Some(b"5s"), Some(is_made), Some(b"0")];
        tells(&mut alone, ProbeRows::LiftedLimit, &lifted);
        let unlifted = [Some(&b"statement_timeout"[..]), Some(b"0"), None, None];
        tells(&mut alone, ProbeRows::LiftedLimit, &unlifted);
        let shown = [Some(&b"lock_timeout"[..]), Some(b"0"), Some(b"f")];
        tells(&mut alone, ProbeRows::Setting, &shown);
        alone.reply().probed();
        let shape = alone.server.session.shape();
        assert_eq!(shape.get("lock_timeout").map(|s| s.value()), value);
        assert!(shape.get("statement_timeout").is_none());
    }
}

#[test]
fn a_probe_that_fails_is_sent_again_and_pins_in_the_end() {
    let mut alone = suspected(Effects::LOCKS);
    for failed in 1..=3 {
        assert!(alone.exchange().probe(), "probe {failed}");
        alone.server.session.probe_mut().unwrap().fails("out of memory");
        alone.reply().probed();
        let pinned = alone.client.session.pins().contains(PinReason::UnknownState);
        assert_eq!(pinned, failed == 3, "probe {failed}");
    }
    assert!(!alone.exchange().probe(), "it waits for a new text");
    assert!(alone.client.session.suspicion().is_some(), "nothing is forgotten");
}

#[test]
fn what_no_probe_can_see_pins_at_once() {
    let mut alone = suspected(Effects::SEED);
    alone.exchange().probe();
    assert!(alone.client.session.pins().contains(PinReason::Seed));
    assert!(alone.written(CLIENT).is_empty());
}
