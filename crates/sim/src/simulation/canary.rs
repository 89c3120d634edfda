//! Drivers that are broken on purpose.

/// What is broken. Each happens now and then, not always.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Canary {
    /// Bytes for one client go to another.
    Misroute,
    /// A server's ReadyForQuery says idle when it is not.
    FalseIdle,
    /// Bytes the core did not consume are forgotten.
    ForgetKept,
    /// Two parts for one connection change places.
    SwapParts,
    /// A cancel request goes to another server.
    MisdirectCancel,
    /// The core is told that a cancel request is through before it is.
    EarlyCancelEnd,
    /// A Resume is ignored.
    ForgetResume,
    /// A server connection that the core closed is left open.
    LeaveOpen,
    /// A reply to a client is swallowed.
    SwallowPart,
}

impl Canary {
    /// All of them.
    pub const ALL: [Canary; 9] = [
        Canary::Misroute,
        Canary::FalseIdle,
        Canary::ForgetKept,
        Canary::SwapParts,
        Canary::MisdirectCancel,
        Canary::EarlyCancelEnd,
        Canary::ForgetResume,
        Canary::LeaveOpen,
        Canary::SwallowPart,
    ];

    /// Once in so many chances.
    pub fn one_in(self) -> u64 {
        match self {
            Canary::MisdirectCancel | Canary::EarlyCancelEnd | Canary::LeaveOpen => 2,
            Canary::ForgetResume => 10,
            _ => 40,
        }
    }
}
