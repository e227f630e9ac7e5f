//! Starting servers, talking to them, and looking behind their back.

pub(crate) mod browser;
pub(crate) mod chain;
pub(crate) mod cluster;
pub(crate) mod database;
pub(crate) mod device;
pub(crate) mod fakes;
pub(crate) mod fleet;
pub(crate) mod http;
pub(crate) mod line;
pub(crate) mod maas;
pub(crate) mod satellite;
pub(crate) mod site;

use std::{thread, time::Duration};

pub(crate) use fleet::{mac, node_in};
pub(crate) use http::{Api, Reply};
pub(crate) use site::{Backend, Site};

/// Makes two tests of each function: on SQLite, and on two servers over PostgreSQL.
macro_rules! on_both {
    ($($test:ident),+ $(,)?) => { $(crate::support::each! { [] $test })+ };
}
pub(crate) use on_both;

/// The same of long tests: the ordinary run has them on SQLite, `./dev faults` and `./dev fuzz` on PostgreSQL too.
macro_rules! long_on_both {
    ($($test:ident),+ $(,)?) => {
        $(crate::support::each! { [ignore = "./dev faults and ./dev fuzz run it"] $test })+
    };
}
pub(crate) use long_on_both;

macro_rules! each {
    ([$($postgres:meta)?] $test:ident) => {
        mod $test {
            use crate::support::Backend;

            #[test]
            fn on_sqlite() {
                super::$test(Backend::Sqlite);
            }

            $(#[$postgres])?
            #[test]
            fn on_postgres() {
                super::$test(Backend::Postgres);
            }
        }
    };
}
pub(crate) use each;

/// Looks until there is something to see, for a while.
pub(crate) fn wait_for<T>(what: &str, look: impl FnMut() -> Option<T>) -> T {
    wait(1000, what, look)
}

/// Waits several times as long, for work that pauses before its next attempt.
pub(crate) fn wait_long_for<T>(what: &str, look: impl FnMut() -> Option<T>) -> T {
    wait(6000, what, look)
}

fn wait<T>(rounds: usize, what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    for _ in 0..rounds {
        if let Some(seen) = look() {
            return seen;
        }
        thread::sleep(Duration::from_millis(20));
    }
    panic!("waited in vain for {what}");
}

/// Runs a function many times at once, and returns all results.
pub(crate) fn at_once<T: Send>(count: usize, run: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let start = std::sync::Barrier::new(count);
    thread::scope(|scope| {
        let started: Vec<_> = (0..count)
            .map(|index| {
                let (start, run) = (&start, &run);
                scope.spawn(move || {
                    start.wait();
                    run(index)
                })
            })
            .collect();
        started.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}
