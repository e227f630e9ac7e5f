//! `docs/reliability-tests.md` lists the tests behind each promise of `docs/reliability.md`.
//!
//! A listed test that no longer exists, and a promise without tests, fail here. `./dev bless` rewrites the
//! page, for example after a test moved to another file.

#![expect(clippy::unwrap_used, reason = "a panic is how a test says no")]

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    path::{Path, PathBuf},
};

/// The promises in the order of `docs/reliability.md`, each with its tests.
const PROMISES: &[(&str, &[&str])] = &[
    (
        "No acknowledged write is lost",
        &[
            "nothing_acknowledged_is_lost",
            "what_was_acknowledged_outlives_a_kill",
            "a_read_after_a_write_sees_it",
            "killed_writers_lose_nothing",
            "an_acknowledged_commit_is_on_disk",
            "a_restart_keeps_everything",
            "the_end_lets_a_change_finish_whose_caller_is_gone",
            "a_refused_change_is_not_made_later",
            "an_unknown_outcome_is_reported_as_such",
            "a_full_disk_refuses_a_batch_and_no_more",
            "a_failed_commit_refuses_a_batch_and_no_more",
            "a_read_only_database_is_named",
            "a_standby_serves_no_request",
            "a_primary_that_returns_is_used_again",
            "one_of_many_to_one_target_is_kept",
            "is_one_state_while_servers_write",
            "damage_is_noticed_before_anything_is_written",
        ],
    ),
    (
        "Only allowed moves happen, and one of several wins",
        &[
            "every_pair_of_states_is_as_the_document_says",
            "every_report_in_every_state",
            "contract_of_the_transitions",
            "contract_of_the_reports",
            "moves_of_one_node_have_one_winner",
            "failed_reports_count_once_each",
            "registrations_of_one_mac_make_one_node",
            "first_boots_of_one_mac_make_one_node",
            "patches_do_not_lose_each_other",
            "an_etag_guards_the_version_that_was_read",
            "a_member_that_changed_meanwhile_is_left_alone",
            "a_dry_run_says_what_would_happen_and_writes_nothing",
            "a_report_leaves_the_etag_alone",
            "a_tree_gets_no_circle_from_two_sides",
            "a_workflow_goes_or_is_used",
            "a_group_goes_or_is_used",
            "the_last_two_admins_do_not_both_go",
            "a_limit_holds_for_many_at_once",
            "one_winner_per_version",
            "one_writer_has_the_turn",
            "changes_and_observations_are_all_or_nothing",
            "fifty_adapters_report_at_once",
            "one_adapter_reports_fifty_times_at_once",
            "stories_equal_the_fold",
            "stories_in_process_equal_the_fold",
            "pools_and_the_deletion_of_their_cluster_do_not_cross",
            "promises_are_kept",
            "an_epoch_never_comes_back",
        ],
    ),
    (
        "A repeated request has one effect",
        &[
            "a_repeat_gets_the_same_answer",
            "many_at_once_have_one_effect",
            "an_answer_is_remembered_for_a_day",
            "a_key_belongs_to_its_caller",
            "a_request_that_was_cut_off_is_not_run_again",
            "a_satellite_that_was_made_is_not_made_again",
            "an_attempt_that_is_named_counts_once",
            "a_lost_answer_can_be_asked_for_again",
            "a_registration_is_repeated_for_a_minute_only",
            "what_is_killed_goes_on_and_makes_nothing_twice",
        ],
    ),
    (
        "History shows tampering",
        &[
            "history_cannot_be_rewritten",
            "tampering_is_noticed",
            "history_is_append_only",
            "every_column_is_sealed",
            "a_missing_row_is_named",
            "a_cut_tail_is_noticed",
            "checkpoints_cannot_be_forged",
            "makes_guards_again_that_were_taken",
            "the_chain_verifies_and_outlives_its_node",
            "transitions_have_the_shape_of_the_document",
            "people_are_named",
        ],
    ),
    (
        "The feed shows every change once, in order",
        &[
            "a_stream_resumes_without_gap_or_duplicate",
            "a_transaction_that_commits_late_is_not_skipped",
            "a_slow_transaction_is_waited_for",
            "a_slow_transaction_is_waited_for_by_kind",
            "changes_in_the_feed_can_be_read",
            "pages_of_the_feed_join",
            "a_cursor_of_another_feed_is_refused",
            "many_streams_cost_no_more_than_one",
            "a_slow_follower_misses_nothing_on_sqlite",
            "a_slow_follower_misses_nothing_on_postgres",
            "a_follower_that_returns_misses_nothing",
            "a_scope_covers_the_feed",
        ],
    ),
    (
        "A revocation holds from its answer on",
        &[
            "a_revoked_token_is_refused_on_the_next_request",
            "a_revocation_is_heeded_when_its_caller_hangs_up",
            "a_stream_ends_with_its_token",
            "a_revocation_bites_while_satellites_beat",
            "a_revocation_bites_within_a_request",
            "a_revocation_bites_while_the_database_is_slow",
            "a_revocation_bites_while_the_feed_is_held_back",
            "a_revocation_bites_before_a_credential_is_handed_out",
            "a_revocation_bites_while_both_are_away",
            "the_credential_before_is_void_while_the_feed_is_held_back",
            "a_new_credential_voids_the_old_one_also_when_it_was_silent_meanwhile",
            "a_satellite_revoked_during_its_exchange_is_known_by_either_credential",
            "an_agent_that_joined_before_a_reissue_is_kept_out",
            "the_deleted_never_come_back",
        ],
    ),
    (
        "Only permitted callers get in",
        &[
            "every_caller_tries_every_route",
            "every_caller_tries_the_routes_of_machines_from_elsewhere",
            "strangers_get_no_install_token",
            "machines_reach_only_what_they_need",
            "an_install_report_needs_the_token_of_its_node",
            "the_token_of_an_earlier_round_is_void",
            "a_token_that_proves_nothing_registers_nothing",
            "a_token_that_is_not_asked_for_opens_no_door",
            "an_approved_machine_cannot_rename_itself",
            "a_token_has_one_winner",
            "an_agent_speaks_only_of_its_own_node",
            "a_task_has_one_holder_and_one_end",
            "a_hash_made_without_the_key_is_refused",
            "a_token_written_into_the_database_is_refused",
            "whatever_is_no_svid_of_ours_is_not_let_in",
            "a_credential_dies_with_the_system_it_was_on",
            "a_whole_site_beats_beside_a_guesser",
        ],
    ),
    (
        "Secrets stay secret",
        &[
            "secrets_are_nowhere",
            "secrets_are_nowhere_beside_upstreams",
            "secrets_are_for_their_owner_only",
            "a_secret_is_shown_once",
            "everything_under_a_telling_name_is_hidden_and_comes_back_as_it_was",
            "secrets_of_a_config_are_for_its_satellites_only",
            "secrets_are_not_pushed_to_a_public_registry",
            "no_token_is_stored_in_clear",
            "a_node_refers_only_to_secrets_of_bmcs",
            "a_reference_leads_to_secrets_and_to_nothing_else",
            "an_address_holds_no_password",
            "only_the_expected_certificate_gets_the_password",
            "a_bmc_cannot_send_the_password_elsewhere",
            "no_secret_is_kept_in_an_error",
            "the_environment_is_in_manifests_and_nowhere_else",
        ],
    ),
    (
        "Bad input is refused and harms nothing",
        &[
            "fuzz_every_operation",
            "wrong_values_name_their_field",
            "broken_bodies_are_refused",
            "bodies_have_bounds",
            "hostile_paths_and_queries_are_refused",
            "hostile_headers_are_refused",
            "hostile_texts_are_data",
            "a_head_that_cannot_be_read_is_a_problem",
            "a_body_that_does_not_come_is_not_waited_for",
            "a_body_that_is_announced_too_large_is_not_waited_for",
            "a_damaged_cursor_is_refused_by_every_list",
            "a_header_that_means_one_thing_is_there_once",
            "a_request_that_takes_too_long_says_that_it_may_have_succeeded",
            "a_report_counts_whatever_its_words",
            "a_machine_is_registered_whatever_its_firmware_says",
            "a_beat_counts_however_much_it_says",
            "a_bad_number_never_costs_a_heartbeat",
        ],
    ),
    (
        "No member is marked silent by mistake",
        &[
            "a_pause_does_not_count_as_silence",
            "a_clock_jump_does_not_count_as_silence",
            "a_restart_does_not_count_as_silence",
            "a_paused_server_affects_no_other",
            "a_sweeper_that_wakes_up_late_changes_nothing",
            "a_client_that_beats_half_as_often_stays_online",
            "a_beat_that_takes_too_long_is_refused",
            "reports_of_a_satellite_survive_a_restart",
            "the_loss_of_a_zone_is_one_incident_and_stale_a_little_later",
            "an_absent_server_makes_no_node_silent",
            "a_member_that_came_back_is_not_judged_by_its_old_beat",
            "a_beat_between_the_look_and_the_mark_counts",
            "a_clock_that_is_set_forward_makes_no_member_stale",
        ],
    ),
    (
        "A silent member is found in time",
        &[
            "the_dead_are_found_in_time",
            "one_server_on_postgres_finds_the_dead_as_fast",
            "the_dead_are_found_while_a_replica_stands_still",
            "silence_is_judged_while_the_feed_is_held_back",
            "one_dead_among_many_is_found_in_time",
            "nodes_that_fall_silent_go_offline_whatever_ails_another",
            "nodes_go_offline_in_few_transactions",
            "a_silent_satellite_goes_stale_and_returns",
            "silence_counts_as_a_failure_and_tokens_expire",
        ],
    ),
    (
        "Harbor, SPIRE and registries follow the record",
        &[
            "a_robot_is_extended_before_it_ends",
            "a_robot_that_is_not_ours_is_left_alone",
            "a_revocation_waits_for_no_failure_from_before",
            "effects_of_a_crashed_server_are_begun_again",
            "an_interrupted_effect_is_begun_again",
            "a_late_request_is_corrected",
            "a_worker_that_stood_still_sends_no_outdated_state",
            "a_worker_without_its_claim_sends_harbor_nothing",
            "a_late_deletion_leaves_a_successor_its_agent",
            "entries_of_others_are_left_alone",
            "states_follow_their_records_into_the_registry",
            "a_registry_that_came_later_gets_earlier_states",
            "lost_states_are_published_again",
            "images_with_foreign_tags_are_not_pruned",
            "a_large_group_is_gone_at_once_and_emptied_afterwards",
        ],
    ),
    (
        "A run of a GPU node survives crashes and lost answers",
        &[
            "a_server_that_dies_in_the_middle_of_an_effect_repeats_nothing",
            "a_server_that_dies_while_a_node_leaves_repeats_nothing",
            "an_onboarding_survives_the_death_of_its_worker_at_every_point",
            "a_reimage_survives_the_death_of_its_worker_at_every_point",
            "a_decommission_survives_the_death_of_its_worker_at_every_point",
            "every_plan_is_walked_through",
            "every_plan_reaches_its_end",
            "a_crash_before_or_after_any_effect_is_survived",
            "a_stage_that_fails_stops_where_the_tables_say_and_goes_on",
            "whatever_reply_is_lost_nothing_is_done_twice",
            "whatever_request_is_refused_for_good_stops_its_run_and_leads_on",
            "random_schedules_end_where_they_should",
            "a_worker_that_wakes_up_late_writes_nothing",
            "nothing_of_a_frozen_run_is_written_by_its_worker",
            "a_cancel_undoes_the_work_of_every_stage",
            "work_in_progress_always_gets_its_owner_back",
            "two_operators_have_one_effect",
            "an_agent_that_dies_in_the_middle_of_a_task_does_it_again",
            "nothing_begins_beside_what_was_begun_before",
            "a_recommended_action_helps",
        ],
    ),
    (
        "A GPU node is used only when it is proven fit",
        &[
            "a_node_that_is_not_proven_clean_is_set_aside_when_its_run_is_stopped",
            "a_cleanup_of_disks_proves_nothing_of_gpus",
            "an_unproven_node_is_used_when_a_person_says_so",
            "a_quarantine_outlives_a_drain_and_a_retirement",
            "an_old_heartbeat_proves_nothing",
            "a_host_that_is_heard_is_drained",
            "drift_quarantines",
            "a_maas_that_lost_its_machines_is_doubted",
            "a_server_that_is_not_maas_takes_no_machine_away",
            "a_machine_of_another_node_needs_a_person",
            "a_foreign_machine_needs_a_person",
            "a_foreign_machine_is_left_alone",
            "a_foreign_system_after_a_refused_deployment_is_left_alone",
            "a_machine_that_was_found_is_given_back_as_it_was",
            "many_runs_at_once_try_a_wrong_password_twice",
            "conflicting_candidates_need_a_person",
            "a_missing_or_ambiguous_boot_disk_needs_a_person",
            "a_foreign_interface_needs_a_person",
            "a_machine_that_is_deleted_in_the_middle_needs_a_person",
            "a_machine_that_is_deleted_at_any_stage_on_its_way_out_needs_a_person",
            "a_datasource_failure_is_repaired_and_bounded",
            "a_machine_without_hardware_sync_needs_a_person",
            "a_status_that_no_run_causes_needs_a_person_at_any_stage",
        ],
    ),
    (
        "One slow or broken part does not stop the others",
        &[
            "an_upstream_that_hangs_holds_up_its_own_effects_only",
            "an_upstream_that_does_not_answer_is_left_alone",
            "effects_go_to_servers_that_can_perform_them",
            "a_site_that_hangs_keeps_no_other_waiting",
            "sites_that_share_a_maas_share_its_limits",
            "twelve_sites_share_a_slow_maas",
            "servers_share_a_limit",
            "no_run_starves",
            "slow_sites_leave_workers_for_others",
            "a_maas_that_is_down_is_not_asked_for_each_machine",
            "a_machine_that_cannot_be_listed_hides_no_other",
            "a_run_that_cannot_be_read_hides_no_other",
            "a_beat_that_fails_is_one_of_its_agent_alone",
            "a_machine_that_hangs_up_delays_no_other",
            "a_waiting_commit_delays_no_other",
            "guesses_at_a_satellite_delay_no_other",
            "buckets_are_separate",
            "streams_of_a_token_are_counted",
            "a_cluster_that_cannot_be_worked_on_delays_no_other",
        ],
    ),
];

