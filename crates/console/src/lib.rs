//! The console's pages: pure functions from a view to markup.
//!
//! A view is a plain struct, filled by the server from what the API answers to the same caller. Nothing here decides
//! what may be done: buttons and refusals come with the view. Text of members is shown through [`text`] only.

pub mod assets;
pub mod bulk;
pub mod command;
pub mod detail;
pub mod dialog;
pub mod face;
pub mod filter;
pub mod form;
pub mod history;
pub mod icon;
pub mod lifecycles;
pub mod list;
pub mod liveness;
pub mod login;
pub mod overview;
pub mod part;
pub mod problem;
pub mod shell;
pub mod text;
pub mod time;

pub use maud::{Markup, PreEscaped};
