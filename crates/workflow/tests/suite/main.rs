//! The promises of the workflow engine, each kept on both databases.
#![expect(clippy::unwrap_used, reason = "a panic is how a test says no")]

mod actions;
mod breaking;
mod chaos;
#[path = "../../../store/tests/suite/database.rs"]
#[expect(dead_code, reason = "shared with the store, whose tests need more of it")]
mod database;
mod leases;
mod recovery;
mod rig;
mod subject;
mod undoing;
mod world;

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
    recovery:
        every_plan_reaches_its_end,
        a_crash_before_or_after_any_effect_is_survived,
        a_lost_reply_repeats_nothing,
        a_stage_that_fails_once_is_tried_again,
        skipped_stages_are_recorded,
        the_record_of_a_run_is_complete;
    breaking:
        a_class_that_keeps_failing_stops_the_run_where_it_should,
        a_stage_that_panics_affects_no_other_run,
        a_server_that_dies_every_time_is_noticed,
        a_detour_is_bounded,
        an_unsafe_node_is_quarantined,
        a_wait_is_bounded_and_leaves_no_trail,
        a_busy_upstream_is_waited_for_long_and_not_for_ever,
        a_busy_moment_starts_no_patience_anew,
        an_outage_is_charged_to_no_stage,
        an_upstream_that_was_not_asked_was_not_busy,
        a_run_without_a_place_did_not_ask,
        an_upstream_that_is_asked_seldom_is_not_waited_for_for_ever,
        a_password_is_tried_twice;
    undoing:
        a_cancel_undoes_what_was_done_at_any_stage,
        a_clean_restart_does_everything_once_more,
        an_undo_that_keeps_failing_needs_a_person,
        an_abandoned_run_undoes_nothing;
    leases:
        a_run_stays_in_hand_from_stage_to_stage,
        a_worker_that_wakes_up_late_writes_nothing,
        an_operator_takes_the_run_from_a_lost_worker,
        a_frozen_run_is_not_finished_by_its_worker,
        a_goal_reaches_the_worker_that_has_the_run,
        a_goal_does_not_wait_for_the_next_look,
        an_operator_does_not_wait_for_a_back_off,
        no_run_starves,
        a_site_is_met_before_its_runs_are_executed,
        servers_share_a_limit;
    actions:
        two_operators_have_one_effect,
        refusals_say_what_is_allowed,
        adopting_goes_on;
    chaos:
        random_schedules_end_where_they_should;
}
