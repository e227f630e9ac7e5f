//! Clients of the systems Wardroom drives: each one knows a wire format and the classes of its errors, and decides nothing.
