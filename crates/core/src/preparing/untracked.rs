//! Parse, Bind, Close and Execute where prepared statements are not tracked: in session pooling, and with
//! `max_prepared_statements = 0`.
//!
//! These messages pass unchanged. The pooler keeps names of statements that reset settings or end all prepared
//! statements: after the former it sets the client's startup values again, after the latter it prepares the internal
//! statements again. With `max_prepared_statements = 0` it also keeps the names whose texts were judged in the present
//! transaction ([`crate::upstream::parsed`]). A Bind of any other name runs code that is not read: the text may be one
//! that was judged for an earlier transaction, or another client's.

use crate::base::message::{INSPECT_BYTES_MAX, Message, Step};
use crate::exchange::Exchange;
use crate::statements::ends::Ends;
use crate::upstream::entry::Expect;
use pgweir_sql::{Effects, Statement};
use pgweir_wire::frontend::{BindNames, Named, Parse, Target};

/// The longest Parse, in bytes, that is completed before it is read: it has room for a name of 63 bytes and a text of
/// 512.
const FOLLOWED_BYTES_MAX: usize = 640;

impl Exchange<'_> {
    /// Parse: the text is judged now, though it runs later.
    pub(crate) fn parse_untracked(&mut self, message: &Message<'_>) -> Step {
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
                    Ok(effects) => self.follow(&parse, &verdict, effects),
                    Err(step) => return step,
                }
                if inspects {
                    self.server.conversation.text_is_judged(parse.name);
                }
            }
        }
        self.plain(message, Expect::Parse)
    }

    /// Keeps the name of a statement that is to be followed, and forgets what the name meant before.
    fn follow(&mut self, parse: &Parse<'_>, verdict: &Statement, effects: Effects) {
        self.client.session.follows(parse, verdict, effects);
    }

    /// Bind: the text of the statement may not have been judged, and the portal may belong to a statement that resets
    /// settings.
    pub(crate) fn bind_untracked(&mut self, message: &Message<'_>) -> Step {
        let judges = self.keeps_session();
        let client = &mut *self.client;
        let follows =
            client.session.follows_any() || client.session.has_bound_reset() || client.statements.some_portal_ends();
        if judges || follows {
            let names = match BindNames::read(message.body()) {
                Err(_) if !message.is_whole() && message.total <= INSPECT_BYTES_MAX => return Step::NeedBytes,
                names => names.ok(),
            };
            let is_known = |name| self.server.conversation.knows_text_of(name);
            if judges
                && !names.as_ref().is_some_and(|names| is_known(names.statement))
                && let Some(step) = self.runs_unread(message)
            {
                return step;
            }
            if let Some(names) = names.filter(|_| follows) {
                self.follow_bound(&names);
            }
        }
        self.plain(message, Expect::Bind)
    }

    fn follow_bound(&mut self, names: &BindNames<'_>) {
        let client = &mut *self.client;
        let statement = client.session.followed(names.statement);
        let returns = statement.and_then(|f| f.returns().cloned());
        let ends_all = statement.is_some_and(|f| f.ends_all());
        let moves_names = statement.is_some_and(|f| f.moves_names());
        if statement.is_some_and(|f| f.defines()) {
            self.defines(b"");
        }
        if moves_names {
            self.server.moves_names(self.shared.statements.now());
        }
        let client = &mut *self.client;
        client.statements.binds(names.portal, ends_all.then_some(Ends::All));
        match returns {
            Some(returns) => client.session.binds_reset(names.portal, Some(returns)),
            None => client.session.portal_is_replaced(names.portal),
        }
    }

    /// Close: the name may come to mean something else.
    pub(crate) fn close_untracked(&mut self, message: &Message<'_>) -> Step {
        let client = &mut *self.client;
        if client.session.follows_any() {
            match Named::read(message.body()) {
                Ok(Named {
                    target: Target::Statement,
                    name,
                }) => client.session.follows_no_more(name),
                Err(_) if !message.is_whole() && message.total <= INSPECT_BYTES_MAX => return Step::NeedBytes,
                Ok(_) | Err(_) => {}
            }
        }
        self.plain(message, Expect::Close)
    }
}
