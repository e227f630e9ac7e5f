//! GPU nodes from end to end, in one process: the API, the engine, and fakes of MAAS and of a BMC.

/// Makes a test of each function on either database.
macro_rules! on_both {
    (threads: $($name:ident)+) => { each! { [] threads: $($name)+ } };
    ($($name:ident)+) => { each! { [] $($name)+ } };
}

/// The same of long stories: the ordinary run has them on SQLite, `./dev faults` on PostgreSQL.
macro_rules! long_on_both {
    (threads: $($name:ident)+) => { each! { [ignore = "./dev faults runs it"] threads: $($name)+ } };
    ($($name:ident)+) => { each! { [ignore = "./dev faults runs it"] $($name)+ } };
}

macro_rules! each {
    ($postgres:tt threads: $($name:ident)+) => {
        $(each! { @one $postgres [tokio::test(flavor = "multi_thread", worker_threads = 2)] $name })+
    };
    ($postgres:tt $($name:ident)+) => { $(each! { @one $postgres [tokio::test] $name })+ };
    (@one [$($postgres:meta)?] [$test:meta] $name:ident) => {
        mod $name {
            use super::super::rig::{On, on};

            #[$test]
            async fn sqlite() {
                on(On::Sqlite);
                super::$name().await;
            }

            $(#[$postgres])?
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
