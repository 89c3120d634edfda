//! What a login asks auth_user's server: whether its user is a member of roles, and its user's secret.

use super::{Login, Stage};
use crate::login::login_step::LoginStep;
use crate::login::membership::{Membership, RoleQuestion};
use pgweir_auth::{ClientAuth, Secret};
use pgweir_wire::{HEADER_BYTES, backend};

/// What auth_query has found.
#[derive(Debug, pgweir_freeze::Freeze)]
pub(super) enum Lookup {
    /// No row about the user yet.
    Nothing,
    /// The user, with a secret, or without one that can be used.
    User(Option<Secret>),
    /// Rows of so many columns: which one is the secret is not known.
    Columns(u16),
}

/// The columns of auth_query: the user name and the secret.
const COLUMNS: usize = 2;

impl Login {
    /// What is known of the user's roles.
    pub(crate) fn membership(&self) -> &Membership {
        &self.membership
    }

    /// A server is asked whether the user is a member of these roles.
    pub(crate) fn ask_roles(&mut self, roles: Vec<Box<str>>) {
        self.stage = Stage::AskingRoles(RoleQuestion::new(roles));
    }

    pub(crate) fn asks_roles(&self) -> bool {
        matches!(self.stage, Stage::AskingRoles(_))
    }

    /// The question about roles has ended. `Some(false)`: without an answer. `None`: there was none.
    pub(crate) fn roles_told(&mut self) -> Option<bool> {
        let question = self.take_role_question()?;
        Some(self.membership.learn(question))
    }

    /// The question about roles has ended without an answer. `false`: there was none.
    pub(crate) fn role_question_failed(&mut self) -> bool {
        self.take_role_question().is_some()
    }

    fn take_role_question(&mut self) -> Option<RoleQuestion> {
        match std::mem::replace(&mut self.stage, Stage::New) {
            Stage::AskingRoles(question) => Some(question),
            other => {
                self.stage = other;
                None
            }
        }
    }

    /// Its database does not exist, so nobody can be asked about roles there. The login goes on as for a user who does
    /// not exist, and cannot succeed.
    pub(crate) fn is_in_vain(&mut self) {
        self.membership = Membership::InVain;
    }

    /// Handles a message of a server that answers auth_query, or the question about roles. A row of auth_query holds
    /// the user name and the secret; the first row about this user counts. Rows of other than two columns let nobody in.
    pub(crate) fn handle_lookup_message(&mut self, message: &[u8]) {
        if message.first() != Some(&b'D') {
            return;
        }
        let Ok(row) = backend::data_row(&message[HEADER_BYTES..]) else {
            return;
        };
        if let Stage::AskingRoles(question) = &mut self.stage {
            question.is_answered(row.first().copied().flatten());
        }
        let Stage::LookingUp(_, found @ Lookup::Nothing) = &mut self.stage else {
            return;
        };
        if row.len() != COLUMNS {
            *found = Lookup::Columns(u16::try_from(row.len()).unwrap_or(u16::MAX));
            return;
        }
        if row.first().copied().flatten() != Some(self.wishes.user.as_bytes()) {
            return;
        }
        // A user without a password exists, but no password is right.
        let secret = row.get(1).copied().flatten().unwrap_or_default();
        *found = Lookup::User(Secret::parse(secret).ok());
    }

    /// Why the answer of auth_query cannot be used, in PgBouncer's words.
    pub(crate) fn fault_of_lookup(&self) -> Option<String> {
        match &self.stage {
            Stage::LookingUp(_, Lookup::Columns(count)) => {
                Some(format!("expected {COLUMNS} columns from auth_query, not {count}"))
            }
            _ => None,
        }
    }

    /// auth_query has ended.
    pub(crate) fn lookup_over(&mut self) -> Option<LoginStep> {
        let (auth, lookup) = self.take_lookup()?;
        let secret = match lookup {
            Lookup::User(secret) => secret,
            Lookup::Nothing | Lookup::Columns(_) => None,
        };
        self.found.clone_from(&secret);
        Some(self.secret_known(auth, secret))
    }

    /// The user cannot be looked up now. A client that is not authenticated must not learn that, because it would
    /// reveal which users are in auth_file. So the exchange goes on as for a user who does not exist.
    pub(crate) fn lookup_failed(&mut self) -> Option<LoginStep> {
        let (auth, _) = self.take_lookup()?;
        Some(self.secret_known(auth, None))
    }

    fn take_lookup(&mut self) -> Option<(Box<ClientAuth>, Lookup)> {
        match std::mem::replace(&mut self.stage, Stage::Over) {
            Stage::LookingUp(auth, lookup) => Some((auth, lookup)),
            other => {
                self.stage = other;
                None
            }
        }
    }
}
