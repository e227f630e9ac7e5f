//! Side-by-side benchmarks; see `benches/`.
