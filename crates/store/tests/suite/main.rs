//! The promises of the store, each kept on both databases.
#![expect(clippy::unwrap_used, reason = "a panic is how a test says no")]

mod access;
mod backups;
mod beside;
mod commit;
mod database;
mod denied;
mod differential;
mod durability;
mod feed;
mod integrity;
mod isolation;
mod lists;
mod liveness;
mod observations;
mod opening;
mod preconditions;
mod private;
mod sample;
mod standby;
mod tampering;
mod work;

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
        many_move_under_one_lease,
        many_move_each_under_its_lease,
        a_deleted_resource_gives_up_its_keys,
        reads_see_acknowledged_writes,
        refuses_what_no_database_keeps,
        effects_are_pending_until_done;
    denied:
        a_denial_is_named_for_other_servers,
        the_deleted_are_listed_apart;
    feed:
        pages_join_without_gaps,
        some_kinds_are_read_without_the_others,
        changes_in_the_feed_can_be_read,
        refuses_foreign_cursors,
        hints_at_new_changes;
    integrity:
        an_honest_history_verifies,
        history_is_append_only,
        every_column_is_sealed,
        a_missing_row_is_named,
        a_cut_tail_is_noticed,
        a_cut_resource_is_noticed,
        another_order_is_noticed,
        checkpoints_cannot_be_forged;
    lists:
        filters_find_what_they_say,
        terms_follow_the_resource;
    access:
        one_request_per_key,
        leases_change_hands_with_a_new_epoch,
        a_lease_of_any_holder_can_be_ended,
        an_epoch_never_comes_back,
        one_holder_per_lease;
    preconditions:
        a_change_holds_what_it_was_decided_on,
        two_that_hold_each_other_never_both_win,
        changes_together_are_all_or_nothing,
        a_resource_in_use_is_not_removed,
        a_change_marks_its_request;
    work:
        a_due_resource_is_claimed_once,
        a_postponed_resource_is_due_later,
        due_resources_are_postponed_together,
        claims_that_lapse_go_to_the_next,
        claims_of_many_never_meet,
        effects_of_one_type_take_turns,
        effects_are_claimed_by_their_type,
        claims_end_with_their_holder,
        a_repeated_effect_is_tried_at_once,
        effects_that_are_done_are_forgotten_later;
    observations:
        one_row_for_each_source,
        many_are_kept_at_once,
        nothing_is_kept_of_the_gone,
        one_observer_per_version;
    beside:
        one_writer_has_the_turn,
        changes_and_observations_are_all_or_nothing,
        pages_are_found_by_their_number;
    liveness:
        last_seen_survives_as_an_age;
    opening:
        opens_again_with_everything_in_place,
        makes_guards_again_that_were_taken,
        refuses_a_newer_schema;
    backups:
        is_one_state_while_servers_write,
        one_of_many_to_one_target_is_kept,
        carries_over_to_sqlite,
        carries_over_to_postgres,
        damage_is_noticed_before_anything_is_written;
}

/// A PostgreSQL is set up by others: what its transactions are by default changes nothing.
mod strict {
    use crate::isolation::strict;
    use crate::{commit, isolation, preconditions};

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_waiting_change_sees_the_one_before() {
        for isolation in ["repeatable read", "serializable"] {
            isolation::a_waiting_change_sees_the_one_before(strict(isolation).await).await;
        }
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn promises_are_kept() {
        for isolation in ["repeatable read", "serializable"] {
            preconditions::a_resource_in_use_is_not_removed(strict(isolation).await).await;
            preconditions::two_that_hold_each_other_never_both_win(strict(isolation).await).await;
            commit::one_winner_per_version(strict(isolation).await).await;
        }
    }
}

/// What only several servers on one database can show, or only one in a folder.
mod servers {
    use crate::database::Database;
    use crate::{commit, feed, isolation, liveness, opening, standby};

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_waiting_commit_delays_no_other() {
        commit::a_waiting_commit_delays_no_other(Database::postgres().await).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_returned_change_is_tried_alone() {
        isolation::a_returned_change_is_tried_alone(Database::postgres().await).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_refused_change_is_not_made_later() {
        isolation::a_refused_change_is_not_made_later(Database::postgres().await).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_read_only_database_is_named() {
        isolation::a_read_only_database_is_named(Database::postgres().await).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_standby_serves_no_request() {
        standby::a_standby_serves_no_request().await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_hung_primary_is_left_for_its_standby() {
        standby::a_hung_primary_is_left_for_its_standby().await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_silent_way_is_left_for_another() {
        standby::a_silent_way_is_left_for_another(Database::postgres().await).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_paused_server_keeps_its_connections() {
        standby::a_paused_server_keeps_its_connections().await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_primary_that_returns_is_used_again() {
        standby::a_primary_that_returns_is_used_again().await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn an_acknowledged_commit_is_on_disk() {
        standby::an_acknowledged_commit_is_on_disk().await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn an_unknown_outcome_is_reported_as_such() {
        isolation::an_unknown_outcome_is_reported_as_such(Database::postgres().await).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn two_servers_share_one_feed() {
        feed::two_servers_share_one_feed(Database::postgres().await).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_busy_feed_loses_nothing() {
        feed::a_busy_feed_loses_nothing(Database::postgres().await).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_slow_transaction_is_waited_for() {
        feed::a_slow_transaction_is_waited_for(Database::postgres().await).await;
    }

    #[tokio::test]
    async fn the_session_that_holds_back_the_feed_is_named() {
        feed::the_session_that_holds_back_the_feed_is_named(Database::postgres().await).await;
    }

    #[tokio::test]
    async fn a_slow_transaction_is_waited_for_by_kind() {
        feed::a_slow_transaction_is_waited_for_by_kind(Database::postgres().await).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_watermark_is_as_old_as_its_moment() {
        liveness::a_watermark_is_as_old_as_its_moment(Database::postgres().await).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn overdue_beats_are_found() {
        liveness::overdue_beats_are_found(Database::postgres().await).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_beat_comes_before_the_mark() {
        liveness::a_beat_comes_before_the_mark(Database::postgres().await).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn the_newer_beat_stays() {
        liveness::the_newer_beat_stays(Database::postgres().await).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn replicas_may_start_together() {
        opening::replicas_may_start_together(Database::postgres().await).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn recovers_when_its_connections_are_cut() {
        opening::recovers_when_its_connections_are_cut(Database::postgres().await).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn starts_without_settings() {
        opening::starts_without_settings(Database::postgres().await).await;
    }

    #[tokio::test]
    async fn refuses_history_of_another_cluster() {
        opening::refuses_history_of_another_cluster(Database::postgres().await).await;
    }

    #[tokio::test]
    async fn one_server_per_folder() {
        opening::one_server_per_folder(Database::sqlite()).await;
    }

    #[tokio::test]
    async fn says_what_is_wrong_with_the_url() {
        opening::says_what_is_wrong_with_the_url(Database::postgres().await).await;
    }

    #[tokio::test]
    async fn says_when_there_is_no_database() {
        opening::says_when_there_is_no_database().await;
    }
}
