//! The numbers for Prometheus.

use std::time::{SystemTime, UNIX_EPOCH};

use crate::support::{Backend, Site, node_in, on_both, wait_for};

on_both! {
    members_are_counted_by_kind_and_state,
    series_are_there_from_the_start,
    the_process_is_measured,
}

fn members_are_counted_by_kind_and_state(on: Backend) {
    let site = Site::start(on);
    for number in 0..3 {
        node_in(&site.admin(), "active", number);
    }
    node_in(&site.admin(), "pending", 3);
    let count = |state: &str| {
        let series = format!("wardroom_members{{kind=\"node\",state=\"{state}\"}} ");
        site.admin_at(0).number(&series)
    };
    wait_for("the members to be counted", || (count("active") == 3.0).then_some(()));
    assert_eq!((count("pending"), count("retired")), (1.0, 0.0));
}

fn series_are_there_from_the_start(on: Backend) {
    let site = Site::start(on);
    let text = site.admin_at(0).get("/metrics").text();
    let version = env!("CARGO_PKG_VERSION");
    for series in [
        "wardroom_http_refusals_total 0",
        "wardroom_http_answers_total{method=\"POST\",path=\"/api/v1/nodes\",status=\"5xx\"} 0",
        "wardroom_http_answer_seconds_count{class=\"write\"} 0",
        "wardroom_http_answer_seconds_count{class=\"report\"} 0",
        "wardroom_changes_total{kind=\"node\"} 0",
        "wardroom_members{kind=\"satellite\",state=\"revoked\"} 0",
        "wardroom_feed_held_back_seconds 0",
        "wardroom_log_lines_dropped_total 0",
        &format!("wardroom_build_info{{version=\"{version}\"}} 1"),
    ] {
        assert!(text.lines().any(|line| line == series), "{series} is not in {text}");
    }
    site.admin_at(0).get("/api/v1/nodes").expect(200);
    assert!(site.admin_at(0).number("wardroom_http_answer_seconds_count{class=\"read\"} ") >= 1.0);
}

#[expect(clippy::disallowed_methods, reason = "the process started by the clock of this machine")]
fn the_process_is_measured(on: Backend) {
    let site = Site::start(on);
    let number = |name: &str| site.admin_at(0).number(&format!("{name} "));
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs_f64();
    assert!(number("process_resident_memory_bytes") > 1e6);
    assert!(number("process_virtual_memory_bytes") > number("process_resident_memory_bytes"));
    assert!((3.0..1e6).contains(&number("process_open_fds")));
    assert!(number("process_max_fds") > number("process_open_fds"));
    assert!(number("process_cpu_seconds_total") > 0.0);
    assert!((number("process_start_time_seconds") - now).abs() < 600.0);
}
