//! How an adapter stands, over all the clusters and node pools that wait for it.

use crate::{
    action::{Call, Fixed},
    names::names,
    table::{Owner, Role},
    why::{Rule, Why, explain_derived},
};

names! {
    /// The most serious of what is true of an adapter.
    pub enum Standing {
        /// A resource has not been heard of from it for longer than its patience.
        Silent = "silent",
        /// It says of a resource that it is not available.
        Failing = "failing",
        /// A resource waits for it.
        Working = "working",
        /// Nothing waits for it.
        Idle = "idle",
    }
}

const ABOUT: &str = "adapter";

const fn rule(status: &'static str, when: &'static str, by: Owner) -> Rule {
    Rule { about: ABOUT, status, to: "idle", when, by, call: None }
}

/// Gives an adapter another token; the action names the adapter.
pub const NEW_TOKEN: Call = Call::new("token", "create", "POST", "/api/v1/tokens")
    .body(&[("role", Fixed::Text("adapter"))])
    .named_by("name")
    .by(Role::Admin)
    .when("give the new token to the adapter");

/// The ways out of what is not well.
pub const RULES: &[Rule] = &[
    rule(
        "silent",
        "The adapter reports again: look whether it runs, reaches the server, and has a valid token.",
        Owner::Admin,
    ),
    rule("failing", "The adapter reports Available=True for what fails.", Owner::Adapter),
    rule("working", "The adapter reports on what waits for it.", Owner::Adapter),
];

/// Explains how an adapter stands; `info` is what is known of it.
#[must_use]
pub fn why(name: &str, standing: Standing, info: String) -> Why {
    explain_derived(RULES, (ABOUT, name), standing, info.into())
}
