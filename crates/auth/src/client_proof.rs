//! The check of a client's answer.

use crate::auth_request::AuthRequest;
use crate::client_step::Learned;
use crate::error::ClientAuthError;
use crate::md5::MD5_SECRET_BYTES;
use crate::password_message::parse_password;
use crate::scram::ScramVerifier;
use crate::scram::server::Claim;
use subtle::ConstantTimeEq;

/// The outcome of a SCRAM exchange that is already known before the client's answer.
#[derive(pgweir_freeze::Freeze)]
pub(crate) struct ScramEnd {
    pub(crate) doom: Option<ClientAuthError>,
    /// The verifier is the stored one, so its keys can be used on servers. The keys of a verifier that the pooler
    /// has made cannot.
    pub(crate) keys_pass_through: bool,
}

pub(crate) fn judge_md5(
    payload: &[u8],
    expected: &[u8; MD5_SECRET_BYTES],
    doom: Option<ClientAuthError>,
) -> Result<(), ClientAuthError> {
    let given = parse_password(payload)?;
    verdict(bool::from(given.ct_eq(expected)), doom)
}

/// Checks the proof of a SCRAM exchange with the user's verifier.
pub(crate) fn judge_scram(
    claim: &Claim,
    verifier: &ScramVerifier,
    end: ScramEnd,
) -> Result<(AuthRequest, Learned), ClientAuthError> {
    let proven = claim.check(verifier);
    verdict(proven.is_some(), end.doom)?;
    let proven = proven.ok_or(ClientAuthError::WrongPassword)?;
    let learned = if end.keys_pass_through {
        Learned::ScramKeys(proven.keys)
    } else {
        Learned::Nothing
    };
    Ok((AuthRequest::SaslFinal(proven.server_final), learned))
}

/// An exchange that is bound to fail reports that reason before any other.
pub(crate) fn verdict(is_right: bool, doom: Option<ClientAuthError>) -> Result<(), ClientAuthError> {
    match doom {
        Some(reason) => Err(reason),
        None if is_right => Ok(()),
        None => Err(ClientAuthError::WrongPassword),
    }
}
