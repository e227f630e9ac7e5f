//! One step of a table beside a scan of the same rows.
fn main() {
    divan::main();
}
