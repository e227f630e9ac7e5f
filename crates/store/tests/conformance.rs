//! The promises of the store, each kept on both databases.

#[path = "suite/commit.rs"]
mod commit;
#[path = "suite/database.rs"]
mod database;
#[path = "suite/sample.rs"]
mod sample;

/// Runs every promise against both databases.
macro_rules! on_both {
    ($($area:ident: $($name:ident),+ $(,)?;)+) => {
        mod sqlite {
            $($(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                crate::$area::$name(crate::database::Database::sqlite()).await;
            })+)+
        }
        mod postgres {
            $($(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                crate::$area::$name(crate::database::Database::postgres().await).await;
            })+)+
        }
    };
}

on_both! {
    commit:
        reads_what_it_wrote,
        one_winner_per_version,
        one_holder_per_key,
        a_conflict_leaves_its_neighbours_alone,
        a_deleted_resource_gives_up_its_keys,
        reads_see_acknowledged_writes,
        refuses_what_no_database_keeps,
        effects_are_pending_until_done;
}
