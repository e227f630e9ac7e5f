//! Devices: edge machines that enrol with a key of their own, poll for their spec, and report what they run.
//!
//! ```text
//! token ─▶ request ─(a person, or the token)─▶ device + certificate
//!                                                  │ poll: 200 or 204        every request is a sign of life
//!                                                  │ status ─▶ core derives the four statuses, in the same commit
//!                                                  ▼
//!                             revoked · decommissioned · deleted: back only by a person, or never
//! ```
//!
//! What must stay true: a device gets nothing but its own record, by a certificate that this server issued for its key;
//! and its statuses are derived by `core` alone.

pub(crate) mod approve;
pub(crate) mod authority;
mod call;
pub(crate) mod certificate;
mod csr;
pub(crate) mod document;
pub(crate) mod edit;
pub(crate) mod enrol;
mod face;
mod facts;
pub(crate) mod fleet;
pub(crate) mod flightctl;
#[cfg(test)]
mod fuzz;
pub(crate) mod identity;
pub(crate) mod listener;
mod problems;
mod proof;
pub(crate) mod rendered;
pub(crate) mod request;
pub(crate) mod revoke;
pub(crate) mod routes;
pub(crate) mod row;
pub mod settings;
mod silence;
mod spec;
pub(crate) mod status;
pub(crate) mod token;
pub(crate) mod view;
mod wake;
mod why;
