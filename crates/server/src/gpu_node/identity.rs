//! Who an agent is: its credential names its node, and one read says whether it is the one in force.

use std::net::IpAddr;

use super::{
    document::{Document, KIND},
    secret,
};
use crate::{app::App, error::Error};

const BAD: Error = Error::Unauthenticated("the credential is not valid: it is unknown or was revoked");

/// The node that a credential speaks for.
pub(crate) async fn identify(app: &App, credential: &str, from: IpAddr) -> Result<String, Error> {
    let node = secret::node_of(credential).ok_or(BAD)?;
    let found = app.store.get(KIND, node).await?.filter(|found| !found.content.deleted);
    let document = found.as_ref().map(Document::of).transpose()?;
    let hash = secret::hash(credential);
    let agent = document.and_then(|document| document.agent);
    if agent.is_some_and(|agent| crate::secret::same(agent.hash.as_bytes(), hash.as_bytes())) {
        return Ok(node.to_owned());
    }
    // Guessing must not be free.
    app.limiter.check_lookup(from)?;
    Err(BAD)
}
