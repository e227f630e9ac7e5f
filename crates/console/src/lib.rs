//! The console's pages: pure functions from a view to markup.
