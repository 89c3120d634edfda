//! Statements of the client that reset settings, or that are followed where statements are not tracked.

use super::ClientSession;
use crate::statements::followed::{Followed, FollowedBefore};
use pgweir_sql::{Effects, Returns, Statement};
use pgweir_wire::frontend::Parse;

/// The most statements of a client that are followed in a pool where statements are not tracked.
const FOLLOWED_MAX: usize = 64;

/// A RESET whose answer decides whether the client's startup values are set again.
impl ClientSession {
    /// Such a request was sent.
    pub(crate) fn resets(&mut self, returns: Returns) {
        self.reset_among = Some(Box::new(returns));
    }

    /// Whether the server has not answered such a request.
    #[inline]
    pub(crate) fn awaits_reset(&self) -> bool {
        self.reset_among.is_some()
    }

    /// The request has ended. Returns the settings that it has reset, unless it was undone.
    pub(crate) fn take_reset(&mut self) -> Option<Returns> {
        self.reset_among.take().map(|returns| *returns)
    }

    /// The server has refused or ignored the request.
    pub(crate) fn reset_is_undone(&mut self) {
        self.reset_among = None;
    }
}

/// Statements that are followed: see [`crate::preparing::untracked`].
impl ClientSession {
    /// Whether any statement of the client is followed.
    pub(crate) fn follows_any(&self) -> bool {
        !self.followed.is_empty()
    }

    /// The statement of this name, if it is followed.
    pub(crate) fn followed(&self, name: &[u8]) -> Option<&Followed> {
        self.followed.iter().find(|f| f.name() == name)
    }

    /// A statement is parsed: follows it if that is necessary, and forgets what its name meant before. Returns that, for
    /// the case that the Parse is refused or ignored.
    pub(crate) fn follows(
        &mut self,
        parse: &Parse<'_>,
        verdict: &Statement,
        effects: Effects,
    ) -> Option<FollowedBefore> {
        let found = Followed::of(parse, verdict, effects);
        let before = self.take_followed(parse.name);
        if found.is_none() && before.is_none() {
            return None;
        }
        let room = self.followed.len() < FOLLOWED_MAX;
        self.followed.extend(found.filter(|_| room));
        Some((parse.name.into(), before))
    }

    /// The name may come to mean something else. Returns what it meant.
    pub(crate) fn follows_no_more(&mut self, name: &[u8]) -> Option<FollowedBefore> {
        let before = self.take_followed(name)?;
        Some((name.into(), Some(before)))
    }

    /// The request that changed the meaning of this name was refused or ignored.
    pub(crate) fn follows_again(&mut self, name: &[u8], before: Option<Followed>) {
        self.take_followed(name);
        self.followed.extend(before);
    }

    fn take_followed(&mut self, name: &[u8]) -> Option<Followed> {
        let at = self.followed.iter().position(|f| f.name() == name)?;
        Some(self.followed.swap_remove(at))
    }
}
