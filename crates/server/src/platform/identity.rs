//! Callers and secrets: the identities of callers, their credentials, and how secrets are kept.

pub(crate) mod auth;
pub(crate) mod cache;
pub mod certificate;
pub(crate) mod deny;
pub(crate) mod face;
pub(crate) mod first_token;
pub mod member;
pub(crate) mod own;
pub(crate) mod reference;
pub(crate) mod seal;
pub mod secret;
pub(crate) mod spiffe;
pub(crate) mod token;
pub(crate) mod token_name;
