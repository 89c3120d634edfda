//! Asks for the types of parameters on behalf of a client that does not ask itself: see
//! [`crate::statements::parameter_types`].
//!
//! PostgreSQL may refuse a statement if it is given the types that it has inferred itself: it tells `text` for the
//! parameter of `cast($1 as unknown)`, but does not cast text to `unknown`. Such a statement is prepared again as its
//! client has prepared it. The server must tell the same types again before it is used; if it tells others, the
//! statement is prepared with those that the client was told, and the client gets PostgreSQL's refusal.

use crate::base::message::Message;
use crate::reply::Reply;
use crate::server_side::ServerSide;
use crate::statements::held::Moment;
use crate::statements::meaning::Meaning;
use crate::statements::parameter_types::Types;
use crate::statements::prepared::Statement;
use crate::statements::unnamed::Unnamed;
use crate::upstream::entry::{Effect, Entry, Expect, To};
use pgweir_wire::HEADER_BYTES;
use std::sync::Arc;

impl ServerSide<'_> {
    /// After a Parse whose parameter types the server infers: asks for them, unless the client does so itself.
    pub(crate) fn ask_for_types(&mut self, message: &Message<'_>, name: &[u8], statement: &Arc<Statement>) {
        if !describes_next(message.behind, name) {
            self.ask_for_types_of(name, statement);
        }
    }

    /// Asks for the types of a client's statement, which has just been prepared.
    pub(crate) fn ask_for_types_of(&mut self, name: &[u8], statement: &Arc<Statement>) {
        let effect = Effect {
            describes: Some((name.into(), None)),
            ..Effect::default()
        };
        let asked = self.shared.statements.now();
        let entry = Entry::skip(Expect::Describe)
            .using(statement.id)
            .with(effect)
            .asked_at(asked);
        self.asks(To::Skip, |r| r.special(entry).describe(b'S', statement.server_name()));
    }
}

impl Reply<'_> {
    /// ParameterDescription of the statement that the queue's first entry describes.
    #[cold]
    pub(crate) fn types_described(&mut self, body: &[u8]) {
        let server = &mut *self.server;
        let (Some(front), Some(types)) = (server.conversation.queue().front(), Types::read(body)) else {
            return;
        };
        let (uses, asked) = (front.uses(), front.asked());
        let name = front.effect().and_then(|e| e.describes.as_ref());
        let name = name.map(|(name, _)| name.clone());
        server.held.learn_types(uses, asked, &types);
        if let Some(name) = name {
            if let Some(meaning) = self.meaning_described(&name, uses, asked) {
                meaning.is_parsed(types);
            }
            return;
        }
        if server.held.unnamed() == Unnamed::Asked(uses) {
            return self.types_told_again(uses, &types);
        }
        // The client's unnamed statement becomes the one with these types, which is the one that this server has.
        let Some((_, client)) = &mut self.client else {
            return;
        };
        if let Some(unnamed) = client.statements.unnamed().filter(|s| s.id == uses && s.infers) {
            let unnamed = self.shared.statements.intern_as_told(unnamed, types.bytes());
            let held = &mut self.server.held;
            if matches!(held.unnamed(), Unnamed::Statement(id) | Unnamed::BehindSet(id) if id == uses) {
                held.unnamed_becomes(Unnamed::of(&unnamed));
            }
            client.statements.replace_unnamed(Some(unnamed));
        }
    }

    /// The client's unnamed statement was prepared again without the types that its client was told, and the server has
    /// told them.
    #[cold]
    fn types_told_again(&mut self, id: u64, types: &Types) {
        let (held, statements) = (&mut self.server.held, &mut self.shared.statements);
        held.unnamed_becomes(Unnamed::Foreign);
        let Some((_, client)) = &mut self.client else {
            return;
        };
        let Some(unnamed) = client.statements.unnamed().filter(|s| s.id == id) else {
            return;
        };
        if *unnamed.types == *types.bytes() {
            return held.unnamed_becomes(Unnamed::Statement(id));
        }
        let given = statements.intern_with_types(unnamed, &unnamed.types);
        client.statements.replace_unnamed(Some(given));
    }

    /// What a name meant for the Describe at the front, which was sent at the moment `asked`. The types
    /// still count if a later message of the client, such as a Close, gives the name another meaning or removes it,
    /// because the server may ignore that message.
    pub(crate) fn meaning_described(&mut self, name: &[u8], uses: u64, asked: Moment) -> Option<&mut Meaning> {
        let (_, client) = self.client.as_mut()?;
        let present = client.statements.named_mut(name);
        present
            .filter(|meaning| meaning.meant(uses, asked))
            .or_else(|| self.server.conversation.queue_mut().meaning_given_up(name))
            .filter(|meaning| meaning.statement().id == uses)
    }
}

/// Whether the next message is Describe of this statement.
fn describes_next(behind: &[u8], name: &[u8]) -> bool {
    let Some((header, named)) = behind.split_at_checked(HEADER_BYTES) else {
        return false;
    };
    header[0] == b'D'
        && named.first() == Some(&b'S')
        && named[1..].strip_prefix(name).and_then(|n| n.first()) == Some(&0)
}
