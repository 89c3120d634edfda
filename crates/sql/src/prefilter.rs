//! A quick look at the bytes of a text, which finds nearly all ordinary statements harmless.
//!
//! Six consecutive bytes of each name that matters are its *core*. At every fourth place of the text, the look takes
//! three bytes as the key into a small table. Three bytes of a core can begin at four places, and one of these is
//! always among the places that are read. If the key is in the table, the bytes around it are compared with the core.

use crate::harmless_calls::surely_harmless;
use memchr::{memchr, memmem};

/// Six bytes of every name in [`crate::names::NAMES`].
const CORES: [&[u8; 6]; 20] = [
    b"t_conf", b"et_lim", b"etting", b"g_temp", b"adviso", b"etseed", b"currva", b"lastva", b"nextva", b"setval",
    b"epared", b"replic", b"backup", b"dblink", b"p_buff", b"ts_sta", b"n_pend", b"rin_su", b"lidato", b"g_rest",
];

/// A key that several cores share; the bytes around it are not compared.
const SHARED_KEY: [u8; 3] = *b"tva";

/// The cores of `temp_schema` and `current_schemas`. All six bytes of these names contain the "em" of "temp". So five
/// bytes are the core, and the byte before them is compared, too.
const SCHEMA: (&[u8; 6], [&[u8; 6]; 2]) = (b"_schem", [b"p_sche", b"t_sche"]);

/// The bytes that may stand directly before TEMP, between it and INTO: white space, the end of a comment.
const BEFORE_TEMP: &[u8] = b" \t\n\r\x0b\x0c/";

/// The bytes that may follow TEMP: white space, a comment, a quoted name, the rest of TEMPORARY.
const AFTER_TEMP: &[u8] = b" \t\n\r\x0b\x0c/-\"o";

/// The bit that turns a letter in upper case into one in lower case, in each byte.
const FOLD: u64 = 0x2020_2020_2020_2020;

const SLOTS: usize = 1024;

/// Chosen so that no two keys share a slot (which [`Table::add`] checks), and that frequent letters of SQL seldom match
/// a slot.
const MULTIPLIER: u32 = 0x0005_f87b;

/// What eight bytes of the text are compared with. Their fourth to sixth byte are the key.
#[derive(Clone, Copy)]
struct Entry {
    key: u32,
    mask: u64,
    value: u64,
}

struct Table {
    /// Places in `entries`; 0 where there is none.
    slots: [u8; SLOTS],
    entries: [Entry; 256],
    /// The number of entries in use, including the unused one at the beginning.
    length: usize,
}

static TABLE: Table = Table::new();

/// Whether this text is one statement, contains no zero byte, no `U&"` and no name from [`crate::names::NAMES`], and
/// calls only functions that are surely harmless. `temp` within a word does not count. `false` proves nothing.
#[inline]
pub(crate) fn is_harmless(text: &[u8]) -> bool {
    let statement = text.trim_ascii_end();
    let statement = statement.strip_suffix(b";").unwrap_or(statement);
    let Some(end) = statement.last_chunk::<8>() else {
        // Too short for a verb and a name.
        return !statement.iter().any(|b| matches!(b, b';' | b'&' | b'(' | 0));
    };
    let (chunks, rest) = statement.as_chunks::<8>();
    let mut before = FOLD;
    for chunk in chunks {
        let now = u64::from_le_bytes(*chunk) | FOLD;
        if TABLE.has_either(before, now) {
            return false;
        }
        before = now;
    }
    // The rest of the text, filled up with spaces.
    let read_bits = 8 * (8 - rest.len() as u32);
    let now = u64::from_le_bytes(*end).checked_shr(read_bits).unwrap_or(0) | FOLD;
    if TABLE.has_either(before, now) {
        return false;
    }
    let marks = Marks::of(statement);
    !marks.zero
        && (!marks.semicolon_or_ampersand || is_harmless_in_full(statement))
        && (!marks.parenthesis || surely_harmless(statement))
}

/// Whether there is neither a semicolon nor a `U&"`.
#[cold]
#[inline(never)]
fn is_harmless_in_full(statement: &[u8]) -> bool {
    memchr(b';', statement).is_none() && memmem::find(statement, b"&\"").is_none()
}

