//! The adapters of clusters and node pools: what they are told, when they were heard, and how they are.
//!
//! An adapter is no resource of its own. It is a name in `required_adapters`, under which reports come; what is shown of
//! it is derived from the clusters and node pools that it is required for.

pub(super) mod face;
pub(crate) mod list;
pub(super) mod silence;
pub(super) mod standing;
pub(super) mod told;
pub(super) mod why;

/// The kind of adapters: in `why`, in scopes of tokens, and for liveness.
pub(super) const KIND: &str = "adapter";
