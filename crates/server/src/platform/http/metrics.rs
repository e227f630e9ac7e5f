//! Metrics for Prometheus. Names of members are never labels: there may be a million.

mod process;

use std::{
    collections::BTreeMap,
    sync::{Mutex, OnceLock, PoisonError},
    time::{Duration, Instant},
};

use axum::{
    extract::State,
    http::header,
    response::{IntoResponse as _, Response},
};
use jiff::Timestamp;
use metrics::{Counter, Histogram, Key, KeyName, Label, Level, Metadata, Recorder as _, SharedString, Unit};
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle, PrometheusRecorder};
use wardroom_core::lifecycles::{self, Lifecycle};
use wardroom_store::{OpenEffects, StateCount};

use crate::platform::{
    app::App,
    http::access::{Class, Route, Routes},
    log,
};

/// Metrics between two scrapes.
pub(crate) struct Metrics {
    recorder: PrometheusRecorder,
    handle: PrometheusHandle,
    /// For each route of the access table, a counter for each class of answers.
    answers: Vec<[OnceLock<Counter>; CLASSES.len()]>,
    refusals: Counter,
    changes: Mutex<BTreeMap<String, Counter>>,
    /// For each class of routes, how long answers took.
    seconds: [(Class, Histogram); 5],
    /// The lifecycles of kinds that this server has.
    kinds: Vec<Lifecycle>,
    /// When members are to be counted again.
    counts_at: Mutex<Option<Instant>>,
}

/// How often members are counted, and the largest share of time that may take.
const COUNT: Duration = Duration::from_secs(15);
const COUNT_SHARE: u32 = 100;

/// Classes of answers, by the first digit of the status.
const CLASSES: [&str; 6] = ["other", "1xx", "2xx", "3xx", "4xx", "5xx"];

/// Classes that every route has from the start, so that the first failure shows as an increase.
const FROM_THE_START: [usize; 3] = [2, 4, 5];

const META: Metadata<'static> = Metadata::new("wardroom", Level::INFO, None);

/// Upper ends of the buckets of answer times, in seconds.
const BUCKETS: [f64; 10] = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 0.5, 2.0, 10.0];

/// Every metric with its meaning.
#[rustfmt::skip]
const NUMBERS: &[(&str, &str)] = &[
    ("wardroom_http_answers_total", "Answers, by route and class of status."),
    ("wardroom_http_refusals_total", "Requests refused before they reached a handler: no credentials, no permission, too many."),
    ("wardroom_http_answer_seconds", "How long answers took, by class of routes."),
    ("wardroom_build_info", "1, with the version of this server."),
    ("wardroom_members", "Members and runs, by kind and state; counted every 15 seconds, less often where that takes long."),
    ("wardroom_log_lines_dropped_total", "Lines of the log that were dropped: standard error did not take them, or not fast enough."),
    ("wardroom_changes_total", "Committed changes of resources, by kind."),
    ("wardroom_feed_followers", "Open streams of events, and requests that wait for events."),
    ("wardroom_feed_reads_total", "Reads of the feed from the database, for all followers together."),
    ("wardroom_adapters_waiting", "Open streams of events for adapters, and requests of adapters that wait for events."),
    ("wardroom_rechecks_total", "Re-checks of resources that adapters were told of."),
    ("wardroom_feed_held_back_seconds", "Age of the oldest change that the feed does not show yet because a transaction stays open in PostgreSQL; checked every 30 seconds."),
    ("wardroom_registry_overruled", "1 while this server publishes no states because a server that started later has other settings."),
    ("wardroom_effects_open", "Effects on Harbor, SPIRE and the registry that are not done yet, by type."),
    ("wardroom_effects_failing", "Effects not done yet whose last attempt failed, by type."),
    ("wardroom_effects_oldest_seconds", "Age of the oldest effect that is not done yet, by type."),
    ("wardroom_liveness_members", "Members that are watched, by kind."),
    ("wardroom_liveness_beats_total", "Heartbeats received."),
    ("wardroom_liveness_silent", "Members that are silent for longer than their interval."),
    ("wardroom_liveness_due", "Members that missed more heartbeats than the rule allows."),
    ("wardroom_liveness_suspected", "Due members that are held back because most of their zone fell silent together."),
    ("wardroom_liveness_holds", "Zones, and the fleet, whose silent members are held or being released."),
    ("wardroom_liveness_stale_total", "Members that this server marked as silent."),
    ("wardroom_liveness_deaf", "1 while this server cannot receive heartbeats."),
    ("wardroom_liveness_sweeping", "1 on the server that sweeps."),
    ("wardroom_liveness_replicas_gone_total", "Replicas that disappeared with heartbeats that they may not have stored."),
    ("wardroom_liveness_behind_seconds", "Age of the watermark of all servers, on the server that sweeps (0 elsewhere); members are judged as of the watermark."),
    ("wardroom_liveness_sweeps_total", "Sweeps of this server."),
    ("wardroom_liveness_sweep_seconds", "How long the last sweep took to judge."),
    ("wardroom_liveness_flushed_rows_total", "Heartbeats written to the database."),
    ("wardroom_liveness_flush_failed", "1 if the last write of heartbeats to the database failed."),
    ("wardroom_liveness_flush_seconds", "How long the last write of heartbeats to the database took."),
];

