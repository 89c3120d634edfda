//! Parse, Bind, Close and Execute where prepared statements are not tracked: in session pooling, and with
//! `max_prepared_statements = 0`.
//!
//! These messages pass unchanged. The pooler keeps names of statements that reset settings or end all prepared
//! statements: after the former it sets the client's startup values again, after the latter it prepares the internal
//! statements again.
//!
//! With `max_prepared_statements = 0` a client must not meet the statements of another one:
//! - A client keeps its server as long as it has named statements there, as after an SQL-level PREPARE.
//! - The unnamed statement that the client has not parsed since it got the server is closed before a Bind or Describe
//!   that would use it: it may be another client's, or one that the client has replaced elsewhere.
//!
//! The pooler also keeps the names whose texts were judged in the present transaction ([`crate::upstream::parsed`]). A
//! Bind of any other name runs code that is not read: the text was judged for an earlier transaction.

use crate::base::message::{INSPECT_BYTES_MAX, Message, Step};
use crate::base::weakness::Weakness;
use crate::exchange::Exchange;
use crate::statements::ends::Does;
use crate::statements::followed::FollowedBefore;
use crate::upstream::entry::{Effect, Entry, Expect};
use pgweir_sql::{Effects, Statement};
use pgweir_wire::HEADER_BYTES;
use pgweir_wire::frontend::{BindNames, Named, Parse, Target};

/// The longest Parse, in bytes, that is completed before it is read: it has room for a name of 63 bytes and a text of
/// 512.
const FOLLOWED_BYTES_MAX: usize = 640;

/// The length of a Describe of the unnamed statement, or of the unnamed portal: the header, a letter and a NUL.
const DESCRIBE_UNNAMED_BYTES: usize = HEADER_BYTES + 2;

impl Exchange<'_> {
    /// Parse: the text is judged now, though it runs later.
    pub(crate) fn parse_untracked(&mut self, message: &Message<'_>) -> Step {
        let mut followed = None;
        let inspects = self.keeps_session();
        let short = message.total <= FOLLOWED_BYTES_MAX || message.is_whole() && message.total <= INSPECT_BYTES_MAX;
        if self.looks_at_texts() && (inspects || short) {
            if message.total > INSPECT_BYTES_MAX {
                let waits = self.inspect_text(message, None, &Statement::Other);
                if let Err(step) = waits {
                    return step;
                }
            } else if !message.is_whole() {
                return Step::NeedBytes;
            } else if let Ok(parse) = Parse::read(message.body()) {
                let verdict = pgweir_sql::classify(parse.query);
                match self.inspect_text(message, Some(parse.query), &verdict) {
                    Ok(effects) => followed = self.client.session.follows(&parse, &verdict, effects),
                    Err(step) => return step,
                }
                if inspects {
                    self.server.conversation.text_is_judged(parse.name);
                }
            }
        }
        if inspects && !self.shared.is_weak(Weakness::LeavesUntracked) {
            match message.body().first() {
                None => return Step::NeedBytes,
                Some(0) => self.server.conversation.unnamed_comes(),
                Some(_) => self.suspect_unread(Effects::PREPARE, "(Parse of a named statement)", Vec::new()),
            }
        }
        self.pass_followed(message, Expect::Parse, followed)
    }

    /// Passes a message that changes what a name means.
    fn pass_followed(&mut self, message: &Message<'_>, expect: Expect, followed: Option<FollowedBefore>) -> Step {
        let entry = Entry::forward(expect);
        let entry = match followed.is_some() {
            true => entry.with(Effect {
                followed,
                ..Effect::default()
            }),
            false => entry,
        };
        self.pass_request(message, entry)
    }

    /// Bind: the text of the statement may not have been judged, and the portal may belong to a statement that resets
    /// settings.
    pub(crate) fn bind_untracked(&mut self, message: &Message<'_>) -> Step {
        let judges = self.keeps_session();
        let client = &mut *self.client;
        let follows = client.session.follows_any() || client.statements.has_careful_portals();
        if judges || follows {
            let names = match BindNames::read(message.body()) {
                Err(_) if !message.is_whole() && message.total <= INSPECT_BYTES_MAX => return Step::NeedBytes,
                names => names.ok(),
            };
            let is_known = |name| self.server.conversation.knows_text_of(name);
            let unnamed = names.as_ref().is_none_or(|names| names.statement.is_empty());
            if judges
                && !names.as_ref().is_some_and(|names| is_known(names.statement))
                && !(unnamed && self.close_foreign_unnamed())
                && let Some(step) = self.unread_waits().or_else(|| self.runs_unread(message))
            {
                return step;
            }
            if let Some(names) = names.filter(|_| follows) {
                self.forgets_portals();
                if self.portal_is_in_doubt(names.portal) {
                    return self.waits_for_replies();
                }
                self.follow_bound(&names);
            }
        }
        self.pass_bind(message)
    }

    /// Describe: the unnamed statement may be foreign.
    pub(crate) fn describe_untracked(&mut self, message: &Message<'_>) -> Step {
        if self.keeps_session() && message.total == DESCRIBE_UNNAMED_BYTES {
            if !message.is_whole() {
                return Step::NeedBytes;
            }
            if message.body().starts_with(b"S") {
                self.close_foreign_unnamed();
            }
        }
        self.plain(message, Expect::Describe)
    }

    /// Before a message that uses the unnamed statement: closes it, unless it is surely the client's own. Then the server
    /// answers that there is none.
    fn close_foreign_unnamed(&mut self) -> bool {
        let closes = !self.server.conversation.unnamed_is_own() && !self.shared.is_weak(Weakness::LeavesUntracked);
        if closes {
            self.to().close_name(b"");
        }
        closes
    }

    fn follow_bound(&mut self, names: &BindNames<'_>) {
        let client = &mut *self.client;
        let statement = client.session.followed(names.statement);
        let returns = statement.and_then(|f| f.returns().cloned());
        let ends = statement.and_then(|f| f.ends().cloned());
        let moves_names = statement.is_some_and(|f| f.moves_names());
        if statement.is_some_and(|f| f.defines()) {
            self.defines(b"");
        }
        if moves_names {
            self.server.moves_names(self.shared.statements.now());
        }
        let client = &mut *self.client;
        client.statements.binds(names.portal, Does::of(ends, returns));
    }

    /// Close: the name may come to mean something else.
    pub(crate) fn close_untracked(&mut self, message: &Message<'_>) -> Step {
        let mut followed = None;
        let may_unpin = self.keeps_session() && self.may_meet_prepare();
        if may_unpin || self.client.session.follows_any() {
            match Named::read(message.body()) {
                Ok(Named {
                    target: Target::Statement,
                    name,
                }) => {
                    followed = self.client.session.follows_no_more(name);
                    if may_unpin && !name.is_empty() {
                        self.suspect_unread(Effects::PREPARE | Effects::ENDS, "(Close)", Vec::new());
                    }
                }
                Err(_) if !message.is_whole() && message.total <= INSPECT_BYTES_MAX => return Step::NeedBytes,
                Ok(_) | Err(_) => {}
            }
        }
        self.pass_followed(message, Expect::Close, followed)
    }
}