/// Where a test is: its file, and whether it runs on SQLite and on PostgreSQL.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    file: String,
    both: bool,
}

type Tests = BTreeMap<String, Vec<Place>>;

#[test]
fn every_promise_has_its_tests() {
    let tests = tests();
    let missing: Vec<_> =
        PROMISES.iter().flat_map(|(_, names)| *names).filter(|name| !tests.contains_key(**name)).collect();
    assert!(
        missing.is_empty(),
        "no such test (renamed or removed?), listed in e2e/tests/promises.rs: {missing:?}"
    );

    let path = root().join("docs/reliability-tests.md");
    let page = page(&tests);
    if std::env::var_os("WARDROOM_BLESS").is_some() {
        std::fs::write(&path, &page).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(written == page, "docs/reliability-tests.md differs from the tree: run `./dev bless`");
}

#[test]
fn the_page_makes_these_promises_and_no_others() {
    let page = std::fs::read_to_string(root().join("docs/reliability.md")).unwrap();
    let numbered = |line: &&str| line.starts_with("## ") && line.contains(". ");
    let headings: Vec<_> = page.lines().filter(numbered).collect();
    let expected: Vec<_> =
        PROMISES.iter().enumerate().map(|(at, (title, _))| format!("## {}. {title}", at + 1)).collect();
    assert_eq!(headings, expected);
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn page(tests: &Tests) -> String {
    let mut page = String::from(
        "# Tests behind the promises\n\n\
         Generated from `e2e/tests/promises.rs` by `./dev bless`; do not edit.\n\n\
         The promises are in [reliability.md](reliability.md). \"Both\" tests run on SQLite and on PostgreSQL, the long ones on PostgreSQL in `./dev faults` and `./dev fuzz` only.\n",
    );
    for (at, (title, names)) in PROMISES.iter().enumerate() {
        write!(page, "\n## {}. {title}\n\n| Test | File | Databases |\n|---|---|---|\n", at + 1).unwrap();
        for name in *names {
            for place in &tests[*name] {
                let databases = if place.both { "both" } else { "" };
                writeln!(page, "| `{name}` | `{}` | {databases} |", place.file).unwrap();
            }
        }
    }
    page
}

/// Returns every test function of the tree by its name.
fn tests() -> Tests {
    let root = root().canonicalize().unwrap();
    let mut tests = Tests::new();
    let mut folders = vec![root.join("crates"), root.join("e2e")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let file = path.strip_prefix(&root).unwrap().to_str().unwrap();
                collect(file, &std::fs::read_to_string(&path).unwrap(), &mut tests);
            }
        }
    }
    tests.values_mut().for_each(|places| {
        places.sort();
        places.dedup();
    });
    tests
}

/// Adds the tests of a file: functions under a `test` attribute, and names listed in `on_both!` or `long_on_both!`.
fn collect(file: &str, text: &str, tests: &mut Tests) {
    let (mut attribute, mut listed) = (false, false);
    for line in text.lines().map(str::trim) {
        let mut add = |name: &str, both| {
            tests.entry(name.to_owned()).or_default().push(Place { file: file.to_owned(), both });
        };
        listed |= line.starts_with("on_both! {") || line.starts_with("long_on_both! {");
        if listed {
            listed = !line.ends_with('}');
            line.split(|c: char| !c.is_alphanumeric() && c != '_').for_each(|name| add(name, true));
        } else if line.starts_with("#[test]") || line.starts_with("#[tokio::test") {
            attribute = true;
        } else if attribute && let Some((_, rest)) = line.split_once("fn ") {
            attribute = false;
            rest.split('(').take(1).for_each(|name| add(name, false));
        }
    }
}
