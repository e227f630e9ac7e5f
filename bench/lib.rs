//! Side-by-side benchmarks; see `benches/`. What a run says of its bounds is also how it ends.

use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};

static MISSED: AtomicUsize = AtomicUsize::new(0);

/// Says what was measured, and notes a bound that it missed.
#[expect(clippy::print_stdout, reason = "a benchmark prints")]
pub fn say(is_met: bool, what: &str) {
    if is_met {
        println!("{what}");
    } else {
        println!("{what}: MISSED");
        MISSED.fetch_add(1, Ordering::Relaxed);
    }
}

/// How the program ends: 1 when a bound was missed.
#[expect(clippy::print_stdout, reason = "a benchmark prints")]
pub fn end() -> ExitCode {
    match MISSED.load(Ordering::Relaxed) {
        0 => ExitCode::SUCCESS,
        missed => {
            println!("bounds that were missed: {missed}");
            ExitCode::FAILURE
        }
    }
}
