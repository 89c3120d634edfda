//! What happened, as text for people and as one number for comparison.

/// FNV-1a, 64 bits.
const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const PRIME: u64 = 0x0000_0100_0000_01b3;

/// The trace of one run.
#[derive(Debug)]
pub struct Trace {
    hash: u64,
    print: bool,
}

impl Trace {
    /// An empty trace; `print` writes every line to standard output.
    pub fn new(print: bool) -> Self {
        Trace { hash: OFFSET, print }
    }

    /// Whether lines are printed; costly ones are made only then.
    pub fn prints(&self) -> bool {
        self.print
    }

    /// The hash. It is equal for two runs in which the same bytes took the same ways at
    /// the same times.
    pub fn hash(&self) -> u64 {
        self.hash
    }

    /// Bytes that have moved.
    pub fn bytes(&mut self, now_us: u64, what: u64, bytes: &[u8]) {
        self.number(now_us);
        self.number(what);
        for b in bytes {
            self.hash = (self.hash ^ u64::from(*b)).wrapping_mul(PRIME);
        }
    }

    /// Another event, as a number.
    pub fn number(&mut self, number: u64) {
        self.hash = (self.hash ^ number).wrapping_mul(PRIME);
    }

    /// A line for people.
    pub fn line(&self, now_us: u64, text: impl FnOnce() -> String) {
        if self.print {
            println!("{:>10.6} {}", now_us as f64 / 1e6, text());
        }
    }
}