/// Which of the bytes that matter a text contains.
struct Marks {
    zero: bool,
    semicolon_or_ampersand: bool,
    parenthesis: bool,
}

impl Marks {
    /// `text` has at least eight bytes. It is read 16 bytes at a time, so that the compiler uses vector instructions.
    #[inline]
    fn of(text: &[u8]) -> Marks {
        let (chunks, _) = text.as_chunks::<16>();
        let mut seen = [[0u8; 16]; 3];
        for chunk in chunks {
            Marks::add(&mut seen, chunk);
        }
        // The last 16 bytes; some of them are read again.
        let last = text.last_chunk::<16>().copied().unwrap_or_else(|| {
            let eight = |bytes: Option<&[u8; 8]>| bytes.map_or(0, |bytes| u64::from_ne_bytes(*bytes));
            let (first, last) = (eight(text.first_chunk()), eight(text.last_chunk()));
            (u128::from(first) << 64 | u128::from(last)).to_ne_bytes()
        });
        Marks::add(&mut seen, &last);
        let any = |bytes: [u8; 16]| u128::from_ne_bytes(bytes) != 0;
        Marks {
            zero: any(seen[0]),
            semicolon_or_ampersand: any(seen[1]),
            parenthesis: any(seen[2]),
        }
    }

    #[inline]
    fn add(seen: &mut [[u8; 16]; 3], bytes: &[u8; 16]) {
        for (at, &byte) in bytes.iter().enumerate() {
            seen[0][at] |= u8::from(byte == 0);
            seen[1][at] |= u8::from(byte == b';') | u8::from(byte == b'&');
            seen[2][at] |= u8::from(byte == b'(');
        }
    }
}

/// The slot of a key: three bytes, the first of which is the lowest. The multiplication drops the bits above these 24.
const fn slot_of(key: u32) -> usize {
    (key.wrapping_mul(MULTIPLIER << 8) >> 22) as usize
}

impl Table {
    /// Whether the eight bytes in the middle of these sixteen, or the last eight, contain the core of a name. `before`
    /// are the eight bytes before `now`; all are in lower case.
    #[inline]
    fn has_either(&self, before: u64, now: u64) -> bool {
        let middle = self.slots[slot_of((before >> 56) as u32 | (now as u32) << 8)];
        let last = self.slots[slot_of((now >> 24) as u32)];
        middle | last != 0 && (self.is_entry(middle, before >> 32 | now << 32) || self.is_entry(last, now))
    }

    /// Whether these bytes match an entry.
    fn is_entry(&self, number: u8, bytes: u64) -> bool {
        let entry = &self.entries[usize::from(number)];
        number != 0 && bytes & entry.mask == entry.value
    }

    const fn new() -> Table {
        let empty = Entry {
            key: 0,
            mask: 0,
            value: 0,
        };
        let mut table = Table {
            slots: [0; SLOTS],
            entries: [empty; 256],
            length: 1,
        };
        let mut core = 0;
        while core < CORES.len() {
            let mut at = 0;
            while at < 4 {
                // Cores that contain "temp" are added below.
                let (one, two, three) = (CORES[core][at], CORES[core][at + 1], CORES[core][at + 2]);
                if one == SHARED_KEY[0] && two == SHARED_KEY[1] && three == SHARED_KEY[2] {
                    table.add(*CORES[core], at, at, at + 3);
                } else if !(two == b'e' && three == b'm' || two == b'm') {
                    table.add(*CORES[core], at, 0, 6);
                }
                at += 1;
            }
            core += 1;
        }
        let mut at = 0;
        while at < 3 {
            table.add(*SCHEMA.0, at, 0, 6);
            at += 1;
        }
        table.add(*SCHEMA.1[0], 0, 0, 6);
        table.add(*SCHEMA.1[1], 0, 0, 6);
        let mut side = 0;
        while side < BEFORE_TEMP.len() {
            table.add([BEFORE_TEMP[side], b't', b'e', b'm', b'p', b' '], 0, 1, 5);
            side += 1;
        }
        table.add(*b" temp ", 1, 1, 5);
        table.add(*b" temp ", 2, 1, 5);
        side = 0;
        while side < AFTER_TEMP.len() {
            table.add([b' ', b't', b'e', b'm', b'p', AFTER_TEMP[side]], 3, 1, 5);
            side += 1;
        }
        table
    }

