//! `wardroom-adapter`: drives one adapter from its configuration.

fn main() {}
