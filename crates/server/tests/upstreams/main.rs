//! A whole server, alone and beside a fake Harbor, a fake SPIRE server and a real registry.

#![expect(clippy::unwrap_used, reason = "a panic is how a test says no")]

mod beats;
mod credentials;
mod groups;
mod harbor;
mod publish;
mod pull;
mod site;
mod spire;
mod states;
#[path = "../../src/platform/testing.rs"]
mod testing;