    /// Adds the key at `at` of six bytes; the bytes from `from` up to `to` are compared.
    const fn add(&mut self, bytes: [u8; 6], at: usize, from: usize, to: usize) {
        let key = (bytes[at] as u32 | (bytes[at + 1] as u32) << 8 | (bytes[at + 2] as u32) << 16) | 0x0020_2020;
        let mut entry = Entry { key, mask: 0, value: 0 };
        // The key's first byte is the fourth of the eight that are compared.
        let mut byte = from;
        while byte < to {
            if byte + 3 >= at && byte + 3 - at < 8 {
                let shift = 8 * (byte + 3 - at);
                entry.mask |= 0xff << shift;
                entry.value |= ((bytes[byte] | 0x20) as u64) << shift;
            }
            byte += 1;
        }
        let slot = &mut self.slots[slot_of(key)];
        if *slot != 0 {
            let other = self.entries[*slot as usize];
            assert!(
                other.key == key && other.mask == entry.mask && other.value == entry.value,
                "two keys in a slot: choose another multiplier, or other cores"
            );
            return;
        }
        self.entries[self.length] = entry;
        *slot = self.length as u8;
        self.length += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::NAMES;
    use proptest::prelude::*;

    #[test]
    fn ordinary_statements_are_harmless() {
        for text in [
            "SELECT abalance FROM pgbench_accounts WHERE aid = 12345;",
            "UPDATE pgbench_accounts SET abalance = abalance + 1 WHERE aid = 1;\n ",
            "SELECT c FROM sbtest1 WHERE id BETWEEN 1 AND 2 ORDER BY c LIMIT 10",
            "insert into t values ('a&b', current_timestamp, 'template')",
            "select system_limit, assets.config from public.attempts join contemporary using (id)",
        ] {
            assert!(is_harmless(text.as_bytes()), "{text}");
        }
        for text in [
            "select 1; select 2",
            "select u&\"x\"",
            "select 1 into temp x",
            "select '; '",
        ] {
            assert!(!is_harmless(text.as_bytes()), "{text}");
        }
    }

    proptest! {
        /// If a name is missed, session state is lost.
        #[test]
        fn no_name_slips_through(which in 0..NAMES.len(), before in "[ -~]{0,12}", after in "[ -~]{0,12}", upper: bool) {
            let (name, _) = NAMES[which];
            let text = format!("select {before}{name}{after}");
            let text = if upper { text.to_ascii_uppercase() } else { text };
            prop_assert!(!is_harmless(text.as_bytes()), "{}", text);
        }

        /// Each byte is looked at, wherever it is in the text.
        #[test]
        fn each_mark_is_seen(text in "[ -~é]{8,60}", which in prop::sample::select(vec![0, b';', b'&', b'(', b'x']), at: usize) {
            let mut bytes = text.replace([';', '&', '('], " ").into_bytes();
            let at = at % bytes.len();
            bytes[at] = which;
            let marks = Marks::of(&bytes);
            prop_assert_eq!(marks.zero, which == 0);
            prop_assert_eq!(marks.semicolon_or_ampersand, which == b';' || which == b'&');
            prop_assert_eq!(marks.parenthesis, which == b'(');
        }

        #[test]
        fn no_temporary_table_slips_through(
            before in "[ -~]{0,9}",
            space in prop::sample::select(BEFORE_TEMP),
            temp in prop::sample::select(vec!["temp", "TEMP", "tEmP"]),
            next in prop::sample::select(AFTER_TEMP),
            after in "[ -~]{0,9}",
        ) {
            let text = format!("{before}into{}{temp}{}{after}", space as char, next as char);
            prop_assert!(!is_harmless(text.as_bytes()), "{}", text);
        }
    }
}
