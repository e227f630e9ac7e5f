//! Install tokens: signed and expiring, for one node and one round of installing. Nothing is stored of them.

use jiff::{SignedDuration, Timestamp};

use crate::platform::{
    http::error::Error,
    identity::secret::{self, Key},
};

const PURPOSE: &str = "install-token";

/// The refusal of a token that is not this node's.
pub(crate) const BAD: Error =
    Error::Unauthenticated("the install token is not valid for this node: boot again to get a new one");

pub(crate) fn issue(key: &Key, node: &str, round: u64, now: Timestamp, lifetime: SignedDuration) -> String {
    let expires = now.saturating_add(lifetime).unwrap_or(Timestamp::MAX).as_second();
    let claims = format!("{expires}.{round}");
    let signature = key.sign(PURPOSE, &[node, &claims]);
    format!("wri_{expires}_{round}_{}", secret::encode(&signature))
}

/// Checks that a token is for this node and round, and has not expired.
pub(crate) fn verify(key: &Key, token: &str, node: &str, round: u64, now: Timestamp) -> Result<(), Error> {
    let mut parts = token.strip_prefix("wri_").ok_or(BAD)?.splitn(3, '_');
    let (expires, of_round, signature) =
        (parts.next().ok_or(BAD)?, parts.next().ok_or(BAD)?, parts.next().ok_or(BAD)?);
    let expected = key.sign(PURPOSE, &[node, &format!("{expires}.{of_round}")]);
    let given = secret::decode(signature).ok_or(BAD)?;
    if !secret::same(&given, &expected) || of_round != round.to_string() {
        return Err(BAD);
    }
    match expires.parse() {
        Ok(expires) if now.as_second() < expires => Ok(()),
        Ok::<i64, _>(_) => {
            Err(Error::Unauthenticated("the install token has expired: boot again to get a new one"))
        }
        Err(_) => Err(BAD),
    }
}
