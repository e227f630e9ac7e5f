//! Tests of Wardroom as a whole; see `tests/`.
