use super::*;
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

#[derive(Debug, PartialEq, Freeze)]
struct Everything<T> {
    numbers: (u8, u16, u32, u64),
    signed: i64,
    text: String,
    word: &'static str,
    maybe: Option<Box<T>>,
    list: Vec<T>,
    queue: VecDeque<(T, bool)>,
    map: HashMap<Arc<str>, T>,
    set: HashSet<[u8; 3]>,
    tree: BTreeMap<String, Choice>,
    time: Duration,
    address: SocketAddr,
    #[freeze(skip)]
    not_written: u32,
}

#[derive(Debug, PartialEq, Freeze)]
enum Choice {
    Nothing,
    Pair(u64, Option<String>),
    Named { shared: Arc<[u8]> },
}

fn everything() -> Everything<u64> {
    let choices = [
        ("a".into(), Choice::Nothing),
        ("b".into(), Choice::Pair(u64::MAX, Some("x".into()))),
        ("c".into(), Choice::Named { shared: [1, 2].into() }),
    ];
    Everything {
        numbers: (255, 65535, 1 << 31, u64::MAX),
        signed: -5,
        text: "\u{e9}".into(),
        word: "word",
        maybe: Some(Box::new(7)),
        list: vec![0, 127, 128, u64::MAX],
        queue: VecDeque::from([(1, true), (2, false)]),
        map: HashMap::from([("k".into(), 3)]),
        set: HashSet::from([[1, 2, 3]]),
        tree: BTreeMap::from(choices),
        time: Duration::from_micros(1_234_567),
        address: "[::1%3]:6432".parse().unwrap_or_else(|_| "[::1]:6432".parse().unwrap()),
        not_written: 0,
    }
}

#[test]
fn what_is_thawed_equals_what_was_frozen() {
    assert_eq!(from_bytes(&to_bytes(&everything())), Ok(everything()));
}

#[test]
fn what_is_skipped_is_the_default() {
    let mut value = everything();
    value.not_written = 9;
    assert_eq!(from_bytes(&to_bytes(&value)), Ok(everything()));
}

#[test]
fn what_was_shared_is_shared_and_what_was_equal_but_apart_stays_apart() {
    let (a, b): (Arc<str>, Arc<str>) = ("x".into(), "x".into());
    let nested = Arc::new(a.clone());
    let thawed: (Vec<Arc<str>>, Vec<Arc<Arc<str>>>) =
        from_bytes(&to_bytes(&(vec![a.clone(), b, a], vec![nested.clone(), nested]))).unwrap();
    let (texts, nests) = thawed;
    assert!(Arc::ptr_eq(&texts[0], &texts[2]) && !Arc::ptr_eq(&texts[0], &texts[1]));
    assert!(Arc::ptr_eq(&nests[0], &nests[1]) && Arc::ptr_eq(&*nests[0], &texts[0]));
}

#[test]
fn bytes_are_written_at_once_as_they_would_be_one_by_one() {
    let bytes: Vec<u8> = (0..=255).cycle().take(3000).collect();
    let one_by_one = to_bytes(&VecDeque::from(bytes.clone()));
    assert_eq!(to_bytes(&bytes), one_by_one);
    assert_eq!(to_bytes(&Box::<[u8]>::from(&*bytes)), one_by_one);
    assert_eq!(from_bytes(&one_by_one), Ok(bytes));
    // A count that is larger than what follows.
    assert_eq!(from_bytes::<Vec<u8>>(&one_by_one[..one_by_one.len() - 1]), Err(Damaged));
}

#[test]
fn no_byte_makes_thawing_panic() {
    let good = to_bytes(&everything());
    for at in 0..good.len() {
        assert_eq!(from_bytes::<Everything<u64>>(&good[..at]), Err(Damaged), "cut at {at}");
        for byte in [0, 1, 2, 127, 128, 255] {
            let mut bad = good.clone();
            bad[at] = byte;
            let _ = from_bytes::<Everything<u64>>(&bad);
        }
    }
    let mut long = good.clone();
    long.push(0);
    assert_eq!(from_bytes::<Everything<u64>>(&long), Err(Damaged));
}

#[test]
fn a_reference_to_a_value_of_another_type_is_damage() {
    let mut out = Writer::default();
    Arc::<str>::from("x").freeze(&mut out);
    out.number(1);
    assert!(from_bytes::<(Arc<str>, Arc<u64>)>(&out.into_bytes()).is_err());
}

#[test]
fn a_layout_knows_names_order_and_types_of_fields() {
    mod one {
        #[derive(super::Freeze)]
        pub struct S(pub u32, pub u64);
    }
    mod two {
        #[derive(super::Freeze)]
        pub struct S(pub u64, pub u32);
    }
    mod three {
        #[derive(super::Freeze)]
        pub struct S(pub u32, pub super::Choice);
    }
    let layouts = [one::S::LAYOUT, two::S::LAYOUT, three::S::LAYOUT];
    assert!(layouts[0] != layouts[1] && layouts[1] != layouts[2] && layouts[0] != layouts[2]);
}
