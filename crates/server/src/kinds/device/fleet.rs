//! Fleets: a template for all devices that a selector finds, and its rollout.
//!
//! ```text
//! a person ─▶ fleet + version of its template          (one commit)
//!                 │ the job: who owns which device, then `core` decides, then
//!                 ▼
//!             devices are given the version             (a commit each, which holds the fleet as it was read)
//! ```
//!
//! What must stay true: no device is given a template after a pause, a rollback or another template was acknowledged;
//! and the spec of a device that belongs to a fleet changes only through the fleet.

pub(crate) mod act;
mod check;
pub(crate) mod create;
pub(crate) mod document;
pub(crate) mod edit;
mod face;
pub(super) mod member;
mod own;
mod roll;
pub(crate) mod routes;
pub(crate) mod row;
pub(super) mod template;
pub(crate) mod versions;
pub(crate) mod view;
pub(super) mod why;
mod work;
