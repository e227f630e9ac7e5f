//! Join tokens that the caller chooses, so that they can be shown before the server knows them.

use std::time::Duration;

use wardroom_spire_proto::agent;

use super::Spire;
use crate::{Failure, Secret};

impl Spire {
    /// Creates a join token with this value. An existing or used one counts as success, because it is valid once in any case.
    ///
    /// # Errors
    /// See [`Failure`]; it may be asked for again.
    pub async fn ensure_join_token(&self, value: &Secret, ttl: Duration) -> Result<(), Failure> {
        let ttl = i32::try_from(ttl.as_secs().max(1))
            .map_err(|_| Failure::Setup("a join token cannot live for so long".to_owned()))?;
        let request = agent::CreateJoinTokenRequest { ttl, token: value.expose().to_owned(), agent_id: None };
        match self.answer(self.agents().create_join_token(self.request(request))).await {
            Ok(_) | Err(Failure::Conflict(_)) => Ok(()),
            // Servers say so in the words of their database.
            Err(Failure::Failed { detail, .. }) if is_duplicate(&detail) => Ok(()),
            // The server's text may repeat the request.
            Err(Failure::Refused { status, detail }) => {
                Err(Failure::Refused { status, detail: detail.replace(value.expose(), "…") })
            }
            Err(Failure::Failed { status, detail }) => {
                Err(Failure::Failed { status, detail: detail.replace(value.expose(), "…") })
            }
            Err(other) => Err(other),
        }
    }
}

fn is_duplicate(detail: &str) -> bool {
    let detail = detail.to_ascii_lowercase();
    ["unique constraint", "duplicate", "already exists"].iter().any(|words| detail.contains(words))
}
