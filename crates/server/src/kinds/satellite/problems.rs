//! Problems that only satellites have.

use crate::platform::http::error::{Class, class};

#[rustfmt::skip]
pub(super) const PROBLEMS: &[Class] = &[
    class("spiffe_id_taken",   409, "The SPIFFE ID is taken", "The SPIFFE ID belongs to a satellite, or belonged to one that was deleted; those never come back. Choose another name or region."),
    class("no_credential",     409, "There is no credential", "The satellite never had a credential, or it is void; re-enable it with the mode `reissue`."),
    class("agent_banned",      409, "The agent is banned", "The satellite's agent was banned in SPIRE with the revocation, and joins again only with a new token; re-enable it with the mode `reissue`."),
];
