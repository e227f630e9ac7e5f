//! GPU nodes from end to end, in one process: the API, the engine, and fakes of MAAS and of a BMC.

/// Makes a test of each function on either database.
macro_rules! on_both {
    (threads: $($name:ident)+) => {
        on_both! { #[tokio::test(flavor = "multi_thread", worker_threads = 2)] $($name)+ }
    };
    ($first:ident $($name:ident)*) => { on_both! { #[tokio::test] $first $($name)* } };
    (#[$test:meta] $($name:ident)+) => { on_both! { @each [$test] $($name)+ } };
    (@each $test:tt $($name:ident)+) => { $(on_both! { @one $test $name })+ };
    (@one [$test:meta] $name:ident) => {
        mod $name {
            use super::super::rig::{On, on};

            #[$test]
            async fn sqlite() {
                on(On::Sqlite);
                super::$name().await;
            }

            #[$test]
            async fn postgres() {
                on(On::Postgres);
                super::$name().await;
            }
        }
    };
}

mod actions;
mod agents;
mod crash;
mod decommission;
mod failing;
mod foreign;
mod harness;
mod life;
mod limits;
mod onboarding;
mod persons;
mod reach;
mod recommended;
mod replies;
mod rig;
mod secrets;
mod seen;
mod sights;
mod stuck;
mod triggers;
mod trouble;
mod undoing;
