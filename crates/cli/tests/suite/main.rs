//! The command line against a server, both as they are built, as a user runs them.

#![expect(clippy::unwrap_used, reason = "a panic is how a test says no")]

mod attention;
mod contexts;
mod docs;
mod edits;
mod exits;
mod fixture;
mod kinds;
mod local;
mod members;
mod names;
mod output;
mod shell;
mod tls;
mod verbs;
mod wait;
mod watch;
mod why;
