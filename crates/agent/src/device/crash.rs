//! Points at which a test ends the process. In the program itself there are none.

/// Does one effect. In tests, the process may end before and after it.
#[cfg(not(test))]
pub(crate) fn around<T>(_name: &str, effect: impl FnOnce() -> T) -> T {
    effect()
}

#[cfg(test)]
pub(crate) use points::{ENV, around, point};

/// Marks a place between two effects.
#[cfg(not(test))]
pub(crate) const fn point(_name: &str) {}

#[cfg(test)]
mod points {
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

    /// The number of the point at which this process ends.
    pub(crate) const ENV: &str = "WARDROOM_TEST_CRASH_AT";

    static PASSED: AtomicUsize = AtomicUsize::new(0);

    pub(crate) fn point(name: &str) {
        let Ok(wanted) = std::env::var(ENV) else { return };
        let number = PASSED.fetch_add(1, SeqCst);
        if wanted == number.to_string() {
            eprintln!("ends at point {number}, {name}");
            let own = rustix::process::getpid();
            rustix::process::kill_process(own, rustix::process::Signal::KILL).unwrap();
        }
    }

    pub(crate) fn around<T>(name: &str, effect: impl FnOnce() -> T) -> T {
        point(name);
        let done = effect();
        point(name);
        done
    }
}