impl Metrics {
    pub(crate) fn new(routes: &Routes) -> Self {
        let builder = PrometheusBuilder::new().set_buckets(&BUCKETS);
        let recorder = builder.unwrap_or_else(|_| PrometheusBuilder::new()).build_recorder();
        for (name, meaning) in NUMBERS {
            let (key, text) = (KeyName::from_const_str(name), SharedString::const_str(meaning));
            match *name {
                counted if counted.ends_with("_total") => recorder.describe_counter(key, None, text),
                "wardroom_http_answer_seconds" => recorder.describe_histogram(key, Some(Unit::Seconds), text),
                _ => recorder.describe_gauge(key, None, text),
            }
        }
        let seconds =
            [Class::Read, Class::Write, Class::Report, Class::Register, Class::Health].map(|class| {
                let key = Key::from_parts(
                    "wardroom_http_answer_seconds",
                    vec![Label::new("class", class.as_str())],
                );
                (class, recorder.register_histogram(&key, &META))
            });
        let answers = routes.all().iter().map(|_| Default::default()).collect();
        let refusals =
            recorder.register_counter(&Key::from_static_name("wardroom_http_refusals_total"), &META);
        let (changes, counts_at) = Default::default();
        let handle = recorder.handle();
        let kinds = with_lifecycle(routes);
        let metrics = Self { handle, recorder, answers, refusals, changes, seconds, kinds, counts_at };
        metrics.begin(routes);
        metrics
    }

    /// Starts at zero the metrics of events that may never happen.
    fn begin(&self, routes: &Routes) {
        let version = [("version", env!("CARGO_PKG_VERSION"))];
        self.labelled("wardroom_build_info", &version, 1.0);
        for (row, route) in routes.all().iter().enumerate() {
            for class in FROM_THE_START {
                self.answers(row, route, class).increment(0);
            }
        }
        for kind in &self.kinds {
            self.changes_of(kind.name).increment(0);
        }
        self.members(&[]);
        self.feed_held_back(Duration::ZERO);
        self.registry_overruled(false);
    }

    pub(crate) fn answered(&self, routes: &Routes, route: &'static Route, status: u16, took: Duration) {
        let class = usize::from(status / 100).min(CLASSES.len() - 1);
        if let Some(row) = routes.all().iter().position(|row| std::ptr::eq(*row, route)) {
            self.answers(row, route, class).increment(1);
        }
        if let Some((_, seconds)) = self.seconds.iter().find(|(class, _)| *class == route.class) {
            seconds.record(took.as_secs_f64());
        }
    }

    fn answers(&self, row: usize, route: &Route, class: usize) -> &Counter {
        self.answers[row][class].get_or_init(|| {
            let labels = [("method", route.method), ("path", route.path), ("status", CLASSES[class])];
            self.counter("wardroom_http_answers_total", &labels)
        })
    }

    /// Counts a request that no handler saw.
    pub(crate) fn refused(&self) {
        self.refusals.increment(1);
    }

    pub(crate) fn changed(&self, kind: &str) {
        self.changes_of(kind).increment(1);
    }

    fn changes_of(&self, kind: &str) -> Counter {
        let mut changes = self.changes.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(counter) = changes.get(kind) {
            return counter.clone();
        }
        let key = Key::from_parts("wardroom_changes_total", vec![Label::new("kind", kind.to_owned())]);
        let counter = self.recorder.register_counter(&key, &META);
        changes.insert(kind.to_owned(), counter.clone());
        counter
    }

    /// Whether members are to be counted again by now.
    pub(crate) fn counts_again(&self, now: Instant) -> bool {
        self.counts_at.lock().unwrap_or_else(PoisonError::into_inner).is_none_or(|at| at <= now)
    }

    /// Schedules the next count of members: a large fleet is counted less often.
    pub(crate) fn counted(&self, began: Instant, ended: Instant) {
        let wait = COUNT.max(ended.duration_since(began) * COUNT_SHARE);
        *self.counts_at.lock().unwrap_or_else(PoisonError::into_inner) = Some(ended + wait);
    }

    /// Sets the number of members in each state, including zeros.
    pub(crate) fn members(&self, counts: &[StateCount]) {
        for kind in &self.kinds {
            for state in &kind.states {
                let is_it = |count: &&StateCount| count.kind == kind.name && count.state == state.name;
                let count = counts.iter().find(is_it).map_or(0, |found| found.count);
                self.labelled(
                    "wardroom_members",
                    &[("kind", kind.name), ("state", state.name)],
                    count as f64,
                );
            }
        }
    }

    /// Drops old buckets; called periodically.
    pub(crate) fn tidy(&self) {
        self.handle.run_upkeep();
    }

    fn counter(&self, name: &'static str, labels: &[(&'static str, &'static str)]) -> Counter {
        let labels: Vec<_> = labels.iter().map(|(key, value)| Label::from_static_parts(key, value)).collect();
        self.recorder.register_counter(&Key::from_parts(name, labels), &META)
    }

    fn set(&self, name: &'static str, value: f64) {
        self.recorder.register_gauge(&Key::from_static_name(name), &META).set(value);
    }

    fn labelled(&self, name: &'static str, labels: &[(&'static str, &'static str)], value: f64) {
        let labels: Vec<_> = labels.iter().map(|(key, value)| Label::from_static_parts(key, value)).collect();
        self.recorder.register_gauge(&Key::from_parts(name, labels), &META).set(value);
    }

    fn absolute(&self, name: &'static str, value: u64) {
        self.counter(name, &[]).absolute(value);
    }

    /// Sets the metrics of open effects for each type, including zeros.
    pub(crate) fn effects(&self, types: &[&str], open: &[OpenEffects], now: Timestamp) {
        for name in types.iter().filter(|name| open.iter().all(|open| open.effect_type != **name)) {
            self.effects_of(name, 0, 0, 0.0);
        }
        for open in open {
            let age = now.duration_since(open.oldest).as_secs_f64().max(0.0);
            self.effects_of(&open.effect_type, open.open, open.failing, age);
        }
    }

    fn effects_of(&self, effect_type: &str, open: i64, failing: i64, oldest: f64) {
        for (name, value) in [
            ("wardroom_effects_open", open as f64),
            ("wardroom_effects_failing", failing as f64),
            ("wardroom_effects_oldest_seconds", oldest),
        ] {
            let key = Key::from_parts(name, vec![Label::new("type", effect_type.to_owned())]);
            self.recorder.register_gauge(&key, &META).set(value);
        }
    }

    /// Sets how long the oldest change has been waiting that the feed does not show yet.
    pub(crate) fn feed_held_back(&self, since: Duration) {
        self.set("wardroom_feed_held_back_seconds", since.as_secs_f64());
    }

    /// Sets whether a server that started later has other settings of the registry.
    pub(crate) fn registry_overruled(&self, is_so: bool) {
        self.set("wardroom_registry_overruled", f64::from(u8::from(is_so)));
    }

    /// Reads the metrics that are only computed for a scrape.
    fn look_up(&self, app: &App) {
        let live = &app.liveness;
        let view = live.view();
        for (kind, count) in view.members {
            let key = Key::from_parts("wardroom_liveness_members", vec![Label::new("kind", kind)]);
            self.recorder.register_gauge(&key, &META).set(count as f64);
        }
        let holds = view.zones.values().chain([&view.fleet]).filter(|guard| guard.phase != "watching");
        let totals = live.totals();
        self.set("wardroom_liveness_silent", view.silent.into());
        self.set("wardroom_liveness_due", view.due.into());
        self.set("wardroom_liveness_suspected", view.suspected.into());
        self.set("wardroom_liveness_holds", holds.count() as f64);
        self.set("wardroom_liveness_deaf", f64::from(u8::from(view.listening.deaf.is_some())));
        self.set("wardroom_liveness_sweeping", f64::from(u8::from(view.sweeper.this_server)));
        self.set("wardroom_liveness_sweep_seconds", view.sweeper.last_sweep_micros.unwrap_or(0) as f64 / 1e6);
        self.set("wardroom_liveness_flush_failed", f64::from(u8::from(view.flush.failed)));
        self.set("wardroom_liveness_flush_seconds", view.flush.millis as f64 / 1e3);
        self.absolute("wardroom_log_lines_dropped_total", log::dropped());
        self.set("wardroom_feed_followers", app.tail.followers() as f64);
        self.absolute("wardroom_feed_reads_total", app.tail.reads());
        self.set("wardroom_adapters_waiting", app.tail.rechecks.adapters().values().sum::<usize>() as f64);
        self.absolute("wardroom_rechecks_total", app.tail.rechecks.told());
        self.absolute("wardroom_liveness_beats_total", totals.beats);
        self.absolute("wardroom_liveness_stale_total", totals.stale);
        self.absolute("wardroom_liveness_sweeps_total", totals.sweeps);
        self.absolute("wardroom_liveness_replicas_gone_total", totals.gone);
        self.set("wardroom_liveness_behind_seconds", totals.behind.as_secs_f64());
        self.absolute("wardroom_liveness_flushed_rows_total", totals.flushed);
    }
}

/// The lifecycles of kinds that have routes.
fn with_lifecycle(routes: &Routes) -> Vec<Lifecycle> {
    let is_served = |kind: &Lifecycle| routes.all().iter().any(|route| route.kind == kind.name);
    lifecycles::all().into_iter().filter(is_served).collect()
}

/// Numbers in the text format of Prometheus.
#[utoipa::path(
    get, path = "/metrics",
    responses((status = 200, description = "The numbers", body = String, content_type = "text/plain"), crate::platform::http::problems::Problems)
)]
pub(crate) async fn metrics(State(app): State<App>) -> Response {
    app.metrics.look_up(&app);
    let text = app.metrics.handle.render() + &process::text();
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text).into_response()
}
